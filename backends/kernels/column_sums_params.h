#ifndef DPT_KERNELS_COLUMN_SUMS_PARAMS_H
#define DPT_KERNELS_COLUMN_SUMS_PARAMS_H

#include "dialect.h"

typedef struct column_sums_params {
    u64 rows;
    u64 piece_rows; /* of a piece; the last may have fewer */
    u32 n_pieces;
    u32 columns;
    u32 row;        /* elements from row to row */
    u32 accumulate; /* what is there is added to */
    /* LANES 1: */
    u32 width;       /* columns of a group, at most GROUP, */
    u32 height;      /* GROUP / width items of each, */
    u32 half_height; /* and half the least power of two that is no less */
    u32 unused;
} column_sums_params;

#endif
