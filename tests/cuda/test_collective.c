/* Tests the collectives of the CUDA backend (backends/cuda/collective.c) without a card.  NCCL is
   the stand-in of nccl_stand_in.c, which the loader finds first.  The runtime's functions are
   functions of this file. */
#include "harness.h"

#include "collective.h"
#include "nccl_stand_in.h"

#include <dlfcn.h>
#include <nccl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* nccl.c and reach.c are compiled with these in place of the runtime's. */
cudaError_t test_set_device(int ordinal);
cudaError_t test_get_device(int *ordinal);
cudaError_t test_can_access_peer(int *can, int from, int to);
cudaError_t test_set_access(cudaMemPool_t pool, const struct cudaMemAccessDesc *list, size_t n);
int test_nanosleep(const struct timespec *asked, struct timespec *left);

enum { N = 3, COUNT = 1000 };

static int current, n_chosen;
static _Thread_local size_t n_naps;
static bool apart;          /* cards 0 and 1 */
static cudaError_t refused; /* what opening memory comes to */
static bool opened[N][N];   /* whose memory to whom */
static char pools[N];

cudaError_t test_set_device(int ordinal)
{
    current = ordinal;
    n_chosen++;
    return cudaSuccess;
}

cudaError_t test_get_device(int *ordinal)
{
    *ordinal = current;
    return cudaSuccess;
}

cudaError_t test_can_access_peer(int *can, int from, int to)
{
    *can = !apart || from + to != 1;
    return cudaSuccess;
}

cudaError_t test_set_access(cudaMemPool_t pool, const struct cudaMemAccessDesc *list, size_t n)
{
    if (refused == cudaSuccess && n == 1)
        opened[(char *)pool - pools][list->location.id] =
            list->flags == cudaMemAccessFlagsProtReadWrite;
    return refused;
}

int test_nanosleep(const struct timespec *asked, struct timespec *left)
{
    n_naps++;
    return nanosleep(asked, left);
}

static nccl_stand_in *nccl;
static dpt_cuda_device cards[N];
static dpt_device devices[N];
static dpt_device *list[N];
static const dpt_collective_ops *const ops = &dpt_cuda_nccl_ops;

static bool begin(test *t)
{
    void *library = dlopen("libnccl.so.2", RTLD_NOW);
    nccl = library ? dlsym(library, "stand_in") : NULL;
    if (!CHECK(nccl != NULL)) return false;
    nccl->forget();
    nccl->polls = 3;
    nccl->refuse = 0;
    nccl->fail_rank = -1;
    nccl->come_to = 0;
    current = 1;
    n_chosen = 0;
    apart = false;
    refused = cudaSuccess;
    memset(opened, 0, sizeof opened);
    for (int i = 0; i < N; i++) {
        cards[i] = (dpt_cuda_device){.ordinal = i, .pool = (cudaMemPool_t)(void *)&pools[i]};
        memset(&devices[i], 0, sizeof devices[i]);
        devices[i].state = &cards[i];
        list[i] = &devices[i];
    }
    return true;
}

static dpt_status create(size_t n, size_t n_ranks, dpt_communicator **out)
{
    dpt_group group = {.devices = list, .n_devices = n, .n_ranks = n_ranks, .timeout_seconds = 0.3};
    DPT_TRY(ops->invite(list[0], &group.invitation));
    return ops->create(&group, out);
}

/* ---- What drivers do ------------------------------------------------------------------------- */

typedef struct part {
    pthread_t thread;
    dpt_communicator *communicator;
    size_t i;
    float data[COUNT];
    dpt_status status;
    void (*run)(struct part *part);
} part;

static part *parts;       /* (N) in memory that processes share */
static size_t first_rank; /* of this process */

static void *drive(void *argument)
{
    part *p = argument;
    p->run(p);
    return NULL;
}

static void drive_some(dpt_communicator *communicator, void (*run)(part *part), size_t begin,
                       size_t end)
{
    for (size_t i = begin; i < end; i++) {
        parts[i].communicator = communicator;
        parts[i].i = i;
        parts[i].run = run;
        pthread_create(&parts[i].thread, NULL, drive, &parts[i]);
    }
    for (size_t i = begin; i < end; i++)
        pthread_join(parts[i].thread, NULL);
}

static void together(dpt_communicator *communicator, void (*run)(part *part))
{
    drive_some(communicator, run, 0, N);
}

static dpt_status reduce(part *p, size_t count)
{
    dpt_stream stream = {.device = list[p->i]};
    dpt_buffer buffer = {.memory = p->data, .n_bytes = sizeof p->data};
    return ops->all_reduce(p->communicator, p->i - first_rank, &stream,
                           (dpt_location){.buffer = &buffer}, count);
}

static dpt_status hand_out(part *p, size_t root, size_t begin, size_t count)
{
    dpt_stream stream = {.device = list[p->i]};
    dpt_buffer buffer = {.memory = p->data, .n_bytes = sizeof p->data};
    return ops->broadcast(p->communicator, p->i - first_rank, root, &stream,
                          (dpt_location){.buffer = &buffer, .offset_bytes = begin * sizeof(float)},
                          count);
}

/* ---- The order of calls ---------------------------------------------------------------------- */

/* Sums the first ones; all wait for all; then gets the last ones of devices[2]. */
static pthread_barrier_t *between; /* in memory that processes share */

static void step(part *p)
{
    for (size_t k = 0; k < COUNT; k++)
        p->data[k] = (float)(p->i * 100 + k);
    p->status = reduce(p, 600);
    pthread_barrier_wait(between);
    if (p->status == DPT_OK) p->status = hand_out(p, 2, 700, 300);
}

static void begin_step(void)
{
    pthread_barrierattr_t kind;
    pthread_barrierattr_init(&kind);
    pthread_barrierattr_setpshared(&kind, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(between, &kind, N);
    pthread_barrierattr_destroy(&kind);
}

static void check_step(test *t)
{
    pthread_barrier_destroy(between);
    for (int r = 0; r < N; r++) {
        CHECK_OK(parts[r].status);
        CHECK_TEXT(nccl->calls(r), "init reduce:600 broadcast:300 finalize destroy");
        CHECK_NEAR(parts[r].data[10], 330, 0);
        CHECK_NEAR(parts[r].data[650], r * 100 + 650, 0);
        CHECK_NEAR(parts[r].data[800], 1000, 0);
    }
    CHECK_SIZE(nccl->n_open(), 0);
}

static void calls_in_order(test *t)
{
    dpt_communicator *communicator = NULL;
    if (!begin(t)) return;
    begin_step();
    REQUIRE_OK(create(N, N, &communicator));
    CHECK(current == 1);
    together(communicator, step);
    ops->destroy(communicator);
    check_step(t);
}

/* Ranks 0 and 1 are here, 2 is in another process, to which the invitation was brought. */
static void over_processes(test *t)
{
    dpt_communicator *communicator = NULL;
    if (!begin(t)) return;
    dpt_group here = {.devices = list, .n_devices = 2, .n_ranks = N, .timeout_seconds = 5};
    CHECK_OK(ops->check(&here));
    REQUIRE_OK(ops->invite(list[0], &here.invitation));
    begin_step();
    const pid_t child = fork();
    if (child == 0) {
        dpt_group there = here;
        there.devices = list + 2;
        there.n_devices = 1;
        there.first_rank = first_rank = 2;
        if (ops->check(&there) != DPT_OK || ops->create(&there, &communicator) != DPT_OK) _exit(1);
        drive_some(communicator, step, 2, N);
        ops->destroy(communicator);
        _exit(nccl->n_open() > 0);
    }
    REQUIRE_OK(ops->create(&here, &communicator));
    drive_some(communicator, step, 0, 2);
    ops->destroy(communicator);
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    check_step(t);
}

static void one_reduce(part *p)
{
    p->status = reduce(p, COUNT);
}

/* One of them has gone: who waits is freed by an abort in its own process. */
static void another_process_ends(test *t)
{
    dpt_communicator *communicator = NULL;
    if (!begin(t)) return;
    dpt_group here = {.devices = list, .n_devices = 2, .n_ranks = N, .timeout_seconds = 5};
    REQUIRE_OK(ops->invite(list[0], &here.invitation));
    const pid_t child = fork();
    if (child == 0) {
        dpt_group there = here;
        there.devices = list + 2;
        there.n_devices = 1;
        there.first_rank = 2;
        _exit(ops->create(&there, &communicator) != DPT_OK);
    }
    REQUIRE_OK(ops->create(&here, &communicator));
    int status = -1;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    drive_some(communicator, one_reduce, 0, 2);
    ops->abort(communicator);
    drive_some(communicator, one_reduce, 0, 2);
    CHECK_STATUS(parts[0].status, DPT_E_CANCELLED);
    CHECK_STATUS(parts[1].status, DPT_E_CANCELLED);
    ops->destroy(communicator);
    CHECK_TEXT(nccl->calls(1), "init reduce:1000 abort");
    CHECK_SIZE(nccl->n_open(), 0);
}

/* Nothing to do is no call: NCCL would take it, and the ranks need not agree on it. */
static void nothing(part *p)
{
    p->status = reduce(p, 0);
}

static void no_elements_no_call(test *t)
{
    dpt_communicator *communicator = NULL;
    if (!begin(t)) return;
    REQUIRE_OK(create(N, N, &communicator));
    together(communicator, nothing);
    CHECK_OK(parts[1].status);
    ops->destroy(communicator);
    CHECK_TEXT(nccl->calls(1), "init finalize destroy");
}

static void one_rank(test *t)
{
    dpt_communicator *communicator = NULL;
    if (!begin(t)) return;
    REQUIRE_OK(create(1, 1, &communicator));
    part *p = &parts[0];
    *p = (part){.communicator = communicator, .data = {4, 5}};
    CHECK_OK(reduce(p, 2));
    CHECK_NEAR(p->data[1], 5, 0);
    ops->destroy(communicator);
    CHECK_TEXT(nccl->calls(0), "init reduce:2 finalize destroy");
    ops->destroy(NULL);
}

/* What is done soon is not slept for, which takes longer. */
static void no_nap_for_a_call(test *t)
{
    enum { TRIES = 100 };
    dpt_communicator *communicator = NULL;
    if (!begin(t)) return;
    REQUIRE_OK(create(1, 1, &communicator));
    part *p = &parts[0];
    *p = (part){.communicator = communicator};
    for (int i = 0; i < TRIES; i++) {
        n_naps = 0;
        CHECK_OK(reduce(p, 2));
        CHECK_SIZE(n_naps, 0);
    }
    ops->destroy(communicator);
}

/* NCCL may write from card to card, as soon as ranks have joined. */
static void memory_is_opened(test *t)
{
    static const cudaError_t refusals[] = {cudaSuccess, cudaErrorTooManyPeers};
    if (!begin(t)) return;
    for (int way = 0; way < 3; way++) {
        dpt_communicator *communicator = NULL;
        nccl->forget();
        memset(opened, 0, sizeof opened);
        apart = way == 1;
        refused = refusals[way / 2];
        REQUIRE_OK(create(N, N, &communicator));
        for (int i = 0; i < N; i++)
            for (int k = 0; k < N; k++)
                CHECK(opened[i][k] == (i != k && way < 2 && !(apart && i + k == 1)));
        ops->destroy(communicator);
    }
}

/* ---- What goes wrong ------------------------------------------------------------------------- */

static void joining_is_refused(test *t)
{
    dpt_communicator *communicator = NULL;
    if (!begin(t)) return;
    nccl->refuse = ncclSystemError;
    CHECK_STATUS(create(N, N, &communicator), DPT_E_DEVICE);
    CHECK_CONTAINS(devices[0].error.message, "ncclCommInitRankConfig");
    CHECK(current == 1);
    CHECK_SIZE(nccl->n_open(), 0);
}

/* A thread without a card of the group's is not given another. */
static void a_thread_without_a_card(test *t)
{
    dpt_communicator *communicator = NULL;
    if (!begin(t)) return;
    current = 5;
    REQUIRE_OK(create(N, N, &communicator));
    CHECK(n_chosen == N && current == N - 1);
    ops->destroy(communicator);
}

static void a_card_is_lost(test *t)
{
    dpt_communicator *communicator = NULL;
    if (!begin(t)) return;
    refused = cudaErrorIllegalAddress;
    CHECK_STATUS(create(N, N, &communicator), DPT_E_DEVICE_LOST);
    CHECK_CONTAINS(devices[0].error.message, "cudaMemPoolSetAccess");
    CHECK_TEXT(nccl->calls(0), "");
}

/* Other processes' ranks never come. */
static void the_others_do_not_come(test *t)
{
    dpt_communicator *communicator = NULL;
    if (!begin(t)) return;
    CHECK_STATUS(create(2, 4, &communicator), DPT_E_DEVICE);
    CHECK_CONTAINS(devices[0].error.message, "the other ranks did not come");
    CHECK_TEXT(nccl->calls(1), "init abort");
    CHECK_SIZE(nccl->n_open(), 0);
}

static void a_rank_fails(test *t)
{
    dpt_communicator *communicator = NULL;
    if (!begin(t)) return;
    nccl->fail_rank = 1;
    REQUIRE_OK(create(N, N, &communicator));
    together(communicator, one_reduce);
    CHECK_STATUS(parts[1].status, DPT_E_DEVICE);
    CHECK_CONTAINS(devices[1].error.message, "a rank has failed");
    ops->abort(communicator);
    together(communicator, one_reduce);
    for (int r = 0; r < N; r++) {
        CHECK_STATUS(parts[r].status, DPT_E_CANCELLED);
        CHECK_CONTAINS(devices[r].error.message, "aborted");
        CHECK_TEXT(nccl->calls(r), "init reduce:1000 abort");
    }
    ops->destroy(communicator);
    CHECK_SIZE(nccl->n_open(), 0);
}

/* Behind its calls, which were well: as in a rank whose network has failed. */
static void asked_it_says_that_it_has_failed(test *t)
{
    dpt_communicator *communicator = NULL;
    if (!begin(t)) return;
    REQUIRE_OK(create(N, N, &communicator));
    together(communicator, one_reduce);
    for (size_t i = 0; i < N; i++) {
        CHECK_OK(parts[i].status);
        CHECK_OK(ops->query(communicator, i));
        nccl->polls = 3; /* and what is in progress has not */
        CHECK_OK(ops->query(communicator, i));
    }
    nccl->come_to = ncclSystemError;
    for (size_t i = 0; i < N; i++) {
        CHECK_STATUS(ops->query(communicator, i), DPT_E_DEVICE);
        CHECK_CONTAINS(devices[i].error.message, "a collective under way");
    }
    ops->abort(communicator);
    CHECK_OK(ops->query(communicator, 0)); /* there is nothing to ask any more */
    nccl->come_to = 0;
    ops->destroy(communicator);
    CHECK_TEXT(nccl->calls(1), "init reduce:1000 abort");
    CHECK_SIZE(nccl->n_open(), 0);
}

/* A call that never gets done holds its thread until another one aborts. */
static void waits_for_ever(part *p)
{
    p->status = reduce(p, 8);
}

static void abort_frees_who_waits(test *t)
{
    dpt_communicator *communicator = NULL;
    part *p = &parts[0];
    if (!begin(t)) return;
    REQUIRE_OK(create(1, 1, &communicator));
    nccl->polls = 1 << 30;
    *p = (part){.communicator = communicator, .run = waits_for_ever};
    pthread_create(&p->thread, NULL, drive, p);
    while (!strstr(nccl->calls(0), "reduce"))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    ops->abort(communicator);
    pthread_join(p->thread, NULL);
    CHECK_STATUS(p->status, DPT_E_CANCELLED);
    CHECK_CONTAINS(devices[0].error.message, "aborted");
    ops->abort(communicator); /* once more */
    ops->destroy(communicator);
    CHECK_TEXT(nccl->calls(0), "init reduce:8 abort");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"calls in order", calls_in_order},
        {"over processes", over_processes},
        {"another process ends", another_process_ends},
        {"no elements, no call", no_elements_no_call},
        {"one rank", one_rank},
        {"no nap for a call", no_nap_for_a_call},
        {"memory is opened", memory_is_opened},
        {"joining is refused", joining_is_refused},
        {"a thread without a card", a_thread_without_a_card},
        {"a card is lost", a_card_is_lost},
        {"the others do not come", the_others_do_not_come},
        {"a rank fails", a_rank_fails},
        {"asked, it says that it has failed", asked_it_says_that_it_has_failed},
        {"abort frees who waits", abort_frees_who_waits},
    };
    const size_t n_bytes = N * sizeof *parts + sizeof *between;
    void *memory = mmap(NULL, n_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) return 1;
    parts = memory;
    between = (pthread_barrier_t *)(void *)(parts + N);
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
