/* Measures errors (measure.h). */
#include "measure.h"

#include <math.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 4096, MOST_THREADS = 64 };

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* ---- The mathematical library ---------------------------------------------------------------- */

/* Most float32 are so small that two or three terms of a series are nearer than a millionth of a
   unit, or so large that the function has reached its limit.  There the library is not asked, which
   takes most of the time. */
static bool is_small(double x)
{
    return fabs(x) < 0x1p-13;
}

static double reciprocal(double x)
{
    return 1.0 / x;
}

static double inverse_sqrt(double x)
{
    return 1.0 / sqrt(x);
}

static double exponential(double x)
{
    if (is_small(x)) return 1 + x + x * x / 2;
    if (x < -110) return 0;
    return x > 110 ? INFINITY : exp(x);
}

static double sine(double x)
{
    return is_small(x) ? x * (1 - x * x / 6) : sin(x);
}

static double cosine(double x)
{
    return is_small(x) ? 1 - x * x / 2 : cos(x);
}

static double tangent(double x)
{
    if (fabs(x) > 20) return copysign(1, x);
    return is_small(x) ? x * (1 - x * x / 3) : tanh(x);
}

static double error_function(double x)
{
    if (fabs(x) > 7) return copysign(1, x);
    return is_small(x) ? x * (1.1283791670955125739 - x * x * 0.37612638903183752464) : erf(x);
}

static double sigmoid(double x)
{
    if (is_small(x)) return 0.5 + x / 4;
    if (x < -110) return 0;
    return x > 40 ? 1 : 1 / (1 + exp(-x));
}

static double softplus(double x)
{
    if (is_small(x)) return 0.69314718055994530942 + x / 2 + x * x / 8;
    if (x < -110) return 0;
    if (x > 40) return x;
    return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x));
}

static double bell(double x)
{
    if (is_small(x)) return 1 - x * x / 2;
    return fabs(x) > 15 ? 0 : exp(-0.5 * x * x);
}

static double normal(double x)
{
    if (is_small(x)) return 0.5 + x * 0.39894228040143267794;
    if (x < -15) return 0;
    return x > 10 ? 1 : 0.5 * erfc(-x * 0.70710678118654752440);
}

static double (*const unary[N_FUNCTIONS])(double) = {
    [FUNCTION_reciprocal] = reciprocal,
    [FUNCTION_sqrt] = sqrt,
    [FUNCTION_built_sqrt] = sqrt,
    [FUNCTION_rsqrt] = inverse_sqrt,
    [FUNCTION_exp] = exponential,
    [FUNCTION_log] = log,
    [FUNCTION_sin] = sine,
    [FUNCTION_cos] = cosine,
    [FUNCTION_tanh] = tangent,
    [FUNCTION_erf] = error_function,
    [FUNCTION_sigmoid] = sigmoid,
    [FUNCTION_softplus] = softplus,
    [FUNCTION_bell] = bell,
    [FUNCTION_normal] = normal,
};

static double exact_value(int function, uint32_t a, uint32_t b)
{
    const double x = (double)float_of(a), y = (double)float_of(b);
    if (function == FUNCTION_power) return pow(x, y);
    return function >= FIRST_BINARY ? x / y : unary[function](x);
}

/* ---- Errors ---------------------------------------------------------------------------------- */

/* 1 / (the unit in the last place of float32 numbers near x) */
static double inverse_unit(double x)
{
    uint64_t bits;
    double result;
    memcpy(&bits, &x, sizeof bits);
    int exponent = (int)(bits >> 52 & 2047) - 1023;
    if (exponent < -126) exponent = -126;
    if (exponent > 127) exponent = 127;
    bits = (uint64_t)(1023 + 23 - exponent) << 52;
    memcpy(&result, &bits, sizeof result);
    return result;
}

static double error_between(uint32_t bits, double exact)
{
    double computed = (double)float_of(bits);
    if (isnan(exact)) return bits == 0x7fc00000u ? 0 : INFINITY;
    if (computed == 0 && !signbit(computed) != !signbit(exact)) return INFINITY;
    if (isinf(computed) && isinf(exact)) return computed == exact ? 0 : INFINITY;
    if (isinf(exact)) return INFINITY;
    if (isinf(computed)) { /* right from half a unit above the largest number on */
        computed = copysign(0x1p128 - 0x1p103, computed);
        if (fabs(exact) >= fabs(computed) && computed * exact > 0) return 0;
    }
    return fabs(computed - exact) * inverse_unit(exact);
}

double exact_error_of(int function, uint32_t a, uint32_t b, uint32_t computed)
{
    return error_between(computed, exact_value(function, a, b));
}

static void note(exact_error *sum, int function, const uint32_t *const arguments[2], size_t n)
{
    const uint32_t *a = arguments[0], *b = a + BLOCK, *y = arguments[1];
    for (size_t i = 0; i < n; i++) {
        const double error = exact_error_of(function, a[i], b[i], y[i]);
        if (!(error <= sum->worst)) {
            sum->worst = isnan(error) ? INFINITY : error;
            sum->a = a[i];
            sum->b = b[i];
        }
    }
    sum->n += n;
}

/* ---- Threads --------------------------------------------------------------------------------- */

/* Blocks first, first + n_threads, and so on. */
typedef struct share {
    const exact_variant *variant;
    int function;
    uint32_t stride; /* 0: pairs */
    uint64_t n;      /* arguments of all threads */
    size_t first, n_threads;
    exact_error error;
} share;

static void *measure_share(void *argument)
{
    share *s = argument;
    uint32_t in[2 * BLOCK] = {0}, out[BLOCK];
    const uint32_t *const arguments[2] = {in, out};
    for (uint64_t block = s->first; block * BLOCK < s->n; block += s->n_threads) {
        const uint64_t begin = block * BLOCK, left = s->n - begin;
        const size_t n = left < BLOCK ? (size_t)left : BLOCK;
        if (s->stride == 0) exact_pairs(s->function, block + 1000, n, in, in + BLOCK);
        for (size_t i = 0; s->stride != 0 && i < n; i++)
            in[i] = (uint32_t)((begin + i) * s->stride);
        s->variant->loops[s->function](in, in + BLOCK, out, n);
        note(&s->error, s->function, arguments, n);
    }
    return NULL;
}

static exact_error measure(const share *all)
{
    const long n_cores = sysconf(_SC_NPROCESSORS_ONLN);
    share shares[MOST_THREADS];
    pthread_t threads[MOST_THREADS];
    bool started[MOST_THREADS];
    const size_t n_threads = n_cores < 1              ? 1
                             : n_cores > MOST_THREADS ? MOST_THREADS
                                                      : (size_t)n_cores;
    exact_error error = {.worst = 0};
    for (size_t i = 0; i < n_threads; i++) {
        shares[i] = *all;
        shares[i].first = i;
        shares[i].n_threads = n_threads;
        started[i] = pthread_create(&threads[i], NULL, measure_share, &shares[i]) == 0;
        if (!started[i]) measure_share(&shares[i]);
    }
    for (size_t i = 0; i < n_threads; i++) {
        if (started[i]) pthread_join(threads[i], NULL);
        const exact_error part = shares[i].error;
        const uint64_t n = error.n + part.n;
        if (part.worst > error.worst) error = part;
        error.n = n;
    }
    return error;
}

exact_error exact_measure(const exact_variant *variant, int function, uint32_t stride)
{
    const share all = {.variant = variant,
                       .function = function,
                       .stride = stride,
                       .n = ((uint64_t)UINT32_MAX + stride) / stride};
    return measure(&all);
}

exact_error exact_measure_pairs(const exact_variant *variant, int function, uint64_t n)
{
    const share all = {.variant = variant, .function = function, .stride = 0, .n = n};
    return measure(&all);
}
