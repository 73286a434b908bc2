/* Compares the reference with numbers that were computed by hand.  It covers what a gradient check
   cannot see: the forward operators, conventions of layout and ties, accumulation, the
   optimizer. */
#include "harness.h"
#include "reference/reference.h"

#include <math.h>

static void check_values(test *t, const double *actual, const double *expected, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!CHECK_NEAR(actual[i], expected[i], 1e-12)) FAIL("element %zu", i);
    }
}

/* Two channels in, two out, a 2x2 kernel on a 2x3 image: every index has its own number. */
static void conv_forward(test *t)
{
    const dpt_op_desc desc = {.kind = DPT_OP_CONV2D_FORWARD,
                              .u.conv2d = {.in_h = 2,
                                           .in_w = 3,
                                           .in_channels = 2,
                                           .out_h = 1,
                                           .out_w = 2,
                                           .out_channels = 2,
                                           .kernel_h = 2,
                                           .kernel_w = 2,
                                           .stride_h = 1,
                                           .stride_w = 1,
                                           .dilation_h = 1,
                                           .dilation_w = 1,
                                           .groups = 1,
                                           .has_bias = true}};
    /* x[h][w][c] = 6h + 2w + c;  w[o][r][s][i]: o = 0 picks x[0][0][1] and 10 x[1][1][0]. */
    const double x[] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11};
    const double w[] = {0, 1, 0, 0, 0, 0, 10, 0, 1, 0, 0, 0, 0, 0, 0, -1};
    const double bias[] = {0.5, 100};
    double y[4];
    reference_run(&desc, 1, &(reference_args){.in = {x, w, bias}, .out = {y}});
    check_values(t, y, (const double[]){1 + 80 + 0.5, 0 - 9 + 100, 3 + 100 + 0.5, 2 - 11 + 100}, 4);
}

/* Two groups with one channel each; the padding is zero; stride 2. */
static void conv_groups(test *t)
{
    const dpt_op_desc desc = {.kind = DPT_OP_CONV2D_FORWARD,
                              .u.conv2d = {.in_h = 1,
                                           .in_w = 3,
                                           .in_channels = 2,
                                           .out_h = 1,
                                           .out_w = 2,
                                           .out_channels = 2,
                                           .kernel_h = 1,
                                           .kernel_w = 3,
                                           .stride_h = 1,
                                           .stride_w = 2,
                                           .pad_w = 1,
                                           .dilation_h = 1,
                                           .dilation_w = 1,
                                           .groups = 2,
                                           .activation = DPT_ACT_RELU}};
    const double x[] = {1, 10, 2, 20, 3, 30};
    const double w[] = {1, 2, 3, -1, -2, 4};
    double y[4];
    reference_run(&desc, 1, &(reference_args){.in = {x, w}, .out = {y}});
    check_values(t, y, (const double[]){1 * 2 + 2 * 3, -20 + 80, 2 + 6, 0}, 4);
}

static void pools(test *t)
{
    dpt_op_desc desc = {.kind = DPT_OP_POOL2D_FORWARD,
                        .u.pool2d = {.kind = DPT_POOL_MAX,
                                     .in_h = 2,
                                     .in_w = 2,
                                     .channels = 1,
                                     .out_h = 2,
                                     .out_w = 2,
                                     .kernel_h = 2,
                                     .kernel_w = 2,
                                     .stride_h = 1,
                                     .stride_w = 1,
                                     .pad_h = 1,
                                     .pad_w = 1}};
    desc.u.pool2d.out_h = desc.u.pool2d.out_w = 3;
    const double x[] = {-1, -2, -1, -1};
    double y[9], dx[4] = {0};
    reference_run(&desc, 1, &(reference_args){.in = {x}, .out = {y}});
    check_values(t, y, (const double[]){-1, -1, -2, -1, -1, -1, -1, -1, -1}, 9);
    const double dy[] = {1, 2, 4, 8, 16, 32, 64, 128, 256};
    desc.kind = DPT_OP_POOL2D_BACKWARD;
    reference_run(&desc, 1, &(reference_args){.in = {dy, x}, .out = {dx}});
    /* Equal elements: the first in row-major order takes it. */
    check_values(t, dx, (const double[]){1 + 2 + 8 + 16, 4, 64 + 128, 32 + 256}, 4);
    desc.kind = DPT_OP_POOL2D_FORWARD;
    desc.u.pool2d.kind = DPT_POOL_AVERAGE;
    reference_run(&desc, 1, &(reference_args){.in = {x}, .out = {y}});
    check_values(t, y, (const double[]){-0.25, -0.75, -0.5, -0.5, -1.25, -0.75, -0.25, -0.5, -0.25},
                 9);
}

static void softmax(test *t)
{
    const dpt_op_desc desc = {.kind = DPT_OP_SOFTMAX_XENT_GRADIENT, .u.softmax = {.classes = 2}};
    const double logits[] = {0, log(3), 1000, 1000, 5, -2000}, label[] = {1, 1, 0};
    double result[6], dlogits[6];
    reference_run(
        &desc, 3,
        &(reference_args){.in = {logits, label}, .out = {result, dlogits}, .inv_batch = 0.5});
    check_values(t, result, (const double[]){log(4.0 / 3.0), 1, log(2), 0, 0, 1}, 6);
    check_values(t, dlogits, (const double[]){0.125, -0.125, 0.25, -0.25, 0, 0}, 6);
}

static void gathers(test *t)
{
    const dpt_op_desc desc = {.kind = DPT_OP_GATHER,
                              .u.gather = {.dtype = DPT_F32,
                                           .count = 4,
                                           .n_records = 2,
                                           .channels = 2,
                                           .mean = {1, 2},
                                           .scale = {2, -1}}};
    const double data[] = {1, 2, 3, 4, 5, 6, 7, 8}, index[] = {1, 0, 1};
    double x[12];
    reference_run(&desc, 3, &(reference_args){.in = {data, index}, .out = {x}});
    check_values(t, x, (const double[]){8, -4, 12, -6, 0, 0, 4, -2, 8, -4, 12, -6}, 12);
    const dpt_op_desc labels = {.kind = DPT_OP_GATHER_LABELS,
                                .u.gather = {.count = 1, .n_records = 2}};
    reference_run(&labels, 3, &(reference_args){.in = {data, index}, .out = {x}});
    check_values(t, x, (const double[]){2, 1, 2}, 3);
}

/* Two steps of w' with g = 1, lr = 0.1, momentum 0.5, weight decay 0.25 on the first of two. */
static void sgd(test *t)
{
    const double g[] = {1, 1};
    for (int nesterov = 0; nesterov < 2; nesterov++) {
        const dpt_op_desc desc = {.kind = DPT_OP_SGD,
                                  .u.sgd = {.count = 2,
                                            .decay_count = 1,
                                            .momentum = 0.5f,
                                            .weight_decay = 0.25f,
                                            .nesterov = nesterov == 1}};
        double w[] = {2, 2}, velocity[] = {0, 0};
        const reference_args args = {.in = {g}, .out = {w, velocity}, .lr = 0.1};
        reference_run(&desc, 1, &args);
        check_values(t, velocity, (const double[]){1.5, 1}, 2);
        check_values(t, w,
                     nesterov ? (const double[]){2 - 0.1 * (1.5 + 0.75), 2 - 0.1 * 1.5}
                              : (const double[]){2 - 0.15, 2 - 0.1},
                     2);
        const double second = 1 + 0.25 * w[0]; /* g of the second step */
        reference_run(&desc, 1, &args);
        check_values(t, velocity, (const double[]){0.75 + second, 1.5}, 2);
    }
    const dpt_op_desc plain = {.kind = DPT_OP_SGD, .u.sgd = {.count = 2}};
    double w[] = {2, 2};
    reference_run(&plain, 1, &(reference_args){.in = {g}, .out = {w}, .lr = 0.5});
    check_values(t, w, (const double[]){1.5, 1.5}, 2);
}

/* Sums of squares 25: scaled to a norm of 1, or left as they are. */
static void clip_norm(test *t)
{
    dpt_op_desc desc = {.kind = DPT_OP_CLIP_NORM, .u.clip_norm = {.count = 2, .max_norm = 1.0f}};
    double gradient[] = {3, -4};
    reference_run(&desc, 1, &(reference_args){.out = {gradient}});
    check_values(t, gradient, (const double[]){3 / 5.000001, -4 / 5.000001}, 2);
    desc.u.clip_norm.max_norm = 5.0f;
    reference_run(&desc, 1, &(reference_args){.out = {gradient}});
    check_values(t, gradient, (const double[]){3 / 5.000001, -4 / 5.000001}, 2);
}

static void squared_error(test *t)
{
    const dpt_op_desc desc = {.kind = DPT_OP_SQUARED_ERROR_GRADIENT,
                              .u.squared_error = {.count = 2}};
    const double y[] = {1, 2, 0, 0}, target[] = {3, 1, 0, 4};
    double result[] = {9, 9, 9, 9}, dy[4];
    reference_run(&desc, 2,
                  &(reference_args){.in = {y, target}, .out = {result, dy}, .inv_batch = 0.5});
    check_values(t, result, (const double[]){2.5, 0, 8, 0}, 4);
    check_values(t, dy, (const double[]){-1, 0.5, 0, -2}, 4);
}

static void elementwise(test *t)
{
    const double a[] = {1, 2, 3}, b[] = {4, -5, 6};
    double c[3];
    dpt_op_desc desc = {.kind = DPT_OP_MULTIPLY,
                        .u.elementwise = {.count = 3, .alpha = 2.0f, .beta = -1.0f}};
    const reference_args args = {.in = {a, b}, .out = {c}};
    reference_run(&desc, 1, &args);
    check_values(t, c, (const double[]){4, -10, 18}, 3);
    desc.kind = DPT_OP_ADD;
    reference_run(&desc, 1, &args);
    check_values(t, c, (const double[]){-2, 9, 0}, 3);
    desc.kind = DPT_OP_AFFINE;
    reference_run(&desc, 1, &args);
    check_values(t, c, (const double[]){1, 3, 5}, 3);
}

/* Accumulating adds to what is there, and a mask applies to the whole sum. */
static void accumulation(test *t)
{
    dpt_op_desc desc = {.kind = DPT_OP_LINEAR_BACKWARD_DATA,
                        .u.linear = {.in = 2, .out = 1, .input_activation = DPT_ACT_RELU}};
    const double dy[] = {3}, w[] = {10, 20}, x[] = {1, 0};
    double dx[] = {5, 5}, dw[] = {1, 1};
    reference_run(&desc, 1, &(reference_args){.in = {dy, w, x}, .out = {dx}, .accumulate = true});
    check_values(t, dx, (const double[]){35, 0}, 2);
    desc.kind = DPT_OP_LINEAR_BACKWARD_WEIGHTS;
    reference_run(&desc, 1, &(reference_args){.in = {dy, x}, .out = {dw}, .accumulate = true});
    check_values(t, dw, (const double[]){4, 1}, 2);
    reference_run(&desc, 0, &(reference_args){.in = {dy, x}, .out = {dw}});
    check_values(t, dw, (const double[]){0, 0}, 2);
}

/* Parts {1, 2, 6}, none and {7} of the values 1, 2, 6, 7: mean 4, squared deviations 26. */
static void batch_norm(test *t)
{
    dpt_op_desc desc = {.kind = DPT_OP_BATCH_NORM_PARTIAL,
                        .u.batch_norm = {.area = 1, .channels = 1, .n_parts = 3, .epsilon = 0.5f}};
    const double x[] = {1, 2, 6};
    double parts[] = {9, 9, 9, 9, 9, 9, 1, 7, 0}, moments[3], mean = 100, variance = 100;
    reference_run(&desc, 3, &(reference_args){.in = {x}, .out = {parts}});
    reference_run(&desc, 0, &(reference_args){.in = {x}, .out = {parts + 3}});
    check_values(t, parts, (const double[]){3, 3, 14, 0, 0, 0, 1, 7, 0}, 9);
    desc.kind = DPT_OP_BATCH_NORM_MERGE;
    reference_args merge = {
        .in = {parts}, .out = {moments, &mean, &variance}, .inv_batch = 0.25, .accumulate = true};
    reference_run(&desc, 3, &merge);
    check_values(t, moments, (const double[]){4, 1 / sqrt(6.5 + 0.5), 0.25}, 3);
    check_values(t, &mean, (const double[]){100 + 4 * 0.75}, 1);
    check_values(t, &variance, (const double[]){100 + 26.0 / 3.0 * 0.75}, 1);
    reference_run(&desc, 0, &merge); /* a device without samples adds nothing */
    check_values(t, &mean, (const double[]){103}, 1);
    merge.accumulate = false;
    parts[0] = parts[1] = parts[2] = 0; /* one value in all */
    reference_run(&desc, 4, &merge);
    check_values(t, moments, (const double[]){7, 1 / sqrt(0.5), 1}, 3);
    check_values(t, &variance, (const double[]){0}, 1);
}

/* Of 0, 1, 2: Phi(0) = 1/2, Phi(1) and Phi(2) from tables of the normal distribution. */
static void gelu(test *t)
{
    const dpt_op_desc desc = {.kind = DPT_OP_ACTIVATION_FORWARD,
                              .u.activation = {.kind = DPT_ACT_GELU, .count = 4}};
    const double x[] = {0, 1, 2, -1};
    double y[4];
    reference_run(&desc, 1, &(reference_args){.in = {x}, .out = {y}});
    check_values(
        t, y,
        (const double[]){0, 0.841344746068543, 2 * 0.977249868051821, -(1 - 0.841344746068543)}, 4);
    check_values(t, &(double){reference_slope(DPT_ACT_GELU, 0)}, (const double[]){0.5}, 1);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"conv_forward", conv_forward},
        {"conv_groups", conv_groups},
        {"pools", pools},
        {"softmax", softmax},
        {"gathers", gathers},
        {"sgd", sgd},
        {"clip_norm", clip_norm},
        {"squared_error", squared_error},
        {"elementwise", elementwise},
        {"accumulation", accumulation},
        {"batch_norm", batch_norm},
        {"gelu", gelu},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
