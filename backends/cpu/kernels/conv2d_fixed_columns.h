/* Deterministic convolution, backward-weights, as a matrix product (conv2d_fixed_columns.c). */
#ifndef DPT_CPU_CONV2D_FIXED_COLUMNS_H
#define DPT_CPU_CONV2D_FIXED_COLUMNS_H

#include "conv2d.h"

/* Whether the product is faster than the tiles of conv2d_fixed_weights.c.  Both give the same
   bits. */
bool KERNEL(fixed_columns_suit)(const conv *v);
/* Fills in op->plan, whose state is v already. */
void KERNEL(fixed_columns_prepare)(dpt_op *op, const conv *v);

#endif
