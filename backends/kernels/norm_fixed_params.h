/* Parameters of norm_fixed.cl. */
#ifndef DPT_KERNELS_NORM_FIXED_PARAMS_H
#define DPT_KERNELS_NORM_FIXED_PARAMS_H

#include "dialect.h"

#define NORM_LANES     16u /* of the rows of a sample, and the most grains of a call */
#define NORM_CPU_WIDTH 64u /* the most channels of a tile on a CPU */

/* Of the sums of each sample, and of their totals.  Channels are divided into tiles.  On a GPU a
   group treats a tile of some samples with an item for each lane of each channel. */
typedef struct norm_fixed_params {
    u64 n_samples;
    u64 grain;    /* samples of a grain */
    u32 n_grains; /* at least 1 */
    u32 rows;     /* of a sample */
    u32 channels;
    u32 width; /* channels of a tile: on a GPU a power of two, at most GROUP / NORM_LANES */
    u32 n_tiles;
    u32 accumulate;
    u32 masks; /* of batch-norm: a ReLU follows */
    u32 unused;
} norm_fixed_params;

#endif
