/* Activation functions over arrays, for every kernel that fuses one. */
#ifndef DPT_CPU_ACTIVATION_H
#define DPT_CPU_ACTIVATION_H

#include "backend.h"
#include "namespace.h"

/* y[i] = f(x[i]); y may be x.  Keeps NaN. */
void KERNEL(activate)(dpt_activation kind, float *y, const float *x, size_t n);
/* dx[i] = dy[i] * f', with f' from the output y, GELU's from the input; dx may be dy. */
void KERNEL(differentiate)(dpt_activation kind, float *dx, const float *y, const float *dy,
                           size_t n);
/* Whether small integers stay exact. */
bool KERNEL(activation_exact)(dpt_activation kind);

#endif
