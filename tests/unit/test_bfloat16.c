/* Tests bfloat16 against its definition: the nearest of 65536 numbers, searched among neighbours
   in double precision; the rounding error; and packing in place. */
#include "base/bfloat16.h"

#include "harness.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static float of_bits(uint32_t bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static uint32_t bits_of(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static float of_packed(uint32_t packed)
{
    return of_bits(packed << 16);
}

/* Of one number: what is packed, and what is owed. */
static uint32_t pack(float value, float *owes)
{
    uint16_t packed;
    dpti_bfloat16_pack(&value, NULL, owes, 1);
    memcpy(&packed, &value, sizeof packed);
    return packed;
}

/* The index, among the numbers of this sign, that is nearest to a finite value: the even one of
   two, the largest at most. */
static uint32_t nearest(float value)
{
    const uint32_t below = bits_of(value) >> 16, above = below + 1;
    if (!isfinite((double)of_packed(above))) return below;
    const double down = fabs((double)value - (double)of_packed(below));
    const double up = fabs((double)of_packed(above) - (double)value);
    return down < up || (down == up && below % 2 == 0) ? below : above;
}

static void rounding(test *t)
{
    static const uint32_t lower[] = {0, 1, 0x1234, 0x7fff, 0x8000, 0x8001, 0xc000, 0xffff};
    size_t n_wrong = 0, n_finite = 0;
    for (uint32_t upper = 0; upper < 65536; upper++)
        for (size_t i = 0; i < sizeof lower / sizeof *lower; i++) {
            const float value = of_bits(upper << 16 | lower[i]);
            float owes = NAN;
            const uint32_t packed = pack(value, &owes);
            if (isnan(value)) {
                n_wrong += !isnan(of_packed(packed)) || owes != 0;
            } else if (isinf(value)) {
                n_wrong += of_packed(packed) != value || owes != 0;
            } else {
                n_finite++;
                n_wrong += packed != nearest(value) ||
                           (double)of_packed(packed) + (double)owes != (double)value;
            }
        }
    CHECK_SIZE(n_wrong, 0);
    CHECK_SIZE(n_finite, (size_t)2 * 255 * 128 * 8);
}

static void values(test *t)
{
    float owes;
    CHECK_SIZE(pack(1.0f, &owes), 0x3f80);
    CHECK_SIZE(pack(1.00390625f, &owes), 0x3f80); /* a tie: the even one */
    CHECK(owes == 0.00390625f);
    CHECK_SIZE(pack(1.01171875f, &owes), 0x3f82); /* a tie: the even one above */
    CHECK(owes == -0.00390625f);
    CHECK_SIZE(pack(-0.0f, &owes), 0x8000);
    CHECK_SIZE(pack(3.4e38f, &owes), 0x7f7f); /* finite stays finite */
    CHECK(owes > 0 && isfinite(owes));
}

/* n numbers, what is owed of them, packed and unpacked: each as if it were alone, nothing beyond.
 */
static void check_many(test *t, size_t n)
{
    test_random random = {n + 1};
    float *data = malloc((n + 1) * sizeof *data), *residual = malloc((n + 1) * sizeof *residual);
    float *owes = malloc((n + 1) * sizeof *owes), *sums = malloc((n + 1) * sizeof *sums);
    uint16_t *packed = malloc((n + 1) * sizeof *packed);
    size_t n_wrong = 0;
    REQUIRE(data && residual && owes && sums && packed);
    for (size_t i = 0; i <= n; i++) {
        data[i] = (float)(test_random_uniform(&random) - 0.5);
        residual[i] = (float)(test_random_uniform(&random) - 0.5) / 256;
        sums[i] = data[i] + residual[i];
    }
    data[n] = owes[n] = 7; /* nobody's */
    dpti_bfloat16_pack(data, residual, owes, n);
    memcpy(packed, data, n * sizeof *packed);
    dpti_bfloat16_unpack(data, n);
    for (size_t i = 0; i < n; i++) {
        float alone;
        const uint32_t one = pack(sums[i], &alone);
        n_wrong += packed[i] != one || owes[i] != alone || data[i] != of_packed(one);
    }
    CHECK(data[n] == 7 && owes[n] == 7);
    dpti_bfloat16_add(data, packed, n);
    for (size_t i = 0; i < n; i++)
        n_wrong += data[i] != 2 * of_packed(packed[i]);
    CHECK_SIZE(n_wrong, 0);
    CHECK(data[n] == 7);
    /* Onto what was owed before, in place. */
    memcpy(data, sums, n * sizeof *data);
    memset(residual, 0, n * sizeof *residual);
    dpti_bfloat16_pack(data, residual, residual, n);
    CHECK(n == 0 || memcmp(residual, owes, n * sizeof *owes) == 0);
    free(packed);
    free(sums);
    free(owes);
    free(residual);
    free(data);
}

static void in_place(test *t)
{
    static const size_t counts[] = {0, 1, 2, 3, 17, 255, 1023, 1024, 1025, 2048, 5000, 70001};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        check_many(t, counts[i]);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"rounding to nearest, and what it drops", rounding},
        {"values", values},
        {"in place", in_place},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
