/* Winograd's transforms in one dimension, on vectors of WIDTH channels; TILE is 4 or 2.

   The transforms are the Toom-Cook algorithm with points p: 0, pairs that differ in sign, and
   infinity. Data are evaluated by the coefficients of prod (x - other points), taps as polynomials
   over the product of the differences, and results by powers of the points (Lavin and Gray, CVPR
   2016; Winograd 1980).  Forward computes TILE results from 3 taps, and backward-weights 3 results
   from TILE taps.

   With TILE 4 the points are 0, +-sqrt(1/2), +-sqrt(2) and infinity.  Their rounding errors are
   less than half of those of the usual points 0, +-1, +-2 (powers up to 2.8 instead of 8).  With
   TILE 2 the points are 0, +-1 and infinity, which are exact on small integers. */
#ifndef DPT_OPENCL_WINOGRAD_POINTS_H
#define DPT_OPENCL_WINOGRAD_POINTS_H

#include "winograd_vector.h"

#define POINTS (TILE + 2)

#if TILE == 4

#define ROOT_HALF 0.70710678f
#define ROOT_TWO  1.41421356f

/* Transforms POINTS data in place. */
DEVICE void transform_data(vec d[POINTS])
{
    const vec even_a = FMA((vec)(-2.0f), d[2], d[4]),
              odd_a = ROOT_HALF * FMA((vec)(-2.0f), d[1], d[3]);
    const vec even_b = FMA((vec)(-0.5f), d[2], d[4]),
              odd_b = ROOT_TWO * FMA((vec)(-0.5f), d[1], d[3]);
    d[0] = FMA((vec)(-2.5f), d[2], d[0] + d[4]);
    d[5] = FMA((vec)(-2.5f), d[3], d[1] + d[5]);
    d[1] = even_a + odd_a;
    d[2] = even_a - odd_a;
    d[3] = even_b + odd_b;
    d[4] = even_b - odd_b;
}

/* Evaluates a polynomial, from its even and odd parts, at both pairs of points. */
DEVICE void evaluate_pairs(vec even_a, vec odd_a, vec even_b, vec odd_b, vec u[POINTS])
{
    u[1] = (even_a + odd_a) * (-2.0f / 3.0f);
    u[2] = (even_a - odd_a) * (-2.0f / 3.0f);
    u[3] = (even_b + odd_b) * (1.0f / 6.0f);
    u[4] = (even_b - odd_b) * (1.0f / 6.0f);
}

/* 3 taps to POINTS. */
DEVICE void transform_taps(const vec g[3], vec u[POINTS])
{
    u[0] = g[0];
    evaluate_pairs(FMA((vec)(0.5f), g[2], g[0]), ROOT_HALF * g[1], FMA((vec)(2.0f), g[2], g[0]),
                   ROOT_TWO * g[1], u);
    u[5] = g[2];
}

/* TILE taps to POINTS. */
DEVICE void transform_tile(const vec g[TILE], vec u[POINTS])
{
    u[0] = g[0];
    evaluate_pairs(FMA((vec)(0.5f), g[2], g[0]), ROOT_HALF * FMA((vec)(0.5f), g[3], g[1]),
                   FMA((vec)(2.0f), g[2], g[0]), ROOT_TWO * FMA((vec)(2.0f), g[3], g[1]), u);
    u[5] = g[3];
}

/* POINTS products to TILE results. */
DEVICE void interpolate_tile(const vec m[POINTS], vec y[TILE])
{
    const vec sum_a = m[1] + m[2], difference_a = ROOT_HALF * (m[1] - m[2]);
    const vec sum_b = m[3] + m[4], difference_b = ROOT_TWO * (m[3] - m[4]);
    y[0] = m[0] + (sum_a + sum_b);
    y[1] = difference_a + difference_b;
    y[2] = FMA((vec)(0.5f), sum_a, 2.0f * sum_b);
    y[3] = FMA((vec)(0.5f), difference_a, FMA((vec)(2.0f), difference_b, m[5]));
}

/* POINTS products to 3 results. */
DEVICE void interpolate_taps(const vec m[POINTS], vec y[3])
{
    const vec sum_a = m[1] + m[2], difference_a = ROOT_HALF * (m[1] - m[2]);
    const vec sum_b = m[3] + m[4], difference_b = ROOT_TWO * (m[3] - m[4]);
    y[0] = m[0] + (sum_a + sum_b);
    y[1] = difference_a + difference_b;
    y[2] = FMA((vec)(0.5f), sum_a, FMA((vec)(2.0f), sum_b, m[5]));
}

#else

DEVICE void transform_data(vec d[POINTS])
{
    const vec d1 = d[1], d2 = d[2];
    d[0] -= d2;
    d[1] = d2 + d1;
    d[2] = d2 - d1;
    d[3] -= d1;
}

DEVICE void transform_taps(const vec g[3], vec u[POINTS])
{
    u[0] = g[0];
    u[1] = 0.5f * (g[0] + g[2] + g[1]);
    u[2] = 0.5f * (g[0] + g[2] - g[1]);
    u[3] = g[2];
}

DEVICE void transform_tile(const vec g[TILE], vec u[POINTS])
{
    u[0] = g[0];
    u[1] = 0.5f * (g[0] + g[1]);
    u[2] = 0.5f * (g[0] - g[1]);
    u[3] = g[1];
}

DEVICE void interpolate_tile(const vec m[POINTS], vec y[TILE])
{
    y[0] = m[0] + (m[1] + m[2]);
    y[1] = m[1] - m[2] + m[3];
}

DEVICE void interpolate_taps(const vec m[POINTS], vec y[3])
{
    y[0] = m[0] + (m[1] + m[2]);
    y[1] = m[1] - m[2];
    y[2] = m[1] + m[2] + m[3];
}

#endif

#endif
