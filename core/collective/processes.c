/* The communication thread, and collectives out of messages. */
#include "collective/processes.h"

#include "base/base.h"
#include "device/signals.h"
#include "dptrain.h" /* dpt_status_words */

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    SLICE_ALIGNMENT = 16, /* elements: a cache line */
    CHUNK = 512 * 1024,   /* elements of a slice that are under way at a time: 2 MiB */
    BLOCK = 4096,         /* elements that are summed at a time: 16 KiB, which stays in L1 */
    CHUNKS_UNDER_WAY = 2, /* one is summed while the next one travels */
};

typedef dpt_status call_fn(dpti_processes *processes, void *argument, dpt_error *error);

struct dpti_processes {
    const dpt_transport *transport;
    void *self;
    size_t rank, n;
    bool open;
    atomic_bool failed;    /* the transport, or this process alone: */
    dpt_error first;       /* how, if it was the transport */
    bool agreed;           /* all know of the last failure */
    float *staging;        /* (CHUNKS_UNDER_WAY, n - 1, CHUNK) */
    dpt_message *messages; /* (4 n) */
    pthread_t thread;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    bool busy, stop;
    call_fn *call; /* NULL: nothing to do */
    void *argument;
    dpt_error *error;
    dpt_status status;
};

/* ---- The communication thread ---------------------------------------------------------------- */

static void *communicate(void *argument)
{
    dpti_processes *p = argument;
    pthread_mutex_lock(&p->mutex);
    for (;;) {
        while (!p->call && !p->stop)
            pthread_cond_wait(&p->changed, &p->mutex);
        if (!p->call) break;
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

/* Has it done by the communication thread, and waits. */
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

static dpt_status run_open(dpti_processes *p, void *argument, dpt_error *error)
{
    (void)argument;
    DPT_TRY(p->transport->open(&p->self, &p->rank, &p->n, error));
    p->open = true;
    p->messages = calloc(4 * p->n, sizeof *p->messages);
    p->staging =
        p->n > 1 ? dpti_alloc_aligned(CHUNKS_UNDER_WAY * (p->n - 1) * CHUNK * sizeof *p->staging)
                 : NULL;
    if (p->messages && (p->staging || p->n == 1)) return DPT_OK;
    return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to exchange with %zu processes", p->n);
}

static dpt_status run_close(dpti_processes *p, void *argument, dpt_error *error)
{
    (void)argument;
    (void)error;
    p->transport->close(p->self);
    return DPT_OK;
}

static void release(dpti_processes *p)
{
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->mutex);
    free(p->staging);
    free(p->messages);
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

/* Signals are for the program's own threads. */
static int start_thread(dpti_processes *p)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int code = pthread_create(&p->thread, NULL, communicate, p);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code == 0) pthread_setname_np(p->thread, "transport");
    return code;
}

dpt_status dpti_processes_start(const dpt_transport *transport, dpti_processes **out,
                                dpt_error *error)
{
    dpti_processes *p = calloc(1, sizeof *p);
    if (!p) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a transport");
    p->transport = transport;
    p->n = 1;
    pthread_mutex_init(&p->mutex, NULL);
    pthread_cond_init(&p->changed, NULL);
    const int code = start_thread(p);
    if (code != 0) {
        release(p);
        return DPT_FAIL_NATIVE(error, DPT_E_INTERNAL, code, "cannot start a thread: %s",
                               strerror(code));
    }
    dpti_signals signals;
    dpti_signals_save(&signals);
    const dpt_status status = call(p, run_open, NULL, error);
    dpti_signals_restore(&signals);
    if (status != DPT_OK) {
        p->failed = true; /* the others are not waited for */
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
    /* A job that has failed is not left in good order: others may never come to it. */
    if (p->open && p->failed) dpti_leave_behind(p->self);
    if (p->open && !p->failed) (void)call(p, run_close, NULL, &error);
    end_thread(p);
    release(p);
}

size_t dpti_processes_rank(const dpti_processes *processes)
{
    return processes->rank;
}

size_t dpti_processes_count(const dpti_processes *processes)
{
    return processes->n;
}

void dpti_processes_give_up(dpti_processes *processes)
{
    if (!processes->agreed) processes->failed = true;
}

void dpti_processes_know(dpti_processes *processes)
{
    processes->agreed = true;
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

/* Every process gets bytes [begins[rank], begins[rank + 1]) of `base` from here, and brings its
   own. */
static void add_all_gather(const dpti_processes *p, uint8_t *base, const size_t *begins,
                           size_t *n_messages)
{
    for (size_t r = 0; r < p->n; r++) {
        if (r == p->rank) continue;
        add(p->messages, n_messages,
            &(dpt_message){.peer = r,
                           .data = base + begins[p->rank],
                           .n_bytes = begins[p->rank + 1] - begins[p->rank]});
        add(p->messages, n_messages,
            &(dpt_message){.receive = true,
                           .peer = r,
                           .data = base + begins[r],
                           .n_bytes = begins[r + 1] - begins[r]});
    }
}

static dpt_status start(dpti_processes *p, size_t n_messages, void **request, dpt_error *error)
{
    *request = NULL;
    if (n_messages == 0) return DPT_OK;
    return p->transport->start(p->self, p->messages, n_messages, request, error);
}

static dpt_status wait(dpti_processes *p, void **request, dpt_error *error)
{
    void *started = *request;
    *request = NULL;
    return started ? p->transport->wait(p->self, started, error) : DPT_OK;
}

/* Makes a call that the others make too; what fails here is the transport. */
static dpt_status together(dpti_processes *p, call_fn *function, void *argument, dpt_error *error)
{
    dpt_error own = {.status = DPT_OK};
    if (p->failed) {
        if (p->first.status == DPT_OK)
            return DPT_FAIL(error, DPT_E_STATE, "this process has given up");
        *error = p->first;
        return error->status;
    }
    const dpt_status status = call(p, function, argument, &own);
    if (status == DPT_OK) return DPT_OK;
    p->failed = true;
    (void)DPT_FAIL_NATIVE(&p->first, status, own.native, "process %zu of %zu: %.400s", p->rank,
                          p->n, own.message[0] ? own.message : dpt_status_words(status));
    *error = p->first;
    return status;
}

/* ---- All-gather with a vote ------------------------------------------------------------------ */

typedef struct share_job {
    const dpti_table *table;
    dpt_status *brought; /* (n) */
} share_job;

static dpt_status run_share(dpti_processes *p, void *argument, dpt_error *error)
{
    const share_job *job = argument;
    size_t n_messages = 0;
    void *request;
    for (size_t r = 0; r < p->n; r++) {
        if (r == p->rank) continue;
        add(p->messages, &n_messages,
            &(dpt_message){
                .peer = r, .data = &job->brought[p->rank], .n_bytes = sizeof *job->brought});
        add(p->messages, &n_messages,
            &(dpt_message){.receive = true,
                           .peer = r,
                           .data = &job->brought[r],
                           .n_bytes = sizeof *job->brought});
    }
    add_all_gather(p, job->table->data, job->table->begins, &n_messages);
    DPT_TRY(start(p, n_messages, &request, error));
    return wait(p, &request, error);
}

static dpt_status first_failure(const dpt_status *brought, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (brought[i] != DPT_OK) return brought[i];
    return DPT_OK;
}

dpt_status dpti_processes_share(dpti_processes *processes, const dpti_table *table, dpt_status mine,
                                dpt_status *verdict, dpt_error *error)
{
    dpti_processes *p = processes;
    dpt_status *brought = calloc(p->n, sizeof *brought);
    share_job job = {.table = table, .brought = brought};
    if (!brought) {
        p->failed = true;
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to exchange with other processes");
    }
    brought[p->rank] = mine;
    const dpt_status status = together(p, run_share, &job, error);
    if (status == DPT_OK) *verdict = first_failure(brought, p->n);
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

/* Sizes first, then the bytes. */
static dpt_status gather(dpti_processes *p, const void *mine, size_t n_bytes, dpti_gathered *g,
                         dpt_error *error)
{
    dpt_status verdict = DPT_OK;
    uint64_t *sizes = calloc(p->n, sizeof *sizes);
    g->begins = calloc(p->n + 1, sizeof *g->begins);
    dpt_status status = DPT_E_NO_MEMORY;
    if (!sizes || !g->begins) goto end;
    for (size_t r = 0; r <= p->n; r++)
        g->begins[r] = r * sizeof *sizes;
    sizes[p->rank] = n_bytes;
    status = dpti_processes_share(p, &(dpti_table){sizes, g->begins}, DPT_OK, &verdict, error);
    if (status != DPT_OK) goto end;
    g->begins[0] = 0;
    for (size_t r = 0; r < p->n; r++)
        g->begins[r + 1] = g->begins[r] + (size_t)sizes[r];
    g->data = calloc(g->begins[p->n] + 1, 1);
    status = DPT_E_NO_MEMORY;
    if (!g->data) goto end;
    if (n_bytes > 0) memcpy(g->data + g->begins[p->rank], mine, n_bytes);
    status = dpti_processes_share(p, &(dpti_table){g->data, g->begins}, DPT_OK, &verdict, error);
end:
    if (status == DPT_E_NO_MEMORY && !p->failed) {
        p->failed = true;
        (void)DPT_FAIL(error, status, "no memory to exchange with other processes");
    }
    free(sizes);
    return status;
}

dpt_status dpti_processes_gather(dpti_processes *processes, const void *mine, size_t n_bytes,
                                 dpti_gathered *out, dpt_error *error)
{
    dpti_gathered g = {.data = NULL};
    const dpt_status status = gather(processes, mine, n_bytes, &g, error);
    if (status == DPT_OK && out)
        *out = g;
    else
        dpti_gathered_free(&g);
    return status;
}

/* The first failure among the reports, (n), or NULL; *alike if all are the same. */
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

dpt_status dpti_processes_agree(dpti_processes *processes, dpt_status mine, const void *data,
                                size_t n_bytes, dpti_gathered *out, dpt_error *error)
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
    DPT_TRY(dpti_processes_gather(p, &report, sizeof report, &reports, error));
    const dpt_error *found =
        find_failure((const dpt_error *)(const void *)reports.data, p->n, &rank, &alike);
    p->agreed = found != NULL;
    if (found && alike)
        *error = *found;
    else if (found)
        (void)DPT_FAIL_NATIVE(error, found->status, found->native, "process %zu: %.480s", rank,
                              found->message[0] ? found->message : dpt_status_words(found->status));
    const dpt_status status = found ? found->status : DPT_OK;
    dpti_gathered_free(&reports);
    DPT_TRY(status);
    return out ? dpti_processes_gather(p, data, n_bytes, out, error) : DPT_OK;
}

/* ---- All-reduce ------------------------------------------------------------------------------ */

typedef struct reduction {
    float *data;
    size_t count;
    const bool *contributes;
} reduction;

/* Elements [*first, *last) are chunk k of the slice that process r sums. */
static void chunk_of(const dpti_processes *p, const reduction *what, size_t r, size_t k,
                     size_t *first, size_t *last)
{
    const size_t lines = (what->count + SLICE_ALIGNMENT - 1) / SLICE_ALIGNMENT;
    size_t begin = lines * r / p->n * SLICE_ALIGNMENT;
    size_t end = lines * (r + 1) / p->n * SLICE_ALIGNMENT;
    if (end > what->count) end = what->count;
    begin += k * CHUNK;
    *first = begin < end ? begin : end;
    *last = end - *first < CHUNK ? end : *first + CHUNK;
}

static float *staging_of(const dpti_processes *p, size_t k, size_t r)
{
    const size_t place = r < p->rank ? r : r - 1;
    return p->staging + ((k % CHUNKS_UNDER_WAY) * (p->n - 1) + place) * CHUNK;
}

/* Brings everybody this process's part of chunk k of his slice. */
static dpt_status start_scatter(dpti_processes *p, const reduction *what, size_t k, void **request,
                                dpt_error *error)
{
    size_t n_messages = 0, first, last;
    for (size_t r = 0; r < p->n; r++) {
        if (r == p->rank) continue;
        chunk_of(p, what, r, k, &first, &last);
        if (what->contributes[p->rank])
            add(p->messages, &n_messages,
                &(dpt_message){.peer = r,
                               .data = what->data + first,
                               .n_bytes = (last - first) * sizeof *what->data});
        chunk_of(p, what, p->rank, k, &first, &last);
        if (what->contributes[r])
            add(p->messages, &n_messages,
                &(dpt_message){.receive = true,
                               .peer = r,
                               .data = staging_of(p, k, r),
                               .n_bytes = (last - first) * sizeof *what->data});
    }
    return start(p, n_messages, request, error);
}

/* Brings everybody the sum of chunk k of this process's slice. */
static dpt_status start_gather(dpti_processes *p, const reduction *what, size_t k, void **request,
                               dpt_error *error)
{
    size_t n_messages = 0, first, last;
    for (size_t r = 0; r < p->n; r++) {
        if (r == p->rank) continue;
        chunk_of(p, what, p->rank, k, &first, &last);
        add(p->messages, &n_messages,
            &(dpt_message){.peer = r,
                           .data = what->data + first,
                           .n_bytes = (last - first) * sizeof *what->data});
        chunk_of(p, what, r, k, &first, &last);
        add(p->messages, &n_messages,
            &(dpt_message){.receive = true,
                           .peer = r,
                           .data = what->data + first,
                           .n_bytes = (last - first) * sizeof *what->data});
    }
    return start(p, n_messages, request, error);
}

/* Sums chunk k of this process's slice, in the order of ranks. */
static void sum_chunk(const dpti_processes *p, const reduction *what, size_t k)
{
    size_t first, last;
    float sum[BLOCK];
    chunk_of(p, what, p->rank, k, &first, &last);
    for (size_t begin = first; begin < last; begin += BLOCK) {
        const size_t n = last - begin < BLOCK ? last - begin : BLOCK;
        bool empty = true;
        for (size_t r = 0; r < p->n; r++) {
            if (!what->contributes[r]) continue;
            const float *from =
                r == p->rank ? what->data + begin : staging_of(p, k, r) + (begin - first);
            if (empty)
                memcpy(sum, from, n * sizeof *sum);
            else
                for (size_t i = 0; i < n; i++)
                    sum[i] += from[i];
            empty = false;
        }
        if (empty) memset(sum, 0, n * sizeof *sum);
        memcpy(what->data + begin, sum, n * sizeof *sum);
    }
}

static size_t n_chunks(const dpti_processes *p, const reduction *what)
{
    size_t most = 0;
    for (size_t r = 0; r < p->n; r++) {
        size_t n = 0, first, last;
        for (chunk_of(p, what, r, 0, &first, &last); first < last;
             chunk_of(p, what, r, n, &first, &last))
            n++;
        if (n > most) most = n;
    }
    return most;
}

static dpt_status run_reduce(dpti_processes *p, void *argument, dpt_error *error)
{
    const reduction *what = argument;
    const size_t n = n_chunks(p, what);
    void *scattered[CHUNKS_UNDER_WAY] = {NULL}, *gathered[CHUNKS_UNDER_WAY] = {NULL};
    if (n > 0) DPT_TRY(start_scatter(p, what, 0, &scattered[0], error));
    for (size_t k = 0; k < n; k++) {
        const size_t here = k % CHUNKS_UNDER_WAY, next = (k + 1) % CHUNKS_UNDER_WAY;
        if (k + 1 < n) DPT_TRY(start_scatter(p, what, k + 1, &scattered[next], error));
        DPT_TRY(wait(p, &scattered[here], error));
        sum_chunk(p, what, k);
        DPT_TRY(wait(p, &gathered[here], error));
        DPT_TRY(start_gather(p, what, k, &gathered[here], error));
    }
    for (size_t i = 0; i < CHUNKS_UNDER_WAY; i++)
        DPT_TRY(wait(p, &gathered[i], error));
    return DPT_OK;
}

dpt_status dpti_processes_reduce(dpti_processes *processes, float *data, size_t count,
                                 const bool *contributes, dpt_error *error)
{
    reduction what = {.data = data, .count = count, .contributes = contributes};
    return together(processes, run_reduce, &what, error);
}
