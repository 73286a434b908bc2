/* exp, the logistic function and tanh of several vectors at once, for loops that consist of them.

   The operations of one exp wait for each other: some 25 of them, of three or four cycles each.  A
   processor has units for several at once.  So the operations of several vectors stand side by
   side, and the processor need not look far ahead for those that can begin.

   The formulas are those of functions.h, and so are the bits, except that the argument of exp is
   limited to what needs one power of two: the logistic function stays at 1.2e-38 below -87.3, so
   that it is never less than the smallest normal number. */
#ifndef DPT_CPU_VEC_FUNCTIONS_H
#define DPT_CPU_VEC_FUNCTIONS_H

#include "simd.h"

enum { VEC_MOST = 4 /* vectors of a call */ };

/* n, the number of vectors, is a constant at every call. */
#define VEC_EACH                                                                                   \
    DPT_CPU_UNROLL                                                                                 \
    for (size_t k = 0; k < n; k++)

/* The largest argument of vec_exp, and without its sign the least one. */
#define VEC_EXP_LIMIT 87.3f

/* x = exp(x), for x from -VEC_EXP_LIMIT to VEC_EXP_LIMIT, or NaN */
DPT_CPU_INLINE void vec_exp(vec x[VEC_MOST], const size_t n)
{
    static const float terms[] = {1.39447034e-3f, 8.33349768e-3f, 4.16662954e-2f, 1.66666657e-1f,
                                  0.5f};
    const vec shift = vec_set(12582912.0f), one = vec_set(1.0f);
    const vec high = vec_set(0.693359375f), low = vec_set(-2.12194440e-4f);
    vec shifted[VEC_MOST], r[VEC_MOST], p[VEC_MOST];
    VEC_EACH shifted[k] = vec_add(vec_mul(x[k], vec_set(1.44269504f)), shift);
    VEC_EACH p[k] = vec_sub(shifted[k], shift);
    VEC_EACH r[k] = vec_sub(x[k], vec_mul(p[k], high));
    VEC_EACH r[k] = vec_sub(r[k], vec_mul(p[k], low));
    VEC_EACH p[k] = vec_set(1.97902e-4f);
    DPT_CPU_UNROLL
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++)
        VEC_EACH p[k] = vec_add(vec_mul(p[k], r[k]), vec_set(terms[i]));
    VEC_EACH p[k] = vec_mul(vec_mul(r[k], r[k]), p[k]);
    VEC_EACH p[k] = vec_add(one, vec_add(r[k], p[k]));
    VEC_EACH x[k] = vec_mul(p[k], vec_power_of_two(shifted[k]));
}

/* ---- Before and behind exp ------------------------------------------------------------------- */

DPT_CPU_INLINE vec vec_sigmoid_begin(vec x)
{
    const vec limit = vec_set(VEC_EXP_LIMIT);
    return vec_max(vec_negate(limit), vec_min(limit, vec_negate(x)));
}

DPT_CPU_INLINE vec vec_sigmoid_end(vec e)
{
    const vec one = vec_set(1.0f);
    return vec_div(one, vec_add(one, e));
}

DPT_CPU_INLINE vec vec_tanh_begin(vec x)
{
    const vec a = vec_absolute(x);
    return vec_min(vec_set(VEC_EXP_LIMIT), vec_add(a, a));
}

DPT_CPU_INLINE vec vec_tanh_end(vec x, vec e)
{
    static const float terms[] = {2.04833150e-2f, -5.36929667e-2f, 1.33308992e-1f, -3.33332628e-1f};
    const vec a = vec_absolute(x), z = vec_mul(x, x), one = vec_set(1.0f);
    vec p = vec_set(-5.52863302e-3f);
    DPT_CPU_UNROLL
    for (size_t i = 0; i < sizeof terms / sizeof *terms; i++)
        p = vec_add(vec_mul(p, z), vec_set(terms[i]));
    const vec near = vec_add(a, vec_mul(a, vec_mul(z, p)));
    const vec far = vec_sub(one, vec_div(vec_set(2.0f), vec_add(e, one)));
    return vec_with_sign(vec_where_less(a, vec_set(0.625f), near, far), x);
}

/* ---- Functions ------------------------------------------------------------------------------- */

DPT_CPU_INLINE void vec_sigmoid(vec x[VEC_MOST], const size_t n)
{
    VEC_EACH x[k] = vec_sigmoid_begin(x[k]);
    vec_exp(x, n);
    VEC_EACH x[k] = vec_sigmoid_end(x[k]);
}

DPT_CPU_INLINE void vec_tanh(vec x[VEC_MOST], const size_t n)
{
    vec e[VEC_MOST];
    VEC_EACH e[k] = vec_tanh_begin(x[k]);
    vec_exp(e, n);
    VEC_EACH x[k] = vec_tanh_end(x[k], e[k]);
}

#endif
