/* Tests training on emulated cards: recorded steps give the same bits as other steps, on any
   devices, and with gradients that a library sums among the cards. */
#include "device/driver.h"
#include "device/operator.h"
#include "device/set.h"
#include "harness.h"

#include "base/clock.h"
#include "device/device.h"
#include "train/flat.h"

#include "cuda/emulator/control.h"
#include "cuda/nccl_stand_in.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const lists[][2] = {
    {"cuda:0", "cuda:0:graphs=off"},
    {"cuda:0,cuda:0", "cuda:0:graphs=off,cuda:0:graphs=off"},
    {"cuda:0,cuda:1", "cuda:0:graphs=off,cuda:1:graphs=off"},
    {"cuda:0,cpu:threads=1", "cuda:0:graphs=off,cpu:threads=1"},
};

enum { N_LISTS = sizeof lists / sizeof *lists };

typedef struct setting {
    dpt_context *context;
    dpt_dataset *data;
    dpt_model *model;
    flat_outcome alone; /* on the CPU */
} setting;

static dpt_status run(const setting *s, const char *devices, flat_outcome *out)
{
    const flat_task task = {.model = s->model,
                            .data = s->data,
                            .devices = devices,
                            .split = "equal",
                            .batch = FLAT_BATCH,
                            .steps = FLAT_STEPS};
    return flat_run(s->context, &task, out);
}

static bool same_bits(const setting *s, const flat_outcome *a, const flat_outcome *b)
{
    const size_t n_bytes = s->model->flat_size * sizeof(float);
    return memcmp(a->weights, b->weights, n_bytes) == 0 &&
           memcmp(a->gradients, b->gradients, n_bytes) == 0 &&
           memcmp(a->losses, b->losses, sizeof a->losses) == 0;
}

static void graphs_change_no_bit(test *t)
{
    const setting *s = t->user;
    for (size_t i = 0; i < N_LISTS; i++) {
        flat_outcome with = {.weights = NULL}, without = {.weights = NULL};
        if (!CHECK_OK(run(s, lists[i][0], &with)) || !CHECK_OK(run(s, lists[i][1], &without)) ||
            !CHECK(same_bits(s, &with, &without)) || !CHECK(with.replicas_agree) ||
            !CHECK(without.replicas_agree))
            FAIL("%s: %s", lists[i][0], dpt_error_message(s->context));
        for (size_t k = 0; with.weights && k < FLAT_STEPS; k++)
            CHECK_NEAR(with.losses[k], s->alone.losses[k], 1e-3);
        flat_free(&with);
        flat_free(&without);
    }
}

/* A card that is done with its part, and whose stream waits for the other's, keeps nobody from
   loading what that one takes: whatever the shares, the last batch's too, and how they are brought.
   Where calls that load something wait (CUDA_EMULATED_LOADS) this would not come to an end else. */
static void loading_waits_for_no_sum(test *t)
{
    const setting *s = t->user;
    static const char *const splits[] = {"1:6", "5:2"};
    for (size_t i = 0; i < 4; i++) {
        flat_outcome out = {.weights = NULL};
        const flat_task task = {.model = s->model,
                                .data = s->data,
                                .devices = "cuda:0,cuda:1",
                                .split = splits[i % 2],
                                .batch = FLAT_BATCH,
                                .steps = FLAT_STEPS,
                                .mode = DPT_BATCH_NORM_LOCAL,
                                .no_overlap = i > 1,
                                .bucket_bytes = 1};
        if (!CHECK_OK(flat_run(s->context, &task, &out)) || !CHECK(out.replicas_agree))
            FAIL("split %s: %s", task.split, dpt_error_message(s->context));
        flat_free(&out);
    }
}

/* What the stand-in for cuDNN sets to 0 in front of its kernels is done by kernels in graphs. */
static void graphs_have_no_small_fills(test *t)
{
    const setting *s = t->user;
    const char *libraries = getenv("CUDA_EMULATED_LIBRARIES");
    const emulated_nodes before = emulated_graph_nodes();
    flat_outcome out = {.weights = NULL};
    if (!libraries || !strstr(libraries, "cudnn")) SKIP("without cudnn");
    if (!CHECK_OK(run(s, "cuda:0:algorithm=cudnn-2", &out)))
        FAIL("%s", dpt_error_message(s->context));
    for (size_t k = 0; out.weights && k < FLAT_STEPS; k++)
        CHECK_NEAR(out.losses[k], s->alone.losses[k], 1e-3);
    const emulated_nodes after = emulated_graph_nodes();
    CHECK(after.added_kernels > before.added_kernels);
    CHECK_SIZE(after.small_fills, 0);
    flat_free(&out);
}

/* How gradients of filters of n samples are computed on a card that is asked for cuDNN. */
typedef struct filters {
    size_t n_samples;
    char algorithm[32];
    dpt_status status;
} filters;

static void prepare_filters(dpti_device *device, void *argument)
{
    filters *f = argument;
    const dpt_op_desc desc = {.kind = DPT_OP_CONV2D_BACKWARD_WEIGHTS,
                              .u.conv2d = {.in_h = 32,
                                           .in_w = 32,
                                           .in_channels = 4,
                                           .out_h = 32,
                                           .out_w = 32,
                                           .out_channels = 8,
                                           .kernel_h = 1,
                                           .kernel_w = 1,
                                           .stride_h = 1,
                                           .stride_w = 1,
                                           .dilation_h = 1,
                                           .dilation_w = 1,
                                           .groups = 1}};
    dpti_op op = {.device = NULL};
    f->status = dpti_prepare(device, &desc, f->n_samples, &op);
    if (f->status != DPT_OK) return;
    snprintf(f->algorithm, sizeof f->algorithm, "%s", op.info.algorithm);
    dpti_release(&op);
}

static bool by_library(test *t, const char *list, size_t n_samples)
{
    const setting *s = t->user;
    dpt_device_set *devices = NULL;
    filters f = {.n_samples = n_samples};
    if (CHECK_OK(dpt_device_set_open(s->context, list, &devices))) {
        dpti_driver_call(devices->devices[0], prepare_filters, &f);
        CHECK_OK(f.status);
    }
    dpt_device_set_close(devices);
    return strncmp(f.algorithm, "cudnn", 5) == 0;
}

/* cuDNN adds up all pixels one after the other: true float32 bears no more than 1024. */
static void long_sums_are_ours(test *t)
{
    const char *libraries = getenv("CUDA_EMULATED_LIBRARIES");
    if (!libraries || !strstr(libraries, "cudnn")) SKIP("without cudnn");
    CHECK(by_library(t, "cuda:0:algorithm=cudnn-2", 1));
    CHECK(!by_library(t, "cuda:0:algorithm=cudnn-2", 2));
    CHECK(by_library(t, "cuda:0:precision=tf32:algorithm=cudnn-2", 2));
}

/* Where the library is found, two cards are an island. */
static void cards_sum_among_themselves(test *t)
{
    void *library = dlopen("libnccl.so.2", RTLD_NOW);
    const nccl_stand_in *nccl = library ? dlsym(library, "stand_in") : NULL;
    const char *wanted = getenv("DPTRAIN_TEST_NCCL");
    if (!wanted) SKIP("without DPTRAIN_TEST_NCCL");
    REQUIRE(nccl);
    for (int rank = 0; rank < 2; rank++)
        CHECK_CONTAINS(nccl->calls(rank), "reduce:");
    CHECK_SIZE(nccl->n_open(), 0);
}

/* Trains while the n-th sum of a communicator breaks, and returns whether that took no longer than
   it takes to notice: a sum that does not end is waited for a minute. */
static bool breaks(test *t, nccl_stand_in *nccl, int n, const flat_task *task, dpt_status *status,
                   flat_outcome *out)
{
    const setting *s = t->user;
    const double began = dpti_seconds();
    *out = (flat_outcome){.weights = NULL};
    nccl->break_at = n;
    *status = flat_run(s->context, task, out);
    nccl->break_at = 0;
    return dpti_seconds() - began < 20;
}

/* Of two cards they are done through the host, of two processes the job ends, unless it is one of
   the 7 sums that are tried before the first step.  Where gradients are not exchanged in buckets
   nobody calls for another before one has ended. */
static void what_has_failed_is_not_waited_for(test *t)
{
    const setting *s = t->user;
    void *library = dlopen("libnccl.so.2", RTLD_NOW);
    nccl_stand_in *nccl = library ? dlsym(library, "stand_in") : NULL;
    if (!getenv("DPTRAIN_TEST_NCCL")) SKIP("without DPTRAIN_TEST_NCCL");
    REQUIRE(nccl);
    for (int n = 1; n < 12; n += n < 7 ? 3 : 1) {
        dpt_status status;
        flat_outcome out;
        flat_task task = {.model = s->model,
                          .data = s->data,
                          .devices = "cuda:0,cuda:1",
                          .split = "equal",
                          .batch = FLAT_BATCH,
                          .steps = 4,
                          .no_overlap = n % 2 == 0,
                          .bucket_bytes = 1};
        CHECK(breaks(t, nccl, n, &task, &status, &out));
        if (!CHECK_OK(status) || !CHECK(out.replicas_agree))
            FAIL("%d: %s", n, dpt_error_message(s->context));
        for (size_t k = 0; out.weights && k < task.steps; k++)
            CHECK_NEAR(out.losses[k], s->alone.losses[k], 1e-3);
        flat_free(&out);
        task.devices = "cuda:0|cuda:1";
        CHECK(breaks(t, nccl, n, &task, &status, &out));
        CHECK_STATUS(status, n <= 7 ? DPT_OK : DPT_E_DEVICE);
        if (n > 7) CHECK_CONTAINS(dpt_error_message(s->context), "a rank has failed");
        flat_free(&out);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"graphs change no bit", graphs_change_no_bit},
        {"loading waits for no sum", loading_waits_for_no_sum},
        {"graphs have no small fills", graphs_have_no_small_fills},
        {"long sums are ours", long_sums_are_ours},
        {"what has failed is not waited for", what_has_failed_is_not_waited_for},
        {"cards sum among themselves", cards_sum_among_themselves},
    };
    setting s = {.context = NULL};
    test setup = {.name = "one device"};
    test *t = &setup;
    int code = 1;
    if (CHECK_OK(dpt_context_create(&s.context)) &&
        CHECK_OK(flat_data(s.context, FLAT_COUNT, 0, &s.data)) &&
        CHECK_OK(flat_residual(s.context, &s.model)) &&
        CHECK_OK(run(&s, "cpu:threads=1", &s.alone)))
        code = test_main(argc, argv, cases, sizeof cases / sizeof *cases, &s);
    else if (s.context)
        puts(dpt_error_message(s.context));
    flat_free(&s.alone);
    dpt_model_destroy(s.model);
    dpt_dataset_destroy(s.data);
    dpt_context_destroy(s.context);
    return code;
}
