/* Tests recording and replaying: a replay gives the same bits as direct execution, any number of
   times, with the values that the step block has at the time of the replay. */
#include "device/buffer.h"
#include "device/operator.h"
#include "device/stream.h"
#include "device_cases.h"

#include <stdlib.h>
#include <string.h>

/* A miniature of a training step: forward, loss, gradient, a fill, a copy, the optimizer. */
enum { N = 5, IN = 7, OUT = 4, N_OPS = 4 };

enum { X, W, BIAS, LABEL, LOGITS, RESULT, DLOGITS, DW, DBIAS, VELOCITY, STEP, SPARE, N_PLACES };

/* Offsets in one buffer, all aligned to 256 bytes. */
#define PLACE(i)   ((size_t)(i)*256)
#define ROOM_BYTES PLACE(N_PLACES)

typedef struct sequence {
    dpti_device *device;
    dpti_buffer buffer;
    dpti_op ops[N_OPS];
    dpt_op_args args[N_OPS];
    size_t n_samples[N_OPS], workspace_bytes;
    dpti_buffer workspace;
    unsigned char initial[ROOM_BYTES], direct[ROOM_BYTES], replayed[ROOM_BYTES];
} sequence;

static dpti_place place(const sequence *s, size_t i)
{
    return (dpti_place){.buffer = &s->buffer, .offset_bytes = PLACE(i)};
}

static void bindings(const sequence *s, dpti_binding out[N_OPS])
{
    out[0] =
        (dpti_binding){.in = {place(s, X), place(s, W), place(s, BIAS)}, .out = {place(s, LOGITS)}};
    out[1] = (dpti_binding){.in = {place(s, LOGITS), place(s, LABEL)},
                            .out = {place(s, RESULT), place(s, DLOGITS)}};
    out[2] = (dpti_binding){.in = {place(s, DLOGITS), place(s, X)},
                            .out = {place(s, DW), place(s, DBIAS)}};
    out[3] = (dpti_binding){.in = {place(s, DW)}, .out = {place(s, W), place(s, VELOCITY)}};
    for (size_t i = 0; i < N_OPS; i++) {
        out[i].workspace = (dpti_place){.buffer = &s->workspace};
        out[i].step = place(s, STEP);
    }
}

static dpt_status prepare(sequence *s)
{
    static const dpt_op_desc descs[N_OPS] = {
        {.kind = DPT_OP_LINEAR_FORWARD, .u.linear = {.in = IN, .out = OUT, .has_bias = true}},
        {.kind = DPT_OP_SOFTMAX_XENT_GRADIENT, .u.softmax = {.classes = OUT}},
        {.kind = DPT_OP_LINEAR_BACKWARD_WEIGHTS,
         .u.linear = {.in = IN, .out = OUT, .has_bias = true}},
        {.kind = DPT_OP_SGD,
         .u.sgd = {.count = IN * OUT, .decay_count = IN, .momentum = 0.9f, .weight_decay = 0.01f}},
    };
    dpti_binding bound[N_OPS];
    for (size_t i = 0; i < N_OPS; i++) {
        s->n_samples[i] = i == 3 ? 1 : N;
        DPT_TRY(dpti_prepare(s->device, &descs[i], s->n_samples[i], &s->ops[i]));
        if (s->ops[i].info.workspace_bytes > s->workspace_bytes)
            s->workspace_bytes = s->ops[i].info.workspace_bytes;
    }
    DPT_TRY(dpti_alloc(s->device, ROOM_BYTES, &s->buffer));
    DPT_TRY(dpti_alloc(s->device, s->workspace_bytes + 256, &s->workspace));
    bindings(s, bound);
    for (size_t i = 0; i < N_OPS; i++)
        DPT_TRY(dpti_bind(&s->ops[i], s->n_samples[i], &bound[i], &s->args[i]));
    return DPT_OK;
}

static void set_step(sequence *s, float lr)
{
    const dpt_step_block block = {
        .lr = lr, .inv_batch = 1.0f / N, .inv_labels = 1.0f / N, .step = 1, .epoch = 1};
    memcpy(s->initial + PLACE(STEP), &block, sizeof block);
}

static void fill_initial(sequence *s)
{
    test_random random = {1};
    float *floats = (float *)(void *)s->initial;
    int32_t labels[N];
    test_fill_normal(&random, floats, ROOM_BYTES / 4);
    for (size_t i = 0; i < N; i++)
        labels[i] = test_random_int(&random, 0, OUT - 1);
    memcpy(s->initial + PLACE(LABEL), labels, sizeof labels);
    set_step(s, 0.1f);
}

/* Enqueues all of it on the device's stream: the four operators, a fill and a copy. */
static dpt_status enqueue(sequence *s)
{
    const dpt_memory_ops *memory = s->device->base.backend->memory;
    const dpt_location from = {.buffer = s->buffer.handle, .offset_bytes = PLACE(RESULT)};
    const dpt_location to = {.buffer = s->buffer.handle, .offset_bytes = PLACE(SPARE) + 16};
    for (size_t i = 0; i < N_OPS; i++)
        DPT_TRY(dpti_run(&s->ops[i], s->n_samples[i], &s->args[i]));
    DPT_TRY(dpti_fill(&s->buffer, PLACE(SPARE), 0x12345678u, 16));
    return memory->copy(s->device->stream, to, from, 2 * N * sizeof(float));
}

static dpt_status reset(const sequence *s)
{
    DPT_TRY(dpti_upload(&s->buffer, 0, s->initial, ROOM_BYTES));
    return dpti_sync(s->device);
}

static dpt_status read_back(const sequence *s, unsigned char *out)
{
    DPT_TRY(dpti_download(out, &s->buffer, 0, ROOM_BYTES));
    return dpti_sync(s->device);
}

/* The result of direct execution from the initial contents. */
static dpt_status run_directly(sequence *s)
{
    DPT_TRY(reset(s));
    DPT_TRY(enqueue(s));
    return read_back(s, s->direct);
}

static dpt_status replay(sequence *s, dpt_recording *recording)
{
    DPT_TRY(s->device->base.backend->capture->replay(s->device->stream, recording));
    return read_back(s, s->replayed);
}

static void check_recording(test *t, sequence *s, dpt_recording *recording)
{
    for (int i = 0; i < 2; i++) {
        REQUIRE_OK(reset(s));
        REQUIRE_OK(replay(s, recording));
        CHECK(memcmp(s->replayed, s->direct, ROOM_BYTES) == 0);
    }
    /* Twice without a reset is twice the work: the momentum has moved on. */
    REQUIRE_OK(replay(s, recording));
    CHECK(memcmp(s->replayed, s->direct, ROOM_BYTES) != 0);
    /* A replay sees the step block as it stands then. */
    set_step(s, 0.7f);
    REQUIRE_OK(reset(s));
    REQUIRE_OK(replay(s, recording));
    CHECK(memcmp(s->replayed, s->direct, ROOM_BYTES) != 0);
    REQUIRE_OK(run_directly(s));
    CHECK(memcmp(s->replayed, s->direct, ROOM_BYTES) == 0);
}

static void record_and_check(test *t, sequence *s)
{
    const dpt_capture_ops *capture = s->device->base.backend->capture;
    dpt_recording *recording = NULL;
    REQUIRE_OK(run_directly(s));
    REQUIRE_OK(reset(s));
    const dpt_status begun = capture->begin(s->device->stream);
    if (begun == DPT_E_UNSUPPORTED) SKIP("this device does not record");
    REQUIRE_OK(begun);
    CHECK_OK(enqueue(s));
    REQUIRE_OK(capture->end(s->device->stream, &recording));
    REQUIRE(recording);
    CHECK_OK(read_back(s, s->replayed));
    CHECK(memcmp(s->replayed, s->initial, ROOM_BYTES) == 0); /* recorded, not done */
    check_recording(t, s, recording);
    capture->release(&s->device->base, recording);
    CHECK_OK(run_directly(s)); /* the stream executes again */
}

void conformance_capture(test *t)
{
    suite *of = suite_of(t);
    if (!of->device->base.backend->capture) SKIP("the backend cannot record");
    sequence *s = calloc(1, sizeof *s);
    REQUIRE(s);
    s->device = of->device;
    fill_initial(s);
    if (CHECK_OK(prepare(s))) record_and_check(t, s);
    for (size_t i = 0; i < N_OPS; i++)
        dpti_release(&s->ops[i]);
    dpti_free(&s->workspace);
    dpti_free(&s->buffer);
    free(s);
}
