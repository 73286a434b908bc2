/* Convolution, forward, as a matrix product: rows are output pixels, columns are output channels, and
   K runs over (tap row, tap column, input channel), as filters are stored. */
#include "activation.h"
#include "conv2d_local_window.h"

#define LOADS_B LOADS(TILE_N, TILE_K / B_WIDTH)

DEVICE window forward_window(const conv2d_local_params *p)
{
    window v;
    v.taps_h = p->kernel_h;
    v.step_h = (int)p->dilation_h;
    v.step_w = (int)p->dilation_w;
    v.height = p->in_h;
    v.width = p->in_w;
    v.channels = p->in_channels;
    return v;
}

/* Finds the windows that an item fetches. */
DEVICE void find_windows(window_row rows[LOADS_A], const conv2d_local_params *p, const window *v,
                         tile_id tile)
{
    const radix r = {p->out_h, p->out_w};
    digits at[LOADS_A];
    find_digits(at, LOADS_A, tile.m * TILE_M + LINE_OF(0, ACROSS_K), LINES_APART(ACROSS_K), r);
    UNROLL
    for (u32 i = 0; i < LOADS_A; i++) {
        if (at[i].high < p->n_samples)
            rows[i] = window_at(v, at[i].high, (int)(at[i].middle * p->stride_h) - (int)p->pad_h,
                                (int)(at[i].low * p->stride_w) - (int)p->pad_w,
                                tile.group * (p->in_channels / p->groups));
        else
            rows[i] = window_at(v, 0, NOWHERE, 0, 0);
    }
}

/* Fetches a slice of the filters.  w: `left` filters from the tile's first on, of `taps` elements
   each. */
DEVICE void fetch_filters(float fetched[LOADS_B][B_WIDTH], GLOBAL const float *w, u32 left,
                          u32 taps, u32 k)
{
    UNROLL
    for (u32 i = 0; i < LOADS_B; i++) {
        const u32 line = LINE_OF(i, TILE_K / B_WIDTH);
        fetch(fetched[i], w, (long)(line * taps + k), line < left && k < taps, B_WIDTH);
    }
}

DEVICE void put_filters(LOCAL float *slice, float fetched[LOADS_B][B_WIDTH])
{
    UNROLL
    for (u32 i = 0; i < LOADS_B; i++) {
        const u32 line = LINE_OF(i, TILE_K / B_WIDTH);
        if (HAS_LINE(line, TILE_N, TILE_K / B_WIDTH))
            put_upright(slice, TILE_N, PIECE_OF(TILE_K / B_WIDTH) * B_WIDTH, line, fetched[i],
                        B_WIDTH);
    }
}

/* Writes an item's sums.  y: at the group's first channel. */
DEVICE void write_outputs(GLOBAL act *y, GLOBAL const float *bias, const conv2d_local_params *p,
                          tile_id tile, float sums[REG_M][REG_N])
{
    const item_id item = own_item();
    const u32 filters = p->out_channels / p->groups;
    const u32 n_pixels = p->n_samples * p->out_h * p->out_w;
    UNROLL
    for (u32 j = 0; j < REG_N; j += PIECE) {
        const u32 n = tile.n * TILE_N + COLUMN_OF(item, j);
        float offset[PIECE];
        read_piece(offset, bias, n, p->has_bias ? filters : 0);
        for (u32 e = 0; e < PIECE; e++)
            offset[e] = p->has_bias ? offset[e] : NOTHING;
        UNROLL
        for (u32 i = 0; i < REG_M; i++) {
            const u32 pixel = tile.m * TILE_M + ROW_OF(item, i);
            float piece[PIECE];
            for (u32 e = 0; e < PIECE; e++)
                piece[e] = activate(ACTIVATION_IN(p), sums[i][j + e] + offset[e]);
            if (pixel < n_pixels)
                write_piece_act(y + (u64)pixel * p->out_channels, n, filters, piece);
        }
    }
}

/* x (n,in_h,in_w,C), w (O,kernel_h,kernel_w,C/groups), bias (O) -> y (n,out_h,out_w,O) */
TILE_KERNEL void dpt_conv2d_local_forward(OUT(act, y), IN(act, x), IN(float, w), IN(float, bias),
                                          const conv2d_local_params p)
{
    SHARED float4 a_slices[2 * SLICE_A / 4], b_slices[2 * SLICE_B / 4];
    LOCAL float *a = (LOCAL float *)a_slices, *b = (LOCAL float *)b_slices;
    TENSOR_OUT(act, y);
    TENSOR_IN(act, x);
    TENSOR_IN(float, w);
    TENSOR_IN(float, bias);
    const tile_id tile = own_tile(&p);
    const item_id item = own_item();
    const u32 channels = p.in_channels / p.groups, filters = p.out_channels / p.groups;
    const u32 taps = p.kernel_h * p.kernel_w * channels;
    const u32 first_filter = tile.group * filters + tile.n * TILE_N;
    GLOBAL const float *w_tile = w + (u64)first_filter * taps;

    const window v = forward_window(&p);
    window_row rows[LOADS_A];
    find_windows(rows, &p, &v, tile);
    const radix r = {p.kernel_w, channels};
    const digits slice_step = digits_of(TILE_K, r);
    digits tap = digits_of(PIECE_OF(ACROSS_K) * A_WIDTH, r);
    u32 k = PIECE_OF(TILE_K / B_WIDTH) * B_WIDTH;

    float sums[REG_M][REG_N], a_next[LOADS_A][A_WIDTH], b_next[LOADS_B][B_WIDTH];
    clear_sums(sums);
    fetch_windows(a_next, x, &v, rows, tap);
    fetch_filters(b_next, w_tile, filters - tile.n * TILE_N, taps, k);
    put_windows(a, a_next);
    put_filters(b, b_next);
    BARRIER();
    const u32 n_slices = (taps + TILE_K - 1) / TILE_K;
    for (u32 slice = 0; slice < n_slices; slice++) {
        const u32 now = slice & 1, next = now ^ 1;
        if (FETCHES_AFTER(slice, n_slices)) {
            tap = digits_add(tap, slice_step, r);
            k += TILE_K;
            fetch_windows(a_next, x, &v, rows, tap);
            fetch_filters(b_next, w_tile, filters - tile.n * TILE_N, taps, k);
        }
        add_products(sums, a + now * SLICE_A, b + now * SLICE_B, item);
        if (FETCHES_AFTER(slice, n_slices)) {
            put_windows(a + next * SLICE_A, a_next);
            put_filters(b + next * SLICE_B, b_next);
        }
        BARRIER();
    }
    end_sums(sums, &p);
    write_outputs(y + tile.group * filters, bias + tile.group * filters, &p, tile, sums);
}
