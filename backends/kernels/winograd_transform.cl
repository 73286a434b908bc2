/* Winograd's transforms of images, gradients, filters and products (winograd.h).  If channels are
   vectors, a work item treats all channels of a tile, WIDTH at a time, and is a group.  Otherwise
   neighbouring work items are neighbouring channels. */
#include "winograd_taps.h"
#include "winograd_tile.h"

/* Runs through the chunks of a row that belong to the work item. */
#if WIDTH > 1
#define FOR_CHUNKS(row, chunk, n_rows, n_chunks)                                                   \
    const u32 row = GROUP_ID(0);                                                                   \
    for (u32 chunk = 0; chunk < (n_chunks); chunk++)
#else
#define FOR_CHUNKS(row, chunk, n_rows, n_chunks)                                                   \
    const u32 row = (u32)GLOBAL_ID / (n_chunks), chunk = (u32)GLOBAL_ID - row * (n_chunks);        \
    if (row < (n_rows))
#endif

/* x -> v: POINTS x POINTS values of every tile. */
KERNEL void winograd_data(OUT(float, v), IN(float, x), const winograd_images p)
{
    TENSOR_OUT(float, v);
    TENSOR_IN(float, x);
    FOR_CHUNKS (row, chunk, p.n_rows, p.layout.chunks)
        transform_data_tile(v, x, &p, row, row, chunk);
}

/* dy -> v: POINTS x POINTS values of every tile of TILE x TILE. */
KERNEL void winograd_gradient(OUT(float, v), IN(float, dy), const winograd_images p)
{
    TENSOR_OUT(float, v);
    TENSOR_IN(float, dy);
    FOR_CHUNKS (row, chunk, p.n_rows, p.layout.chunks)
        transform_gradient_tile(v, dy, &p, row, row, chunk);
}

/* ---- Filters --------------------------------------------------------------------------------- */

/* Loads a tap of WIDTH depths from `depth` on, of one lane.  If lanes are neighbours in memory,
   loads it for WIDTH lanes from `lane` on, of one depth. */
DEVICE vec load_taps(GLOBAL const float *w, const winograd_filters *p, u32 lane, u32 depth, u32 tap)
{
    if (lane >= p->lanes || depth >= p->depth) return (vec)(0.0f);
    GLOBAL const float *from = w + depth * p->depth_stride + lane * p->lane_stride +
                               (p->rotated ? ALL_TAPS - 1 - tap : tap) * p->tap_stride;
    return load_lanes(from, p->lane_stride == 1 ? p->lanes - lane : p->depth - depth);
}

/* Transforms a filter to u, POINTS x POINTS values. */
DEVICE void transform_filter(const vec g[ALL_TAPS], vec u[POINTS][POINTS])
{
    vec t[POINTS][TAPS];
    UNROLL
    for (u32 j = 0; j < TAPS; j++) {
        vec taps[TAPS], column[POINTS];
        UNROLL
        for (u32 i = 0; i < TAPS; i++)
            taps[i] = g[i * TAPS + j];
        evaluate(taps, TAPS, column);
        UNROLL
        for (u32 i = 0; i < POINTS; i++)
            t[i][j] = weight_of(i) * column[i];
    }
    UNROLL
    for (u32 i = 0; i < POINTS; i++) {
        evaluate(t[i], TAPS, u[i]);
        UNROLL
        for (u32 j = 0; j < POINTS; j++)
            u[i][j] = weight_of(j) * u[i][j];
    }
}

/* The place in each point's matrix of a lane and a depth. */
DEVICE u64 filter_place(const winograd_filters *p, u32 lane, u32 depth)
{
    const u32 panel = lane / p->panel_width, rest = lane - panel * p->panel_width;
    return ((u64)panel * p->padded_depth + depth) * p->panel_width + rest;
}

#if WIDTH > 1

/* The groups are (WIDTH lanes, WIDTH depths).  If lanes are not neighbours in memory, vectors of
   depths are read and transposed: single floats at the distance of a filter would each take a cache
   line, all in a few sets.  A point is written for all depths before the next point, because a core
   cannot follow as many streams as there are points. */
KERNEL void winograd_taps(OUT(float, u), IN(float, w), const winograd_filters p)
{
    TENSOR_OUT(float, u);
    TENSOR_IN(float, w);
    const u32 lane = GROUP_ID(0) * WIDTH, first = GROUP_ID(1) * WIDTH;
    float block[ALL_TAPS][WIDTH][WIDTH]; /* [tap][depth][lane] or [tap][lane][depth] */
    for (u32 l = 0; l < WIDTH; l++) {
        for (u32 tap = 0; tap < ALL_TAPS; tap++)
            STORE(p.lane_stride == 1 ? load_taps(w, &p, lane, first + l, tap)
                                     : load_taps(w, &p, lane + l, first, tap),
                  block[tap][l]);
    }
    /* [point][depth][lane].  Points are an odd number of vectors apart, so that they use different
       sets of the cache. */
    const u32 stride = (WIDTH + 1) * WIDTH;
    float points[POINTS * POINTS * (WIDTH + 1) * WIDTH];
    for (u32 d = 0; d < WIDTH; d++) {
        vec g[ALL_TAPS], t[POINTS][POINTS];
        UNROLL
        for (u32 tap = 0; tap < ALL_TAPS; tap++) {
            float turned[WIDTH];
            UNROLL
            for (u32 l = 0; l < WIDTH; l++)
                turned[l] = block[tap][l][d];
            g[tap] = p.lane_stride == 1 ? LOAD(block[tap][d]) : LOAD(turned);
        }
        transform_filter(g, t);
        UNROLL
        for (u32 i = 0; i < POINTS * POINTS; i++)
            STORE(first + d < p.depth ? t[i / POINTS][i % POINTS] : (vec)(NOTHING),
                  points + i * stride + d * WIDTH);
    }
    GLOBAL float *to = u + filter_place(&p, lane, first);
    for (u32 point = 0; point < POINTS * POINTS; point++) {
        for (u32 d = 0; d < WIDTH; d++)
            STORE(LOAD(points + point * stride + d * WIDTH),
                  to + point * p.point_stride + d * p.panel_width);
    }
}

#else

/* The work items are lanes of depths. */
KERNEL void winograd_taps(OUT(float, u), IN(float, w), const winograd_filters p)
{
    TENSOR_OUT(float, u);
    TENSOR_IN(float, w);
    const u32 depth = (u32)GLOBAL_ID / p.n_lanes, lane = (u32)GLOBAL_ID - depth * p.n_lanes;
    if (depth >= p.padded_depth) return;
    GLOBAL float *to = u + filter_place(&p, lane, depth);
    vec g[ALL_TAPS], t[POINTS][POINTS];
    UNROLL
    for (u32 tap = 0; tap < ALL_TAPS; tap++)
        g[tap] = load_taps(w, &p, lane, depth, tap);
    transform_filter(g, t);
    UNROLL
    for (u32 i = 0; i < POINTS * POINTS; i++)
        to[i * p.point_stride] = t[i / POINTS][i % POINTS];
}

#endif

/* ---- Results --------------------------------------------------------------------------------- */

/* m -> y: the products of every tile to TILE x TILE results.  x: for the mask. */
KERNEL void winograd_results(OUT(float, y), IN(float, m), IN(float, bias), IN(float, x),
                             const winograd_images p)
{
    TENSOR_OUT(float, y);
    TENSOR_IN(float, m);
    TENSOR_IN(float, bias);
    TENSOR_IN(float, x);
    const u32 n_chunks = (p.channels + WIDTH - 1) / WIDTH;
    FOR_CHUNKS (row, chunk, p.n_tiles, n_chunks)
        transform_back_tile(y, m + chunk_place(&p.layout, row, chunk), bias, x, &p, row,
                            chunk * WIDTH);
}

/* ---- Gradients of filters -------------------------------------------------------------------- */

/* m -> dw: of each filter and each chunk.  waiting: if the gradients of grains are added up.  A row
   is a filter, or a filter of a grain. */
KERNEL void winograd_weights_back(OUT(float, dw), OUT(float, waiting), IN(float, m),
                                  const winograd_weights p)
{
    TENSOR_OUT(float, dw);
    TENSOR_OUT(float, waiting);
    TENSOR_IN(float, m);
    const u32 n_chunks = (p.in_channels + WIDTH - 1) / WIDTH;
    const u32 n_rows = p.out_channels * (p.is_tree ? 1 : p.n_grains);
    FOR_CHUNKS (row, chunk, n_rows, n_chunks) {
        const u32 channel = chunk * WIDTH, apart = row / p.out_channels;
        const u32 filter = row - apart * p.out_channels;
        const u64 from = (u64)filter * p.row_stride + channel;
        vec taps[TAPS][TAPS];
        tap_place at;
        at.first = (u64)filter * ALL_TAPS * p.in_channels + channel;
        at.lanes = p.in_channels - channel;
        if (p.is_tree) {
            for (u32 i = 0; i < p.n_grains; i++) {
                transform_sums(m + from + i * p.grain_stride, &p, taps);
                add_grain(dw, waiting, &p, at, taps, p.first + i);
            }
        } else {
            transform_sums(m + from + apart * p.grain_stride, &p, taps);
            store_taps(dw + (p.first + apart) * p.part, &p, at, taps, p.accumulate);
        }
    }
}

/* ---- The adjoint of forward ------------------------------------------------------------------ */

/* m -> dx: the products of every tile, added up where tiles overlap.  x: for the mask.  A row is
   the regions beside each other. */
KERNEL void winograd_regions(OUT(float, dx), IN(float, m), IN(float, x), const winograd_images p)
{
    TENSOR_OUT(float, dx);
    TENSOR_IN(float, m);
    TENSOR_IN(float, x);
    const u32 n_chunks = (p.channels + WIDTH - 1) / WIDTH, in_image = p.tiles_h * p.tiles_w;
    const u32 n_rows = p.n_tiles / in_image * p.regions_h;
    FOR_CHUNKS (row, chunk, n_rows, n_chunks) {
        const u32 image = row / p.regions_h;
        region_row r;
        r.first_tile = image * in_image;
        r.row = row - image * p.regions_h;
        r.chunk = chunk;
        add_region_row(dx + image * p.image_stride, m, x + image * p.image_stride, &p, r);
    }
}

/* ---- The gradient of a bias ------------------------------------------------------------------ */

#if WIDTH > 1

/* dy -> db: a chain over the pixels of each grain.  The work items are vectors of channels. */
KERNEL void winograd_bias(OUT(float, db), IN(float, dy), const winograd_bias_params p)
{
    TENSOR_OUT(float, db);
    TENSOR_IN(float, dy);
    const u32 n_chunks = (p.channels + WIDTH - 1) / WIDTH;
    const u32 grain = GROUP_ID(0) / n_chunks;
    const u32 channel = (GROUP_ID(0) - grain * n_chunks) * WIDTH, lanes = p.channels - channel;
    const u64 first = grain * p.grain, end = min(first + p.grain, p.n_pixels);
    GLOBAL float *const to = db + grain * p.part + channel;
    vec sum = (vec)(0.0f);
    for (u64 i = first; i < end; i++)
        sum += load_lanes(dy + i * p.channels + channel, lanes);
    if (p.accumulate) sum += load_lanes(to, lanes);
    store_lanes(sum, to, lanes);
}

#else

/* A group has BIAS_CHANNELS channels of a grain.  Its items fetch a slice of pixels into local memory, while
   one item for each channel adds up the slice before: the chain would wait for each load. */
#define BIAS_CHANNELS WINOGRAD_BIAS_CHANNELS
#define BIAS_PIXELS   128
#define BIAS_LOADS    (BIAS_CHANNELS * BIAS_PIXELS / GROUP)
#define BIAS_CHAINS   (GROUP < BIAS_CHANNELS ? BIAS_CHANNELS / GROUP : 1)

/* dy: at the slice's first pixel and the group's first channel. */
DEVICE void fetch_bias(float to[BIAS_LOADS], GLOBAL const float *dy, u32 channels, u32 left,
                       u64 pixels)
{
    UNROLL
    for (u32 i = 0; i < BIAS_LOADS; i++) {
        const u32 at = i * GROUP + LOCAL_ID, pixel = at / BIAS_CHANNELS, c = at % BIAS_CHANNELS;
        to[i] = pixel < pixels && c < left ? dy[(u64)pixel * channels + c] : 0.0f;
    }
}

/* dy -> db: a chain over the pixels of each grain. */
KERNEL void winograd_bias(OUT(float, db), IN(float, dy), const winograd_bias_params p)
{
    SHARED float slice[BIAS_CHANNELS * BIAS_PIXELS];
    TENSOR_OUT(float, db);
    TENSOR_IN(float, dy);
    const u32 n_columns = (p.channels + BIAS_CHANNELS - 1) / BIAS_CHANNELS;
    const u32 grain = GROUP_ID(0) / n_columns;
    const u32 channel = (GROUP_ID(0) - grain * n_columns) * BIAS_CHANNELS;
    const u32 left = p.channels - channel;
    const u64 first = grain * p.grain, end = min(first + p.grain, p.n_pixels);
    float sums[BIAS_CHAINS], next[BIAS_LOADS];
    for (u32 i = 0; i < BIAS_CHAINS; i++)
        sums[i] = 0.0f;
    fetch_bias(next, dy + first * p.channels + channel, p.channels, left, end - first);
    for (u64 pixel = first; pixel < end; pixel += BIAS_PIXELS) {
        const u64 behind = min(pixel + BIAS_PIXELS, end);
        UNROLL
        for (u32 i = 0; i < BIAS_LOADS; i++)
            slice[i * GROUP + LOCAL_ID] = next[i];
        BARRIER();
        fetch_bias(next, dy + behind * p.channels + channel, p.channels, left, end - behind);
        for (u32 i = 0; i < BIAS_CHAINS; i++) {
            const u32 c = i * GROUP + LOCAL_ID;
            if (c >= BIAS_CHANNELS) continue;
            for (u32 k = 0; k < (u32)(behind - pixel); k++)
                sums[i] += slice[k * BIAS_CHANNELS + c];
        }
        BARRIER(); /* before the next slice lies there */
    }
    for (u32 i = 0; i < BIAS_CHAINS; i++) {
        const u32 c = i * GROUP + LOCAL_ID;
        if (c >= BIAS_CHANNELS || c >= left) continue;
        GLOBAL float *const to = db + grain * p.part + channel + c;
        *to = p.accumulate ? sums[i] + *to : sums[i];
    }
}

#endif
