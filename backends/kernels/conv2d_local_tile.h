/* The matrix product inside the convolutions for GPUs.  A group of work items computes a tile of
   C (M,N) = A (M,K) * B (K,N), slice by slice of TILE_K.  The items fetch a slice of A and B from
   global memory into registers while they multiply the slice before, which is in local memory. They
   put the new slice into the other one of two buffers there, so that one barrier for each slice is
   enough.  A and B are never stored: an item that fetches computes the places of the elements in
   images and filters.

   Options of a program:
     TILE_M, TILE_N, TILE_K     the tile; multiples of 8
     REG_M, REG_N               the part of the tile that an item sums up in registers; 4 or 8, or
                                both 1 or both 2
     ACTIVATION                 of forward: the activation; of backward-data: the mask
     A_WIDTH, B_WIDTH, C_WIDTH  elements that one access to global memory moves: 4 if the channels
                                are a multiple of 4, else 1
     TENSOR                     1: CUDA computes products on tensor cores in TF32
                                (conv2d_local_tensor.h)

   In a program of deterministic operators the sum of an element is one chain, in the order of K.
   Elements of A that do not exist are -0 there.

   Local memory holds slices as (K, M) and (K, N), in lines that are 4 elements longer than the
   tile. Items that write a piece of 4 along K into a column then write to different banks.

   An item with one or four sums reads four elements along K at once.  Slices are then (M, K) and
   (N, K).  Such tiles are for small matrices: more items have work, and each chain has fewer
   instructions between two terms. */
#ifndef DPT_KERNELS_CONV2D_LOCAL_TILE_H
#define DPT_KERNELS_CONV2D_LOCAL_TILE_H

#include "conv2d_local.h"
#include "quad.h"

#ifndef TENSOR
#define TENSOR 0
#endif

#define ITEMS_M (TILE_M / REG_M)
#define ITEMS_N (TILE_N / REG_N)
#define ITEMS   (ITEMS_M * ITEMS_N)
#define PAD     (TENSOR ? 8 : 4)
#define LINE_M  (TILE_M + PAD)
#define LINE_N  (TILE_N + PAD)
#define LINE_K  (TILE_K + PAD)
#define IS_DEEP (REG_M < 4)
#define PIECE   (IS_DEEP ? 1 : 4) /* neighbouring columns of an item's sums */
#if IS_DEEP
#define SLICE_A (TILE_M * LINE_K)
#define SLICE_B (TILE_N * LINE_K)
#else
#define SLICE_A (TILE_K * LINE_M)
#define SLICE_B (TILE_K * LINE_N)
#endif

#if ITEMS < TILE_M || ITEMS < TILE_N || ITEMS % TILE_K != 0
#error "an item cannot have the same piece of every line that it fetches"
#endif

#define TILE_KERNEL KERNEL GROUP_OF(ITEMS)

/* On CPUs only tests use these programs, and unrolling would take seconds for each program. */
#if DEVICE_IS_CPU
#undef UNROLL
#define UNROLL _Pragma("unroll 1")
#endif

/* Kernels that are compiled beforehand have no constant activation. */
#if DEVICE_IS_CPU || !defined(ACTIVATION)
#define ACTIVATION_IN(params) (params)->activation
#else
#define ACTIVATION_IN(params) ACTIVATION
#endif

/* Whether to fetch the slice behind the current one.  PoCL (3.1) inserts barriers around inner
   loops, also in branches that a whole group takes.  After a barrier in a branch, it lets the first
   item of the group decide the branch for all items, which then read elements that do not exist. On
   CPUs such a loop therefore never stands in a branch, and a slice of zeros is fetched behind the
   last. */
#if DEVICE_IS_CPU
#define FETCHES_AFTER(slice, n_slices) true
#else
#define FETCHES_AFTER(slice, n_slices) ((slice) + 1 < (n_slices))
#endif

#if defined(FP_FAST_FMAF) || defined(__CUDACC__) || DETERMINISTIC
#define MULTIPLY_ADD(a, b, c) FMA(a, b, c)
#else
#define MULTIPLY_ADD(a, b, c) mad(a, b, c)
#endif

/* ---- The tile of a group, and the place of an item ------------------------------------------- */

/* The tile of a group of items.  n is the fastest index: groups that run at the same time then read
   the same parts of images, which are large; filters stay in the cache. */
typedef struct tile_id {
    u32 n, group, m;
    u32 part; /* of backward-data: the phase; of backward-weights: the chunk of pixels */
} tile_id;

DEVICE tile_id own_tile(const conv2d_local_params *p)
{
    tile_id tile;
    const u32 id = GROUP_ID(0);
    const u32 id_group = id / p->tiles_n;
    const u32 id_m = id_group / p->groups;
    tile.n = id - id_group * p->tiles_n;
    tile.group = id_group - id_m * p->groups;
    tile.part = id_m / p->tiles_m;
    tile.m = id_m - tile.part * p->tiles_m;
    return tile;
}

/* An item's first row and column in the tile.  ROW_OF and COLUMN_OF are the row of the item's i-th
   sum and the column of its j-th. */
typedef struct item_id {
    u32 m, n;
} item_id;

#if TENSOR
#include "conv2d_local_tensor.h"
#elif IS_DEEP

DEVICE item_id own_item(void)
{
    item_id item;
    item.m = LOCAL_ID / ITEMS_N;
    item.n = LOCAL_ID % ITEMS_N;
    return item;
}

#define ROW_OF(item, i)    ((item).m + (i)*ITEMS_M)
#define COLUMN_OF(item, j) ((item).n + (j)*ITEMS_N)
#define PLACE(tile, k, at) ((at)*LINE_K + (k))

#else

/* An item has the rows m .. m+3, and if REG_M is 8 also those ITEMS_M * 4 further on; likewise for
   columns.  32 consecutive items form a block of about 4 x 8, so that they read few different words
   of local memory at once. */
#define BLOCK_N            (ITEMS_N < 8 ? ITEMS_N : 8)
#define BLOCK_M            (ITEMS_M < 32 / BLOCK_N ? ITEMS_M : 32 / BLOCK_N)

DEVICE item_id own_item(void)
{
    item_id item;
    const u32 block = LOCAL_ID / (BLOCK_M * BLOCK_N), lane = LOCAL_ID % (BLOCK_M * BLOCK_N);
    item.m = 4 * (block / (ITEMS_N / BLOCK_N) * BLOCK_M + lane / BLOCK_N);
    item.n = 4 * (block % (ITEMS_N / BLOCK_N) * BLOCK_N + lane % BLOCK_N);
    return item;
}

#define ROW_OF(item, i)    ((item).m + (i) / 4 * (4 * ITEMS_M) + (i) % 4)
#define COLUMN_OF(item, j) ((item).n + (j) / 4 * (4 * ITEMS_N) + (j) % 4)

/* The index of column `at` of line k, in a slice with lines of `tile` columns. */
#define PLACE(tile, k, at) ((k) * ((tile) + PAD) + (at))

#endif

/* ---- Places in three dimensions -------------------------------------------------------------- */

/* A number in digits of mixed radix: (tap row, tap column, channel) of an index in K, or (sample,
   row, column) of a pixel.  Adding a fixed number takes no division. */
typedef struct digits {
    u32 high, middle, low;
} digits;

typedef struct radix {
    u32 middle, low;
} radix;

DEVICE digits digits_of(u32 value, radix r)
{
    digits d;
    const u32 rest = value / r.low;
    d.low = value - rest * r.low;
    d.high = rest / r.middle;
    d.middle = rest - d.high * r.middle;
    return d;
}

DEVICE digits digits_add(digits a, digits b, radix r)
{
    a.low += b.low;
    a.middle += b.middle;
    a.high += b.high;
    if (a.low >= r.low) {
        a.low -= r.low;
        a.middle++;
    }
    if (a.middle >= r.middle) {
        a.middle -= r.middle;
        a.high++;
    }
    return a;
}

/* Finds the digits of n numbers that are `step` apart. */
DEVICE void find_digits(digits *to, u32 n, u32 first, u32 step, radix r)
{
    const digits between = digits_of(step, r);
    to[0] = digits_of(first, r);
    UNROLL
    for (u32 i = 1; i < n; i++)
        to[i] = digits_add(to[i - 1], between, r);
}

/* ---- From global memory to local memory ------------------------------------------------------ */

/* A slice is `lines` lines of `across` pieces, which are side by side in global memory.  An item
   fetches the same piece of every (ITEMS / across)-th line. */
#define LOADS(lines, across)          (((lines) * (across) + ITEMS - 1) / ITEMS)
#define LINE_OF(load, across)         (LOCAL_ID / (across) + LINES_APART(across) * (load))
#define LINES_APART(across)           (ITEMS / (across))
#define PIECE_OF(across)              (LOCAL_ID % (across))
#define HAS_LINE(line, lines, across) ((lines) % LINES_APART(across) == 0 || (line) < (lines))

/* Fetches a piece of `width` elements, or zeros if the piece does not exist. */
DEVICE void fetch(float *to, GLOBAL const float *from, long place, bool exists, u32 width)
{
    if (width == 4) {
        float4 piece = FLOAT4(0.0f, 0.0f, 0.0f, 0.0f);
        if (exists) piece = *(GLOBAL const float4 *)(from + place);
        to[0] = piece.x;
        to[1] = piece.y;
        to[2] = piece.z;
        to[3] = piece.w;
    } else {
        to[0] = exists ? from[place] : 0.0f;
    }
}

/* fetch of activations.  nothing: what a place has that does not exist. */
DEVICE void fetch_act(float *to, GLOBAL const act *from, long place, bool exists, u32 width,
                      quad_act nothing)
{
    if (width == 4) {
        quad_act piece = nothing;
        if (exists) piece = *(GLOBAL const quad_act *)(from + place);
        const float4 values = QUAD_VALUES(piece);
        to[0] = values.x;
        to[1] = values.y;
        to[2] = values.z;
        to[3] = values.w;
    } else {
        to[0] = exists ? GET(from, place) : QUAD_VALUES(nothing).x;
    }
}

/* Puts a piece along K into a column of the slice, from line k on. */
DEVICE void put_upright(LOCAL float *slice, u32 tile, u32 k, u32 column, const float *piece,
                        u32 width)
{
#if IS_DEEP
    LOCAL float *to = slice + PLACE(tile, k, column);
    if (width == 4)
        *(LOCAL float4 *)to = FLOAT4(piece[0], piece[1], piece[2], piece[3]);
    else
        to[0] = piece[0];
#else
    for (u32 i = 0; i < width; i++)
        slice[PLACE(tile, k + i, column)] = piece[i];
#endif
}

/* Puts a piece along M or N into line k. */
DEVICE void put_along(LOCAL float *slice, u32 tile, u32 k, u32 column, const float *piece,
                      u32 width)
{
#if IS_DEEP
    UNROLL
    for (u32 i = 0; i < width; i++)
        slice[PLACE(tile, k, column + i)] = piece[i];
#else
    LOCAL float *to = slice + PLACE(tile, k, column);
    if (width == 4)
        *(LOCAL float4 *)to = FLOAT4(piece[0], piece[1], piece[2], piece[3]);
    else
        to[0] = piece[0];
#endif
}

/* ---- Multiplying ----------------------------------------------------------------------------- */

DEVICE void clear_sums(float sums[REG_M][REG_N])
{
    UNROLL
    for (u32 i = 0; i < REG_M; i++) {
        UNROLL
        for (u32 j = 0; j < REG_N; j++)
            sums[i][j] = 0.0f;
    }
}

#if TENSOR && HAS_TENSOR_CORES
#define add_products add_tensor_products
#elif IS_DEEP
DEVICE void add_products(float sums[REG_M][REG_N], LOCAL const float *a, LOCAL const float *b,
                         item_id item)
{
    UNROLL
    for (u32 k = 0; k < TILE_K; k += 4) {
        float a_k[REG_M][4], b_k[REG_N][4];
        UNROLL
        for (u32 i = 0; i < REG_M; i++)
            take(a_k[i], a + PLACE(TILE_M, k, ROW_OF(item, i)));
        UNROLL
        for (u32 j = 0; j < REG_N; j++)
            take(b_k[j], b + PLACE(TILE_N, k, COLUMN_OF(item, j)));
        UNROLL
        for (u32 e = 0; e < 4; e++) {
            UNROLL
            for (u32 i = 0; i < REG_M; i++) {
                UNROLL
                for (u32 j = 0; j < REG_N; j++)
                    sums[i][j] = MULTIPLY_ADD(a_k[i][e], b_k[j][e], sums[i][j]);
            }
        }
    }
}
#else
DEVICE void add_products(float sums[REG_M][REG_N], LOCAL const float *a, LOCAL const float *b,
                         item_id item)
{
    UNROLL
    for (u32 k = 0; k < TILE_K; k++) {
        float a_k[REG_M], b_k[REG_N];
        UNROLL
        for (u32 i = 0; i < REG_M; i += 4)
            take(a_k + i, a + PLACE(TILE_M, k, ROW_OF(item, i)));
        UNROLL
        for (u32 j = 0; j < REG_N; j += 4)
            take(b_k + j, b + PLACE(TILE_N, k, COLUMN_OF(item, j)));
        UNROLL
        for (u32 i = 0; i < REG_M; i++) {
            UNROLL
            for (u32 j = 0; j < REG_N; j++)
                sums[i][j] = MULTIPLY_ADD(a_k[i], b_k[j], sums[i][j]);
        }
    }
}
#endif

/* ---- The end --------------------------------------------------------------------------------- */

/* Ends the chains of a deterministic operator: with +0 those of a convolution, which are never -0
   then, and with -0 those of a linear layer, which it leaves as they are. */
DEVICE void end_sums(float sums[REG_M][REG_N], const conv2d_local_params *p)
{
#if DETERMINISTIC
    UNROLL
    for (u32 i = 0; i < REG_M; i++) {
        UNROLL
        for (u32 j = 0; j < REG_N; j++)
            sums[i][j] += p->end;
    }
#endif
}

/* Reads the elements n .. n + PIECE - 1 of a row of C.  Elements from `limit` on do not exist. */
DEVICE void read_piece(float *to, GLOBAL const float *row, u32 n, u32 limit)
{
#if C_WIDTH == 4 && PIECE == 4
    fetch(to, row, n, n < limit, 4);
#else
    for (u32 i = 0; i < PIECE; i++)
        to[i] = n + i < limit ? row[n + i] : 0.0f;
#endif
}

DEVICE void write_piece(GLOBAL float *row, u32 n, u32 limit, const float *piece)
{
#if C_WIDTH == 4 && PIECE == 4
    if (n < limit) *(GLOBAL float4 *)(row + n) = FLOAT4(piece[0], piece[1], piece[2], piece[3]);
#else
    for (u32 i = 0; i < PIECE; i++)
        if (n + i < limit) row[n + i] = piece[i];
#endif
}

/* read_piece of activations. */
DEVICE void read_piece_act(float *to, GLOBAL const act *row, u32 n, u32 limit)
{
#if C_WIDTH == 4 && PIECE == 4
    fetch_act(to, row, n, n < limit, 4, quad_of_zeros());
#else
    for (u32 i = 0; i < PIECE; i++)
        to[i] = n + i < limit ? GET(row, n + i) : 0.0f;
#endif
}

DEVICE void write_piece_act(GLOBAL act *row, u32 n, u32 limit, const float *piece)
{
#if C_WIDTH == 4 && PIECE == 4
    if (n < limit)
        *(GLOBAL quad_act *)(row + n) = QUAD_STORED(FLOAT4(piece[0], piece[1], piece[2], piece[3]));
#else
    for (u32 i = 0; i < PIECE; i++)
        if (n + i < limit) PUT(row, n + i, piece[i]);
#endif
}

#endif
