/* The kernel of batched matrix products (kernels/matmul.cl), for the operators that launch it. */
#ifndef DPT_COMMON_MATMUL_KERNEL_H
#define DPT_COMMON_MATMUL_KERNEL_H

#include "matmul.h"
#include "operators.h"

typedef struct dpt_matmul_kernel {
    dpt_kernel *kernel;
    size_t tile;    /* rows and columns that a group computes: 64 or 32 */
    size_t n_items; /* work items of a group */
} dpt_matmul_kernel;

/* *out: the kernel for products of rows x columns, in the operator's type, and deterministic if the
   operator is.  The bits of a product depend on no tile.  Fails as dpt_kernel_get does. */
DPT_CHECK_RESULT dpt_status dpt_matmul_kernel_get(const dpt_op *op, size_t rows, size_t columns,
                                                  dpt_matmul_kernel *out);

/* Enqueues a launch to which y, a and b were added.  p is complete except for column_tiles. */
DPT_CHECK_RESULT dpt_status dpt_matmul_launch(const dpt_matmul_kernel *kernel, dpt_launch *launch,
                                              matmul_params p);

#endif
