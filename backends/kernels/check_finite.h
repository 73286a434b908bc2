/* Parameters of check_finite.cl. */
#ifndef DPT_KERNELS_CHECK_FINITE_H
#define DPT_KERNELS_CHECK_FINITE_H

#include "dialect.h"

typedef struct check_finite_params {
    u64 count; /* elements of all samples */
} check_finite_params;

#endif
