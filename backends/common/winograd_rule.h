/* Which deterministic convolutions are Winograd convolutions, and with which tiles.  The rule is
   the same for all backends and for the tests, because the bits of a result depend on it.  It looks
   at the shape of a sample alone.  docs/reproducibility.md has the order of every operation. */
#ifndef DPT_COMMON_WINOGRAD_RULE_H
#define DPT_COMMON_WINOGRAD_RULE_H

#include "backend.h"

/* With fewer channels vectors are partly empty, and transforms cost more than products. */
enum { DPT_WINOGRAD_LEAST_CHANNELS = 16 };

static inline uint64_t dpt_winograd_tiles(const dpt_conv2d_desc *d, uint64_t edge)
{
    return (d->out_h + edge - 1) / edge * ((d->out_w + edge - 1) / edge);
}

/* The values of a transformed tile of `edge` x `edge` outputs. */
static inline uint64_t dpt_winograd_points(const dpt_conv2d_desc *d, uint64_t edge)
{
    return (edge + d->kernel_h - 1) * (edge + d->kernel_w - 1);
}

/* The edge of a tile in outputs: 4 is F(4x4, 3x3), 2 is F(2x2, 3x3), and 3 is F(3x3, 5x5).  0: the
   convolution is direct.  kind: of the family of convolutions. */
static inline size_t dpt_winograd_edge(dpt_op_kind kind, const dpt_conv2d_desc *d)
{
    /* No convolution of this extent is trained, and products below do not overflow. */
    const size_t most_extent = (size_t)1 << 20;
    /* Transformed filters, and the transformed tiles of one sample, have at most 512 MiB. */
    const uint64_t most_values = (uint64_t)1 << 27;
    /* The sums of each grain are transformed to gradients of filters.  That costs as much as so
       many products of a sample, or less. */
    const uint64_t least_saved = kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS ? 96 : 1;

    const size_t taps = d->kernel_h;
    if ((taps != 3 && taps != 5) || d->kernel_w != taps || d->stride_h != 1 || d->stride_w != 1 ||
        d->dilation_h != 1 || d->dilation_w != 1 || d->groups != 1)
        return 0;
    if (d->in_channels < DPT_WINOGRAD_LEAST_CHANNELS ||
        d->out_channels < DPT_WINOGRAD_LEAST_CHANNELS || d->in_channels > most_extent ||
        d->out_channels > most_extent || d->out_h > most_extent || d->out_w > most_extent)
        return 0;

    size_t edge = taps == 5 ? 3 : 2;
    uint64_t products = dpt_winograd_tiles(d, edge) * dpt_winograd_points(d, edge);
    const uint64_t of_4 = dpt_winograd_tiles(d, 4) * dpt_winograd_points(d, 4);
    if (taps == 3 && of_4 < products) {
        edge = 4;
        products = of_4;
    }
    const uint64_t direct = (uint64_t)d->out_h * d->out_w * taps * taps;
    if (2 * products > direct || direct - products < least_saved) return 0;
    const uint64_t channels = (uint64_t)d->in_channels + d->out_channels;
    if ((uint64_t)d->in_channels * d->out_channels > most_values / dpt_winograd_points(d, edge) ||
        products > most_values / channels)
        return 0;
    return edge;
}

#endif
