/* Winograd's transforms in one dimension, on vectors of channels.  `side`, the number of points,
   and the numbers of taps and results are constants at every call, so the compiler removes the
   other cases.

   The transforms are the Toom-Cook algorithm with points p: 0, pairs that differ in sign, and in
   some cases infinity.  Data are evaluated by the coefficients of prod (x - other points), taps as
   polynomials over the product of the differences, and results by powers of the points (Winograd
   1980; Lavin and Gray, CVPR 2016).  Forward computes edge results from taps, and backward-weights
   computes taps results from a tile of edge results.

   - 4 points are 0, +-1 and infinity.  They are exact on small integers.
   - 6 points are 0, +-sqrt(1/2), +-sqrt(2) and infinity.  Their rounding errors are less than half
   of those of the usual points 0, +-1, +-2 (powers up to 2.8 instead of 8).
   - 7 points are 0, +-1/2, +-5/4, +-3, without infinity.  Their rounding errors are three quarters
   of those of 0, +-1/2, +-1, +-2 (docs/numerics.md). */
#ifndef DPT_CPU_WINOGRAD_POINTS_H
#define DPT_CPU_WINOGRAD_POINTS_H

#include "simd.h"

enum { WINOGRAD_TILE_MAX = 4, WINOGRAD_TAPS_MAX = 5, WINOGRAD_SIDE_MAX = 7 };

#define WINOGRAD_ROOT_HALF 0.70710678f
#define WINOGRAD_ROOT_TWO  1.41421356f

/* a is a constant. */
DPT_CPU_INLINE vec winograd_scale(const float a, vec x)
{
    return a == 1.0f ? x : vec_mul(vec_set(a), x);
}

/* a * x + y */
DPT_CPU_INLINE vec winograd_fma(const float a, vec x, vec y)
{
    return a == 1.0f ? vec_add(x, y) : vec_fma(vec_set(a), x, y);
}

/* ---- Data ------------------------------------------------------------------------------------ */

DPT_CPU_INLINE void winograd_data_4(vec *d)
{
    const vec d1 = d[1], d2 = d[2];
    d[0] = vec_sub(d[0], d2);
    d[1] = vec_add(d2, d1);
    d[2] = vec_sub(d2, d1);
    d[3] = vec_sub(d[3], d1);
}

DPT_CPU_INLINE void winograd_data_6(vec *d)
{
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

/* The values at +-point, one of three pairs, by the coefficients of x (x +- point) (x^4 - sum x^2 +
   product).  sum and product are those of the squares of the other two points. */
DPT_CPU_INLINE void winograd_data_pair(const vec *d, const float point, const float sum,
                                       const float product, vec *u)
{
    const vec even = winograd_fma(-sum, d[4], winograd_fma(product, d[2], d[6]));
    const vec odd = winograd_fma(-sum, d[3], winograd_fma(product, d[1], d[5]));
    u[0] = winograd_fma(point, odd, even);
    u[1] = winograd_fma(-point, odd, even);
}

DPT_CPU_INLINE void winograd_data_7(vec *d)
{
    vec u[6];
    winograd_data_pair(d, 0.5f, 10.5625f, 14.0625f, u);
    winograd_data_pair(d, 1.25f, 9.25f, 2.25f, u + 2);
    winograd_data_pair(d, 3.0f, 1.8125f, 0.390625f, u + 4);
    const vec high = winograd_fma(-10.8125f, d[4], d[6]);
    d[0] = winograd_fma(16.703125f, d[2], winograd_fma(-3.515625f, d[0], high));
    DPT_CPU_UNROLL
    for (size_t i = 0; i < 6; i++)
        d[i + 1] = u[i];
}

/* Transforms `side` data in place. */
DPT_CPU_INLINE void winograd_transform_data(vec *d, const size_t side)
{
    if (side == 4)
        winograd_data_4(d);
    else if (side == 6)
        winograd_data_6(d);
    else
        winograd_data_7(d);
}

/* ---- Adjoints of the data transforms --------------------------------------------------------- */

DPT_CPU_INLINE void winograd_adjoint_4(vec *u)
{
    const vec even = vec_add(u[1], u[2]), odd = vec_sub(u[1], u[2]);
    u[1] = vec_sub(odd, u[3]);
    u[2] = vec_sub(even, u[0]);
}

DPT_CPU_INLINE void winograd_adjoint_6(vec *u)
{
    const vec even_a = vec_add(u[1], u[2]), even_b = vec_add(u[3], u[4]);
    const vec odd_a = winograd_scale(WINOGRAD_ROOT_HALF, vec_sub(u[1], u[2]));
    const vec odd_b = winograd_scale(WINOGRAD_ROOT_TWO, vec_sub(u[3], u[4]));
    u[1] = winograd_fma(-0.5f, odd_b, winograd_fma(-2.0f, odd_a, u[5]));
    u[2] = winograd_fma(-0.5f, even_b, winograd_fma(-2.0f, even_a, winograd_scale(-2.5f, u[0])));
    u[3] = winograd_fma(-2.5f, u[5], vec_add(odd_a, odd_b));
    u[4] = vec_add(u[0], vec_add(even_a, even_b));
}

/* a0 x[0] + a1 x[1] + a2 x[2] + y */
DPT_CPU_INLINE vec winograd_sum_3(const float a0, const float a1, const float a2, const vec *x,
                                  vec y)
{
    return winograd_fma(a0, x[0], winograd_fma(a1, x[1], winograd_fma(a2, x[2], y)));
}

/* The factors of winograd_data_7. */
DPT_CPU_INLINE void winograd_adjoint_7(vec *u)
{
    const vec even[3] = {vec_add(u[1], u[2]), vec_add(u[3], u[4]), vec_add(u[5], u[6])};
    const vec odd[3] = {winograd_scale(0.5f, vec_sub(u[1], u[2])),
                        winograd_scale(1.25f, vec_sub(u[3], u[4])),
                        winograd_scale(3.0f, vec_sub(u[5], u[6]))};
    const vec zero = u[0];
    u[0] = winograd_scale(-3.515625f, zero);
    u[1] = winograd_fma(14.0625f, odd[0],
                        winograd_fma(2.25f, odd[1], winograd_scale(0.390625f, odd[2])));
    u[2] = winograd_sum_3(14.0625f, 2.25f, 0.390625f, even, winograd_scale(16.703125f, zero));
    u[3] = winograd_fma(-10.5625f, odd[0],
                        winograd_fma(-9.25f, odd[1], winograd_scale(-1.8125f, odd[2])));
    u[4] = winograd_sum_3(-10.5625f, -9.25f, -1.8125f, even, winograd_scale(-10.8125f, zero));
    u[5] = vec_add(odd[0], vec_add(odd[1], odd[2]));
    u[6] = vec_add(vec_add(zero, even[0]), vec_add(even[1], even[2]));
}

/* The adjoint of winograd_transform_data, in place. */
DPT_CPU_INLINE void winograd_adjoint_data(vec *u, const size_t side)
{
    if (side == 4)
        winograd_adjoint_4(u);
    else if (side == 6)
        winograd_adjoint_6(u);
    else
        winograd_adjoint_7(u);
}

/* ---- Taps ------------------------------------------------------------------------------------ */

/* The polynomial of n coefficients g at +-point. */
DPT_CPU_INLINE void winograd_evaluate_pair(const vec *g, const size_t n, const float point,
                                           const float square, vec *u)
{
    const size_t last_even = (n - 1) / 2 * 2, last_odd = n / 2 * 2 - 1;
    vec even = g[last_even], odd = g[last_odd];
    DPT_CPU_UNROLL
    for (size_t k = last_even; k > 0; k -= 2)
        even = winograd_fma(square, even, g[k - 2]);
    DPT_CPU_UNROLL
    for (size_t k = last_odd; k > 1; k -= 2)
        odd = winograd_fma(square, odd, g[k - 2]);
    odd = winograd_scale(point, odd);
    u[0] = vec_add(even, odd);
    u[1] = vec_sub(even, odd);
}

/* Transforms n taps g, or n results of a tile, to `side` points u.  The weights of the points are
   applied to one factor of a product only (winograd_weigh). */
DPT_CPU_INLINE void winograd_evaluate(const vec *g, const size_t n, vec *u, const size_t side)
{
    u[0] = g[0];
    if (side == 7) {
        winograd_evaluate_pair(g, n, 0.5f, 0.25f, u + 1);
        winograd_evaluate_pair(g, n, 1.25f, 1.5625f, u + 3);
        winograd_evaluate_pair(g, n, 3.0f, 9.0f, u + 5);
        return;
    }
    u[side - 1] = g[n - 1];
    if (side == 4) {
        winograd_evaluate_pair(g, n, 1.0f, 1.0f, u + 1);
    } else {
        winograd_evaluate_pair(g, n, WINOGRAD_ROOT_HALF, 0.5f, u + 1);
        winograd_evaluate_pair(g, n, WINOGRAD_ROOT_TWO, 2.0f, u + 3);
    }
}

/* Divides a value of point i by the product of the point's differences to the other points. */
DPT_CPU_INLINE vec winograd_weigh(vec x, const size_t i, const size_t side)
{
    static const float of_4[] = {1.0f, 0.5f, 0.5f, 1.0f};
    static const float of_6[] = {1.0f, -2.0f / 3.0f, -2.0f / 3.0f, 1.0f / 6.0f, 1.0f / 6.0f, 1.0f};
    static const float of_7[] = {-1.0f / 3.515625f,  1.0f / 5.7421875f,  1.0f / 5.7421875f,
                                 -1.0f / 30.505371f, -1.0f / 30.505371f, 1.0f / 1171.40625f,
                                 1.0f / 1171.40625f};
    return winograd_scale(side == 4 ? of_4[i] : side == 6 ? of_6[i] : of_7[i], x);
}

/* ---- Results --------------------------------------------------------------------------------- */

/* Adds the terms of the products m at +-point to each y[k]: point^k times their sum or difference.
   `first`: it is the first pair, and y holds nothing yet except the term of infinity in y[n - 1].
 */
DPT_CPU_INLINE void winograd_add_pair(const vec *m, const float point, const float square,
                                      const bool first, const bool infinity, vec *y, const size_t n)
{
    const vec even = vec_add(m[0], m[1]);
    const vec odd = winograd_scale(point, vec_sub(m[0], m[1]));
    float power = 1.0f;
    DPT_CPU_UNROLL
    for (size_t k = 0; k < n; k++) {
        const vec part = k % 2 ? odd : even;
        if (first && !(infinity && k + 1 == n))
            y[k] = winograd_scale(power, part);
        else
            y[k] = winograd_fma(power, part, y[k]);
        if (k % 2) power *= square;
    }
}

/* Transforms `side` products m to n results y. */
DPT_CPU_INLINE void winograd_interpolate(const vec *m, vec *y, const size_t n, const size_t side)
{
    if (side == 7) {
        winograd_add_pair(m + 5, 3.0f, 9.0f, true, false, y, n);
        winograd_add_pair(m + 3, 1.25f, 1.5625f, false, false, y, n);
        winograd_add_pair(m + 1, 0.5f, 0.25f, false, false, y, n);
    } else {
        y[n - 1] = m[side - 1];
        if (side == 6) winograd_add_pair(m + 3, WINOGRAD_ROOT_TWO, 2.0f, true, true, y, n);
        if (side == 6) winograd_add_pair(m + 1, WINOGRAD_ROOT_HALF, 0.5f, false, true, y, n);
        if (side == 4) winograd_add_pair(m + 1, 1.0f, 1.0f, true, true, y, n);
    }
    y[0] = vec_add(m[0], y[0]);
}

#endif
