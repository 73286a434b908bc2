/* Parameters of layer_norm.cl. */
#ifndef DPT_KERNELS_LAYER_NORM_H
#define DPT_KERNELS_LAYER_NORM_H

#include "columns.h"

/* FORWARD and BACKWARD_DATA: a team of work items has a row, `teams` of them are a group, which
   does rows_each times as many rows. */
typedef struct layer_norm_params {
    u64 n_rows;
    u32 channels;
    u32 team; /* a power of two */
    u32 teams;
    u32 rows_each;
    float epsilon;
    u32 activation; /* the mask */
    u32 accumulate;
    u32 reserved;
} layer_norm_params;

#endif
