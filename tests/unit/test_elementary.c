/* Tests elementary functions (base/elementary.h): their errors, special values, and hashes of their
   bits, which are the same for every compiler, processor and C library. */
#include "base/elementary.h"
#include "base/random.h"
#include "harness.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { COUNT = 200000 };

/* The error of a value in units in the last place of the right one. */
static double error_of(double value, long double right)
{
    const double size = fabs((double)right);
    if (value == (double)right) return 0;
    return (double)(fabsl((long double)value - right) / (nextafter(size, INFINITY) - size));
}

/* Uniform in [low, high). */
static double between(test_random *random, double low, double high)
{
    return low + (high - low) * test_random_uniform(random);
}

/* Where long double is double, a reference may be wrong by a unit of its own. */
static const double limit = LDBL_MANT_DIG > 60 ? 2 : 3;

static void errors_are_small(test *t)
{
    static const long double tau = 6.283185307179586476925286766559005768L;
    test_random random = {11};
    double of_exp = 0, of_log = 0, of_cos = 0;
    for (size_t i = 0; i < COUNT; i++) {
        const double x = between(&random, -708, 709);
        of_exp = fmax(of_exp, error_of(dpti_exp(x), expl((long double)x)));
        const double y = between(&random, 0, i % 2 > 0 ? 2 : 1e9);
        of_log = fmax(of_log, error_of(dpti_log(y), logl((long double)y)));
        const double turns = between(&random, -1.5, 1.5);
        if (fabs(remainder(turns, 0.5)) > 0.249) continue; /* near 0 the reference is not exact */
        of_cos = fmax(of_cos, error_of(dpti_cos_turns(turns), cosl(tau * (long double)turns)));
    }
    CHECK_NEAR(of_exp, 0, limit);
    CHECK_NEAR(of_log, 0, limit);
    CHECK_NEAR(of_cos, 0, limit);
}

/* Near a quarter turn the cosine is a sine, as small as its argument. */
static void small_cosines(test *t)
{
    for (int n = 10; n < 52; n++) {
        const double away = ldexp(1, -n), right = 6.283185307179586 * away;
        CHECK_NEAR(dpti_cos_turns(0.25 - away) / right, 1, 5 * right * right + 1e-15);
        CHECK_NEAR(dpti_cos_turns(0.25 + away) / right, -1, 5 * right * right + 1e-15);
    }
    for (int quarter = -9; quarter < 9; quarter++) {
        const double values[] = {1, 0, -1, 0};
        CHECK(dpti_cos_turns(quarter / 4.0) == values[(quarter + 12) % 4]);
    }
}

static void special_values(test *t)
{
    CHECK(dpti_exp(0) == 1 && dpti_exp(-INFINITY) == 0 && dpti_exp(INFINITY) == INFINITY);
    CHECK(dpti_exp(800) == INFINITY && dpti_exp(-800) == 0 && isnan(dpti_exp(NAN)));
    CHECK(dpti_exp(-745) == 0x1p-1074 && dpti_exp(709.7) < DBL_MAX);
    CHECK(dpti_log(1) == 0 && dpti_log(0) == -INFINITY && dpti_log(INFINITY) == INFINITY);
    CHECK(isnan(dpti_log(-1)) && isnan(dpti_log(NAN)));
    CHECK_NEAR(dpti_log(0x1p-1074), -1074 * 0.6931471805599453, 1e-12);
    CHECK(isnan(dpti_cos_turns(INFINITY)) && isnan(dpti_cos_turns(NAN)));
    CHECK(dpti_cos_turns(0x1p1000) == 1);
}

static void powers(test *t)
{
    static const double numbers[] = {0, 1, 0.5, 2, 3, 8, 1e300, 1e-300, INFINITY, NAN};
    const int n = 2 * (int)(sizeof numbers / sizeof *numbers);
    test_random random = {12};
    for (int i = 0; i < n * n; i++) {
        const double a = (i % 2 > 0 ? -1 : 1) * numbers[i % n / 2];
        const double b = (i / n % 2 > 0 ? -1 : 1) * numbers[i / n / 2];
        const double is = dpti_raise(a, b), right = pow(a, b);
        const double error = fabs(is - right);
        if (!(is == right || (isnan(is) && isnan(right)) || error <= 1e-12 * fabs(right)))
            FAIL("%g to the %g is %g, not %g", a, b, is, right);
    }
    for (size_t i = 0; i < COUNT; i++) {
        const double a = dpti_exp(between(&random, -50, 50)), b = between(&random, -13, 13);
        if (!(fabs(dpti_raise(a, b) / pow(a, b) - 1) < 1e-12)) FAIL("%a to the %a", a, b);
    }
    CHECK(dpti_raise(3, 33) == 5559060566555523 && dpti_raise(-3, 33) == -5559060566555523);
    CHECK(dpti_raise(-2, 3) == -8 && dpti_raise(7, -1) == 1.0 / 7 &&
          isnan(dpti_raise(-8, 1.0 / 3)));
}

static uint64_t add_bits(uint64_t hash, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (hash ^ bits) * 0x100000001b3u;
}

static void check_hash(test *t, const char *of, uint64_t hash, uint64_t known)
{
    if (!CHECK(hash == known)) FAIL("the hash of dpti_%s is 0x%016" PRIx64, of, hash);
}

/* The hashes were the same for gcc and clang, with and without optimisation and multiply-adds. */
static void bits_are_known(test *t)
{
    uint64_t exps = 1, logs = 1, cosines = 1, powers_of = 1, normals = 1;
    dpti_random random;
    dpti_random_init(&random, 1, DPTI_RANDOM_INIT, 0);
    for (size_t i = 0; i < COUNT; i++) {
        const double u = (double)dpti_random_u32(&random) * 0x1p-32;
        exps = add_bits(exps, dpti_exp(1500 * (u - 0.5)));
        logs = add_bits(logs, dpti_log(u + 0x1p-32));
        cosines = add_bits(cosines, dpti_cos_turns(u));
        powers_of = add_bits(powers_of, dpti_raise(10 * u, 20 * (0.5 - u)));
        normals = add_bits(normals, (double)dpti_random_normal(&random));
    }
    check_hash(t, "exp", exps, 0x352ebd0fee3d3417);
    check_hash(t, "log", logs, 0xdd6388c7e79f0ab8);
    check_hash(t, "cos_turns", cosines, 0xaab207ecc69fc4a4);
    check_hash(t, "raise", powers_of, 0x20ccba85e023ab0a);
    check_hash(t, "random_normal", normals, 0xfbca195afeb1f501);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {{"errors are small", errors_are_small},
                                      {"small cosines", small_cosines},
                                      {"special values", special_values},
                                      {"powers", powers},
                                      {"bits are known", bits_are_known}};
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
