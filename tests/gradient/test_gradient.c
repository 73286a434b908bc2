/* Tests the backward operators of the reference: the derivative that an operator computes equals
   the central difference of its forward operator, for every element of every input. */
#include "gradient.h"
#include "reference/reference.h"

#include <string.h>

/* A forward operator and the scalar  L = sum of g * y  that is differentiated.  Where the input
   comes out of an activation (the mask of the backward operators), the variable is what goes into
   it, and in[0] is computed from it. */
typedef struct problem {
    dpt_op_desc forward;
    size_t n_samples;
    dpt_activation input_activation;
    size_t n_in[3], n_out;
    double *before, *in[3]; /* `before`: (n_in[0]) */
    double *g, *y;
} problem;

/* Distinct values in a random order, so that no maximum changes hands within the difference and no
   value lies near the kink of max(x, 0). */
static void fill_distinct(test_random *random, double *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = 0.01 * ((double)i - (double)n / 2.0) + 0.003;
    for (size_t i = n; i > 1; i--) {
        const size_t k = test_random_below(random, i);
        const double swapped = out[i - 1];
        out[i - 1] = out[k];
        out[k] = swapped;
    }
}

static problem problem_create(const dpt_op_desc *forward, size_t n, dpt_activation input,
                              const size_t n_in[3], size_t n_out, uint64_t seed)
{
    problem p = {.forward = *forward, .n_samples = n, .input_activation = input, .n_out = n_out};
    test_random random = {seed};
    for (size_t i = 0; i < 3; i++) {
        p.n_in[i] = n_in[i];
        p.in[i] = values(n_in[i]);
        fill(&random, p.in[i], n_in[i]);
    }
    p.before = values(n_in[0]);
    fill_distinct(&random, p.before, n_in[0]);
    p.g = values(n_out);
    fill(&random, p.g, n_out);
    p.y = values(n_out);
    return p;
}

static void problem_destroy(problem *p)
{
    free(p->before);
    for (size_t i = 0; i < 3; i++)
        free(p->in[i]);
    free(p->g);
    free(p->y);
}

static double objective(void *argument)
{
    problem *p = argument;
    for (size_t i = 0; i < p->n_in[0]; i++)
        p->in[0][i] = reference_activate(p->input_activation, p->before[i]);
    const reference_args args = {.in = {p->in[0], p->in[1], p->in[2]}, .out = {p->y}};
    reference_run(&p->forward, p->n_samples, &args);
    double sum = 0.0;
    for (size_t i = 0; i < p->n_out; i++)
        sum += p->g[i] * p->y[i];
    return sum;
}

/* dL/dinput */
static void differences(problem *p, size_t input, double *out)
{
    double *variable = input == 0 ? p->before : p->in[input];
    central_differences(objective, p, 1e-5, variable, p->n_in[input], out);
}

static const double tolerance = 2e-8;

/* Compares backward's output with the differences by `input`; also that accumulating adds. */
static void compare(test *t, problem *p, const dpt_op_desc *backward, const double *const in[3],
                    size_t output, size_t input, size_t n_other)
{
    const size_t n = p->n_in[input];
    double *numeric = values(n), *analytic = values(n), *other = values(n_other);
    differences(p, input, numeric);
    reference_args args = {.in = {in[0], in[1], in[2]}};
    args.out[output] = analytic;
    args.out[1 - output] = other;
    reference_run(backward, p->n_samples, &args);
    if (!CHECK(worst(analytic, numeric, n) <= tolerance)) {
        FAIL("input %zu: off by %.3g of the largest gradient", input, worst(analytic, numeric, n));
    }
    /* The check itself must notice a single wrong element. */
    analytic[n / 2] += 1e-6 * fmax(1.0, fabs(analytic[n / 2])) * (double)n;
    CHECK(!(worst(analytic, numeric, n) <= tolerance));
    free(numeric);
    free(analytic);
    free(other);
}

/* ---- Convolutions ---------------------------------------------------------------------------- */

static size_t conv_extent(size_t in, size_t pad, size_t dilation, size_t kernel, size_t stride)
{
    return (in + 2 * pad - dilation * (kernel - 1) - 1) / stride + 1;
}

static void check_conv(test *t, dpt_conv2d_desc d)
{
    const size_t n = 2;
    d.out_h = conv_extent(d.in_h, d.pad_h, d.dilation_h, d.kernel_h, d.stride_h);
    d.out_w = conv_extent(d.in_w, d.pad_w, d.dilation_w, d.kernel_w, d.stride_w);
    const dpt_op_desc forward = {.kind = DPT_OP_CONV2D_FORWARD, .u.conv2d = d};
    const dpt_op_desc data = {.kind = DPT_OP_CONV2D_BACKWARD_DATA, .u.conv2d = d};
    const dpt_op_desc weights = {.kind = DPT_OP_CONV2D_BACKWARD_WEIGHTS, .u.conv2d = d};
    const size_t n_in[3] = {
        n * d.in_h * d.in_w * d.in_channels,
        d.out_channels * d.kernel_h * d.kernel_w * (d.in_channels / d.groups),
        d.has_bias ? d.out_channels : 0,
    };
    problem p = problem_create(&forward, n, d.input_activation, n_in,
                               n * d.out_h * d.out_w * d.out_channels, 11 + d.kernel_h);
    compare(t, &p, &data, (const double *const[3]){p.g, p.in[1], p.in[0]}, 0, 0, 0);
    compare(t, &p, &weights, (const double *const[3]){p.g, p.in[0]}, 0, 1, n_in[2]);
    if (d.has_bias) {
        compare(t, &p, &weights, (const double *const[3]){p.g, p.in[0]}, 1, 2, n_in[1]);
    }
    problem_destroy(&p);
}

/* Defaults first; a case overrides what it is about. */
#define CONV(h, w, c, o, kh, kw, ...)                                                              \
    {                                                                                              \
        .in_h = h, .in_w = w, .in_channels = c, .out_channels = o, .kernel_h = kh, .kernel_w = kw, \
        .stride_h = 1, .stride_w = 1, .dilation_h = 1, .dilation_w = 1, .groups = 1,               \
        .has_bias = true, __VA_ARGS__                                                              \
    }

static void conv_gradients(test *t)
{
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Woverride-init"
#ifdef __clang__
#pragma clang diagnostic ignored "-Winitializer-overrides"
#endif
    static const dpt_conv2d_desc cases[] = {
        CONV(5, 4, 3, 2, 3, 3, .pad_h = 1, .pad_w = 1),
        CONV(5, 4, 3, 2, 3, 2, .has_bias = false),
        CONV(1, 1, 2, 3, 1, 1, .pad_h = 0),
        CONV(7, 6, 2, 2, 3, 3, .stride_h = 2, .stride_w = 3, .pad_h = 1, .pad_w = 2),
        CONV(7, 8, 2, 2, 3, 2, .dilation_h = 2, .dilation_w = 3, .pad_h = 2),
        CONV(5, 5, 4, 6, 3, 3, .groups = 2, .pad_h = 1),
        CONV(5, 5, 3, 3, 2, 2, .groups = 3, .stride_h = 2, .input_activation = DPT_ACT_RELU),
        CONV(4, 4, 2, 3, 3, 3, .pad_h = 1, .input_activation = DPT_ACT_TANH),
        CONV(4, 4, 2, 3, 3, 3, .pad_w = 1, .input_activation = DPT_ACT_SIGMOID),
    };
#pragma GCC diagnostic pop
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_conv(t, cases[i]);
}

/* ---- The other operators with a gradient ----------------------------------------------------- */

static void linear_gradients(test *t)
{
    static const dpt_activation masks[] = {DPT_ACT_NONE, DPT_ACT_RELU, DPT_ACT_TANH,
                                           DPT_ACT_SIGMOID};
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        const dpt_linear_desc d = {
            .in = 5, .out = 4, .has_bias = true, .input_activation = masks[i]};
        const dpt_op_desc forward = {.kind = DPT_OP_LINEAR_FORWARD, .u.linear = d};
        const dpt_op_desc data = {.kind = DPT_OP_LINEAR_BACKWARD_DATA, .u.linear = d};
        const dpt_op_desc weights = {.kind = DPT_OP_LINEAR_BACKWARD_WEIGHTS, .u.linear = d};
        problem p = problem_create(&forward, 3, masks[i], (const size_t[3]){15, 20, 4}, 12, 31 + i);
        compare(t, &p, &data, (const double *const[3]){p.g, p.in[1], p.in[0]}, 0, 0, 0);
        compare(t, &p, &weights, (const double *const[3]){p.g, p.in[0]}, 0, 1, 4);
        compare(t, &p, &weights, (const double *const[3]){p.g, p.in[0]}, 1, 2, 20);
        problem_destroy(&p);
    }
}

static void check_pool(test *t, dpt_pool2d_desc d)
{
    const size_t n = 2;
    d.out_h = conv_extent(d.in_h, d.pad_h, 1, d.kernel_h, d.stride_h);
    d.out_w = conv_extent(d.in_w, d.pad_w, 1, d.kernel_w, d.stride_w);
    const dpt_op_desc forward = {.kind = DPT_OP_POOL2D_FORWARD, .u.pool2d = d};
    const dpt_op_desc backward = {.kind = DPT_OP_POOL2D_BACKWARD, .u.pool2d = d};
    problem p = problem_create(&forward, n, d.input_activation,
                               (const size_t[3]){n * d.in_h * d.in_w * d.channels, 0, 0},
                               n * d.out_h * d.out_w * d.channels, 41 + d.kernel_h);
    (void)objective(&p);
    compare(t, &p, &backward, (const double *const[3]){p.g, p.in[0]}, 0, 0, 0);
    problem_destroy(&p);
}

static void pool_gradients(test *t)
{
    for (int kind = 0; kind < 2; kind++) {
        const dpt_pool_kind k = kind == 0 ? DPT_POOL_MAX : DPT_POOL_AVERAGE;
        check_pool(t, (dpt_pool2d_desc){.kind = k,
                                        .in_h = 6,
                                        .in_w = 4,
                                        .channels = 3,
                                        .kernel_h = 2,
                                        .kernel_w = 2,
                                        .stride_h = 2,
                                        .stride_w = 2});
        check_pool(t, (dpt_pool2d_desc){.kind = k,
                                        .in_h = 7,
                                        .in_w = 5,
                                        .channels = 2,
                                        .kernel_h = 3,
                                        .kernel_w = 2,
                                        .stride_h = 2,
                                        .stride_w = 1,
                                        .pad_h = 1,
                                        .pad_w = 1,
                                        .input_activation = DPT_ACT_TANH});
        check_pool(t, (dpt_pool2d_desc){.kind = k,
                                        .in_h = 5,
                                        .in_w = 5,
                                        .channels = 2,
                                        .kernel_h = 3,
                                        .kernel_w = 3,
                                        .stride_h = 1,
                                        .stride_w = 2,
                                        .pad_h = 2,
                                        .input_activation = DPT_ACT_SIGMOID});
    }
}

static void activation_gradients(test *t)
{
    static const dpt_activation kinds[] = {
#define ACTIVATION_OF(name, value, derivative, formula) DPT_ACT_##name,
        DPT_ACTIVATION_LIST(ACTIVATION_OF)
#undef ACTIVATION_OF
    };
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        const dpt_activation_desc d = {.kind = kinds[i], .count = 13};
        const dpt_op_desc forward = {.kind = DPT_OP_ACTIVATION_FORWARD, .u.activation = d};
        const dpt_op_desc backward = {.kind = DPT_OP_ACTIVATION_BACKWARD, .u.activation = d};
        problem p =
            problem_create(&forward, 3, DPT_ACT_NONE, (const size_t[3]){39, 0, 0}, 39, 51 + i);
        const double *y = dpt_activation_fuses(kinds[i]) ? p.y : p.in[0];
        compare(t, &p, &backward, (const double *const[3]){p.g, y}, 0, 0, 0);
        problem_destroy(&p);
    }
}

/* Here the objective is the loss itself, whose gradient is one of the operator's outputs: the sum
   over the samples, divided by a global batch that is larger than this share. */
typedef struct loss_problem {
    dpt_op_desc loss;
    size_t n;
    reference_args args;
} loss_problem;

static double loss_objective(void *argument)
{
    const loss_problem *p = argument;
    double sum = 0.0;
    reference_run(&p->loss, p->n, &p->args);
    for (size_t i = 0; i < p->n; i++)
        sum += p->args.out[0][2 * i];
    return sum * p->args.inv_batch;
}

/* x (n,each) is differentiated; `other` is the second input. */
static void check_loss(test *t, const dpt_op_desc *loss, dpt_op_kind gradient, size_t n,
                       size_t each, double *x, const double *other)
{
    double *result = values(2 * n), *analytic = values(n * each), *numeric = values(n * each);
    loss_problem p = {
        .loss = *loss,
        .n = n,
        .args = {.in = {x, other}, .out = {result, analytic}, .inv_batch = 1.0 / 9.0}};
    const dpt_op_desc backward = {.kind = gradient, .u = loss->u};
    reference_run(&backward, n, &p.args);
    central_differences(loss_objective, &p, 1e-5, x, n * each, numeric);
    CHECK(worst(analytic, numeric, n * each) <= tolerance);
    analytic[3] += 1e-6;
    CHECK(!(worst(analytic, numeric, n * each) <= tolerance));
    free(result);
    free(analytic);
    free(numeric);
}

static void softmax_gradient(test *t)
{
    enum { N = 4, CLASSES = 7 };
    static const float smoothings[] = {0.0f, 0.1f, 0.75f};
    test_random random = {61};
    double logits[N * CLASSES];
    const double label[N] = {0, 6, 3, 3};
    for (size_t i = 0; i < sizeof smoothings / sizeof *smoothings; i++) {
        const dpt_op_desc loss = {.kind = DPT_OP_SOFTMAX_XENT,
                                  .u.softmax = {.classes = CLASSES, .smoothing = smoothings[i]}};
        fill(&random, logits, N * CLASSES);
        check_loss(t, &loss, DPT_OP_SOFTMAX_XENT_GRADIENT, N, CLASSES, logits, label);
    }
}

static void squared_error_gradient(test *t)
{
    enum { N = 3, COUNT = 5 };
    test_random random = {62};
    double y[N * COUNT], target[N * COUNT];
    const dpt_op_desc loss = {.kind = DPT_OP_SQUARED_ERROR, .u.squared_error = {.count = COUNT}};
    fill(&random, y, N * COUNT);
    fill(&random, target, N * COUNT);
    check_loss(t, &loss, DPT_OP_SQUARED_ERROR_GRADIENT, N, COUNT, y, target);
}

/* ---- A small network ------------------------------------------------------------------------- */

/* 6x6x2 -> conv 3x3, 4, ReLU -> max pool 2 -> conv 3x3 pad 1, 3, tanh -> linear 5 -> loss. */
enum { NET_N = 3, NET_PARAMETERS = 6 };

typedef struct network {
    dpt_op_desc conv1, pool, conv2, fc, xent;
    double x[NET_N * 72], label[NET_N];
    double *w[NET_PARAMETERS], *dw[NET_PARAMETERS];
    double a1[NET_N * 64], a2[NET_N * 16], a3[NET_N * 12], logits[NET_N * 5], result[NET_N * 2];
    double d1[NET_N * 64], d2[NET_N * 16], d3[NET_N * 12], dlogits[NET_N * 5];
} network;

static const size_t network_sizes[NET_PARAMETERS] = {72, 4, 108, 3, 60, 5};

static double network_loss(void *argument)
{
    network *net = argument;
    const reference_args conv1 = {.in = {net->x, net->w[0], net->w[1]}, .out = {net->a1}};
    const reference_args pool = {.in = {net->a1}, .out = {net->a2}};
    const reference_args conv2 = {.in = {net->a2, net->w[2], net->w[3]}, .out = {net->a3}};
    const reference_args fc = {.in = {net->a3, net->w[4], net->w[5]}, .out = {net->logits}};
    const reference_args xent = {.in = {net->logits, net->label},
                                 .out = {net->result, net->dlogits},
                                 .inv_batch = 1.0 / NET_N};
    reference_run(&net->conv1, NET_N, &conv1);
    reference_run(&net->pool, NET_N, &pool);
    reference_run(&net->conv2, NET_N, &conv2);
    reference_run(&net->fc, NET_N, &fc);
    reference_run(&net->xent, NET_N, &xent);
    double sum = 0.0;
    for (size_t i = 0; i < NET_N; i++)
        sum += net->result[2 * i];
    return sum / NET_N;
}

static void network_backward(network *net)
{
    dpt_op_desc op = net->fc;
    op.kind = DPT_OP_LINEAR_BACKWARD_WEIGHTS;
    reference_run(
        &op, NET_N,
        &(reference_args){.in = {net->dlogits, net->a3}, .out = {net->dw[4], net->dw[5]}});
    op.kind = DPT_OP_LINEAR_BACKWARD_DATA;
    reference_run(&op, NET_N,
                  &(reference_args){.in = {net->dlogits, net->w[4], net->a3}, .out = {net->d3}});
    op = net->conv2;
    op.kind = DPT_OP_CONV2D_BACKWARD_WEIGHTS;
    reference_run(&op, NET_N,
                  &(reference_args){.in = {net->d3, net->a2}, .out = {net->dw[2], net->dw[3]}});
    op.kind = DPT_OP_CONV2D_BACKWARD_DATA;
    reference_run(&op, NET_N, &(reference_args){.in = {net->d3, net->w[2]}, .out = {net->d2}});
    op = net->pool;
    op.kind = DPT_OP_POOL2D_BACKWARD;
    reference_run(&op, NET_N, &(reference_args){.in = {net->d2, net->a1}, .out = {net->d1}});
    op = net->conv1;
    op.kind = DPT_OP_CONV2D_BACKWARD_WEIGHTS;
    reference_run(&op, NET_N,
                  &(reference_args){.in = {net->d1, net->x}, .out = {net->dw[0], net->dw[1]}});
}

static void network_init(network *net)
{
    test_random random = {71};
    memset(net, 0, sizeof *net);
    net->conv1 = (dpt_op_desc){.kind = DPT_OP_CONV2D_FORWARD,
                               .u.conv2d = {.in_h = 6,
                                            .in_w = 6,
                                            .in_channels = 2,
                                            .out_h = 4,
                                            .out_w = 4,
                                            .out_channels = 4,
                                            .kernel_h = 3,
                                            .kernel_w = 3,
                                            .stride_h = 1,
                                            .stride_w = 1,
                                            .dilation_h = 1,
                                            .dilation_w = 1,
                                            .groups = 1,
                                            .has_bias = true,
                                            .activation = DPT_ACT_RELU}};
    net->pool = (dpt_op_desc){.kind = DPT_OP_POOL2D_FORWARD,
                              .u.pool2d = {.kind = DPT_POOL_MAX,
                                           .in_h = 4,
                                           .in_w = 4,
                                           .channels = 4,
                                           .out_h = 2,
                                           .out_w = 2,
                                           .kernel_h = 2,
                                           .kernel_w = 2,
                                           .stride_h = 2,
                                           .stride_w = 2,
                                           .input_activation = DPT_ACT_RELU}};
    net->conv2 = (dpt_op_desc){.kind = DPT_OP_CONV2D_FORWARD,
                               .u.conv2d = {.in_h = 2,
                                            .in_w = 2,
                                            .in_channels = 4,
                                            .out_h = 2,
                                            .out_w = 2,
                                            .out_channels = 3,
                                            .kernel_h = 3,
                                            .kernel_w = 3,
                                            .stride_h = 1,
                                            .stride_w = 1,
                                            .pad_h = 1,
                                            .pad_w = 1,
                                            .dilation_h = 1,
                                            .dilation_w = 1,
                                            .groups = 1,
                                            .has_bias = true,
                                            .activation = DPT_ACT_TANH}};
    net->fc = (dpt_op_desc){
        .kind = DPT_OP_LINEAR_FORWARD,
        .u.linear = {.in = 12, .out = 5, .has_bias = true, .input_activation = DPT_ACT_TANH}};
    net->xent = (dpt_op_desc){.kind = DPT_OP_SOFTMAX_XENT_GRADIENT, .u.softmax = {.classes = 5}};
    fill(&random, net->x, NET_N * 72);
    for (size_t i = 0; i < NET_N; i++)
        net->label[i] = (double)test_random_below(&random, 5);
    for (size_t i = 0; i < NET_PARAMETERS; i++) {
        net->w[i] = values(network_sizes[i]);
        net->dw[i] = values(network_sizes[i]);
        fill(&random, net->w[i], network_sizes[i]);
    }
}

static void network_gradient(test *t)
{
    network *net = malloc(sizeof *net);
    REQUIRE(net);
    network_init(net);
    (void)network_loss(net);
    network_backward(net);
    for (size_t i = 0; i < NET_PARAMETERS; i++) {
        double *numeric = values(network_sizes[i]);
        central_differences(network_loss, net, 1e-6, net->w[i], network_sizes[i], numeric);
        if (!CHECK(worst(net->dw[i], numeric, network_sizes[i]) <= 1e-7)) {
            FAIL("parameter %zu: off by %.3g", i, worst(net->dw[i], numeric, network_sizes[i]));
        }
        free(numeric);
    }
    for (size_t i = 0; i < NET_PARAMETERS; i++) {
        free(net->w[i]);
        free(net->dw[i]);
    }
    free(net);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"conv2d", conv_gradients},    {"linear", linear_gradients},
        {"pool2d", pool_gradients},    {"activation", activation_gradients},
        {"softmax", softmax_gradient}, {"squared_error", squared_error_gradient},
        {"network", network_gradient},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
