/* Parameters of squared_error.cl. */
#ifndef DPT_KERNELS_SQUARED_ERROR_H
#define DPT_KERNELS_SQUARED_ERROR_H

#include "dialect.h"

typedef struct squared_error_params {
    u64 n_samples;
    u32 count;     /* elements of a sample */
    u32 gradient;  /* whether dy is written */
    float inverse; /* 1 / count */
    u32 unused;
} squared_error_params;

#endif
