/* Convolution backward to the filters, for CPUs: a work item adds up the products of some rows of
   output pixels for some tiles of the filters.  dy and x are read where they lie.

   With BY_TAPS a tile is ROWS consecutive channels of one tap, so that its inputs are neighbours,
   and pixels whose tap falls outside are left out.  Without, it is ROWS elements of the filter
   whatever their taps, for few channels; samples then stand in a frame of zeros. */
#include "conv2d_registers.h"
#include "conv2d_registers_tile.h"
#include "tree_params.h"

/* Finds the output rows or columns first .. end-1 whose tap is inside 0 .. extent-1.  The tap of row i
   is at i * stride + offset. */
DEVICE void range_inside(i32 offset, u32 stride, u32 extent, u32 n, u32 *first, u32 *end)
{
    const i32 step = (i32)stride, room = (i32)extent - 1 - offset;
    *first = offset < 0 ? (u32)((-offset + step - 1) / step) : 0u;
    *end = room < 0 ? 0u : min((u32)(room / step) + 1u, n);
}

/* Where the grain of a row ends: a row of the launch, perhaps behind its last one. */
DEVICE u64 grain_end(u64 row, const conv_weights_params *p)
{
    return ((p->before + row) / p->grain_rows + 1) * p->grain_rows - p->before;
}

/* A run of rows whose products are added to sums in registers.  In a deterministic operator no grain
   ends within it. */
typedef struct piece {
    u64 first, last; /* rows; the last one is behind it */
    bool continues;  /* it adds to stored sums */
    bool ends_grain; /* a grain ends with it, */
    bool ends_call;  /* and the call, too */
    u32 grain;
} piece;

/* The piece from `first` on, of a block that ends with `end`. */
DEVICE piece piece_at(u64 first, u64 end, u64 begin, const conv_weights_params *p)
{
    piece k;
    k.first = first;
    k.last = end;
    k.continues = first > begin || p->before > 0;
    k.ends_grain = k.ends_call = false;
    k.grain = 0;
#if DETERMINISTIC
    const u64 behind = grain_end(first, p);
    k.last = min(end, behind);
    k.continues = (p->before + first) % p->grain_rows != 0;
    k.ends_call = p->ends && k.last == p->n_rows;
    k.ends_grain = k.ends_call || k.last == behind;
    k.grain = (u32)((p->before + first) / p->grain_rows);
#endif
    return k;
}

/* Where the block from `first` on ends. */
DEVICE u64 block_end(u64 first, u64 end, const conv_weights_params *p)
{
#if DETERMINISTIC
    return p->by_item ? end : min(min(first + p->block_rows, end), grain_end(first, p));
#else
    return min(first + p->block_rows, end);
#endif
}

/* Adds n_rows vectors of the sums of a grain to those that wait (TREE_LEVELS,n_rows,LANES), and
   stores the result of the call. */
#define END_GRAIN(sums, n_rows, of, waiting, to)                                                   \
    do {                                                                                           \
        u32 level = 0;                                                                             \
        for (; level < TREE_LEVELS && ((of).ends_call || tree_adds((of).grain, level)); level++) { \
            GLOBAL const float *const left = (waiting) + level * ((n_rows) * LANES);               \
            if (!tree_adds((of).grain, level)) continue;                                           \
            UNROLL for (int i = 0; i < (n_rows); i++)                                              \
                EACH_UNIT sums[i][u] = VEC_LOAD(left + i * LANES + u * V) + sums[i][u];            \
        }                                                                                          \
        GLOBAL float *const at = (of).ends_call ? (to) : (waiting) + level * ((n_rows) * LANES);   \
        UNROLL for (int i = 0; i < (n_rows); i++)                                                  \
            EACH_UNIT VEC_STORE(sums[i][u], at + i * LANES + u * V);                               \
    } while (0)

ITEM_KERNEL void dpt_conv2d_weights(OUT(float, parts), OUT(float, bias_parts),
                                    OUT(float, waiting), OUT(float, bias_waiting), IN(float, dy),
                                    IN(float, tail), IN(float, x), const conv_weights_params p)
{
    TENSOR_OUT(float, parts);
    TENSOR_OUT(float, bias_parts);
    TENSOR_OUT(float, waiting);
    TENSOR_OUT(float, bias_waiting);
    TENSOR_IN(float, dy);
    TENSOR_IN(float, tail);
    TENSOR_IN(float, x);
    const u32 part = GROUP_ID(0);
    const u64 begin = part * p.part_rows, end = min(begin + p.part_rows, p.n_rows);
    const u32 tiles_begin = GROUP_ID(1) * p.item_tiles;
    const u32 tiles_end = min(tiles_begin + p.item_tiles, p.n_tiles);
    const u64 last_sample = p.has_tail ? (p.n_rows - 1) / p.out_h : p.n_rows;

    for (u64 first = begin, last; first < end; first = last) {
        last = block_end(first, end, &p);
        for (u32 index = tiles_begin; index < tiles_end; index++) {
            const u32 tile = index % p.filter_tiles, panel = index / p.filter_tiles;
            const u32 group = panel / p.n_panels;
            const u32 channel = group * p.group_out + panel % p.n_panels * LANES;
            GLOBAL float *const to = parts + ((u64)part * p.n_tiles + index) * (ROWS * LANES);
            GLOBAL float *const waits =
                waiting + (u64)(p.by_item ? GROUP_ID(1) : index) * (TREE_LEVELS * ROWS * LANES);

#if BY_TAPS
            const u32 tap = tile / p.tap_tiles;
            const u32 in_channel =
                group * p.group_in + min(tile % p.tap_tiles * ROWS, p.group_in - ROWS);
            const i32 down = (i32)(tap / p.kernel_w * p.dilation_h) - (i32)p.pad_h;
            const i32 right = (i32)(tap % p.kernel_w * p.dilation_w) - (i32)p.pad_w;
            u32 row_first, row_end, column_first, column_end;
            range_inside(down, p.stride_h, p.in_h, p.out_h, &row_first, &row_end);
            range_inside(right, p.stride_w, p.in_w, p.out_w, &column_first, &column_end);
            GLOBAL const float *const source =
                x + ((long)down * p.in_row + (long)right * p.in_pixel + in_channel);
#define INPUT(i) a[i]
#else
            const u32 row_first = 0, row_end = p.out_h, column_first = 0, column_end = p.out_w;
            const u32 filter_size = p.kernel_h * p.kernel_w * p.group_in;
            GLOBAL const float *const source = x + group * p.group_in;
            u64 on[ROWS];
            EACH_ROW
            {
                const u32 element = min(tile * ROWS + i, filter_size - 1);
                const u32 tap = element / p.group_in;
                on[i] = (u64)(tap / p.kernel_w) * p.dilation_h * p.in_row +
                        tap % p.kernel_w * p.dilation_w * p.in_pixel + element % p.group_in;
            }
#define INPUT(i) a[on[i]]
#endif

            for (piece k = piece_at(first, last, begin, &p); k.first < last;
                 k = piece_at(k.last, last, begin, &p)) {
                vec sum[ROWS][UNITS];
                if (k.continues) {
                    EACH_ROW EACH_UNIT sum[i][u] = VEC_LOAD(to + i * LANES + u * V);
                } else {
                    EACH_ROW EACH_UNIT sum[i][u] = 0.0f;
                }
                const u64 down_row = (u64)p.stride_h * p.in_row;
                const u64 right_pixel = (u64)p.stride_w * p.in_pixel;
                u32 row = (u32)(k.first % p.out_h);
                u64 left = k.last - k.first;
                for (u64 sample = k.first / p.out_h; left > 0; sample++, row = 0) {
                    const u32 n_rows = (u32)min((u64)(p.out_h - row), left);
                    const u32 begin_row = max(row, row_first), end_row = min(row + n_rows, row_end);
                    GLOBAL const float *a_row = source + sample * p.in_sample +
                                                begin_row * down_row + column_first * right_pixel;
                    GLOBAL const float *b_row =
                        sample == last_sample ? tail : dy + sample * p.out_sample;
                    b_row += (begin_row * p.out_w + column_first) * p.out_channels + channel;
                    for (u32 r = begin_row; r < end_row; r++) {
                        GLOBAL const float *a = a_row, *b = b_row;
                        for (u32 column = column_first; column < column_end; column++) {
                            vec values[UNITS];
                            EACH_UNIT values[u] = VEC_LOAD(b + u * V);
                            EACH_ROW
                            {
                                const vec value = INPUT(i);
                                EACH_UNIT sum[i][u] = MULTIPLY_ADD(value, values[u], sum[i][u]);
                            }
                            a += right_pixel;
                            b += p.out_channels;
                        }
                        a_row += down_row;
                        b_row += p.out_w * p.out_channels;
                    }
                    left -= n_rows;
                }
                if (k.ends_grain) {
                    EACH_ROW EACH_UNIT sum[i][u] += (vec)p.end;
                    END_GRAIN(sum, ROWS, k, waits, to);
                } else {
                    EACH_ROW EACH_UNIT VEC_STORE(sum[i][u], to + i * LANES + u * V);
                }

                if (!p.has_bias || tile > 0) continue;
                GLOBAL float *const to_bias =
                    bias_parts + ((u64)part * (p.n_tiles / p.filter_tiles) + panel) * LANES;
                vec total[1][UNITS];
                EACH_UNIT total[0][u] = k.continues ? VEC_LOAD(to_bias + u * V) : (vec)0.0f;
                for (u64 r = k.first; r < k.last; r++) {
                    const u64 of = r / p.out_h;
                    GLOBAL const float *b = of == last_sample ? tail : dy + of * p.out_sample;
                    b += (u32)(r % p.out_h) * p.out_w * p.out_channels + channel;
                    /* Sum row by row, which keeps the rounding errors of a long sum small.  A
                       deterministic sum is one chain. */
                    vec line[UNITS];
                    EACH_UNIT line[u] = DETERMINISTIC ? total[0][u] : (vec)0.0f;
                    for (u32 column = 0; column < p.out_w; column++) {
                        EACH_UNIT line[u] += VEC_LOAD(b + u * V);
                        b += p.out_channels;
                    }
                    EACH_UNIT total[0][u] = DETERMINISTIC ? line[u] : total[0][u] + line[u];
                }
                if (k.ends_grain)
                    END_GRAIN(total, 1, k, bias_waiting + panel * (TREE_LEVELS * LANES), to_bias);
                else
                    EACH_UNIT VEC_STORE(total[0][u], to_bias + u * V);
            }
        }
    }
}
