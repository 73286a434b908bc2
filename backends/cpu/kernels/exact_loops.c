#include "exact_loops.h"

#include "kernels/exact.h"

/* An element of the result depends on the same element of the operands alone. */
#if defined(__clang__)
#define EXACT_LOOP _Pragma("clang loop vectorize(assume_safety)")
#else
#define EXACT_LOOP _Pragma("GCC ivdep")
#endif

#define EXACT_CASE(code, expression)                                                               \
    case DPT_MAP_##code:                                                                           \
        EXACT_LOOP                                                                                 \
        for (size_t i = 0; i < n; i++)                                                             \
            y[i] = (expression);                                                                   \
        return true;

bool KERNEL(exact_apply)(dpt_map_code code, float *y, const float *a, const float *b, size_t n)
{
    switch (code) {
        EXACT_CASE(EXP, exact_exp(a[i]))
        EXACT_CASE(LOG, exact_log(a[i]))
        EXACT_CASE(SINE, exact_sin(a[i]))
        EXACT_CASE(COSINE, exact_cos(a[i]))
        EXACT_CASE(TANH, exact_tanh(a[i]))
        EXACT_CASE(ERF, exact_erf(a[i]))
        EXACT_CASE(SIGMOID, exact_sigmoid(a[i]))
        EXACT_CASE(SOFTPLUS, exact_softplus(a[i]))
        EXACT_CASE(POWER, exact_power(a[i], b[i]))
    default: return false;
    }
}

void KERNEL(exact_gelu)(float *y, const float *x, size_t n)
{
    EXACT_LOOP
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] * exact_normal(x[i]);
}

void KERNEL(exact_gelu_slope)(float *dx, const float *x, const float *dy, size_t n)
{
    const float inverse_sqrt_2pi = 0.39894228f;
    EXACT_LOOP
    for (size_t i = 0; i < n; i++)
        dx[i] = dy[i] * (exact_normal(x[i]) + x[i] * (inverse_sqrt_2pi * exact_bell(x[i])));
}
