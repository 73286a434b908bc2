/* Tests the functions of backends/cpu/kernels/functions.h against the mathematical library in
   double precision, and those of vec_functions.h against the former. */
#include "functions.h"
#include "harness.h"
#include "vec_functions.h"

#include <math.h>

/* Every so many float32 are tried. */
enum { STRIDE = 2003 };

typedef struct function {
    const char *name;
    float (*computed)(float);
    double (*exact)(double);
    float low, high; /* where the error is bounded */
    double most;     /* units in the last place */
} function;

static double logistic(double x)
{
    return 1.0 / (1.0 + exp(-x));
}

static float bell_of(float x)
{
    return function_bell(x);
}

static double exact_bell(double x)
{
    return exp(-0.5 * x * x);
}

static float normal_of(float x)
{
    return function_normal(x, function_bell(x));
}

static double exact_normal(double x)
{
    return 0.5 * erfc(-x / sqrt(2.0));
}

static const function functions[] = {
    {"exp", function_exp, exp, -110.0f, 110.0f, 1.0},
    {"erf", function_erf, erf, -110.0f, 110.0f, 1.4},
    {"tanh", function_tanh, tanh, -110.0f, 110.0f, 1.4},
    {"sigmoid", function_sigmoid, logistic, -88.0f, 110.0f, 2.5},
    {"bell", bell_of, exact_bell, -13.0f, 13.0f, 2.0},
    {"normal", normal_of, exact_normal, -13.0f, 110.0f, 6.5},
};

enum { N_FUNCTIONS = sizeof functions / sizeof *functions };

/* The distance in units of the last place of the exact value. */
static double error_of(float computed, double exact)
{
    int exponent = 0;
    if (isinf((float)exact)) return isinf(computed) ? 0 : INFINITY;
    (void)frexp(exact, &exponent);
    const double unit = ldexp(1, exponent - 24), least = ldexp(1, -149);
    return fabs((double)computed - exact) / (unit < least ? least : unit);
}

static void errors_are_small(test *t)
{
    for (size_t k = 0; k < N_FUNCTIONS; k++) {
        const function *f = &functions[k];
        double worst = 0;
        float at = 0;
        for (uint64_t bits = 0; bits <= UINT32_MAX; bits += STRIDE) {
            const float x = function_from_bits((uint32_t)bits);
            if (!(x >= f->low && x <= f->high)) continue;
            const double error = error_of(f->computed(x), f->exact((double)x));
            if (error > worst) at = x;
            if (error > worst) worst = error;
        }
        if (!CHECK(worst > 0.5 && worst <= f->most))
            FAIL("%s: %g units in the last place at %a", f->name, worst, (double)at);
    }
}

static void limits_are_exact(test *t)
{
    for (size_t k = 0; k < N_FUNCTIONS; k++) {
        const function *f = &functions[k];
        CHECK(isnan(f->computed(NAN)));
        CHECK(f->computed(INFINITY) == (float)f->exact(INFINITY));
        CHECK(f->computed(-INFINITY) == (float)f->exact(-INFINITY));
        CHECK(f->computed(0.0f) == (float)f->exact(0.0));
        CHECK(f->computed(1e30f) == (float)f->exact(1e30));
        CHECK(f->computed(-1e30f) == (float)f->exact(-1e30));
    }
    CHECK(function_exp(88.72f) < INFINITY);
    CHECK(function_exp(88.73f) == INFINITY);
    CHECK(function_exp(-103.9f) > 0.0f);
    CHECK(function_exp(-104.1f) == 0.0f);
}

/* Vectors hold the same bits as single numbers, wherever exp is not limited. */
static void vectors_are_equal(test *t)
{
    enum { N = VEC_MOST * LANES };
    for (uint64_t bits = 0; bits <= UINT32_MAX; bits += STRIDE * N / 4) {
        float x[N], sigmoid[N], tangent[N];
        vec of[VEC_MOST];
        for (size_t i = 0; i < N; i++)
            x[i] = function_from_bits((uint32_t)(bits + i * STRIDE / 4));
        memcpy(of, x, sizeof of);
        vec_sigmoid(of, VEC_MOST);
        memcpy(sigmoid, of, sizeof of);
        memcpy(of, x, sizeof of);
        vec_tanh(of, VEC_MOST);
        memcpy(tangent, of, sizeof of);
        for (size_t i = 0; i < N; i++) {
            const bool is_nan = isnan(x[i]), limited = fabsf(x[i]) > VEC_EXP_LIMIT;
            if (!is_nan && !limited) CHECK(sigmoid[i] == function_sigmoid(x[i]));
            if (!is_nan) CHECK(tangent[i] == function_tanh(x[i]));
            if (!is_nan && limited) CHECK(x[i] > 0 ? sigmoid[i] == 1.0f : sigmoid[i] < 1.3e-38f);
            if (!is_nan && limited) CHECK(sigmoid[i] >= 0x1p-126f);
            if (is_nan) CHECK(isnan(sigmoid[i]) && isnan(tangent[i]));
        }
    }
}

/* Odd functions, and neighbours of the places where two formulas meet. */
static void formulas_meet(test *t)
{
    CHECK(function_erf(-0.7f) == -function_erf(0.7f));
    CHECK(function_erf(-2.5f) == -function_erf(2.5f));
    CHECK(function_tanh(-0.3f) == -function_tanh(0.3f));
    CHECK(function_tanh(-3.0f) == -function_tanh(3.0f));
    CHECK(function_erf(nextafterf(1.0f, 0.0f)) <= function_erf(1.0f));
    CHECK(function_tanh(nextafterf(0.625f, 0.0f)) <= function_tanh(0.625f));
    CHECK(function_erf(4.0f) == 1.0f);
    CHECK(normal_of(nextafterf(0.0f, -1.0f)) <= normal_of(nextafterf(0.0f, 1.0f)));
    CHECK(normal_of(6.0f) == 1.0f);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"errors_are_small", errors_are_small},
        {"limits_are_exact", limits_are_exact},
        {"formulas_meet", formulas_meet},
        {"vectors_are_equal", vectors_are_equal},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
