/* Parameters of softmax.cl. */
#ifndef DPT_KERNELS_SOFTMAX_H
#define DPT_KERNELS_SOFTMAX_H

#include "dialect.h"

typedef struct softmax_params {
    u64 n_samples;
    u32 classes;
    u32 gradient; /* whether dlogits is written */
    float smoothing;
    float target_on;  /* target of the label's class: 1 - smoothing + smoothing / classes */
    float target_off; /* target of the other classes: smoothing / classes */
    u32 unused;
} softmax_params;

#endif
