/* Products of two values that are computed, such as queries and keys: layers that are one MATMUL
   (core/backend/op_list.h).  The gradient of either input is a MATMUL, too. */
#ifndef DPTI_PRODUCT_H
#define DPTI_PRODUCT_H

#include "graph/builder.h"

/* Returns whether dpti_product takes these values: both have samples, and both have 2 to 5 axes.
   Returns true after a failure of the model. */
bool dpti_multiplies(const dpt_model *model, dpt_value a, dpt_value b);

/* The matrix products (..., m, k) times (..., k, n) = (..., m, n) over the last two axes; the axes
   in front of them are broadcast to each other.  dpti_multiplies must accept a and b; in a model
   that is read in steps, b may have no samples.  A value that is broadcast, or read with negative
   strides, is copied first.
   Errors: DPT_E_INVALID if the extents do not fit. */
dpt_value dpti_product(dpt_model *model, dpt_value a, dpt_value b);

/* The MATMUL that computes the gradient of input 0 or 1.  Its a and b are the gradient of the
   output and the value of the other input: in this order for input 0, else exchanged. */
dpt_matmul_desc dpti_product_gradient(const dpt_matmul_desc *forward, size_t input);
/* Returns whether a MATMUL writes every element of its output. */
bool dpti_product_writes_all(const dpt_matmul_desc *desc);

#endif
