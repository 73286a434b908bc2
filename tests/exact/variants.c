/* The variants of this build (loops.h), and pairs of arguments. */
#include "loops.h"

#include "exact_variants.h" /* written by the build */

#include <string.h>

const char *const exact_names[N_FUNCTIONS] = {
#define NAME(name) [FUNCTION_##name] = #name,
    EXACT_UNARY(NAME) EXACT_BINARY(NAME)};

#define DECLARE(variant, builds) extern exact_loop *const exact_loops_##variant[N_FUNCTIONS];
EXACT_VARIANTS(DECLARE)

static const exact_variant variants[] = {
#define VARIANT(variant, builds) {#variant, exact_loops_##variant, builds},
    EXACT_VARIANTS(VARIANT)};

enum { N_VARIANTS = sizeof variants / sizeof *variants };

static bool is_supported(const exact_variant *variant)
{
#if defined(__x86_64__)
    if (strstr(variant->name, "avx512"))
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
    if (strstr(variant->name, "fma"))
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
    return variant->loops != NULL;
}

const exact_variant *exact_variant_at(size_t i)
{
    for (size_t k = 0; k < N_VARIANTS; k++)
        if (is_supported(&variants[k]) && i-- == 0) return &variants[k];
    return NULL;
}

const exact_variant *exact_fastest(void)
{
    const exact_variant *last = NULL, *next;
    for (size_t i = 0; (next = exact_variant_at(i)); i++)
        last = next;
    return last;
}

/* ---- Pairs ----------------------------------------------------------------------------------- */

static uint64_t draw(uint64_t *state)
{
    uint64_t x = *state += 0x9e3779b97f4a7c15u; /* splitmix64 */
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
    x = (x ^ x >> 27) * 0x94d049bb133111ebu;
    return x ^ x >> 31;
}

static uint32_t bits_of(float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* From -1 to 1. */
static double uniform(uint64_t word)
{
    return (double)(int32_t)(uint32_t)word * 0x1p-31;
}

/* An exponent for which a^b is about 2^(160 t): b = 160 t / log2(a), where log2(a) is only near. */
static float exponent_for(float a, double t)
{
    const int power = (int)(bits_of(a) >> 23 & 255) - 127;
    double logarithm = power + (double)(bits_of(a) & 0x7fffff) * 0x1p-23;
    if (power == -1) logarithm = ((double)a - 1) * 1.5;
    return logarithm == 0 ? (float)t : (float)(160 * t / logarithm);
}

static void power_pair(uint64_t word, uint64_t other, uint32_t *a, uint32_t *b)
{
    const double t = uniform(other);
    float x = float_of((uint32_t)word), y = float_of((uint32_t)other);
    const float near_one = 1.0f + (float)uniform(word) * 0x1p-12f;
    switch (word >> 32 & 7) {
    case 0: break;
    case 1: x = near_one, y = exponent_for(x, t); break;
    case 2: x = 1.0f + (float)((int)(word & 15) - 8) * 0x1p-23f, y = exponent_for(x, t); break;
    case 3: y = (float)((int)(other & 63) - 32); break;
    case 4:
        y = (float)((int)(other & 63) - 32) * 0.5f, x = float_of(bits_of(x) & 0x7fffffff);
        break;
    case 5: x = (float)((int)(word & 255) - 128), y = (float)((int)(other & 63) - 32); break;
    default: x = float_of(bits_of(x) & 0x7fffffff), y = exponent_for(x, t); break;
    }
    *a = bits_of(x);
    *b = bits_of(y);
}

/* Quotients of all sizes, also subnormal ones, and quotients of integers. */
static void quotient_pair(uint64_t word, uint64_t other, uint32_t *a, uint32_t *b)
{
    *a = (uint32_t)word;
    *b = (uint32_t)other;
    switch (word >> 32 & 3) {
    case 0: break;
    case 1: *a = (*a & 0x807fffffu) | (uint32_t)(word >> 40 & 127) << 23; break;
    case 2: *a &= 0x803fffffu, *b = (*b & 0x807fffffu) | (uint32_t)(other >> 40 & 255) << 23; break;
    default: *a = bits_of((float)(word & 0xffffff)), *b = bits_of((float)(other & 0xfff)); break;
    }
}

void exact_pairs(int function, uint64_t seed, size_t n, uint32_t *a, uint32_t *b)
{
    uint64_t state = seed;
    for (size_t i = 0; i < n; i++) {
        const uint64_t word = draw(&state), other = draw(&state);
        if (function == FUNCTION_power)
            power_pair(word, other, &a[i], &b[i]);
        else
            quotient_pair(word, other, &a[i], &b[i]);
    }
}
