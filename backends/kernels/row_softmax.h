/* Parameters of row_softmax.cl. */
#ifndef DPT_KERNELS_ROW_SOFTMAX_H
#define DPT_KERNELS_ROW_SOFTMAX_H

#include "dialect.h"

typedef struct row_softmax_params {
    u64 n_rows; /* of all samples */
    u32 columns;
    u32 log_of; /* whether y is the logarithm of the softmax */
    u32 accumulate;
    u32 unused;
} row_softmax_params;

#endif
