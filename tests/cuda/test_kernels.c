/* Tests that every operator finds its kernels among those that nvcc has compiled, for every type
   of activations, and that no kernel is compiled that no operator finds.  A wrong name or option
   would otherwise show only on a card, or never, if a kernel for fewer cases is used instead.  The
   backend's launch.c, linear.c and kernel tables are real.  A function of this file tells whether
   a kernel can be loaded, and nothing is launched. */
#include "harness.h"

#include "column_sums.h"
#include "conv2d.h"
#include "convert.h"
#include "dnn.h"
#include "finish.h"
#include "grid.h"
#include "kernels/table.h"
#include "operators.h"
#include "state.h"
#include "tables.h"

#include <stdio.h>
#include <string.h>

/* ---- What was found -------------------------------------------------------------------------- */

#define TABLE(name) dpt_cuda_table_##name,
static const dpt_kernel *const tables[] = {DPT_CUDA_TABLES(TABLE)};
#undef TABLE
enum { N_TABLES = sizeof tables / sizeof *tables };

static bool is_found[N_TABLES]; /* any of a table's kernels */
static const dpt_kernel *last_found;

/* launch.c is compiled with it in place of the runtime's. */
cudaError_t test_attributes(struct cudaFuncAttributes *out, const void *function);

cudaError_t test_attributes(struct cudaFuncAttributes *out, const void *function)
{
    *out = (struct cudaFuncAttributes){.binaryVersion = 0};
    for (size_t i = 0; i < N_TABLES; i++) {
        for (const dpt_kernel *row = tables[i]; row->file; row++) {
            if (row->function != function) continue;
            is_found[i] = true;
            last_found = row;
        }
    }
    return function ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

/* ---- The device ------------------------------------------------------------------------------ */

const dpt_alternative dpt_cuda_conv2d_dnn[] = {{.name = NULL}};
const dpt_memory_ops dpt_cuda_memory_ops = {.alloc = NULL};

const dpt_traits *dpt_traits_of(const dpt_device *device)
{
    return &dpt_cuda_device_of(device)->traits;
}

dpt_tuner *dpt_tuner_of(const dpt_device *device)
{
    return &dpt_cuda_device_of(device)->tuner;
}

dpt_device *dpt_stream_device(const dpt_stream *stream)
{
    return stream->device;
}

static bool suits(const dpt_device *device, const char *name)
{
    (void)device;
    (void)name;
    return true;
}

/* ---- Operators ------------------------------------------------------------------------------- */

/* Sizes: channels that go in fours and that do not, few and many. */
static const size_t sizes[] = {3, 8, 64, 1000};
enum { N_SIZES = sizeof sizes / sizeof *sizes };

static const dpt_activation activations[] = {
#define ACTIVATION_OF(name, value, derivative, formula) DPT_ACT_##name,
    DPT_ACTIVATION_LIST(ACTIVATION_OF)
#undef ACTIVATION_OF
};

/* algorithm: the one that must be taken, or NULL. */
static dpt_status prepare(test *t, const dpt_op_desc *desc, const char *algorithm)
{
    dpt_device *device = t->user;
    const dpt_op_request request = {.desc = desc, .max_samples = 3, .wanted = algorithm};
    dpt_op *op = NULL;
    dpt_op_info info;
    const dpt_status status = dpt_common_operator_ops.prepare(device, &request, &op, &info);
    dpt_common_operator_ops.release(device, op);
    return status;
}

/* Whether operators are asked for as deterministic ones. */
static bool asks_deterministic;

/* algorithm: the one that is to be found, or NULL for any. */
static void check_algorithm(test *t, dpt_op_desc desc, const char *algorithm)
{
    dpt_device *device = t->user;
    const dpt_op_request request = {
        .desc = &desc, .max_samples = 3, .deterministic = asks_deterministic};
    dpt_op *op = NULL;
    dpt_op_info info;
    device->error.message[0] = '\0';
    const dpt_status status = dpt_common_operator_ops.prepare(device, &request, &op, &info);
    if (!CHECK_STATUS(status, DPT_OK))
        printf("  operator %d in type %d: %s\n", (int)desc.kind, (int)desc.type,
               device->error.message);
    else if (algorithm)
        CHECK_TEXT(info.algorithm, algorithm);
    dpt_common_operator_ops.release(device, op);
}

static void check(test *t, dpt_op_desc desc)
{
    check_algorithm(t, desc, NULL);
}

/* By filters of size x size. */
static dpt_op_desc convolution(dpt_op_kind kind, size_t in_channels, size_t out_channels,
                               size_t size)
{
    return (dpt_op_desc){.kind = kind,
                         .type = DPT_F32,
                         .u.conv2d = {.in_h = size + 1,
                                      .in_w = size + 1,
                                      .in_channels = in_channels,
                                      .out_h = 2,
                                      .out_w = 2,
                                      .out_channels = out_channels,
                                      .kernel_h = size,
                                      .kernel_w = size,
                                      .stride_h = 1,
                                      .stride_w = 1,
                                      .dilation_h = 1,
                                      .dilation_w = 1,
                                      .groups = 1,
                                      .has_bias = true}};
}

static void check_convolutions(test *t, dpt_dtype type, size_t n)
{
    for (int kind = DPT_OP_CONV2D_FORWARD; kind <= DPT_OP_CONV2D_BACKWARD_WEIGHTS; kind++) {
        dpt_op_desc desc = convolution((dpt_op_kind)kind, n, 4, 1);
        desc.type = type;
        check(t, desc);
    }
    for (int kind = DPT_OP_LINEAR_FORWARD; kind <= DPT_OP_LINEAR_BACKWARD_WEIGHTS; kind++)
        check(t, (dpt_op_desc){.kind = (dpt_op_kind)kind,
                               .type = type,
                               .u.linear = {.in = n, .out = 4, .has_bias = true}});
}

static void check_norms(test *t, dpt_dtype type, size_t n)
{
    for (int kind = DPT_OP_BATCH_NORM_PARTIAL; kind <= DPT_OP_BATCH_NORM_BACKWARD_DATA; kind++)
        check(t, (dpt_op_desc){.kind = (dpt_op_kind)kind,
                               .type = type,
                               .u.batch_norm = {.area = 4,
                                                .channels = n,
                                                .n_parts = 2,
                                                .epsilon = 1e-5f,
                                                .has_residual = n == 8}});
    for (int kind = DPT_OP_LAYER_NORM_FORWARD; kind <= DPT_OP_LAYER_NORM_BACKWARD_WEIGHTS; kind++)
        check(t, (dpt_op_desc){.kind = (dpt_op_kind)kind,
                               .type = type,
                               .u.layer_norm = {.rows = 2, .channels = n, .epsilon = 1e-5f}});
}

static void check_rows(test *t, dpt_dtype type)
{
    static const size_t columns[] = {8, 100}; /* an item a row, a group a row */
    for (int kind = DPT_OP_ROW_SOFTMAX_FORWARD; kind <= DPT_OP_ROW_SOFTMAX_BACKWARD; kind++)
        for (size_t i = 0; i < 2; i++)
            check(t, (dpt_op_desc){.kind = (dpt_op_kind)kind,
                                   .type = type,
                                   .u.row_softmax = {.rows = 2, .columns = columns[i]}});
    for (int kind = DPT_OP_TAKE_FORWARD; kind <= DPT_OP_TAKE_BACKWARD; kind++)
        check(t, (dpt_op_desc){.kind = (dpt_op_kind)kind,
                               .type = type,
                               .u.take = {.count = 3, .width = 4, .rows = 5}});
}

static void check_losses(test *t, dpt_dtype type, size_t n)
{
    for (int kind = DPT_OP_SOFTMAX_XENT; kind <= DPT_OP_SOFTMAX_XENT_GRADIENT; kind++)
        check(t,
              (dpt_op_desc){.kind = (dpt_op_kind)kind, .type = type, .u.softmax = {.classes = n}});
    for (int kind = DPT_OP_SQUARED_ERROR; kind <= DPT_OP_SQUARED_ERROR_GRADIENT; kind++)
        check(t, (dpt_op_desc){
                     .kind = (dpt_op_kind)kind, .type = type, .u.squared_error = {.count = n}});
}

static void check_elements(test *t, dpt_dtype type, size_t n)
{
    static const dpt_op_kind kinds[] = {
#define KIND_OF(KIND, ...) DPT_OP_##KIND,
        DPT_ELEMENTWISE_LIST(KIND_OF)
#undef KIND_OF
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        check(t, (dpt_op_desc){.kind = kinds[i],
                               .type = type,
                               .u.elementwise = {.count = n, .alpha = 1.0f, .beta = 1.0f}});
    for (size_t i = 0; i < sizeof activations / sizeof *activations; i++) {
        for (int kind = DPT_OP_ACTIVATION_FORWARD; kind <= DPT_OP_ACTIVATION_BACKWARD; kind++)
            check(t, (dpt_op_desc){.kind = (dpt_op_kind)kind,
                                   .type = type,
                                   .u.activation = {.kind = activations[i], .count = n}});
    }
    check(t, (dpt_op_desc){.kind = DPT_OP_DROPOUT,
                           .type = type,
                           .u.dropout = {.count = n, .p = 0.5f, .stream = 1}});
}

/* Windows of n x n, side by side. */
static void check_pools(test *t, dpt_dtype type, size_t n, const char *algorithm)
{
    if (asks_deterministic) algorithm = NULL; /* fewer windows are constants */
    for (int pool = DPT_POOL_MAX; pool <= DPT_POOL_AVERAGE; pool++) {
        for (int kind = DPT_OP_POOL2D_FORWARD; kind <= DPT_OP_POOL2D_BACKWARD; kind++)
            check_algorithm(t,
                            (dpt_op_desc){.kind = (dpt_op_kind)kind,
                                          .type = type,
                                          .u.pool2d = {.kind = (dpt_pool_kind)pool,
                                                       .in_h = 2 * n,
                                                       .in_w = 2 * n,
                                                       .channels = 3,
                                                       .out_h = 2,
                                                       .out_w = 2,
                                                       .kernel_h = n,
                                                       .kernel_w = n,
                                                       .stride_h = n,
                                                       .stride_w = n}},
                            algorithm);
    }
}

static void check_images(test *t, dpt_dtype type)
{
    static const dpt_dtype data[] = {DPT_U8, DPT_F32};
    check_pools(t, type, 2, "a constant window");
    check_pools(t, type, 4, "a constant window");
    check_pools(t, type, 7, "any window");
    for (size_t i = 0; i < 5; i++)
        check(t, (dpt_op_desc){.kind = DPT_OP_GATHER,
                               .type = type,
                               .u.gather = {.dtype = data[i % 2],
                                            .count = 16,
                                            .n_records = 5,
                                            .channels = 1,
                                            .scale = {1.0f},
                                            .augment = {.height = 4,
                                                        .width = 4,
                                                        .pad = i < 2 ? 0 : 1,
                                                        .contrast = i < 4 ? 0.0f : 0.5f}}});
}

/* What stands around the libraries' products, which are not here. */
static void check_surroundings(test *t, dpt_dtype type)
{
    dpt_device *device = t->user;
    dpt_kernel *finish;
    dpt_column_sums sums;
    dpt_convert convert;
    CHECK_OK(dpt_finish_prepare(device, type, DPT_F32, &finish));
    CHECK_OK(dpt_finish_prepare(device, type, type, &finish));
    CHECK_OK(dpt_column_sums_prepare(device, type, &sums));
    CHECK_OK(dpt_convert_prepare(device, &convert));
}

/* Products of n x n. */
static void check_products(test *t, dpt_dtype type, size_t n)
{
    const dpt_matmul_operand matrix = {
        .elements = n * n, .row_stride = n, .column_stride = 1, .per_sample = true};
    check_algorithm(t,
                    (dpt_op_desc){.kind = DPT_OP_MATMUL,
                                  .type = type,
                                  .u.matmul = {.batch = {1, 1, 1},
                                               .rows = n,
                                               .columns = n,
                                               .inner = n,
                                               .alpha = 1.0f,
                                               .a = matrix,
                                               .b = matrix,
                                               .y = matrix}},
                    n <= 32 ? "tiles of 32" : "tiles of 64");
}

/* Recurrent layers of every cell. */
static void check_recurrent(test *t, dpt_dtype type)
{
    for (int cell = DPT_CELL_RNN; cell <= DPT_CELL_GRU_BEFORE; cell++) {
        dpt_recurrent_desc d = {.cell = (dpt_recurrent_cell)cell, .length = 3, .hidden = 4};
        for (size_t i = 0; i < dpt_recurrent_gates(d.cell); i++)
            d.place[i] = (uint8_t)i;
        for (int kind = DPT_OP_RECURRENT_FORWARD; kind <= DPT_OP_RECURRENT_BACKWARD; kind++)
            check(t, (dpt_op_desc){.kind = (dpt_op_kind)kind, .type = type, .u.recurrent = d});
    }
}

static void check_attention(test *t, dpt_dtype type)
{
    for (int kind = DPT_OP_ATTENTION_FORWARD; kind <= DPT_OP_ATTENTION_BACKWARD; kind++)
        for (int packed = 0; packed < 2; packed++)
            check(t, (dpt_op_desc){.kind = (dpt_op_kind)kind,
                                   .type = type,
                                   .u.attention = {.heads = 4,
                                                   .key_heads = 2,
                                                   .width = 8,
                                                   .queries = 5,
                                                   .keys = 5,
                                                   .packed = packed,
                                                   .causal = true,
                                                   .scale = 0.5f}});
}

static void check_type(test *t, dpt_dtype type)
{
    check_surroundings(t, type);
    for (size_t i = 0; i < N_SIZES; i++) {
        check_convolutions(t, type, sizes[i]);
        check_norms(t, type, sizes[i]);
        check_losses(t, type, sizes[i]);
        check_elements(t, type, sizes[i]);
    }
    check_images(t, type);
    check_rows(t, type);
    check_products(t, type, 32);
    check_products(t, type, 33);
    check_recurrent(t, type);
    check_attention(t, type);
}

static void float32(test *t)
{
    check_type(t, DPT_F32);
    check(t, (dpt_op_desc){.kind = DPT_OP_SGD, .u.sgd = {.count = 9, .momentum = 0.9f}});
    check(t, (dpt_op_desc){.kind = DPT_OP_ADAMW, .u.adamw = {.count = 9}});
    check(t, (dpt_op_desc){.kind = DPT_OP_CHECK_FINITE, .u.check_finite = {.count = 9}});
    for (int kind = DPT_OP_MAP; kind <= DPT_OP_MAP_REDUCE; kind++)
        check(t, (dpt_op_desc){.kind = (dpt_op_kind)kind,
                               .u.map = {.n_in = 1,
                                         .n_out = 1,
                                         .n_code = 1,
                                         .in = {{.sampled = true, .size = 1}},
                                         .out = {{.sampled = true, .size = 1}}}});
    check(t, (dpt_op_desc){.kind = DPT_OP_CLIP_NORM, .u.clip_norm = {.count = 9, .max_norm = 1}});
}

static void bfloat16(test *t)
{
    check_type(t, DPT_BF16);
}

/* ---- Ways to convolve ------------------------------------------------------------------------ */

/* Tiles, and the accesses for which there must be kernels: 14 is of one element to what has the
   input's channels, and of four to what has the output's.  For others there may be some, or those
   of 11 are taken (conv2d_local.c). */
static const struct {
    const char *algorithm;
    dpt_op_kind pass;
    unsigned float32[4], bfloat16[4];
} tiles[] = {
    {"local-64x64x16", DPT_OP_CONV2D_FORWARD, {11, 14, 41, 44}, {11, 44}},
    {"local-64x32x16", DPT_OP_CONV2D_FORWARD, {14}, {0}},
    {"local-64x64x16", DPT_OP_CONV2D_BACKWARD_DATA, {11, 44}, {11, 44}},
    {"local-64x32x16", DPT_OP_CONV2D_BACKWARD_DATA, {41, 44}, {0}},
    {"local-64x64x16", DPT_OP_CONV2D_BACKWARD_WEIGHTS, {11, 41, 44}, {11, 44}},
    {"local-64x16x16", DPT_OP_CONV2D_BACKWARD_WEIGHTS, {14}, {0}},
    {"tensor-64x64x16", DPT_OP_CONV2D_FORWARD, {11, 14, 41, 44}, {11, 14, 41, 44}},
    {"tensor-64x32x16", DPT_OP_CONV2D_FORWARD, {14, 44}, {14, 44}},
    {"tensor-64x64x16", DPT_OP_CONV2D_BACKWARD_DATA, {11, 44}, {11, 44}},
    {"tensor-64x32x16", DPT_OP_CONV2D_BACKWARD_DATA, {11, 41, 44}, {11, 41, 44}},
    {"tensor-64x64x16", DPT_OP_CONV2D_BACKWARD_WEIGHTS, {11, 41, 44}, {11, 41, 44}},
    {"tensor-64x32x16", DPT_OP_CONV2D_BACKWARD_WEIGHTS, {11, 14, 44}, {11, 14, 44}},
};

static size_t channels_of(unsigned width)
{
    return width == 4 ? 8 : 3;
}

static void check_tile(test *t, size_t i, dpt_dtype type)
{
    const unsigned *widths = type == DPT_BF16 ? tiles[i].bfloat16 : tiles[i].float32;
    const bool is_forward = tiles[i].pass == DPT_OP_CONV2D_FORWARD;
    char options[64];
    for (size_t j = 0; j < 4 && widths[j] > 0; j++) {
        const unsigned in = widths[j] / 10, out = widths[j] % 10;
        dpt_op_desc desc = convolution(tiles[i].pass, channels_of(in), channels_of(out), 1);
        desc.type = type;
        snprintf(options, sizeof options, "-DA_WIDTH=%u -DB_WIDTH=%u -DC_WIDTH=%u",
                 is_forward ? in : out, in, is_forward ? out : in);
        last_found = NULL;
        CHECK_OK(prepare(t, &desc, tiles[i].algorithm));
        if (!CHECK_CONTAINS(last_found ? last_found->options : "", options))
            printf("  %s of operator %d in type %d\n", tiles[i].algorithm, (int)desc.kind,
                   (int)type);
    }
}

static void ways(test *t)
{
    static const dpt_dtype types[] = {DPT_F32, DPT_BF16};
    static const size_t few[][2] = {{3, 1}, {3, 3}, {5, 1}}; /* rows of a filter, channels */
    for (size_t type = 0; type < 2; type++) {
        for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++)
            check_tile(t, i, types[type]);
        for (size_t i = 0; i < sizeof few / sizeof *few; i++) {
            dpt_op_desc desc = convolution(DPT_OP_CONV2D_FORWARD, few[i][1], 8, few[i][0]);
            desc.type = types[type];
            CHECK_OK(prepare(t, &desc, "few"));
            desc.kind = DPT_OP_CONV2D_BACKWARD_WEIGHTS;
            CHECK_OK(prepare(t, &desc, "few"));
        }
    }
}

/* ---- Deterministic operators ----------------------------------------------------------------- */

/* Convolutions by each tile, with accesses of one element and of four: for three samples and 132
   units. */
static void check_chains(test *t)
{
#define TILE(m, n, k) "-DTILE_M=" #m " -DTILE_N=" #n " -DTILE_K=" #k " "
    static const struct {
        dpt_op_kind pass;
        size_t in, out, image;
        const char *options;
    } chains[] = {
        {DPT_OP_CONV2D_FORWARD, 3, 5, 256, TILE(64, 16, 16)},
        {DPT_OP_CONV2D_FORWARD, 3, 23, 256, TILE(32, 32, 16)},
        {DPT_OP_CONV2D_FORWARD, 8, 24, 256, TILE(32, 32, 16)},
        {DPT_OP_CONV2D_FORWARD, 3, 65, 64, TILE(64, 64, 16)},
        {DPT_OP_CONV2D_FORWARD, 8, 64, 64, TILE(64, 64, 16)},
        {DPT_OP_CONV2D_FORWARD, 3, 65, 32, TILE(32, 32, 32)},
        {DPT_OP_CONV2D_FORWARD, 8, 64, 32, TILE(32, 32, 32)},
        {DPT_OP_CONV2D_FORWARD, 3, 5, 1, TILE(16, 16, 32)},
        {DPT_OP_CONV2D_FORWARD, 8, 24, 1, TILE(16, 16, 32)},
        {DPT_OP_CONV2D_FORWARD, 515, 5, 1, TILE(16, 16, 128)},
        {DPT_OP_CONV2D_FORWARD, 512, 8, 1, TILE(16, 16, 128)},
        {DPT_OP_CONV2D_BACKWARD_DATA, 5, 3, 256, TILE(64, 16, 16)},
        {DPT_OP_CONV2D_BACKWARD_DATA, 23, 3, 256, TILE(32, 32, 16)},
        {DPT_OP_CONV2D_BACKWARD_DATA, 24, 8, 256, TILE(32, 32, 16)},
        {DPT_OP_CONV2D_BACKWARD_DATA, 65, 3, 64, TILE(64, 64, 16)},
        {DPT_OP_CONV2D_BACKWARD_DATA, 64, 8, 64, TILE(64, 64, 16)},
        {DPT_OP_CONV2D_BACKWARD_DATA, 65, 3, 32, TILE(32, 32, 32)},
        {DPT_OP_CONV2D_BACKWARD_DATA, 64, 8, 32, TILE(32, 32, 32)},
        {DPT_OP_CONV2D_BACKWARD_DATA, 5, 3, 1, TILE(16, 16, 32)},
        {DPT_OP_CONV2D_BACKWARD_DATA, 24, 8, 1, TILE(16, 16, 32)},
        {DPT_OP_CONV2D_BACKWARD_DATA, 5, 515, 1, TILE(16, 16, 128)},
        {DPT_OP_CONV2D_BACKWARD_DATA, 8, 512, 1, TILE(16, 16, 128)},
        {DPT_OP_CONV2D_BACKWARD_WEIGHTS, 5, 2115, 1, TILE(64, 16, 16)},
        {DPT_OP_CONV2D_BACKWARD_WEIGHTS, 23, 1059, 1, TILE(32, 32, 16)},
        {DPT_OP_CONV2D_BACKWARD_WEIGHTS, 24, 1056, 1, TILE(32, 32, 16)},
        {DPT_OP_CONV2D_BACKWARD_WEIGHTS, 1023, 1023, 1, TILE(64, 64, 16)},
        {DPT_OP_CONV2D_BACKWARD_WEIGHTS, 1024, 1024, 1, TILE(64, 64, 16)},
        {DPT_OP_CONV2D_BACKWARD_WEIGHTS, 23, 323, 1, TILE(32, 32, 32)},
        {DPT_OP_CONV2D_BACKWARD_WEIGHTS, 24, 320, 1, TILE(32, 32, 32)},
        {DPT_OP_CONV2D_BACKWARD_WEIGHTS, 5, 3, 1, TILE(16, 16, 32)},
        {DPT_OP_CONV2D_BACKWARD_WEIGHTS, 24, 8, 1, TILE(16, 16, 32)},
        {DPT_OP_CONV2D_BACKWARD_WEIGHTS, 5, 3, 32, TILE(16, 16, 128)},
        {DPT_OP_CONV2D_BACKWARD_WEIGHTS, 24, 8, 32, TILE(16, 16, 128)},
    };
#undef TILE
    for (size_t i = 0; i < sizeof chains / sizeof *chains; i++) {
        dpt_op_desc desc = convolution(chains[i].pass, chains[i].in, chains[i].out, 1);
        dpt_conv2d_desc *d = &desc.u.conv2d;
        d->in_h = d->in_w = d->out_h = d->out_w = chains[i].image;
        last_found = NULL;
        check(t, desc);
        const char *options = last_found ? last_found->options : "";
        CHECK_CONTAINS(options, chains[i].options);
        CHECK_CONTAINS(options, chains[i].in % 4 == 0 ? "-DB_WIDTH=4" : "-DB_WIDTH=1");
        CHECK_CONTAINS(options, "-DDETERMINISTIC=1");
    }
}

/* Winograd convolutions by each tile. */
static void check_winograd(test *t)
{
    static const struct {
        size_t taps, out;
        const char *options;
    } tilings[] = {{3, 6, "-DTILE=2 -DTAPS=3 -DDETERMINISTIC=1"},
                   {3, 8, "-DTILE=4 -DTAPS=3 -DDETERMINISTIC=1"},
                   {5, 6, "-DTILE=3 -DTAPS=5 -DDETERMINISTIC=1"}};
    for (int kind = DPT_OP_CONV2D_FORWARD; kind <= DPT_OP_CONV2D_BACKWARD_WEIGHTS; kind++) {
        for (size_t i = 0; i < sizeof tilings / sizeof *tilings; i++) {
            dpt_op_desc desc = convolution((dpt_op_kind)kind, 16, 33, tilings[i].taps);
            dpt_conv2d_desc *d = &desc.u.conv2d;
            d->out_h = d->out_w = tilings[i].out;
            d->in_h = d->in_w = tilings[i].out + tilings[i].taps - 1;
            last_found = NULL;
            check_algorithm(t, desc, "local winograd chains");
            CHECK_TEXT(last_found ? last_found->options : "", tilings[i].options);
        }
    }
}

static void deterministic(test *t)
{
    dpt_cuda_device *cuda = dpt_cuda_device_of(t->user);
    cuda->traits.activations = DPT_F32;
    asks_deterministic = true;
    check_chains(t);
    check_winograd(t);
    float32(t);
    asks_deterministic = false;
    cuda->traits.activations = DPT_BF16;
}

/* ---- Nothing for nobody ---------------------------------------------------------------------- */

static void ask_in_every_way(test *t, const dpt_op_desc *desc)
{
    static const dpt_alternative *const families[] = {dpt_conv2d_few, dpt_conv2d_local,
                                                      dpt_conv2d_tensor};
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        for (const dpt_alternative *way = families[i]; way->name; way++)
            (void)prepare(t, desc, way->name); /* most of which there is not */
    }
}

static void ask_for_convolutions(test *t, dpt_dtype type)
{
    for (int kind = DPT_OP_CONV2D_FORWARD; kind <= DPT_OP_CONV2D_BACKWARD_WEIGHTS; kind++) {
        for (size_t i = 0; i < (size_t)7 * 4 * 4; i++) {
            dpt_op_desc desc = convolution((dpt_op_kind)kind, 1 + i % 4, 1 + i / 4 % 4, 1 + i / 16);
            desc.type = type;
            ask_in_every_way(t, &desc);
        }
    }
}

/* Winograd convolutions of a device that computes in true float32. */
static void ask_for_winograd(test *t)
{
    dpt_cuda_device *cuda = dpt_cuda_device_of(t->user);
    const double rounding = cuda->traits.input_rounding;
    cuda->traits.input_rounding = 0;
    for (int kind = DPT_OP_CONV2D_FORWARD; kind <= DPT_OP_CONV2D_BACKWARD_WEIGHTS; kind++) {
        const dpt_op_desc small = convolution((dpt_op_kind)kind, 16, 16, 3);
        const dpt_op_desc large = convolution((dpt_op_kind)kind, 16, 16, 5);
        CHECK_OK(prepare(t, &small, "winograd2"));
        CHECK_OK(prepare(t, &small, "winograd4"));
        CHECK_OK(prepare(t, &large, "winograd3"));
    }
    cuda->traits.input_rounding = rounding;
}

/* Those of .cu files are the backend's own, which every device asks for when it is opened. */
static void all(test *t)
{
    float32(t);
    bfloat16(t);
    ask_for_convolutions(t, DPT_F32);
    ask_for_convolutions(t, DPT_BF16);
    ask_for_winograd(t);
    deterministic(t);
    for (size_t i = 0; i < N_TABLES; i++) {
        if (!is_found[i] && !strstr(tables[i]->file, ".cu"))
            FAIL("no operator asks for %s with '%s'", tables[i]->file, tables[i]->options);
    }
}

/* ---- Divisions of work ----------------------------------------------------------------------- */

/* Entries are read by groups for a quarter of 132 units, if there are as many channels. */
static void merges(test *t)
{
    static const struct {
        size_t channels, across;
    } expected[] = {{1, 1}, {3, 1}, {64, 1}, {66, 2}, {128, 2}, {256, 4}, {512, 8}, {2048, 8}};
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const size_t channels = expected[i].channels;
        const dpt_grid_matrix matrix = {
            .use = DPT_GRID_REDUCE, .n_rows = 4096, .channels = channels, .most_rows = SIZE_MAX};
        const columns grid = dpt_grid(t->user, &matrix);
        CHECK_SIZE(dpt_grid_merge(t->user, &grid, false).across, expected[i].across);
    }
}

/* Two pieces of rows are none, so there is nothing to leave for a second launch. */
static void pieces(test *t)
{
    enum { COLUMNS = 10, ROWS = 256 / COLUMNS * 32 }; /* of a piece */
    CHECK_SIZE(dpt_column_sums_workspace(t->user, ROWS, COLUMNS), 0);
    CHECK_SIZE(dpt_column_sums_workspace(t->user, 2 * ROWS, COLUMNS), 0);
    CHECK_SIZE(dpt_column_sums_workspace(t->user, 2 * ROWS + 1, COLUMNS),
               3 * COLUMNS * sizeof(float));
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {{"float32", float32}, {"bfloat16", bfloat16},
                                      {"ways", ways},       {"deterministic", deterministic},
                                      {"all", all},         {"merges", merges},
                                      {"pieces", pieces}};
    dpt_cuda_device cuda = {
        .traits = {.name = "a card in words",
                   .is_compiled = true,
                   .n_units = 132,
                   .group_size = 256,
                   .vector_width = 1,
                   .most_group_size = 1024,
                   .most_shared_bytes = 48 << 10,
                   .input_rounding = DPT_CUDA_TF32_ROUNDING,
                   .activations = DPT_BF16},
        .tuner = {.suits = suits},
    };
    dpt_device device = {.state = &cuda};
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, &device);
}
