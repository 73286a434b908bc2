/* Winograd's transforms in one dimension, on vectors of channels.  `edge`, 4 or 2, is a constant at
   every call, so that what is not meant disappears.

   With points p (0, and pairs that differ in sign) and infinity they are the Toom-Cook algorithm:
   data are evaluated by the coefficients of prod (x - other points), taps as polynomials over the
   product of the differences, and results by powers of the points (Winograd 1980; Lavin and Gray,
   CVPR 2016).  Both directions are used: edge results of 3 taps, and 3 results of edge taps.

   Tile 4 takes 0, +-sqrt(1/2), +-sqrt(2), whose roundings are less than half those of the customary
   0, +-1, +-2 (powers up to 2.8 in place of 8).  Tile 2 takes 0, +-1: exact on small integers. */
#ifndef DPT_CPU_WINOGRAD_POINTS_H
#define DPT_CPU_WINOGRAD_POINTS_H

#include "simd.h"

enum { WINOGRAD_TILE_MAX = 4, WINOGRAD_SIDE_MAX = WINOGRAD_TILE_MAX + 2 };

#define WINOGRAD_ROOT_HALF 0.70710678f
#define WINOGRAD_ROOT_TWO  1.41421356f

DPT_CPU_INLINE vec winograd_scale(float a, vec x)
{
    return vec_mul(vec_set(a), x);
}

/* a * x + y */
DPT_CPU_INLINE vec winograd_fma(float a, vec x, vec y)
{
    return vec_fma(vec_set(a), x, y);
}

/* edge + 2 data, in place. */
DPT_CPU_INLINE void winograd_transform_data(vec *d, const size_t edge)
{
    if (edge == 2) {
        const vec d1 = d[1], d2 = d[2];
        d[0] = vec_sub(d[0], d2);
        d[1] = vec_add(d2, d1);
        d[2] = vec_sub(d2, d1);
        d[3] = vec_sub(d[3], d1);
        return;
    }
    const vec even_a = winograd_fma(-2.0f, d[2], d[4]);
    const vec odd_a = winograd_scale(WINOGRAD_ROOT_HALF, winograd_fma(-2.0f, d[1], d[3]));
    const vec even_b = winograd_fma(-0.5f, d[2], d[4]);
    const vec odd_b = winograd_scale(WINOGRAD_ROOT_TWO, winograd_fma(-0.5f, d[1], d[3]));
    d[0] = winograd_fma(-2.5f, d[2], vec_add(d[0], d[4]));
    d[5] = winograd_fma(-2.5f, d[3], vec_add(d[1], d[5]));
    d[1] = vec_add(even_a, odd_a);
    d[2] = vec_sub(even_a, odd_a);
    d[3] = vec_add(even_b, odd_b);
    d[4] = vec_sub(even_b, odd_b);
}

/* From the even and odd parts of a polynomial at both pairs of points. */
DPT_CPU_INLINE void winograd_pairs(vec even_a, vec odd_a, vec even_b, vec odd_b, vec *u)
{
    u[1] = winograd_scale(-2.0f / 3.0f, vec_add(even_a, odd_a));
    u[2] = winograd_scale(-2.0f / 3.0f, vec_sub(even_a, odd_a));
    u[3] = winograd_scale(1.0f / 6.0f, vec_add(even_b, odd_b));
    u[4] = winograd_scale(1.0f / 6.0f, vec_sub(even_b, odd_b));
}

/* 3 taps g to edge + 2 points u. */
DPT_CPU_INLINE void winograd_transform_taps(const vec *g, vec *u, const size_t edge)
{
    u[0] = g[0];
    u[edge + 1] = g[2];
    if (edge == 2) {
        const vec even = vec_add(g[0], g[2]);
        u[1] = winograd_scale(0.5f, vec_add(even, g[1]));
        u[2] = winograd_scale(0.5f, vec_sub(even, g[1]));
        return;
    }
    winograd_pairs(winograd_fma(0.5f, g[2], g[0]), winograd_scale(WINOGRAD_ROOT_HALF, g[1]),
                   winograd_fma(2.0f, g[2], g[0]), winograd_scale(WINOGRAD_ROOT_TWO, g[1]), u);
}

/* edge taps g to edge + 2 points u. */
DPT_CPU_INLINE void winograd_transform_tile(const vec *g, vec *u, const size_t edge)
{
    u[0] = g[0];
    u[edge + 1] = g[edge - 1];
    if (edge == 2) {
        u[1] = winograd_scale(0.5f, vec_add(g[0], g[1]));
        u[2] = winograd_scale(0.5f, vec_sub(g[0], g[1]));
        return;
    }
    const vec odd_a = winograd_scale(WINOGRAD_ROOT_HALF, winograd_fma(0.5f, g[3], g[1]));
    const vec odd_b = winograd_scale(WINOGRAD_ROOT_TWO, winograd_fma(2.0f, g[3], g[1]));
    winograd_pairs(winograd_fma(0.5f, g[2], g[0]), odd_a, winograd_fma(2.0f, g[2], g[0]), odd_b, u);
}

/* edge + 2 products m to edge results y. */
DPT_CPU_INLINE void winograd_interpolate_tile(const vec *m, vec *y, const size_t edge)
{
    if (edge == 2) {
        y[0] = vec_add(m[0], vec_add(m[1], m[2]));
        y[1] = vec_add(vec_sub(m[1], m[2]), m[3]);
        return;
    }
    const vec sum_a = vec_add(m[1], m[2]), sum_b = vec_add(m[3], m[4]);
    const vec odd_a = winograd_scale(WINOGRAD_ROOT_HALF, vec_sub(m[1], m[2]));
    const vec odd_b = winograd_scale(WINOGRAD_ROOT_TWO, vec_sub(m[3], m[4]));
    y[0] = vec_add(m[0], vec_add(sum_a, sum_b));
    y[1] = vec_add(odd_a, odd_b);
    y[2] = winograd_fma(0.5f, sum_a, winograd_scale(2.0f, sum_b));
    y[3] = winograd_fma(0.5f, odd_a, winograd_fma(2.0f, odd_b, m[5]));
}

/* edge + 2 products m to 3 results y. */
DPT_CPU_INLINE void winograd_interpolate_taps(const vec *m, vec *y, const size_t edge)
{
    if (edge == 2) {
        y[0] = vec_add(m[0], vec_add(m[1], m[2]));
        y[1] = vec_sub(m[1], m[2]);
        y[2] = vec_add(vec_add(m[1], m[2]), m[3]);
        return;
    }
    const vec sum_a = vec_add(m[1], m[2]), sum_b = vec_add(m[3], m[4]);
    const vec odd_a = winograd_scale(WINOGRAD_ROOT_HALF, vec_sub(m[1], m[2]));
    const vec odd_b = winograd_scale(WINOGRAD_ROOT_TWO, vec_sub(m[3], m[4]));
    y[0] = vec_add(m[0], vec_add(sum_a, sum_b));
    y[1] = vec_add(odd_a, odd_b);
    y[2] = winograd_fma(0.5f, sum_a, winograd_fma(2.0f, sum_b, m[5]));
}

#endif
