/* Winograd's gradients of filters in one kernel, for few tiles in a grain: the sums of the points
   stay in registers.  Products with sums in memory would spend their time on these sums.

   A group has WINOGRAD_SIDE output channels and as many input channels, and an item has one of
   each.  An item sums up all points of a grain, transforms them, and adds up grains along the tree.
   Local memory holds four tiles at a time, so that an item reads them at once. */
#include "winograd_taps.h"

#define SIDE   WINOGRAD_SIDE
#define ITEMS  (SIDE * SIDE)
#define CHUNK  4 /* tiles */
#define COUNT  (POINTS * POINTS)
#define POINTS_APART (ITEMS / (SIDE * CHUNK))

#if COUNT % POINTS_APART != 0
#error "an item cannot have the same number of points as others"
#endif

/* One side of the products: rows of channels, from the group's first one on. */
typedef struct operand {
    GLOBAL const float *rows;
    u64 point_stride;
    u32 channels; /* of a row */
    u32 left;     /* channels from the group's first one on */
    float nothing;
} operand;

/* Moves the tiles [first, end), at most CHUNK, of all points to local memory: for each point and
   each channel the tiles.  An item moves one tile and one channel of every POINTS_APART-th point. */
DEVICE void fetch(LOCAL float *to, const operand *o, u32 first, u32 end)
{
    const u32 channel = LOCAL_ID % SIDE, tile = LOCAL_ID / SIDE % CHUNK;
    const u32 own = LOCAL_ID / (SIDE * CHUNK);
    const bool exists = first + tile < end && channel < o->left;
    const u64 step = POINTS_APART * o->point_stride;
    u64 at = own * o->point_stride + (u64)(first + tile) * o->channels + channel;
    LOCAL float *place = to + (own * SIDE + channel) * CHUNK + tile;
    UNROLL
    for (u32 i = 0; i < COUNT / POINTS_APART; i++) {
        *place = exists ? o->rows[at] : o->nothing;
        place += POINTS_APART * SIDE * CHUNK;
        at += step;
    }
}

DEVICE void multiply(float sums[COUNT], LOCAL const float4 *a, LOCAL const float4 *b)
{
    UNROLL
    for (u32 point = 0; point < COUNT; point++) {
        const float4 x = a[point * SIDE], y = b[point * SIDE];
        sums[point] = FMA(x.x, y.x, sums[point]);
        sums[point] = FMA(x.y, y.y, sums[point]);
        sums[point] = FMA(x.z, y.z, sums[point]);
        sums[point] = FMA(x.w, y.w, sums[point]);
    }
}

/* The chains of all points over the tiles [first, end).  Every item of the group calls it. */
DEVICE void sum_tiles(float sums[COUNT], LOCAL float4 *a, LOCAL float4 *b, const operand *dy,
                      const operand *x, u32 first, u32 end)
{
    UNROLL
    for (u32 point = 0; point < COUNT; point++)
        sums[point] = 0.0f;
    for (u32 tile = first; tile < end; tile += CHUNK) {
        fetch((LOCAL float *)a, dy, tile, end);
        fetch((LOCAL float *)b, x, tile, end);
        BARRIER();
        multiply(sums, a + LOCAL_ID / SIDE, b + LOCAL_ID % SIDE);
        BARRIER(); /* before the next tiles lie there */
    }
}

/* Adds the taps of grain i to those that wait.  Behind the last grain taps are the sum. */
DEVICE void add_to_tree(float taps[TAPS][TAPS], float waiting[TREE_LEVELS][TAPS][TAPS], u32 i,
                        bool is_last)
{
    u32 level = 0; /* not a constant: sums that wait would take too many registers */
    for (; level < TREE_LEVELS && (is_last || tree_adds(i, level)); level++) {
        if (!tree_adds(i, level)) continue;
        UNROLL
        for (u32 t = 0; t < ALL_TAPS; t++)
            taps[t / TAPS][t % TAPS] += waiting[level][t / TAPS][t % TAPS];
    }
    if (is_last) return;
    UNROLL
    for (u32 t = 0; t < ALL_TAPS; t++)
        waiting[level][t / TAPS][t % TAPS] = taps[t / TAPS][t % TAPS];
}

DEVICE void end_points(float sums[COUNT], float taps[TAPS][TAPS])
{
    float t[TAPS][POINTS];
    UNROLL
    for (u32 j = 0; j < POINTS; j++) {
        float column[POINTS];
        UNROLL
        for (u32 i = 0; i < POINTS; i++)
            column[i] = weight_of(i) * sums[i * POINTS + j];
        transform_column(column, j, t);
    }
    transform_rows(t, taps);
}

/* dy, x: transformed -> dw.  If the gradients of grains stay apart, the second index of a group is
   the grain. */
KERNEL GROUP_OF(ITEMS) void winograd_grains_of(OUT(float, dw), IN(float, dy), IN(float, x),
                                               const winograd_grains p)
{
    SHARED float4 a[COUNT * SIDE], b[COUNT * SIDE];
    const winograd_weights *const w = &p.weights;
    const u32 row = GROUP_ID(0) / p.columns * SIDE, column = GROUP_ID(0) % p.columns * SIDE;
    const u32 filter = row + LOCAL_ID / SIDE, channel = column + LOCAL_ID % SIDE;
    const u32 first = GROUP_ID(1), n = w->is_tree ? w->n_grains : 1;
    operand dy, x;
    float sums[COUNT], taps[TAPS][TAPS], waiting[TREE_LEVELS][TAPS][TAPS];
    tap_place at;
    dy.rows = dy_base + dy_place + row;
    dy.point_stride = p.dy_stride;
    dy.channels = w->out_channels;
    dy.left = w->out_channels - row;
    dy.nothing = NOTHING;
    x.rows = x_base + x_place + column;
    x.point_stride = p.x_stride;
    x.channels = w->in_channels;
    x.left = w->in_channels - column;
    x.nothing = 0.0f;
    for (u32 i = 0; i < n; i++) {
        const u32 begin = (first + i) * p.each;
        sum_tiles(sums, a, b, &dy, &x, begin, min(begin + p.each, p.n_tiles));
        end_points(sums, taps);
        add_to_tree(taps, waiting, i, i + 1 == n);
    }
    if (filter >= w->out_channels || channel >= w->in_channels) return;
    at.first = (u64)filter * ALL_TAPS * w->in_channels + channel;
    at.lanes = 1;
    store_taps(dw_base + dw_place + first * w->part, w, at, taps, w->accumulate);
}
