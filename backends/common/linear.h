/* Linear layers as matrix products, and the gradient of a bias. */
#ifndef DPT_COMMON_LINEAR_H
#define DPT_COMMON_LINEAR_H

#include "alternatives.h"
#include "column_sums.h"
#include "finish.h"
#include "operators.h"

/* C (m,n) [+]= op(A) (m,k) * op(B) (k,n), row-major; then C = activation(C + bias (n)) and C *= the
   slope of mask_activation where the output of that is `mask`, which is laid out as C. */
typedef struct dpt_product {
    size_t m, n, k;
    bool a_transposed, b_transposed; /* A is stored (k,m), B (n,k) */
    dpt_location a, b, c;
    dpt_dtype a_type, b_type, c_type; /* c_type is mask's too */
    size_t lda, ldb, ldc;             /* elements from row to row, as stored; ldc = n */
    bool accumulate;
    bool has_bias;
    dpt_location bias;
    dpt_activation activation;
    dpt_location mask; /* used unless mask_activation is NONE */
    dpt_activation mask_activation;
} dpt_product;

/* The product that a call of LINEAR_... is, with n samples, and without its tensors if the
   arguments are empty.  Not the gradient of a bias. */
dpt_product dpt_linear_product(const dpt_op_desc *desc, size_t n, const dpt_op_args *args);

/* Whether something follows the product proper. */
bool dpt_linear_is_finished(const dpt_op_desc *desc);

/* Integers stay exact. */
bool dpt_linear_is_exact(const dpt_op_desc *desc);

/* Fills in what alternatives have to know of a linear layer: all but the items.  The key is written
   to `key`. */
enum { DPT_LINEAR_KEY_BYTES = 128 };
void dpt_linear_describe(const dpt_op_desc *desc, char key[DPT_LINEAR_KEY_BYTES],
                         dpt_alternatives *out);

/* Enqueues what follows a product that a library has left in `computed`, as float32.  That is C,
   where C is float32, with what was to be added to; or memory that shares nothing with C, which is
   then rounded, and added to, here. */
DPT_CHECK_RESULT dpt_status dpt_product_finish(dpt_kernel *kernel, dpt_stream *stream,
                                               const dpt_product *product, dpt_location computed);

/* The second output of ..._BACKWARD_WEIGHTS: sums over the rows of dy, the first input. */
typedef struct dpt_bias_gradient {
    dpt_column_sums sums;        /* no kernel: there is no bias */
    size_t rows, columns;        /* of dy, a sample */
    size_t first, slice_columns; /* those that are summed */
    size_t offset_bytes;         /* of its workspace, behind the operator's own */
} dpt_bias_gradient;

/* LINEAR_BACKWARD_WEIGHTS' own, if it has a bias; as the next. */
DPT_CHECK_RESULT dpt_status dpt_linear_bias_prepare(dpt_op *op, dpt_bias_gradient *out);
/* Adds to op->plan.workspace_bytes, which is rounded up. */
DPT_CHECK_RESULT dpt_status dpt_bias_gradient_prepare(dpt_op *op, size_t rows, size_t columns,
                                                      dpt_bias_gradient *out);
/* Nothing where there is no bias. */
DPT_CHECK_RESULT dpt_status dpt_bias_gradient_run(const dpt_call *call,
                                                  const dpt_bias_gradient *gradient);

#endif
