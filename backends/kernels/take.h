/* Parameters of take.cl. */
#ifndef DPT_KERNELS_TAKE_H
#define DPT_KERNELS_TAKE_H

#include "divide.h"

typedef struct take_params {
    u64 n_samples;
    u64 n_indices; /* of all samples */
    u32 count;     /* indices of a sample */
    u32 rows;      /* of the table */
    divisor width; /* elements of a row */
    u32 accumulate;
    u32 unused;
} take_params;

#endif
