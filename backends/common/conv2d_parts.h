/* Gradients of filters that a launch leaves in parts.  A part is the sums of one chunk: of the
   weights, and behind them of the biases, as float32.  The parts stand side by side at the
   beginning of the workspace. */
#ifndef DPT_COMMON_CONV2D_PARTS_H
#define DPT_COMMON_CONV2D_PARTS_H

#include "column_sums.h"

typedef struct dpt_conv2d_parts {
    size_t n_weights, n_biases;
    size_t size;    /* elements from one part to the next */
    size_t sums_at; /* offset in bytes of the workspace of `sums` */
    dpt_column_sums sums;
} dpt_conv2d_parts;

/* Computes the sizes of a part; sums_at and `sums` are left zero. */
dpt_conv2d_parts dpt_conv2d_parts_of(const dpt_conv2d_desc *desc);
/* Plans the workspace of up to `most` parts, and prepares parts->sums.  Fails as
   dpt_column_sums_prepare does. */
DPT_CHECK_RESULT dpt_status dpt_conv2d_parts_prepare(dpt_op *op, size_t most,
                                                     dpt_conv2d_parts *parts);
/* Enqueues the sums over the first n parts (at least 1), in their order, to out[0] and out[1] of
   the call. */
DPT_CHECK_RESULT dpt_status dpt_conv2d_parts_add(const dpt_conv2d_parts *parts,
                                                 const dpt_call *call, size_t n, bool accumulate);

#endif
