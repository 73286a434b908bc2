/* conv2d_local_weights.cl in tiles of 64x64, with accesses of 1 to what has the input's
   channels and of 1 to what has the output's. */
#define TENSOR     0
#define COLUMNS    64
#define IN_WIDTH   1
#define OUT_WIDTH  1
#define IS_FORWARD 0
#include "conv2d_local_variant.h"

#include "conv2d_local_weights.cl"
#include "table.h"

const struct dpt_kernel STORING_TABLE(conv2d_local_weights_64_11)[] = {
    KERNEL_ROW("conv2d_local_weights.cl",
               "-DTILE_M=64 -DTILE_N=64 -DTILE_K=16 -DREG_M=8 -DREG_N=4 -DA_WIDTH=1 -DB_WIDTH=1 "
               "-DC_WIDTH=1" AND_STORING,
               dpt_conv2d_local_weights),
    END_OF_TABLE,
};
