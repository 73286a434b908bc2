/* conv2d_local_weights.cl by tensor cores, in tiles of 64x32, with accesses of 1 to what has the
   input's channels and of 4 to what has the output's. */
#define COLUMNS    32
#define IN_WIDTH   1
#define OUT_WIDTH  4
#define IS_FORWARD 0
#include "conv2d_tensor_variant.h"

#include "conv2d_local_weights.cl"
#include "table.h"

const struct dpt_kernel STORING_TABLE(JOIN(conv2d_tensor_weights_, COLUMNS, IN_WIDTH,
                                           OUT_WIDTH))[] = {
    KERNEL_ROW("conv2d_local_weights.cl", OPTIONS AND_STORING, dpt_conv2d_local_weights),
    END_OF_TABLE,
};
