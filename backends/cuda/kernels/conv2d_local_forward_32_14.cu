/* conv2d_local_forward.cl in tiles of 64x32, with accesses of 1 to what has the input's
   channels and of 4 to what has the output's. */
#define TENSOR     0
#define COLUMNS    32
#define IN_WIDTH   1
#define OUT_WIDTH  4
#define IS_FORWARD 1
#include "conv2d_local_variant.h"

#include "conv2d_local_forward.cl"
#include "table.h"

const struct dpt_kernel dpt_cuda_table_conv2d_local_forward_32_14[] = {
    KERNEL_ROW("conv2d_local_forward.cl",
               "-DTILE_M=64 -DTILE_N=32 -DTILE_K=16 -DREG_M=8 -DREG_N=4 -DA_WIDTH=1 -DB_WIDTH=1 "
               "-DC_WIDTH=4",
               dpt_conv2d_local_forward),
    END_OF_TABLE,
};
