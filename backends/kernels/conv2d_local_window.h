/* Slices of windows, for forward and backward-data: rows are pixels of the result, columns are (tap
   row, tap column, channel) in the tensor that is read. */
#ifndef DPT_KERNELS_CONV2D_LOCAL_WINDOW_H
#define DPT_KERNELS_CONV2D_LOCAL_WINDOW_H

#include "conv2d_local_tile.h"

#define ACROSS_K (TILE_K / A_WIDTH)
#define LOADS_A  LOADS(TILE_M, ACROSS_K)

/* The properties that all windows share. */
typedef struct window {
    u32 taps_h;         /* tap rows; a column with a later tap row is behind the end */
    int step_h, step_w; /* pixels between two taps, negative if windows run backwards */
    u32 height, width;  /* of the tensor that is read */
    u32 channels;       /* of one of its pixels, in all groups */
} window;

/* A pixel whose window an item fetches: the place of the window's tap (0, 0), which may lie outside
   the image. */
typedef struct window_row {
    long place; /* in elements */
    int h, w;
} window_row;

/* The row of a pixel that does not exist: none of its taps is in the image. */
#define NOWHERE (-0x40000000)

DEVICE window_row window_at(const window *v, u32 sample, int h, int w, u32 first_channel)
{
    window_row row;
    row.place = ((long)sample * v->height + h) * v->width + w;
    row.place = row.place * v->channels + first_channel;
    row.h = h;
    row.w = w;
    return row;
}

DEVICE void fetch_windows(float fetched[LOADS_A][A_WIDTH], GLOBAL const act *from, const window *v,
                          const window_row rows[LOADS_A], digits tap)
{
    const int dh = (int)tap.high * v->step_h, dw = (int)tap.middle * v->step_w;
    const int shift = (dh * (int)v->width + dw) * (int)v->channels + (int)tap.low;
    UNROLL
    for (u32 i = 0; i < LOADS_A; i++) {
        const bool inside = tap.high < v->taps_h && (u32)(rows[i].h + dh) < v->height &&
                            (u32)(rows[i].w + dw) < v->width;
        fetch_act(fetched[i], from, rows[i].place + shift, inside, A_WIDTH, quad_of_nothing());
    }
}

DEVICE void put_windows(LOCAL float *slice, float fetched[LOADS_A][A_WIDTH])
{
    UNROLL
    for (u32 i = 0; i < LOADS_A; i++) {
        const u32 line = LINE_OF(i, ACROSS_K);
        if (HAS_LINE(line, TILE_M, ACROSS_K))
            put_upright(slice, TILE_M, PIECE_OF(ACROSS_K) * A_WIDTH, line, fetched[i], A_WIDTH);
    }
}

#endif
