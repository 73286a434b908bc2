/* The reference: every operator of DPT_OP_LIST in double precision, by the shortest loops that
   express the mathematics.  Backends are compared with the reference, never with each other.  The
   reference shares only the descriptions and the enumerations with them. */
#ifndef DPT_TEST_REFERENCE_H
#define DPT_TEST_REFERENCE_H

#include "backend.h"

/* The tensors of one call in the slots of DPT_OP_LIST.  Indices, labels and hits are
   doubles too.  With `accumulate` the outputs that the table allows it for are added to; SGD,
   ADAMW, CLIP_NORM and CHECK_FINITE read and write theirs. */
typedef struct reference_args {
    const double *in[DPT_MAX_INPUTS];
    double *out[DPT_MAX_OUTPUTS];
    double inv_labels; /* 0: inv_batch */
    double lr, inv_batch, adam_scale_m, adam_scale_v;
    uint32_t seed[2], epoch; /* of random numbers: low half first */
    bool accumulate;
} reference_args;

void reference_run(const dpt_op_desc *desc, size_t n_samples, const reference_args *args);

/* For error bounds: fills the outputs with the sum of the absolute values of the terms that make up
   each element (what an output held before counts as one if it is accumulated to), so that a
   computation in another order and precision stays within c * eps * sqrt(terms) of it.  For
   softmax the terms are scaled by the spread of the logits, which the exponential magnifies.
   n_in and n_out are the elements of the slots that args uses.  False without memory. */
DPT_CHECK_RESULT bool reference_magnitude(const dpt_op_desc *desc, size_t n_samples,
                                          const reference_args *args,
                                          const size_t n_in[DPT_MAX_INPUTS],
                                          const size_t n_out[DPT_MAX_OUTPUTS]);

/* The same for convolutions that mix (dpt_op_info): the terms of an output as if all its inputs
   were the largest of their channel and sample.  Overwrites out[0], which holds
   reference_magnitude's result; `before` is what it held before the call. */
DPT_CHECK_RESULT bool reference_mixed_magnitude(const dpt_op_desc *desc, size_t n_samples,
                                                const reference_args *args, const double *before);

/* The number of terms that the longest sum of an output has. */
size_t reference_terms(const dpt_op_desc *desc, size_t n_samples, size_t output);

/* activation.c: y = f(x), and f'(x) as a function of y, or of x for a function that is never fused
   (dpt_activation_fuses). */
double reference_activate(dpt_activation kind, double x);
double reference_slope(dpt_activation kind, double y);

/* Philox4x32-10, and the operators that draw with it (random.c). */
void reference_philox(const uint32_t counter[4], const uint32_t key[2], uint32_t out[4]);
void reference_dropout(const dpt_dropout_desc *d, size_t n, const reference_args *args);
/* Changes an image by an operation of RandAugment: its number in dpt_augment's list, and the
   magnitude with its sign.  false: no memory. */
bool reference_randaugment(int kind, double value, const dpt_augment *a, double *image,
                           size_t channels);
void reference_gather_augmented(const dpt_gather_desc *d, size_t n, const reference_args *args);

/* conv.c and pool.c, with the same meaning as reference_run. */
void reference_conv2d_forward(const dpt_conv2d_desc *d, size_t n, const reference_args *args);
void reference_conv2d_backward_data(const dpt_conv2d_desc *d, size_t n, const reference_args *args);
void reference_conv2d_backward_weights(const dpt_conv2d_desc *d, size_t n,
                                       const reference_args *args);
void reference_pool2d_forward(const dpt_pool2d_desc *d, size_t n, const reference_args *args);
void reference_pool2d_backward(const dpt_pool2d_desc *d, size_t n, const reference_args *args);

/* norm.c, and norm_magnitude.c with the meaning of reference_magnitude. */
void reference_batch_norm_partial(const dpt_batch_norm_desc *d, size_t n,
                                  const reference_args *args);
void reference_batch_norm_merge(const dpt_batch_norm_desc *d, size_t n, const reference_args *args);
void reference_batch_norm_freeze(const dpt_batch_norm_desc *d, const reference_args *args);
void reference_batch_norm_forward(const dpt_batch_norm_desc *d, size_t n,
                                  const reference_args *args);
/* The derivative of a batch-norm's output_activation where its input, of channel c, is x; w and b
   are the slots of these. */
double reference_batch_norm_slope(const dpt_batch_norm_desc *d, double x, size_t c,
                                  const reference_args *args, size_t w, size_t b);
void reference_batch_norm_backward_partial(const dpt_batch_norm_desc *d, size_t n,
                                           const reference_args *args);
void reference_batch_norm_backward_data(const dpt_batch_norm_desc *d, size_t n,
                                        const reference_args *args);
void reference_layer_norm_forward(const dpt_layer_norm_desc *d, size_t n,
                                  const reference_args *args);
void reference_layer_norm_backward_data(const dpt_layer_norm_desc *d, size_t n,
                                        const reference_args *args);
void reference_layer_norm_backward_weights(const dpt_layer_norm_desc *d, size_t n,
                                           const reference_args *args);
void magnitude_batch_norm_partial(const dpt_batch_norm_desc *d, size_t n,
                                  const reference_args *args);
void magnitude_batch_norm_merge(const dpt_batch_norm_desc *d, size_t n, const reference_args *args);
void magnitude_batch_norm_freeze(const dpt_batch_norm_desc *d, const reference_args *args);
void magnitude_batch_norm_forward(const dpt_batch_norm_desc *d, size_t n,
                                  const reference_args *args);
void magnitude_batch_norm_backward_partial(const dpt_batch_norm_desc *d, size_t n,
                                           const reference_args *args);
void magnitude_batch_norm_backward_data(const dpt_batch_norm_desc *d, size_t n,
                                        const reference_args *args);
void magnitude_layer_norm_forward(const dpt_layer_norm_desc *d, size_t n,
                                  const reference_args *args);
void magnitude_layer_norm_backward_data(const dpt_layer_norm_desc *d, size_t n,
                                        const reference_args *args);
void magnitude_layer_norm_backward_weights(const dpt_layer_norm_desc *d, size_t n,
                                           const reference_args *args);

/* elementwise.c, with the meaning of reference_run and of reference_magnitude. */
void reference_elementwise(const dpt_op_desc *desc, size_t n, const reference_args *args);
void magnitude_elementwise(const dpt_op_desc *desc, size_t n, const reference_args *args);

/* rows.c, with the meaning of reference_run and of reference_magnitude. */
void reference_row_softmax(const dpt_row_softmax_desc *d, size_t n, const reference_args *args);
void reference_row_softmax_backward(const dpt_row_softmax_desc *d, size_t n,
                                    const reference_args *args);
void magnitude_row_softmax(const dpt_row_softmax_desc *d, size_t n, const reference_args *args);
void magnitude_row_softmax_backward(const dpt_row_softmax_desc *d, size_t n,
                                    const reference_args *args);
void reference_take(const dpt_take_desc *d, size_t n, const reference_args *args);
void reference_take_backward(const dpt_take_desc *d, size_t n, const reference_args *args);

/* map.c, with the meaning of reference_run and of reference_magnitude. */
void reference_map(const dpt_op_desc *desc, size_t n, const reference_args *args);
void magnitude_map(const dpt_op_desc *desc, size_t n, const reference_args *args);
/* The number of values that are combined into one. */
size_t reference_map_terms(const dpt_map_desc *d, size_t n);

/* matmul.c, with the meaning of reference_run. */
void reference_matmul(const dpt_matmul_desc *d, size_t n, const reference_args *args);

/* recurrent.c, with the meaning of reference_run and of reference_magnitude. */
void reference_recurrent(const dpt_op_desc *desc, size_t n, const reference_args *args);
void magnitude_recurrent(const dpt_op_desc *desc, size_t n, const reference_args *args);

/* attention.c, with the meaning of reference_run and of reference_magnitude. */
void reference_attention(const dpt_op_desc *desc, size_t n, const reference_args *args);
void magnitude_attention(const dpt_op_desc *desc, size_t n, const reference_args *args);

/* The sum of the absolute values of the terms of f(x). */
double magnitude_activate(dpt_activation kind, double x);
/* |f'| with its own terms made absolute: 1 - y*y is rounded like 1 + y*y. */
double magnitude_slope(dpt_activation kind, double y);
/* Behind a fused activation whose argument has terms of this size. */
double magnitude_activated(dpt_activation kind, double sum);

#endif
