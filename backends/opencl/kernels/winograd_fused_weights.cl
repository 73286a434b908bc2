/* Deterministic Winograd convolutions on CPUs, backward-weights, behind the transforms of x and dy.
   A work item computes the sums of a grain for some filters and channels, transforms them to taps,
   and adds the taps up along the tree.  The sums of one grain and one chunk of filters stay in its
   core's second-level cache.  A group has one item, and the groups divide filters and channels. */
#include "winograd_sum.h"
#include "winograd_taps.h"

/* Adds the taps of a chunk of filters and n_chunks chunks of channels from `first` on to the tree.
   m: the sums. */
DEVICE void add_chunk(GLOBAL float *dw, GLOBAL float *waiting, GLOBAL const float *m,
                      const winograd_weights_fusion *p, u32 chunk, u32 first, u32 n_chunks,
                      u32 grain)
{
    const winograd_weights *w = &p->weights;
    for (u32 lane = 0; lane < WIDTH && chunk * WIDTH + lane < w->out_channels; lane++) {
        const u64 filter = chunk * WIDTH + lane;
        for (u32 other = 0; other < n_chunks; other++) {
            const u32 channel = (first + other) * WIDTH;
            vec taps[TAPS][TAPS];
            tap_place at;
            if (channel >= w->in_channels) break;
            at.first = filter * ALL_TAPS * w->in_channels + channel;
            at.lanes = w->in_channels - channel;
            transform_sums(m + (lane * p->span + other) * WIDTH, w, taps);
            add_grain(dw, waiting, w, at, taps, grain);
        }
    }
}

KERNEL __attribute__((reqd_work_group_size(1, 1, 1))) void
winograd_fused_weights(OUT(float, dw), OUT(float, waiting), OUT(float, scratch), IN(float, a),
                       IN(float, b), const winograd_weights_fusion p)
{
    TENSOR_OUT(float, dw);
    TENSOR_OUT(float, waiting);
    TENSOR_OUT(float, scratch);
    TENSOR_IN(float, a);
    TENSOR_IN(float, b);
    const winograd_sum *sum = &p.sum;
    const u32 n_strips = (sum->a_chunks + p.strip - 1) / p.strip;
    const u32 n_spans = (sum->b_chunks + p.span - 1) / p.span;
    GLOBAL float *const m = scratch + get_group_id(0) * p.group_stride;
    for (u32 item = (u32)get_group_id(0); item < n_strips * n_spans;
         item += (u32)get_num_groups(0)) {
        const u32 first = item / n_strips * p.span, begin = item % n_strips * p.strip;
        const u32 n_chunks = min(p.span, sum->b_chunks - first);
        const u32 end = min(begin + p.strip, sum->a_chunks);
        for (u32 grain = 0; grain < p.weights.n_grains; grain++) {
            const u32 row = p.first_row + grain * p.grain_rows;
            const u32 n = min(p.grain_rows, sum->n_rows - row);
            for (u32 chunk = begin; chunk < end; chunk++) {
                for (u32 point = 0; point < POINTS * POINTS; point++)
                    sum_products(m + point * p.weights.point_stride, p.span,
                                 a + point * sum->a_stride + ((u64)chunk * sum->n_rows + row) * WIDTH,
                                 b + point * sum->b_stride + ((u64)first * sum->n_rows + row) * WIDTH,
                                 (u64)sum->n_rows * WIDTH, n_chunks, n, false);
                add_chunk(dw, waiting, m, &p, chunk, first, n_chunks, p.weights.first + grain);
            }
        }
    }
}
