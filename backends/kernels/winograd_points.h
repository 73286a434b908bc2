/* Winograd's transforms in one dimension, on vectors of WIDTH channels, for TILE results and TAPS
   taps: 4 and 3, 2 and 3, or 3 and 5.

   The transforms are the Toom-Cook algorithm with POINTS points p: 0, pairs that differ in sign,
   and infinity unless there are 7.  Data are evaluated by the coefficients of prod (x - other
   points), taps as polynomials over the product of the differences, and results by powers of the
   points (Lavin and Gray, CVPR 2016; Winograd 1980).  Forward computes TILE results from TAPS taps,
   and backward-weights computes TAPS results from TILE taps.

   - 4 points are 0, +-1 and infinity.  They are exact on small integers.
   - 6 points are 0, +-sqrt(1/2), +-sqrt(2) and infinity.  Their rounding errors are less than half
     of those of the usual points 0, +-1, +-2 (powers up to 2.8 instead of 8).
   - 7 points are 0, +-1/2, +-5/4, +-3.  Their rounding errors are three quarters of those of 0,
     +-1/2, +-1, +-2.

   The bits of a deterministic operator depend on each of these operations and on their order. */
#ifndef DPT_KERNELS_WINOGRAD_POINTS_H
#define DPT_KERNELS_WINOGRAD_POINTS_H

#include "winograd_vector.h"

#ifndef TAPS
#define TAPS 3
#endif
#define POINTS       (TILE + TAPS - 1)
#define PAIRS        ((POINTS - 1) / 2)
#define HAS_INFINITY (POINTS % 2 == 0)

/* a * x + y, rounded once */
#define MAD(a, x, y) FMA((vec)(a), x, y)

/* ---- Points and data ------------------------------------------------------------------------- */

/* POINT is the positive point of a pair, and SQUARE its square.  WEIGHTS has 1 over the product of
   each point's differences to the other points. */
#if POINTS == 4

#define POINT(pair)  1.0f
#define SQUARE(pair) 1.0f
#define WEIGHTS                                                                                    \
    {                                                                                              \
        1.0f, 0.5f, 0.5f, 1.0f                                                                     \
    }

/* Transforms POINTS data in place. */
DEVICE void transform_data(vec d[POINTS])
{
    const vec d1 = d[1], d2 = d[2];
    d[0] = d[0] - d2;
    d[1] = d2 + d1;
    d[2] = d2 - d1;
    d[3] = d[3] - d1;
}

/* The adjoint of transform_data, in place. */
DEVICE void transform_adjoint(vec u[POINTS])
{
    const vec even = u[1] + u[2], odd = u[1] - u[2];
    u[1] = odd - u[3];
    u[2] = even - u[0];
}

#elif POINTS == 6

#define POINT(pair)  ((pair) == 0 ? 0.70710678f : 1.41421356f)
#define SQUARE(pair) ((pair) == 0 ? 0.5f : 2.0f)
#define WEIGHTS                                                                                    \
    {                                                                                              \
        1.0f, -2.0f / 3.0f, -2.0f / 3.0f, 1.0f / 6.0f, 1.0f / 6.0f, 1.0f                           \
    }

DEVICE void transform_data(vec d[POINTS])
{
    const vec even_a = MAD(-2.0f, d[2], d[4]), odd_a = POINT(0) * MAD(-2.0f, d[1], d[3]);
    const vec even_b = MAD(-0.5f, d[2], d[4]), odd_b = POINT(1) * MAD(-0.5f, d[1], d[3]);
    d[0] = MAD(-2.5f, d[2], d[0] + d[4]);
    d[5] = MAD(-2.5f, d[3], d[1] + d[5]);
    d[1] = even_a + odd_a;
    d[2] = even_a - odd_a;
    d[3] = even_b + odd_b;
    d[4] = even_b - odd_b;
}

DEVICE void transform_adjoint(vec u[POINTS])
{
    const vec even_a = u[1] + u[2], odd_a = POINT(0) * (u[1] - u[2]);
    const vec even_b = u[3] + u[4], odd_b = POINT(1) * (u[3] - u[4]);
    u[1] = MAD(-0.5f, odd_b, MAD(-2.0f, odd_a, u[5]));
    u[2] = MAD(-0.5f, even_b, MAD(-2.0f, even_a, -2.5f * u[0]));
    u[3] = MAD(-2.5f, u[5], odd_a + odd_b);
    u[4] = u[0] + (even_a + even_b);
}

#else

#define POINT(pair)  ((pair) == 0 ? 0.5f : (pair) == 1 ? 1.25f : 3.0f)
#define SQUARE(pair) ((pair) == 0 ? 0.25f : (pair) == 1 ? 1.5625f : 9.0f)
#define WEIGHTS                                                                                    \
    {                                                                                              \
        -1.0f / 3.515625f, 1.0f / 5.7421875f, 1.0f / 5.7421875f, -1.0f / 30.505371f,               \
            -1.0f / 30.505371f, 1.0f / 1171.40625f, 1.0f / 1171.40625f                             \
    }

/* The values at +-point by the coefficients of x (x +- point) (x^4 - sum x^2 + product).  sum and
   product are those of the squares of the other two points. */
DEVICE void data_pair(const vec *d, float point, float sum, float product, vec *u)
{
    const vec even = MAD(-sum, d[4], MAD(product, d[2], d[6]));
    const vec odd = MAD(-sum, d[3], MAD(product, d[1], d[5]));
    u[0] = MAD(point, odd, even);
    u[1] = MAD(-point, odd, even);
}

DEVICE void transform_data(vec d[POINTS])
{
    vec u[POINTS];
    u[0] = MAD(16.703125f, d[2], MAD(-3.515625f, d[0], MAD(-10.8125f, d[4], d[6])));
    data_pair(d, POINT(0), 10.5625f, 14.0625f, u + 1);
    data_pair(d, POINT(1), 9.25f, 2.25f, u + 3);
    data_pair(d, POINT(2), 1.8125f, 0.390625f, u + 5);
    UNROLL
    for (u32 i = 0; i < POINTS; i++)
        d[i] = u[i];
}

/* a x[0] + b x[1] + c x[2] + y */
DEVICE vec sum_3(float a, float b, float c, const vec *x, vec y)
{
    return MAD(a, x[0], MAD(b, x[1], MAD(c, x[2], y)));
}

DEVICE void transform_adjoint(vec u[POINTS])
{
    const vec zero = u[0];
    vec even[PAIRS], odd[PAIRS];
    UNROLL
    for (u32 pair = 0; pair < PAIRS; pair++) {
        even[pair] = u[2 * pair + 1] + u[2 * pair + 2];
        odd[pair] = POINT(pair) * (u[2 * pair + 1] - u[2 * pair + 2]);
    }
    u[0] = -3.515625f * zero;
    u[1] = MAD(14.0625f, odd[0], MAD(2.25f, odd[1], 0.390625f * odd[2]));
    u[2] = sum_3(14.0625f, 2.25f, 0.390625f, even, 16.703125f * zero);
    u[3] = MAD(-10.5625f, odd[0], MAD(-9.25f, odd[1], -1.8125f * odd[2]));
    u[4] = sum_3(-10.5625f, -9.25f, -1.8125f, even, -10.8125f * zero);
    u[5] = odd[0] + (odd[1] + odd[2]);
    u[6] = (zero + even[0]) + (even[1] + even[2]);
}

#endif

/* ---- Taps ------------------------------------------------------------------------------------ */

/* The polynomial of n coefficients g, of 2 to 5, at +-point. */
DEVICE void evaluate_pair(const vec *g, u32 n, u32 pair, vec *u)
{
    vec even = g[0], odd = g[1];
    if (n == 3 || n == 4) even = MAD(SQUARE(pair), g[2], g[0]);
    if (n == 5) even = MAD(SQUARE(pair), MAD(SQUARE(pair), g[4], g[2]), g[0]);
    if (n >= 4) odd = MAD(SQUARE(pair), g[3], g[1]);
    odd = POINT(pair) * odd;
    u[0] = even + odd;
    u[1] = even - odd;
}

/* Transforms n taps g, or n results of a tile, to POINTS points u, without the weights. */
DEVICE void evaluate(const vec *g, u32 n, vec *u)
{
    u[0] = g[0];
    UNROLL
    for (u32 pair = 0; pair < PAIRS; pair++)
        evaluate_pair(g, n, pair, u + 1 + 2 * pair);
    if (HAS_INFINITY) u[POINTS - 1] = g[n - 1];
}

DEVICE float weight_of(u32 point)
{
    const float weights[POINTS] = WEIGHTS;
    return weights[point];
}

/* ---- Results --------------------------------------------------------------------------------- */

/* Adds the terms of the products m at +-point to each y[k]: point^k times their sum or difference.
   The first n_new results are not yet set. */
DEVICE void add_pair(const vec *m, u32 pair, u32 n_new, vec *y, u32 n)
{
    const vec even = m[0] + m[1], odd = POINT(pair) * (m[0] - m[1]);
    float power = 1.0f;
    UNROLL
    for (u32 k = 0; k < n; k++) {
        const vec part = k % 2 == 1 ? odd : even;
        y[k] = k < n_new ? power * part : MAD(power, part, y[k]);
        if (k % 2 == 1) power *= SQUARE(pair);
    }
}

/* Transforms POINTS products m to n results y, from the largest point to 0. */
DEVICE void interpolate(const vec *m, vec *y, u32 n)
{
    if (HAS_INFINITY) y[n - 1] = m[POINTS - 1];
    UNROLL
    for (u32 i = 0; i < PAIRS; i++) {
        const u32 pair = PAIRS - 1 - i;
        add_pair(m + 1 + 2 * pair, pair, i == 0 ? n - HAS_INFINITY : 0, y, n);
    }
    y[0] = m[0] + y[0];
}

#endif
