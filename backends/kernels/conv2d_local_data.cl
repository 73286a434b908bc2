/* Convolution, backward-data, as a gather: rows are input pixels, columns are input channels, and K
   runs over (tap row, tap column, output channel).

   Tap r of output row p meets input row h = p * stride - pad + r * dilation.  A phase is the input
   rows whose h has the same remainder by the stride.  The rows of a phase meet the same taps:
   first, first + every, ...  From one such tap to the next p changes by the same number, so a phase
   is a convolution of stride 1 that runs backwards.  The same holds for columns.  All phases are
   parts of one launch.

   A deterministic operator begins with the last tap, and so with the first output row that meets the
   input row. */
#include "activation.h"
#include "conv2d_local_window.h"

#define ACROSS_N (TILE_N / B_WIDTH)
#define LOADS_B  LOADS(TILE_K, ACROSS_N)

/* A phase along one axis. */
typedef struct phase {
    u32 rest; /* the first input row; the next one is stride further */
    u32 size; /* the number of input rows */
    u32 first_tap; /* in the order of K */
    u32 taps;      /* the number of taps that meet the phase */
    int first_out; /* the output row that the first tap shares with the first input row */
} phase;

DEVICE phase find_phase(u32 rest, u32 in, u32 pad, u32 kernel_size, u32 stride, u32 dilation,
                        u32 every)
{
    phase f;
    /* (rest + pad - tap * dilation) modulo stride: 0 for the taps that meet the phase.  Keep the
       loop free of branches: with a loop that ends at the first such tap, LLVM 18 (PoCL 6.0) ends
       the process while it compiles this kernel. */
    const u32 back = stride - dilation % stride;
    u32 distance = (rest + pad) % stride, tap = every;
    for (u32 i = 0; i < every; i++) {
        tap = distance == 0 ? min(tap, i) : tap;
        distance += back;
        distance -= distance >= stride ? stride : 0;
    }
    f.rest = rest;
    f.size = rest < in ? (in - rest - 1) / stride + 1 : 0;
    f.first_tap = tap;
    f.taps = tap < min(every, kernel_size) ? (kernel_size - tap - 1) / every + 1 : 0;
#if DETERMINISTIC
    f.first_tap += (max(f.taps, 1u) - 1) * every;
#endif
    f.first_out = ((int)(rest + pad) - (int)(f.first_tap * dilation)) / (int)stride;
    return f;
}

DEVICE phase row_phase(const conv2d_local_params *p, u32 rest)
{
    return find_phase(rest, p->in_h, p->pad_h, p->kernel_h, p->stride_h, p->dilation_h, p->every_h);
}

DEVICE phase column_phase(const conv2d_local_params *p, u32 rest)
{
    return find_phase(rest, p->in_w, p->pad_w, p->kernel_w, p->stride_w, p->dilation_w, p->every_w);
}

/* Finds the windows in dy that an item fetches. */
DEVICE void find_windows(window_row rows_of[LOADS_A], const conv2d_local_params *p, const window *v,
                         tile_id tile, phase rows, phase columns)
{
    const radix r = {rows.size, columns.size};
    digits at[LOADS_A];
    find_digits(at, LOADS_A, tile.m * TILE_M + LINE_OF(0, ACROSS_K), LINES_APART(ACROSS_K), r);
    UNROLL
    for (u32 i = 0; i < LOADS_A; i++) {
        if (at[i].high < p->n_samples)
            rows_of[i] = window_at(v, at[i].high, rows.first_out + (int)at[i].middle,
                                   columns.first_out + (int)at[i].low,
                                   tile.group * (p->out_channels / p->groups));
        else
            rows_of[i] = window_at(v, 0, NOWHERE, 0, 0);
    }
}

/* The filters, as this pass reads them. */
typedef struct filter_view {
    u32 first; /* the element of the first filter, the first taps, the tile's first channel */
    u32 tap_h, tap_w; /* elements between taps that meet the phase; may be negative, modulo 2^32 */
    u32 filter;       /* elements between filters */
    u32 left;         /* channels from the tile's first channel on */
    u32 taps_h;
} filter_view;

DEVICE void fetch_filters(float fetched[LOADS_B][B_WIDTH], GLOBAL const float *w,
                          const filter_view *v, const digits taps[LOADS_B])
{
    const u32 column = PIECE_OF(ACROSS_N) * B_WIDTH;
    UNROLL
    for (u32 i = 0; i < LOADS_B; i++) {
        const u32 place = v->first + taps[i].high * v->tap_h + taps[i].middle * v->tap_w +
                          taps[i].low * v->filter + column;
        fetch(fetched[i], w, (long)place, taps[i].high < v->taps_h && column < v->left, B_WIDTH);
    }
}

DEVICE void put_filters(LOCAL float *slice, float fetched[LOADS_B][B_WIDTH])
{
    UNROLL
    for (u32 i = 0; i < LOADS_B; i++) {
        const u32 line = LINE_OF(i, ACROSS_N);
        if (HAS_LINE(line, TILE_K, ACROSS_N))
            put_along(slice, TILE_N, line, PIECE_OF(ACROSS_N) * B_WIDTH, fetched[i], B_WIDTH);
    }
}

/* Writes a row of C.  dx and x: at the row's pixel and the group's first channel. */
DEVICE void write_pixel(GLOBAL act *dx, GLOBAL const act *x, const conv2d_local_params *p,
                        tile_id tile, const float sums[REG_N])
{
    const item_id item = own_item();
    const u32 channels = p->in_channels / p->groups;
    UNROLL
    for (u32 j = 0; j < REG_N; j += PIECE) {
        const u32 n = tile.n * TILE_N + COLUMN_OF(item, j);
        float piece[PIECE], other[PIECE];
        for (u32 e = 0; e < PIECE; e++)
            piece[e] = sums[j + e];
        if (p->accumulate) {
            read_piece_act(other, dx, n, channels);
            for (u32 e = 0; e < PIECE; e++)
                piece[e] += other[e];
        }
        if (ACTIVATION_IN(p) != ACTIVATION_NONE) {
            read_piece_act(other, x, n, channels);
            for (u32 e = 0; e < PIECE; e++)
                piece[e] = with_slope(ACTIVATION_IN(p), other[e], piece[e]);
        }
        write_piece_act(dx, n, channels, piece);
    }
}

/* Writes an item's sums.  dx and x: at the group's first channel. */
DEVICE void write_inputs(GLOBAL act *dx, GLOBAL const act *x, const conv2d_local_params *p,
                         tile_id tile, phase rows, phase columns, float sums[REG_M][REG_N])
{
    const item_id item = own_item();
    const radix r = {rows.size, columns.size};
    const digits one = digits_of(1, r);
    digits at;
    UNROLL
    for (u32 i = 0; i < REG_M; i++) {
        if (IS_DEEP || i % 4 == 0)
            at = digits_of(tile.m * TILE_M + ROW_OF(item, i), r);
        else
            at = digits_add(at, one, r);
        const u32 h = rows.rest + at.middle * p->stride_h;
        const u32 w = columns.rest + at.low * p->stride_w;
        const u64 place = (((u64)at.high * p->in_h + h) * p->in_w + w) * p->in_channels;
        if (at.high < p->n_samples) write_pixel(dx + place, x + place, p, tile, sums[i]);
    }
}

/* From a tap of a phase to the next one in the order of K, in units of `every`. */
#define NEXT_TAP (DETERMINISTIC ? -1 : 1)

/* The outputs that the taps of a phase read; taps_h is the number of its rows of taps. */
DEVICE window outputs_of(const conv2d_local_params *p, u32 taps_h)
{
    const window v = {.taps_h = taps_h,
                      .step_h = -NEXT_TAP * (int)(p->every_h * p->dilation_h / p->stride_h),
                      .step_w = -NEXT_TAP * (int)(p->every_w * p->dilation_w / p->stride_w),
                      .height = p->out_h,
                      .width = p->out_w,
                      .channels = p->out_channels};
    return v;
}

/* The filters that the taps of a phase read: fh of its rows, fw of its columns. */
DEVICE filter_view filters_of(const conv2d_local_params *p, tile_id tile, phase fh, phase fw)
{
    const u32 channels = p->in_channels / p->groups, filters = p->out_channels / p->groups;
    const u32 line = tile.group * filters * p->kernel_h + fh.first_tap;
    const filter_view f = {
        .first = (line * p->kernel_w + fw.first_tap) * channels + tile.n * TILE_N,
        .tap_h = (u32)NEXT_TAP * p->every_h * p->kernel_w * channels,
        .tap_w = (u32)NEXT_TAP * p->every_w * channels,
        .filter = p->kernel_h * p->kernel_w * channels,
        .left = channels - tile.n * TILE_N,
        .taps_h = fw.taps > 0 ? fh.taps : 0,
    };
    return f;
}

/* dy (n,out_h,out_w,O), w (O,kernel_h,kernel_w,C/groups), x for the mask -> dx (n,in_h,in_w,C) */
TILE_KERNEL void dpt_conv2d_local_data(OUT(act, dx), IN(act, dy), IN(float, w), IN(act, x),
                                       const conv2d_local_params p)
{
    SHARED float4 a_slices[2 * SLICE_A / 4], b_slices[2 * SLICE_B / 4];
    LOCAL float *a = (LOCAL float *)a_slices, *b = (LOCAL float *)b_slices;
    TENSOR_OUT(act, dx);
    TENSOR_IN(act, dy);
    TENSOR_IN(float, w);
    TENSOR_IN(act, x);
    const tile_id tile = own_tile(&p);
    const item_id item = own_item();
    const u32 channels = p.in_channels / p.groups, filters = p.out_channels / p.groups;
    const u32 rest_h = tile.part / p.phases_w;
    const phase fh = row_phase(&p, rest_h);
    const phase fw = column_phase(&p, tile.part - rest_h * p.phases_w);
    const u32 n_pixels = p.n_samples * fh.size * fw.size;
    /* Phases have different sizes: this one may have no such tile. */
    if (tile.m * TILE_M >= n_pixels) return;

    const u32 taps_h = fw.taps > 0 ? fh.taps : 0; /* without columns of taps there are no rows */
    const window v = outputs_of(&p, taps_h);
    window_row rows[LOADS_A];
    find_windows(rows, &p, &v, tile, fh, fw);
    const filter_view f = filters_of(&p, tile, fh, fw);
    const u32 taps = taps_h * fw.taps * filters;
    const radix r = {max(fw.taps, 1u), filters};
    const digits slice_step = digits_of(TILE_K, r);
    digits tap = digits_of(PIECE_OF(ACROSS_K) * A_WIDTH, r), b_taps[LOADS_B];
    find_digits(b_taps, LOADS_B, LINE_OF(0, ACROSS_N), LINES_APART(ACROSS_N), r);

    float sums[REG_M][REG_N], a_next[LOADS_A][A_WIDTH], b_next[LOADS_B][B_WIDTH];
    clear_sums(sums);
    fetch_windows(a_next, dy, &v, rows, tap);
    fetch_filters(b_next, w, &f, b_taps);
    put_windows(a, a_next);
    put_filters(b, b_next);
    BARRIER();
    const u32 n_slices = (taps + TILE_K - 1) / TILE_K;
    for (u32 slice = 0; slice < n_slices; slice++) {
        const u32 now = slice & 1, next = now ^ 1;
        if (FETCHES_AFTER(slice, n_slices)) {
            tap = digits_add(tap, slice_step, r);
            UNROLL
            for (u32 i = 0; i < LOADS_B; i++)
                b_taps[i] = digits_add(b_taps[i], slice_step, r);
            fetch_windows(a_next, dy, &v, rows, tap);
            fetch_filters(b_next, w, &f, b_taps);
        }
        add_products(sums, a + now * SLICE_A, b + now * SLICE_B, item);
        if (FETCHES_AFTER(slice, n_slices)) {
            put_windows(a + next * SLICE_A, a_next);
            put_filters(b + next * SLICE_B, b_next);
        }
        BARRIER();
    }
    end_sums(sums, &p);
    write_inputs(dx + tile.group * channels, x + tile.group * channels, &p, tile, fh, fw, sums);
}
