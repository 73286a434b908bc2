/* Batch-norm: statistics, their merging over devices, forward, backward.

   Statistics are the mean and M2, the sum of squared deviations.  Rows join them one after the other
   by the formula of Chan, Golub and LeVeque (1979).  No value is the difference of two large sums,
   and every value is read once.  The mean is subtracted before a multiplication: if it were part of
   the shift, two large values would cancel where the mean is large against the deviation.

   In a program with the constants ACTIVATION and MASKS the code has no branches on them.  On a GPU, a
   work item treats WIDTH places (piece.h), and loads several rows before it waits for the first. */
#include "activation.h"
#include "batch_norm.h"
#include "piece.h"

#ifndef ACTIVATION
#define ACTIVATION p.activation
#endif
#ifndef MASKS
#define MASKS p.masks
#endif

/* a * b + c: rounded once, or twice in a deterministic operator. */
#if DETERMINISTIC
#define MULTIPLY_ADD(a, b, c) ((a) * (b) + (c))
#else
#define MULTIPLY_ADD(a, b, c) FMA(a, b, c)
#endif

#define BLOCK 8u /* rows that a reduction takes at once */
#define ROWS  4u /* rows that a GPU takes at once in a kernel that writes a result for every row */

/* Some rows of a tile: on a GPU pieces that are loaded, on a CPU the address of the rows. */
#if DEVICE_IS_CPU

typedef struct rows {
    GLOBAL const act *first;
    u64 period;
} rows;

DEVICE rows rows_at(GLOBAL const act *x, u64 period, u32 n)
{
    rows r;
    (void)n;
    r.first = x;
    r.period = period;
    return r;
}

#define VALUE_AT(r, k, i) GET((r).first, (k) * (r).period + (i))

#else

typedef struct rows {
    piece of[BLOCK];
} rows;

/* Loads n rows, a constant. */
DEVICE rows rows_at(GLOBAL const act *x, u64 period, u32 n)
{
    rows r;
    UNROLL for (u32 k = 0; k < n; k++)
        r.of[k] = get_piece(x + k * period);
    return r;
}

#define VALUE_AT(r, k, i) piece_value((r).of[k], i)

/* The most items of a group whose values other items read at once: half of the group. */
#define WAITING           ((GROUP + 1) / 2)

#endif

/* ---- A device's part: statistics of chunks --------------------------------------------------- */

/* The statistics of a chunk at every place.  The mean is shift + offset, so that it is precise enough
   for the deviations also where it is large against them. */
typedef struct chunk_statistics {
    float shift[TILE], offset[TILE], m2[TILE];
} chunk_statistics;

/* Joins a row to `before` other rows, at n places. */
DEVICE void join_row(chunk_statistics *s, GLOBAL const act *x, u32 n, float before)
{
    const float share = 1.0f / (before + 1.0f), weight = before * share;
    if (n == 0) return; /* the row does not exist */
    const rows r = rows_at(x, 0, 1);
    FOR_PLACES (i, n) {
        const float delta = (VALUE_AT(r, 0, i) - s->shift[i]) - s->offset[i];
        s->offset[i] = FMA(delta, share, s->offset[i]);
        s->m2[i] = FMA(delta * delta, weight, s->m2[i]);
    }
}

/* Joins BLOCK rows to `before` other rows: the mean of the BLOCK rows, as a difference from the mean
   so far, and their squared deviations from their own mean. */
DEVICE void join_block(chunk_statistics *s, GLOBAL const act *x, u64 period, u32 n, float before)
{
    const float share = (float)BLOCK / (before + (float)BLOCK), weight = before * share;
    const rows r = rows_at(x, period, BLOCK);
    FOR_PLACES (i, n) {
        const float shift = s->shift[i], offset = s->offset[i];
        const float d0 = (VALUE_AT(r, 0, i) - shift) - offset;
        const float d1 = (VALUE_AT(r, 1, i) - shift) - offset;
        const float d2 = (VALUE_AT(r, 2, i) - shift) - offset;
        const float d3 = (VALUE_AT(r, 3, i) - shift) - offset;
        const float d4 = (VALUE_AT(r, 4, i) - shift) - offset;
        const float d5 = (VALUE_AT(r, 5, i) - shift) - offset;
        const float d6 = (VALUE_AT(r, 6, i) - shift) - offset;
        const float d7 = (VALUE_AT(r, 7, i) - shift) - offset;
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

#if !DEVICE_IS_CPU

/* Joins the statistics of a group's items for each channel, in the items of the chunk's first row.  In
   each step the items of a row join those of the row that is `reach` behind; then reach is halved.
   count: the rows of an item. */
DEVICE void join_items(LOCAL float *shared, chunk_statistics *s, float count, const columns p,
                       const tile t)
{
    const u32 across = p.channels / TILE, row = t.place / p.channels, n = p.period / p.channels;
    statistics own, other;
    FOR_PLACES (i, TILE) {
        own.mean = two_sum(s->shift[i], s->offset[i]);
        s->shift[i] = own.mean.high;
        s->offset[i] = own.mean.low;
    }
    for (u32 reach = p.reach; reach > 0; reach /= 2) {
        if (row >= reach && row < 2 * reach) {
            LOCAL float *to = shared + (LOCAL_ID - reach * across);
            to[0] = count;
            FOR_PLACES (i, TILE) {
                to[(3 * i + 1) * WAITING] = s->shift[i];
                to[(3 * i + 2) * WAITING] = s->offset[i];
                to[(3 * i + 3) * WAITING] = s->m2[i];
            }
        }
        BARRIER();
        if (row < reach && row + reach < n) {
            LOCAL const float *from = shared + LOCAL_ID;
            other.count = from[0];
            FOR_PLACES (i, TILE) {
                own.count = count;
                own.mean = pair_of(s->shift[i], s->offset[i]);
                own.m2 = s->m2[i];
                other.mean = pair_of(from[(3 * i + 1) * WAITING], from[(3 * i + 2) * WAITING]);
                other.m2 = from[(3 * i + 3) * WAITING];
                own = join(own, other);
                s->shift[i] = own.mean.high;
                s->offset[i] = own.mean.low;
                s->m2[i] = own.m2;
            }
            count += other.count;
        }
        BARRIER();
    }
}

#endif

/* x (rows,channels) -> entries (3, n_chunks, p.entries): the mean in two floats, and M2.  If p.reach
   is not 0, a group is a chunk. */
KERNEL void dpt_batch_norm_chunks(OUT(float, entries), IN(act, x), const columns p)
{
#if !DEVICE_IS_CPU
    SHARED float shared[(3 * TILE + 1) * WAITING];
#endif
    TENSOR_OUT(float, entries);
    TENSOR_IN(act, x);
    chunk_statistics s;
    if (GLOBAL_ID >= (u64)p.n_chunks * p.n_tiles) return;
    const tile t = tile_of(p, GLOBAL_ID);
    const u32 n_first = t.n_periods > 0 ? t.n : t.rest;
    u64 done = 0, at = t.begin;
#if DEVICE_IS_CPU
    FOR_PLACES (i, t.n) {
        s.shift[i] = i < n_first ? GET(x, at + i) : 0.0f;
        s.offset[i] = s.m2[i] = 0.0f;
    }
#else
    FOR_PLACES (i, t.n)
        s.shift[i] = s.offset[i] = s.m2[i] = 0.0f;
    if (n_first > 0) {
        const piece first = get_piece(x + at);
        FOR_PLACES (i, n_first)
            s.shift[i] = piece_value(first, i);
    }
#endif
    for (; done + BLOCK <= t.n_periods; done += BLOCK, at += (u64)BLOCK * p.period)
        join_block(&s, x + at, p.period, t.n, (float)done);
    for (; done < t.n_periods; done++, at += p.period)
        join_row(&s, x + at, t.n, (float)done);
    join_row(&s, x + at, t.rest, (float)done);
#if !DEVICE_IS_CPU
    join_items(shared, &s, (float)done + (t.rest > 0 ? 1.0f : 0.0f), p, t);
    if (t.place >= p.entries) return;
#endif
    const u64 plane = (u64)p.n_chunks * p.entries;
    at = t.chunk * p.entries + t.place;
    FOR_PLACES (i, t.n) {
        const pair mean = two_sum(s.shift[i], s.offset[i]);
        entries[at + i] = mean.high;
        entries[plane + at + i] = mean.low;
        entries[2 * plane + at + i] = s.m2[i];
    }
}

/* Entry i of a channel.  Behind the last entry, an entry without rows. */
DEVICE statistics entry_of(const columns p, u32 channel, u32 i, GLOBAL const float *entries)
{
    const u32 rows = p.entries / p.channels, chunk = i / rows;
    const u64 plane = (u64)p.n_chunks * p.entries, at = (u64)i * p.channels + channel;
    statistics own;
    own.mean = pair_of(0.0f, 0.0f);
    own.count = own.m2 = 0.0f;
    if (i >= entries_of_channel(p)) return own;
    own.count = (float)rows_of_entry(p, chunk, i - chunk * rows);
    own.mean = pair_of(entries[at], entries[plane + at]);
    own.m2 = entries[2 * plane + at];
    return own;
}

/* Joins a lane's entries of a channel.  ROWS entries are loaded at once. */
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

/* entries -> part (3,channels).  Groups are whole. */
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

/* ---- The parts of all devices ---------------------------------------------------------------- */

typedef struct pair_statistics {
    pair count, mean, m2;
} pair_statistics;

/* Joins the parts (n_parts,3,channels) of one channel, in their order. */
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

/* Adds a value, weighted with this device's part of the global batch, to a running statistic. */
DEVICE void add_share(GLOBAL float *to, pair value, float share, const batch_norm_merge_params p)
{
    const float before = p.accumulate ? *to : 0.0f;
    *to = p.n_samples > 0 ? FMA(pair_value(value), share, before) : before;
}

/* parts (n_parts,3,channels) -> moments (3,channels), mean, variance.  A work item for each channel.
 */
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

/* mean, variance -> moments (3,channels).  A work item for each channel. */
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

/* ---- Rows of a map --------------------------------------------------------------------------- */

/* The row loop of the kernels that write a result for every row.  MAP(at, n) is a macro of the
   kernel.  On a CPU it treats the row at element `at`, at the tile's first n places.  On a GPU it
   treats n rows, a constant, from element `at` on. */
#if DEVICE_IS_CPU
#define MAP_TILE(t, row_period, MAP)                                                               \
    do {                                                                                           \
        u64 done = 0, at = (t).begin;                                                              \
        for (; done < (t).n_periods; done++, at += (row_period))                                   \
            MAP(at, (t).n);                                                                        \
        MAP(at, (t).rest);                                                                         \
    } while (0)
#else
#define MAP_TILE(t, row_period, MAP)                                                               \
    do {                                                                                           \
        u64 done = 0, at = (t).begin;                                                              \
        for (; done + ROWS <= (t).n_periods; done += ROWS, at += (u64)ROWS * (row_period))         \
            MAP(at, ROWS);                                                                         \
        for (; done < (t).n_periods; done++, at += (row_period))                                   \
            MAP(at, 1);                                                                            \
        if ((t).rest > 0) MAP(at, 1);                                                              \
    } while (0)
#endif

/* ---- Forward --------------------------------------------------------------------------------- */

/* The factors of the channels at a tile's places. */
typedef struct forward_factors {
    float mean[TILE], scale[TILE], shift[TILE];
} forward_factors;

#if DEVICE_IS_CPU

DEVICE void forward_factor(forward_factors *f, const tile t, GLOBAL const float *moments,
                           GLOBAL const float *w, GLOBAL const float *b, const columns p)
{
    FOR_PLACES (i, t.n) {
        const u32 c = channel_of(p, t.place + i);
        f->mean[i] = moments[c];
        f->scale[i] = moments[(u64)p.channels + c] * w[c];
        f->shift[i] = b[c];
    }
}

/* Normalises a row at its first n places. */
DEVICE void normalise(const forward_factors *f, GLOBAL const act *RESTRICT x,
                      GLOBAL const act *RESTRICT residual, GLOBAL act *RESTRICT y, u32 n,
                      const batch_norm_params p)
{
    if (p.has_residual) {
        FOR_PLACES (i, n) {
            const float own = MULTIPLY_ADD(GET(x, i) - f->mean[i], f->scale[i], f->shift[i]);
            PUT(y, i, activate(ACTIVATION, own + GET(residual, i)));
        }
        return;
    }
    FOR_PLACES (i, n)
        PUT(y, i, activate(ACTIVATION, MULTIPLY_ADD(GET(x, i) - f->mean[i], f->scale[i],
                                                    f->shift[i])));
}

#else

DEVICE void forward_factor(forward_factors *f, const tile t, GLOBAL const float *moments,
                           GLOBAL const float *w, GLOBAL const float *b, const columns p)
{
    const u32 c = channel_of(p, t.place);
    float weight[TILE];
    get_floats(f->mean, moments + c);
    get_floats(f->scale, moments + (u64)p.channels + c);
    get_floats(weight, w + c);
    get_floats(f->shift, b + c);
    FOR_PLACES (i, t.n)
        f->scale[i] *= weight[i];
}

/* Normalises n rows, a constant of at most ROWS. */
DEVICE void normalise(const forward_factors *f, GLOBAL const act *x, GLOBAL const act *residual,
                      GLOBAL act *y, u32 n, const batch_norm_params p)
{
    const u64 period = p.grid.period;
    const rows own = rows_at(x, period, n);
    rows other;
    if (p.has_residual) other = rows_at(residual, period, n);
    UNROLL for (u32 k = 0; k < n; k++) {
        float values[TILE];
        FOR_PLACES (i, TILE) {
            const float value =
                MULTIPLY_ADD(VALUE_AT(own, k, i) - f->mean[i], f->scale[i], f->shift[i]);
            const float sum = p.has_residual ? value + VALUE_AT(other, k, i) : value;
            values[i] = activate(ACTIVATION, sum);
        }
        put_piece(y + k * period, values);
    }
}

#endif

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
    forward_factor(&f, t, moments, w, b, p.grid);
#define NORMALISE(at, n) normalise(&f, x + (at), residual + (at), y + (at), n, p)
    MAP_TILE(t, p.grid.period, NORMALISE);
#undef NORMALISE
}

/* ---- Backward: sums of chunks ---------------------------------------------------------------- */

/* The gradient before a ReLU.  The ReLU's input is computed again, as in forward. */
DEVICE float before_relu(float dy, float deviation, float scale, float shift)
{
    return dy * activation_slope(ACTIVATION_RELU, FMA(deviation, scale, shift));
}

/* Running sums of dy and of dy * (x - mean), each in two floats, and the factors of before_relu. */
typedef struct backward_sums {
    float scale[TILE], shift[TILE];
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

/* The gradient at a place where x has this deviation from the mean: dy, or dy before a ReLU. */
DEVICE float gradient_at(const backward_sums *s, u32 i, float dy, float deviation,
                         const batch_norm_params p)
{
    return MASKS ? before_relu(dy, deviation, s->scale[i], s->shift[i]) : dy;
}

DEVICE void add_row(backward_sums *s, GLOBAL const act *dy, GLOBAL const act *x, u32 n,
                    const batch_norm_params p)
{
    if (n == 0) return; /* the row does not exist */
    const rows d = rows_at(dy, 0, 1), v = rows_at(x, 0, 1);
    FOR_PLACES (i, n) {
        const float deviation = VALUE_AT(v, 0, i) - s->mean[i];
        const float gradient = gradient_at(s, i, VALUE_AT(d, 0, i), deviation, p);
        add_terms(s, i, gradient, FMA(gradient, deviation, 0.0f));
    }
}

/* Adds BLOCK rows to the sums. */
DEVICE void add_block(backward_sums *s, GLOBAL const act *dy, GLOBAL const act *x, u32 n,
                      const batch_norm_params p)
{
    const rows d = rows_at(dy, p.grid.period, BLOCK), v = rows_at(x, p.grid.period, BLOCK);
    FOR_PLACES (i, n) {
        const float mean = s->mean[i];
        const float v0 = VALUE_AT(v, 0, i) - mean, v1 = VALUE_AT(v, 1, i) - mean;
        const float v2 = VALUE_AT(v, 2, i) - mean, v3 = VALUE_AT(v, 3, i) - mean;
        const float v4 = VALUE_AT(v, 4, i) - mean, v5 = VALUE_AT(v, 5, i) - mean;
        const float v6 = VALUE_AT(v, 6, i) - mean, v7 = VALUE_AT(v, 7, i) - mean;
        const float d0 = gradient_at(s, i, VALUE_AT(d, 0, i), v0, p);
        const float d1 = gradient_at(s, i, VALUE_AT(d, 1, i), v1, p);
        const float d2 = gradient_at(s, i, VALUE_AT(d, 2, i), v2, p);
        const float d3 = gradient_at(s, i, VALUE_AT(d, 3, i), v3, p);
        const float d4 = gradient_at(s, i, VALUE_AT(d, 4, i), v4, p);
        const float d5 = gradient_at(s, i, VALUE_AT(d, 5, i), v5, p);
        const float d6 = gradient_at(s, i, VALUE_AT(d, 6, i), v6, p);
        const float d7 = gradient_at(s, i, VALUE_AT(d, 7, i), v7, p);
        const float even = FMA(d6, v6, FMA(d4, v4, FMA(d2, v2, d0 * v0)));
        const float odd = FMA(d7, v7, FMA(d5, v5, FMA(d3, v3, d1 * v1)));
        add_terms(s, i, ((d0 + d1) + (d2 + d3)) + ((d4 + d5) + (d6 + d7)), even + odd);
    }
}

#if !DEVICE_IS_CPU

/* Adds the sums of a group's items for each channel, in the order of join_items. */
DEVICE void add_items(LOCAL float *shared, backward_sums *s, const columns p, const tile t)
{
    const u32 across = p.channels / TILE, row = t.place / p.channels, n = p.period / p.channels;
    for (u32 reach = p.reach; reach > 0; reach /= 2) {
        if (row >= reach && row < 2 * reach) {
            LOCAL float *to = shared + (LOCAL_ID - reach * across);
            FOR_PLACES (i, TILE) {
                to[4 * i * WAITING] = s->sum[i];
                to[(4 * i + 1) * WAITING] = s->sum_low[i];
                to[(4 * i + 2) * WAITING] = s->product[i];
                to[(4 * i + 3) * WAITING] = s->product_low[i];
            }
        }
        BARRIER();
        if (row < reach && row + reach < n) {
            LOCAL const float *from = shared + LOCAL_ID;
            FOR_PLACES (i, TILE) {
                s->sum_low[i] += from[(4 * i + 1) * WAITING];
                s->product_low[i] += from[(4 * i + 3) * WAITING];
                add_terms(s, i, from[4 * i * WAITING], from[(4 * i + 2) * WAITING]);
            }
        }
        BARRIER();
    }
}

#endif

/* dy, x (rows,channels), moments (3,channels), w and b or none -> entries (2, n_chunks, entries).
   If reach is not 0, a group is a chunk. */
KERNEL void dpt_batch_norm_backward_chunks(OUT(float, entries), IN(act, dy), IN(act, x),
                                           IN(float, moments), IN(float, w), IN(float, b),
                                           const batch_norm_params p)
{
#if !DEVICE_IS_CPU
    SHARED float shared[4 * TILE * WAITING];
#endif
    TENSOR_OUT(float, entries);
    TENSOR_IN(act, dy);
    TENSOR_IN(act, x);
    TENSOR_IN(float, moments);
    TENSOR_IN(float, w);
    TENSOR_IN(float, b);
    backward_sums s;
    if (GLOBAL_ID >= (u64)p.grid.n_chunks * p.grid.n_tiles) return;
    const tile t = tile_of(p.grid, GLOBAL_ID);
    u64 done = 0, at = t.begin;
    FOR_PLACES (i, t.n) {
        const u32 c = channel_of(p.grid, t.place + i);
        s.mean[i] = moments[c];
        s.scale[i] = MASKS ? moments[(u64)p.grid.channels + c] * w[c] : 0.0f;
        s.shift[i] = MASKS ? b[c] : 0.0f;
        s.sum[i] = s.sum_low[i] = s.product[i] = s.product_low[i] = 0.0f;
    }
    for (; done + BLOCK <= t.n_periods; done += BLOCK, at += (u64)BLOCK * p.grid.period)
        add_block(&s, dy + at, x + at, t.n, p);
    for (; done < t.n_periods; done++, at += p.grid.period)
        add_row(&s, dy + at, x + at, t.n, p);
    add_row(&s, dy + at, x + at, t.rest, p);
#if !DEVICE_IS_CPU
    add_items(shared, &s, p.grid, t);
    if (t.place >= p.grid.entries) return;
#endif
    GLOBAL float *sums = entries + t.chunk * p.grid.entries + t.place;
    GLOBAL float *products = sums + (u64)p.grid.n_chunks * p.grid.entries;
    FOR_PLACES (i, t.n) {
        sums[i] = pair_value(pair_of(s.sum[i], s.sum_low[i]));
        products[i] = pair_value(pair_of(s.product[i], s.product_low[i]));
    }
}

/* entries, moments -> part (2,channels), dw, db.  Groups are whole. */
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
    const u64 plane = (u64)p.grid.n_chunks * p.grid.entries;
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

/* The factors of the channels at a tile's places.  offset + (x - mean) * slope is subtracted from dy.
 */
typedef struct backward_factors {
    float mean[TILE], scale[TILE], offset[TILE], slope[TILE];
    float shift[TILE]; /* of before_relu */
} backward_factors;

/* The sum of one value of all parts, and what follows from two of them. */
#if DETERMINISTIC
typedef double total;
#define NO_TOTAL 0.0

DEVICE total add_part(total sum, float value)
{
    return sum + (double)value;
}

DEVICE float offset_of(total sum, float inverse_count)
{
    return (float)(sum * (double)inverse_count);
}

DEVICE float slope_of(total product, float inverse_count, float inverse)
{
    return (float)(product * (double)inverse_count * (double)inverse);
}
#else
typedef pair total;
#define NO_TOTAL pair_of(0.0f, 0.0f)

DEVICE total add_part(total sum, float value)
{
    return pair_accumulate(sum, value);
}

DEVICE float offset_of(total sum, float inverse_count)
{
    return pair_value(sum) * inverse_count;
}

DEVICE float slope_of(total product, float inverse_count, float inverse)
{
    return pair_value(product) * inverse_count * inverse;
}
#endif

/* dx, from what is added to `before` if the call accumulates, and x. */
DEVICE float slope_applied(u32 activation, float x, float rest, float scale, float before,
                           u32 accumulate)
{
#if DETERMINISTIC
    const float value = rest * scale;
    return with_slope(activation, x, accumulate ? before + value : value);
#else
    (void)accumulate;
    return FMA(rest, scale, before) * activation_slope(activation, x);
#endif
}

#if DEVICE_IS_CPU

DEVICE void backward_factor(backward_factors *f, const tile t, GLOBAL const float *moments,
                            GLOBAL const float *w, GLOBAL const float *parts, GLOBAL const float *b,
                            const batch_norm_params p)
{
    const u64 channels = p.grid.channels;
    FOR_PLACES (i, t.n) {
        const u32 c = channel_of(p.grid, t.place + i);
        const float inverse = moments[channels + c], inverse_count = moments[2 * channels + c];
        total sum = NO_TOTAL, product = NO_TOTAL;
        for (u32 k = 0; k < p.n_parts; k++) {
            sum = add_part(sum, parts[2 * k * channels + c]);
            product = add_part(product, parts[(2 * k + 1) * channels + c]);
        }
        f->mean[i] = moments[c];
        f->scale[i] = w[c] * inverse;
        f->offset[i] = offset_of(sum, inverse_count);
        f->slope[i] = slope_of(product, inverse_count, inverse);
        f->shift[i] = MASKS ? b[c] : 0.0f;
    }
}

/* Computes dx of a row at its first n places. */
DEVICE void differentiate(const backward_factors *f, GLOBAL const act *RESTRICT dy,
                          GLOBAL const act *RESTRICT x, GLOBAL act *RESTRICT dx, u32 n,
                          const batch_norm_params p)
{
    FOR_PLACES (i, n) {
        const float deviation = GET(x, i) - f->mean[i];
        const float gradient =
            MASKS ? before_relu(GET(dy, i), deviation, f->scale[i], f->shift[i]) : GET(dy, i);
        const float rest = MULTIPLY_ADD(-deviation, f->slope[i], gradient - f->offset[i]);
        const float before = p.accumulate ? GET(dx, i) : 0.0f;
        PUT(dx, i,
            slope_applied(ACTIVATION, GET(x, i), rest, f->scale[i], before, p.accumulate));
    }
}

#else

DEVICE void backward_factor(backward_factors *f, const tile t, GLOBAL const float *moments,
                            GLOBAL const float *w, GLOBAL const float *parts, GLOBAL const float *b,
                            const batch_norm_params p)
{
    const u64 channels = p.grid.channels;
    const u32 c = channel_of(p.grid, t.place);
    float inverse[TILE], inverse_count[TILE], sum[TILE], product[TILE];
    total sums[TILE], products[TILE];
    get_floats(f->mean, moments + c);
    get_floats(inverse, moments + channels + c);
    get_floats(inverse_count, moments + 2 * channels + c);
    get_floats(f->scale, w + c);
    if (MASKS) get_floats(f->shift, b + c);
    FOR_PLACES (i, t.n)
        sums[i] = products[i] = NO_TOTAL;
    for (u32 k = 0; k < p.n_parts; k++) {
        get_floats(sum, parts + 2 * k * channels + c);
        get_floats(product, parts + (2 * k + 1) * channels + c);
        FOR_PLACES (i, t.n) {
            sums[i] = add_part(sums[i], sum[i]);
            products[i] = add_part(products[i], product[i]);
        }
    }
    FOR_PLACES (i, t.n) {
        f->scale[i] *= inverse[i];
        f->offset[i] = offset_of(sums[i], inverse_count[i]);
        f->slope[i] = slope_of(products[i], inverse_count[i], inverse[i]);
    }
}

/* Computes dx of n rows, a constant of at most ROWS. */
DEVICE void differentiate(const backward_factors *f, GLOBAL const act *dy, GLOBAL const act *x,
                          GLOBAL act *dx, u32 n, const batch_norm_params p)
{
    const u64 period = p.grid.period;
    const rows v = rows_at(x, period, n), gradient = rows_at(dy, period, n);
    rows before;
    if (p.accumulate) before = rows_at(dx, period, n);
    UNROLL for (u32 k = 0; k < n; k++) {
        float values[TILE];
        FOR_PLACES (i, TILE) {
            const float value = VALUE_AT(v, k, i), deviation = value - f->mean[i];
            const float stored = VALUE_AT(gradient, k, i);
            const float own =
                MASKS ? before_relu(stored, deviation, f->scale[i], f->shift[i]) : stored;
            const float rest = MULTIPLY_ADD(-deviation, f->slope[i], own - f->offset[i]);
            const float sum = p.accumulate ? VALUE_AT(before, k, i) : 0.0f;
            values[i] = slope_applied(ACTIVATION, value, rest, f->scale[i], sum, p.accumulate);
        }
        put_piece(dx + k * period, values);
    }
}

#endif

/* dy, x (rows,channels), moments (3,channels), w, parts (n_parts,2,channels), b or none -> dx as x
 */
KERNEL void dpt_batch_norm_backward_data(OUT(act, dx), IN(act, dy), IN(act, x), IN(float, moments),
                                         IN(float, w), IN(float, parts), IN(float, b),
                                         const batch_norm_params p)
{
    TENSOR_OUT(act, dx);
    TENSOR_IN(act, dy);
    TENSOR_IN(act, x);
    TENSOR_IN(float, moments);
    TENSOR_IN(float, w);
    TENSOR_IN(float, parts);
    TENSOR_IN(float, b);
    backward_factors f;
    if (GLOBAL_ID >= (u64)p.grid.n_chunks * p.grid.n_tiles) return;
    const tile t = tile_of(p.grid, GLOBAL_ID);
    backward_factor(&f, t, moments, w, parts, b, p);
#define DIFFERENTIATE(at, n) differentiate(&f, dy + (at), x + (at), dx + (at), n, p)
    MAP_TILE(t, p.grid.period, DIFFERENTIATE);
#undef DIFFERENTIATE
}
