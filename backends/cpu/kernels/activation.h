/* Activation functions over arrays, for all kernels that apply one. */
#ifndef DPT_CPU_ACTIVATION_H
#define DPT_CPU_ACTIVATION_H

#include "../operators.h"
#include "namespace.h"

/* y[i] = f(x[i]); y may be x.  A NaN stays NaN.  A deterministic operator takes the functions of
   kernels/exact.h. */
void KERNEL(activate)(const dpt_op *op, dpt_activation kind, float *y, const float *x, size_t n);
/* dx[i] = dy[i] * f'(y[i]); dx may be dy.  y is the output of the function, or its input for a
   function that is never fused (dpt_activation_fuses). */
void KERNEL(differentiate)(const dpt_op *op, dpt_activation kind, float *dx, const float *y,
                           const float *dy, size_t n);
/* Returns whether f and its derivative keep small integers exact. */
bool KERNEL(activation_exact)(dpt_activation kind);

#endif
