/* Tests collectives without NCCL (backends/cuda/peers.c) on three of four emulated cards.  The
   first card is used by others. */
#include "device/buffer.h"
#include "device/communicator.h"
#include "device/driver.h"
#include "device/set.h"
#include "device/side_stream.h"
#include "device/stream.h"
#include "harness.h"

#include "cuda/emulator/control.h"
#include "device/device.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { N = 3, MOST = 100003, GUARD = 7, N_BYTES = (MOST + GUARD) * sizeof(float) };

typedef struct rank {
    dpti_side_stream side;
    dpti_buffer buffer;
    float *before, *after; /* (MOST + GUARD) */
    struct world *world;
    size_t i;
    dpt_status status;
} rank;

typedef struct world {
    dpt_context *context;
    dpt_device_set *set;
    dpt_communicator *communicator;
    rank ranks[N];
    /* What is called. */
    size_t count, n_calls;
    int root; /* of a broadcast; -1: a sum */
    int late; /* this rank comes later than the others; -1: none */
    bool waits;
} world;

static dpti_group group_of(const world *w)
{
    return (dpti_group){
        .devices = w->set->devices, .n = w->set->n_devices, .n_ranks = w->set->n_devices};
}

static dpti_device *device_of(const rank *r)
{
    return r->world->set->devices[r->i];
}

static void on_all(world *w, dpti_job *job)
{
    uint64_t tickets[N];
    for (size_t i = 0; i < N; i++)
        tickets[i] = dpti_driver_post(w->set->devices[i], job, &w->ranks[i]);
    for (size_t i = 0; i < N; i++)
        dpti_driver_wait(w->set->devices[i], tickets[i]);
}

/* ---- Setting up ------------------------------------------------------------------------------ */

static void run_create(dpti_device *device, void *argument)
{
    world *w = argument;
    const dpt_invitation nobody = {.bytes = {0}};
    const dpti_group group = group_of(w);
    rank *r = &w->ranks[0];
    (void)device;
    r->status = dpti_communicator_check(&group);
    if (r->status == DPT_OK)
        r->status = dpti_communicator_create(&group, &nobody, 1, &w->communicator);
}

static void run_begin(dpti_device *device, void *argument)
{
    rank *r = argument;
    r->status = dpti_side_stream_create(device, &r->side);
    if (r->status == DPT_OK) r->status = dpti_alloc(device, N_BYTES, &r->buffer);
}

static void run_end(dpti_device *device, void *argument)
{
    rank *r = argument;
    (void)device;
    dpti_free(&r->buffer);
    dpti_side_stream_destroy(&r->side);
}

static bool begin(test *t, const char *devices, world *w)
{
    memset(w, 0, sizeof *w);
    w->root = w->late = -1;
    if (!CHECK_OK(dpt_context_create(&w->context))) return false;
    if (!CHECK_OK(dpt_device_set_open(w->context, devices, &w->set))) return false;
    dpti_driver_call(w->set->devices[0], run_create, w);
    if (!CHECK_OK(w->ranks[0].status)) return false;
    for (size_t i = 0; i < N; i++) {
        w->ranks[i] =
            (rank){.world = w, .i = i, .before = malloc(N_BYTES), .after = malloc(N_BYTES)};
        if (!CHECK(w->ranks[i].before && w->ranks[i].after)) return false;
    }
    on_all(w, run_begin);
    for (size_t i = 0; i < N; i++)
        if (!CHECK_OK(w->ranks[i].status)) return false;
    return true;
}

static void run_destroy(dpti_device *device, void *argument)
{
    world *w = argument;
    dpti_communicator_destroy(device, w->communicator);
}

static void end(world *w)
{
    if (w->set && w->communicator) dpti_driver_call(w->set->devices[0], run_destroy, w);
    if (w->set && w->ranks[0].world) on_all(w, run_end);
    for (size_t i = 0; i < N; i++) {
        free(w->ranks[i].before);
        free(w->ranks[i].after);
    }
    dpt_device_set_close(w->set);
    dpt_context_destroy(w->context);
}

/* ---- Calls ----------------------------------------------------------------------------------- */

/* `n_calls` of them over neighbouring elements, none of which is waited for. */
static dpt_status enqueue(const rank *r)
{
    world *w = r->world;
    const dpti_communicator_member member = {
        .communicator = w->communicator, .index = r->i, .side = (dpti_side_stream *)&r->side};
    for (size_t k = 0; k < w->n_calls; k++) {
        const size_t first = w->root < 0 ? k * w->count : 0;
        const dpti_slice data = {.buffer = &r->buffer,
                                 .offset_bytes = first * sizeof(float),
                                 .n_bytes = w->count * sizeof(float)};
        DPT_TRY(w->root < 0 ? dpti_communicator_all_reduce(&member, &data)
                            : dpti_communicator_broadcast(&member, (size_t)w->root, &data));
    }
    return DPT_OK;
}

static dpt_status call(rank *r)
{
    static const struct timespec nap = {.tv_nsec = 20000000};
    DPT_TRY(dpti_upload(&r->buffer, 0, r->before, N_BYTES));
    DPT_TRY(dpti_sync(device_of(r)));
    if (r->world->late == (int)r->i) (void)nanosleep(&nap, NULL);
    DPT_TRY(enqueue(r));
    DPT_TRY(dpti_side_stream_sync(&r->side));
    DPT_TRY(dpti_download(r->after, &r->buffer, 0, N_BYTES));
    return dpti_sync(device_of(r));
}

static void run_call(dpti_device *device, void *argument)
{
    rank *r = argument;
    (void)device;
    r->status = call(r);
}

static void fill(world *w, uint64_t seed)
{
    test_random random = {seed};
    for (size_t i = 0; i < N; i++)
        for (size_t k = 0; k < MOST + GUARD; k++)
            w->ranks[i].before[k] = (float)test_random_below(&random, 1000003) / 977.0f - 500.0f;
}

static float expected_at(const world *w, const rank *r, size_t k)
{
    const size_t touched = w->root < 0 ? w->n_calls * w->count : w->count;
    if (k >= touched) return r->before[k];
    if (w->root >= 0) return w->ranks[w->root].before[k];
    float sum = w->ranks[0].before[k];
    for (size_t i = 1; i < N; i++)
        sum += w->ranks[i].before[k];
    return sum;
}

static void check_call(test *t, world *w, uint64_t seed)
{
    fill(w, seed);
    on_all(w, run_call);
    for (size_t i = 0; i < N; i++) {
        const rank *r = &w->ranks[i];
        if (!CHECK_OK(r->status)) return;
        for (size_t k = 0; k < MOST + GUARD; k++) {
            const float expected = expected_at(w, r, k);
            if (memcmp(&r->after[k], &expected, sizeof expected) == 0) continue;
            FAIL("%zu calls of %zu, root %d: element %zu of rank %zu is %.9g, not %.9g", w->n_calls,
                 w->count, w->root, k, i, (double)r->after[k], (double)expected);
            return;
        }
    }
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static const char devices[] = "cuda:1,cuda:2,cuda:3";

static void sums(test *t)
{
    static const size_t counts[] = {1, 2, 31, 97, 1000, 33334, MOST};
    world w;
    if (begin(t, devices, &w))
        for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
            w.count = counts[i];
            w.n_calls = 1;
            w.late = (int)(i % (N + 1)) - 1;
            check_call(t, &w, i);
        }
    end(&w);
}

static void one_behind_another(test *t)
{
    world w;
    if (begin(t, devices, &w))
        for (size_t i = 0; i < 3; i++) {
            w.count = 1 + 500 * i;
            w.n_calls = 40;
            w.late = (int)i;
            check_call(t, &w, i);
        }
    end(&w);
}

static void broadcasts(test *t)
{
    world w;
    if (begin(t, devices, &w))
        for (int i = 0; i < 2 * N; i++) {
            w.count = i % 2 == 0 ? MOST : 5;
            w.n_calls = 1;
            w.root = i / 2;
            w.late = i % N;
            check_call(t, &w, (uint64_t)i);
        }
    end(&w);
}

static void run_part(dpti_device *device, void *argument)
{
    rank *r = argument;
    (void)device;
    r->status = enqueue(r);
    if (r->status == DPT_OK) r->status = dpti_side_stream_sync(&r->side);
}

static void run_enqueue(dpti_device *device, void *argument)
{
    rank *r = argument;
    (void)device;
    r->status = enqueue(r);
}

/* One rank makes fewer calls than the others, who wait in their streams until it is aborted; then
   they end, and later calls say so.  Whoever destroys it then has no card, and gets none. */
static void aborted(test *t)
{
    static const struct timespec nap = {.tv_nsec = 50000000};
    world w;
    if (begin(t, devices, &w)) {
        uint64_t tickets[N];
        fill(&w, 1);
        w.count = 1000;
        w.n_calls = 1;
        tickets[2] = dpti_driver_post(w.set->devices[2], run_enqueue, &w.ranks[2]);
        dpti_driver_wait(w.set->devices[2], tickets[2]);
        w.n_calls = 3;
        for (size_t i = 0; i < 2; i++)
            tickets[i] = dpti_driver_post(w.set->devices[i], run_part, &w.ranks[i]);
        (void)nanosleep(&nap, NULL);
        CHECK(!dpti_driver_wait_for(w.set->devices[0], tickets[0], 0.05));
        dpti_communicator_abort(w.set->devices[0], w.communicator);
        dpti_communicator_abort(w.set->devices[0], w.communicator);
        for (size_t i = 0; i < 2; i++) {
            dpti_driver_wait(w.set->devices[i], tickets[i]);
            CHECK_OK(w.ranks[i].status);
        }
        on_all(&w, run_part);
        for (size_t i = 0; i < N; i++)
            CHECK_STATUS(w.ranks[i].status, DPT_E_CANCELLED);
        dpti_communicator_destroy(w.set->devices[0], w.communicator);
        w.communicator = NULL;
        CHECK(!emulated_has_context(0));
    }
    end(&w);
}

static void run_check(dpti_device *device, void *argument)
{
    world *w = argument;
    const dpti_group group = group_of(w);
    (void)device;
    w->ranks[0].status = dpti_communicator_check(&group);
}

static void one_card_twice(test *t)
{
    world w = {.context = NULL};
    REQUIRE_OK(dpt_context_create(&w.context));
    if (CHECK_OK(dpt_device_set_open(w.context, "cuda:1,cuda:2,cuda:1", &w.set))) {
        dpti_driver_call(w.set->devices[0], run_check, &w);
        CHECK_STATUS(w.ranks[0].status, DPT_E_UNSUPPORTED);
    }
    dpt_device_set_close(w.set);
    dpt_context_destroy(w.context);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"sums", sums},
        {"one behind another", one_behind_another},
        {"broadcasts", broadcasts},
        {"aborted", aborted},
        {"one card twice", one_card_twice},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
