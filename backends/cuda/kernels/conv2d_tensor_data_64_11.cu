/* conv2d_local_data.cl by tensor cores, in tiles of 64x64, with accesses of 1 to what has the
   input's channels and of 1 to what has the output's. */
#define COLUMNS    64
#define IN_WIDTH   1
#define OUT_WIDTH  1
#define IS_FORWARD 0
#include "conv2d_tensor_variant.h"

#include "conv2d_local_data.cl"
#include "table.h"

const struct dpt_kernel STORING_TABLE(JOIN(conv2d_tensor_data_, COLUMNS, IN_WIDTH, OUT_WIDTH))[] = {
    KERNEL_ROW("conv2d_local_data.cl", OPTIONS AND_STORING, dpt_conv2d_local_data),
    END_OF_TABLE,
};
