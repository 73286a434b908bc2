/* Parameters of convert.cl. */
#ifndef DPT_KERNELS_CONVERT_PARAMS_H
#define DPT_KERNELS_CONVERT_PARAMS_H

#include "dialect.h"

typedef struct convert_params {
    u64 count;    /* elements */
    u32 by_quads; /* the launch treats quads (quad.h) */
    u32 unused;
} convert_params;

#endif
