/* Tests the functions of backends/kernels/exact.h: their errors against the mathematical library in
   double precision, special values, and that all variants of the compiled source (exact/loops.h)
   give the same bits.

   By day the arguments are every so-many-th float32.  With $DPTRAIN_TEST_EVERY all 2^32 are tried,
   except in builds with sanitizers, and the largest errors are printed for docs/numerics.md. */
#include "exact/loops.h"
#include "exact/measure.h"
#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

/* STRIDE, STEP: odd, so that arguments have all last digits.  STEP arguments are compared between
   variants. */
enum { STRIDE = 3001, STEP = 40009, N_PAIRS = 400000, N_SOME = 120000 };

static bool tries_all(void)
{
    return EXACT_EVERY && getenv("DPTRAIN_TEST_EVERY") != NULL;
}

/* ---- Errors ---------------------------------------------------------------------------------- */

/* Units in the last place: a little more than the largest errors in docs/numerics.md.  0.5 is the
   error of correct rounding. */
static const double bounds[N_FUNCTIONS] = {
    [FUNCTION_reciprocal] = 0.50001, [FUNCTION_sqrt] = 0.50001,
    [FUNCTION_built_sqrt] = 0.50001, [FUNCTION_rsqrt] = 0.501,
    [FUNCTION_exp] = 0.78,           [FUNCTION_log] = 0.65,
    [FUNCTION_sin] = 0.75,           [FUNCTION_cos] = 0.75,
    [FUNCTION_tanh] = 0.65,          [FUNCTION_erf] = 0.8,
    [FUNCTION_sigmoid] = 0.8,        [FUNCTION_softplus] = 0.8,
    [FUNCTION_bell] = 0.8,           [FUNCTION_normal] = 0.95,
    [FUNCTION_divide] = 0.50001,     [FUNCTION_built_divide] = 0.50001,
    [FUNCTION_power] = 0.85,
};

static void errors_are_small(test *t)
{
    const bool all = tries_all();
    const exact_variant *fastest = exact_fastest();
    for (int f = 0; f < N_FUNCTIONS; f++) {
        const exact_error error =
            f < FIRST_BINARY ? exact_measure(fastest, f, all ? 1 : STRIDE)
                             : exact_measure_pairs(fastest, f, all ? 1000ull * N_PAIRS : N_PAIRS);
        if (!CHECK(error.n >= N_PAIRS && error.worst > 0.45 && error.worst <= bounds[f]))
            FAIL("%s: %g units in the last place at 0x%08x, 0x%08x", exact_names[f], error.worst,
                 error.a, error.b);
        printf("  %-12s %.4f at 0x%08x 0x%08x, of %llu\n", exact_names[f], error.worst, error.a,
               error.b, (unsigned long long)error.n);
    }
}

/* ---- Special values -------------------------------------------------------------------------- */

static const uint32_t special[] = {
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x007fffff, 0x807fffff, 0x00800000, 0x80800000,
    0x3f000000, 0xbf000000, 0x3f7fffff, 0xbf7fffff, 0x3f800000, 0xbf800000, 0x3f800001, 0xbf800001,
    0x40000000, 0xc0000000, 0x40400000, 0xc0400000, 0x40200000, 0xc0200000, 0x3fc00000, 0xbfc00000,
    0x42c80000, 0xc2c80000, 0x43160000, 0xc3160000, 0x4b7fffff, 0xcb7fffff, 0x4b800000, 0xcb800000,
    0x4b800001, 0xcb800001, 0x7149f2ca, 0xf149f2ca, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000,
    0x7fc00000, 0xffc00000, 0x7f800001, 0xff800001, 0x7fffffff, 0xffffffff, 0x1e3ce508, 0x9e3ce508,
};

enum { N_SPECIAL = sizeof special / sizeof *special };

/* At zeros, infinities, NaNs, the smallest and the largest numbers, and all pairs of these. */
static void limits_are_right(test *t)
{
    for (int f = 0; f < N_FUNCTIONS; f++) {
        for (size_t i = 0; i < N_SPECIAL * N_SPECIAL; i++) {
            const uint32_t a = special[i / N_SPECIAL], b = special[i % N_SPECIAL];
            uint32_t y = 1;
            exact_fastest()->loops[f](&a, &b, &y, 1);
            const double error = exact_error_of(f, a, b, y);
            if (!CHECK(error <= bounds[f]))
                FAIL("%s(0x%08x, 0x%08x) is 0x%08x", exact_names[f], a, b, y);
        }
    }
}

/* ---- The same bits --------------------------------------------------------------------------- */

typedef struct arguments {
    size_t n;
    uint32_t *a, *b, *y, *z; /* (n each); y and z are for results */
} arguments;

static bool begin(test *t, arguments *x)
{
    x->n = tries_all() ? (size_t)1 << 23 : N_SOME;
    x->a = malloc(4 * x->n * sizeof *x->a);
    x->b = x->a + x->n;
    x->y = x->b + x->n;
    x->z = x->y + x->n;
    return CHECK(x->a != NULL);
}

/* Of all sizes: the stride goes round more than once. */
static void fill(arguments *x, int function)
{
    for (size_t i = 0; i < x->n; i++) {
        x->a[i] = (uint32_t)i * STEP;
        x->b[i] = 0;
    }
    if (function >= FIRST_BINARY) exact_pairs(function, 1, x->n, x->a, x->b);
    for (size_t i = 0; i < N_SPECIAL * N_SPECIAL; i++) {
        x->a[i] = special[i / N_SPECIAL];
        x->b[i] = special[i % N_SPECIAL];
    }
}

static void evaluate(const exact_variant *variant, int function, const arguments *x, uint32_t *y)
{
    memset(y, 0x5a, x->n * sizeof *y);
    variant->loops[function](x->a, x->b, y, x->n);
}

static void compare(test *t, const arguments *x, const char *function, const char *what)
{
    for (size_t i = 0; i < x->n; i++) {
        if (x->y[i] == x->z[i]) continue;
        FAIL("%s(0x%08x, 0x%08x) is 0x%08x, and %s gives 0x%08x", function, x->a[i], x->b[i],
             x->y[i], what, x->z[i]);
        return;
    }
    CHECK(x->n > 0);
}

static void variants_are_equal(test *t)
{
    arguments x;
    const exact_variant *first = exact_variant_at(0), *other;
    REQUIRE(begin(t, &x));
    CHECK(exact_variant_at(3) != NULL);
    for (int f = 0; f < N_FUNCTIONS; f++) {
        fill(&x, f);
        evaluate(first, f, &x, x.y);
        for (size_t i = 1; (other = exact_variant_at(i)); i++) {
            evaluate(other, f, &x, x.z);
            compare(t, &x, exact_names[f], other->name);
        }
    }
    free(x.a);
}

/* The functions that integers build against the processor's instructions. */
static void building_is_dividing(test *t)
{
    static const int built[][2] = {{FUNCTION_divide, FUNCTION_built_divide},
                                   {FUNCTION_sqrt, FUNCTION_built_sqrt}};
    arguments x;
    REQUIRE(begin(t, &x));
    for (size_t k = 0; k < 2; k++) {
        fill(&x, built[k][0]);
        evaluate(exact_fastest(), built[k][0], &x, x.y);
        evaluate(exact_fastest(), built[k][1], &x, x.z);
        compare(t, &x, exact_names[built[k][0]], "integers");
    }
    free(x.a);
}

/* On a device that takes subnormal numbers for zero, and rounds to zero what would be one. */
static void flushing_changes_nothing(test *t)
{
#if defined(__x86_64__)
    enum { FLUSH_TO_ZERO = 1 << 15, DENORMALS_ARE_ZERO = 1 << 6 };
    arguments x;
    size_t n_variants = 0;
    const exact_variant *variant;
    REQUIRE(begin(t, &x));
    for (size_t i = 0; (variant = exact_variant_at(i)); i++) {
        if (!variant->builds_division) continue; /* its instructions would flush */
        n_variants++;
        for (int f = 0; f < N_FUNCTIONS; f++) {
            fill(&x, f);
            evaluate(variant, f, &x, x.y);
            const unsigned kept = _mm_getcsr();
            _mm_setcsr(kept | FLUSH_TO_ZERO | DENORMALS_ARE_ZERO);
            evaluate(variant, f, &x, x.z);
            _mm_setcsr(kept);
            compare(t, &x, exact_names[f], "a processor that flushes");
        }
    }
    CHECK(n_variants > 0);
    free(x.a);
#else
    SKIP("no way to make this processor flush");
#endif
}

/* ---- The same bits everywhere ---------------------------------------------------------------- */

/* Hashes of the results at N_SOME arguments, the same for every compiler and processor. */
static const uint64_t hashes[N_FUNCTIONS] = {
    [FUNCTION_reciprocal] = 0x23b6b0f20d511e4f, [FUNCTION_sqrt] = 0xaeb5ede84b35208b,
    [FUNCTION_built_sqrt] = 0xaeb5ede84b35208b, [FUNCTION_rsqrt] = 0x67a77e3391a682d5,
    [FUNCTION_exp] = 0x4c0308b318dc4baa,        [FUNCTION_log] = 0xcd59e6dc0df8d7fb,
    [FUNCTION_sin] = 0x907bf8758d87acf5,        [FUNCTION_cos] = 0x44612ada661656bc,
    [FUNCTION_tanh] = 0xf6ab92361ca59a3d,       [FUNCTION_erf] = 0x17b4dc2d9ee28cfb,
    [FUNCTION_sigmoid] = 0x4df1c68e7735029f,    [FUNCTION_softplus] = 0x424d070f1c25e4dd,
    [FUNCTION_bell] = 0xd5a3c11e4112665e,       [FUNCTION_normal] = 0x8bd4e7322e8fe189,
    [FUNCTION_divide] = 0x5db3480b49393207,     [FUNCTION_built_divide] = 0x5db3480b49393207,
    [FUNCTION_power] = 0xad1ff9bee1c584ec,
};

static void bits_are_known(test *t)
{
    arguments x;
    REQUIRE(begin(t, &x));
    x.n = N_SOME;
    for (int f = 0; f < N_FUNCTIONS; f++) {
        fill(&x, f);
        evaluate(exact_fastest(), f, &x, x.y);
        uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a, of words */
        for (size_t i = 0; i < x.n; i++)
            hash = (hash ^ x.y[i]) * 0x100000001b3u;
        if (!CHECK(hash == hashes[f]))
            FAIL("[FUNCTION_%s] = 0x%016llx,", exact_names[f], (unsigned long long)hash);
    }
    free(x.a);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"limits_are_right", limits_are_right},
        {"building_is_dividing", building_is_dividing},
        {"variants_are_equal", variants_are_equal},
        {"flushing_changes_nothing", flushing_changes_nothing},
        {"bits_are_known", bits_are_known},
        {"errors_are_small", errors_are_small},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
