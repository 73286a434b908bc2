/* Winograd's transforms of one tile and WIDTH of its channels (winograd.h). */
#ifndef DPT_OPENCL_WINOGRAD_TILE_H
#define DPT_OPENCL_WINOGRAD_TILE_H

#include "activation.h"
#include "winograd.h"
#include "winograd_points.h"
#include "winograd_vector.h"

/* A tile's place in its image. */
typedef struct tile_place {
    u64 image; /* elements from the first image */
    i32 top, left;
} tile_place;

DEVICE tile_place place_of(const winograd_images *p, u32 tile)
{
    const u32 in_image = p->tiles_h * p->tiles_w;
    const u32 image = tile / in_image, rest = tile - image * in_image;
    const u32 row = rest / p->tiles_w, column = rest - row * p->tiles_w;
    tile_place place;
    place.image = image * p->image_stride;
    place.top = (i32)(row * TILE) - p->pad_h;
    place.left = (i32)(column * TILE) - p->pad_w;
    return place;
}

/* The index of a row's chunk in each point. */
DEVICE u64 chunk_place(const winograd_layout *l, u32 row, u32 chunk)
{
    const u32 block = row / l->block_rows, rest = row - block * l->block_rows;
    return (((u64)block * l->chunks + chunk) * l->block_rows + rest) * WIDTH;
}

/* Loads n values of a row of an image, and zeros outside the image. */
DEVICE void load_row(GLOBAL const float *image, const winograd_images *p, i32 row, i32 left,
                     u32 channel, u32 n, vec *out)
{
    const bool inside = row >= 0 && row < (i32)p->height && channel < p->channels;
#pragma unroll
    for (u32 j = 0; j < n; j++) {
        const i32 column = left + (i32)j;
        out[j] = (vec)(0.0f);
        if (inside && column >= 0 && column < (i32)p->width)
            out[j] = load_lanes(image + ((u64)row * p->width + (u64)column) * p->channels + channel,
                                p->channels - channel);
    }
}

/* Transforms a tile of x to POINTS x POINTS values in a row of v; zeros if the tile does not exist.
 */
DEVICE void transform_data_tile(GLOBAL float *v, GLOBAL const float *x, const winograd_images *p,
                                u32 tile, u32 row, u32 chunk)
{
    const tile_place place = place_of(p, tile);
    GLOBAL float *to = v + chunk_place(&p->layout, row, chunk);
    vec t[POINTS][POINTS];
#pragma unroll
    for (u32 i = 0; i < POINTS; i++) {
        const i32 y = tile < p->n_tiles ? place.top + (i32)i : -1;
        load_row(x + place.image, p, y, place.left, chunk * WIDTH, POINTS, t[i]);
        transform_data(t[i]);
    }
#pragma unroll
    for (u32 j = 0; j < POINTS; j++) {
        vec column[POINTS];
        for (u32 i = 0; i < POINTS; i++)
            column[i] = t[i][j];
        transform_data(column);
        for (u32 i = 0; i < POINTS; i++)
            STORE(column[i], to + (i * POINTS + j) * p->layout.point_stride);
    }
}

/* Transforms a tile of dy, of TILE x TILE, to POINTS x POINTS values in a row of v. */
DEVICE void transform_gradient_tile(GLOBAL float *v, GLOBAL const float *dy,
                                    const winograd_images *p, u32 tile, u32 row, u32 chunk)
{
    const tile_place place = place_of(p, tile);
    GLOBAL float *to = v + chunk_place(&p->layout, row, chunk);
    vec t[TILE][POINTS];
#pragma unroll
    for (u32 i = 0; i < TILE; i++) {
        const i32 y = tile < p->n_tiles ? place.top + (i32)i : -1;
        vec d[TILE];
        load_row(dy + place.image, p, y, place.left, chunk * WIDTH, TILE, d);
        transform_tile(d, t[i]);
    }
#pragma unroll
    for (u32 j = 0; j < POINTS; j++) {
        vec d[TILE], column[POINTS];
        for (u32 i = 0; i < TILE; i++)
            d[i] = t[i][j];
        transform_tile(d, column);
        for (u32 i = 0; i < POINTS; i++)
            STORE(column[i], to + (i * POINTS + j) * p->layout.point_stride);
    }
}

/* Applies an activation other than ReLU, lane by lane. */
DEVICE vec activate_lanes(u32 kind, vec value)
{
    if (kind == ACTIVATION_NONE) return value;
    float lane[WIDTH];
    STORE(value, lane);
    for (u32 l = 0; l < WIDTH; l++)
        lane[l] = activate(kind, lane[l]);
    return LOAD(lane);
}

DEVICE vec slopes_of(u32 kind, vec value)
{
    float lane[WIDTH];
    STORE(value, lane);
    for (u32 l = 0; l < WIDTH; l++)
        lane[l] = activation_slope(kind, lane[l]);
    return LOAD(lane);
}

/* Applies bias, activation, accumulation and mask, in this order. */
DEVICE vec finish(const winograd_images *p, vec value, vec bias, GLOBAL const float *y,
                  GLOBAL const float *x, u32 lanes)
{
    value += bias;
    if (p->activation == ACTIVATION_RELU)
        value = value < (vec)(0.0f) ? (vec)(0.0f) : value;
    else
        value = activate_lanes(p->activation, value);
    if (p->accumulate) value += load_lanes(y, lanes);
    if (p->mask != ACTIVATION_NONE) value *= slopes_of(p->mask, load_lanes(x, lanes));
    return value;
}

/* Transforms the products of a row and chunk of m back to TILE x TILE results.  x: for the mask. */
DEVICE void transform_back_tile(GLOBAL float *y, GLOBAL const float *m, GLOBAL const float *bias,
                                GLOBAL const float *x, const winograd_images *p, u32 tile,
                                u32 channel)
{
    const tile_place place = place_of(p, tile);
    const u32 lanes = p->channels - channel;
    const vec b = p->has_bias ? load_lanes(bias + channel, lanes) : (vec)(0.0f);
    vec t[TILE][POINTS];
#pragma unroll
    for (u32 j = 0; j < POINTS; j++) {
        vec column[POINTS], r[TILE];
        for (u32 i = 0; i < POINTS; i++)
            column[i] = LOAD(m + (i * POINTS + j) * p->layout.point_stride);
        interpolate_tile(column, r);
        for (u32 i = 0; i < TILE; i++)
            t[i][j] = r[i];
    }
#pragma unroll
    for (u32 i = 0; i < TILE; i++) {
        vec r[TILE];
        interpolate_tile(t[i], r);
        const i32 top = place.top + (i32)i;
        if (top >= (i32)p->height) continue;
#pragma unroll
        for (u32 j = 0; j < TILE; j++) {
            const i32 left = place.left + (i32)j;
            if (left >= (i32)p->width) continue;
            const u64 at = place.image + ((u64)top * p->width + (u64)left) * p->channels + channel;
            store_lanes(finish(p, r[j], b, y + at, x + at, lanes), y + at, lanes);
        }
    }
}

#endif
