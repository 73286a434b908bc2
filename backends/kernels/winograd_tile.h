/* Winograd's transforms of one tile and WIDTH of its channels (winograd.h). */
#ifndef DPT_KERNELS_WINOGRAD_TILE_H
#define DPT_KERNELS_WINOGRAD_TILE_H

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
    UNROLL
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
    UNROLL
    for (u32 i = 0; i < POINTS; i++) {
        const i32 y = tile < p->n_tiles ? place.top + (i32)i : -1;
        load_row(x + place.image, p, y, place.left, chunk * WIDTH, POINTS, t[i]);
        transform_data(t[i]);
    }
    UNROLL
    for (u32 j = 0; j < POINTS; j++) {
        vec column[POINTS];
        UNROLL
        for (u32 i = 0; i < POINTS; i++)
            column[i] = t[i][j];
        transform_data(column);
        UNROLL
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
    UNROLL
    for (u32 i = 0; i < TILE; i++) {
        const i32 y = tile < p->n_tiles ? place.top + (i32)i : -1;
        vec d[TILE];
        load_row(dy + place.image, p, y, place.left, chunk * WIDTH, TILE, d);
        evaluate(d, TILE, t[i]);
    }
    UNROLL
    for (u32 j = 0; j < POINTS; j++) {
        vec d[TILE], column[POINTS];
        UNROLL
        for (u32 i = 0; i < TILE; i++)
            d[i] = t[i][j];
        evaluate(d, TILE, column);
        UNROLL
        for (u32 i = 0; i < POINTS; i++)
            STORE(column[i], to + (i * POINTS + j) * p->layout.point_stride);
    }
}

/* f of all lanes, for an activation other than ReLU. */
DEVICE vec activate_lanes(u32 kind, vec value)
{
    float lane[WIDTH];
    STORE(value, lane);
    for (u32 l = 0; l < WIDTH; l++)
        lane[l] = activate(kind, lane[l]);
    return LOAD(lane);
}

/* The value times f' at the output y, for an activation other than ReLU. */
DEVICE vec slope_lanes(u32 kind, vec y, vec value)
{
    float lane[WIDTH], at[WIDTH];
    STORE(value, lane);
    STORE(y, at);
    for (u32 l = 0; l < WIDTH; l++)
        lane[l] = with_slope(kind, at[l], lane[l]);
    return LOAD(lane);
}

/* Applies the mask, the derivative of an activation at its output x. */
DEVICE vec apply_mask(u32 kind, vec value, GLOBAL const float *x, u32 lanes)
{
    if (kind == ACTIVATION_NONE) return value;
    const vec y = load_lanes(x, lanes);
    if (kind == ACTIVATION_RELU) return y > (vec)(0.0f) ? value : (vec)(0.0f);
    return slope_lanes(kind, y, value);
}

/* Applies accumulation, bias, activation and mask, in this order.  No result is -0. */
DEVICE vec finish(const winograd_images *p, vec value, vec bias, GLOBAL const float *y,
                  GLOBAL const float *x, u32 lanes)
{
    value += (vec)(0.0f);
    if (p->accumulate) value += load_lanes(y, lanes);
    if (p->has_bias) value += bias;
    if (p->activation == ACTIVATION_RELU)
        value = value < (vec)(0.0f) ? (vec)(0.0f) : value;
    else if (p->activation != ACTIVATION_NONE)
        value = activate_lanes(p->activation, value);
    return apply_mask(p->mask, value, x, lanes);
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
    UNROLL
    for (u32 j = 0; j < POINTS; j++) {
        vec column[POINTS], r[TILE];
        UNROLL
        for (u32 i = 0; i < POINTS; i++)
            column[i] = LOAD(m + (i * POINTS + j) * p->layout.point_stride);
        interpolate(column, r, TILE);
        UNROLL
        for (u32 i = 0; i < TILE; i++)
            t[i][j] = r[i];
    }
    UNROLL
    for (u32 i = 0; i < TILE; i++) {
        vec r[TILE];
        interpolate(t[i], r, TILE);
        const i32 top = place.top + (i32)i;
        if (top >= (i32)p->height) continue;
        UNROLL
        for (u32 j = 0; j < TILE; j++) {
            const i32 left = place.left + (i32)j;
            if (left >= (i32)p->width) continue;
            const u64 at = place.image + ((u64)top * p->width + (u64)left) * p->channels + channel;
            store_lanes(finish(p, r[j], b, y + at, x + at, lanes), y + at, lanes);
        }
    }
}

/* ---- The adjoint ----------------------------------------------------------------------------- */

/* The tiles, in one direction, that meet a region: its own and those before it. */
#define MEETING ((POINTS - 1) / TILE + 1)

/* What the tiles of a column have for a row of regions: row i is of the tile that begins i / TILE
   regions above, and meets the pixels i % TILE of the regions. */
typedef struct tile_column {
    vec at[POINTS][POINTS];
} tile_column;

/* The rows of a tile, at m, that meet the region `before` regions below its first one. */
DEVICE void load_tile(tile_column *to, GLOBAL const float *m, u64 point_stride, u32 before)
{
    vec t[POINTS][POINTS];
    UNROLL
    for (u32 j = 0; j < POINTS; j++) {
        vec down[POINTS];
        UNROLL
        for (u32 i = 0; i < POINTS; i++)
            down[i] = LOAD(m + (i * POINTS + j) * point_stride);
        transform_adjoint(down);
        UNROLL
        for (u32 i = 0; i < POINTS; i++)
            t[i][j] = down[i];
    }
    UNROLL
    for (u32 k = 0; k < TILE; k++) {
        const u32 i = before * TILE + k;
        if (i >= POINTS) continue;
        transform_adjoint(t[i]);
        UNROLL
        for (u32 j = 0; j < POINTS; j++)
            to->at[i][j] = t[i][j];
    }
}

/* In place of a tile that does not exist: sums with -0 stay as they are. */
DEVICE void leave_out_tile(tile_column *to, u32 before)
{
    UNROLL
    for (u32 k = 0; k < TILE; k++) {
        const u32 i = before * TILE + k;
        if (i >= POINTS) continue;
        UNROLL
        for (u32 j = 0; j < POINTS; j++)
            to->at[i][j] = (vec)(-0.0f);
    }
}

/* A row of regions, and WIDTH of its channels. */
typedef struct region_row {
    u32 first_tile; /* of the image */
    u32 row;        /* in the image */
    u32 chunk;
} region_row;

DEVICE void load_column(tile_column *to, GLOBAL const float *m, const winograd_images *p,
                        region_row r, u32 column)
{
    UNROLL
    for (u32 before = 0; before < MEETING; before++) {
        const u32 row = r.row - before; /* wraps around above the image */
        if (row < p->tiles_h && column < p->tiles_w)
            load_tile(
                to, m + chunk_place(&p->layout, r.first_tile + row * p->tiles_w + column, r.chunk),
                p->layout.point_stride, before);
        else
            leave_out_tile(to, before);
    }
}

/* The sum of all tiles at a pixel of a region, in the order of the tiles.  columns[k]: the tiles
   that begin k regions to the left. */
DEVICE vec add_tiles(vec sum, const tile_column *columns, u32 row, u32 column)
{
    UNROLL
    for (u32 up = MEETING; up-- > 0;) {
        UNROLL
        for (u32 left = MEETING; left-- > 0;) {
            const u32 i = up * TILE + row, j = left * TILE + column;
            if (i < POINTS && j < POINTS) sum += columns[left].at[i][j];
        }
    }
    return sum;
}

/* Transforms the products m of all tiles that meet a row of regions, and adds them up.
   dx, x: at the row's image.  x is for the mask. */
DEVICE void add_region_row(GLOBAL float *dx, GLOBAL const float *m, GLOBAL const float *x,
                           const winograd_images *p, region_row r)
{
    const u32 channel = r.chunk * WIDTH, lanes = p->channels - channel;
    tile_column columns[MEETING];
    UNROLL
    for (u32 k = 0; k < MEETING; k++) {
        UNROLL
        for (u32 before = 0; before < MEETING; before++)
            leave_out_tile(&columns[k], before);
    }
    for (u32 column = 0; column < p->regions_w; column++) {
        UNROLL
        for (u32 k = MEETING - 1; k > 0; k--)
            columns[k] = columns[k - 1];
        load_column(&columns[0], m, p, r, column);
        UNROLL
        for (u32 i = 0; i < TILE; i++) {
            const u32 h = r.row * TILE + i - (u32)p->pad_h; /* wraps around outside the image */
            if (h >= p->height) continue;
            UNROLL
            for (u32 j = 0; j < TILE; j++) {
                const u32 w = column * TILE + j - (u32)p->pad_w;
                if (w >= p->width) continue;
                const u64 at = ((u64)h * p->width + w) * p->channels + channel;
                const vec begin = p->accumulate ? load_lanes(dx + at, lanes) : (vec)(0.0f);
                const vec sum = add_tiles(begin, columns, i, j);
                store_lanes(apply_mask(p->mask, sum, x + at, lanes), dx + at, lanes);
            }
        }
    }
}

#endif
