/* Parameters of matmul.cl. */
#ifndef DPT_KERNELS_MATMUL_H
#define DPT_KERNELS_MATMUL_H

#include "dialect.h"

/* Where the matrices of an operand lie, in elements. */
typedef struct matmul_operand {
    u64 sample; /* from one sample to the next; 0 for a tensor that all samples share */
    u32 offset, batch[3], row, column;
} matmul_operand;

typedef struct matmul_params {
    u64 n_pairs; /* products of all samples */
    matmul_operand a, b, y;
    u32 n_batch, batch1, batch2; /* products of a sample, and the last two axes of the batch */
    u32 rows, columns, inner;
    u32 column_tiles;       /* tiles beside each other */
    u32 a_stored, b_stored; /* 1: the elements are activations; 0: float32 */
    u32 accumulate;
    float alpha;
    u32 resume; /* the sums do not begin with 0 but with y */
} matmul_params;

#endif
