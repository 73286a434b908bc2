/* Sizes and times. */
#include "base/base.h"

#include <stdlib.h>
#include <time.h>

bool dpti_multiply(size_t a, size_t b, size_t *out)
{
    size_t product;
    if (__builtin_mul_overflow(a, b, &product)) return false;
    *out = product;
    return true;
}

bool dpti_add(size_t a, size_t b, size_t *out)
{
    size_t sum;
    if (__builtin_add_overflow(a, b, &sum)) return false;
    *out = sum;
    return true;
}

size_t dpti_round_up(size_t value, size_t power_of_two)
{
    return (value + power_of_two - 1) & ~(power_of_two - 1);
}

void *dpti_alloc_aligned(size_t n_bytes)
{
    static const size_t alignment = 64;
    if (n_bytes > SIZE_MAX - alignment) return NULL;
    return aligned_alloc(alignment, dpti_round_up(n_bytes ? n_bytes : 1, alignment));
}

double dpti_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}
