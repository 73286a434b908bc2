/* Collectives by NCCL: opening the library, communicators, and calls.

   Communicators are non-blocking: no call of NCCL waits for another rank.  A thread waits in this
   file instead, where an abort can end the wait, so no thread is inside the library during the
   abort. */
#include "collective.h"
#include "library.h"
#include "reach.h"

#include <math.h>
#include <nccl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define LIBRARY_NAME "libnccl.so.2"

/* ---- The library ----------------------------------------------------------------------------- */

#define FUNCTIONS(X)                                                                               \
    X(ncclAllReduce)                                                                               \
    X(ncclBroadcast)                                                                               \
    X(ncclCommAbort)                                                                               \
    X(ncclCommDestroy)                                                                             \
    X(ncclCommFinalize)                                                                            \
    X(ncclCommGetAsyncError)                                                                       \
    X(ncclCommInitRankConfig)                                                                      \
    X(ncclGetErrorString)                                                                          \
    X(ncclGetLastError)                                                                            \
    X(ncclGetUniqueId)                                                                             \
    X(ncclGroupEnd)                                                                                \
    X(ncclGroupStart)

/* Constant after load_once. */
static struct {
    void *library;
    char problem[128];
#define MEMBER(name) __typeof__(&name) name;
    FUNCTIONS(MEMBER)
#undef MEMBER
} nccl;

static void load_once(void)
{
#define SYMBOL(name) {#name, &nccl.name},
    static const dpt_cuda_symbol symbols[] = {FUNCTIONS(SYMBOL)};
#undef SYMBOL
    nccl.library = dpt_cuda_library_open(
        LIBRARY_NAME, (dpt_cuda_symbols){symbols, sizeof symbols / sizeof *symbols}, nccl.problem,
        sizeof nccl.problem);
}

static dpt_status load(dpt_device *device)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, load_once);
    if (nccl.library) return DPT_OK;
    return DPT_FAIL(&device->error, DPT_E_UNSUPPORTED, "NCCL is not there: %s", nccl.problem);
}

/* A call of NCCL that has failed. */
typedef struct failed_call {
    ncclResult_t code;
    const char *name;
    int line;
} failed_call;

/* Records a failed call.  `comm` may be NULL.  If the card's context is broken, the device is lost;
   any other failure is one of the communicator. */
static dpt_status fail(dpt_device *device, ncclComm_t comm, failed_call call)
{
    const ncclResult_t code = call.code;
    const char *more = nccl.ncclGetLastError(comm);
    const bool lost = dpt_cuda_context_failure_of(device) != cudaSuccess;
    const dpt_status status = lost ? DPT_E_DEVICE_LOST
                              : code == ncclInvalidArgument || code == ncclInvalidUsage
                                  ? DPT_E_UNSUPPORTED
                                  : DPT_E_DEVICE;
    return dpt_error_set(&device->error, status, (long)code, __FILE__, call.line,
                         "%s: %s (%d)%s%.300s", call.name, nccl.ncclGetErrorString(code), (int)code,
                         more && more[0] ? "; " : "", more ? more : "");
}

/* ---- Communicators --------------------------------------------------------------------------- */

typedef struct member {
    dpt_device *device;
    ncclComm_t comm;       /* NULL: aborted or destroyed */
    pthread_mutex_t mutex; /* held during calls of NCCL for this member */
    ncclResult_t finalized;
} member;

typedef struct communicator {
    dpt_communicator base;
    size_t n;
    atomic_bool aborted;
    member members[];
} communicator;

static communicator *of(dpt_communicator *base)
{
    return (communicator *)base;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* Waits between two queries of NCCL's state.  NCCL enqueues a collective in a thread that it
   starts. That takes less time than the shortest sleep, which is some 60 microseconds.  The first
   waits therefore only yield, which takes about a microsecond on an idle core. */
static void wait_a_little(size_t n_asked, struct timespec *nap)
{
    enum { AWAKE = 200 };
    if (n_asked < AWAKE) {
        (void)sched_yield();
        return;
    }
    (void)nanosleep(nap, NULL);
    if (nap->tv_nsec < 1000000) nap->tv_nsec += nap->tv_nsec / 4;
}

/* An operation of NCCL that a call has begun. */
typedef struct operation {
    ncclResult_t code; /* the result of the call */
    double until;      /* when waiting ends, as now() tells */
    const char *name;
} operation;

/* Waits until an operation has ended.  DPT_E_CANCELLED after an abort; DPT_E_DEVICE after the time
   `until`. */
static dpt_status settle(communicator *c, member *m, operation begun)
{
    const char *what = begun.name;
    ncclResult_t code = begun.code;
    struct timespec nap = {.tv_nsec = 10000};
    for (size_t n_asked = 0; code == ncclInProgress; n_asked++) {
        if (atomic_load(&c->aborted))
            return DPT_FAIL(&m->device->error, DPT_E_CANCELLED, "%s: the communicator was aborted",
                            what);
        if (now() > begun.until)
            return DPT_FAIL(&m->device->error, DPT_E_DEVICE, "%s: the other ranks did not come",
                            what);
        wait_a_little(n_asked, &nap);
        ncclResult_t state = ncclSuccess;
        code = nccl.ncclCommGetAsyncError(m->comm, &state);
        if (code == ncclSuccess) code = state;
    }
    return code == ncclSuccess ? DPT_OK
                               : fail(m->device, m->comm, (failed_call){code, what, __LINE__});
}

/* Aborts a member.  A thread that waits in settle() ends its wait and releases the mutex.  If the
   mutex is not released, a thread is stuck inside NCCL, and the member is left to it. */
static void abort_member(member *m)
{
    enum { PATIENCE_SECONDS = 2 };
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += PATIENCE_SECONDS;
    if (pthread_mutex_timedlock(&m->mutex, &until) != 0) return;
    if (m->comm) (void)nccl.ncclCommAbort(m->comm);
    m->comm = NULL;
    pthread_mutex_unlock(&m->mutex);
}

static void abort_all(dpt_communicator *base)
{
    communicator *c = of(base);
    atomic_store(&c->aborted, true);
    for (size_t i = 0; i < c->n; i++)
        abort_member(&c->members[i]);
}

/* Destroys a member.  `code` is the result of ncclCommFinalize, which ends when all ranks have
   called it. */
static void leave(communicator *c, member *m, ncclResult_t code)
{
    if (settle(c, m, (operation){code, now() + 10, "ncclCommFinalize"}) == DPT_OK)
        (void)nccl.ncclCommDestroy(m->comm);
    else
        (void)nccl.ncclCommAbort(m->comm);
    m->comm = NULL;
}

static void destroy(dpt_communicator *base)
{
    communicator *c = of(base);
    if (!c) return;
    for (size_t i = 0; i < c->n; i++)
        if (c->members[i].comm) c->members[i].finalized = nccl.ncclCommFinalize(c->members[i].comm);
    for (size_t i = 0; i < c->n; i++) {
        if (c->members[i].comm) leave(c, &c->members[i], c->members[i].finalized);
        pthread_mutex_destroy(&c->members[i].mutex);
    }
    free(c);
}

/* collective.c has checked that a card is one rank here, and core checks it for other processes. */
static dpt_status check(const dpt_group *group)
{
    return load(group->devices[0]);
}

static dpt_status invite(dpt_device *device, dpt_invitation *out)
{
    ncclUniqueId id;
    _Static_assert(sizeof id <= sizeof out->bytes, "it fits");
    DPT_TRY(load(device));
    const ncclResult_t code = nccl.ncclGetUniqueId(&id);
    if (code != ncclSuccess)
        return fail(device, NULL, (failed_call){code, "ncclGetUniqueId", __LINE__});
    *out = (dpt_invitation){.bytes = {0}};
    memcpy(out->bytes, &id, sizeof id);
    return DPT_OK;
}

static ncclResult_t join_one(member *m, const dpt_group *group, size_t i)
{
    ncclUniqueId id;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    memcpy(&id, group->invitation.bytes, sizeof id);
    config.blocking = 0;
    if (cudaSetDevice(dpt_cuda_device_of(m->device)->ordinal) != cudaSuccess)
        return ncclUnhandledCudaError;
    return nccl.ncclCommInitRankConfig(&m->comm, (int)group->n_ranks, id,
                                       (int)(group->first_rank + i), &config);
}

/* Begins to join with all devices.  The thread chooses each card in turn. */
static dpt_status join(communicator *c, const dpt_group *group)
{
    ncclResult_t code = nccl.ncclGroupStart();
    if (code != ncclSuccess)
        return fail(group->devices[0], NULL, (failed_call){code, "ncclGroupStart", __LINE__});
    for (size_t i = 0; i < c->n && (code == ncclSuccess || code == ncclInProgress); i++)
        code = join_one(&c->members[i], group, i);
    const ncclResult_t ended = nccl.ncclGroupEnd();
    if (code == ncclSuccess || code == ncclInProgress) code = ended;
    return code == ncclSuccess || code == ncclInProgress
               ? DPT_OK
               : fail(group->devices[0], NULL,
                      (failed_call){code, "ncclCommInitRankConfig", __LINE__});
}

static dpt_status join_and_wait(communicator *c, const dpt_group *group)
{
    const double until = now() + group->timeout_seconds;
    dpt_device *first = group->devices[0];
    dpt_status status = join(c, group);
    for (size_t i = 0; status == DPT_OK && i < c->n; i++) {
        member *m = &c->members[i];
        status = settle(c, m, (operation){ncclInProgress, until, "ncclCommInitRankConfig"});
        if (status != DPT_OK && m->device != first) first->error = m->device->error;
    }
    return status;
}

/* Opens the cards' memory to each other where they can reach it.  Ranks of one process write to
   each other's data, and NCCL up to 2.22 faults there, because it does not open the memory of a
   pool. */
static dpt_status open_memory(const dpt_group *group)
{
    const dpt_status status = dpt_cuda_reach_open(group);
    return status == DPT_E_UNSUPPORTED ? DPT_OK : status;
}

static dpt_status create(const dpt_group *group, dpt_communicator **out)
{
    dpt_device *first = group->devices[0];
    DPT_TRY(check(group));
    communicator *c = calloc(1, sizeof *c + group->n_devices * sizeof *c->members);
    if (!c) return DPT_FAIL(&first->error, DPT_E_NO_MEMORY, "no memory for a communicator");
    c->n = group->n_devices;
    for (size_t i = 0; i < c->n; i++) {
        c->members[i].device = group->devices[i];
        pthread_mutex_init(&c->members[i].mutex, NULL);
    }
    const int before = dpt_cuda_chosen(group->devices, c->n);
    dpt_status status = open_memory(group);
    if (status == DPT_OK) status = join_and_wait(c, group);
    dpt_cuda_go_back(before);
    if (status != DPT_OK) {
        abort_all(&c->base);
        destroy(&c->base);
        return status;
    }
    *out = &c->base;
    return DPT_OK;
}

/* ---- Collectives ----------------------------------------------------------------------------- */

typedef struct part {
    dpt_stream *stream;
    void *data;
    size_t count;
    int root; /* of a broadcast */
} part;

typedef ncclResult_t enqueue_fn(ncclComm_t comm, const part *what);

static ncclResult_t enqueue_all_reduce(ncclComm_t comm, const part *what)
{
    return nccl.ncclAllReduce(what->data, what->data, what->count, ncclFloat32, ncclSum, comm,
                              what->stream->queue);
}

static ncclResult_t enqueue_broadcast(ncclComm_t comm, const part *what)
{
    return nccl.ncclBroadcast(what->data, what->data, what->count, ncclFloat32, what->root, comm,
                              what->stream->queue);
}

/* A collective of NCCL. */
typedef struct collective {
    enqueue_fn *enqueue;
    const char *name;
} collective;

/* Enqueues a collective.  It is on the stream when the call returns, so later work runs behind it.
 */
static dpt_status enqueue(communicator *c, size_t i, const part *what, collective called)
{
    const char *name = called.name;
    member *m = &c->members[i];
    dpt_status status;
    if (what->count == 0) return DPT_OK;
    pthread_mutex_lock(&m->mutex);
    if (atomic_load(&c->aborted) || !m->comm)
        status =
            DPT_FAIL(&m->device->error, DPT_E_CANCELLED, "%s: the communicator was aborted", name);
    else
        status = settle(c, m, (operation){called.enqueue(m->comm, what), HUGE_VAL, name});
    pthread_mutex_unlock(&m->mutex);
    return status;
}

/* Does not wait: if the mutex is held, another thread is in a call for this member, or aborts it.
 */
static dpt_status query(dpt_communicator *base, size_t i)
{
    member *m = &of(base)->members[i];
    ncclResult_t code = ncclSuccess, state = ncclSuccess;
    dpt_status status = DPT_OK;
    if (pthread_mutex_trylock(&m->mutex) != 0) return DPT_OK;
    if (m->comm) code = nccl.ncclCommGetAsyncError(m->comm, &state);
    if (code == ncclSuccess) code = state;
    if (code != ncclSuccess && code != ncclInProgress)
        status = fail(m->device, m->comm, (failed_call){code, "a collective under way", __LINE__});
    pthread_mutex_unlock(&m->mutex);
    return status;
}

static dpt_status all_reduce(dpt_communicator *base, size_t i, dpt_stream *stream,
                             dpt_location data, size_t count)
{
    const part one = {.stream = stream, .data = dpt_cuda_pointer(data), .count = count};
    return enqueue(of(base), i, &one, (collective){enqueue_all_reduce, "ncclAllReduce"});
}

static dpt_status broadcast(dpt_communicator *base, size_t i, size_t root_rank, dpt_stream *stream,
                            dpt_location data, size_t count)
{
    const part one = {
        .stream = stream, .data = dpt_cuda_pointer(data), .count = count, .root = (int)root_rank};
    return enqueue(of(base), i, &one, (collective){enqueue_broadcast, "ncclBroadcast"});
}

const dpt_collective_ops dpt_cuda_nccl_ops = {
    .check = check,
    .invite = invite,
    .create = create,
    .destroy = destroy,
    .all_reduce = all_reduce,
    .broadcast = broadcast,
    .abort = abort_all,
    .query = query,
};
