/* The communication thread, its calls, and the queue of collectives. */
#include "collective/processes.h"

#include "base/clock.h"
#include "base/thread.h"
#include "collective/pipeline.h"
#include "collective/pulse.h"
#include "device/signals.h"
#include "dpt_error.h"
#include "dptrain.h" /* dpt_status_words */

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
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

typedef dpt_status call_fn(dpti_processes *processes, void *argument, dpt_error *error);

struct dpti_processes {
    dpti_link link;
    bool open;
    bool survives;         /* the job goes on when a process has died */
    double timeout;        /* as dpti_processes_timeout has it */
    dpti_pulse *pulse;     /* NULL: none */
    bool broken;           /* the transport has failed, and nothing is in flight any more */
    bool lost;             /* it could not be mended */
    bool agreed;           /* all know of the last failure */
    size_t first, n_first; /* the rank and the number of processes at the start */
    size_t *firsts;        /* (n) as dpti_processes_first has it; NULL: the present ranks */
    size_t last;           /* the highest of all that were there at any time */
    size_t arrival;        /* of the process that was let in last; SIZE_MAX: none, or it is old */
    bool comes;            /* this process has come and is not let in yet */
    double *delays;        /* (n) as dpti_processes_delays has them */
    dpt_message *messages; /* (4 n) */
    dpti_pipeline *pipeline;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    bool failed;             /* the transport, or this process alone: */
    dpt_error first_failure; /* how, if it was the transport */
    bool busy, stop;
    call_fn *call; /* NULL: nothing to do */
    void *argument;
    dpt_error *error;
    dpt_status status;
    dpti_collective ring[DPTI_MOST_COLLECTIVES];
    size_t n_started, n_over, n_waiting; /* collectives, ever; threads that wait for them */
    bool looking;                        /* at collectives: their memory is in use */
};

static bool has_failed(dpti_processes *p)
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

static void give_up(dpti_processes *p)
{
    pthread_mutex_lock(&p->mutex);
    const bool alone = !p->failed && p->open;
    p->failed = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->mutex);
    if (alone) dpti_link_leave(&p->link);
}

static dpt_status tell_failure(dpti_processes *p, dpt_error *error)
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
static void end_in_flight(dpti_processes *p)
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
        end_in_flight(p);
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
static dpt_status call(dpti_processes *p, call_fn *function, void *argument, dpt_error *error)
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
static dpt_status make_room(dpti_processes *p, dpt_error *error)
{
    const dpti_link *w = &p->link;
    p->delays = calloc(w->n, sizeof *p->delays);
    p->messages = calloc(4 * w->n, sizeof *p->messages);
    p->pipeline = dpti_pipeline_create(w);
    if (p->delays) p->delays[w->rank] = w->delay;
    if (p->delays && p->messages && p->pipeline) return DPT_OK;
    return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to exchange with %zu processes", w->n);
}

static void free_room(dpti_processes *p)
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
    return make_room(p, error);
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
    free_room(p);
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
    dpt_status status = call(p, run_open, NULL, error);
    dpti_signals_restore(&signals);
    if (status == DPT_OK && p->timeout > 0)
        status = dpti_pulse_start(p->timeout, p->link.rank, &p->pulse, error);
    if (status != DPT_OK) {
        give_up(p); /* the others are not waited for */
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
    if (p->open && has_failed(p))
        dpti_link_abandon(&p->link);
    else if (p->open)
        (void)call(p, run_close, NULL, &error);
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
    if (!processes->agreed) give_up(processes);
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

static void add(dpt_message *messages, size_t *n, const dpt_message *message)
{
    if (message->n_bytes > 0) messages[(*n)++] = *message;
}

/* Adds the messages of an all-gather: this process sends its bytes of `base`, [begins[rank],
   begins[rank + 1]), to every other process and receives theirs. */
static void add_all_gather(const dpti_processes *p, uint8_t *base, const size_t *begins,
                           size_t *n_messages)
{
    for (size_t r = 0; r < p->link.n; r++) {
        if (r == p->link.rank) continue;
        add(p->messages, n_messages,
            &(dpt_message){.peer = r,
                           .data = base + begins[p->link.rank],
                           .n_bytes = begins[p->link.rank + 1] - begins[p->link.rank]});
        add(p->messages, n_messages,
            &(dpt_message){.receive = true,
                           .peer = r,
                           .data = base + begins[r],
                           .n_bytes = begins[r + 1] - begins[r]});
    }
}

/* Ends an exchange after a failure of collectives, or because this process has given up. */
static dpt_status leave_exchange(dpti_processes *p, void *request, dpt_error *error)
{
    bool done = false;
    if (!p->broken) return DPT_FAIL(error, DPT_E_STATE, "this process has given up");
    while (!done)
        if (dpti_link_test(&p->link, request, &done, error) != DPT_OK) break;
    return tell_failure(p, error);
}

/* Sends and receives the first n messages, and works on collectives meanwhile. */
static dpt_status exchange(dpti_processes *p, size_t n, dpt_error *error)
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
        if (status != DPT_OK) end_in_flight(p);
        if (status != DPT_OK || done) return status;
        if (has_failed(p)) return leave_exchange(p, request, error);
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
static dpt_status together(dpti_processes *p, call_fn *function, void *argument, dpt_error *error)
{
    dpt_error own = {.status = DPT_OK};
    if (has_failed(p)) return tell_failure(p, error);
    const dpt_status status = call(p, function, argument, &own);
    if (status == DPT_OK) return DPT_OK;
    note_failure(p, status, &own);
    return tell_failure(p, error);
}

/* ---- Processes that die ---------------------------------------------------------------------- */

bool dpti_processes_survive(const dpti_processes *processes)
{
    return processes->survives;
}

double dpti_processes_timeout(const dpti_processes *processes)
{
    return processes->timeout;
}

bool dpti_processes_cut_off(dpti_processes *processes)
{
    dpti_processes *p = processes;
    pthread_mutex_lock(&p->mutex);
    const bool transport = p->failed && p->first_failure.status != DPT_OK;
    pthread_mutex_unlock(&p->mutex);
    return transport;
}

bool dpti_processes_to_mend(dpti_processes *processes)
{
    return processes->survives && !processes->lost && dpti_processes_cut_off(processes);
}

static dpt_status run_settle(dpti_processes *p, void *argument, dpt_error *error)
{
    (void)argument;
    const dpt_status status = dpti_link_settle(&p->link, error);
    if (status != DPT_OK) end_in_flight(p);
    return status;
}

dpt_status dpti_processes_settle(dpti_processes *processes, dpt_error *error)
{
    return processes->survives ? together(processes, run_settle, NULL, error) : DPT_OK;
}

static dpt_status run_mend(dpti_processes *p, void *argument, dpt_error *error)
{
    (void)argument;
    DPT_TRY(dpti_link_mend(&p->link, error));
    free_room(p);
    p->broken = false;
    return make_room(p, error);
}

/* Tells all processes which ranks they had at the start. */
static dpt_status tell_firsts(dpti_processes *p, dpt_error *error)
{
    dpti_gathered all = {.data = NULL};
    const uint64_t mine = p->first;
    DPT_TRY(dpti_processes_gather(p, (dpti_bytes){&mine, sizeof mine}, &all, error));
    size_t *firsts = calloc(p->link.n, sizeof *firsts);
    for (size_t r = 0; firsts && r < p->link.n; r++) {
        uint64_t first;
        memcpy(&first, all.data + r * sizeof first, sizeof first);
        firsts[r] = (size_t)first;
    }
    dpti_gathered_free(&all);
    if (!firsts) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to exchange with processes");
    free(p->firsts);
    p->firsts = firsts;
    /* One process comes at a time, and its place is above all others. */
    const size_t newest = firsts[p->link.n - 1];
    if (newest > p->last) p->arrival = p->last = newest;
    return DPT_OK;
}

static dpt_status mend_once(dpti_processes *p, dpt_error *error)
{
    const dpt_status status = call(p, run_mend, NULL, error);
    p->lost = status != DPT_OK;
    DPT_TRY(status);
    p->comes = false;
    pthread_mutex_lock(&p->mutex);
    p->failed = false;
    p->first_failure = (dpt_error){.status = DPT_OK};
    p->n_started = p->n_over = 0;
    p->agreed = false;
    pthread_mutex_unlock(&p->mutex);
    DPT_TRY(tell_firsts(p, error));
    return dpti_processes_tell_delays(p, error);
}

dpt_status dpti_processes_mend(dpti_processes *processes, dpt_error *error)
{
    dpti_processes *p = processes;
    if (!dpti_processes_to_mend(p))
        return DPT_FAIL(error, DPT_E_STATE, "there is no failure between processes to go on from");
    dpt_status status = mend_once(p, error);
    while (status != DPT_OK && dpti_processes_to_mend(p)) /* another one has died meanwhile */
        status = mend_once(p, error);
    return status;
}

const dpti_link *dpti_processes_link(const dpti_processes *processes)
{
    return &processes->link;
}

bool dpti_processes_come(const dpti_processes *processes)
{
    return processes->comes;
}

static dpt_status run_let_in(dpti_processes *p, void *argument, dpt_error *error)
{
    (void)argument;
    p->link.admits = true;
    end_in_flight(p);
    return DPT_FAIL(error, DPT_E_STATE, "another process joins");
}

void dpti_processes_let_in(dpti_processes *processes)
{
    dpt_error error = {.status = DPT_OK};
    (void)together(processes, run_let_in, NULL, &error);
}

bool dpti_processes_is_new(const dpti_processes *processes, size_t rank)
{
    return dpti_processes_first(processes, rank) == processes->arrival;
}

void dpti_processes_have_arrived(dpti_processes *processes)
{
    processes->arrival = SIZE_MAX;
}

bool dpti_processes_end_alone(dpti_processes *processes, dpt_status mine, const dpt_error *why)
{
    dpti_processes *p = processes;
    if (mine == DPT_OK || !dpti_processes_is_new(p, p->link.rank) || has_failed(p)) return false;
    p->lost = true;
    pthread_mutex_lock(&p->mutex);
    p->first_failure = *why;
    p->first_failure.status = mine;
    pthread_mutex_unlock(&p->mutex);
    give_up(p);
    return true;
}

size_t dpti_processes_first(const dpti_processes *processes, size_t rank)
{
    return processes->firsts ? processes->firsts[rank] : rank;
}

size_t dpti_processes_first_count(const dpti_processes *processes)
{
    return processes->n_first;
}

bool dpti_processes_live(const dpti_processes *processes, size_t first)
{
    for (size_t r = 0; r < processes->link.n; r++)
        if (dpti_processes_first(processes, r) == first) return true;
    return false;
}

/* ---- All-gather with a vote ------------------------------------------------------------------ */

typedef struct shard_job {
    const dpti_table *table;
    dpt_status *brought; /* (n) */
} shard_job;

static dpt_status run_shard(dpti_processes *p, void *argument, dpt_error *error)
{
    const shard_job *job = argument;
    size_t n_messages = 0;
    for (size_t r = 0; r < p->link.n; r++) {
        if (r == p->link.rank) continue;
        add(p->messages, &n_messages,
            &(dpt_message){
                .peer = r, .data = &job->brought[p->link.rank], .n_bytes = sizeof *job->brought});
        add(p->messages, &n_messages,
            &(dpt_message){.receive = true,
                           .peer = r,
                           .data = &job->brought[r],
                           .n_bytes = sizeof *job->brought});
    }
    add_all_gather(p, job->table->data, job->table->begins, &n_messages);
    return exchange(p, n_messages, error);
}

static dpt_status first_failure(const dpt_status *brought, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (brought[i] != DPT_OK) return brought[i];
    return DPT_OK;
}

dpt_status dpti_processes_share(dpti_processes *processes, const dpti_table *table,
                                dpt_status *verdict, dpt_error *error)
{
    dpti_processes *p = processes;
    dpt_status *brought = calloc(p->link.n, sizeof *brought);
    shard_job job = {.table = table, .brought = brought};
    if (!brought) {
        give_up(p);
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to exchange with other processes");
    }
    brought[p->link.rank] = *verdict;
    const dpt_status status = together(p, run_shard, &job, error);
    if (status == DPT_OK) *verdict = first_failure(brought, p->link.n);
    free(brought);
    return status;
}

/* ---- Gathering what has any size ------------------------------------------------------------- */

void dpti_gathered_free(dpti_gathered *gathered)
{
    free(gathered->data);
    free(gathered->begins);
    *gathered = (dpti_gathered){.data = NULL};
}

/* Gathers the sizes first, then the bytes. */
static dpt_status gather(dpti_processes *p, dpti_bytes mine, dpti_gathered *g, dpt_error *error)
{
    dpt_status verdict = DPT_OK;
    uint64_t *sizes = calloc(p->link.n, sizeof *sizes);
    g->begins = calloc(p->link.n + 1, sizeof *g->begins);
    dpt_status status = DPT_E_NO_MEMORY;
    if (!sizes || !g->begins) goto end;
    for (size_t r = 0; r <= p->link.n; r++)
        g->begins[r] = r * sizeof *sizes;
    sizes[p->link.rank] = mine.n_bytes;
    status = dpti_processes_share(p, &(dpti_table){sizes, g->begins}, &verdict, error);
    if (status != DPT_OK) goto end;
    g->begins[0] = 0;
    for (size_t r = 0; r < p->link.n; r++)
        g->begins[r + 1] = g->begins[r] + (size_t)sizes[r];
    g->data = calloc(g->begins[p->link.n] + 1, 1);
    status = DPT_E_NO_MEMORY;
    if (!g->data) goto end;
    if (mine.n_bytes > 0) memcpy(g->data + g->begins[p->link.rank], mine.data, mine.n_bytes);
    verdict = DPT_OK;
    status = dpti_processes_share(p, &(dpti_table){g->data, g->begins}, &verdict, error);
end:
    if (status == DPT_E_NO_MEMORY && !has_failed(p)) {
        give_up(p);
        (void)DPT_FAIL(error, status, "no memory to exchange with other processes");
    }
    free(sizes);
    return status;
}

dpt_status dpti_processes_gather(dpti_processes *processes, dpti_bytes mine, dpti_gathered *out,
                                 dpt_error *error)
{
    dpti_gathered g = {.data = NULL};
    const dpt_status status = gather(processes, mine, &g, error);
    if (status == DPT_OK && out)
        *out = g;
    else
        dpti_gathered_free(&g);
    return status;
}

dpt_status dpti_processes_tell_delays(dpti_processes *processes, dpt_error *error)
{
    dpti_processes *p = processes;
    dpti_gathered all = {.data = NULL};
    DPT_TRY(
        dpti_processes_gather(p, (dpti_bytes){&p->link.delay, sizeof p->link.delay}, &all, error));
    memcpy(p->delays, all.data, p->link.n * sizeof *p->delays);
    dpti_gathered_free(&all);
    return DPT_OK;
}

/* Returns the first failure among the n reports, or NULL.  *alike says whether all reports are the
   same. */
static const dpt_error *find_failure(const dpt_error *reports, size_t n, size_t *rank, bool *alike)
{
    const dpt_error *found = NULL;
    *alike = true;
    for (size_t r = n; r-- > 0;) {
        *alike = *alike && reports[r].status == reports[0].status &&
                 strcmp(reports[r].message, reports[0].message) == 0;
        if (reports[r].status == DPT_OK) continue;
        found = &reports[r];
        *rank = r;
    }
    return found;
}

dpt_status dpti_processes_agree(dpti_processes *processes, dpt_status mine, dpt_error *error)
{
    dpti_processes *p = processes;
    dpti_gathered reports = {.data = NULL};
    dpt_error report = {.status = mine};
    size_t rank = 0;
    bool alike;
    if (mine != DPT_OK) {
        report = *error;
        report.status = mine;
        report.file = NULL; /* an address of this process */
    }
    DPT_TRY(dpti_processes_gather(p, (dpti_bytes){&report, sizeof report}, &reports, error));
    const dpt_error *found =
        find_failure((const dpt_error *)(const void *)reports.data, p->link.n, &rank, &alike);
    p->agreed = found != NULL;
    if (found && alike)
        *error = *found;
    else if (found)
        (void)DPT_FAIL_NATIVE(error, found->status, found->native, "process %zu: %.480s", rank,
                              found->message[0] ? found->message : dpt_status_words(found->status));
    const dpt_status status = found ? found->status : DPT_OK;
    dpti_gathered_free(&reports);
    return status;
}

/* ---- To the first process, and from it ------------------------------------------------------- */

typedef struct rooted_job {
    bool to_first;
    uint8_t *mine, *all;
    size_t n_bytes;
} rooted_job;

static dpt_status run_rooted(dpti_processes *p, void *argument, dpt_error *error)
{
    const rooted_job *job = argument;
    const bool is_first = p->link.rank == 0;
    size_t n_messages = 0;
    for (size_t r = 1; r < p->link.n; r++) {
        dpt_message m = {.receive = is_first == job->to_first, .n_bytes = job->n_bytes};
        if (!is_first && r != p->link.rank) continue;
        m.peer = is_first ? r : 0;
        m.data = is_first ? job->all + r * job->n_bytes : job->mine;
        add(p->messages, &n_messages, &m);
    }
    return exchange(p, n_messages, error);
}

dpt_status dpti_processes_collect(dpti_processes *processes, const dpti_rooted *what,
                                  dpt_error *error)
{
    rooted_job job = {
        .to_first = true, .mine = what->mine, .all = what->all, .n_bytes = what->n_bytes};
    if (processes->link.rank == 0) memcpy(what->all, what->mine, what->n_bytes);
    return together(processes, run_rooted, &job, error);
}

dpt_status dpti_processes_deal(dpti_processes *processes, const dpti_rooted *what, dpt_error *error)
{
    rooted_job job = {.mine = what->mine, .all = what->all, .n_bytes = what->n_bytes};
    if (processes->link.rank == 0) memcpy(what->mine, what->all, what->n_bytes);
    return together(processes, run_rooted, &job, error);
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
    if (has_failed(processes)) return tell_failure(processes, error);
    if (t.route == now->route && t.window == now->window) return DPT_OK; /* in all of them */
    dpt_status status = call(processes, run_reserve, &t, error);
    status = dpti_processes_agree(processes, status, error);
    /* A transport that has failed may still write to the present memory. */
    DPT_TRY(call(processes, run_take, status == DPT_OK ? &t : NULL, error));
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
    return failed ? tell_failure(p, error) : DPT_OK;
}
