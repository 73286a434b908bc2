#ifndef DPT_KERNELS_COLUMN_SUMS_PARAMS_H
#define DPT_KERNELS_COLUMN_SUMS_PARAMS_H

#include "dialect.h"

typedef struct column_sums_params {
    u64 rows;
    u64 piece_rows; /* rows of a piece; the last piece may have fewer */
    u32 n_pieces;
    u32 columns;
    u32 row;        /* elements from one row to the next */
    u32 accumulate; /* the sums are added to the output */
    /* Used if LANES is 1: */
    u32 width;       /* columns of a group, at most GROUP */
    u32 height;      /* work items of a column: GROUP / width */
    u32 half_height; /* half of the least power of two that is not below height */
    u32 unused;
} column_sums_params;

#endif
