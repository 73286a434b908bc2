/* Parameters of layer_norm.cl. */
#ifndef DPT_KERNELS_LAYER_NORM_H
#define DPT_KERNELS_LAYER_NORM_H

#include "columns.h"

/* Of FORWARD and BACKWARD_DATA.  A team of work items treats a row.  A group has several teams, and
   each team treats rows_each rows. */
typedef struct layer_norm_params {
    u64 n_rows;
    u32 channels;
    u32 team;  /* work items of a team, a power of two */
    u32 teams; /* of a group */
    u32 rows_each;
    float epsilon;
    u32 activation; /* dpt_activation: the mask */
    u32 accumulate;
    u32 reserved;
} layer_norm_params;

#endif
