/* Philox4x32-10 (Salmon, Moraes, Dror, Shaw: "Parallel Random Numbers: As Easy as 1, 2, 3",
   SC 2011), several counters at once. */
#ifndef DPT_CPU_PHILOX_H
#define DPT_CPU_PHILOX_H

#include "backend.h"
#include "simd.h"

enum {
    PHILOX_BLOCKS = 16,
    PHILOX_WORDS = 4 * PHILOX_BLOCKS,
};

/* The part of the counters that is the same for all elements of a sample, and the key. */
typedef struct philox_source {
    uint32_t sample, epoch, stream;
    uint32_t seed_low, seed_high;
} philox_source;

DPT_CPU_INLINE philox_source philox_of(const dpt_step_block *step, uint32_t sample, uint32_t stream)
{
    return (philox_source){.sample = sample,
                           .epoch = step->epoch,
                           .stream = stream,
                           .seed_low = step->seed_low,
                           .seed_high = step->seed_high};
}

/* words[4 b + i] = word i of the counter (first + b, sample, epoch, stream), with the seed as key.
   The lower half of a lane holds a word of one counter; the upper half may hold anything. */
static inline void philox(const philox_source *source, uint32_t first, uint32_t words[PHILOX_WORDS])
{
    enum { WIDTH = sizeof(vec_u64) / sizeof(uint64_t), GROUPS = PHILOX_BLOCKS / WIDTH };
    for (size_t group = 0; group < GROUPS; group++, words += 4 * WIDTH) {
        vec_u64 a = {0}, b = a + source->sample, c = a + source->epoch, d = a + source->stream;
        uint32_t key_low = source->seed_low, key_high = source->seed_high;
        for (size_t i = 0; i < WIDTH; i++)
            a[i] = first + group * WIDTH + i;
        DPT_CPU_UNROLL
        for (int round = 0; round < 10; round++) {
            const vec_u64 p = vec_mul_low(a, 0xD2511F53u), q = vec_mul_low(c, 0xCD9E8D57u);
            a = (q >> 32) ^ b ^ key_low;
            b = q;
            c = (p >> 32) ^ d ^ key_high;
            d = p;
            key_low += 0x9E3779B9u;
            key_high += 0xBB67AE85u;
        }
        for (size_t i = 0; i < WIDTH; i++) {
            words[4 * i] = (uint32_t)a[i];
            words[4 * i + 1] = (uint32_t)b[i];
            words[4 * i + 2] = (uint32_t)c[i];
            words[4 * i + 3] = (uint32_t)d[i];
        }
    }
}

#endif
