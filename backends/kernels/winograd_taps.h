/* The gradient of filters: the sums of a grain's points become taps, which are added up along the
   tree (winograd.h). */
#ifndef DPT_KERNELS_WINOGRAD_TAPS_H
#define DPT_KERNELS_WINOGRAD_TAPS_H

#include "tree_params.h"
#include "winograd.h"
#include "winograd_points.h"
#include "winograd_vector.h"

#define ALL_TAPS (TAPS * TAPS)

/* Column j of the sums of the points, times the weights of its rows, to column j of t. */
DEVICE void transform_column(const vec column[POINTS], u32 j, vec t[TAPS][POINTS])
{
    vec r[TAPS];
    interpolate(column, r, TAPS);
    UNROLL
    for (u32 i = 0; i < TAPS; i++)
        t[i][j] = weight_of(j) * r[i];
}

/* The columns of all points to TAPS x TAPS taps. */
DEVICE void transform_rows(const vec t[TAPS][POINTS], vec taps[TAPS][TAPS])
{
    UNROLL
    for (u32 i = 0; i < TAPS; i++) {
        interpolate(t[i], taps[i], TAPS);
        UNROLL
        for (u32 j = 0; j < TAPS; j++)
            taps[i][j] += (vec)(0.0f); /* no gradient is -0 */
    }
}

/* The sums of the points of a filter and a chunk to TAPS x TAPS taps. */
DEVICE void transform_sums(GLOBAL const float *m, const winograd_weights *p, vec taps[TAPS][TAPS])
{
    vec t[TAPS][POINTS];
    UNROLL
    for (u32 j = 0; j < POINTS; j++) {
        vec column[POINTS];
        UNROLL
        for (u32 i = 0; i < POINTS; i++) {
            GLOBAL const float *sum = m + (i * POINTS + j) * p->point_stride;
            column[i] = p->is_empty ? (vec)(0.0f) : weight_of(i) * LOAD(sum);
        }
        transform_column(column, j, t);
    }
    transform_rows(t, taps);
}

/* Where the taps of a filter and a chunk are: tap t is t * in_channels elements further on. */
typedef struct tap_place {
    u64 first;
    u32 lanes;
} tap_place;

DEVICE void store_taps(GLOBAL float *to, const winograd_weights *p, tap_place at,
                       vec taps[TAPS][TAPS], bool adds)
{
    UNROLL
    for (u32 i = 0; i < ALL_TAPS; i++) {
        GLOBAL float *const tap = to + at.first + i * p->in_channels;
        const vec sum = taps[i / TAPS][i % TAPS];
        store_lanes(adds ? sum + load_lanes(tap, at.lanes) : sum, tap, at.lanes);
    }
}

DEVICE void add_taps(vec taps[TAPS][TAPS], GLOBAL const float *from, const winograd_weights *p,
                     tap_place at)
{
    UNROLL
    for (u32 i = 0; i < ALL_TAPS; i++)
        taps[i / TAPS][i % TAPS] += load_lanes(from + at.first + i * p->in_channels, at.lanes);
}

/* Adds the gradient of grain `grain` to those that wait.  The sum of the last one goes to dw. */
DEVICE void add_grain(GLOBAL float *dw, GLOBAL float *waiting, const winograd_weights *p,
                      tap_place at, vec taps[TAPS][TAPS], u32 grain)
{
    const bool is_last = p->is_last && grain + 1 == p->first + p->n_grains;
    u32 level = 0;
    for (; level < TREE_LEVELS && (is_last || tree_adds(grain, level)); level++)
        if (tree_adds(grain, level)) add_taps(taps, waiting + level * p->part, p, at);
    if (is_last)
        store_taps(dw, p, at, taps, p->accumulate);
    else
        store_taps(waiting + level * p->part, p, at, taps, false);
}

#endif
