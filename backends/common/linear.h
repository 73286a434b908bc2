/* Linear layers as matrix products, and the gradient of a bias. */
#ifndef DPT_COMMON_LINEAR_H
#define DPT_COMMON_LINEAR_H

#include "alternatives.h"
#include "column_sums.h"
#include "finish.h"
#include "operators.h"

/* C (m,n) [+]= op(A) (m,k) * op(B) (k,n), row-major.  Then C = activation(C + bias (n)).  Then C is
   multiplied by the derivative of mask_activation at the place where its output is `mask`, which is
   laid out as C. */
typedef struct dpt_product {
    size_t m, n, k;
    bool a_transposed, b_transposed; /* A is stored (k,m), B (n,k) */
    dpt_location a, b, c;
    dpt_dtype a_type, b_type, c_type; /* mask has c_type, too */
    size_t lda, ldb, ldc;             /* elements from one stored row to the next; ldc = n */
    bool accumulate;
    bool has_bias;
    dpt_location bias;
    dpt_activation activation;
    dpt_location mask; /* used unless mask_activation is NONE */
    dpt_activation mask_activation;
} dpt_product;

/* The product that a call of a LINEAR_... operator with n samples computes.  If the arguments are
   empty, the product has no tensors.  The gradient of the bias is not part of it. */
dpt_product dpt_linear_product(const dpt_op_desc *desc, size_t n, const dpt_op_args *args);

/* The convolution of images of one pixel with filters of one tap that computes the same.  For a
   slice of a layer's weights it has the outputs of the slice alone. */
dpt_op_desc dpt_linear_as_conv2d(const dpt_op_desc *desc);

/* Fills in op->plan of a deterministic layer: that convolution, by dpt_conv2d_chains.
   DPT_E_UNSUPPORTED if the weights or the samples count 2^31 or more, or as there. */
DPT_CHECK_RESULT dpt_status dpt_linear_chains_prepare(dpt_op *op);

/* Whether a bias, an activation or a mask follows the product of A and B. */
bool dpt_linear_is_finished(const dpt_op_desc *desc);

/* Whether the operator is exact on small integers (dpt_op_info.exact). */
bool dpt_linear_is_exact(const dpt_op_desc *desc);

/* Fills in *out except its items, from the description of a linear layer.  The text of out->key is
   written to `key`. */
enum { DPT_LINEAR_KEY_BYTES = 128 };
void dpt_linear_describe(const dpt_op_desc *desc, char key[DPT_LINEAR_KEY_BYTES],
                         dpt_alternatives *out);

/* Enqueues the bias, activation and mask of a product that a library has left in `computed`, as
   float32.
   - If C is float32, `computed` is C, and the library has added the product to it if asked to.
   - Otherwise `computed` shares no bytes with C; the sum with C and the rounding happen here. */
DPT_CHECK_RESULT dpt_status dpt_product_finish(dpt_kernel *kernel, dpt_stream *stream,
                                               const dpt_product *product, dpt_location computed);

/* The second output of a ..._BACKWARD_WEIGHTS operator: the sums over the rows of dy, which is the
   first input. */
typedef struct dpt_bias_gradient {
    dpt_column_sums sums;        /* its kernel is NULL if there is no bias */
    size_t rows, columns;        /* of dy; rows of one sample */
    size_t first, slice_columns; /* the columns that are summed: the first, and how many */
    size_t offset_bytes;         /* of its workspace, behind the workspace of the operator */
} dpt_bias_gradient;

/* dpt_bias_gradient_prepare for LINEAR_BACKWARD_WEIGHTS; does nothing if the layer has no bias or
   the operator is of another kind. */
DPT_CHECK_RESULT dpt_status dpt_linear_bias_prepare(dpt_op *op, dpt_bias_gradient *out);
/* Rounds op->plan.workspace_bytes up, and adds the workspace of the sums.  Fails as
   dpt_column_sums_prepare does. */
DPT_CHECK_RESULT dpt_status dpt_bias_gradient_prepare(dpt_op *op, size_t rows, size_t columns,
                                                      dpt_bias_gradient *out);
/* Enqueues the sums; does nothing if there is no bias. */
DPT_CHECK_RESULT dpt_status dpt_bias_gradient_run(const dpt_call *call,
                                                  const dpt_bias_gradient *gradient);

#endif
