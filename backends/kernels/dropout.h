/* Parameters of dropout.cl. */
#ifndef DPT_KERNELS_DROPOUT_H
#define DPT_KERNELS_DROPOUT_H

#include "dialect.h"

typedef struct dropout_params {
    u32 count; /* elements of a sample */
    u32 stream;
    u32 border;  /* an element is kept if the upper 24 bits of its word are at least this */
    float scale; /* 1 / (1 - p) */
    u32 accumulate;
    u32 n_samples;
} dropout_params;

#endif
