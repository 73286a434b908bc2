/* Arithmetic with sizes, for the preparation of operators. */
#ifndef DPT_COMMON_SIZE_H
#define DPT_COMMON_SIZE_H

#include "backend.h"

enum { DPT_ALIGNMENT_BYTES = 256 }; /* of buffers, tensors and parts of workspaces */

/* Products and sums that become SIZE_MAX when they overflow, and stay there.  One check at the end
   of a computation finds the overflow. */
static inline size_t dpt_size_mul(size_t a, size_t b)
{
    size_t product;
    return __builtin_mul_overflow(a, b, &product) ? SIZE_MAX : product;
}

static inline size_t dpt_size_add(size_t a, size_t b)
{
    size_t sum;
    return __builtin_add_overflow(a, b, &sum) ? SIZE_MAX : sum;
}

static inline size_t dpt_ceil_div(size_t a, size_t b)
{
    return a / b + (a % b != 0);
}

/* n_bytes rounded up to DPT_ALIGNMENT_BYTES, so that the next part of a workspace is aligned. */
static inline size_t dpt_size_align(size_t n_bytes)
{
    return n_bytes > SIZE_MAX - DPT_ALIGNMENT_BYTES
               ? SIZE_MAX
               : dpt_ceil_div(n_bytes, DPT_ALIGNMENT_BYTES) * DPT_ALIGNMENT_BYTES;
}

#endif
