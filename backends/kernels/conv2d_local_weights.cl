/* Convolution, backward-weights: rows are output channels, columns are (tap row, tap column, input
   channel), as filters are stored, and K runs over the output pixels of all samples.

   Filters are small and pixels are many.  Pixels are cut into chunks, so that the whole device has
   work.  If there are several chunks, each leaves its sums in the workspace, and a second kernel adds
   the chunks in their order.  The gradient of the bias is the sum over a row of A.  The groups of the
   first tile of columns compute it from local memory. */
#include "conv2d_local_tile.h"

#define ACROSS_M (TILE_M / A_WIDTH)
#define ACROSS_N (TILE_N / B_WIDTH)
#define LOADS_A  LOADS(TILE_K, ACROSS_M)
#define LOADS_B  LOADS(TILE_K, ACROSS_N)
#define BIASES   ((TILE_M + ITEMS - 1) / ITEMS)

/* Fetches a slice of gradients.  dy: at the slice's first pixel and the tile's first channel, from
   which on there are `left` channels.  row: elements between pixels. */
DEVICE void fetch_gradients(float fetched[LOADS_A][A_WIDTH], GLOBAL const act *dy, u32 row,
                            u32 left, u32 pixels)
{
    const u32 column = PIECE_OF(ACROSS_M) * A_WIDTH;
    UNROLL
    for (u32 i = 0; i < LOADS_A; i++) {
        const u32 line = LINE_OF(i, ACROSS_M);
        fetch_act(fetched[i], dy, (long)line * row + column, line < pixels && column < left, A_WIDTH,
                  quad_of_nothing());
    }
}

DEVICE void put_gradients(LOCAL float *slice, float fetched[LOADS_A][A_WIDTH])
{
    UNROLL
    for (u32 i = 0; i < LOADS_A; i++) {
        const u32 line = LINE_OF(i, ACROSS_M);
        if (HAS_LINE(line, TILE_K, ACROSS_M))
            put_along(slice, TILE_M, line, PIECE_OF(ACROSS_M) * A_WIDTH, fetched[i], A_WIDTH);
    }
}

/* A column of B: the input that a tap meets, relative to the pixel of tap (0, 0) of a window without
   padding. */
typedef struct tap_view {
    int h, w;
    u32 channel;
    bool exists;
} tap_view;

DEVICE tap_view find_tap(const conv2d_local_params *p, tile_id tile)
{
    const u32 channels = p->in_channels / p->groups;
    const u32 column = tile.n * TILE_N + PIECE_OF(ACROSS_N) * B_WIDTH;
    const radix r = {p->kernel_w, channels};
    const digits at = digits_of(column, r);
    tap_view tap;
    tap.h = (int)(at.high * p->dilation_h) - (int)p->pad_h;
    tap.w = (int)(at.middle * p->dilation_w) - (int)p->pad_w;
    tap.channel = tile.group * channels + at.low;
    tap.exists = at.high < p->kernel_h;
    return tap;
}

DEVICE void fetch_inputs(float fetched[LOADS_B][B_WIDTH], GLOBAL const act *x,
                         const conv2d_local_params *p, tap_view tap, const digits at[LOADS_B],
                         u32 pixels)
{
    UNROLL
    for (u32 i = 0; i < LOADS_B; i++) {
        const int h = (int)(at[i].middle * p->stride_h) + tap.h;
        const int w = (int)(at[i].low * p->stride_w) + tap.w;
        const bool inside =
            tap.exists && LINE_OF(i, ACROSS_N) < pixels && (u32)h < p->in_h && (u32)w < p->in_w;
        const int place = (h * (int)p->in_w + w) * (int)p->in_channels + (int)tap.channel;
        const u32 sample = p->in_h * p->in_w * p->in_channels;
        fetch_act(fetched[i], x, (long)((u64)at[i].high * sample) + place, inside, B_WIDTH,
                  quad_of_zeros());
    }
}

DEVICE void put_inputs(LOCAL float *slice, float fetched[LOADS_B][B_WIDTH])
{
    UNROLL
    for (u32 i = 0; i < LOADS_B; i++) {
        const u32 line = LINE_OF(i, ACROSS_N);
        if (HAS_LINE(line, TILE_K, ACROSS_N))
            put_along(slice, TILE_N, line, PIECE_OF(ACROSS_N) * B_WIDTH, fetched[i], B_WIDTH);
    }
}

DEVICE void clear_biases(float sums[BIASES])
{
    for (u32 i = 0; i < BIASES; i++)
        sums[i] = 0.0f;
}

/* Adds the columns of a slice of A to an item's sums of the bias. */
DEVICE void add_gradients(float sums[BIASES], LOCAL const float *a)
{
    UNROLL
    for (u32 i = 0; i < BIASES; i++) {
        const u32 m = LOCAL_ID + i * ITEMS;
        if (m >= TILE_M) continue;
        UNROLL
        for (u32 k = 0; k < TILE_K; k++)
            sums[i] += a[PLACE(TILE_M, k, m)];
    }
}

/* Writes an item's sums.  dw: at the group's first filter. */
DEVICE void write_filters(GLOBAL float *dw, const conv2d_local_params *p, tile_id tile, u32 taps,
                          float sums[REG_M][REG_N])
{
    const item_id item = own_item();
    UNROLL
    for (u32 i = 0; i < REG_M; i++) {
        const u32 m = tile.m * TILE_M + ROW_OF(item, i);
        if (m >= p->out_channels / p->groups) continue;
        UNROLL
        for (u32 j = 0; j < REG_N; j += 4) {
            const u32 n = tile.n * TILE_N + COLUMN_OF(item, j);
            float four[4] = {NOTHING, NOTHING, NOTHING, NOTHING};
            if (p->accumulate) read_four(four, dw + (u64)m * taps, n, taps);
            for (u32 e = 0; e < 4; e++)
                four[e] += sums[i][j + e];
            write_four(dw + (u64)m * taps, n, taps, four);
        }
    }
}

DEVICE void write_bias(GLOBAL float *dbias, const conv2d_local_params *p, tile_id tile,
                       const float sums[BIASES])
{
    for (u32 i = 0; i < BIASES; i++) {
        const u32 in_tile = LOCAL_ID + i * ITEMS;
        const u32 m = tile.m * TILE_M + in_tile;
        if (in_tile >= TILE_M || m >= p->out_channels / p->groups) continue;
        dbias[m] = p->accumulate ? dbias[m] + sums[i] : sums[i];
    }
}

/* dy (n,out_h,out_w,O), x (n,in_h,in_w,C) -> dw (O,kernel_h,kernel_w,C/groups), dbias (O), for each
   chunk of pixels; chunks are part_size elements apart */
TILE_KERNEL void dpt_conv2d_local_weights(OUT(float, dw), OUT(float, dbias), IN(act, dy),
                                          IN(act, x), const conv2d_local_params p)
{
    SHARED float4 a_slices[2 * SLICE_A / 4], b_slices[2 * SLICE_B / 4];
    LOCAL float *a = (LOCAL float *)a_slices, *b = (LOCAL float *)b_slices;
    TENSOR_OUT(float, dw);
    TENSOR_OUT(float, dbias);
    TENSOR_IN(act, dy);
    TENSOR_IN(act, x);
    const tile_id tile = own_tile(&p);
    const item_id item = own_item();
    const u32 filters = p.out_channels / p.groups, left = filters - tile.m * TILE_M;
    const u32 taps = p.kernel_h * p.kernel_w * (p.in_channels / p.groups);
    const u32 n_pixels = p.n_samples * p.out_h * p.out_w;
    const u32 first = tile.part * p.chunk;
    u32 pixels = min(p.chunk, n_pixels - first); /* the pixels of the chunk that are left */

    GLOBAL const act *dy_slice =
        dy + (u64)first * p.dy_row + tile.group * filters + tile.m * TILE_M;
    const tap_view tap = find_tap(&p, tile);
    const radix r = {p.out_h, p.out_w};
    const digits slice_step = digits_of(TILE_K, r);
    digits at[LOADS_B];
    find_digits(at, LOADS_B, first + LINE_OF(0, ACROSS_N), LINES_APART(ACROSS_N), r);

    float sums[REG_M][REG_N], a_next[LOADS_A][A_WIDTH], b_next[LOADS_B][B_WIDTH];
    float bias_sums[BIASES];
    const bool has_bias = p.has_bias && tile.n == 0;
    clear_sums(sums);
    clear_biases(bias_sums);
    fetch_gradients(a_next, dy_slice, p.dy_row, left, pixels);
    fetch_inputs(b_next, x, &p, tap, at, pixels);
    put_gradients(a, a_next);
    put_inputs(b, b_next);
    BARRIER();
    const u32 n_slices = (pixels + TILE_K - 1) / TILE_K;
    for (u32 slice = 0; slice < n_slices; slice++) {
        const u32 now = slice & 1, next = now ^ 1;
        if (FETCHES_AFTER(slice, n_slices)) {
            pixels -= min(pixels, (u32)TILE_K);
            dy_slice += (u64)TILE_K * p.dy_row;
            UNROLL
            for (u32 i = 0; i < LOADS_B; i++)
                at[i] = digits_add(at[i], slice_step, r);
            fetch_gradients(a_next, dy_slice, p.dy_row, left, pixels);
            fetch_inputs(b_next, x, &p, tap, at, pixels);
        }
        add_products(sums, a + now * SLICE_A, b + now * SLICE_B, item);
        if (has_bias) add_gradients(bias_sums, a + now * SLICE_A);
        if (FETCHES_AFTER(slice, n_slices)) {
            put_gradients(a + next * SLICE_A, a_next);
            put_inputs(b + next * SLICE_B, b_next);
        }
        BARRIER();
    }
    end_sums(sums, &p);
    const u64 part = tile.part * p.part_size;
    write_filters(dw + part + (u64)tile.group * filters * taps, &p, tile, taps, sums);
    if (has_bias) write_bias(dbias + part + tile.group * filters, &p, tile, bias_sums);
}
