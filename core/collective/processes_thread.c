/* The communication thread, its calls, and the queue of collectives (processes.h). */
#include "collective/processes_state.h"

#include "base/clock.h"
#include "base/thread.h"
#include "device/signals.h"
#include "dpt_error.h"
#include "dptrain.h" /* dpt_status_words */

#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

/* A wait first polls without sleeping, for messages that arrive at once, and then sleeps between
   polls, because the cores of the machine may be devices.  Large messages move only while the
   transport is polled; if a device waits for them, polling is worth more than sleeping, so the wait
   polls longer. */
enum { LEAST_SLEEP = 20000, MOST_SLEEP = 200000, TIMER_SLACK = 1000 }; /* nanoseconds */
enum {
    MOST_SLEEP_BESIDE = 500000
};                       /* while nobody waits: the exchange runs beside the computation */
enum { MUCH = 1 << 16 }; /* bytes */
static const double eager_seconds = 50e-6, eager_seconds_for_much = 50e-3;

bool dpti_processes_has_failed(dpti_processes *p)
{
    pthread_mutex_lock(&p->mutex);
    const bool failed = p->failed;
    pthread_mutex_unlock(&p->mutex);
    return failed;
}

/* Keeps the first failure of the transport, which every later call returns. */
static void note_failure(dpti_processes *p, dpt_status status, const dpt_error *error)
{
    pthread_mutex_lock(&p->mutex);
    if (!p->failed)
        (void)DPT_FAIL_NATIVE(&p->first_failure, status, error->native,
                              "process %zu of %zu: %.400s", p->link.rank, p->link.n,
                              error->message[0] ? error->message : dpt_status_words(status));
    p->failed = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->mutex);
}

void dpti_processes_abandon(dpti_processes *p)
{
    pthread_mutex_lock(&p->mutex);
    const bool alone = !p->failed && p->open;
    p->failed = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->mutex);
    if (alone) dpti_link_leave(&p->link);
}

dpt_status dpti_processes_tell_failure(dpti_processes *p, dpt_error *error)
{
    pthread_mutex_lock(&p->mutex);
    const dpt_error first = p->first_failure;
    pthread_mutex_unlock(&p->mutex);
    if (first.status == DPT_OK) return DPT_FAIL(error, DPT_E_STATE, "this process has given up");
    *error = first;
    return error->status;
}

/* ---- The communication thread ---------------------------------------------------------------- */

/* After a failure of the transport, before anybody learns of it: ends what is in flight, because
   those who wait for it free its memory. */
void dpti_processes_end_in_flight(dpti_processes *p)
{
    if (!p->survives || p->broken) return;
    dpti_pipeline_end(p->pipeline);
    p->broken = true;
}

/* Looks at the collectives in flight; returns whether anything has moved. */
static bool look_at_collectives(dpti_processes *p)
{
    dpt_error error = {.status = DPT_OK};
    bool moved = false;
    if (p->broken) return false;
    pthread_mutex_lock(&p->mutex);
    dpti_ring ring = {.items = p->ring,
                      .n_items = DPTI_MOST_COLLECTIVES,
                      .n_started = p->failed ? 0 : p->n_started,
                      .n_over = p->n_over};
    p->looking = ring.n_over < ring.n_started;
    pthread_mutex_unlock(&p->mutex);
    if (ring.n_over >= ring.n_started) return false;
    const dpt_status status = dpti_pipeline_look(p->pipeline, &ring, &moved, &error);
    if (status != DPT_OK) {
        dpti_processes_end_in_flight(p);
        note_failure(p, status, &error);
    }
    pthread_mutex_lock(&p->mutex);
    if (ring.n_over != p->n_over || p->failed) pthread_cond_broadcast(&p->changed);
    p->n_over = ring.n_over;
    p->looking = false;
    pthread_mutex_unlock(&p->mutex);
    return moved;
}

/* How long nothing has moved, and how long to sleep until the next look. */
typedef struct patience {
    double since;
    long sleep; /* nanoseconds */
} patience;

static void begin_patience(patience *pause)
{
    *pause = (patience){.since = dpti_seconds(), .sleep = LEAST_SLEEP};
}

/* Returns how long to sleep now; 0 while polling is worthwhile. */
static long next_sleep(patience *pause, double eager)
{
    const long sleep = pause->sleep;
    if (dpti_seconds() - pause->since < eager) return 0;
    if (sleep < (eager > 0 ? MOST_SLEEP : MOST_SLEEP_BESIDE)) pause->sleep += sleep / 4;
    return sleep;
}

/* Called with the mutex locked, while there is no call and collectives are in flight.  A call ends
   the sleep. */
static void pause_between_calls(dpti_processes *p, patience *pause)
{
    const long sleep = next_sleep(pause, p->n_waiting > 0 ? eager_seconds_for_much : 0);
    struct timespec until;
    if (sleep == 0) {
        pthread_mutex_unlock(&p->mutex);
        (void)sched_yield();
        pthread_mutex_lock(&p->mutex);
        return;
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_nsec += sleep;
    until.tv_sec += until.tv_nsec / 1000000000;
    until.tv_nsec %= 1000000000;
    (void)pthread_cond_timedwait(&p->changed, &p->mutex, &until);
}

/* Called with the mutex locked. */
static void work_until_called(dpti_processes *p)
{
    patience pause;
    begin_patience(&pause);
    while (!p->call && !p->stop && !p->failed && p->n_over < p->n_started) {
        pthread_mutex_unlock(&p->mutex);
        const bool moved = look_at_collectives(p);
        pthread_mutex_lock(&p->mutex);
        if (moved)
            begin_patience(&pause);
        else if (!p->call && !p->stop)
            pause_between_calls(p, &pause);
    }
}

static void *communicate(void *argument)
{
    dpti_processes *p = argument;
    (void)prctl(PR_SET_TIMERSLACK, TIMER_SLACK); /* else a sleep takes 50 microseconds more */
    pthread_mutex_lock(&p->mutex);
    for (;;) {
        work_until_called(p);
        while (!p->call && !p->stop && (p->failed || p->n_over == p->n_started))
            pthread_cond_wait(&p->changed, &p->mutex);
        if (!p->call && p->stop) break;
        if (!p->call) continue;
        pthread_mutex_unlock(&p->mutex);
        const dpt_status status = p->call(p, p->argument, p->error);
        pthread_mutex_lock(&p->mutex);
        p->status = status;
        p->call = NULL;
        pthread_cond_broadcast(&p->changed);
    }
    pthread_mutex_unlock(&p->mutex);
    return NULL;
}

/* Lets the communication thread make a call, and waits for it. */
dpt_status dpti_processes_call(dpti_processes *p, dpti_processes_call_fn *function, void *argument,
                               dpt_error *error)
{
    pthread_mutex_lock(&p->mutex);
    while (p->busy)
        pthread_cond_wait(&p->changed, &p->mutex);
    p->busy = true;
    p->argument = argument;
    p->error = error;
    p->call = function;
    pthread_cond_broadcast(&p->changed);
    while (p->call)
        pthread_cond_wait(&p->changed, &p->mutex);
    const dpt_status status = p->status;
    p->busy = false;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->mutex);
    return status;
}

/* Allocates what depends on the number of processes. */
dpt_status dpti_processes_make_room(dpti_processes *p, dpt_error *error)
{
    const dpti_link *w = &p->link;
    p->delays = calloc(w->n, sizeof *p->delays);
    p->messages = calloc(4 * w->n, sizeof *p->messages);
    p->pipeline = dpti_pipeline_create(w);
    if (p->delays) p->delays[w->rank] = w->delay;
    if (p->delays && p->messages && p->pipeline) return DPT_OK;
    return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to exchange with %zu processes", w->n);
}

void dpti_processes_free_room(dpti_processes *p)
{
    dpti_pipeline_destroy(p->pipeline);
    free(p->messages);
    free(p->delays);
    p->pipeline = NULL;
    p->messages = NULL;
    p->delays = NULL;
}

static dpt_status run_open(dpti_processes *p, void *argument, dpt_error *error)
{
    (void)argument;
    DPT_TRY(dpti_link_open(&p->link, error));
    p->open = true;
    p->first = p->link.rank;
    p->n_first = p->link.n;
    p->arrival = SIZE_MAX;
    const dpt_transport_guests *guests = p->link.transport->guests;
    if (guests) p->comes = guests->comes(p->link.self, &p->first, &p->n_first);
    if (p->comes) {
        (void)DPT_FAIL(error, DPT_E_STATE, "the job has not let this process in yet");
        note_failure(p, DPT_E_STATE, error);
    }
    p->last = p->comes ? 0 : p->n_first - 1;
    p->survives = dpti_link_survives(&p->link);
    p->timeout = dpti_link_timeout(&p->link);
    return dpti_processes_make_room(p, error);
}

static dpt_status run_close(dpti_processes *p, void *argument, dpt_error *error)
{
    (void)argument;
    (void)error;
    dpti_link_close(&p->link);
    return DPT_OK;
}

static void release(dpti_processes *p)
{
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->mutex);
    dpti_processes_free_room(p);
    free(p->firsts);
    free(p);
}

static void end_thread(dpti_processes *p)
{
    pthread_mutex_lock(&p->mutex);
    p->stop = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->mutex);
    pthread_join(p->thread, NULL);
}

dpt_status dpti_processes_start(const dpt_transport *transport, double delay, dpti_processes **out,
                                dpt_error *error)
{
    dpti_processes *p = calloc(1, sizeof *p);
    if (!p) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a transport");
    p->link = (dpti_link){.transport = transport, .delay = delay, .n = 1};
    pthread_condattr_t clock;
    pthread_mutex_init(&p->mutex, NULL);
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_cond_init(&p->changed, &clock);
    pthread_condattr_destroy(&clock);
    const int code = dpti_thread_start(&p->thread, communicate, p, "transport");
    if (code != 0) {
        release(p);
        return DPT_FAIL_NATIVE(error, DPT_E_INTERNAL, code, "cannot start a thread: %s",
                               strerror(code));
    }
    dpti_signals signals;
    dpti_signals_save(&signals);
    dpt_status status = dpti_processes_call(p, run_open, NULL, error);
    dpti_signals_restore(&signals);
    if (status == DPT_OK && p->timeout > 0)
        status = dpti_pulse_start(p->timeout, p->link.rank, &p->pulse, error);
    if (status != DPT_OK) {
        dpti_processes_abandon(p); /* the others are not waited for */
        dpti_processes_stop(p);
        return status;
    }
    *out = p;
    return DPT_OK;
}

void dpti_processes_stop(dpti_processes *processes)
{
    dpti_processes *p = processes;
    dpt_error error = {.status = DPT_OK};
    if (!p) return;
    dpti_pulse_stop(p->pulse);
    /* After a failure the transport is not closed: other processes may never call its `close`. */
    if (p->open && dpti_processes_has_failed(p))
        dpti_link_abandon(&p->link);
    else if (p->open)
        (void)dpti_processes_call(p, run_close, NULL, &error);
    end_thread(p);
    release(p);
}

size_t dpti_processes_rank(const dpti_processes *processes)
{
    return processes->link.rank;
}

size_t dpti_processes_count(const dpti_processes *processes)
{
    return processes->link.n;
}

const char *dpti_processes_transport(const dpti_processes *processes)
{
    return processes->link.transport->name;
}

const double *dpti_processes_delays(const dpti_processes *processes)
{
    for (size_t r = 0; r < processes->link.n; r++)
        if (processes->delays[r] > 0) return processes->delays;
    return NULL;
}

void dpti_processes_give_up(dpti_processes *processes)
{
    if (!processes->agreed) dpti_processes_abandon(processes);
}

void dpti_processes_know(dpti_processes *processes)
{
    processes->agreed = true;
}

void dpti_processes_go_on(dpti_processes *processes)
{
    processes->agreed = false;
}

bool dpti_processes_agreed(const dpti_processes *processes)
{
    return processes->agreed;
}

/* ---- Messages -------------------------------------------------------------------------------- */

void dpti_processes_add(dpt_message *messages, size_t *n, const dpt_message *message)
{
    if (message->n_bytes > 0) messages[(*n)++] = *message;
}

/* Ends an exchange after a failure of collectives, or because this process has given up. */
static dpt_status leave_exchange(dpti_processes *p, void *request, dpt_error *error)
{
    bool done = false;
    if (!p->broken) return DPT_FAIL(error, DPT_E_STATE, "this process has given up");
    while (!done)
        if (dpti_link_test(&p->link, request, &done, error) != DPT_OK) break;
    return dpti_processes_tell_failure(p, error);
}

/* Sends and receives the first n messages, and works on collectives meanwhile. */
dpt_status dpti_processes_exchange(dpti_processes *p, size_t n, dpt_error *error)
{
    const dpti_link *w = &p->link;
    void *request = NULL;
    size_t n_bytes = 0;
    bool done = false;
    patience pause;
    if (n == 0) return DPT_OK;
    for (size_t i = 0; i < n; i++)
        n_bytes += p->messages[i].n_bytes;
    dpt_status status = dpti_link_start(w, (dpti_messages){p->messages, n}, &request, error);
    for (begin_patience(&pause);;) {
        if (status == DPT_OK) status = dpti_link_test(w, request, &done, error);
        if (status != DPT_OK) dpti_processes_end_in_flight(p);
        if (status != DPT_OK || done) return status;
        if (dpti_processes_has_failed(p)) return leave_exchange(p, request, error);
        if (look_at_collectives(p)) continue;
        const long sleep =
            next_sleep(&pause, n_bytes < MUCH ? eager_seconds : eager_seconds_for_much);
        if (sleep == 0)
            (void)sched_yield();
        else
            (void)nanosleep(&(struct timespec){.tv_nsec = sleep}, NULL);
    }
}

/* Makes a call that all processes make.  A failure is a failure of the transport. */
dpt_status dpti_processes_together(dpti_processes *p, dpti_processes_call_fn *function,
                                   void *argument, dpt_error *error)
{
    dpt_error own = {.status = DPT_OK};
    if (dpti_processes_has_failed(p)) return dpti_processes_tell_failure(p, error);
    const dpt_status status = dpti_processes_call(p, function, argument, &own);
    if (status == DPT_OK) return DPT_OK;
    note_failure(p, status, &own);
    return dpti_processes_tell_failure(p, error);
}

/* ---- Collectives beside calls ---------------------------------------------------------------- */

static dpt_status run_reserve(dpti_processes *p, void *argument, dpt_error *error)
{
    if (dpti_pipeline_reserve(p->pipeline, argument)) return DPT_OK;
    return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to exchange with %zu processes", p->link.n);
}

static dpt_status run_take(dpti_processes *p, void *argument, dpt_error *error)
{
    (void)error;
    dpti_pipeline_take(p->pipeline, argument);
    return DPT_OK;
}

dpt_status dpti_processes_set_travel(dpti_processes *processes, dpti_travel *travel,
                                     dpt_error *error)
{
    const dpti_travel *now = dpti_pipeline_travel(processes->pipeline);
    dpti_travel t = *travel;
    if (dpti_processes_has_failed(processes)) return dpti_processes_tell_failure(processes, error);
    if (t.route == now->route && t.window == now->window) return DPT_OK; /* in all of them */
    dpt_status status = dpti_processes_call(processes, run_reserve, &t, error);
    status = dpti_processes_agree(processes, status, error);
    /* A transport that has failed may still write to the present memory. */
    DPT_TRY(dpti_processes_call(processes, run_take, status == DPT_OK ? &t : NULL, error));
    if (status == DPT_OK) *travel = t;
    return status;
}

void dpti_processes_start_collective(dpti_processes *processes, const dpti_collective *collective)
{
    dpti_processes *p = processes;
    pthread_mutex_lock(&p->mutex);
    while (!p->failed && p->n_started - p->n_over == DPTI_MOST_COLLECTIVES)
        pthread_cond_wait(&p->changed, &p->mutex);
    if (!p->failed) p->ring[p->n_started++ % DPTI_MOST_COLLECTIVES] = *collective;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->mutex);
}

size_t dpti_processes_count_collectives(dpti_processes *processes)
{
    pthread_mutex_lock(&processes->mutex);
    const size_t n = processes->n_started;
    pthread_mutex_unlock(&processes->mutex);
    return n;
}

dpt_status dpti_processes_finish_collectives(dpti_processes *processes, dpt_error *error)
{
    return dpti_processes_await_collectives(processes, SIZE_MAX, error);
}

dpt_status dpti_processes_await_collectives(dpti_processes *processes, size_t n, dpt_error *error)
{
    dpti_processes *p = processes;
    pthread_mutex_lock(&p->mutex);
    const bool all = n > p->n_started;
    p->n_waiting++;
    pthread_cond_broadcast(&p->changed);
    while ((all && p->looking) || (!p->failed && p->n_over < (all ? p->n_started : n)))
        pthread_cond_wait(&p->changed, &p->mutex);
    p->n_waiting--;
    const bool failed = p->failed;
    pthread_mutex_unlock(&p->mutex);
    return failed ? dpti_processes_tell_failure(p, error) : DPT_OK;
}
