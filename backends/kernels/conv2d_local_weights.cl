/* Convolution, backward-weights: rows are output channels, columns are (tap row, tap column, input
   channel), as filters are stored, and K runs over the output pixels of all samples.

   Filters are small and pixels are many.  Pixels are cut into chunks, so that the whole device has
   work.  If there are several chunks, each leaves its sums in the workspace, and a second kernel adds
   the chunks in their order.  The gradient of the bias is the sum over a row of A.  The groups of the
   first tile of columns compute it from local memory.

   Of a deterministic operator a chunk is a grain.  A group adds up a run of grains along the tree
   (tree_params.h), and leaves a part for the run. */
#include "conv2d_local_tile.h"
#include "tree_params.h"

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

#if DETERMINISTIC

/* The sums of grains that wait for others. */
typedef struct tree_sums {
    float filters[TREE_LEVELS][REG_M][REG_N], biases[TREE_LEVELS][BIASES];
} tree_sums;

/* Adds the sums that wait at a level to those of a grain. */
DEVICE void take_waiting(float sums[REG_M][REG_N], float bias_sums[BIASES], const tree_sums *tree,
                         u32 level)
{
    UNROLL
    for (u32 i = 0; i < REG_M; i++) {
        UNROLL
        for (u32 j = 0; j < REG_N; j++)
            sums[i][j] += tree->filters[level][i][j];
    }
    UNROLL
    for (u32 i = 0; i < BIASES; i++)
        bias_sums[i] += tree->biases[level][i];
}

/* Lets the sums of a grain wait at a level. */
DEVICE void leave_waiting(float sums[REG_M][REG_N], float bias_sums[BIASES], tree_sums *tree,
                          u32 level)
{
    UNROLL
    for (u32 i = 0; i < REG_M; i++) {
        UNROLL
        for (u32 j = 0; j < REG_N; j++)
            tree->filters[level][i][j] = sums[i][j];
    }
    UNROLL
    for (u32 i = 0; i < BIASES; i++)
        tree->biases[level][i] = bias_sums[i];
}

/* Adds the sums of grain i of a run to those that wait.  Behind the last grain the sums are those of
   the run. */
DEVICE void add_grain(float sums[REG_M][REG_N], float bias_sums[BIASES], tree_sums *tree, u32 i,
                      bool is_last)
{
    u32 level = 0; /* not a constant: sums that wait would take too many registers */
    for (; level < TREE_LEVELS && (is_last || tree_adds(i, level)); level++)
        if (tree_adds(i, level)) take_waiting(sums, bias_sums, tree, level);
    if (!is_last) leave_waiting(sums, bias_sums, tree, level);
}

#endif

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
        for (u32 j = 0; j < REG_N; j += PIECE) {
            const u32 n = tile.n * TILE_N + COLUMN_OF(item, j);
            float piece[PIECE];
            for (u32 e = 0; e < PIECE; e++)
                piece[e] = NOTHING;
            if (p->accumulate) read_piece(piece, dw + (u64)m * taps, n, taps);
            for (u32 e = 0; e < PIECE; e++)
                piece[e] += sums[i][j + e];
            write_piece(dw + (u64)m * taps, n, taps, piece);
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

/* What the sums of a tile are made of. */
typedef struct operands {
    GLOBAL const act *dy, *x; /* dy: at the tile's first channel */
    LOCAL float *a, *b;       /* two slices of each */
    tap_view tap;
    u32 left; /* channels of dy from the tile's first one on */
    bool has_bias;
} operands;

/* The sums over the pixels [first, first + pixels).  Every item of the group calls it. */
DEVICE void sum_pixels(float sums[REG_M][REG_N], float bias_sums[BIASES], const operands *o,
                       const conv2d_local_params *p, u32 first, u32 pixels)
{
    const item_id item = own_item();
    const radix r = {p->out_h, p->out_w};
    const digits slice_step = digits_of(TILE_K, r);
    digits at[LOADS_B];
    GLOBAL const act *dy_slice = o->dy + (u64)first * p->dy_row;
    float a_next[LOADS_A][A_WIDTH], b_next[LOADS_B][B_WIDTH];
    find_digits(at, LOADS_B, first + LINE_OF(0, ACROSS_N), LINES_APART(ACROSS_N), r);
    clear_sums(sums);
    clear_biases(bias_sums);
    fetch_gradients(a_next, dy_slice, p->dy_row, o->left, pixels);
    fetch_inputs(b_next, o->x, p, o->tap, at, pixels);
    put_gradients(o->a, a_next);
    put_inputs(o->b, b_next);
    BARRIER();
    const u32 n_slices = (pixels + TILE_K - 1) / TILE_K;
    for (u32 slice = 0; slice < n_slices; slice++) {
        const u32 now = slice & 1, next = now ^ 1;
        if (FETCHES_AFTER(slice, n_slices)) {
            pixels -= min(pixels, (u32)TILE_K);
            dy_slice += (u64)TILE_K * p->dy_row;
            UNROLL
            for (u32 i = 0; i < LOADS_B; i++)
                at[i] = digits_add(at[i], slice_step, r);
            fetch_gradients(a_next, dy_slice, p->dy_row, o->left, pixels);
            fetch_inputs(b_next, o->x, p, o->tap, at, pixels);
        }
        add_products(sums, o->a + now * SLICE_A, o->b + now * SLICE_B, item);
        if (o->has_bias) add_gradients(bias_sums, o->a + now * SLICE_A);
        if (FETCHES_AFTER(slice, n_slices)) {
            put_gradients(o->a + next * SLICE_A, a_next);
            put_inputs(o->b + next * SLICE_B, b_next);
        }
        BARRIER();
    }
    end_sums(sums, p);
}

/* The pixels of a chunk that exist. */
DEVICE u32 pixels_of(const conv2d_local_params *p, u32 chunk)
{
    return min(p->chunk, p->n_samples * p->out_h * p->out_w - chunk * p->chunk);
}

/* The sums of the chunks of a tile's part. */
DEVICE void sum_part(float sums[REG_M][REG_N], float bias_sums[BIASES], const operands *o,
                     const conv2d_local_params *p, u32 part)
{
#if DETERMINISTIC
    tree_sums tree;
    const u32 first = part * p->run;
    const u32 n = min(p->run, p->n_chunks - first);
    for (u32 i = 0; i < n; i++) {
        sum_pixels(sums, bias_sums, o, p, (first + i) * p->chunk, pixels_of(p, first + i));
        add_grain(sums, bias_sums, &tree, i, i + 1 == n);
    }
#else
    sum_pixels(sums, bias_sums, o, p, part * p->chunk, pixels_of(p, part));
#endif
}

/* dy (n,out_h,out_w,O), x (n,in_h,in_w,C) -> dw (O,kernel_h,kernel_w,C/groups), dbias (O), for each
   part of the pixels; parts are part_size elements apart */
TILE_KERNEL void dpt_conv2d_local_weights(OUT(float, dw), OUT(float, dbias), IN(act, dy),
                                          IN(act, x), const conv2d_local_params p)
{
    SHARED float4 a_slices[2 * SLICE_A / 4], b_slices[2 * SLICE_B / 4];
    TENSOR_OUT(float, dw);
    TENSOR_OUT(float, dbias);
    const tile_id tile = own_tile(&p);
    const u32 filters = p.out_channels / p.groups;
    const u32 taps = p.kernel_h * p.kernel_w * (p.in_channels / p.groups);
    float sums[REG_M][REG_N], bias_sums[BIASES];
    operands o;
    o.dy = dy_base + dy_place + tile.group * filters + tile.m * TILE_M;
    o.x = x_base + x_place;
    o.a = (LOCAL float *)a_slices;
    o.b = (LOCAL float *)b_slices;
    o.tap = find_tap(&p, tile);
    o.left = filters - tile.m * TILE_M;
    o.has_bias = p.has_bias && tile.n == 0;
    sum_part(sums, bias_sums, &o, &p, tile.part);
    const u64 part = tile.part * p.part_size;
    write_filters(dw + part + (u64)tile.group * filters * taps, &p, tile, taps, sums);
    if (o.has_bias) write_bias(dbias + part + tile.group * filters, &p, tile, bias_sums);
}
