/* Layer-norm: each row of channels is normalised with its own mean and deviation.  A row is read from
   memory once, for the mean, and then from the cache, for the squared deviations.

   In a program with the constant ACTIVATION the code has no branches on it. */
#include "activation.h"
#include "layer_norm.h"

#ifndef ACTIVATION
#define ACTIVATION p.activation
#endif

/* Independent sums of a work item.  On a CPU they are the lanes of vectors. */
#if DEVICE_IS_CPU
#define LANES 64u
#else
#define LANES 1u
#endif

#define BLOCK 4u /* rows whose terms are added up before they join a sum */

typedef struct lane_sums {
    float first[LANES], second[LANES];
} lane_sums;

DEVICE two_sums fold(lane_sums *s)
{
    two_sums all;
    for (u32 reach = LANES / 2; reach > 0; reach /= 2) {
        for (u32 i = 0; i < reach; i++) {
            s->first[i] += s->first[i + reach];
            s->second[i] += s->second[i + reach];
        }
    }
    all.first = pair_of(s->first[0], 0.0f);
    all.second = pair_of(s->second[0], 0.0f);
    return all;
}

/* A row, for one of the work items of its team.  n is 0 if there is no such row. */
typedef struct row {
    u64 index;
    u64 begin; /* the first element */
    u32 n;
    u32 lane;
} row;

DEVICE row row_of(const layer_norm_params p, u32 turn)
{
    const u32 team = LOCAL_ID / p.team;
    row r;
    r.lane = LOCAL_ID - team * p.team;
    r.index = ((u64)GROUP_ID(0) * p.rows_each + turn) * p.teams + team;
    r.begin = r.index * p.channels;
    r.n = r.index < p.n_rows ? p.channels : 0;
    return r;
}

DEVICE u32 lanes_at(u32 n, u32 c)
{
    return n - c < LANES ? n - c : LANES;
}

/* ---- Forward --------------------------------------------------------------------------------- */

/* A work item's part of the sums of x - center and of its square. */
DEVICE two_sums sum_deviations(GLOBAL const act *x, float center, const row r, u32 team)
{
    lane_sums s;
    for (u32 i = 0; i < LANES; i++)
        s.first[i] = s.second[i] = 0.0f;
    for (u32 c = r.lane * LANES; c < r.n; c += team * LANES) {
        const u32 n = lanes_at(r.n, c);
        for (u32 i = 0; i < n; i++) {
            const float deviation = GET(x, c + i) - center;
            s.first[i] += deviation;
            s.second[i] = FMA(deviation, deviation, s.second[i]);
        }
    }
    return fold(&s);
}

/* x (n_rows,channels), w, b -> y as x, moments (n_rows,2).  A group has team * teams items. */
KERNEL void dpt_layer_norm_forward(OUT(act, y), OUT(float, moments), IN(act, x), IN(float, w),
                                   IN(float, b), const layer_norm_params p)
{
    SHARED float shared[4 * GROUP];
    TENSOR_OUT(act, y);
    TENSOR_OUT(float, moments);
    TENSOR_IN(act, x);
    TENSOR_IN(float, w);
    TENSOR_IN(float, b);
    const float share = 1.0f / (float)p.channels;
    for (u32 turn = 0; turn < p.rows_each; turn++) {
        const row r = row_of(p, turn);
        float center = r.n > 0 ? GET(x, r.begin) : 0.0f;
        two_sums s = sum_deviations(x + r.begin, center, r, p.team);
        s = sum_lanes(shared, s, r.lane, p.team, 1);
        center += pair_value(s.first) * share;
        s = sum_deviations(x + r.begin, center, r, p.team);
        s = sum_lanes(shared, s, r.lane, p.team, 1);
        const float off = pair_value(s.first) * share; /* the rounding error of the mean */
        const float variance = pair_value(s.second) * share - off * off;
        const float mean = center + off;
        const float inverse =
            inverse_deviation(pair_of(variance < 0.0f ? 0.0f : variance, 0.0f), p.epsilon);
        for (u32 c = r.lane * LANES; c < r.n; c += p.team * LANES) {
            const u32 n = lanes_at(r.n, c);
            GLOBAL const act *from = x + r.begin + c;
            GLOBAL act *to = y + r.begin + c;
            for (u32 i = 0; i < n; i++)
                PUT(to, i, FMA((GET(from, i) - mean) * inverse, w[c + i], b[c + i]));
        }
        if (r.lane == 0 && r.n > 0) {
            moments[2 * r.index] = mean;
            moments[2 * r.index + 1] = inverse;
        }
    }
}

/* ---- Backward to the data -------------------------------------------------------------------- */

/* A work item's part of the sums of g = dy * w and of g * (x - mean). */
DEVICE two_sums sum_gradients(GLOBAL const act *dy, GLOBAL const act *x, GLOBAL const float *w,
                              float mean, const row r, u32 team)
{
    lane_sums s;
    for (u32 i = 0; i < LANES; i++)
        s.first[i] = s.second[i] = 0.0f;
    for (u32 c = r.lane * LANES; c < r.n; c += team * LANES) {
        const u32 n = lanes_at(r.n, c);
        for (u32 i = 0; i < n; i++) {
            const float g = GET(dy, c + i) * w[c + i];
            s.first[i] += g;
            s.second[i] = FMA(g, GET(x, c + i) - mean, s.second[i]);
        }
    }
    return fold(&s);
}

/* offset + (x - mean) * slope is subtracted from dy * w. */
typedef struct row_factors {
    float mean, inverse, offset, slope;
} row_factors;

DEVICE void differentiate(GLOBAL const act *RESTRICT dy, GLOBAL const act *RESTRICT x,
                          GLOBAL const float *RESTRICT w, GLOBAL act *RESTRICT dx, u32 n,
                          const row_factors f, const layer_norm_params p)
{
    for (u32 i = 0; i < n; i++) {
        const float rest = FMA(GET(dy, i), w[i], FMA(-(GET(x, i) - f.mean), f.slope, -f.offset));
        const float before = p.accumulate ? GET(dx, i) : 0.0f;
        PUT(dx, i, FMA(rest, f.inverse, before) * activation_slope(ACTIVATION, GET(x, i)));
    }
}

/* dy, x (n_rows,channels), moments (n_rows,2), w -> dx as x.  A group has team * teams items. */
KERNEL void dpt_layer_norm_backward_data(OUT(act, dx), IN(act, dy), IN(act, x), IN(float, moments),
                                         IN(float, w), const layer_norm_params p)
{
    SHARED float shared[4 * GROUP];
    TENSOR_OUT(act, dx);
    TENSOR_IN(act, dy);
    TENSOR_IN(act, x);
    TENSOR_IN(float, moments);
    TENSOR_IN(float, w);
    const float share = 1.0f / (float)p.channels;
    for (u32 turn = 0; turn < p.rows_each; turn++) {
        const row r = row_of(p, turn);
        row_factors f;
        f.mean = r.n > 0 ? moments[2 * r.index] : 0.0f;
        f.inverse = r.n > 0 ? moments[2 * r.index + 1] : 0.0f;
        two_sums s = sum_gradients(dy + r.begin, x + r.begin, w, f.mean, r, p.team);
        s = sum_lanes(shared, s, r.lane, p.team, 1);
        f.offset = pair_value(s.first) * share;
        f.slope = pair_value(s.second) * share * f.inverse * f.inverse;
        for (u32 c = r.lane * LANES; c < r.n; c += p.team * LANES) {
            const u64 at = r.begin + c;
            differentiate(dy + at, x + at, w + c, dx + at, lanes_at(r.n, c), f, p);
        }
    }
}

/* ---- Backward to the weights ----------------------------------------------------------------- */

/* Running sums of dy and of dy * xhat, each in two floats. */
typedef struct weight_sums {
    float sum[TILE], sum_low[TILE], product[TILE], product_low[TILE];
} weight_sums;

DEVICE void add_terms(weight_sums *s, u32 i, float sum, float product)
{
    const pair sums = pair_accumulate(pair_of(s->sum[i], s->sum_low[i]), sum);
    const pair products = pair_accumulate(pair_of(s->product[i], s->product_low[i]), product);
    s->sum[i] = sums.high;
    s->sum_low[i] = sums.low;
    s->product[i] = products.high;
    s->product_low[i] = products.low;
}

/* Adds n places of a row of a period.  moments: of that row. */
DEVICE void add_row(weight_sums *s, GLOBAL const act *dy, GLOBAL const act *x,
                    GLOBAL const float *moments, u32 n)
{
    if (n == 0) return; /* the row does not exist */
    const float mean = moments[0], inverse = moments[1];
    FOR_PLACES (i, n)
        add_terms(s, i, GET(dy, i), FMA(GET(dy, i), (GET(x, i) - mean) * inverse, 0.0f));
}

/* Adds n places of BLOCK periods, whose moments are `stride` floats apart. */
DEVICE void add_block(weight_sums *s, GLOBAL const act *dy, GLOBAL const act *x,
                      GLOBAL const float *moments, u64 period, u64 stride, u32 n)
{
    const float m0 = moments[0], m1 = moments[stride];
    const float m2 = moments[2 * stride], m3 = moments[3 * stride];
    const float i0 = moments[1], i1 = moments[stride + 1];
    const float i2 = moments[2 * stride + 1], i3 = moments[3 * stride + 1];
    FOR_PLACES (i, n) {
        const float d0 = GET(dy, i), d1 = GET(dy, period + i);
        const float d2 = GET(dy, 2 * period + i), d3 = GET(dy, 3 * period + i);
        float product = d0 * ((GET(x, i) - m0) * i0);
        product = FMA(d1, (GET(x, period + i) - m1) * i1, product);
        product = FMA(d2, (GET(x, 2 * period + i) - m2) * i2, product);
        product = FMA(d3, (GET(x, 3 * period + i) - m3) * i3, product);
        add_terms(s, i, (d0 + d1) + (d2 + d3), product);
    }
}

/* dy, x (n_rows,channels), moments (n_rows,2) -> entries (2, n_chunks, period).  A tile lies within a
   row of the period. */
KERNEL void dpt_layer_norm_chunks(OUT(float, entries), IN(act, dy), IN(act, x), IN(float, moments),
                                  const columns p)
{
    TENSOR_OUT(float, entries);
    TENSOR_IN(act, dy);
    TENSOR_IN(act, x);
    TENSOR_IN(float, moments);
    weight_sums s;
    if (GLOBAL_ID >= (u64)p.n_chunks * p.n_tiles) return;
    const tile t = tile_of(p, GLOBAL_ID);
    const u64 rows = p.period / p.channels, stride = 2 * rows;
    GLOBAL const float *of_row =
        moments + t.chunk * p.each * stride + (u64)2 * (t.place / p.channels);
    u64 done = 0, at = t.begin;
    FOR_PLACES (i, t.n)
        s.sum[i] = s.sum_low[i] = s.product[i] = s.product_low[i] = 0.0f;
    for (; done + BLOCK <= t.n_periods; done += BLOCK, at += (u64)BLOCK * p.period)
        add_block(&s, dy + at, x + at, of_row + done * stride, p.period, stride, t.n);
    for (; done < t.n_periods; done++, at += p.period)
        add_row(&s, dy + at, x + at, of_row + done * stride, t.n);
    add_row(&s, dy + at, x + at, of_row + done * stride, t.rest);
    GLOBAL float *sums = entries + t.chunk * p.period + t.place;
    GLOBAL float *products = sums + (u64)p.n_chunks * p.period;
    FOR_PLACES (i, t.n) {
        sums[i] = pair_value(pair_of(s.sum[i], s.sum_low[i]));
        products[i] = pair_value(pair_of(s.product[i], s.product_low[i]));
    }
}

/* entries -> dw, db.  Groups are whole. */
KERNEL void dpt_layer_norm_weights(OUT(float, dw), OUT(float, db), IN(float, entries),
                                   const columns_merge p)
{
    SHARED float shared[4 * GROUP];
    TENSOR_OUT(float, dw);
    TENSOR_OUT(float, db);
    TENSOR_IN(float, entries);
    const lane l = lane_of(p);
    two_sums own;
    own.first = sum_entries(p.grid, l, entries);
    own.second = sum_entries(p.grid, l, entries + (u64)p.grid.n_chunks * p.grid.period);
    own = sum_lanes(shared, own, l.index, l.count, p.across);
    if (l.index > 0 || l.channel >= p.grid.channels) return;
    const float to_b = pair_value(own.first), to_w = pair_value(own.second);
    db[l.channel] = p.accumulate ? db[l.channel] + to_b : to_b;
    dw[l.channel] = p.accumulate ? dw[l.channel] + to_w : to_w;
}
