/* Auxiliary kernels of the convolutions for CPUs: packing filters in panels, copying samples into
   frames, and adding up the parts of weight gradients.  A group has one work item. */
#include "conv2d_registers.h"

#define ITEM_KERNEL KERNEL __attribute__((reqd_work_group_size(1, 1, 1)))

/* The groups are (block of columns, row of taps, panel).  The first item of a panel writes its bias,
   and the first item of all writes the zeros. */
ITEM_KERNEL void dpt_conv2d_pack(OUT(float, packed), OUT(float, bias), IN(float, w), IN(float, b),
                                 const conv_pack_params p)
{
    TENSOR_OUT(float, packed);
    TENSOR_OUT(float, bias);
    TENSOR_IN(float, w);
    TENSOR_IN(float, b);
    const u32 tap_row = GROUP_ID(1), panel = GROUP_ID(2), group = panel / p.n_panels;
    const u32 first = panel % p.n_panels * p.lanes;
    const u32 n = min(p.group_lanes - first, p.lanes);
    const u32 n_columns = p.taps_w * p.channels;
    const u32 begin = GROUP_ID(0) * CONV_PACK_COLUMNS;
    const u32 end = min(begin + CONV_PACK_COLUMNS, n_columns);
    GLOBAL const float *from =
        w + group * p.group_step + first * p.lane_step + (p.row_first + (i32)tap_row * p.row_step);
    GLOBAL float *to = packed + ((u64)panel * p.taps_h + tap_row) * n_columns * p.lanes;

    for (u32 column = begin; column < end; column++) {
        const u32 tap = column / p.channels, channel = column % p.channels;
        GLOBAL const float *element =
            from + (p.column_first + (i32)tap * p.column_step) + channel * p.channel_step;
        for (u32 lane = 0; lane < n; lane++)
            to[(u64)column * p.lanes + lane] = element[lane * p.lane_step];
        for (u32 lane = n; lane < p.lanes; lane++)
            to[(u64)column * p.lanes + lane] = 0.0f;
    }
    if (begin > 0 || tap_row > 0) return;
    if (p.has_bias)
        for (u32 lane = 0; lane < p.lanes; lane++)
            bias[panel * p.lanes + lane] =
                lane < n ? b[group * p.group_lanes + first + lane] : 0.0f;
    if (panel > 0) return;
    GLOBAL float *const zeros = packed + (u64)get_num_groups(2) * p.taps_h * n_columns * p.lanes;
    for (u32 i = 0; i < p.n_zeros; i++)
        zeros[i] = 0.0f;
}

/* The groups are (row of the frame, sample). */
ITEM_KERNEL void dpt_conv2d_frame(OUT(float, frame), IN(float, x), const conv_frame_params p)
{
    TENSOR_OUT(float, frame);
    TENSOR_IN(float, x);
    const u32 row = GROUP_ID(0) - p.first_h; /* wraps around above the sample */
    GLOBAL float *to = frame + ((u64)GROUP_ID(1) * p.out_h + GROUP_ID(0)) * p.out_row;
    GLOBAL const float *from = x + ((u64)GROUP_ID(1) * p.in_h + row) * p.in_row;
    if (row >= p.in_h) {
        for (u32 i = 0; i < p.out_row; i++)
            to[i] = 0.0f;
        return;
    }
    for (u32 i = 0; i < p.first; i++)
        to[i] = 0.0f;
    for (u32 i = 0; i < p.in_row; i++)
        to[p.first + i] = from[i];
    for (u32 i = p.first + p.in_row; i < p.out_row; i++)
        to[i] = 0.0f;
}

/* parts -> dw (out_channels, filter_size), db.  A group is one tile.  Parts are added in their order.
   The sum of one part keeps the sign of a zero, unless p.end is +0. */
ITEM_KERNEL void dpt_conv2d_reduce(OUT(float, dw), OUT(float, db), IN(float, parts),
                                   IN(float, bias_parts), const conv_reduce_params p)
{
    TENSOR_OUT(float, dw);
    TENSOR_OUT(float, db);
    TENSOR_IN(float, parts);
    TENSOR_IN(float, bias_parts);
    const u32 index = GROUP_ID(0), tile = index % p.filter_tiles, panel = index / p.filter_tiles;
    const u32 channel = panel % p.n_panels * p.lanes;
    const u32 n = min(p.group_out - channel, p.lanes);
    const u32 out = panel / p.n_panels * p.group_out + channel;
    const u32 size = p.rows * p.lanes;
    float sums[CONV_TILE_MAX];

    for (u32 i = 0; i < size; i++)
        sums[i] = p.n_parts > 0 ? -0.0f : 0.0f;
    for (u64 part = 0; part < p.n_parts; part++) {
        GLOBAL const float *from = parts + (part * p.n_tiles + index) * size;
        for (u32 i = 0; i < size; i++)
            sums[i] += from[i];
    }

    /* The elements of the filter that the tile's rows stand for.  The last tile of a tap overlaps the
       one before it. */
    u32 first = tile * p.rows, skip = 0, element = first;
    u32 end = min(first + p.rows, p.filter_size);
    if (p.cut_by_taps) {
        const u32 tap = tile / p.tap_tiles;
        first = tile % p.tap_tiles * p.rows;
        skip = first - min(first, p.group_in - p.rows);
        element = tap * p.group_in + first;
        end = tap * p.group_in + min(first + p.rows, p.group_in);
    }
    for (u32 lane = 0; lane < n; lane++) {
        GLOBAL float *to = dw + (u64)(out + lane) * p.filter_size + element;
        const float *from = sums + skip * p.lanes + lane;
        for (u32 i = 0; i < end - element; i++) {
            const float sum = from[i * p.lanes] + p.end;
            to[i] = p.accumulate ? to[i] + sum : sum;
        }
    }

    if (!p.has_bias || tile > 0) return;
    const u32 n_panels = p.n_tiles / p.filter_tiles;
    for (u32 lane = 0; lane < n; lane++) {
        float sum = 0.0f;
        for (u64 part = 0; part < p.n_parts; part++)
            sum += bias_parts[(part * n_panels + panel) * p.lanes + lane];
        db[out + lane] = (p.accumulate ? db[out + lane] : 0.0f) + sum;
    }
}
