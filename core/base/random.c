/* Philox4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC
   2011. A number is a pure function of its use, so neither devices nor the order of calls change
   it. */
#include "base/random.h"

#include "base/elementary.h"

#include <math.h>
#include <string.h>

void dpti_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4])
{
    uint32_t c0 = counter[0], c1 = counter[1], c2 = counter[2], c3 = counter[3];
    uint32_t k0 = key[0], k1 = key[1];
    for (int round = 0; round < 10; round++) {
        const uint64_t p0 = (uint64_t)0xD2511F53u * c0;
        const uint64_t p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

void dpti_random_init(dpti_random *random, uint64_t seed, dpti_random_use use, uint64_t index)
{
    memset(random, 0, sizeof *random);
    random->key[0] = (uint32_t)seed;
    random->key[1] = (uint32_t)(seed >> 32);
    random->counter[1] = (uint32_t)use;
    random->counter[2] = (uint32_t)index;
    random->counter[3] = (uint32_t)(index >> 32);
}

uint32_t dpti_random_u32(dpti_random *random)
{
    if (random->left == 0) {
        dpti_philox(random->counter, random->key, random->block);
        random->counter[0]++;
        random->left = 4;
    }
    return random->block[4 - random->left--];
}

uint32_t dpti_random_below(dpti_random *random, uint32_t bound)
{
    /* Rejects the incomplete last run of residues. */
    const uint32_t excess = (uint32_t)(0x100000000u % bound);
    uint32_t value;
    do {
        value = dpti_random_u32(random);
    } while (value > 0xFFFFFFFFu - excess);
    return value % bound;
}

float dpti_random_uniform(dpti_random *random)
{
    return (float)(dpti_random_u32(random) >> 8) * 0x1p-24f;
}

float dpti_random_normal(dpti_random *random)
{
    const double u = ((double)dpti_random_u32(random) + 1.0) * 0x1p-32; /* (0, 1] */
    const double v = (double)dpti_random_u32(random) * 0x1p-32;
    return (float)(sqrt(-2.0 * dpti_log(u)) * dpti_cos_turns(v));
}
