/* A stand-in for NCCL (nccl_stand_in.h).  What the calls promise here is what NCCL's documentation
   says of non-blocking communicators: a call may return ncclInProgress, and no other call is made
   for that communicator until ncclCommGetAsyncError says otherwise; a call that breaks this is an
   invalid usage. */
#include "nccl_stand_in.h"

#include <nccl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST_RANKS = 8, MOST_CALLS = 512 };

/* One for all that are joined with the same id. */
typedef struct round {
    float *data[MOST_RANKS];
    size_t count;
    int arrived, root; /* root < 0: a sum */
} round;

struct ncclComm {
    int rank, n, polls; /* polls: how often it still says that it is in progress */
    bool joining, leaving;
    ncclResult_t failed;
};

/* Of all processes that this one is forked into. */
typedef struct shared {
    pthread_mutex_t lock;
    char calls[MOST_RANKS][MOST_CALLS];
    bool joined[MOST_RANKS];
    int n_joined, n_leaving;
    round now;
} shared;

static shared *all;
static size_t n_open; /* of this process, as what follows */
static int in_group;

__attribute__((constructor)) static void share(void)
{
    pthread_mutexattr_t kind;
    void *memory =
        mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) abort();
    all = memory;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&all->lock, &kind);
    pthread_mutexattr_destroy(&kind);
}

static void record(int rank, const char *what)
{
    const size_t n = strlen(all->calls[rank]);
    snprintf(all->calls[rank] + n, MOST_CALLS - n, "%s%s", n ? " " : "", what);
}

static const char *calls_of(int rank)
{
    return all->calls[rank];
}

static size_t count_open(void)
{
    return n_open;
}

static void forget(void)
{
    memset(all->calls, 0, sizeof all->calls);
    memset(all->joined, 0, sizeof all->joined);
    memset(&all->now, 0, sizeof all->now);
    all->n_joined = all->n_leaving = 0;
}

__attribute__((visibility("default"))) nccl_stand_in stand_in = {
    .fail_rank = -1, .calls = calls_of, .forget = forget, .n_open = count_open};

#define EXPORT __attribute__((visibility("default")))

EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    memset(id, 7, sizeof *id);
    return ncclSuccess;
}

EXPORT const char *ncclGetErrorString(ncclResult_t code)
{
    return code == ncclRemoteError ? "a rank has failed" : "an error";
}

EXPORT const char *ncclGetLastError(ncclComm_t comm)
{
    (void)comm;
    return "";
}

/* The header declares them without (void). */
EXPORT ncclResult_t ncclGroupStart(void);
EXPORT ncclResult_t ncclGroupEnd(void);

EXPORT ncclResult_t ncclGroupStart(void)
{
    in_group++;
    return ncclSuccess;
}

EXPORT ncclResult_t ncclGroupEnd(void)
{
    in_group--;
    return ncclInProgress;
}

EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int n, ncclUniqueId id, int rank,
                                           ncclConfig_t *config)
{
    if (config->blocking != 0 || id.internal[5] != 7 || in_group != 1) return ncclInvalidUsage;
    if (rank < 0 || rank >= n || all->joined[rank]) return ncclInvalidUsage;
    if (stand_in.refuse) return (ncclResult_t)stand_in.refuse;
    ncclComm_t comm = calloc(1, sizeof *comm);
    if (!comm) return ncclSystemError;
    pthread_mutex_lock(&all->lock);
    comm->rank = rank;
    comm->n = n;
    comm->polls = stand_in.polls;
    comm->joining = true;
    all->joined[rank] = true;
    all->n_joined++;
    n_open++;
    record(rank, "init");
    pthread_mutex_unlock(&all->lock);
    *out = comm;
    return ncclInProgress;
}

/* The last to come does it, in the order of ranks. */
static void finish_round(int n)
{
    for (size_t i = 0; i < all->now.count; i++) {
        float sum = 0;
        for (int r = 0; r < n; r++)
            sum = r == 0 ? all->now.data[r][i] : sum + all->now.data[r][i];
        if (all->now.root >= 0) sum = all->now.data[all->now.root][i];
        for (int r = 0; r < n; r++)
            all->now.data[r][i] = sum;
    }
    memset(&all->now, 0, sizeof all->now);
}

static ncclResult_t state_of(ncclComm_t comm)
{
    if (comm->failed != ncclSuccess) return comm->failed;
    if (comm->joining) { /* until all have come */
        if (all->n_joined < comm->n) return ncclInProgress;
        comm->joining = false;
    }
    if (comm->leaving && all->n_leaving < comm->n) return ncclInProgress; /* likewise */
    return comm->polls-- > 0 ? ncclInProgress : ncclSuccess;
}

EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
    pthread_mutex_lock(&all->lock);
    *state = state_of(comm);
    pthread_mutex_unlock(&all->lock);
    return ncclSuccess;
}

static ncclResult_t enqueue(ncclComm_t comm, const void *from, void *data, size_t count, int root,
                            const char *name)
{
    char call[40];
    pthread_mutex_lock(&all->lock);
    snprintf(call, sizeof call, "%s:%zu", name, count);
    record(comm->rank, call);
    ncclResult_t code = comm->polls > 0 || comm->joining ? ncclInvalidUsage : ncclInProgress;
    if (from != data ||
        (all->now.arrived > 0 && (all->now.count != count || all->now.root != root)))
        code = ncclInvalidUsage;
    if (comm->rank == stand_in.fail_rank) code = comm->failed = ncclRemoteError;
    if (code == ncclInProgress) {
        all->now.data[comm->rank] = data;
        all->now.count = count;
        all->now.root = root;
        comm->polls = stand_in.polls;
        if (++all->now.arrived == comm->n) finish_round(comm->n);
    }
    pthread_mutex_unlock(&all->lock);
    return code;
}

EXPORT ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                                  ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    (void)stream;
    if (type != ncclFloat32 || op != ncclSum) return ncclInvalidUsage;
    return enqueue(comm, from, to, count, -1, "reduce");
}

EXPORT ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type,
                                  int root, ncclComm_t comm, cudaStream_t stream)
{
    (void)stream;
    if (type != ncclFloat32) return ncclInvalidUsage;
    return enqueue(comm, from, to, count, root, "broadcast");
}

EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    pthread_mutex_lock(&all->lock);
    record(comm->rank, "finalize");
    comm->polls = stand_in.polls;
    comm->leaving = true;
    all->n_leaving++;
    pthread_mutex_unlock(&all->lock);
    return ncclInProgress;
}

static ncclResult_t end(ncclComm_t comm, const char *how)
{
    pthread_mutex_lock(&all->lock);
    record(comm->rank, how);
    n_open--;
    pthread_mutex_unlock(&all->lock);
    free(comm);
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    return end(comm, "destroy");
}

EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    return end(comm, "abort");
}
