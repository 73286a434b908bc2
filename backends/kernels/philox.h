/* Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel Random Numbers: As Easy as 1, 2, 3",
   SC 2011).  core/backend/op_list.h says which numbers are drawn with it. */
#ifndef DPT_KERNELS_PHILOX_H
#define DPT_KERNELS_PHILOX_H

#include "dialect.h"

/* The four words of one counter. */
typedef struct philox_words {
    u32 a, b, c, d;
} philox_words;

/* The words of the counter (block, sample, epoch, stream), with the seed of the run as the key.
   Epoch and seed are those of the step block. */
DEVICE philox_words philox(GLOBAL const u32 *step, u32 block, u32 sample, u32 stream)
{
    philox_words x;
    x.a = block;
    x.b = sample;
    x.c = step[STEP_EPOCH];
    x.d = stream;
    u32 key_low = step[STEP_SEED_LOW], key_high = step[STEP_SEED_HIGH];
    UNROLL
    for (u32 round = 0; round < 10; round++) {
        const u32 left_high = MUL_HIGH(0xD2511F53u, x.a), left_low = 0xD2511F53u * x.a;
        const u32 right_high = MUL_HIGH(0xCD9E8D57u, x.c), right_low = 0xCD9E8D57u * x.c;
        x.a = right_high ^ x.b ^ key_low;
        x.b = right_low;
        x.c = left_high ^ x.d ^ key_high;
        x.d = left_low;
        key_low += 0x9E3779B9u;
        key_high += 0xBB67AE85u;
    }
    return x;
}

#endif
