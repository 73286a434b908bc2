/* A stand-in for NCCL (nccl_stand_in.h).  It keeps the rules of NCCL's documentation for
   non-blocking communicators: a call may return ncclInProgress, and no other call may be made for
   that communicator until ncclCommGetAsyncError returns another status.  A call that breaks this
   rule returns an invalid usage.

   Without a stream the call of the last rank does the work.  In a stream of emulated cards
   (emulator/) each rank's part waits for the parts of the others when its turn comes, as NCCL's
   kernels do, until the communicator is aborted.  Under capture the part is a node of the graph.
   Cards with peer access write into each other's data, as NCCL does up to 2.22; the caller must
   have enabled the access. */
#include "nccl_stand_in.h"

#include "emulator/control.h"

#include <nccl.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { MOST_RANKS = 8, MOST_CALLS = 512, MOST_GANGS = 64 };

/* A collective that not all ranks have come to yet. */
typedef struct round {
    float *data[MOST_RANKS];
    cudaStream_t streams[MOST_RANKS];
    size_t count;
    int arrived, root; /* root < 0: a sum */
} round;

/* All ranks that are joined with the same id. */
typedef struct gang {
    bool joined[MOST_RANKS], aborted[MOST_RANKS];
    pthread_t joiners[MOST_RANKS]; /* ranks of one process are joined by one thread */
    int n, n_joined, n_leaving;
    round called; /* without a stream */
    round under_way;
    unsigned n_done; /* that were under way */
    bool broken;     /* the next one does not end */
} gang;

struct ncclComm {
    gang *gang;
    int rank, n, polls; /* polls: how often it still says that it is in progress */
    bool joining, leaving;
    ncclResult_t failed;
};

/* Of all processes that this one is forked into. */
typedef struct shared {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    char calls[MOST_RANKS][MOST_CALLS];
    unsigned n_ids;
    gang gangs[MOST_GANGS];
} shared;

static shared *all;
static size_t n_open; /* of this process, as what follows */
static _Thread_local int in_group;

__attribute__((constructor)) static void shard(void)
{
    pthread_mutexattr_t kind;
    pthread_condattr_t condition;
    void *memory =
        mmap(NULL, sizeof *all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) abort();
    all = memory;
    pthread_mutexattr_init(&kind);
    pthread_mutexattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
    pthread_mutex_init(&all->lock, &kind);
    pthread_mutexattr_destroy(&kind);
    pthread_condattr_init(&condition);
    pthread_condattr_setpshared(&condition, PTHREAD_PROCESS_SHARED);
    pthread_cond_init(&all->changed, &condition);
    pthread_condattr_destroy(&condition);
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
    memset(all->gangs, 0, sizeof all->gangs);
}

__attribute__((visibility("default"))) nccl_stand_in stand_in = {
    .fail_rank = -1, .calls = calls_of, .forget = forget, .n_open = count_open};

#define EXPORT __attribute__((visibility("default")))

EXPORT ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
    memset(id, 7, sizeof *id);
    pthread_mutex_lock(&all->lock);
    const unsigned number = all->n_ids++ % MOST_GANGS;
    all->gangs[number] = (gang){.n = 0};
    pthread_mutex_unlock(&all->lock);
    id->internal[0] = (char)number;
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

static void meet(void *argument);

EXPORT ncclResult_t ncclCommInitRankConfig(ncclComm_t *out, int n, ncclUniqueId id, int rank,
                                           ncclConfig_t *config)
{
    if (config->blocking != 0 || id.internal[5] != 7 || in_group != 1) return ncclInvalidUsage;
    gang *g = &all->gangs[id.internal[0] % MOST_GANGS];
    if (rank < 0 || rank >= n || n > MOST_RANKS || g->joined[rank]) return ncclInvalidUsage;
    if (stand_in.refuse) return (ncclResult_t)stand_in.refuse;
    ncclComm_t comm = calloc(1, sizeof *comm);
    if (!comm) return ncclSystemError;
    emulated_load(meet);
    pthread_mutex_lock(&all->lock);
    comm->gang = g;
    comm->rank = rank;
    comm->n = n;
    comm->polls = stand_in.polls;
    comm->joining = true;
    g->n = n;
    g->joined[rank] = true;
    g->joiners[rank] = pthread_self();
    g->n_joined++;
    n_open++;
    record(rank, "init");
    pthread_mutex_unlock(&all->lock);
    *out = comm;
    return ncclInProgress;
}

/* In the order of ranks. */
static void finish_round(round *r, int n)
{
    for (size_t i = 0; i < r->count; i++) {
        float sum = 0;
        for (int k = 0; k < n; k++)
            sum = k == 0 ? r->data[k][i] : sum + r->data[k][i];
        if (r->root >= 0) sum = r->data[r->root][i];
        for (int k = 0; k < n; k++)
            r->data[k][i] = sum;
    }
    memset(r, 0, sizeof *r);
}

/* One rank's part of a collective. */
typedef struct part {
    gang *gang;
    int rank, root;
    float *data;
    size_t count;
    cudaStream_t stream;
} part;

/* Whether it is the same collective that others have come to; the last to come does it. */
static bool arrive(round *r, const part *p)
{
    if (r->arrived > 0 && (r->count != p->count || r->root != p->root)) return false;
    r->data[p->rank] = p->data;
    r->streams[p->rank] = p->stream;
    r->count = p->count;
    r->root = p->root;
    r->arrived++;
    return true;
}

/* What another process has it opens by itself. */
static void use_peers(const gang *g)
{
    const round *r = &g->under_way;
    for (int i = 0; i < g->n; i++)
        for (int k = 0; k < g->n; k++)
            if (i != k && pthread_equal(g->joiners[i], g->joiners[k]))
                emulated_use_peer(r->streams[i], r->data[k], r->count * sizeof(float));
}

/* When it is its stream's turn. */
static void meet(void *argument)
{
    const part *p = argument;
    gang *g = p->gang;
    pthread_mutex_lock(&all->lock);
    const unsigned n_done = g->n_done;
    if (!g->aborted[p->rank]) {
        if (!arrive(&g->under_way, p)) {
            fprintf(stderr, "NCCL's stand-in: ranks are at different collectives\n");
            abort();
        }
        g->broken = g->broken || (int)n_done + 1 == stand_in.break_at;
        if (g->under_way.arrived == g->n && !g->broken) {
            use_peers(g);
            finish_round(&g->under_way, g->n);
            g->n_done++;
            pthread_cond_broadcast(&all->changed);
        }
    }
    emulated_begin_wait();
    while (g->n_done == n_done && !g->aborted[p->rank])
        pthread_cond_wait(&all->changed, &all->lock);
    emulated_end_wait();
    pthread_mutex_unlock(&all->lock);
}

static ncclResult_t state_of(ncclComm_t comm)
{
    if (comm->failed != ncclSuccess) return comm->failed;
    if (comm->gang->broken) return ncclRemoteError;
    if (stand_in.come_to) return (ncclResult_t)stand_in.come_to;
    if (comm->joining) { /* until all have come */
        if (comm->gang->n_joined < comm->n) return ncclInProgress;
        comm->joining = false;
    }
    if (comm->leaving && comm->gang->n_leaving < comm->n) return ncclInProgress; /* likewise */
    return comm->polls-- > 0 ? ncclInProgress : ncclSuccess;
}

EXPORT ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
    pthread_mutex_lock(&all->lock);
    *state = state_of(comm);
    pthread_mutex_unlock(&all->lock);
    return ncclSuccess;
}

/* With the lock. */
static ncclResult_t begin(ncclComm_t comm, const part *p)
{
    gang *g = comm->gang;
    if (!arrive(&g->called, p)) return ncclInvalidUsage;
    if (g->called.arrived == g->n) finish_round(&g->called, g->n);
    return ncclInProgress;
}

static ncclResult_t enqueue(ncclComm_t comm, const void *from, part what, cudaStream_t stream,
                            const char *name)
{
    char call[40];
    what.gang = comm->gang;
    what.rank = comm->rank;
    what.stream = stream;
    pthread_mutex_lock(&all->lock);
    snprintf(call, sizeof call, "%s:%zu", name, what.count);
    record(comm->rank, call);
    ncclResult_t code = comm->polls > 0 || comm->joining || from != what.data ? ncclInvalidUsage
                        : stream                                              ? ncclInProgress
                                                                              : begin(comm, &what);
    if (comm->rank == stand_in.fail_rank) code = comm->failed = ncclRemoteError;
    if (code == ncclInProgress) comm->polls = stand_in.polls;
    pthread_mutex_unlock(&all->lock);
    if (code == ncclInProgress && stream &&
        emulated_enqueue(stream, meet, &what, sizeof what) != cudaSuccess)
        return ncclUnhandledCudaError;
    return code;
}

EXPORT ncclResult_t ncclAllReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                                  ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
    if (type != ncclFloat32 || op != ncclSum) return ncclInvalidUsage;
    return enqueue(comm, from, (part){.data = to, .count = count, .root = -1}, stream, "reduce");
}

EXPORT ncclResult_t ncclBroadcast(const void *from, void *to, size_t count, ncclDataType_t type,
                                  int root, ncclComm_t comm, cudaStream_t stream)
{
    if (type != ncclFloat32) return ncclInvalidUsage;
    return enqueue(comm, from, (part){.data = to, .count = count, .root = root}, stream,
                   "broadcast");
}

EXPORT ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
    pthread_mutex_lock(&all->lock);
    record(comm->rank, "finalize");
    comm->polls = stand_in.polls;
    comm->leaving = true;
    comm->gang->n_leaving++;
    pthread_mutex_unlock(&all->lock);
    return ncclInProgress;
}

static ncclResult_t end(ncclComm_t comm, const char *how, bool aborted)
{
    pthread_mutex_lock(&all->lock);
    comm->gang->aborted[comm->rank] = aborted;
    pthread_cond_broadcast(&all->changed);
    record(comm->rank, how);
    n_open--;
    pthread_mutex_unlock(&all->lock);
    free(comm);
    return ncclSuccess;
}

EXPORT ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
    return end(comm, "destroy", false);
}

EXPORT ncclResult_t ncclCommAbort(ncclComm_t comm)
{
    return end(comm, "abort", true);
}
