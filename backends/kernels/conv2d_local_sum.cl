/* Adds the chunks' sums that conv2d_local_weights.cl left in the workspace, in their order. */
#include "conv2d_local.h"

/* parts (n_parts,part_size): of each chunk n_weights elements of dw, then n_biases of dbias */
KERNEL void dpt_conv2d_local_sum(OUT(float, dw), OUT(float, dbias), IN(float, parts),
                                 const conv2d_local_sum_params p)
{
    TENSOR_OUT(float, dw);
    TENSOR_OUT(float, dbias);
    TENSOR_IN(float, parts);
    const u64 i = GLOBAL_ID;
    if (i >= (u64)p.n_weights + p.n_biases) return;
    float sum = parts[i];
    for (u32 part = 1; part < p.n_parts; part++)
        sum += parts[part * p.part_size + i];
    GLOBAL float *to = i < p.n_weights ? dw + i : dbias + (i - p.n_weights);
    *to = p.accumulate ? *to + sum : sum;
}
