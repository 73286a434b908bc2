/* Measures single operators on one device against the roofline: GFLOP/s for operators that are
   bound by arithmetic, GB/s for operators that are bound by memory.  Each rate is also given in per
   cent of the peak that was measured in the same run, for this machine's cores or for the device.

       bench-ops [DEVICE [BATCH [PART [HOW...]]]]        e.g.  bench-ops cpu:threads=1 256 conv

   PART: only operators whose name contains PART; or one convolution, as in "conv 17x15x48 3x3/2+1
   to 96": height, width and channels, filter, stride (default 1) and padding (default 0), channels
   of the result.

   An operator that runs repeatedly finds its data in a cache.  In training a whole step lies
   between two runs: with the word `cold`, as much memory as a step uses is written before each run.
   With `deterministic` the operators have the same bits on all devices. */
#include "base/clock.h"
#include "base/parse.h"
#include "base/size.h"
#include "device/buffer.h"
#include "device/device.h"
#include "device/driver.h"
#include "device/measure.h"
#include "device/operator.h"
#include "device/set.h"
#include "device/signature.h"
#include "device/stream.h"
#include "peak.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RUNS = 15 };

static const double min_seconds = 0.02; /* of one run */
static const size_t cold_bytes = (size_t)512 << 20;

/* ---- What is measured ------------------------------------------------------------------------ */

typedef struct item {
    const char *name;
    dpt_op_desc desc;
} item;

#define CONV_STRIDE(H, C, O, K, P, S)                                                              \
    {                                                                                              \
        .in_h = (H), .in_w = (H), .in_channels = (C), .out_h = ((H) + 2 * (P) - (K)) / (S) + 1,    \
        .out_w = ((H) + 2 * (P) - (K)) / (S) + 1, .out_channels = (O), .kernel_h = (K),            \
        .kernel_w = (K), .stride_h = (S), .stride_w = (S), .pad_h = (P), .pad_w = (P),             \
        .dilation_h = 1, .dilation_w = 1, .groups = 1, .has_bias = true                            \
    }
#define CONV(H, C, O, K, P) CONV_STRIDE(H, C, O, K, P, 1)
#define POOL(H, C)                                                                                 \
    {                                                                                              \
        .kind = DPT_POOL_AVERAGE, .in_h = (H), .in_w = (H), .channels = (C), .out_h = (H) / 2,     \
        .out_w = (H) / 2, .kernel_h = 2, .kernel_w = 2, .stride_h = 2, .stride_w = 2               \
    }
#define BATCH_NORM(AREA, C)                                                                        \
    {                                                                                              \
        .area = (AREA), .channels = (C), .n_parts = 1, .epsilon = 1e-5f,                           \
        .activation = DPT_ACT_RELU, .has_residual = true                                           \
    }
#define MASKING_BATCH_NORM(AREA, C)                                                                \
    {                                                                                              \
        .area = (AREA), .channels = (C), .n_parts = 1, .epsilon = 1e-5f,                           \
        .output_activation = DPT_ACT_RELU                                                          \
    }
#define CONVS(NAME, ...)                                                                           \
    {NAME " forward", {.kind = DPT_OP_CONV2D_FORWARD, .u.conv2d = __VA_ARGS__}},                   \
        {NAME " backward data", {.kind = DPT_OP_CONV2D_BACKWARD_DATA, .u.conv2d = __VA_ARGS__}},   \
    {                                                                                              \
        NAME " backward weights",                                                                  \
        {                                                                                          \
            .kind = DPT_OP_CONV2D_BACKWARD_WEIGHTS, .u.conv2d = __VA_ARGS__                        \
        }                                                                                          \
    }
#define DEPTHWISE(H, C, K)                                                                         \
    {                                                                                              \
        .in_h = (H), .in_w = (H), .in_channels = (C), .out_h = (H), .out_w = (H),                  \
        .out_channels = (C), .kernel_h = (K), .kernel_w = (K), .stride_h = 1, .stride_w = 1,       \
        .pad_h = (K) / 2, .pad_w = (K) / 2, .dilation_h = 1, .dilation_w = 1, .groups = (C)        \
    }
/* A program over MAP_COUNT elements a sample with two inputs, the first two instructions. */
#define MAP_COUNT 65536
#define MAP_OPERAND                                                                                \
    {                                                                                              \
        .type = DPT_F32, .sampled = true, .size = MAP_COUNT, .stride = { 1 }                       \
    }
#define LOADS                                                                                      \
    {.code = DPT_MAP_LOAD},                                                                        \
    {                                                                                              \
        .code = DPT_MAP_LOAD, .index = 1                                                           \
    }
#define PROGRAM(N, ...)                                                                            \
    {                                                                                              \
        .rank = 1, .extent = {MAP_COUNT}, .n_in = 2, .n_out = 1, .n_code = (N), .value = {(N)-1},  \
        .in = {MAP_OPERAND, MAP_OPERAND}, .out = {MAP_OPERAND}, .code = {                          \
            __VA_ARGS__                                                                            \
        }                                                                                          \
    }
#define STEP(CODE, A, B)                                                                           \
    {                                                                                              \
        .code = DPT_MAP_##CODE, .a = (A), .b = (B)                                                 \
    }
#define LINEARS(NAME, ...)                                                                         \
    {NAME " forward", {.kind = DPT_OP_LINEAR_FORWARD, .u.linear = __VA_ARGS__}},                   \
        {NAME " backward data", {.kind = DPT_OP_LINEAR_BACKWARD_DATA, .u.linear = __VA_ARGS__}},   \
    {                                                                                              \
        NAME " backward weights",                                                                  \
        {                                                                                          \
            .kind = DPT_OP_LINEAR_BACKWARD_WEIGHTS, .u.linear = __VA_ARGS__                        \
        }                                                                                          \
    }

/* H heads of 64 channels over L places, and the products and the softmax that they would be: of
   queries and keys (scores), and of probabilities and values. */
#define ATTENTION(H, L)                                                                            \
    {                                                                                              \
        .heads = (H), .key_heads = (H), .width = 64, .queries = (L), .keys = (L), .packed = true,  \
        .causal = true, .scale = 0.125f                                                            \
    }
#define PART_OF_HEADS(H, L, FIRST)                                                                 \
    {                                                                                              \
        .elements = 192 * (H) * (L), .offset = 64 * (H) * (FIRST), .batch_stride = {0, 0, 64},     \
        .row_stride = 192 * (H), .column_stride = 1, .per_sample = true                            \
    }
#define KEYS_OF_HEADS(H, L)                                                                        \
    {                                                                                              \
        .elements = 192 * (H) * (L), .offset = 64 * (H), .batch_stride = {0, 0, 64},               \
        .row_stride = 1, .column_stride = 192 * (H), .per_sample = true                            \
    }
#define SCORES(H, L)                                                                               \
    {                                                                                              \
        .elements = (H) * (L) * (L), .batch_stride = {0, 0, (L) * (L)}, .row_stride = (L),         \
        .column_stride = 1, .per_sample = true                                                     \
    }
#define VALUES(H, L)                                                                               \
    {                                                                                              \
        .elements = 64 * (H) * (L), .batch_stride = {0, 0, 64 * (L)}, .row_stride = 64,            \
        .column_stride = 1, .per_sample = true                                                     \
    }
#define ATTENTIONS(NAME, H, L)                                                                     \
    {NAME " forward", {.kind = DPT_OP_ATTENTION_FORWARD, .u.attention = ATTENTION(H, L)}},         \
        {NAME " backward", {.kind = DPT_OP_ATTENTION_BACKWARD, .u.attention = ATTENTION(H, L)}},   \
        {NAME ": product for scores",                                                              \
         {.kind = DPT_OP_MATMUL,                                                                   \
          .u.matmul = {.batch = {1, 1, (H)},                                                       \
                       .rows = (L),                                                                \
                       .columns = (L),                                                             \
                       .inner = 64,                                                                \
                       .alpha = 0.125f,                                                            \
                       .a = PART_OF_HEADS(H, L, 0),                                                \
                       .b = KEYS_OF_HEADS(H, L),                                                   \
                       .y = SCORES(H, L)}}},                                                       \
        {NAME ": product for values",                                                              \
         {.kind = DPT_OP_MATMUL,                                                                   \
          .u.matmul = {.batch = {1, 1, (H)},                                                       \
                       .rows = (L),                                                                \
                       .columns = 64,                                                              \
                       .inner = (L),                                                               \
                       .alpha = 1.0f,                                                              \
                       .a = SCORES(H, L),                                                          \
                       .b = PART_OF_HEADS(H, L, 2),                                                \
                       .y = VALUES(H, L)}}},                                                       \
        {NAME ": softmax forward",                                                                 \
         {.kind = DPT_OP_ROW_SOFTMAX_FORWARD,                                                      \
          .u.row_softmax = {.rows = (H) * (L), .columns = (L)}}},                                  \
    {                                                                                              \
        NAME ": softmax backward",                                                                 \
        {                                                                                          \
            .kind = DPT_OP_ROW_SOFTMAX_BACKWARD, .u.row_softmax = {                                \
                .rows = (H) * (L),                                                                 \
                .columns = (L)                                                                     \
            }                                                                                      \
        }                                                                                          \
    }

static const item items[] = {
    CONVS("conv 28x28x1 3x3 to 20", CONV(28, 1, 20, 3, 0)),
    CONVS("conv 13x13x20 5x5 to 50", CONV(13, 20, 50, 5, 0)),
    CONVS("conv 28x28x1 5x5 to 6", CONV(28, 1, 6, 5, 2)),
    CONVS("conv 14x14x6 5x5 to 16", CONV(14, 6, 16, 5, 0)),
    CONVS("conv 28x28x1 3x3 to 64", CONV(28, 1, 64, 3, 1)),
    CONVS("conv 28x28x64 3x3/2 to 128", CONV_STRIDE(28, 64, 128, 3, 1, 2)),
    CONVS("conv 28x28x64 1x1/2 to 128", CONV_STRIDE(28, 64, 128, 1, 0, 2)),
    CONVS("conv 7x7x256 3x3/2 to 512", CONV_STRIDE(7, 256, 512, 3, 1, 2)),
    CONVS("conv 28x28x64 3x3 to 64", CONV(28, 64, 64, 3, 1)),
    CONVS("conv 14x14x128 3x3 to 128", CONV(14, 128, 128, 3, 1)),
    CONVS("conv 7x7x256 3x3 to 256", CONV(7, 256, 256, 3, 1)),
    CONVS("conv 4x4x512 3x3 to 512", CONV(4, 512, 512, 3, 1)),
    CONVS("depthwise 28x28x96 3x3", DEPTHWISE(28, 96, 3)),
    CONVS("depthwise 14x14x384 3x3", DEPTHWISE(14, 384, 3)),
    CONVS("depthwise 14x14x384 7x7", DEPTHWISE(14, 384, 7)),
    LINEARS("linear 800 to 128", {.in = 800, .out = 128, .has_bias = true}),
    LINEARS("linear 1024 to 1024", {.in = 1024, .out = 1024, .has_bias = true}),
    {"average pool 26x26x20 forward", {.kind = DPT_OP_POOL2D_FORWARD, .u.pool2d = POOL(26, 20)}},
    {"average pool 26x26x20 backward", {.kind = DPT_OP_POOL2D_BACKWARD, .u.pool2d = POOL(26, 20)}},
    {"batch-norm 28x28x64 part",
     {.kind = DPT_OP_BATCH_NORM_PARTIAL, .u.batch_norm = BATCH_NORM(784, 64)}},
    {"batch-norm 28x28x64 forward",
     {.kind = DPT_OP_BATCH_NORM_FORWARD, .u.batch_norm = BATCH_NORM(784, 64)}},
    {"batch-norm 28x28x64 backward part",
     {.kind = DPT_OP_BATCH_NORM_BACKWARD_PARTIAL, .u.batch_norm = BATCH_NORM(784, 64)}},
    {"batch-norm 28x28x64 backward data",
     {.kind = DPT_OP_BATCH_NORM_BACKWARD_DATA, .u.batch_norm = BATCH_NORM(784, 64)}},
    {"batch-norm 28x28x64 backward part, ReLU",
     {.kind = DPT_OP_BATCH_NORM_BACKWARD_PARTIAL, .u.batch_norm = MASKING_BATCH_NORM(784, 64)}},
    {"batch-norm 28x28x64 backward data, ReLU",
     {.kind = DPT_OP_BATCH_NORM_BACKWARD_DATA, .u.batch_norm = MASKING_BATCH_NORM(784, 64)}},
    {"batch-norm 4x4x512 part",
     {.kind = DPT_OP_BATCH_NORM_PARTIAL, .u.batch_norm = BATCH_NORM(16, 512)}},
    {"softmax, loss and gradient",
     {.kind = DPT_OP_SOFTMAX_XENT_GRADIENT, .u.softmax = {.classes = 10}}},
    ATTENTIONS("attention 256x6x64", 6, 256),
    ATTENTIONS("attention 1024x12x64", 12, 1024),
    {"gather and normalise",
     {.kind = DPT_OP_GATHER,
      .u.gather = {.dtype = DPT_U8, .count = 784, .n_records = 60000, .channels = 1}}},
    {"a * b", {.kind = DPT_OP_MULTIPLY, .u.elementwise = {.count = 65536}}},
    {"a program of one sum", {.kind = DPT_OP_MAP, .u.map = PROGRAM(3, LOADS, STEP(ADD, 0, 1))}},
    {"a program of ten steps",
     {.kind = DPT_OP_MAP,
      .u.map =
          PROGRAM(12, LOADS, STEP(ADD, 0, 1), STEP(MULTIPLY, 2, 1), STEP(SUBTRACT, 3, 0),
                  STEP(MAXIMUM, 4, 1), STEP(MULTIPLY, 5, 5), STEP(ADD, 6, 0), STEP(MINIMUM, 7, 1),
                  STEP(MULTIPLY, 8, 0), STEP(SUBTRACT, 9, 1), STEP(ADD, 10, 2))}},
    {"SGD with momentum", {.kind = DPT_OP_SGD, .u.sgd = {.count = 11200000, .momentum = 0.9f}}},
};

/* ---- Measuring ------------------------------------------------------------------------------- */

typedef struct measurement {
    const dpt_op_desc *desc;
    size_t n_samples;
    bool is_cold, is_deterministic;
    dpt_status status;
    double seconds; /* median of one call */
    double flops, bytes;
    const char *algorithm;
} measurement;

static size_t slot_bytes(const dpti_slot *slot, size_t n)
{
    return (slot->per_sample ? slot->per_sample * n : slot->fixed) * dpt_dtype_bytes(slot->dtype);
}

typedef struct setting {
    dpti_op op;
    dpti_buffer in[DPT_MAX_INPUTS], out[DPT_MAX_OUTPUTS], workspace, step;
    dpti_buffer other; /* cold: what else a step would write */
    dpt_op_args args;
} setting;

/* Small values of both signs, whose bits differ as those of real ones do, which some devices take
   longer for; none special.  bfloat16 has their upper halves. */
static const void *small_values(dpt_dtype type)
{
    static float values[1 << 16];
    static uint16_t halves[1 << 16];
    static bool filled = false;
    uint32_t state = 1, bits;
    for (size_t i = 0; i < 1 << 16 && !filled; i++) {
        state = state * 1664525u + 1013904223u;
        values[i] = ((float)(state >> 8) * 0x1p-23f - 1.0f) * 0.02f;
        memcpy(&bits, &values[i], sizeof bits);
        halves[i] = (uint16_t)(bits >> 16);
    }
    filled = true;
    return type == DPT_BF16 ? (const void *)halves : (const void *)values;
}

/* Indices 0; labels 0. */
static dpt_status fill_in(dpti_device *device, const dpti_slot *slot, const dpti_buffer *buffer)
{
    const size_t block = ((size_t)1 << 16) * dpt_dtype_bytes(slot->dtype);
    if (slot->dtype != DPT_F32 && slot->dtype != DPT_BF16)
        return dpti_fill(buffer, 0, 0, buffer->n_bytes);
    for (size_t at = 0; at < buffer->n_bytes; at += block) {
        const size_t left = buffer->n_bytes - at;
        DPT_TRY(dpti_upload(buffer, at, small_values(slot->dtype), left < block ? left : block));
    }
    return dpti_sync(device); /* what is uploaded stays as it is until then */
}

static dpt_status set_up(dpti_device *device, measurement *m, setting *s)
{
    dpti_binding binding = {0};
    const dpt_op_request request = {
        .desc = m->desc, .max_samples = m->n_samples, .deterministic = m->is_deterministic};
    DPT_TRY(dpti_prepare_as(device, &request, &s->op));
    const dpti_signature *sig = &s->op.signature;
    for (size_t i = 0; i < sig->n_in; i++) {
        const size_t n_bytes = dpti_round_up(slot_bytes(&sig->in[i], m->n_samples), 4);
        DPT_TRY(dpti_alloc(device, n_bytes, &s->in[i]));
        DPT_TRY(fill_in(device, &sig->in[i], &s->in[i]));
        binding.in[i] = (dpti_place){&s->in[i], 0};
        /* Of the data only what is gathered moves. */
        if (m->desc->kind != DPT_OP_GATHER || i > 0)
            m->bytes += (double)n_bytes;
        else
            m->bytes += (double)(m->n_samples * m->desc->u.gather.count);
    }
    for (size_t i = 0; i < sig->n_out; i++) {
        const size_t n_bytes = dpti_round_up(slot_bytes(&sig->out[i], m->n_samples), 4);
        DPT_TRY(dpti_alloc(device, n_bytes, &s->out[i]));
        DPT_TRY(fill_in(device, &sig->out[i], &s->out[i]));
        binding.out[i] = (dpti_place){&s->out[i], 0};
        /* The optimizer reads what it writes. */
        m->bytes += (double)n_bytes * (m->desc->kind == DPT_OP_SGD ? 2 : 1);
    }
    if (s->op.info.workspace_bytes) {
        DPT_TRY(dpti_alloc(device, s->op.info.workspace_bytes, &s->workspace));
        binding.workspace = (dpti_place){&s->workspace, 0};
    }
    DPT_TRY(dpti_alloc(device, sizeof(dpt_step_block), &s->step));
    DPT_TRY(dpti_fill(&s->step, 0, 0, sizeof(dpt_step_block)));
    if (m->is_cold) DPT_TRY(dpti_alloc(device, cold_bytes, &s->other));
    if (sig->reads_step) binding.step = (dpti_place){&s->step, 0};
    m->flops = s->op.info.flops * (double)m->n_samples;
    m->algorithm = s->op.info.algorithm;
    return dpti_bind(&s->op, m->n_samples, &binding, &s->args);
}

static dpt_status time_calls(dpti_device *device, const setting *s, size_t n_samples,
                             size_t n_calls, double *seconds)
{
    const double began = dpti_seconds();
    for (size_t i = 0; i < n_calls; i++)
        DPT_TRY(dpti_run(&s->op, n_samples, &s->args));
    DPT_TRY(dpti_sync(device));
    *seconds = (dpti_seconds() - began) / (double)n_calls;
    return DPT_OK;
}

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static dpt_status time_op(dpti_device *device, measurement *m, const setting *s)
{
    double runs[RUNS], once;
    DPT_TRY(time_calls(device, s, m->n_samples, 2, &once));
    const bool is_short = !m->is_cold && once < min_seconds;
    const size_t n_calls = is_short ? (size_t)(min_seconds / once) + 1 : 1;
    for (size_t i = 0; i < RUNS; i++) {
        if (m->is_cold) DPT_TRY(dpti_fill(&s->other, 0, (uint32_t)i, cold_bytes));
        DPT_TRY(dpti_sync(device));
        DPT_TRY(time_calls(device, s, m->n_samples, n_calls, &runs[i]));
    }
    qsort(runs, RUNS, sizeof *runs, by_value);
    m->seconds = runs[RUNS / 2];
    return DPT_OK;
}

static void measure(dpti_device *device, void *argument)
{
    measurement *m = argument;
    setting s = {0};
    m->status = set_up(device, m, &s);
    if (m->status == DPT_OK) m->status = time_op(device, m, &s);
    for (size_t i = 0; i < DPT_MAX_INPUTS; i++)
        dpti_free(&s.in[i]);
    for (size_t i = 0; i < DPT_MAX_OUTPUTS; i++)
        dpti_free(&s.out[i]);
    dpti_free(&s.workspace);
    dpti_free(&s.step);
    dpti_free(&s.other);
    dpti_release(&s.op);
}

/* ---- The table ------------------------------------------------------------------------------- */

/* Of operations and bytes whichever takes longer at least. */
static void report(const item *it, const measurement *m, double flops, double bandwidth)
{
    const double computing = m->flops / flops, moving = m->bytes / bandwidth;
    const bool arithmetic = computing > moving;
    const double rate = (arithmetic ? m->flops : m->bytes) / m->seconds;
    printf("| %s | %.1f | %.1f | %.1f %s | %.0f | %s |\n", it->name, 1e6 * m->seconds,
           1e6 * (arithmetic ? computing : moving), 1e-9 * rate, arithmetic ? "GFLOP/s" : "GB/s",
           100 * (arithmetic ? computing : moving) / m->seconds, m->algorithm ? m->algorithm : "");
    fflush(stdout);
}

typedef struct settings {
    dpti_device *device;
    size_t batch;
    bool is_cold, is_deterministic;
    double flops, bandwidth; /* that this machine, or the device, was measured to reach */
} settings;

typedef struct rates {
    dpt_device_rates of;
    dpt_status status;
} rates;

static void measure_rates(dpti_device *device, void *argument)
{
    rates *r = argument;
    r->status = dpti_measure(device, &r->of);
}

/* Operations a second of a product of (n,width) and (width,width), in the device's type. */
static dpt_status time_product(const settings *at, size_t n, size_t width, double *flops)
{
    const dpt_op_desc desc = {.kind = DPT_OP_LINEAR_FORWARD,
                              .type = at->device->info.activations,
                              .u.linear = {.in = width, .out = width}};
    measurement m = {.desc = &desc, .n_samples = n};
    dpti_driver_call(at->device, measure, &m);
    if (m.status == DPT_OK) *flops = m.flops / m.seconds;
    return m.status;
}

/* False, and told, if the device cannot say. */
static bool find_peaks(settings *at)
{
    static const double fast = 2e12; /* what takes a product of 1024 less than a millisecond */
    dpti_device *device = at->device;
    const unsigned n_threads = device->info.n_threads ? device->info.n_threads : 1;
    rates r = {.status = DPT_OK};
    if (device->info.flags & DPT_DEVICE_IS_HOST_CPU) {
        at->flops = peak_flops(n_threads);
        at->bandwidth = peak_bandwidth(n_threads);
        printf("Measured peak of %u host threads: %.1f GFLOP/s, %.1f GB/s.", n_threads,
               1e-9 * at->flops, 1e-9 * at->bandwidth);
        return true;
    }
    dpti_driver_call(device, measure_rates, &r);
    if (r.status == DPT_OK) r.status = time_product(at, 1024, 1024, &at->flops);
    if (r.status == DPT_OK && at->flops > fast) r.status = time_product(at, 8192, 4096, &at->flops);
    if (r.status != DPT_OK) {
        fprintf(stderr, "bench-ops: %s: %s\n", device->id, device->base.error.message);
        return false;
    }
    at->bandwidth = 2 * r.of.copy_bytes; /* read and written */
    printf("Measured of the device: a large product %.1f GFLOP/s, a large copy %.1f GB/s.",
           1e-9 * at->flops, 1e-9 * at->bandwidth);
    return true;
}

/* In the device's type of activations.  1 if it cannot be measured. */
static int measure_item(const settings *at, const item *it)
{
    dpt_op_desc desc = it->desc;
    desc.type = at->device->info.activations;
    measurement m = {.desc = &desc,
                     .n_samples = it->desc.kind == DPT_OP_SGD ? 1 : at->batch,
                     .is_cold = at->is_cold,
                     .is_deterministic = at->is_deterministic};
    dpti_driver_call(at->device, measure, &m);
    if (m.status == DPT_OK)
        report(it, &m, at->flops, at->bandwidth);
    else
        printf("| %s | | %s | | |\n", it->name, at->device->base.error.message);
    return m.status != DPT_OK;
}

/* "conv HxWxC KxK[/S][+P] to O" */
static bool parse_conv(const char *text, dpt_conv2d_desc *d)
{
    size_t h, w, c, kh, kw, o, stride = 1, pad = 0;
    int at = 0, n = 0;
    if (sscanf(text, "conv %zux%zux%zu %zux%zu%n", &h, &w, &c, &kh, &kw, &at) != 5) return false;
    if (sscanf(text + at, "/%zu%n", &stride, &n) == 1) at += n;
    if (sscanf(text + at, "+%zu%n", &pad, &n) == 1) at += n;
    n = 0;
    if (sscanf(text + at, " to %zu%n", &o, &n) != 1 || text[at + n] != '\0') return false;
    if (kh == 0 || kw == 0 || stride == 0 || h + 2 * pad < kh || w + 2 * pad < kw) return false;
    *d = (dpt_conv2d_desc){.in_h = h,
                           .in_w = w,
                           .in_channels = c,
                           .out_h = (h + 2 * pad - kh) / stride + 1,
                           .out_w = (w + 2 * pad - kw) / stride + 1,
                           .out_channels = o,
                           .kernel_h = kh,
                           .kernel_w = kw,
                           .stride_h = stride,
                           .stride_w = stride,
                           .pad_h = pad,
                           .pad_w = pad,
                           .dilation_h = 1,
                           .dilation_w = 1,
                           .groups = 1,
                           .has_bias = true};
    return true;
}

static int measure_conv(const settings *at, const char *text)
{
    static const dpt_op_kind kinds[] = {DPT_OP_CONV2D_FORWARD, DPT_OP_CONV2D_BACKWARD_DATA,
                                        DPT_OP_CONV2D_BACKWARD_WEIGHTS};
    static const char *const passes[] = {"forward", "backward data", "backward weights"};
    dpt_conv2d_desc desc;
    char name[160];
    int failures = 0;
    if (!parse_conv(text, &desc)) {
        fprintf(stderr, "bench-ops: no operator's name has '%s', and it is no convolution\n", text);
        return 1;
    }
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        snprintf(name, sizeof name, "%.100s %s", text, passes[i]);
        const item it = {name, {.kind = kinds[i], .u.conv2d = desc}};
        failures += measure_item(at, &it);
    }
    return failures;
}

static int run(const settings *how, const char *part)
{
    settings at = *how;
    int failures = 0, n_measured = 0;
    printf("%s: %s, %s\n", at.device->id, at.device->info.name, at.device->info.detail);
    if (!find_peaks(&at)) return 1;
    printf("  Batch %zu%s%s.\n\n", at.batch, at.is_cold ? ", nothing in a cache" : "",
           at.is_deterministic ? ", deterministic" : "");
    printf("| operator | us | at least | rate | %% of peak | algorithm |\n"
           "|---|--:|--:|--:|--:|---|\n");
    for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
        if (!strstr(items[i].name, part)) continue;
        failures += measure_item(&at, &items[i]);
        n_measured++;
    }
    if (n_measured == 0) failures = measure_conv(&at, part);
    return failures ? 1 : 0;
}

/* Reads the arguments but the device and the part. */
static bool read_arguments(int argc, char **argv, settings *out)
{
    if (argc > 2 && !dpti_parse_size(argv[2], 1, 1 << 20, &out->batch)) {
        fprintf(stderr, "bench-ops: the batch is a number from 1\n");
        return false;
    }
    for (int i = 4; i < argc; i++) {
        const bool is_cold = strcmp(argv[i], "cold") == 0;
        if (!is_cold && strcmp(argv[i], "deterministic") != 0) {
            fprintf(stderr, "bench-ops: the words behind the part are cold and deterministic\n");
            return false;
        }
        out->is_cold = out->is_cold || is_cold;
        out->is_deterministic = out->is_deterministic || !is_cold;
    }
    return true;
}

int main(int argc, char **argv)
{
    dpt_context *context = NULL;
    dpt_device_set *devices = NULL;
    settings at = {.batch = 256};
    if (!read_arguments(argc, argv, &at)) return 2;
    if (dpt_context_create(&context) != DPT_OK) return 1;
    int code = 1;
    if (dpt_device_set_open(context, argc > 1 ? argv[1] : "cpu", &devices) == DPT_OK) {
        at.device = devices->devices[0];
        code = run(&at, argc > 3 ? argv[3] : "");
    } else {
        fprintf(stderr, "bench-ops: %s\n", dpt_error_message(context));
    }
    dpt_device_set_close(devices);
    dpt_context_destroy(context);
    return code;
}
