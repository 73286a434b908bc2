/* Deterministic sums of batch-norm and layer-norm over the rows of all samples, and the moments of
   batch-norm.

   Each sample is summed up by itself.  Row r goes to lane r % NORM_LANES.  A lane is a sum in
   float32 in the order of its rows.  The lanes are added in double precision in their order, and so
   are the samples of a grain.  The sums of grains are added up along the tree (tree_params.h), and
   the moments of each grain are a row of their own. */
#include "batch_norm.h"
#include "functions.h"
#include "norm_fixed_params.h"
#include "span.h"
#include "tree_params.h"

#ifndef MASKS
#define MASKS p.masks
#endif

#if DEVICE_IS_CPU || GROUP < NORM_LANES
#define BY_ITEMS 0 /* an item sums up a tile of a sample */
#define WIDTH_OF_TILE NORM_CPU_WIDTH
#else
#define BY_ITEMS 1
#define WIDTH_OF_TILE 1u
#endif

/* ---- Terms ----------------------------------------------------------------------------------- */

/* What is summed up. */
#define VALUES     0u /* x */
#define DEVIATIONS 1u /* x - mean, and its square */
#define PRODUCTS   2u /* dy, and dy * (x - mean) */
#define MASKED     3u /* the same of the gradient before a ReLU */
#define WEIGHTS    4u /* dy, and dy * xhat */

typedef struct two_terms {
    float first, second;
} two_terms;

/* a: x of VALUES and DEVIATIONS, else dy.  scale: of WEIGHTS the inverse deviation. */
DEVICE two_terms terms_of(u32 what, float a, float x, float mean, float scale, float shift)
{
    const float deviation = (what <= DEVIATIONS ? a : x) - mean;
    two_terms t;
    t.first = a;
    t.second = 0.0f;
    if (what == DEVIATIONS) {
        t.first = deviation;
        t.second = deviation * deviation;
    }
    if (what == MASKED) t.first = a * (FMA(deviation, scale, shift) > 0.0f ? 1.0f : 0.0f);
    if (what == PRODUCTS || what == MASKED) t.second = t.first * deviation;
    if (what == WEIGHTS) t.second = a * (deviation * scale);
    return t;
}

/* ---- The sums of a sample -------------------------------------------------------------------- */

/* The channels of a sample that an item treats. */
typedef struct part {
    u64 sample;
    u32 channel; /* the first one */
    u32 n;       /* channels; 0: the item has none */
    u32 lane;
    u64 begin; /* the first element */
} part;

/* Factors of a part's channels. */
typedef struct factors {
    float mean[WIDTH_OF_TILE], scale[WIDTH_OF_TILE], shift[WIDTH_OF_TILE];
} factors;

typedef struct sums {
    double first[WIDTH_OF_TILE], second[WIDTH_OF_TILE];
} sums;

DEVICE part part_of(const norm_fixed_params p)
{
    part t;
#if BY_ITEMS
    const u32 items = p.width * NORM_LANES, tile = GROUP_ID(0) % p.n_tiles;
    const u32 own = LOCAL_ID % items;
    t.sample = (u64)(GROUP_ID(0) / p.n_tiles) * (GROUP / items) + LOCAL_ID / items;
    t.lane = own / p.width;
    t.channel = tile * p.width + own % p.width;
    t.n = t.sample < p.n_samples && t.channel < p.channels ? 1 : 0;
#else
    const u32 tile = (u32)(GLOBAL_ID % p.n_tiles);
    t.sample = GLOBAL_ID / p.n_tiles;
    t.lane = 0;
    t.channel = tile * p.width;
    t.n = p.channels - t.channel < p.width ? p.channels - t.channel : p.width;
    if (t.sample >= p.n_samples) t.n = 0;
#endif
    t.begin = t.sample * p.rows * p.channels + t.channel;
    return t;
}

/* A loop over the channels of a part. */
#if BY_ITEMS
#define FOR_CHANNELS(i, t) UNROLL for (u32 i = 0; i < 1u; i++) if ((t).n > 0)
#elif DEVICE_IS_CPU
#define FOR_CHANNELS(i, t) SPAN_INDEPENDENT for (u64 i = 0; i < (t).n; i++)
#else
#define FOR_CHANNELS(i, t) for (u32 i = 0; i < (t).n; i++)
#endif

#if BY_ITEMS
#define SHARED_SUMS 2u * GROUP
#else
#define SHARED_SUMS 1u
#endif

/* Sums up the rows of a part.  `moments` are those of the sample's rows, for WEIGHTS.  Every item of
   the group calls it. */
DEVICE void sum_up(LOCAL float *shared, u32 what, GLOBAL const float *a, GLOBAL const float *x,
                   GLOBAL const float *moments, const factors *f, const part t,
                   const norm_fixed_params p, sums *out)
{
    const u32 lanes_of_item = BY_ITEMS ? 1u : NORM_LANES;
    float first[BY_ITEMS ? 1 : NORM_LANES * WIDTH_OF_TILE];
    float second[BY_ITEMS ? 1 : NORM_LANES * WIDTH_OF_TILE];
    for (u32 i = 0; i < lanes_of_item * WIDTH_OF_TILE; i++)
        first[i] = second[i] = 0.0f;
    for (u32 r = t.lane; r < p.rows && t.n > 0; r += BY_ITEMS ? NORM_LANES : 1u) {
        const u32 to = BY_ITEMS ? 0u : r % NORM_LANES * WIDTH_OF_TILE;
        GLOBAL const float *const a_row = a + t.begin + (u64)r * p.channels;
        GLOBAL const float *const x_row = x + t.begin + (u64)r * p.channels;
        const float row_mean = what == WEIGHTS ? moments[2 * r] : 0.0f;
        const float row_scale = what == WEIGHTS ? moments[2 * r + 1] : 0.0f;
        FOR_CHANNELS (i, t) {
            const two_terms of =
                terms_of(what, a_row[i], what >= PRODUCTS ? x_row[i] : 0.0f,
                         what == WEIGHTS ? row_mean : f->mean[i],
                         what == WEIGHTS ? row_scale : f->scale[i], f->shift[i]);
            first[to + i] += of.first;
            if (what != VALUES) second[to + i] += of.second;
        }
    }
#if BY_ITEMS
    LOCAL const float *const lanes = shared + (LOCAL_ID - t.lane * p.width);
    shared[LOCAL_ID] = first[0];
    shared[GROUP + LOCAL_ID] = second[0];
    BARRIER();
    out->first[0] = out->second[0] = 0.0;
    for (u32 k = 0; k < NORM_LANES; k++) {
        out->first[0] += (double)lanes[k * p.width];
        out->second[0] += (double)lanes[GROUP + k * p.width];
    }
    BARRIER();
#else
    (void)shared;
    for (u32 i = 0; i < WIDTH_OF_TILE; i++)
        out->first[i] = out->second[i] = 0.0;
    for (u32 k = 0; k < NORM_LANES; k++) {
        for (u32 i = 0; i < WIDTH_OF_TILE; i++) {
            out->first[i] += (double)first[k * WIDTH_OF_TILE + i];
            out->second[i] += (double)second[k * WIDTH_OF_TILE + i];
        }
    }
#endif
}

/* Writes what a part has to (n_samples,2,channels). */
DEVICE void put_sums(GLOBAL double *to, const sums *of, const part t, const norm_fixed_params p)
{
    GLOBAL double *const first = to + 2 * t.sample * p.channels + t.channel;
    if (t.lane > 0) return;
    FOR_CHANNELS (i, t) {
        first[i] = of->first[i];
        first[p.channels + i] = of->second[i];
    }
}

DEVICE factors no_factors(void)
{
    factors f;
    for (u32 i = 0; i < WIDTH_OF_TILE; i++)
        f.mean[i] = f.scale[i] = f.shift[i] = 0.0f;
    return f;
}

/* x (n,rows,channels) -> the mean and M2 of each sample (n,2,channels) */
KERNEL void dpt_norm_fixed_moments(OUT(float, samples), IN(float, x), const norm_fixed_params p)
{
    SHARED float shared[SHARED_SUMS];
    TENSOR_IN(float, x);
    const part t = part_of(p);
    const double inverse = 1.0 / (double)p.rows;
    factors f = no_factors();
    sums s;
    sum_up(shared, VALUES, x, x, x, &f, t, p, &s);
    for (u32 i = 0; i < WIDTH_OF_TILE; i++)
        f.mean[i] = (float)(s.first[i] * inverse);
    sum_up(shared, DEVIATIONS, x, x, x, &f, t, p, &s);
    for (u32 i = 0; i < WIDTH_OF_TILE; i++) {
        /* The sum of the deviations is the rounding error of the mean. */
        const double off = s.first[i] * inverse, m2 = s.second[i] - off * s.first[i];
        s.first[i] = (double)f.mean[i] + off;
        s.second[i] = m2 < 0.0 ? 0.0 : m2;
    }
    put_sums((GLOBAL double *)(samples_base + samples_place), &s, t, p);
}

/* dy, x (n,rows,channels), moments (3,channels), w and b or none -> the sums of dy and of
   dy * (x - mean) of each sample (n,2,channels).  With w and b a ReLU follows. */
KERNEL void dpt_norm_fixed_products(OUT(float, samples), IN(float, dy), IN(float, x),
                                    IN(float, moments), IN(float, w), IN(float, b),
                                    const norm_fixed_params p)
{
    SHARED float shared[SHARED_SUMS];
    TENSOR_IN(float, dy);
    TENSOR_IN(float, x);
    TENSOR_IN(float, moments);
    TENSOR_IN(float, w);
    TENSOR_IN(float, b);
    const part t = part_of(p);
    factors f = no_factors();
    sums s;
    FOR_CHANNELS (i, t) {
        const u64 c = t.channel + i;
        f.mean[i] = moments[c];
        if (MASKS) f.scale[i] = moments[p.channels + c] * w[c];
        if (MASKS) f.shift[i] = b[c];
    }
    if (MASKS)
        sum_up(shared, MASKED, dy, x, x, &f, t, p, &s);
    else
        sum_up(shared, PRODUCTS, dy, x, x, &f, t, p, &s);
    put_sums((GLOBAL double *)(samples_base + samples_place), &s, t, p);
}

/* dy, x (n,rows,channels), moments (n,rows,2) -> the sums of dy and of dy * xhat of each sample
   (n,2,channels) */
KERNEL void dpt_norm_fixed_weights(OUT(float, samples), IN(float, dy), IN(float, x),
                                   IN(float, moments), const norm_fixed_params p)
{
    SHARED float shared[SHARED_SUMS];
    TENSOR_IN(float, dy);
    TENSOR_IN(float, x);
    TENSOR_IN(float, moments);
    const part t = part_of(p);
    const factors f = no_factors();
    sums s;
    sum_up(shared, WEIGHTS, dy, x, moments + 2 * t.sample * p.rows, &f, t, p, &s);
    put_sums((GLOBAL double *)(samples_base + samples_place), &s, t, p);
}

/* ---- The samples of a grain ------------------------------------------------------------------ */

/* Mean and M2 of some values. */
typedef struct statistics {
    double count, mean, m2;
} statistics;

/* Merges other values into `all` (Chan, Golub and LeVeque 1979). */
DEVICE statistics merged(statistics all, double count, double mean, double m2)
{
    const double total = all.count + count, delta = mean - all.mean;
    const double by_mean = total > 0.0 ? count / total : 0.0;
    const double by_m2 = total > 0.0 ? all.count * (count / total) : 0.0;
    all.mean += delta * by_mean;
    all.m2 += m2 + delta * delta * by_m2;
    all.count = total;
    return all;
}

DEVICE statistics no_statistics(void)
{
    statistics all;
    all.count = all.mean = all.m2 = 0.0;
    return all;
}

/* The samples of a grain. */
typedef struct grain_samples {
    u64 begin, end;
} grain_samples;

DEVICE grain_samples samples_of(u32 grain, const norm_fixed_params p)
{
    const u64 begin = grain * p.grain, left = p.n_samples - begin;
    grain_samples s;
    s.begin = begin;
    s.end = begin + (p.grain < left ? p.grain : left);
    return s;
}

/* samples (n,2,channels) -> part (n_grains,3,channels).  An item for each channel of each grain. */
KERNEL void dpt_norm_fixed_part(OUT(float, part), IN(float, samples), const norm_fixed_params p)
{
    TENSOR_OUT(float, part);
    const u32 grain = (u32)(GLOBAL_ID / p.channels), c = (u32)(GLOBAL_ID % p.channels);
    const grain_samples own = samples_of(grain, p);
    const u64 distance = 2 * (u64)p.channels;
    GLOBAL const double *of =
        (GLOBAL const double *)(samples_base + samples_place) + own.begin * distance + c;
    GLOBAL float *const row = part + (u64)grain * 3u * p.channels + c;
    statistics all = no_statistics();
    if (grain >= p.n_grains) return;
    for (u64 i = own.begin; i < own.end; i++, of += distance)
        all = merged(all, (double)p.rows, of[0], of[p.channels]);
    row[0] = (float)((own.end - own.begin) * p.rows);
    row[p.channels] = (float)all.mean;
    row[distance] = (float)all.m2;
}

/* ---- Sums of all samples --------------------------------------------------------------------- */

/* On a GPU a group treats some channels with an item for each grain of each channel, and the item
   of the first grain adds up the tree.  On a CPU an item has all grains of a channel. */
#if BY_ITEMS
#define CHANNELS_OF_GROUP (GROUP / NORM_LANES)
#endif

typedef struct two_floats {
    float first, second;
} two_floats;

/* The channel of a work item. */
DEVICE u64 own_channel(void)
{
#if BY_ITEMS
    return (u64)GROUP_ID(0) * CHANNELS_OF_GROUP + LOCAL_ID % CHANNELS_OF_GROUP;
#else
    return GLOBAL_ID;
#endif
}

/* Whether the item has the sums of its channel. */
DEVICE bool has_sums(u64 c, const norm_fixed_params p)
{
#if BY_ITEMS
    return LOCAL_ID < CHANNELS_OF_GROUP && c < p.channels;
#else
    return c < p.channels;
#endif
}

/* The sums of channel c over the samples of a grain.  The second one is multiplied by `factor`.
   With `gives` they are also written to part (n_grains,2,channels). */
DEVICE two_floats sums_of_grain(GLOBAL const double *samples, u64 c, u32 grain, double factor,
                                u32 gives, GLOBAL float *part, const norm_fixed_params p)
{
    const grain_samples own = samples_of(grain, p);
    const u64 distance = 2 * (u64)p.channels;
    GLOBAL const double *of = samples + own.begin * distance + c;
    double first = 0.0, second = 0.0;
    two_floats sums;
    for (u64 i = own.begin; i < own.end; i++, of += distance) {
        first += of[0];
        second += of[p.channels];
    }
    sums.first = (float)first;
    sums.second = (float)(second * factor);
    if (gives) {
        part[grain * distance + c] = sums.first;
        part[grain * distance + p.channels + c] = sums.second;
    }
    return sums;
}

/* The sums of channel c over all samples, for the item that has_sums; as sums_of_grain. */
DEVICE two_floats sums_of_grains(LOCAL float *shared, GLOBAL const double *samples, u64 c,
                                 double factor, u32 gives, GLOBAL float *part,
                                 const norm_fixed_params p)
{
    float first[TREE_LEVELS], second[TREE_LEVELS];
    two_floats all;
    all.first = all.second = 0.0f;
#if BY_ITEMS
    const u32 own = LOCAL_ID / CHANNELS_OF_GROUP;
    if (own < p.n_grains && c < p.channels) {
        const two_floats sums = sums_of_grain(samples, c, own, factor, gives, part, p);
        shared[LOCAL_ID] = sums.first;
        shared[GROUP + LOCAL_ID] = sums.second;
    }
    BARRIER();
#endif
    for (u32 grain = 0; grain < p.n_grains && has_sums(c, p); grain++) {
        const bool is_last = grain + 1 == p.n_grains;
#if BY_ITEMS
        two_floats sums;
        sums.first = shared[grain * CHANNELS_OF_GROUP + LOCAL_ID];
        sums.second = shared[GROUP + grain * CHANNELS_OF_GROUP + LOCAL_ID];
#else
        const two_floats sums = sums_of_grain(samples, c, grain, factor, gives, part, p);
#endif
        all.first = tree_add(first, sums.first, grain, is_last);
        all.second = tree_add(second, sums.second, grain, is_last);
    }
    (void)shared;
    return all;
}

/* samples (n,2,channels), moments (3,channels) -> part (n_grains,2,channels), dw, db. */
KERNEL void dpt_norm_fixed_backward_part(OUT(float, part), OUT(float, dw), OUT(float, db),
                                         IN(float, samples), IN(float, moments),
                                         const norm_fixed_params p)
{
    SHARED float shared[SHARED_SUMS];
    TENSOR_OUT(float, part);
    TENSOR_OUT(float, dw);
    TENSOR_OUT(float, db);
    TENSOR_IN(float, moments);
    const u64 c = own_channel();
    const double inverse = c < p.channels ? (double)moments[p.channels + c] : 0.0;
    const two_floats all =
        sums_of_grains(shared, (GLOBAL const double *)(samples_base + samples_place), c, inverse,
                       1u, part, p);
    if (!has_sums(c, p)) return;
    db[c] = p.accumulate ? db[c] + all.first : all.first;
    dw[c] = p.accumulate ? dw[c] + all.second : all.second;
}

/* samples (n,2,channels) -> dw, db of a layer-norm. */
KERNEL void dpt_norm_fixed_layer_part(OUT(float, dw), OUT(float, db), IN(float, samples),
                                      const norm_fixed_params p)
{
    SHARED float shared[SHARED_SUMS];
    TENSOR_OUT(float, dw);
    TENSOR_OUT(float, db);
    const u64 c = own_channel();
    const two_floats all =
        sums_of_grains(shared, (GLOBAL const double *)(samples_base + samples_place), c, 1.0, 0u,
                       dw, p);
    if (!has_sums(c, p)) return;
    db[c] = p.accumulate ? db[c] + all.first : all.first;
    dw[c] = p.accumulate ? dw[c] + all.second : all.second;
}

/* ---- The moments of batch-norm --------------------------------------------------------------- */

DEVICE float inverse_deviation_of(double variance, float epsilon)
{
    return (float)(1.0 / sqrt(variance + (double)epsilon));
}

/* Adds a value, weighted with this device's part of the global batch, to a running statistic, grain
   by grain.  inverse: 1 / the samples of the global batch. */
DEVICE void add_share(GLOBAL float *to, double value, double inverse,
                      const batch_norm_merge_params p)
{
    float waiting[TREE_LEVELS], added = 0.0f;
    u32 grain = 0;
    for (u64 at = 0; at < p.n_samples; at += p.grain, grain++) {
        const u64 left = p.n_samples - at, samples = p.grain < left ? p.grain : left;
        added = tree_add(waiting, (float)(value * ((double)samples * inverse)), grain,
                         left <= p.grain);
    }
    *to = p.accumulate ? *to + added : added;
}

/* parts (n_parts,3,channels) -> moments (3,channels), mean, variance.  An item for each channel. */
KERNEL void dpt_norm_fixed_merge(OUT(float, moments), OUT(float, mean), OUT(float, variance),
                                 IN(float, parts), IN(u32, step), const batch_norm_merge_params p)
{
    TENSOR_OUT(float, moments);
    TENSOR_OUT(float, mean);
    TENSOR_OUT(float, variance);
    TENSOR_IN(u32, step);
    const u64 c = GLOBAL_ID;
    GLOBAL const float *part = parts_base + parts_place + c;
    statistics all = no_statistics();
    if (c >= p.channels) return;
    for (u32 i = 0; i < p.n_parts; i++, part += 3 * (u64)p.channels)
        all = merged(all, (double)part[0], (double)part[p.channels],
                     (double)part[2 * (u64)p.channels]);
    const double inverse = all.count > 0.0 ? 1.0 / all.count : 0.0;
    const double of_sample = (double)AS_FLOAT(step[STEP_INV_BATCH]);
    moments[c] = (float)all.mean;
    moments[p.channels + c] = inverse_deviation_of(all.m2 * inverse, p.epsilon);
    moments[2 * (u64)p.channels + c] = (float)inverse;
    add_share(mean + c, all.mean, of_sample, p);
    add_share(variance + c, all.count > 1.0 ? all.m2 / (all.count - 1.0) : 0.0, of_sample, p);
}

/* mean, variance -> moments (3,channels).  An item for each channel. */
KERNEL void dpt_norm_fixed_freeze(OUT(float, moments), IN(float, mean), IN(float, variance),
                                  const batch_norm_merge_params p)
{
    TENSOR_OUT(float, moments);
    TENSOR_IN(float, mean);
    TENSOR_IN(float, variance);
    const u64 c = GLOBAL_ID;
    if (c >= p.channels) return;
    moments[c] = mean[c];
    moments[p.channels + c] = inverse_deviation_of((double)variance[c], p.epsilon);
    moments[2 * (u64)p.channels + c] = 0.0f;
}
