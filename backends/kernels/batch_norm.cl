/* Batch-norm: statistics, their merging over devices, forward, backward.

   Statistics are (mean, M2) of rows that join one after the other, by the formula of Chan, Golub
   and LeVeque (1979): nothing is ever the difference of two large sums, and every value is read
   once. The mean is subtracted before anything is multiplied, because folding it into the shift
   would cancel where it is large against the deviation.

   A program in which ACTIVATION is a constant is straight code. */
#include "activation.h"
#include "batch_norm.h"

#ifndef ACTIVATION
#define ACTIVATION p.activation
#endif

#define BLOCK 8u /* rows whose values a work item has at once */
#define ROWS  4u /* likewise on a GPU, where something is written for every row */

/* ---- A device's part: statistics of chunks --------------------------------------------------- */

/* Of a chunk, at every place: the mean is shift + offset, so that it is known as well as the
   deviation deserves where it is large against it. */
typedef struct chunk_statistics {
    float shift[TILE], offset[TILE], m2[TILE];
} chunk_statistics;

/* A row joins `before` others, at n places. */
DEVICE void join_row(chunk_statistics *s, GLOBAL const act *x, u32 n, float before)
{
    const float share = 1.0f / (before + 1.0f), weight = before * share;
    FOR_PLACES (i, n) {
        const float delta = (GET(x, i) - s->shift[i]) - s->offset[i];
        s->offset[i] = FMA(delta, share, s->offset[i]);
        s->m2[i] = FMA(delta * delta, weight, s->m2[i]);
    }
}

/* BLOCK rows join `before` others: their mean, as a difference from the one so far, and their
   squared deviations from their mean. */
DEVICE void join_block(chunk_statistics *s, GLOBAL const act *x, u64 period, u32 n, float before)
{
    const float share = (float)BLOCK / (before + (float)BLOCK), weight = before * share;
    FOR_PLACES (i, n) {
        const float shift = s->shift[i], offset = s->offset[i];
        const float d0 = (GET(x, i) - shift) - offset;
        const float d1 = (GET(x, period + i) - shift) - offset;
        const float d2 = (GET(x, 2 * period + i) - shift) - offset;
        const float d3 = (GET(x, 3 * period + i) - shift) - offset;
        const float d4 = (GET(x, 4 * period + i) - shift) - offset;
        const float d5 = (GET(x, 5 * period + i) - shift) - offset;
        const float d6 = (GET(x, 6 * period + i) - shift) - offset;
        const float d7 = (GET(x, 7 * period + i) - shift) - offset;
        const float delta =
            (((d0 + d1) + (d2 + d3)) + ((d4 + d5) + (d6 + d7))) * (1.0f / (float)BLOCK);
        const float e0 = d0 - delta, e1 = d1 - delta, e2 = d2 - delta, e3 = d3 - delta;
        const float e4 = d4 - delta, e5 = d5 - delta, e6 = d6 - delta, e7 = d7 - delta;
        const float even = FMA(e0, e0, FMA(e2, e2, FMA(e4, e4, e6 * e6)));
        const float squares = FMA(e1, e1, FMA(e3, e3, FMA(e5, e5, FMA(e7, e7, even))));
        s->offset[i] = FMA(delta, share, s->offset[i]);
        s->m2[i] = FMA(delta * delta, weight, s->m2[i] + squares);
    }
}

/* x (rows,channels) -> entries (3, n_chunks, period): mean in two floats, M2 */
KERNEL void dpt_batch_norm_chunks(OUT(float, entries), IN(act, x), const columns p)
{
    TENSOR_OUT(float, entries);
    TENSOR_IN(act, x);
    chunk_statistics s;
    if (GLOBAL_ID >= (u64)p.n_chunks * p.n_tiles) return;
    const tile t = tile_of(p, GLOBAL_ID);
    const u32 n_first = t.n_periods > 0 ? t.n : t.rest;
    u64 done = 0, at = t.begin;
    FOR_PLACES (i, t.n) {
        s.shift[i] = i < n_first ? GET(x, at + i) : 0.0f;
        s.offset[i] = s.m2[i] = 0.0f;
    }
    for (; done + BLOCK <= t.n_periods; done += BLOCK, at += (u64)BLOCK * p.period)
        join_block(&s, x + at, p.period, t.n, (float)done);
    for (; done < t.n_periods; done++, at += p.period)
        join_row(&s, x + at, t.n, (float)done);
    join_row(&s, x + at, t.rest, (float)done);
    const u64 plane = (u64)p.n_chunks * p.period;
    at = t.chunk * p.period + t.place;
    FOR_PLACES (i, t.n) {
        const pair mean = two_sum(s.shift[i], s.offset[i]);
        entries[at + i] = mean.high;
        entries[plane + at + i] = mean.low;
        entries[2 * plane + at + i] = s.m2[i];
    }
}

typedef struct statistics {
    pair mean;
    float count, m2;
} statistics;

DEVICE statistics join(const statistics a, const statistics b)
{
    const float delta = (b.mean.high - a.mean.high) + (b.mean.low - a.mean.low);
    const float share = b.count / (a.count + b.count);
    statistics both;
    if (b.count == 0.0f) return a;
    if (a.count == 0.0f) return b;
    both.count = a.count + b.count;
    both.mean = pair_accumulate(a.mean, FMA(delta, share, 0.0f));
    both.m2 = FMA(delta * delta, a.count * share, a.m2 + b.m2);
    return both;
}

/* The i-th entry of a channel; one without rows behind the last. */
DEVICE statistics entry_of(const columns p, u32 channel, u32 i, GLOBAL const float *entries)
{
    const u32 rows = p.period / p.channels, chunk = i / rows;
    const u64 plane = (u64)p.n_chunks * p.period, at = (u64)i * p.channels + channel;
    statistics own;
    own.mean = pair_of(0.0f, 0.0f);
    own.count = own.m2 = 0.0f;
    if (i >= entries_of_channel(p)) return own;
    own.count = (float)rows_of_entry(p, chunk, i - chunk * rows);
    own.mean = pair_of(entries[at], entries[plane + at]);
    own.m2 = entries[2 * plane + at];
    return own;
}

/* A lane's share of a channel's entries, ROWS at a time: one on its way behind the other. */
DEVICE statistics join_entries(const columns p, const lane l, GLOBAL const float *entries)
{
    const u32 n = l.channel < p.channels ? entries_of_channel(p) : 0;
    statistics all, own[ROWS];
    all.mean = pair_of(0.0f, 0.0f);
    all.count = all.m2 = 0.0f;
    for (u32 i = l.index; i < n; i += ROWS * l.count) {
        UNROLL for (u32 k = 0; k < ROWS; k++)
            own[k] = entry_of(p, l.channel, i + k * l.count, entries);
        UNROLL for (u32 k = 0; k < ROWS; k++)
            all = join(all, own[k]);
    }
    return all;
}

/* entries -> part (3,channels).  Whole groups. */
KERNEL void dpt_batch_norm_part(OUT(float, part), IN(float, entries), const columns_merge p)
{
    SHARED float count[GROUP], high[GROUP], low[GROUP], m2[GROUP];
    TENSOR_OUT(float, part);
    TENSOR_IN(float, entries);
    const lane l = lane_of(p);
    const u32 at = LOCAL_ID;
    statistics all = join_entries(p.grid, l, entries), other;
    for (u32 reach = l.count / 2; reach > 0; reach /= 2) {
        count[at] = all.count;
        high[at] = all.mean.high;
        low[at] = all.mean.low;
        m2[at] = all.m2;
        BARRIER();
        if (l.index < reach) {
            const u32 from = at + reach * p.across;
            other.count = count[from];
            other.mean = pair_of(high[from], low[from]);
            other.m2 = m2[from];
            all = join(all, other);
        }
        BARRIER();
    }
    if (l.index > 0 || l.channel >= p.grid.channels) return;
    part[l.channel] = all.count;
    part[(u64)p.grid.channels + l.channel] = pair_value(all.mean);
    part[(u64)2 * p.grid.channels + l.channel] = all.m2;
}

/* ---- All devices' parts ---------------------------------------------------------------------- */

typedef struct pair_statistics {
    pair count, mean, m2;
} pair_statistics;

/* parts (n_parts,3,channels): those of one channel, in their order. */
DEVICE pair_statistics join_parts(GLOBAL const float *parts, const batch_norm_merge_params p,
                                  u32 channel)
{
    pair_statistics all;
    all.count = all.mean = all.m2 = pair_of(0.0f, 0.0f);
    for (u32 i = 0; i < p.n_parts; i++) {
        GLOBAL const float *part = parts + (u64)i * 3 * p.channels + channel;
        const pair count = pair_of(part[0], 0.0f);
        const pair mean = pair_of(part[p.channels], 0.0f);
        const pair m2 = pair_of(part[(u64)2 * p.channels], 0.0f);
        if (count.high == 0.0f) continue;
        const pair total = pair_add(all.count, count);
        const pair share = pair_divide(count, total);
        const pair delta = pair_add(mean, pair_negative(all.mean));
        const pair between =
            pair_multiply(pair_multiply(delta, delta), pair_multiply(all.count, share));
        all.mean = pair_add(all.mean, pair_multiply(delta, share));
        all.m2 = pair_add(pair_add(all.m2, m2), between);
        all.count = total;
    }
    return all;
}

/* To a running statistic. */
DEVICE void add_share(GLOBAL float *to, pair value, float share, const batch_norm_merge_params p)
{
    const float before = p.accumulate ? *to : 0.0f;
    *to = p.n_samples > 0 ? FMA(pair_value(value), share, before) : before;
}

/* parts (n_parts,3,channels) -> moments (3,channels), mean, variance.  An item a channel. */
KERNEL void dpt_batch_norm_merge(OUT(float, moments), OUT(float, mean), OUT(float, variance),
                                 IN(float, parts), IN(u32, step), const batch_norm_merge_params p)
{
    TENSOR_OUT(float, moments);
    TENSOR_OUT(float, mean);
    TENSOR_OUT(float, variance);
    TENSOR_IN(float, parts);
    TENSOR_IN(u32, step);
    if (GLOBAL_ID >= p.channels) return;
    const u32 c = (u32)GLOBAL_ID;
    const float share = (float)p.n_samples * AS_FLOAT(step[STEP_INV_BATCH]);
    const pair zero = pair_of(0.0f, 0.0f), one = pair_of(1.0f, 0.0f);
    const pair_statistics all = join_parts(parts, p, c);
    const bool any = all.count.high > 0.0f, several = all.count.high > 1.0f;
    const pair inverse = any ? pair_divide(one, all.count) : zero;
    const pair others = pair_add(all.count, pair_of(-1.0f, 0.0f));
    moments[c] = pair_value(all.mean);
    moments[(u64)p.channels + c] =
        inverse_deviation(any ? pair_divide(all.m2, all.count) : zero, p.epsilon);
    moments[(u64)2 * p.channels + c] = pair_value(inverse);
    add_share(mean + c, all.mean, share, p);
    add_share(variance + c, several ? pair_divide(all.m2, others) : zero, share, p);
}

/* mean, variance -> moments (3,channels).  An item a channel. */
KERNEL void dpt_batch_norm_freeze(OUT(float, moments), IN(float, mean), IN(float, variance),
                                  const batch_norm_merge_params p)
{
    TENSOR_OUT(float, moments);
    TENSOR_IN(float, mean);
    TENSOR_IN(float, variance);
    if (GLOBAL_ID >= p.channels) return;
    const u32 c = (u32)GLOBAL_ID;
    moments[c] = mean[c];
    moments[(u64)p.channels + c] = inverse_deviation(pair_of(variance[c], 0.0f), p.epsilon);
    moments[(u64)2 * p.channels + c] = 0.0f;
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* A channel's factors at n places. */
typedef struct forward_factors {
    float mean[TILE], scale[TILE], shift[TILE];
} forward_factors;

DEVICE void normalise(const forward_factors *f, GLOBAL const act *RESTRICT x,
                      GLOBAL const act *RESTRICT residual, GLOBAL act *RESTRICT y, u32 n,
                      const batch_norm_params p)
{
    if (p.has_residual) {
        FOR_PLACES (i, n) {
            const float own = FMA(GET(x, i) - f->mean[i], f->scale[i], f->shift[i]);
            PUT(y, i, activate(ACTIVATION, own + GET(residual, i)));
        }
        return;
    }
    FOR_PLACES (i, n)
        PUT(y, i, activate(ACTIVATION, FMA(GET(x, i) - f->mean[i], f->scale[i], f->shift[i])));
}

/* ROWS rows, whose values are all on their way before the first is waited for. */
DEVICE void normalise_rows(const forward_factors *f, GLOBAL const act *x,
                           GLOBAL const act *residual, GLOBAL act *y, u64 period, u32 n,
                           const batch_norm_params p)
{
    FOR_PLACES (i, n) {
        act own[ROWS], other[ROWS];
        UNROLL for (u32 k = 0; k < ROWS; k++) {
            own[k] = x[k * period + i];
            other[k] = 0;
        }
        if (p.has_residual) {
            UNROLL for (u32 k = 0; k < ROWS; k++)
                other[k] = residual[k * period + i];
        }
        UNROLL for (u32 k = 0; k < ROWS; k++) {
            const float value = FMA(VALUE(own[k]) - f->mean[i], f->scale[i], f->shift[i]);
            const float sum = p.has_residual ? value + VALUE(other[k]) : value;
            PUT(y, k * period + i, activate(ACTIVATION, sum));
        }
    }
}

/* x (rows,channels), moments (3,channels), w, b, residual as x or none -> y as x */
KERNEL void dpt_batch_norm_forward(OUT(act, y), IN(act, x), IN(float, moments), IN(float, w),
                                   IN(float, b), IN(act, residual), const batch_norm_params p)
{
    TENSOR_OUT(act, y);
    TENSOR_IN(act, x);
    TENSOR_IN(float, moments);
    TENSOR_IN(float, w);
    TENSOR_IN(float, b);
    TENSOR_IN(act, residual);
    forward_factors f;
    if (GLOBAL_ID >= (u64)p.grid.n_chunks * p.grid.n_tiles) return;
    const tile t = tile_of(p.grid, GLOBAL_ID);
    FOR_PLACES (i, t.n) {
        const u32 c = channel_of(p.grid, t.place + i);
        f.mean[i] = moments[c];
        f.scale[i] = moments[(u64)p.grid.channels + c] * w[c];
        f.shift[i] = b[c];
    }
    u64 done = 0, at = t.begin;
    for (; !DEVICE_IS_CPU && done + ROWS <= t.n_periods; done += ROWS, at += ROWS * p.grid.period)
        normalise_rows(&f, x + at, residual + at, y + at, p.grid.period, t.n, p);
    for (; done < t.n_periods; done++, at += p.grid.period)
        normalise(&f, x + at, residual + at, y + at, t.n, p);
    normalise(&f, x + at, residual + at, y + at, t.rest, p);
}

/* ---- Backward: sums of chunks ---------------------------------------------------------------- */

/* Running sums of dy and of dy * (x - mean), each in two floats. */
typedef struct backward_sums {
    float mean[TILE], sum[TILE], sum_low[TILE], product[TILE], product_low[TILE];
} backward_sums;

DEVICE void add_terms(backward_sums *s, u32 i, float sum, float product)
{
    const pair sums = pair_accumulate(pair_of(s->sum[i], s->sum_low[i]), sum);
    const pair products = pair_accumulate(pair_of(s->product[i], s->product_low[i]), product);
    s->sum[i] = sums.high;
    s->sum_low[i] = sums.low;
    s->product[i] = products.high;
    s->product_low[i] = products.low;
}

DEVICE void add_row(backward_sums *s, GLOBAL const act *dy, GLOBAL const act *x, u32 n)
{
    FOR_PLACES (i, n)
        add_terms(s, i, GET(dy, i), FMA(GET(dy, i), GET(x, i) - s->mean[i], 0.0f));
}

/* BLOCK rows. */
DEVICE void add_block(backward_sums *s, GLOBAL const act *dy, GLOBAL const act *x, u64 period,
                      u32 n)
{
    FOR_PLACES (i, n) {
        const float mean = s->mean[i];
        const float d0 = GET(dy, i), d1 = GET(dy, period + i);
        const float d2 = GET(dy, 2 * period + i), d3 = GET(dy, 3 * period + i);
        const float d4 = GET(dy, 4 * period + i), d5 = GET(dy, 5 * period + i);
        const float d6 = GET(dy, 6 * period + i), d7 = GET(dy, 7 * period + i);
        float even = d0 * (GET(x, i) - mean), odd = d1 * (GET(x, period + i) - mean);
        even = FMA(d2, GET(x, 2 * period + i) - mean, even);
        odd = FMA(d3, GET(x, 3 * period + i) - mean, odd);
        even = FMA(d4, GET(x, 4 * period + i) - mean, even);
        odd = FMA(d5, GET(x, 5 * period + i) - mean, odd);
        even = FMA(d6, GET(x, 6 * period + i) - mean, even);
        odd = FMA(d7, GET(x, 7 * period + i) - mean, odd);
        add_terms(s, i, ((d0 + d1) + (d2 + d3)) + ((d4 + d5) + (d6 + d7)), even + odd);
    }
}

/* dy, x (rows,channels), moments (3,channels) -> entries (2, n_chunks, period) */
KERNEL void dpt_batch_norm_backward_chunks(OUT(float, entries), IN(act, dy), IN(act, x),
                                           IN(float, moments), const columns p)
{
    TENSOR_OUT(float, entries);
    TENSOR_IN(act, dy);
    TENSOR_IN(act, x);
    TENSOR_IN(float, moments);
    backward_sums s;
    if (GLOBAL_ID >= (u64)p.n_chunks * p.n_tiles) return;
    const tile t = tile_of(p, GLOBAL_ID);
    u64 done = 0, at = t.begin;
    FOR_PLACES (i, t.n) {
        s.mean[i] = moments[channel_of(p, t.place + i)];
        s.sum[i] = s.sum_low[i] = s.product[i] = s.product_low[i] = 0.0f;
    }
    for (; done + BLOCK <= t.n_periods; done += BLOCK, at += (u64)BLOCK * p.period)
        add_block(&s, dy + at, x + at, p.period, t.n);
    for (; done < t.n_periods; done++, at += p.period)
        add_row(&s, dy + at, x + at, t.n);
    add_row(&s, dy + at, x + at, t.rest);
    GLOBAL float *sums = entries + t.chunk * p.period + t.place;
    GLOBAL float *products = sums + (u64)p.n_chunks * p.period;
    FOR_PLACES (i, t.n) {
        sums[i] = pair_value(pair_of(s.sum[i], s.sum_low[i]));
        products[i] = pair_value(pair_of(s.product[i], s.product_low[i]));
    }
}

/* entries, moments -> part (2,channels), dw, db.  Whole groups. */
KERNEL void dpt_batch_norm_backward_part(OUT(float, part), OUT(float, dw), OUT(float, db),
                                         IN(float, entries), IN(float, moments),
                                         const columns_merge p)
{
    SHARED float shared[4 * GROUP];
    TENSOR_OUT(float, part);
    TENSOR_OUT(float, dw);
    TENSOR_OUT(float, db);
    TENSOR_IN(float, entries);
    TENSOR_IN(float, moments);
    const lane l = lane_of(p);
    const u64 plane = (u64)p.grid.n_chunks * p.grid.period;
    two_sums own;
    own.first = sum_entries(p.grid, l, entries);
    own.second = sum_entries(p.grid, l, entries + plane);
    own = sum_lanes(shared, own, l.index, l.count, p.across);
    if (l.index > 0 || l.channel >= p.grid.channels) return;
    const pair inverse = pair_of(moments[(u64)p.grid.channels + l.channel], 0.0f);
    const float to_b = pair_value(own.first);
    const float to_w = pair_value(pair_multiply(own.second, inverse));
    part[l.channel] = to_b;
    part[(u64)p.grid.channels + l.channel] = to_w;
    db[l.channel] = p.accumulate ? db[l.channel] + to_b : to_b;
    dw[l.channel] = p.accumulate ? dw[l.channel] + to_w : to_w;
}

/* ---- Backward to the data -------------------------------------------------------------------- */

/* A channel's factors: what is taken from dy is offset + (x - mean) * slope. */
typedef struct backward_factors {
    float mean[TILE], scale[TILE], offset[TILE], slope[TILE];
} backward_factors;

DEVICE void backward_factor(backward_factors *f, u32 i, u32 c, GLOBAL const float *moments,
                            GLOBAL const float *w, GLOBAL const float *parts,
                            const batch_norm_params p)
{
    const u64 channels = p.grid.channels;
    const float inverse = moments[channels + c], inverse_count = moments[2 * channels + c];
    pair sum = pair_of(0.0f, 0.0f), product = pair_of(0.0f, 0.0f);
    for (u32 k = 0; k < p.n_parts; k++) {
        sum = pair_accumulate(sum, parts[2 * k * channels + c]);
        product = pair_accumulate(product, parts[(2 * k + 1) * channels + c]);
    }
    f->mean[i] = moments[c];
    f->scale[i] = w[c] * inverse;
    f->offset[i] = pair_value(sum) * inverse_count;
    f->slope[i] = pair_value(product) * inverse_count * inverse;
}

DEVICE void differentiate(const backward_factors *f, GLOBAL const act *RESTRICT dy,
                          GLOBAL const act *RESTRICT x, GLOBAL act *RESTRICT dx, u32 n,
                          const batch_norm_params p)
{
    FOR_PLACES (i, n) {
        const float deviation = GET(x, i) - f->mean[i];
        const float rest = FMA(-deviation, f->slope[i], GET(dy, i) - f->offset[i]);
        const float before = p.accumulate ? GET(dx, i) : 0.0f;
        PUT(dx, i, FMA(rest, f->scale[i], before) * activation_slope(ACTIVATION, GET(x, i)));
    }
}

/* ROWS rows. */
DEVICE void differentiate_rows(const backward_factors *f, GLOBAL const act *dy, GLOBAL const act *x,
                               GLOBAL act *dx, u64 period, u32 n, const batch_norm_params p)
{
    FOR_PLACES (i, n) {
        act own[ROWS], gradient[ROWS], before[ROWS];
        UNROLL for (u32 k = 0; k < ROWS; k++) {
            own[k] = x[k * period + i];
            gradient[k] = dy[k * period + i];
            before[k] = 0;
        }
        if (p.accumulate) {
            UNROLL for (u32 k = 0; k < ROWS; k++)
                before[k] = dx[k * period + i];
        }
        UNROLL for (u32 k = 0; k < ROWS; k++) {
            const float deviation = VALUE(own[k]) - f->mean[i];
            const float rest = FMA(-deviation, f->slope[i], VALUE(gradient[k]) - f->offset[i]);
            PUT(dx, k * period + i,
                FMA(rest, f->scale[i], VALUE(before[k])) *
                    activation_slope(ACTIVATION, VALUE(own[k])));
        }
    }
}

/* dy, x (rows,channels), moments (3,channels), w, parts (n_parts,2,channels) -> dx as x */
KERNEL void dpt_batch_norm_backward_data(OUT(act, dx), IN(act, dy), IN(act, x), IN(float, moments),
                                         IN(float, w), IN(float, parts), const batch_norm_params p)
{
    TENSOR_OUT(act, dx);
    TENSOR_IN(act, dy);
    TENSOR_IN(act, x);
    TENSOR_IN(float, moments);
    TENSOR_IN(float, w);
    TENSOR_IN(float, parts);
    backward_factors f;
    if (GLOBAL_ID >= (u64)p.grid.n_chunks * p.grid.n_tiles) return;
    const tile t = tile_of(p.grid, GLOBAL_ID);
    FOR_PLACES (i, t.n)
        backward_factor(&f, i, channel_of(p.grid, t.place + i), moments, w, parts, p);
    u64 done = 0, at = t.begin;
    for (; !DEVICE_IS_CPU && done + ROWS <= t.n_periods; done += ROWS, at += ROWS * p.grid.period)
        differentiate_rows(&f, dy + at, x + at, dx + at, p.grid.period, t.n, p);
    for (; done < t.n_periods; done++, at += p.grid.period)
        differentiate(&f, dy + at, x + at, dx + at, t.n, p);
    differentiate(&f, dy + at, x + at, dx + at, t.rest, p);
}
