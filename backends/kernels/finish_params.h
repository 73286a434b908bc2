/* Parameters of finish.cl. */
#ifndef DPT_KERNELS_FINISH_PARAMS_H
#define DPT_KERNELS_FINISH_PARAMS_H

#include "divide.h"

typedef struct finish_params {
    divisor columns;
    u32 count; /* elements, below 2^31 */
    u32 accumulate;
    u32 has_bias;
    u32 activation;      /* dpt_activation */
    u32 mask_activation; /* dpt_activation */
    u32 by_quads;        /* the launch treats quads (quad.h) */
} finish_params;

#endif
