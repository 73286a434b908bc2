/* conv2d_local_weights.cl by tensor cores, in tiles of 64x32, with accesses of 1 to what has the
   input's channels and of 4 to what has the output's. */
#define TENSOR     1
#define COLUMNS    32
#define IN_WIDTH   1
#define OUT_WIDTH  4
#define IS_FORWARD 0
#include "conv2d_local_variant.h"

#include "conv2d_local_weights.cl"
#include "table.h"

const struct dpt_kernel STORING_TABLE(conv2d_tensor_weights_32_14)[] = {
    KERNEL_ROW("conv2d_local_weights.cl",
               "-DTILE_M=64 -DTILE_N=32 -DTILE_K=16 -DREG_M=4 -DREG_N=4 -DA_WIDTH=4 -DB_WIDTH=1 "
               "-DC_WIDTH=1 -DTENSOR=1" AND_STORING,
               dpt_conv2d_local_weights),
    END_OF_TABLE,
};
