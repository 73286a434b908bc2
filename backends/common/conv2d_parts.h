/* Gradients of filters that are left in parts: each chunk of a launch has its sums of weights and,
   behind them, of biases, float32, side by side at the beginning of the workspace. */
#ifndef DPT_COMMON_CONV2D_PARTS_H
#define DPT_COMMON_CONV2D_PARTS_H

#include "column_sums.h"

typedef struct dpt_conv2d_parts {
    size_t n_weights, n_biases;
    size_t size;    /* elements from one part to the next */
    size_t sums_at; /* bytes in the workspace: of sums of the parts */
    dpt_column_sums sums;
} dpt_conv2d_parts;

/* A part's sizes. */
dpt_conv2d_parts dpt_conv2d_parts_of(const dpt_conv2d_desc *desc);
/* Plans the workspace of up to `most` parts, and what adds them up. */
DPT_CHECK_RESULT dpt_status dpt_conv2d_parts_prepare(dpt_op *op, size_t most,
                                                     dpt_conv2d_parts *parts);
/* Adds up the first n (at least 1), in their order, to out[0] and out[1] of the call. */
DPT_CHECK_RESULT dpt_status dpt_conv2d_parts_add(const dpt_conv2d_parts *parts,
                                                 const dpt_call *call, size_t n, bool accumulate);

#endif
