/* Parameters of activation.cl. */
#ifndef DPT_KERNELS_ACTIVATION_PARAMS_H
#define DPT_KERNELS_ACTIVATION_PARAMS_H

#include "dialect.h"

typedef struct activation_params {
    u64 count;      /* elements of all samples */
    u32 kind;       /* dpt_activation; ignored if ACTIVATION is a macro */
    u32 accumulate; /* of backward */
} activation_params;

#endif
