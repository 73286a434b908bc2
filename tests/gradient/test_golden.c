/* Compares the reference with PyTorch: tests/golden/operators.txt, made by make_operators.py. */
#include "harness.h"
#include "reference/reference.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Both are in double precision. */
static const double tolerance = 1e-12;

enum { MOST = 64 }; /* numbers in a line */

typedef struct golden {
    FILE *file;
    test *t;
} golden;

static double number(golden *g)
{
    double value = NAN;
    if (fscanf(g->file, "%lf", &value) != 1) value = NAN;
    return value;
}

static float constant(golden *g)
{
    const double value = number(g);
    test *t = g->t;
    CHECK((double)(float)value == value);
    return (float)value;
}

static size_t size(golden *g)
{
    const double value = number(g);
    return value >= 0 && value <= MOST ? (size_t)value : 0;
}

static void numbers(golden *g, double *out, size_t n)
{
    for (size_t i = 0; i < n && i < MOST; i++)
        out[i] = number(g);
}

/* The next numbers of the file are these. */
static void matches(golden *g, const char *what, const double *actual, size_t n)
{
    test *t = g->t;
    CHECK(n > 0 && n <= MOST);
    for (size_t i = 0; i < n; i++) {
        const double expected = number(g);
        if (!CHECK_NEAR(actual[i], expected, tolerance * fmax(1.0, fabs(expected))))
            FAIL("%s %zu", what, i);
    }
}

static void adamw(golden *g)
{
    double gradient[MOST], w[MOST], m[MOST] = {0}, v[MOST] = {0};
    dpt_adamw_desc d = {.count = size(g)};
    d.decay_count = size(g);
    d.beta1 = constant(g);
    d.beta2 = constant(g);
    d.epsilon = constant(g);
    d.weight_decay = constant(g);
    reference_args args = {.in = {gradient}, .out = {w, m, v}, .lr = number(g)};
    const dpt_op_desc desc = {.kind = DPT_OP_ADAMW, .u.adamw = d};
    const size_t steps = size(g);
    numbers(g, w, d.count);
    for (size_t step = 1; step <= steps; step++) {
        numbers(g, gradient, d.count);
        args.adam_scale_m = 1.0 / (1.0 - pow((double)d.beta1, (double)step));
        args.adam_scale_v = 1.0 / sqrt(1.0 - pow((double)d.beta2, (double)step));
        reference_run(&desc, 1, &args);
        matches(g, "w", w, d.count);
        matches(g, "m", m, d.count);
        matches(g, "v", v, d.count);
    }
}

static void clip_norm(golden *g)
{
    double gradient[MOST];
    dpt_clip_norm_desc d = {.count = size(g)};
    d.max_norm = constant(g);
    const dpt_op_desc desc = {.kind = DPT_OP_CLIP_NORM, .u.clip_norm = d};
    numbers(g, gradient, d.count);
    reference_run(&desc, 1, &(reference_args){.out = {gradient}});
    matches(g, "gradient", gradient, d.count);
}

/* A loss with two inputs: the losses of the samples, and the gradient of their mean. */
static void loss(golden *g, const dpt_op_desc *desc, size_t n, const double *const in[2],
                 size_t each)
{
    double result[2 * MOST], losses[MOST], gradient[MOST];
    reference_run(desc, n,
                  &(reference_args){.in = {in[0], in[1]},
                                    .out = {result, gradient},
                                    .inv_batch = 1.0 / (double)n});
    for (size_t i = 0; i < n; i++)
        losses[i] = result[2 * i];
    matches(g, "loss", losses, n);
    matches(g, "gradient", gradient, n * each);
}

static void softmax_xent(golden *g)
{
    double label[MOST], logits[MOST];
    dpt_softmax_desc d = {.classes = size(g)};
    d.smoothing = constant(g);
    const size_t n = size(g);
    const dpt_op_desc desc = {.kind = DPT_OP_SOFTMAX_XENT_GRADIENT, .u.softmax = d};
    numbers(g, label, n);
    numbers(g, logits, n * d.classes);
    loss(g, &desc, n, (const double *const[2]){logits, label}, d.classes);
}

static void squared_error(golden *g)
{
    double y[MOST], target[MOST];
    const size_t count = size(g);
    const size_t n = size(g);
    const dpt_op_desc desc = {.kind = DPT_OP_SQUARED_ERROR_GRADIENT,
                              .u.squared_error = {.count = count}};
    numbers(g, y, n * count);
    numbers(g, target, n * count);
    loss(g, &desc, n, (const double *const[2]){y, target}, count);
}

static void check_kind(test *t, const char *kind, void (*check)(golden *))
{
    golden g = {.file = test_open("golden/operators.txt"), .t = t};
    char line[8192], word[32];
    size_t n_cases = 0;
    REQUIRE(g.file);
    for (long at = ftell(g.file); fgets(line, sizeof line, g.file); at = ftell(g.file)) {
        if (sscanf(line, "%31s", word) != 1 || strcmp(word, kind) != 0) continue;
        if (fseek(g.file, at + (long)strlen(kind), SEEK_SET) != 0) break;
        check(&g);
        n_cases++;
    }
    fclose(g.file);
    CHECK(n_cases > 0);
}

static void adamws(test *t)
{
    check_kind(t, "adamw", adamw);
}

static void clip_norms(test *t)
{
    check_kind(t, "clip_norm", clip_norm);
}

static void softmax_xents(test *t)
{
    check_kind(t, "softmax_xent", softmax_xent);
}

static void squared_errors(test *t)
{
    check_kind(t, "squared_error", squared_error);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"adamw", adamws},
        {"clip_norm", clip_norms},
        {"softmax_xent", softmax_xents},
        {"squared_error", squared_errors},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
