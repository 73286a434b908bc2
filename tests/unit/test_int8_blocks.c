/* Tests blocks of integers of 8 bits against their definition: the scale, searched among bfloat16;
   the nearest multiple of it; what rounding drops; and packing in place. */
#include "base/int8_blocks.h"

#include "harness.h"

#include <float.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

static float of_upper(uint32_t upper)
{
    const uint32_t bits = upper << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float scale_of(const uint8_t *packed)
{
    uint16_t upper;
    memcpy(&upper, packed, sizeof upper);
    return of_upper(upper);
}

/* The least bfloat16 of at least 1/127 of a magnitude, in double precision; at most so large that
   127 times it is finite. */
static float wanted_scale(float largest)
{
    uint32_t upper = 0;
    while ((double)of_upper(upper) * 127 < (double)largest &&
           (double)of_upper(upper + 1) * 127 <= (double)FLT_MAX)
        upper++;
    return of_upper(upper);
}

/* Packs one block of n numbers and compares all of it with the definition. */
static void check_block(test *t, const float *values, size_t n)
{
    float data[DPTI_INT8_BLOCK], owes[DPTI_INT8_BLOCK], largest = 0;
    uint8_t packed[sizeof data];
    size_t n_wrong = 0;
    for (size_t i = 0; i < n; i++)
        largest = fmaxf(largest, fabsf(values[i]));
    memcpy(data, values, n * sizeof *data);
    dpti_int8_pack(data, NULL, owes, n);
    memcpy(packed, data, dpti_int8_bytes(n));
    dpti_int8_unpack(data, n);
    const float scale = scale_of(packed);
    const double wanted = (double)wanted_scale(largest);
    /* The quotient is rounded to float32 before it is rounded up. */
    CHECK((double)scale >= wanted * (1 - 1.0 / 128) && (double)scale <= wanted * (1 + 1.0 / 127));
    CHECK((double)scale * 127 >= (double)largest * (1 - 1e-4));
    for (size_t i = 0; i < n; i++) {
        const double integer = (double)(int8_t)packed[2 + i];
        const double off = fabs((double)values[i] - integer * (double)scale);
        n_wrong += !(off <= 0.500001 * (double)scale) && integer != 127 && integer != -127;
        n_wrong += (double)data[i] != integer * (double)scale;
        n_wrong += (double)data[i] + (double)owes[i] != (double)values[i];
        n_wrong += !isfinite(data[i]) || integer < -127;
    }
    CHECK_SIZE(n_wrong, 0);
}

static void magnitudes(test *t)
{
    test_random random = {7};
    float values[DPTI_INT8_BLOCK];
    for (int exponent = -149; exponent <= 127; exponent++)
        for (size_t n = 1; n <= DPTI_INT8_BLOCK; n += 51) {
            for (size_t i = 0; i < n; i++) {
                const double value = ldexp(2 * test_random_uniform(&random) - 1, exponent);
                values[i] = (float)(i % 7 == 3 ? value / 4096 : value);
            }
            check_block(t, values, n);
        }
    for (size_t i = 0; i < DPTI_INT8_BLOCK; i++)
        values[i] = i % 2 == 0 ? FLT_MAX : -FLT_MAX / (float)(i + 1);
    check_block(t, values, DPTI_INT8_BLOCK);
    memset(values, 0, sizeof values);
    check_block(t, values, DPTI_INT8_BLOCK);
}

static void values(test *t)
{
    float data[4] = {254, 1, 3, -5}, owes[4];
    int8_t integers[4];
    dpti_int8_pack(data, NULL, owes, 4);
    CHECK(scale_of((const uint8_t *)data) == 2);
    memcpy(integers, (const uint8_t *)data + 2, sizeof integers);
    /* Ties go to the even integer: 0.5 to 0, 1.5 to 2, -2.5 to -2. */
    CHECK(integers[0] == 127 && integers[1] == 0 && integers[2] == 2 && integers[3] == -2);
    CHECK(owes[0] == 0 && owes[1] == 1 && owes[2] == -1 && owes[3] == -1);
    CHECK_SIZE(dpti_int8_bytes(0), 0);
    CHECK_SIZE(dpti_int8_bytes(1), 3);
    CHECK_SIZE(dpti_int8_bytes(256), 258);
    CHECK_SIZE(dpti_int8_bytes(257), 261);
}

/* A block with a number that is not finite is no number, and the next one is as always. */
static void not_finite(test *t)
{
    static const float wild[] = {INFINITY, -INFINITY, NAN};
    for (size_t k = 0; k < 3; k++) {
        float data[2 * DPTI_INT8_BLOCK], owes[2 * DPTI_INT8_BLOCK];
        size_t n_wrong = 0;
        for (size_t i = 0; i < 2 * DPTI_INT8_BLOCK; i++)
            data[i] = i == 100 ? wild[k] : 1;
        dpti_int8_pack(data, NULL, owes, 2 * DPTI_INT8_BLOCK);
        dpti_int8_unpack(data, 2 * DPTI_INT8_BLOCK);
        for (size_t i = 0; i < DPTI_INT8_BLOCK; i++)
            n_wrong += !isnan(data[i]) || owes[i] != 0 || !(fabsf(data[256 + i] - 1) < 0.01f);
        CHECK_SIZE(n_wrong, 0);
    }
}

/* n numbers with what is owed of them: as blocks by themselves, nothing beyond. */
static void check_many(test *t, size_t n)
{
    test_random random = {n + 1};
    float *data = calloc(n + 1, sizeof *data), *residual = calloc(n + 1, sizeof *residual);
    float *owes = calloc(n + 1, sizeof *owes), *sums = calloc(n + 1, sizeof *sums);
    uint8_t *packed = malloc((n + 1) * sizeof *data);
    float block[DPTI_INT8_BLOCK], owed[DPTI_INT8_BLOCK];
    size_t n_wrong = 0;
    REQUIRE(data && residual && owes && sums && packed);
    for (size_t i = 0; i < n; i++) {
        data[i] = (float)(test_random_uniform(&random) - 0.5);
        residual[i] = (float)(test_random_uniform(&random) - 0.5) / 256;
        sums[i] = data[i] + residual[i];
    }
    data[n] = owes[n] = 7; /* nobody's */
    dpti_int8_pack(data, residual, owes, n);
    memcpy(packed, data, dpti_int8_bytes(n));
    for (size_t begin = 0; begin < n; begin += DPTI_INT8_BLOCK) {
        const size_t count = n - begin < DPTI_INT8_BLOCK ? n - begin : DPTI_INT8_BLOCK;
        memcpy(block, sums + begin, count * sizeof *block);
        dpti_int8_pack(block, NULL, owed, count);
        n_wrong += memcmp(packed + dpti_int8_bytes(begin), block, dpti_int8_bytes(count)) != 0;
        n_wrong += memcmp(owes + begin, owed, count * sizeof *owed) != 0;
    }
    CHECK(data[n] == 7 && owes[n] == 7);
    dpti_int8_unpack(data, n);
    for (size_t i = 0; i < n; i++)
        n_wrong += (double)data[i] + (double)owes[i] != (double)sums[i];
    memcpy(owes, data, n * sizeof *data);
    dpti_int8_add(data, packed, n);
    for (size_t i = 0; i < n; i++)
        n_wrong += data[i] != 2 * owes[i];
    CHECK_SIZE(n_wrong, 0);
    CHECK(data[n] == 7);
    /* Onto what was owed before, in place; and nothing is kept. */
    memcpy(data, sums, n * sizeof *data);
    memset(residual, 0, n * sizeof *residual);
    dpti_int8_pack(data, residual, residual, n);
    CHECK(memcmp(data, packed, dpti_int8_bytes(n)) == 0);
    memcpy(data, sums, n * sizeof *data);
    dpti_int8_pack(data, NULL, NULL, n);
    CHECK(memcmp(data, packed, dpti_int8_bytes(n)) == 0);
    free(packed);
    free(sums);
    free(owes);
    free(residual);
    free(data);
}

static void in_place(test *t)
{
    static const size_t counts[] = {0, 1, 2, 3, 17, 255, 256, 257, 511, 512, 5000, 70001};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        check_many(t, counts[i]);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"all magnitudes", magnitudes},
        {"values", values},
        {"what is not finite", not_finite},
        {"in place", in_place},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
