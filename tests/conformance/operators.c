/* The descriptions with which every operator is tested: shapes with special cases, and random
   shapes. */
#include "attention_cases.h"
#include "conformance.h"
#include "map_cases.h"
#include "matmul_cases.h"
#include "recurrent_cases.h"

#define N_ELEMENTS(array) (sizeof(array) / sizeof *(array))

enum { N_RANDOM = 40 };

/* The activations that other operators fuse. */
static const dpt_activation activations[] = {
#define FUSED_OUTPUT(name) DPT_ACT_##name,
#define FUSED_INPUT(name)
#define FUSED(name, value, derivative, formula) FUSED_##derivative(name)
    DPT_ACTIVATION_LIST(FUSED)
#undef FUSED
#undef FUSED_INPUT
#undef FUSED_OUTPUT
};

static dpt_activation any_activation(test_random *random)
{
    return activations[test_random_below(random, N_ELEMENTS(activations))];
}

/* Around the widths of vectors and tiles, and LeNet's. */
static const size_t counts[] = {1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 100, 120, 257};

/* ---- Convolution ----------------------------------------------------------------------------- */

/* Input, out_channels, kernel, stride, padding, dilation, groups. */
typedef struct conv_shape {
    size_t h, w, c, o, kh, kw, sh, sw, ph, pw, dh, dw, groups;
} conv_shape;

static const conv_shape conv_shapes[] = {
    {1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 1, 1, 1},
    {28, 28, 1, 6, 5, 5, 1, 1, 2, 2, 1, 1, 1}, /* LeNet */
    {14, 14, 6, 16, 5, 5, 1, 1, 0, 0, 1, 1, 1},
    {8, 8, 16, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1}, /* residual networks */
    {9, 9, 16, 32, 3, 3, 2, 2, 1, 1, 1, 1, 1},
    {9, 9, 16, 33, 1, 1, 2, 2, 0, 0, 1, 1, 1},
    {7, 7, 17, 15, 1, 1, 1, 1, 0, 0, 1, 1, 1},
    {14, 14, 3, 8, 7, 7, 2, 2, 3, 3, 1, 1, 1},
    {5, 9, 3, 4, 3, 1, 1, 2, 1, 0, 1, 1, 1}, /* nothing square */
    {9, 5, 2, 5, 1, 4, 3, 1, 0, 2, 1, 1, 1},
    {11, 10, 2, 3, 3, 3, 1, 1, 2, 2, 2, 2, 1}, /* dilated */
    {12, 9, 3, 3, 3, 2, 2, 1, 0, 3, 3, 4, 1},
    {6, 6, 8, 8, 3, 3, 1, 1, 1, 1, 1, 1, 8}, /* one channel a group */
    {6, 6, 8, 16, 3, 3, 2, 2, 1, 1, 1, 1, 8},
    {6, 5, 6, 9, 3, 3, 1, 1, 1, 1, 1, 1, 3},
    {5, 5, 4, 6, 2, 2, 1, 1, 0, 0, 2, 1, 2},
    {3, 3, 2, 2, 5, 5, 1, 1, 2, 2, 1, 1, 1},   /* a kernel larger than the image */
    {4, 4, 20, 50, 4, 4, 1, 1, 0, 0, 1, 1, 1}, /* one output pixel */
    {7, 7, 2, 3, 2, 2, 3, 3, 0, 0, 1, 1, 1},   /* pixels that no window covers */
    {5, 5, 3, 4, 2, 2, 4, 4, 1, 1, 1, 1, 1},
    {1, 31, 1, 17, 1, 3, 1, 1, 0, 1, 1, 1, 1},
    {16, 1, 5, 1, 3, 1, 1, 1, 1, 0, 1, 1, 1},
    {3, 3, 64, 65, 3, 3, 1, 1, 1, 1, 1, 1, 1},
    {1, 2, 3, 600, 1, 2, 1, 1, 0, 1, 1, 1, 1}, /* sums so long that they are cut */
    {2, 1, 700, 3, 1, 1, 1, 1, 0, 0, 1, 1, 1},
    {2, 2, 1040, 2, 2, 1, 1, 1, 1, 0, 1, 1, 2},
    {1, 1, 4, 1100, 1, 1, 1, 1, 0, 0, 1, 1, 2},
    /* What may be done in tiles of results: cut tiles, unequal and much padding, many tiles, more
       channels than vectors of a register block, filters beyond a core's cache. */
    {7, 10, 17, 9, 3, 3, 1, 1, 0, 2, 1, 1, 1},
    {2, 6, 8, 19, 3, 3, 1, 1, 4, 3, 1, 1, 1},
    {75, 73, 3, 2, 3, 3, 1, 1, 1, 1, 1, 1, 1},
    {5, 3, 70, 67, 3, 3, 1, 1, 1, 1, 1, 1, 1},
    {2, 2, 180, 170, 3, 3, 1, 1, 1, 1, 1, 1, 1},
    {1, 1, 264, 260, 3, 3, 1, 1, 1, 1, 1, 1, 1},
    {7, 10, 9, 17, 5, 5, 1, 1, 1, 3, 1, 1, 1},
    {15, 13, 70, 67, 5, 5, 1, 1, 2, 2, 1, 1, 1},
    {6, 4, 150, 149, 5, 5, 1, 1, 2, 1, 1, 1, 1},
    /* Depthwise: one pixel, channels that do not fill vectors, filters larger than the image,
       strides and dilation, several pieces of an image. */
    {1, 1, 40, 40, 3, 3, 1, 1, 1, 1, 1, 1, 40},
    {9, 7, 35, 35, 3, 3, 2, 1, 1, 1, 1, 1, 35},
    {6, 11, 72, 72, 5, 3, 1, 2, 2, 3, 2, 1, 72},
    {3, 2, 13, 13, 7, 7, 1, 1, 3, 3, 1, 1, 13},
    {4, 5, 9, 9, 2, 3, 3, 2, 0, 2, 1, 3, 9},
    {31, 30, 33, 33, 3, 3, 1, 1, 1, 1, 1, 1, 33},
    /* Few channels, and filters in fours: one and several bands, strides, unequal and much padding,
       fours that do not divide a group. */
    {13, 11, 1, 20, 3, 3, 1, 1, 0, 0, 1, 1, 1},
    {9, 7, 1, 12, 3, 3, 2, 1, 1, 4, 1, 1, 1},
    {11, 40, 3, 4, 3, 3, 1, 3, 1, 0, 1, 1, 1},
    {5, 4, 3, 64, 3, 3, 1, 1, 2, 1, 1, 1, 1},
    {12, 9, 1, 8, 5, 5, 1, 1, 2, 2, 1, 1, 1},
    {3, 6, 1, 28, 5, 5, 3, 2, 6, 0, 1, 1, 1},
    /* Transformed filters beyond what a third-level cache keeps, in 36 points and in 16. */
    {5, 5, 350, 343, 3, 3, 1, 1, 1, 1, 1, 1, 1},
    {2, 3, 520, 515, 3, 3, 1, 1, 1, 1, 1, 1, 1},
    /* Filters beyond a core's cache, and more tiles than are worth reading for a few of those
       filters at a time (in 36 points, 16 and 49), or than fit a block; and both beyond. */
    {1, 645, 181, 170, 3, 3, 1, 1, 1, 1, 1, 1, 1},
    {1, 325, 264, 260, 3, 3, 1, 1, 1, 1, 1, 1, 1},
    {1, 485, 150, 149, 5, 5, 1, 1, 2, 2, 1, 1, 1},
    {1, 410, 16, 1900, 3, 3, 1, 1, 1, 1, 1, 1, 1},
    {1, 645, 350, 343, 3, 3, 1, 1, 1, 1, 1, 1, 1},
};

static size_t out_extent(size_t in, size_t kernel, size_t stride, size_t pad, size_t dilation)
{
    const size_t padded = in + 2 * pad, reach = dilation * (kernel - 1) + 1;
    return padded < reach ? 0 : (padded - reach) / stride + 1;
}

static dpt_conv2d_desc conv_desc(const conv_shape *s)
{
    return (dpt_conv2d_desc){
        .in_h = s->h,
        .in_w = s->w,
        .in_channels = s->c,
        .out_h = out_extent(s->h, s->kh, s->sh, s->ph, s->dh),
        .out_w = out_extent(s->w, s->kw, s->sw, s->pw, s->dw),
        .out_channels = s->o,
        .kernel_h = s->kh,
        .kernel_w = s->kw,
        .stride_h = s->sh,
        .stride_w = s->sw,
        .pad_h = s->ph,
        .pad_w = s->pw,
        .dilation_h = s->dh,
        .dilation_w = s->dw,
        .groups = s->groups,
    };
}

static conv_shape random_conv(test_random *random)
{
    for (;;) {
        const bool is_depthwise = test_random_below(random, 4) == 0;
        const size_t groups = 1 + test_random_below(random, is_depthwise ? 80 : 3);
        const conv_shape s = {
            .h = 1 + test_random_below(random, 10),
            .w = 1 + test_random_below(random, 10),
            .c = groups * (is_depthwise ? 1 : 1 + test_random_below(random, 6)),
            .o = groups * (is_depthwise ? 1 : 1 + test_random_below(random, 9)),
            .kh = 1 + test_random_below(random, 5),
            .kw = 1 + test_random_below(random, 5),
            .sh = 1 + test_random_below(random, 3),
            .sw = 1 + test_random_below(random, 3),
            .ph = test_random_below(random, 4),
            .pw = test_random_below(random, 4),
            .dh = 1 + test_random_below(random, 2),
            .dw = 1 + test_random_below(random, 2),
            .groups = groups,
        };
        const dpt_conv2d_desc d = conv_desc(&s);
        if (d.out_h > 0 && d.out_w > 0) return s;
    }
}

static void check_convs(test *t, dpt_op_kind kind)
{
    test_random random = {100 + (uint64_t)kind};
    for (size_t i = 0; i < N_ELEMENTS(conv_shapes) + N_RANDOM && !conformance_enough(t); i++) {
        const conv_shape random_shape = random_conv(&random);
        const conv_shape *shape = i < N_ELEMENTS(conv_shapes) ? &conv_shapes[i] : &random_shape;
        dpt_op_desc desc = {.kind = kind, .u.conv2d = conv_desc(shape)};
        desc.u.conv2d.has_bias = test_random_below(&random, 4) != 0;
        desc.u.conv2d.activation = any_activation(&random);
        desc.u.conv2d.input_activation = any_activation(&random);
        conformance_vary(t, &desc, test_random_u64(&random));
    }
    /* Every activation and mask, with and without bias, on one shape. */
    static const conv_shape shape = {6, 5, 3, 5, 3, 3, 1, 1, 1, 1, 1, 1, 1};
    for (size_t i = 0; i < 2 * N_ELEMENTS(activations) && !conformance_enough(t); i++) {
        dpt_op_desc desc = {.kind = kind, .u.conv2d = conv_desc(&shape)};
        desc.u.conv2d.has_bias = i % 2 == 0;
        desc.u.conv2d.activation = desc.u.conv2d.input_activation = activations[i / 2];
        conformance_vary(t, &desc, i);
    }
}

static void check_nan_in_convs(test *t)
{
    static const conv_shape shapes[] = {
        {6, 5, 3, 5, 3, 3, 1, 1, 1, 1, 1, 1, 1},
        {7, 7, 16, 32, 1, 1, 1, 1, 0, 0, 1, 1, 1},
        {12, 12, 16, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1},
        {10, 10, 6, 16, 5, 5, 1, 1, 2, 2, 1, 1, 1},
    };
    for (size_t i = 0; i < 2 * N_ELEMENTS(shapes) && !conformance_enough(t); i++) {
        dpt_op_desc desc = {.kind = DPT_OP_CONV2D_FORWARD, .u.conv2d = conv_desc(&shapes[i / 2])};
        desc.u.conv2d.has_bias = i % 2 == 0;
        desc.u.conv2d.activation = DPT_ACT_RELU;
        conformance_nan(t, &desc);
    }
}

/* Filters so large that a copy of them for each of two threads costs too much memory. */
static void check_large_filters(test *t)
{
    static const conv_shape large = {2, 1, 1400, 2100, 3, 1, 1, 1, 1, 0, 1, 1, 2};
    dpt_op_desc desc = {.kind = DPT_OP_CONV2D_BACKWARD_WEIGHTS, .u.conv2d = conv_desc(&large)};
    desc.u.conv2d.has_bias = true;
    if (!conformance_enough(t)) conformance_vary(t, &desc, 1);
}

/* Sums over so many samples that a deterministic operator stores them between blocks: of a part of
   a grain, of one, and of several. */
static void check_long_sums(test *t, const dpt_op_desc *desc, size_t n_samples)
{
    if (!suite_of(t)->deterministic) return;
    for (size_t i = 0; i < 6 && !conformance_enough(t); i++) {
        op_case c = {.desc = *desc,
                     .n_samples = n_samples,
                     .max_samples = n_samples + i,
                     .accumulate = i % 2 == 1 && desc->kind != DPT_OP_CONV2D_FORWARD,
                     .in_place = -1,
                     .seed = 700 + i};
        dpti_op op;
        c.desc.type = suite_of(t)->device->info.activations;
        if (!conformance_prepare(t, &c, &op)) return;
        conformance_check(t, &op, &c);
        dpti_release(&op);
    }
}

static void check_many_pixels(test *t)
{
    static const conv_shape shapes[] = {
        {12, 11, 16, 9, 3, 3, 1, 1, 1, 1, 1, 1, 1}, /* as a product, and in place */
        {12, 11, 5, 9, 3, 3, 1, 1, 1, 1, 1, 1, 1},
        {9, 12, 32, 24, 1, 3, 2, 1, 0, 1, 1, 1, 2},
    };
    for (size_t i = 0; i < N_ELEMENTS(shapes); i++) {
        dpt_op_desc desc = {.kind = DPT_OP_CONV2D_BACKWARD_WEIGHTS,
                            .u.conv2d = conv_desc(&shapes[i])};
        desc.u.conv2d.has_bias = true;
        check_long_sums(t, &desc, 35);
    }
}

/* Deterministic Winograd convolutions: cut tiles, tiles in the padding, channels that do not fill
   vectors, and of the sums of a gradient: those that one thread has alone, in one and in several
   blocks of tiles, and those that all threads share, in several spans. */
static void check_winograd(test *t, dpt_op_kind kind)
{
    static const conv_shape shapes[] = {
        {13, 13, 20, 50, 5, 5, 1, 1, 0, 0, 1, 1, 1}, /* LeNet */
        {4, 4, 17, 16, 3, 3, 1, 1, 1, 1, 1, 1, 1},   {2, 2, 33, 18, 3, 3, 1, 1, 1, 1, 1, 1, 1},
        {9, 14, 16, 35, 3, 3, 1, 1, 0, 2, 1, 1, 1},  {3, 5, 19, 16, 3, 3, 1, 1, 2, 1, 1, 1, 1},
        {6, 4, 18, 21, 5, 5, 1, 1, 2, 4, 1, 1, 1},   {20, 23, 16, 17, 3, 3, 1, 1, 1, 1, 1, 1, 1},
        {7, 7, 90, 100, 3, 3, 1, 1, 1, 1, 1, 1, 1},
    };
    for (size_t i = 0; i < N_ELEMENTS(shapes); i++) {
        dpt_op_desc desc = {.kind = kind, .u.conv2d = conv_desc(&shapes[i])};
        desc.u.conv2d.has_bias = i % 2 == 1;
        desc.u.conv2d.activation = i % 2 == 1 ? DPT_ACT_RELU : DPT_ACT_NONE;
        desc.u.conv2d.input_activation = i % 2 == 1 ? DPT_ACT_RELU : DPT_ACT_NONE;
        check_long_sums(t, &desc, 19);
    }
}

static void check_conv2d(test *t, dpt_op_kind kind)
{
    check_convs(t, kind);
    check_winograd(t, kind);
    if (kind == DPT_OP_CONV2D_FORWARD) check_nan_in_convs(t);
    if (kind != DPT_OP_CONV2D_BACKWARD_WEIGHTS) return;
    check_large_filters(t);
    check_many_pixels(t);
}

/* ---- Linear ---------------------------------------------------------------------------------- */

static void check_linears(test *t, dpt_op_kind kind)
{
    static const size_t
        shapes[][2] = {{1, 1},     {400, 120}, {120, 84},   {84, 10}, {784, 10}, {1, 257},
                       {257, 1},   {17, 3},    {3, 17},     {64, 64}, {33, 403}, {1100, 70},
                       {70, 1100}, {1, 1500},  {1100, 2000} /* several blocks of each side */};
    test_random random = {200 + (uint64_t)kind};
    for (size_t i = 0; i < N_ELEMENTS(shapes) + N_RANDOM && !conformance_enough(t); i++) {
        const bool listed = i < N_ELEMENTS(shapes);
        dpt_op_desc desc = {.kind = kind, .u.linear = {.in = 1, .out = 1}};
        desc.u.linear.in = listed ? shapes[i][0] : 1 + test_random_below(&random, 70);
        desc.u.linear.out = listed ? shapes[i][1] : 1 + test_random_below(&random, 70);
        desc.u.linear.has_bias = test_random_below(&random, 3) != 0;
        desc.u.linear.activation = activations[i % N_ELEMENTS(activations)];
        desc.u.linear.input_activation = activations[(i + 1) % N_ELEMENTS(activations)];
        conformance_vary(t, &desc, test_random_u64(&random));
    }
}

static void check_nan_in_linears(test *t)
{
    static const size_t shapes[][2] = {{1, 1}, {84, 10}, {17, 3}, {64, 64}, {400, 120}};
    for (size_t i = 0; i < 2 * N_ELEMENTS(shapes) && !conformance_enough(t); i++)
        conformance_nan(t, &(const dpt_op_desc){.kind = DPT_OP_LINEAR_FORWARD,
                                                .u.linear = {.in = shapes[i / 2][0],
                                                             .out = shapes[i / 2][1],
                                                             .has_bias = i % 2 == 0,
                                                             .activation = DPT_ACT_RELU}});
}

/* Slices of rows: the first, the last, one row, all of them, such as begin and end anywhere. */
static void check_slices(test *t)
{
    static const struct {
        size_t in, out, first, rows;
    } slices[] = {{3, 17, 0, 17},    {3, 17, 16, 1},     {64, 64, 32, 32},   {64, 64, 1, 33},
                  {17, 70, 5, 7},    {400, 120, 37, 83}, {120, 84, 0, 13},   {1, 257, 128, 129},
                  {257, 130, 64, 2}, {33, 403, 130, 66}, {2, 2000, 401, 31}, {130, 300, 128, 128}};
    test_random random = {290};
    for (size_t i = 0; i < N_ELEMENTS(slices) + N_RANDOM && !conformance_enough(t); i++) {
        dpt_linear_desc d = {.in = 1 + test_random_below(&random, 70),
                             .out = 1 + test_random_below(&random, 140)};
        d.rows = 1 + test_random_below(&random, (uint32_t)d.out);
        d.first = test_random_below(&random, (uint32_t)(d.out - d.rows + 1));
        if (i < N_ELEMENTS(slices))
            d = (dpt_linear_desc){.in = slices[i].in,
                                  .out = slices[i].out,
                                  .first = slices[i].first,
                                  .rows = slices[i].rows};
        d.has_bias = i % 4 != 3;
        conformance_vary(
            t, &(const dpt_op_desc){.kind = DPT_OP_LINEAR_BACKWARD_WEIGHTS, .u.linear = d}, i);
    }
}

static void check_linear(test *t, dpt_op_kind kind)
{
    check_linears(t, kind);
    if (kind == DPT_OP_LINEAR_FORWARD) check_nan_in_linears(t);
    if (kind != DPT_OP_LINEAR_BACKWARD_WEIGHTS) return;
    check_slices(t);
    /* Operators for at most 1024 samples store sums, too, if the number of grains is no power of
       two. */
    static const size_t samples[] = {700, 800, 1000, 1100, 1800, 3900};
    for (size_t i = 0; i < N_ELEMENTS(samples); i++)
        check_long_sums(
            t,
            &(const dpt_op_desc){.kind = kind, .u.linear = {.in = 35, .out = 19, .has_bias = true}},
            samples[i]);
}

/* ---- Pooling --------------------------------------------------------------------------------- */

/* Input, kernel, stride, padding. */
typedef struct pool_shape {
    size_t h, w, c, kh, kw, sh, sw, ph, pw;
} pool_shape;

static const pool_shape pool_shapes[] = {
    {28, 28, 6, 2, 2, 2, 2, 0, 0}, /* LeNet */
    {10, 10, 16, 2, 2, 2, 2, 0, 0}, {14, 14, 8, 3, 3, 2, 2, 1, 1}, {7, 7, 17, 7, 7, 7, 7, 0, 0},
    {1, 1, 1, 1, 1, 1, 1, 0, 0},    {5, 7, 3, 2, 3, 1, 2, 1, 0},   {6, 6, 2, 2, 2, 3, 3, 0, 0},
    {7, 5, 4, 2, 2, 2, 2, 0, 0},    {4, 4, 33, 4, 4, 4, 4, 3, 3},  {3, 3, 1, 5, 5, 1, 1, 2, 2},
    {4, 4, 20, 4, 4, 4, 4, 0, 0},   {9, 14, 5, 4, 4, 4, 4, 0, 0},
};

static pool_shape random_pool(test_random *random)
{
    for (;;) {
        const size_t kh = 1 + test_random_below(random, 4), kw = 1 + test_random_below(random, 4);
        const pool_shape s = {
            .h = 1 + test_random_below(random, 11),
            .w = 1 + test_random_below(random, 11),
            .c = 1 + test_random_below(random, 20),
            .kh = kh,
            .kw = kw,
            .sh = 1 + test_random_below(random, 3),
            .sw = 1 + test_random_below(random, 3),
            .ph = test_random_below(random, kh),
            .pw = test_random_below(random, kw),
        };
        if (s.h + 2 * s.ph >= kh && s.w + 2 * s.pw >= kw) return s;
    }
}

static void check_pool2d(test *t, dpt_op_kind kind)
{
    test_random random = {300 + (uint64_t)kind};
    for (size_t i = 0; i < 2 * (N_ELEMENTS(pool_shapes) + N_RANDOM) && !conformance_enough(t);
         i++) {
        const pool_shape random_shape = random_pool(&random);
        const pool_shape *s = i / 2 < N_ELEMENTS(pool_shapes) ? &pool_shapes[i / 2] : &random_shape;
        const dpt_op_desc desc = {.kind = kind,
                                  .u.pool2d = {.kind = i % 2 == 0 ? DPT_POOL_MAX : DPT_POOL_AVERAGE,
                                               .in_h = s->h,
                                               .in_w = s->w,
                                               .channels = s->c,
                                               .out_h = out_extent(s->h, s->kh, s->sh, s->ph, 1),
                                               .out_w = out_extent(s->w, s->kw, s->sw, s->pw, 1),
                                               .kernel_h = s->kh,
                                               .kernel_w = s->kw,
                                               .stride_h = s->sh,
                                               .stride_w = s->sw,
                                               .pad_h = s->ph,
                                               .pad_w = s->pw,
                                               .input_activation = any_activation(&random)}};
        conformance_vary(t, &desc, test_random_u64(&random));
    }
}

/* ---- Data ------------------------------------------------------------------------------------ */

/* A number of channels that divides the elements of a sample. */
static size_t divisor(size_t count, size_t preferred)
{
    size_t channels = 1 + preferred % DPT_MAX_CHANNEL_STATS;
    while (count % channels != 0)
        channels--;
    return channels;
}

/* height, width, channels; pad, flip, erase; of the statistics, whether they divide or not. */
typedef struct augment_shape {
    size_t h, w, c, stats;
    dpt_augment augment;
} augment_shape;

static void check_augmentation(test *t)
{
    static const augment_shape shapes[] = {
        {32, 32, 3, 3, {.pad = 4, .flip = true}}, /* CIFAR */
        {32, 32, 3, 3, {.pad = 4, .flip = true, .erase = 0.25f}},
        {28, 28, 1, 1, {.pad = 2}},
        {28, 28, 1, 1, {.flip = true}},
        {9, 6, 2, 1, {.erase = 1.0f}},
        {5, 8, 4, 2, {.pad = 5, .flip = true, .erase = 0.5f}}, /* nothing may be left of it */
        {7, 3, 17, 1, {.pad = 1, .flip = true, .erase = 0.5f}},
        {4, 5, 6, 4, {.pad = 3, .flip = true}}, /* element e is of channel e % 4 all the same */
        {1, 1, 3, 3, {.pad = 1, .flip = true, .erase = 1.0f}}, /* nothing fits */
        {2, 2, 1, 1, {.pad = 2, .flip = true, .erase = 1.0f}},
        {1, 40, 1, 1, {.flip = true, .erase = 1.0f}},
        {9, 14, 2, 1, {.rotate = 15.0f}},
        {8, 8, 3, 3, {.pad = 2, .flip = true, .erase = 0.3f, .rotate = 180.0f}},
        {1, 5, 1, 1, {.rotate = 90.0f}},
    };
    static const augment_shape coloured[] = {
        {32, 32, 3, 3, {.brightness = 0.4f, .contrast = 0.4f, .saturation = 0.4f, .hue = 0.1f}},
        {28, 28, 1, 1, {.brightness = 1.0f, .contrast = 1.0f}},
        {7, 5, 3, 1, {.contrast = 1.0f, .pad = 2}},
        {7, 5, 3, 1, {.saturation = 1.0f, .flip = true}},
        {7, 5, 3, 1, {.hue = 0.5f, .rotate = 45.0f}},
        {32, 32, 3, 3, {.ops = 2, .magnitude = 9}},
        {28, 28, 1, 1, {.ops = 6, .magnitude = 17}},
        {9, 7, 3, 1, {.ops = 1, .magnitude = 0}},
        {2, 3, 3, 1, {.ops = 3, .magnitude = 30, .pad = 1}},
        {24,
         19,
         3,
         1,
         {.ops = 3,
          .magnitude = 29,
          .flip = true,
          .rotate = 20.0f,
          .erase = 0.3f,
          .contrast = 0.5f,
          .hue = 0.1f}},
        {5, 9, 1, 1, {.saturation = 0.5f, .hue = 0.2f}}, /* a grey image stays as it is */
        {40,
         21,
         3,
         3,
         {.pad = 3,
          .flip = true,
          .erase = 0.5f,
          .rotate = 30.0f,
          .brightness = 0.8f,
          .contrast = 0.8f,
          .saturation = 0.8f,
          .hue = 0.5f}},
    };
    static const dpt_dtype types[] = {DPT_U8, DPT_F32};
    const size_t n_shapes = 2 * N_ELEMENTS(shapes);
    for (size_t i = 0; i < n_shapes + N_ELEMENTS(coloured) && !conformance_enough(t); i++) {
        const augment_shape *s = i < n_shapes ? &shapes[i / 2] : &coloured[i - n_shapes];
        dpt_op_desc desc = {.kind = DPT_OP_GATHER,
                            .u.gather = {.dtype = i < n_shapes ? types[i % 2] : DPT_U8,
                                         .count = s->h * s->w * s->c,
                                         .n_records = 5 + i,
                                         .channels = s->stats,
                                         .mean = {2, -1, 0.5f, 8},
                                         .scale = {1, 0.5f, -2, 4},
                                         .augment = s->augment}};
        desc.u.gather.augment.height = s->h;
        desc.u.gather.augment.width = s->w;
        conformance_vary(t, &desc, i);
    }
}

static void check_images(test *t)
{
    check_augmentation(t);
    static const dpt_dtype types[] = {DPT_U8, DPT_F32};
    for (size_t i = 0; i < 2 * N_ELEMENTS(counts) && !conformance_enough(t); i++) {
        const dpt_op_desc whole = {.kind = DPT_OP_GATHER,
                                   .u.gather = {.dtype = types[i % 2],
                                                .count = counts[i / 2],
                                                .n_records = 1 + i * 3,
                                                .channels = divisor(counts[i / 2], i),
                                                .mean = {2, -1, 0.5f, 0},
                                                .scale = {1, 0.5f, -2, 4}}};
        dpt_op_desc real = whole;
        real.u.gather.mean[0] = 0.1307f * 255.0f;
        real.u.gather.scale[0] = 1.0f / (0.3081f * 255.0f);
        conformance_vary(t, &whole, i);
        conformance_vary(t, &real, i);
    }
    const dpt_op_desc image = {.kind = DPT_OP_GATHER,
                               .u.gather = {.dtype = DPT_U8,
                                            .count = 28 * 28,
                                            .n_records = 300,
                                            .channels = 1,
                                            .scale = {1.0f / 255.0f}}};
    conformance_vary(t, &image, 1);
}

static void check_labels(test *t)
{
    static const dpt_dtype types[] = {DPT_U8, DPT_I32};
    for (size_t i = 0; i < 20 && !conformance_enough(t); i++) {
        const dpt_op_desc desc = {.kind = DPT_OP_GATHER_LABELS,
                                  .u.gather = {.dtype = types[i % 2],
                                               .count = i < 8 ? 1 : counts[i % N_ELEMENTS(counts)],
                                               .n_records = 1 + i * i,
                                               .channels = 1}};
        conformance_vary(t, &desc, i);
    }
}

static void check_gather(test *t, dpt_op_kind kind)
{
    if (kind == DPT_OP_GATHER)
        check_images(t);
    else
        check_labels(t);
}

/* ---- Normalisations -------------------------------------------------------------------------- */

static void check_batch_norms(test *t, dpt_op_kind kind)
{
    static const size_t areas[] = {1, 4, 49, 9};
    static const float epsilons[] = {1e-5f, 1e-3f};
    static const size_t channels[] = {1, 3, 17, 2, 16, 31, 64, 65, 256, 513, 1025, 12, 640, 1028};
    test_random random = {400 + (uint64_t)kind};
    for (size_t i = 0; i < 4 * N_ELEMENTS(channels) && !conformance_enough(t); i++) {
        const dpt_op_desc desc = {
            .kind = kind,
            .u.batch_norm = {.area = areas[i % 4],
                             .channels = channels[i / 4],
                             .n_parts = 1 + i % 5,
                             .epsilon = epsilons[i % 2],
                             .has_residual = test_random_below(&random, 2) == 0,
                             .activation = activations[(i + i / 4) % N_ELEMENTS(activations)],
                             .input_activation = any_activation(&random),
                             .output_activation =
                                 test_random_below(&random, 2) ? DPT_ACT_RELU : DPT_ACT_NONE}};
        conformance_vary(t, &desc, test_random_u64(&random));
    }
}

static void check_nan_in_batch_norms(test *t)
{
    for (size_t i = 0; i < 2 && !conformance_enough(t); i++)
        conformance_nan(t, &(const dpt_op_desc){.kind = DPT_OP_BATCH_NORM_FORWARD,
                                                .u.batch_norm = {.area = 9,
                                                                 .channels = 20,
                                                                 .n_parts = 1,
                                                                 .epsilon = 1e-5f,
                                                                 .has_residual = i == 1,
                                                                 .activation = DPT_ACT_RELU}});
}

static void check_batch_norm(test *t, dpt_op_kind kind)
{
    check_batch_norms(t, kind);
    if (kind == DPT_OP_BATCH_NORM_FORWARD) check_nan_in_batch_norms(t);
}

static void check_layer_norm(test *t, dpt_op_kind kind)
{
    static const size_t rows[] = {1, 4, 49};
    static const size_t channels[] = {1, 2, 3, 7, 8, 16, 17, 33, 64, 100, 257, 768};
    test_random random = {500 + (uint64_t)kind};
    for (size_t i = 0; i < 3 * N_ELEMENTS(channels) && !conformance_enough(t); i++) {
        const dpt_op_desc desc = {
            .kind = kind,
            .u.layer_norm = {.rows = rows[i % 3],
                             .channels = channels[i / 3],
                             .epsilon = i % 2 == 0 ? 1e-5f : 1e-3f,
                             .input_activation =
                                 activations[(i + i / 4) % N_ELEMENTS(activations)]}};
        conformance_vary(t, &desc, test_random_u64(&random));
    }
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static void check_row_softmax(test *t, dpt_op_kind kind)
{
    static const size_t rows[] = {1, 3, 49};
    static const size_t columns[] = {1, 2, 3, 7, 16, 17, 31, 32, 33, 100, 257, 1000, 5000};
    test_random random = {600 + (uint64_t)kind};
    for (size_t i = 0; i < 6 * N_ELEMENTS(columns) && !conformance_enough(t); i++) {
        const dpt_op_desc desc = {.kind = kind,
                                  .u.row_softmax = {.rows = rows[i / 2 % 3],
                                                    .columns = columns[i / 6],
                                                    .log = i % 2 == 1}};
        conformance_vary(t, &desc, test_random_u64(&random));
    }
}

static void check_take(test *t, dpt_op_kind kind)
{
    static const dpt_take_desc shapes[] = {{1, 1, 1},    {1, 33, 1},    {5, 1, 7},   {1, 8, 100},
                                           {7, 33, 5},   {16, 16, 16},  {33, 3, 90}, {300, 2, 3},
                                           {3, 300, 10}, {17, 257, 40}, {64, 64, 1}, {2, 5, 3000}};
    test_random random = {700 + (uint64_t)kind};
    for (size_t i = 0; i < 2 * N_ELEMENTS(shapes) && !conformance_enough(t); i++) {
        const dpt_op_desc desc = {.kind = kind, .u.take = shapes[i / 2]};
        conformance_vary(t, &desc, test_random_u64(&random));
    }
}

/* ---- The rest -------------------------------------------------------------------------------- */

static void check_activation(test *t, dpt_op_kind kind)
{
    static const dpt_activation kinds[] = {
#define ACTIVATION_OF(name, value, derivative, formula) DPT_ACT_##name,
        DPT_ACTIVATION_LIST(ACTIVATION_OF)
#undef ACTIVATION_OF
    };
    const size_t n = N_ELEMENTS(kinds);
    for (size_t i = 0; i < n * N_ELEMENTS(counts) && !conformance_enough(t); i++) {
        const dpt_op_desc desc = {.kind = kind,
                                  .u.activation = {.kind = kinds[i % n], .count = counts[i / n]}};
        conformance_vary(t, &desc, i);
    }
    if (kind == DPT_OP_ACTIVATION_FORWARD)
        conformance_nan(t, &(const dpt_op_desc){
                               .kind = kind, .u.activation = {.kind = DPT_ACT_RELU, .count = 100}});
}

static void check_softmax(test *t, dpt_op_kind kind)
{
    static const size_t classes[] = {1, 2, 3, 7, 8, 9, 10, 16, 17, 33, 100, 1000, 4099};
    for (size_t i = 0; i < N_ELEMENTS(classes) && !conformance_enough(t); i++) {
        dpt_op_desc desc = {.kind = kind, .u.softmax = {.classes = classes[i]}};
        conformance_vary(t, &desc, i);
        desc.u.softmax.smoothing = i % 3 == 0 ? 0.9f : 0.1f;
        conformance_vary(t, &desc, i);
    }
}

static void check_squared_error(test *t, dpt_op_kind kind)
{
    for (size_t i = 0; i < N_ELEMENTS(counts) && !conformance_enough(t); i++) {
        const dpt_op_desc desc = {.kind = kind, .u.squared_error = {.count = counts[i]}};
        conformance_vary(t, &desc, i);
    }
}

static void check_dropout(test *t, dpt_op_kind kind)
{
    static const float probabilities[] = {0.5f, 0.0f, 0.1f, 0.75f, 0x1.fffffep-1f, 0x1p-25f};
    for (size_t i = 0; i < 3 * N_ELEMENTS(counts) && !conformance_enough(t); i++) {
        const dpt_op_desc desc = {
            .kind = kind,
            .u.dropout = {.count = counts[i / 3] * (i % 2 == 0 ? 1 : 11),
                          .p = probabilities[i % N_ELEMENTS(probabilities)],
                          .stream = i % 4 == 0 ? 1 : (uint32_t)i * 77777777u}};
        conformance_vary(t, &desc, i);
    }
}

static void check_elementwise(test *t, dpt_op_kind kind)
{
    static const float factors[][2] = {{1, 1}, {2, -1}, {0.3f, 1.7f}, {0, 0.5f}};
    for (size_t i = 0; i < 4 * N_ELEMENTS(counts) && !conformance_enough(t); i++) {
        const dpt_op_desc desc = {.kind = kind,
                                  .u.elementwise = {.count = counts[i / 4],
                                                    .alpha = factors[i % 4][0],
                                                    .beta = factors[i % 4][1]}};
        conformance_vary(t, &desc, i);
    }
}

static void check_sgd(test *t, dpt_op_kind kind)
{
    static const dpt_sgd_desc rules[] = {
        {.momentum = 0},
        {.momentum = 0, .weight_decay = 0.25f},
        {.momentum = 0.5f},
        {.momentum = 0.5f, .weight_decay = 0.25f, .nesterov = true},
        {.momentum = 0.9f, .weight_decay = 5e-4f},
        {.momentum = 0.9f, .weight_decay = 5e-4f, .nesterov = true},
    };
    for (size_t i = 0; i < N_ELEMENTS(rules) * N_ELEMENTS(counts) && !conformance_enough(t); i++) {
        dpt_op_desc desc = {.kind = kind, .u.sgd = rules[i % N_ELEMENTS(rules)]};
        const size_t count = counts[i / N_ELEMENTS(rules)];
        const size_t decayed[] = {0, count / 2, count};
        desc.u.sgd.count = count * (i % 2 == 0 ? 1 : 40);
        desc.u.sgd.decay_count = decayed[i % 3];
        conformance_vary(t, &desc, i);
    }
}

static void check_map(test *t, dpt_op_kind kind)
{
    map_cases_check(t, kind);
}

static void check_matmul(test *t, dpt_op_kind kind)
{
    matmul_cases_check(t, kind);
}

static void check_recurrent(test *t, dpt_op_kind kind)
{
    recurrent_cases_check(t, kind);
}

static void check_attention(test *t, dpt_op_kind kind)
{
    attention_cases_check(t, kind);
}

static void check_adamw(test *t, dpt_op_kind kind)
{
    static const dpt_adamw_desc rules[] = {
        {.beta1 = 0.9f, .beta2 = 0.999f, .epsilon = 1e-8f, .weight_decay = 0.01f},
        {.beta1 = 0.5f, .beta2 = 0.75f, .epsilon = 1e-3f},
        {.beta1 = 0.0f, .beta2 = 0.99f, .epsilon = 1e-6f, .weight_decay = 0.5f},
        {.beta1 = 0.9f, .beta2 = 0.0f, .epsilon = 0.5f, .weight_decay = 0.01f},
    };
    for (size_t i = 0; i < N_ELEMENTS(rules) * N_ELEMENTS(counts) && !conformance_enough(t); i++) {
        dpt_op_desc desc = {.kind = kind, .u.adamw = rules[i % N_ELEMENTS(rules)]};
        const size_t count = counts[i / N_ELEMENTS(rules)] * (i % 2 == 0 ? 1 : 100);
        const size_t decayed[] = {0, count / 2, count};
        desc.u.adamw.count = count;
        desc.u.adamw.decay_count = decayed[i % 3];
        conformance_vary(t, &desc, i);
    }
}

/* Norms below, about and above those of the gradients, which grow with the square root of count. */
static void check_clip_norm(test *t, dpt_op_kind kind)
{
    static const float norms[] = {1.0f, 1e4f, 0.01f, 30.0f};
    for (size_t i = 0; i < N_ELEMENTS(norms) * N_ELEMENTS(counts) && !conformance_enough(t); i++) {
        const dpt_op_desc desc = {
            .kind = kind,
            .u.clip_norm = {.count = counts[i / N_ELEMENTS(norms)] * (i % 3 == 0 ? 1 : 257),
                            .max_norm = norms[i % N_ELEMENTS(norms)]}};
        conformance_vary(t, &desc, i);
    }
}

static void check_check_finite(test *t, dpt_op_kind kind)
{
    for (size_t i = 0; i < 6 * N_ELEMENTS(counts) && !conformance_enough(t); i++) {
        const dpt_op_desc desc = {
            .kind = kind, .u.check_finite = {.count = counts[i / 6] * (i % 2 == 0 ? 1 : 257)}};
        conformance_vary(t, &desc, i);
    }
}

/* ---- The cases ------------------------------------------------------------------------------- */

/* check_NAME(t, kind) for each family of DPT_OP_FAMILY_LIST. */
static void (*const check_family[DPT_FAMILY_COUNT])(test *t, dpt_op_kind kind) = {
#define CHECK_FAMILY(FAMILY, name) [DPT_FAMILY_##FAMILY] = check_##name,
    DPT_OP_FAMILY_LIST(CHECK_FAMILY)
#undef CHECK_FAMILY
};

/* One case for each kind of DPT_OP_LIST, of its name. */
#define CASE_BODY(KIND, name, FAMILY, ...)                                                         \
    static void name##_case(test *t)                                                               \
    {                                                                                              \
        check_family[DPT_FAMILY_##FAMILY](t, DPT_OP_##KIND);                                       \
    }
DPT_OP_LIST(CASE_BODY)
#undef CASE_BODY

const suite_case operator_cases[] = {
#define CASE(KIND, name, ...) {#name, name##_case},
    DPT_OP_LIST(CASE)
#undef CASE
};
const size_t n_operator_cases = N_ELEMENTS(operator_cases);
