/* The factor of a deterministic gradient whose norm is too large.  The gradient is divided into
   blocks, whose squares are summed up in lanes.  The blocks are added in their order. */
#define LANES 16u
#include "clip_norm_fixed.h"
#include "lanes.h"

/* gradient -> sums, one for each block */
KERNEL void dpt_clip_norm_blocks(OUT(float, sums), IN(float, gradient), const clip_norm_fixed_params p)
{
    SHARED double shared[GROUP];
    const u64 n_blocks = (p.count + CLIP_NORM_BLOCK - 1) / CLIP_NORM_BLOCK;
    row r = row_of(n_blocks, CLIP_NORM_BLOCK);
    const u64 first = r.index * CLIP_NORM_BLOCK;
    if (r.n > 0 && p.count - first < r.n) r.n = (u32)(p.count - first);
    GLOBAL const float *const x = gradient_base + gradient_place + first;
    double own[OWN_LANES];
    FOR_OWN_LANES (k)
        own[k] = 0.0;
    for (u32 i = r.lane; i < r.n; i += LANES)
        FOR_OWN_LANES (k)
            if (i + k < r.n) own[k] += (double)x[i + k] * (double)x[i + k];
    const double sum = sum_of_lanes(shared, own, 0.0);
    if (r.lane == 0 && r.n > 0) ((GLOBAL double *)(sums_base + sums_place))[r.index] = sum;
}

/* sums -> factor (1).  The launch is one whole group. */
KERNEL void dpt_clip_norm_fixed_factor(OUT(float, factor), IN(float, sums),
                                       const clip_norm_fixed_params p)
{
    SHARED double shared[GROUP];
    GLOBAL const double *const blocks = (GLOBAL const double *)(sums_base + sums_place);
    const u64 n_blocks = (p.count + CLIP_NORM_BLOCK - 1) / CLIP_NORM_BLOCK;
    double total = 0.0;
    for (u64 first = 0; first < n_blocks; first += GROUP) {
        const u64 i = first + LOCAL_ID, left = n_blocks - first;
        shared[LOCAL_ID] = i < n_blocks ? blocks[i] : 0.0;
        BARRIER();
        for (u32 k = 0; k < GROUP && k < left; k++)
            total += shared[k];
        BARRIER();
    }
    const double by = (double)p.max_norm / (sqrt(total) + 1e-6);
    if (LOCAL_ID == 0) factor_base[factor_place] = by >= 1.0 ? 1.0f : (float)by;
}
