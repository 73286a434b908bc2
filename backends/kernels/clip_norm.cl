/* Scaling a gradient whose norm is too large.  Squares are summed in pairs of floats.  The squares of
   numbers that are so large that they might overflow are scaled and summed separately. */
#include "clip_norm.h"

#define LARGE          0x1p40f
#define DOWN           0x1p-80f /* the scale of large squares */
#define HALF_DOWN      0x1p-40f
#define GREATEST       3.4028234e38f
#define PYTORCHS_LEAST 1e-6f

typedef struct square_sums {
    float sum[TILE], sum_low[TILE], large[TILE];
} square_sums;

DEVICE void add_squares(square_sums *s, GLOBAL const float *x, u32 n)
{
    FOR_PLACES (i, n) {
        const bool is_large = FABS(x[i]) > LARGE;
        const float usual = is_large ? 0.0f : x[i], scaled = is_large ? x[i] * DOWN : 0.0f;
        const pair square = two_product(usual, usual);
        const pair sum = two_sum(s->sum[i], square.high);
        s->sum[i] = sum.high;
        s->sum_low[i] += sum.low + square.low;
        s->large[i] = FMA(scaled, scaled, s->large[i]);
    }
}

/* gradient -> entries (2, n_chunks, period): sums of the usual squares and of the large ones */
KERNEL void dpt_clip_norm_chunks(OUT(float, entries), IN(float, gradient), const columns p)
{
    TENSOR_OUT(float, entries);
    TENSOR_IN(float, gradient);
    square_sums s;
    if (GLOBAL_ID >= (u64)p.n_chunks * p.n_tiles) return;
    const tile t = tile_of(p, GLOBAL_ID);
    FOR_PLACES (i, t.n)
        s.sum[i] = s.sum_low[i] = s.large[i] = 0.0f;
    for (u64 k = 0; k < t.n_periods; k++)
        add_squares(&s, gradient + t.begin + k * p.period, t.n);
    add_squares(&s, gradient + t.begin + t.n_periods * p.period, t.rest);
    GLOBAL float *usual = entries + t.chunk * p.period + t.place;
    GLOBAL float *large = usual + (u64)p.n_chunks * p.period;
    FOR_PLACES (i, t.n) {
        usual[i] = pair_value(pair_of(s.sum[i], s.sum_low[i]));
        large[i] = s.large[i];
    }
}

/* The factor of the gradient, at most 1.  If the norm is NaN, the factor is NaN, so the failure shows
   in the parameters. */
DEVICE float factor_of(pair usual, pair large, float max_norm)
{
    pair norm = pair_of(0.0f, 0.0f);
    if (max_norm > GREATEST) return 1.0f;
    if (large.high > GREATEST) return 0.0f;
    if (large.high > 0.0f) {
        const pair all = pair_add(large, pair_scale(pair_scale(usual, DOWN), DOWN));
        const pair limit = pair_of(max_norm * HALF_DOWN, 0.0f);
        return pair_value(pair_multiply(limit, pair_inverse_sqrt(all))) * HALF_DOWN;
    }
    /* A smaller norm is negligible against the constant that is added to it. */
    if (!(usual.high < 1e-30f)) norm = pair_multiply(usual, pair_inverse_sqrt(usual));
    norm = pair_add(norm, pair_of(PYTORCHS_LEAST, 0.0f));
    if (norm.high < max_norm) return 1.0f;
    return pair_value(pair_divide(pair_of(max_norm, 0.0f), norm));
}

/* entries -> factor (1).  The launch is one whole group. */
KERNEL void dpt_clip_norm_factor(OUT(float, factor), IN(float, entries), const clip_norm_params p)
{
    SHARED float shared[4 * GROUP];
    TENSOR_OUT(float, factor);
    TENSOR_IN(float, entries);
    const lane l = lane_of(p.merge);
    const u64 plane = (u64)p.merge.grid.n_chunks * p.merge.grid.period;
    two_sums own;
    own.first = sum_entries(p.merge.grid, l, entries);
    own.second = sum_entries(p.merge.grid, l, entries + plane);
    own = sum_lanes(shared, own, l.index, l.count, p.merge.across);
    if (LOCAL_ID == 0) factor[0] = factor_of(own.first, own.second, p.max_norm);
}

DEVICE void scale(GLOBAL float *x, u32 n, float by)
{
    FOR_PLACES (i, n)
        x[i] *= by;
}

/* gradient *= factor */
KERNEL void dpt_clip_norm_scale(OUT(float, gradient), IN(float, factor), const columns p)
{
    TENSOR_OUT(float, gradient);
    TENSOR_IN(float, factor);
    const float by = factor[0];
    if (by >= 1.0f || GLOBAL_ID >= (u64)p.n_chunks * p.n_tiles) return;
    const tile t = tile_of(p, GLOBAL_ID);
    for (u64 k = 0; k < t.n_periods; k++)
        scale(gradient + t.begin + k * p.period, t.n, by);
    scale(gradient + t.begin + t.n_periods * p.period, t.rest, by);
}
