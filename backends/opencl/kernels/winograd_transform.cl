/* Winograd's transforms of images, gradients, filters and products (winograd.h).  On GPUs WIDTH is 1,
   and neighbouring work items are neighbouring channels.  On CPUs a work item treats all channels of a
   tile, WIDTH at a time. */
#include "winograd_tile.h"

/* x -> v: POINTS x POINTS values of every tile. */
KERNEL void winograd_data(OUT(float, v), IN(float, x), const winograd_images p)
{
    TENSOR_OUT(float, v);
    TENSOR_IN(float, x);
    const u32 row = (u32)get_global_id(1);
    for (u32 chunk = (u32)get_global_id(0); chunk < p.layout.chunks && row < p.n_rows;
         chunk += (u32)get_global_size(0))
        transform_data_tile(v, x, &p, row, row, chunk);
}

/* dy -> v: POINTS x POINTS values of every tile of TILE x TILE. */
KERNEL void winograd_gradient(OUT(float, v), IN(float, dy), const winograd_images p)
{
    TENSOR_OUT(float, v);
    TENSOR_IN(float, dy);
    const u32 row = (u32)get_global_id(1);
    for (u32 chunk = (u32)get_global_id(0); chunk < p.layout.chunks && row < p.n_rows;
         chunk += (u32)get_global_size(0))
        transform_gradient_tile(v, dy, &p, row, row, chunk);
}

/* ---- Filters --------------------------------------------------------------------------------- */

/* Loads a tap of WIDTH depths from `depth` on, of one lane.  If lanes are neighbours in memory, loads
   it for WIDTH lanes from `lane` on, of one depth. */
DEVICE vec load_taps(GLOBAL const float *w, const winograd_filters *p, u32 lane, u32 depth, u32 tap)
{
    if (lane >= p->lanes || depth >= p->depth) return (vec)(0.0f);
    GLOBAL const float *from = w + depth * p->depth_stride + lane * p->lane_stride +
                               (p->rotated ? 8 - tap : tap) * p->tap_stride;
    return load_lanes(from, p->lane_stride == 1 ? p->lanes - lane : p->depth - depth);
}

/* Transforms a filter to POINTS x POINTS values, `stride` elements apart. */
DEVICE void transform_filter(float *u, const vec g[9], u32 stride)
{
    vec t[3][POINTS];
#pragma unroll
    for (u32 i = 0; i < 3; i++)
        transform_taps(g + i * 3, t[i]);
#pragma unroll
    for (u32 j = 0; j < POINTS; j++) {
        vec taps[3], column[POINTS];
        for (u32 i = 0; i < 3; i++)
            taps[i] = t[i][j];
        transform_taps(taps, column);
        for (u32 i = 0; i < POINTS; i++)
            STORE(column[i], u + (i * POINTS + j) * stride);
    }
}

/* The work items are (WIDTH lanes, WIDTH depths).  If lanes are not neighbours in memory, vectors of
   depths are read and transposed: single floats at the distance of a filter would each take a cache
   line, all in a few sets.  A point is written for all depths before the next point, because a core
   cannot follow as many streams as there are points. */
KERNEL void winograd_taps(OUT(float, u), IN(float, w), const winograd_filters p)
{
    TENSOR_OUT(float, u);
    TENSOR_IN(float, w);
    const u32 lane = (u32)get_global_id(0) * WIDTH, first = (u32)get_global_id(1) * WIDTH;
    if (lane >= p.n_lanes || first >= p.padded_depth) return;
    float block[9][WIDTH][WIDTH]; /* [tap][depth][lane] or [tap][lane][depth] */
    for (u32 l = 0; l < WIDTH; l++) {
        for (u32 tap = 0; tap < 9; tap++)
            STORE(p.lane_stride == 1 ? load_taps(w, &p, lane, first + l, tap)
                                     : load_taps(w, &p, lane + l, first, tap),
                  block[tap][l]);
    }
    /* [point][depth][lane].  Points are an odd number of vectors apart, so that they use different
       sets of the cache. */
    const u32 stride = (WIDTH + 1) * WIDTH;
    float points[POINTS * POINTS * (WIDTH + 1) * WIDTH];
    for (u32 d = 0; d < WIDTH; d++) {
        vec g[9];
#pragma unroll
        for (u32 tap = 0; tap < 9; tap++) {
            float turned[WIDTH];
#pragma unroll
            for (u32 l = 0; l < WIDTH; l++)
                turned[l] = block[tap][l][d];
            g[tap] = p.lane_stride == 1 ? LOAD(block[tap][d]) : LOAD(turned);
        }
        transform_filter(points + d * WIDTH, g, stride);
    }
    const u32 panel = lane / p.panel_width, rest = lane - panel * p.panel_width;
    GLOBAL float *to = u + ((u64)panel * p.padded_depth + first) * p.panel_width + rest;
    for (u32 point = 0; point < POINTS * POINTS; point++) {
        for (u32 d = 0; d < WIDTH; d++)
            STORE(LOAD(points + point * stride + d * WIDTH),
                  to + point * p.point_stride + d * p.panel_width);
    }
}

/* ---- Results --------------------------------------------------------------------------------- */

/* m -> y: the products of every tile to TILE x TILE results.  x: for the mask. */
KERNEL void winograd_results(OUT(float, y), IN(float, m), IN(float, bias), IN(float, x),
                             const winograd_images p)
{
    TENSOR_OUT(float, y);
    TENSOR_IN(float, m);
    TENSOR_IN(float, bias);
    TENSOR_IN(float, x);
    const u32 row = (u32)get_global_id(1);
    for (u32 chunk = (u32)get_global_id(0); chunk * WIDTH < p.channels && row < p.n_tiles;
         chunk += (u32)get_global_size(0))
        transform_back_tile(y, m + chunk_place(&p.layout, row, chunk), bias, x, &p, row,
                            chunk * WIDTH);
}

/* m -> dw: the sums of the points to 3x3 taps.  The work items are (channel, filter). */
KERNEL void winograd_weights_back(OUT(float, dw), IN(float, m), const winograd_weights p)
{
    TENSOR_OUT(float, dw);
    TENSOR_IN(float, m);
    const u32 filter = (u32)get_global_id(1);
    for (u32 chunk = (u32)get_global_id(0); chunk * WIDTH < p.in_channels && filter < p.out_channels;
         chunk += (u32)get_global_size(0)) {
        const u32 channel = chunk * WIDTH, lanes = p.in_channels - channel;
        const u64 from = (u64)filter * p.row_stride + channel;
        vec t[3][POINTS];
#pragma unroll
        for (u32 j = 0; j < POINTS; j++) {
            vec column[POINTS], r[3];
            for (u32 i = 0; i < POINTS; i++)
                column[i] = LOAD(m + (i * POINTS + j) * p.point_stride + from);
            interpolate_taps(column, r);
            for (u32 i = 0; i < 3; i++)
                t[i][j] = r[i];
        }
#pragma unroll
        for (u32 i = 0; i < 3; i++) {
            vec r[3];
            interpolate_taps(t[i], r);
            for (u32 j = 0; j < 3; j++) {
                GLOBAL float *to = dw + ((u64)filter * 9 + i * 3 + j) * p.in_channels + channel;
                store_lanes(p.accumulate ? r[j] + load_lanes(to, lanes) : r[j], to, lanes);
            }
        }
    }
}
