/* Adding up the partial products of a product that was split over k, in the order of the splits. */
#include "gemm_finish.h"

/* partial (n_batches, n_splits, m, n) -> c */
KERNEL void gemm_sum(OUT(float, c), IN(float, partial), IN(float, bias), IN(float, mask),
                     const gemm_params p, const u64 count)
{
    TENSOR_OUT(float, c);
    TENSOR_IN(float, partial);
    TENSOR_IN(float, bias);
    TENSOR_IN(float, mask);
    const u64 i = GLOBAL_ID;
    if (i >= count) return; /* count: n_batches * m * n */
    const u64 area = (u64)p.m * p.n;
    const u64 batch = i / area, inside = i % area;
    const u32 row = (u32)(inside / p.n), column = (u32)(inside % p.n);
    const u64 at = batch * p.c_stride + (u64)row * p.ldc + column;
    GLOBAL const float *from = partial + batch * p.n_splits * area + inside;
    float sum = from[0];
    for (u32 split = 1; split < p.n_splits; split++)
        sum += from[split * area];
    if (p.accumulate) sum += c[at];
    c[at] = gemm_finish(&p, sum, bias, mask, at, column);
}
