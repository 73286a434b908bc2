/* Division of an offset within a sample by a number that is known when an operator is prepared. The
   division is a multiplication, because vector units of CPUs cannot divide integers and GPUs divide
   them slowly.

   q = n * m >> (31 + s), with s = ceil(log2 d) and m = ceil(2^(31 + s) / d), is exact for n below
   2^31.  m is too large by less than 1, so n * m is too large by less than 2^31, and q by less than
   1 / d (Granlund and Montgomery, PLDI 1994). */
#ifndef DPT_KERNELS_DIVIDE_H
#define DPT_KERNELS_DIVIDE_H

#include "dialect.h"

typedef struct divisor {
    u32 value;
    u32 multiplier;
    u32 shift;
    u32 unused;
} divisor;

#if defined(MUL_HIGH)

/* n / d, n below 2^31 */
DEVICE u32 quotient(u32 n, divisor d)
{
    return MUL_HIGH(n << 1, d.multiplier) >> d.shift;
}

/* n - q * d */
DEVICE u32 rest(u32 n, u32 q, divisor d)
{
    return n - q * d.value;
}

#else

/* value: at least 1, below 2^31 */
static inline divisor divisor_of(u32 value)
{
    divisor d = {.value = value};
    while (((u64)1 << d.shift) < value)
        d.shift++;
    d.multiplier = (u32)((((u64)1 << (31 + d.shift)) + value - 1) / value);
    return d;
}

#endif

#endif
