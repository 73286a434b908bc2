/* Messages between threads: queues in memory, one for every pair.  The transport is as strict as a
   transport may be: a send does not complete before it is received, data that are being sent must
   not change, and data that are being received must not be read or written.

   A stand-in dies in a call of its transport: half of its messages are sent, and from then on no
   call succeeds in it.  The others' messages fail then, as those of MPI with ULFM do. */
#include "context/context.h"
#include "train/processes.h"

#include "collective/processes.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UNTOUCHED = 0xa5 }; /* every byte that is still to be received */

typedef struct request request;

typedef struct letter {
    struct letter *next;
    size_t from, to, number; /* number: of those from one to the other in a channel */
    unsigned channel;
    request *sender; /* NULL: it has failed */
    const void *sent;
    size_t n_bytes;
    uint8_t data[]; /* what stood there at first */
} letter;

typedef struct hub {
    pthread_mutex_t mutex;
    pthread_cond_t changed;
    size_t n, n_open;
    bool broken; /* all messages fail */
    letter *letters;
    /* Of stand-ins that die, by the ranks at the start. */
    size_t n_living, n_mended;    /* those that live now, and lived when the job was mended */
    size_t ranks[MOST_STAND_INS]; /* since then */
    bool any_died;                /* since then */
    bool dead[MOST_STAND_INS], away[MOST_STAND_INS]; /* away: it does nothing any more */
    /* Rounds in which all that live wait for each other. */
    size_t round, n_here, n_fine, n_mending;
    bool agreed; /* the outcome of the last one */
    /* [channel][from][to] */
    size_t n_sent[DPT_TRANSPORT_CHANNELS][MOST_STAND_INS][MOST_STAND_INS];
    size_t n_expected[DPT_TRANSPORT_CHANNELS][MOST_STAND_INS][MOST_STAND_INS];
} hub;

static hub the_hub;
static size_t failing_rank, failing_after = SIZE_MAX;
static const size_t *deaths; /* NULL: the job does not survive any */
static double delay;

/* One process's end of it. */
typedef struct end {
    size_t rank, n_started;
    size_t first, n_calls; /* the rank at the start; calls in which it may die */
    bool known;            /* all that live know that the job has to be mended */
} end;

struct request {
    size_t n_sends, n; /* that are not over, of sends and of receives */
    struct {
        dpt_message message;
        size_t number;
    } receives[];
};

static dpt_status hub_open(void **self, size_t *rank, size_t *n_ranks, dpt_error *error)
{
    end *e = calloc(1, sizeof *e);
    if (!e) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory");
    pthread_mutex_lock(&the_hub.mutex);
    e->rank = e->first = the_hub.n_open++;
    pthread_cond_broadcast(&the_hub.changed);
    while (deaths && the_hub.n_open < the_hub.n)
        pthread_cond_wait(&the_hub.changed, &the_hub.mutex);
    pthread_mutex_unlock(&the_hub.mutex);
    *self = e;
    *rank = e->rank;
    *n_ranks = the_hub.n;
    return DPT_OK;
}

static void hub_close(void *self)
{
    free(self);
}

static bool post(size_t from, const dpt_message *m, request *sender)
{
    letter *l = malloc(sizeof *l + m->n_bytes);
    if (!l) return false;
    sender->n_sends++;
    *l = (letter){.from = from,
                  .to = m->peer,
                  .sender = sender,
                  .sent = m->data,
                  .channel = m->channel,
                  .number = the_hub.n_sent[m->channel][from][m->peer]++,
                  .n_bytes = m->n_bytes,
                  .next = the_hub.letters};
    memcpy(l->data, m->data, m->n_bytes);
    the_hub.letters = l;
    return true;
}

/* Under the mutex: a request that has failed. */
static void give_up(request *r)
{
    for (letter *l = the_hub.letters; l; l = l->next)
        if (l->sender == r) l->sender = NULL;
    free(r);
}

/* ---- Deaths ---------------------------------------------------------------------------------- */

static void empty(void)
{
    while (the_hub.letters) {
        letter *l = the_hub.letters;
        the_hub.letters = l->next;
        free(l);
    }
}

/* The job is that of those that live. */
static void renew(void)
{
    the_hub.broken = the_hub.any_died = false;
    the_hub.n_mended = 0;
    for (size_t i = 0; i < the_hub.n; i++)
        if (!the_hub.dead[i]) the_hub.ranks[i] = the_hub.n_mended++;
    empty();
    memset(the_hub.n_sent, 0, sizeof the_hub.n_sent);
    memset(the_hub.n_expected, 0, sizeof the_hub.n_expected);
}

static void look_at_round(void)
{
    if (the_hub.n_here == 0 || the_hub.n_here < the_hub.n_living) return;
    the_hub.agreed = the_hub.n_fine == the_hub.n_here && !the_hub.any_died;
    if (the_hub.n_mending > 0) renew();
    the_hub.n_here = the_hub.n_fine = the_hub.n_mending = 0;
    the_hub.round++;
    pthread_cond_broadcast(&the_hub.changed);
}

/* Under the mutex, as what follows: waits for all that live. */
static void meet(bool fine, bool mending)
{
    const size_t round = the_hub.round;
    the_hub.n_here++;
    the_hub.n_fine += fine;
    the_hub.n_mending += mending;
    look_at_round();
    while (the_hub.round == round)
        pthread_cond_wait(&the_hub.changed, &the_hub.mutex);
}

static void die(size_t first)
{
    if (the_hub.dead[first]) return;
    the_hub.dead[first] = the_hub.any_died = the_hub.broken = true;
    the_hub.n_living--;
    look_at_round();
    pthread_cond_broadcast(&the_hub.changed);
}

static bool is_last_call(end *e)
{
    return deaths && e->n_calls++ == deaths[e->first];
}

static dpt_status tell_dead(dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_IO, "this stand-in is dead");
}

static bool hub_survives(void *self)
{
    (void)self;
    return deaths != NULL;
}

static dpt_status hub_settle(void *self, dpt_error *error)
{
    end *e = self;
    pthread_mutex_lock(&the_hub.mutex);
    if (is_last_call(e)) die(e->first);
    const bool dead = the_hub.dead[e->first];
    if (!dead) meet(true, false);
    const bool all = !dead && the_hub.agreed;
    e->known = !all;
    if (!all) the_hub.broken = true;
    pthread_mutex_unlock(&the_hub.mutex);
    if (dead) return tell_dead(error);
    return all ? DPT_OK : DPT_FAIL(error, DPT_E_IO, "a stand-in has died");
}

/* A process that has died writes no file any more. */
static void await_away(void)
{
    for (size_t i = 0; i < the_hub.n; i++)
        while (the_hub.dead[i] && !the_hub.away[i])
            pthread_cond_wait(&the_hub.changed, &the_hub.mutex);
}

static dpt_status hub_mend(void *self, size_t *rank, size_t *n_ranks, dpt_error *error)
{
    end *e = self;
    pthread_mutex_lock(&the_hub.mutex);
    if (is_last_call(e)) die(e->first);
    const bool dead = the_hub.dead[e->first];
    const size_t before = *n_ranks;
    if (!dead && !e->known) meet(false, false); /* those in `settle` learn of the failure */
    if (!dead) await_away();
    if (!dead) meet(true, true);
    e->known = false;
    if (!dead) *rank = e->rank = the_hub.ranks[e->first];
    if (!dead) *n_ranks = the_hub.n_mended;
    pthread_mutex_unlock(&the_hub.mutex);
    if (dead) return tell_dead(error);
    if (*n_ranks < before) return DPT_OK;
    return DPT_FAIL(error, DPT_E_IO, "messages have failed though no stand-in has died");
}

/* ---- Messages -------------------------------------------------------------------------------- */

static dpt_status hub_start(void *self, const dpt_message *messages, size_t n, void **out,
                            dpt_error *error)
{
    end *e = self;
    request *r = calloc(1, sizeof *r + n * sizeof *r->receives);
    if (!r) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory");
    pthread_mutex_lock(&the_hub.mutex);
    if (e->rank == failing_rank && e->n_started++ >= failing_after) the_hub.broken = true;
    const bool last = !the_hub.broken && is_last_call(e);
    if (last) n /= 2;
    for (size_t i = 0; i < n && !the_hub.broken; i++) {
        const dpt_message *m = &messages[i];
        if (!m->receive) {
            if (!post(e->rank, m, r)) the_hub.broken = true;
            continue;
        }
        memset(m->data, UNTOUCHED, m->n_bytes);
        r->receives[r->n].message = *m;
        r->receives[r->n++].number = the_hub.n_expected[m->channel][m->peer][e->rank]++;
    }
    if (last) die(e->first);
    pthread_cond_broadcast(&the_hub.changed);
    const bool broken = the_hub.broken || the_hub.dead[e->first];
    if (broken) give_up(r);
    pthread_mutex_unlock(&the_hub.mutex);
    if (broken) return DPT_FAIL(error, DPT_E_IO, "the stand-in's connection is cut");
    *out = r;
    return DPT_OK;
}

static letter *take(const dpt_message *m, size_t to, size_t number)
{
    for (letter **l = &the_hub.letters; *l; l = &(*l)->next) {
        letter *found = *l;
        if (found->from != m->peer || found->to != to || found->channel != m->channel ||
            found->number != number)
            continue;
        *l = found->next;
        return found;
    }
    return NULL;
}

static bool is_untouched(const dpt_message *m)
{
    const uint8_t *bytes = m->data;
    for (size_t i = 0; i < m->n_bytes; i++)
        if (bytes[i] != UNTOUCHED) return false;
    return true;
}

/* Where the connection is cut, whoever has seen it of one request asks for no other, and what those
   send may be freed. */
static bool is_still_there(const letter *l)
{
    return l->sender && !the_hub.broken;
}

static dpt_status deliver(const dpt_message *m, letter *l, dpt_error *error)
{
    if (l->sender) l->sender->n_sends--;
    if (l->n_bytes != m->n_bytes)
        return DPT_FAIL(error, DPT_E_INTERNAL, "%zu bytes are sent where %zu are expected",
                        l->n_bytes, m->n_bytes);
    if (is_still_there(l) && memcmp(l->sent, l->data, l->n_bytes) != 0)
        return DPT_FAIL(error, DPT_E_INTERNAL, "what is being sent has changed");
    if (!is_untouched(m))
        return DPT_FAIL(error, DPT_E_INTERNAL, "somebody writes to what is being received");
    memcpy(m->data, l->data, l->n_bytes);
    return DPT_OK;
}

/* Under the mutex: takes what has come of it. */
static dpt_status receive(const end *e, request *r, dpt_error *error)
{
    dpt_status status = DPT_OK;
    size_t n_left = 0;
    for (size_t i = 0; i < r->n; i++) {
        const dpt_message *m = &r->receives[i].message;
        letter *l = status == DPT_OK ? take(m, e->rank, r->receives[i].number) : NULL;
        if (l)
            status = deliver(m, l, error);
        else
            r->receives[n_left++] = r->receives[i];
        free(l);
    }
    r->n = n_left;
    return status;
}

static dpt_status hub_test(void *self, void *started, bool *done, dpt_error *error)
{
    const end *e = self;
    request *r = started;
    pthread_mutex_lock(&the_hub.mutex);
    dpt_status status = receive(e, r, error);
    *done = r->n == 0 && r->n_sends == 0;
    if (status == DPT_OK && !*done && (the_hub.broken || the_hub.dead[e->first]))
        status = DPT_FAIL(error, DPT_E_IO, "the stand-in's connection is cut");
    if (*done || status != DPT_OK) give_up(r);
    pthread_mutex_unlock(&the_hub.mutex);
    return status;
}

static const dpt_transport transport = {
    .abi = DPT_TRANSPORT_ABI,
    .name = "stand-in",
    .open = hub_open,
    .close = hub_close,
    .start = hub_start,
    .test = hub_test,
    .survives = hub_survives,
    .settle = hub_settle,
    .mend = hub_mend,
};

/* ---- Running --------------------------------------------------------------------------------- */

typedef struct thread_job {
    stand_in *part;
    void *user;
    dpt_status status;
    size_t rank;
    char message[512];
} thread_job;

/* A process that fails alone exits.  Its launcher ends the others, or they go on. */
static void end_job(dpt_context *context, size_t first)
{
    if (deaths) {
        pthread_mutex_lock(&the_hub.mutex);
        die(first);
        the_hub.away[first] = true;
        pthread_cond_broadcast(&the_hub.changed);
        pthread_mutex_unlock(&the_hub.mutex);
    }
    if (deaths || (context->processes && dpti_processes_agreed(context->processes))) return;
    pthread_mutex_lock(&the_hub.mutex);
    the_hub.broken = true;
    pthread_cond_broadcast(&the_hub.changed);
    pthread_mutex_unlock(&the_hub.mutex);
    dpt_process_give_up(context);
}

static void *run(void *argument)
{
    thread_job *job = argument;
    dpt_context *context = NULL;
    dpt_error error = {.status = DPT_OK};
    job->status = dpt_context_create(&context);
    if (job->status != DPT_OK) return NULL;
    job->status = dpti_processes_start(&transport, delay, &context->processes, &error);
    if (job->status == DPT_OK) {
        job->rank = dpt_process_rank(context);
        job->status = job->part(context, job->rank, job->user);
    }
    if (job->status != DPT_OK) {
        snprintf(job->message, sizeof job->message, "%s", dpt_error_message(context));
        end_job(context, job->rank);
    }
    dpt_context_destroy(context);
    return NULL;
}

dpt_status stand_ins_run(size_t n, stand_in *part, void *user, char message[512])
{
    pthread_t threads[MOST_STAND_INS];
    thread_job jobs[MOST_STAND_INS];
    the_hub = (hub){.n = n, .n_living = n};
    pthread_mutex_init(&the_hub.mutex, NULL);
    pthread_cond_init(&the_hub.changed, NULL);
    for (size_t i = 0; i < n; i++) {
        jobs[i] = (thread_job){.part = part, .user = user};
        if (pthread_create(&threads[i], NULL, run, &jobs[i]) != 0) abort();
    }
    const thread_job *failed = NULL;
    for (size_t i = 0; i < n; i++)
        if (pthread_join(threads[i], NULL) != 0) abort();
    for (size_t i = 0; i < n; i++)
        if (jobs[i].status != DPT_OK && (!failed || jobs[i].rank < failed->rank)) failed = &jobs[i];
    if (failed) snprintf(message, 512, "%s", failed->message);
    empty();
    pthread_cond_destroy(&the_hub.changed);
    pthread_mutex_destroy(&the_hub.mutex);
    return failed ? failed->status : DPT_OK;
}

void stand_ins_fail(size_t rank, size_t after)
{
    failing_rank = rank;
    failing_after = after;
}

void stand_ins_die(const size_t *calls)
{
    deaths = calls;
}

void stand_ins_delay(double seconds)
{
    delay = seconds;
}

void check_all_failed(test *t, size_t n, const dpt_status *statuses, char messages[][512],
                      dpt_status status, const char *words)
{
    for (size_t r = 0; r < n; r++)
        if (!CHECK(statuses[r] == status) || !CHECK(strstr(messages[r], words)))
            FAIL("process %zu: %s", r, messages[r]);
}

size_t stand_ins_count(const char *devices)
{
    size_t n = 1;
    for (; *devices; devices++)
        n += *devices == '|';
    return n;
}

void stand_ins_devices(const char *devices, size_t rank, char out[256])
{
    for (; rank > 0; rank--)
        devices = strchr(devices, '|') + 1;
    snprintf(out, 256, "%.*s", (int)strcspn(devices, "|"), devices);
}
