/* Collectives by our own kernels among the cards of one process.

   In a call, the stream of each rank
   1. writes the address of its data, and that the data are ready;
   2. waits until the data of all ranks are ready;
   3. runs a kernel that computes the rank's part in the memory of all ranks;
   4. writes that its part is done, and waits until all parts are done.

   The streams write and wait for words in host memory (peers_table).  The host does not wait.  A
   kernel does not wait either, because a waiting kernel could keep the card from the work that the
   kernel waits for.

   A sum is divided into one slice for each rank.  A rank adds up its slice in the order of ranks
   and writes the result to the memory of all ranks. */
#include "kernels/peers.h"
#include "collective.h"
#include "reach.h"
#include "size.h"

#include <cuda.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- Words that streams write and wait for --------------------------------------------------- */

typedef CUresult word_fn(CUstream stream, CUdeviceptr at, cuuint32_t value, unsigned flags);

/* Constant after look_up_once; NULL: the driver does not have the function. */
static word_fn *write_word, *wait_for_word;

static word_fn *look_up(const char *name)
{
    enum { SINCE = 12000 };
    void *found = NULL;
    enum cudaDriverEntryPointQueryResult result;
#if CUDART_VERSION >= 12050
    const cudaError_t code =
        cudaGetDriverEntryPointByVersion(name, &found, SINCE, cudaEnableDefault, &result);
#else
    const cudaError_t code = cudaGetDriverEntryPoint(name, &found, cudaEnableDefault, &result);
#endif
    word_fn *function = NULL;
    if (code != cudaSuccess) (void)cudaGetLastError();
    if (code != cudaSuccess || result != cudaDriverEntryPointSuccess) return NULL;
    _Static_assert(sizeof function == sizeof found, "POSIX");
    memcpy(&function, &found, sizeof function);
    return function;
}

static void look_up_once(void)
{
    write_word = look_up("cuStreamWriteValue32");
    wait_for_word = look_up("cuStreamWaitValue32");
}

static bool have_words(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, look_up_once);
    return write_word && wait_for_word;
}

/* The driver's codes have the values of the runtime's codes. */
static dpt_status check_code(dpt_device *device, CUresult code, const char *what)
{
    return code == CUDA_SUCCESS ? DPT_OK
                                : DPT_CUDA_FAIL(&device->error, (cudaError_t)(int)code, what);
}

static CUdeviceptr address_of(const u32 *word)
{
    return (CUdeviceptr)(uintptr_t)word;
}

static dpt_status write_to(dpt_stream *stream, const u32 *word, u32 value)
{
    return check_code(
        stream->device,
        write_word(stream->queue, address_of(word), value, CU_STREAM_WRITE_VALUE_DEFAULT),
        "cuStreamWriteValue32");
}

/* The stream waits until the word is at least `value`, in arithmetic that wraps around. */
static dpt_status wait_for(dpt_stream *stream, const u32 *word, u32 value)
{
    return check_code(
        stream->device,
        wait_for_word(stream->queue, address_of(word), value, CU_STREAM_WAIT_VALUE_GEQ),
        "cuStreamWaitValue32");
}

/* ---- Communicators --------------------------------------------------------------------------- */

typedef struct communicator {
    dpt_communicator base;
    size_t n;
    dpt_device *devices[PEERS_MOST_RANKS];
    atomic_uint n_calls[PEERS_MOST_RANKS]; /* of each rank, counted by its driver thread */
    peers_table *table;                    /* in pinned memory */
    dpt_kernel *sum, *copy;
    atomic_bool aborted, closing;
    bool released; /* the releaser runs: it keeps writing words, so that no stream waits */
    pthread_t releaser;
} communicator;

static communicator *of(dpt_communicator *base)
{
    return (communicator *)base;
}

static dpt_status check(const dpt_group *group)
{
    dpt_device *first = group->devices[0];
    if (group->n_ranks > group->n_devices || group->n_devices > PEERS_MOST_RANKS)
        return DPT_FAIL(&first->error, DPT_E_UNSUPPORTED,
                        "cards of one process, %d at most, reach each other's memory",
                        PEERS_MOST_RANKS);
    if (!have_words())
        return DPT_FAIL(&first->error, DPT_E_UNSUPPORTED,
                        "the driver's streams do not wait for words in memory");
    return dpt_cuda_reach_check(group);
}

/* Loads the kernels on a member's card, before another stream can wait for their launch. */
static dpt_status load_kernels(communicator *c, dpt_device *device)
{
    DPT_CUDA_TRY(device, cudaSetDevice(dpt_cuda_device_of(device)->ordinal));
    DPT_TRY(dpt_kernel_of(device, "peers.cu", "dpt_peers_sum", &c->sum));
    return dpt_kernel_of(device, "peers.cu", "dpt_peers_copy", &c->copy);
}

static dpt_status fill_in(communicator *c, const dpt_group *group)
{
    dpt_device *first = group->devices[0];
    void *table = NULL;
    DPT_CUDA_TRY(first, cudaHostAlloc(&table, sizeof *c->table,
                                      cudaHostAllocPortable | cudaHostAllocMapped));
    c->table = table;
    *c->table = (peers_table){.aborted = 0};
    for (size_t i = 0; i < c->n; i++) {
        const dpt_status status = load_kernels(c, c->devices[i]);
        if (status != DPT_OK) first->error = c->devices[i]->error;
        DPT_TRY(status);
    }
    return dpt_cuda_reach_open(group);
}

/* Frees the table, and restores the card that the calling thread has chosen, if it has chosen one
   of the group's cards. */
static void free_table(const communicator *c)
{
    const int before = dpt_cuda_chosen(c->devices, c->n);
    dpt_cuda_go_back(dpt_cuda_device_of(c->devices[0])->ordinal);
    if (cudaFreeHost(c->table) != cudaSuccess) (void)cudaGetLastError();
    dpt_cuda_go_back(before);
}

static void destroy(dpt_communicator *base)
{
    communicator *c = of(base);
    if (!c) return;
    atomic_store(&c->closing, true);
    if (c->released) pthread_join(c->releaser, NULL);
    if (c->table) free_table(c);
    free(c);
}

static dpt_status create(const dpt_group *group, dpt_communicator **out)
{
    dpt_device *first = group->devices[0];
    DPT_TRY(check(group));
    communicator *c = calloc(1, sizeof *c);
    if (!c) return DPT_FAIL(&first->error, DPT_E_NO_MEMORY, "no memory for a communicator");
    c->n = group->n_devices;
    for (size_t i = 0; i < c->n; i++)
        c->devices[i] = group->devices[i];
    const int before = dpt_cuda_chosen(c->devices, c->n);
    const dpt_status status = fill_in(c, group);
    dpt_cuda_go_back(before);
    if (status != DPT_OK) {
        destroy(&c->base);
        return status;
    }
    *out = &c->base;
    return DPT_OK;
}

/* ---- Aborting -------------------------------------------------------------------------------- */

static void set_word(u32 *word, u32 value)
{
    __atomic_store_n(word, value, __ATOMIC_SEQ_CST);
}

/* Sets all words to a value beyond every call, in arithmetic that wraps around, so that no stream
   waits. */
static void let_go(communicator *c)
{
    static const u32 far = 1u << 30;
    for (size_t i = 0; i < c->n; i++) {
        const u32 value = atomic_load(&c->n_calls[i]) + far;
        set_word(&c->table->ready[i], value);
        set_word(&c->table->done[i], value);
    }
}

/* The releaser's thread.  It calls let_go repeatedly, because a stream that goes on writes its own
   word, which is a lower value.  It calls let_go once more at the end, because freeing the table
   may wait for streams that have written during the last sleep. */
static void *release(void *argument)
{
    static const struct timespec nap = {.tv_nsec = 1000000};
    communicator *c = argument;
    while (!atomic_load(&c->closing)) {
        let_go(c);
        (void)nanosleep(&nap, NULL);
    }
    let_go(c);
    return NULL;
}

static void abort_all(dpt_communicator *base)
{
    communicator *c = of(base);
    if (atomic_exchange(&c->aborted, true)) return;
    set_word(&c->table->aborted, 1); /* before any stream goes on */
    let_go(c);
    c->released = pthread_create(&c->releaser, NULL, release, c) == 0;
}

/* ---- Calls ----------------------------------------------------------------------------------- */

/* A barrier of one call. */
typedef struct barrier {
    const u32 *words; /* (ranks) the last call that each rank has reached */
    u32 call;
} barrier;

/* Writes the rank's own word, and waits for the words of all other ranks. */
static dpt_status meet(const communicator *c, size_t own, dpt_stream *stream, barrier at)
{
    DPT_TRY(write_to(stream, &at.words[own], at.call));
    for (size_t i = 0; i < c->n; i++)
        if (i != own) DPT_TRY(wait_for(stream, &at.words[i], at.call));
    return DPT_OK;
}

static dpt_status launch(const communicator *c, dpt_kernel *kernel, dpt_stream *stream,
                         peers_params p)
{
    const dpt_traits *traits = dpt_traits_of(stream->device);
    const size_t group = traits->group_size, most = (size_t)4 * traits->n_units;
    size_t n_groups = dpt_ceil_div(p.end - p.begin, group);
    if (n_groups > most) n_groups = most;
    if (p.end == p.begin) return DPT_OK;
    p.n_items = n_groups * group;
    p.n_ranks = (u32)c->n;
    dpt_launch l = dpt_launch_begin(stream, kernel);
    dpt_launch_value(&l, &c->table, sizeof c->table);
    dpt_launch_value(&l, &p, sizeof p);
    return dpt_launch_groups(&l, (const size_t[3]){n_groups, 1, 1}, (const size_t[3]){group, 1, 1});
}

/* One rank's part of a call. */
typedef struct turn {
    dpt_stream *stream;
    dpt_location data;
    dpt_kernel *kernel; /* runs between the two barriers; NULL: none */
} turn;

static dpt_status take_part(communicator *c, const turn *own, const peers_params *p)
{
    dpt_stream *stream = own->stream;
    const uint64_t address = (uintptr_t)dpt_cuda_pointer(own->data);
    if (atomic_load(&c->aborted))
        return DPT_FAIL(&c->devices[p->rank]->error, DPT_E_CANCELLED,
                        "the communicator was aborted");
    const u32 call = atomic_fetch_add(&c->n_calls[p->rank], 1) + 1;
    DPT_TRY(write_to(stream, &c->table->data[p->rank][0], (u32)address));
    DPT_TRY(write_to(stream, &c->table->data[p->rank][1], (u32)(address >> 32)));
    DPT_TRY(meet(c, p->rank, stream, (barrier){c->table->ready, call}));
    if (own->kernel) DPT_TRY(launch(c, own->kernel, stream, *p));
    return meet(c, p->rank, stream, (barrier){c->table->done, call});
}

static dpt_status all_reduce(dpt_communicator *base, size_t i, dpt_stream *stream,
                             dpt_location data, size_t count)
{
    enum { LINE = 32 }; /* elements of a slice's grain, 128 bytes */
    communicator *c = of(base);
    const size_t slice = dpt_ceil_div(dpt_ceil_div(count, c->n), LINE) * LINE;
    const size_t begin = i * slice < count ? i * slice : count;
    const peers_params p = {
        .begin = begin, .end = count - begin < slice ? count : begin + slice, .rank = (u32)i};
    return count > 0 ? take_part(c, &(turn){stream, data, c->sum}, &p) : DPT_OK;
}

static dpt_status broadcast(dpt_communicator *base, size_t i, size_t root_rank, dpt_stream *stream,
                            dpt_location data, size_t count)
{
    communicator *c = of(base);
    const peers_params p = {.end = count, .rank = (u32)i, .root = (u32)root_rank};
    return count > 0 ? take_part(c, &(turn){stream, data, i == root_rank ? NULL : c->copy}, &p)
                     : DPT_OK;
}

const dpt_collective_ops dpt_cuda_peer_ops = {
    .check = check,
    .invite = NULL, /* one process needs no invitation */
    .create = create,
    .destroy = destroy,
    .all_reduce = all_reduce,
    .broadcast = broadcast,
    .abort = abort_all,
};
