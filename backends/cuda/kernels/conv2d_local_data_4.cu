/* conv2d_local_data.cl as CUDA, with accesses of 4. */
#define WIDTH 4
#include "conv2d_local_variant.h"

#define dpt_conv2d_local_data JOIN(dpt_conv2d_local_data_, WIDTH)
#include "conv2d_local_data.cl"
#include "table.h"

const struct dpt_kernel JOIN(dpt_cuda_table_conv2d_local_data_, WIDTH)[] = {
    {"conv2d_local_data.cl", OPTIONS, "dpt_conv2d_local_data", (const void *)dpt_conv2d_local_data},
    END_OF_TABLE,
};
