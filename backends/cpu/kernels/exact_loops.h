/* Loops over the functions of kernels/exact.h, which have the same bits on all devices, for
   deterministic operators. */
#ifndef DPT_CPU_EXACT_LOOPS_H
#define DPT_CPU_EXACT_LOOPS_H

#include "backend.h"
#include "namespace.h"

/* y[i] = f(a[i]), or f(a[i], b[i]); y may be a or b.  code: EXP, LOG, SINE, COSINE, TANH, ERF,
   SIGMOID, SOFTPLUS or POWER.  Returns false, and does nothing, for every other instruction. */
bool KERNEL(exact_apply)(dpt_map_code code, float *y, const float *a, const float *b, size_t n);

/* y[i] = GELU(x[i]); y may be x. */
void KERNEL(exact_gelu)(float *y, const float *x, size_t n);
/* dx[i] = dy[i] * GELU'(x[i]); dx may be x or dy. */
void KERNEL(exact_gelu_slope)(float *dx, const float *x, const float *dy, size_t n);

#endif
