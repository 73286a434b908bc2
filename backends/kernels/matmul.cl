/* MATMUL: batched matrix products (core/backend/op_list.h).

   A group computes a tile of y, TILE x TILE elements of one product, from slices of a and b in
   local memory.  Elements behind the end of a matrix are zeros.  Each sum is made in the order of
   its terms, whatever the other samples are.

   Options:
     TILE   rows and columns of a tile
     LANES  on CPUs: the floats of a vector */
#include "matmul.h"
#include "quad.h"

/* ---- Both sides of a product ----------------------------------------------------------------- */

/* The matrix of one side: its lines are the rows of a, or the columns of b. */
typedef struct side {
    GLOBAL const u8 *base;
    u64 first; /* the element of line 0 and term 0 */
    u32 line, term, n_lines, n_terms;
    u32 stored;
    float nothing; /* what it has behind its end */
} side;

DEVICE u64 place_of(const matmul_params *p, const matmul_operand *o, u64 pair)
{
    const u64 sample = pair / p->n_batch;
    const u32 index = (u32)(pair - sample * p->n_batch), upper = index / p->batch2;
    return o->offset + sample * o->sample + upper / p->batch1 * o->batch[0] +
           upper % p->batch1 * o->batch[1] + index % p->batch2 * o->batch[2];
}

DEVICE side side_a(const matmul_params *p, GLOBAL const u8 *base, u64 pair)
{
    side s;
    s.base = base;
    s.first = place_of(p, &p->a, pair);
    s.line = p->a.row;
    s.term = p->a.column;
    s.n_lines = p->rows;
    s.n_terms = p->inner;
    s.stored = p->a_stored;
    s.nothing = NOTHING;
    return s;
}

DEVICE side side_b(const matmul_params *p, GLOBAL const u8 *base, u64 pair)
{
    side s;
    s.base = base;
    s.first = place_of(p, &p->b, pair);
    s.line = p->b.column;
    s.term = p->b.row;
    s.n_lines = p->columns;
    s.n_terms = p->inner;
    s.stored = p->b_stored;
    s.nothing = 0.0f;
    return s;
}

/* An element, or nothing behind the end. */
DEVICE float element_of(const side *s, u32 line, u32 term)
{
    if (line >= s->n_lines || term >= s->n_terms) return s->nothing;
    const u64 at = s->first + line * s->line + term * s->term;
    return s->stored ? GET((GLOBAL const act *)s->base, at) : ((GLOBAL const float *)s->base)[at];
}

DEVICE void store_sum(const matmul_params *p, GLOBAL act *y, u32 row, u32 column, float sum)
{
    if (row >= p->rows || column >= p->columns) return;
    GLOBAL act *const to = y + row * p->y.row + column * p->y.column;
    PUT(to, 0, p->accumulate ? GET(to, 0) + p->alpha * sum : p->alpha * sum);
}

/* The beginning of a sum. */
DEVICE float first_sum(const matmul_params *p, GLOBAL const act *y, u32 row, u32 column)
{
    if (!p->resume || row >= p->rows || column >= p->columns) return 0.0f;
    return GET(y, row * p->y.row + column * p->y.column);
}

#if DEVICE_IS_CPU

/* ---- A work item is a group ------------------------------------------------------------------ */

#define TERMS       32 /* of a slice */
#define ROWS        4  /* that are in registers at once, two vectors of each */

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#define VEC         JOIN(float, LANES)
#define LOAD(p)     JOIN(vload, LANES)(0, (p))
#define STORE(x, p) JOIN(vstore, LANES)((x), 0, (p))

/* slice (TERMS, TILE) */
DEVICE void fetch(LOCAL float *slice, const side *s, u32 line, u32 term)
{
    if (s->term <= s->line) {
        for (u32 i = 0; i < TILE; i++)
            for (u32 k = 0; k < TERMS; k++)
                slice[k * TILE + i] = element_of(s, line + i, term + k);
    } else {
        for (u32 k = 0; k < TERMS; k++)
            for (u32 i = 0; i < TILE; i++)
                slice[k * TILE + i] = element_of(s, line + i, term + k);
    }
}

/* Adds the products of a slice to the sums of ROWS rows and two vectors of columns. */
DEVICE void multiply(float *sums, LOCAL const float *a, LOCAL const float *b)
{
    VEC sum[ROWS][2];
    UNROLL for (u32 i = 0; i < ROWS; i++) UNROLL for (u32 u = 0; u < 2; u++) sum[i][u] =
        LOAD(sums + i * TILE + u * LANES);
    for (u32 k = 0; k < TERMS; k++) {
        const VEC left = LOAD(b + k * TILE), right = LOAD(b + k * TILE + LANES);
        UNROLL for (u32 i = 0; i < ROWS; i++)
        {
            const VEC x = (VEC)(a[k * TILE + i]);
            sum[i][0] = fma(x, left, sum[i][0]);
            sum[i][1] = fma(x, right, sum[i][1]);
        }
    }
    UNROLL for (u32 i = 0; i < ROWS; i++) UNROLL for (u32 u = 0; u < 2; u++)
        STORE(sum[i][u], sums + i * TILE + u * LANES);
}

KERNEL GROUP_OF(1) void dpt_matmul(OUT(act, y), IN(u8, a), IN(u8, b), const matmul_params given)
{
    SHARED float a_slice[TERMS * TILE], b_slice[TERMS * TILE];
    const matmul_params *const p = &given;
    const u64 pair = GROUP_ID(1);
    const u32 row = GROUP_ID(0) / p->column_tiles * TILE;
    const u32 column = GROUP_ID(0) % p->column_tiles * TILE;
    const side a_side = side_a(p, a_base + a_place, pair);
    const side b_side = side_b(p, b_base + b_place, pair);
    const u32 n_rows = min(p->rows - row, (u32)TILE);
    const u32 n_columns = min(p->columns - column, (u32)TILE);
    GLOBAL act *const to = y_base + y_place + place_of(p, &p->y, pair);
    float sums[TILE * TILE];
    for (u32 i = 0; i < TILE * TILE; i++)
        sums[i] = first_sum(p, to, row + i / TILE, column + i % TILE);
    for (u32 term = 0; term < p->inner; term += TERMS) {
        fetch(a_slice, &a_side, row, term);
        fetch(b_slice, &b_side, column, term);
        for (u32 i = 0; i < n_rows; i += ROWS)
            for (u32 j = 0; j < n_columns; j += 2 * LANES)
                multiply(sums + i * TILE + j, a_slice + i, b_slice + j);
    }
    for (u32 i = 0; i < n_rows; i++)
        for (u32 j = 0; j < n_columns; j++)
            store_sum(p, to, row + i, column + j, sums[i * TILE + j]);
}

#else

/* ---- A work item is a part of a tile --------------------------------------------------------- */

/* An item computes REG_M neighbouring rows and REG_N neighbouring columns: it reads four elements of
   a slice at once, and writes four of y.  While a slice is used, the next one is on its way to
   registers. */
#define TERMS         16
#define REG_M         8
#define REG_N         4
#define ITEMS_M       (TILE / REG_M)
#define ITEMS_N       (TILE / REG_N)
#define ITEMS         (ITEMS_M * ITEMS_N)
#define FETCHES       (TILE * TERMS / ITEMS)
#define PITCH         (TILE + 4) /* puts the terms of a line into different banks */

#define SLICE         (TERMS * PITCH)

/* Neighbouring items read neighbouring elements of the shorter stride. */
#define LINE_OF(s, i) ((s)->term <= (s)->line ? (i) / TERMS : (i) % TILE)
#define TERM_OF(s, i) ((s)->term <= (s)->line ? (i) % TERMS : (i) / TILE)

/* Whether four neighbouring elements of a side are read at once. */
DEVICE bool has_quads(const side *s)
{
    const bool along_terms = s->term == 1;
    const u32 other = along_terms ? s->line : s->term, n = along_terms ? s->n_terms : s->n_lines;
    return !s->stored && (along_terms || s->line == 1) && (other | n) % 4 == 0 &&
           (s->first * sizeof(float) + (u64)(size_t)s->base) % 16 == 0;
}

/* The place of quad q in a slice: its first line and its first term. */
#define QUAD_LINE(s, q) ((s)->term == 1 ? (q) / (TERMS / 4) : (q) % (TILE / 4) * 4)
#define QUAD_TERM(s, q) ((s)->term == 1 ? (q) % (TERMS / 4) * 4 : (q) / (TILE / 4))

DEVICE void fetch_quads(float *to, const side *s, u32 line, u32 term)
{
    UNROLL for (u32 f = 0; f < FETCHES / 4; f++)
    {
        const u32 q = f * ITEMS + LOCAL_ID;
        const u32 l = line + QUAD_LINE(s, q), t = term + QUAD_TERM(s, q);
        float4 four = FLOAT4(s->nothing, s->nothing, s->nothing, s->nothing);
        if (l < s->n_lines && t < s->n_terms)
            four = *(GLOBAL const float4 *)((GLOBAL const float *)s->base + s->first +
                                            (u64)l * s->line + (u64)t * s->term);
        to[4 * f] = four.x;
        to[4 * f + 1] = four.y;
        to[4 * f + 2] = four.z;
        to[4 * f + 3] = four.w;
    }
}

DEVICE void put_quads(LOCAL float *slice, const side *s, const float *from)
{
    UNROLL for (u32 f = 0; f < FETCHES / 4; f++)
    {
        const u32 q = f * ITEMS + LOCAL_ID;
        LOCAL float *const to = slice + QUAD_TERM(s, q) * PITCH + QUAD_LINE(s, q);
        const float *const four = from + 4 * f;
        if (s->term == 1) {
            UNROLL for (u32 e = 0; e < 4; e++) to[e * PITCH] = four[e];
        } else {
            *(LOCAL float4 *)to = FLOAT4(four[0], four[1], four[2], four[3]);
        }
    }
}

DEVICE void fetch(float *to, const side *s, u32 line, u32 term, bool quads)
{
    if (quads) {
        fetch_quads(to, s, line, term);
        return;
    }
    UNROLL for (u32 f = 0; f < FETCHES; f++)
    {
        const u32 i = f * ITEMS + LOCAL_ID;
        to[f] = element_of(s, line + LINE_OF(s, i), term + TERM_OF(s, i));
    }
}

DEVICE void put(LOCAL float *slice, const side *s, const float *from, bool quads)
{
    if (quads) {
        put_quads(slice, s, from);
        return;
    }
    UNROLL for (u32 f = 0; f < FETCHES; f++)
    {
        const u32 i = f * ITEMS + LOCAL_ID;
        slice[TERM_OF(s, i) * PITCH + LINE_OF(s, i)] = from[f];
    }
}

DEVICE void multiply(float sum[REG_M][REG_N], LOCAL const float *a, LOCAL const float *b)
{
    UNROLL for (u32 k = 0; k < TERMS; k++)
    {
        float x[REG_M], z[REG_N];
        take(x, a + k * PITCH);
        take(x + 4, a + k * PITCH + 4);
        take(z, b + k * PITCH);
        UNROLL for (u32 i = 0; i < REG_M; i++)
        {
            UNROLL for (u32 j = 0; j < REG_N; j++) sum[i][j] = FMA(x[i], z[j], sum[i][j]);
        }
    }
}

/* Stores REG_N sums of a row from `column` on.  place: of the product's matrix. */
DEVICE void store_row(const matmul_params *p, GLOBAL act *y, u64 place, u32 row, u32 column,
                      const float sum[REG_N])
{
    const u64 at = place + row * p->y.row + column;
    if (!p->accumulate && p->y.column == 1 && at % 4 == 0 && row < p->rows &&
        column + REG_N <= p->columns) {
        *(GLOBAL quad_act *)(y + at) = QUAD_STORED(FLOAT4(
            p->alpha * sum[0], p->alpha * sum[1], p->alpha * sum[2], p->alpha * sum[3]));
        return;
    }
    UNROLL for (u32 j = 0; j < REG_N; j++) store_sum(p, y + place, row, column + j, sum[j]);
}

KERNEL GROUP_OF(ITEMS) void dpt_matmul(OUT(act, y), IN(u8, a), IN(u8, b), const matmul_params given)
{
    SHARED float4 a_slices[2 * SLICE / 4], b_slices[2 * SLICE / 4]; /* this one and the next */
    LOCAL float *const a = (LOCAL float *)a_slices, *const b = (LOCAL float *)b_slices;
    const matmul_params *const p = &given;
    if (IS_EXTRA_GROUP(p->n_pairs)) return;
    const u64 pair = GROUP_ID(1);
    const u32 row = GROUP_ID(0) / p->column_tiles * TILE;
    const u32 column = GROUP_ID(0) % p->column_tiles * TILE;
    const u32 item_m = LOCAL_ID / ITEMS_N * REG_M, item_n = LOCAL_ID % ITEMS_N * REG_N;
    const side a_side = side_a(p, a_base + a_place, pair);
    const side b_side = side_b(p, b_base + b_place, pair);
    const u64 place = y_place + place_of(p, &p->y, pair);
    float a_next[FETCHES], b_next[FETCHES], sum[REG_M][REG_N];
    UNROLL for (u32 i = 0; i < REG_M; i++)
    {
        UNROLL for (u32 j = 0; j < REG_N; j++) sum[i][j] =
            first_sum(p, y_base + place, row + item_m + i, column + item_n + j);
    }
    const bool a_quads = has_quads(&a_side), b_quads = has_quads(&b_side);
    fetch(a_next, &a_side, row, 0, a_quads);
    fetch(b_next, &b_side, column, 0, b_quads);
    put(a, &a_side, a_next, a_quads);
    put(b, &b_side, b_next, b_quads);
    BARRIER();
    u32 now = 0;
    for (u32 term = 0; term < p->inner; term += TERMS) {
        const u32 next = SLICE - now;
        fetch(a_next, &a_side, row, term + TERMS, a_quads);
        fetch(b_next, &b_side, column, term + TERMS, b_quads);
        multiply(sum, a + now + item_m, b + now + item_n);
        put(a + next, &a_side, a_next, a_quads);
        put(b + next, &b_side, b_next, b_quads);
        BARRIER();
        now = next;
    }
    UNROLL for (u32 i = 0; i < REG_M; i++)
        store_row(p, y_base, place, row + item_m + i, column + item_n, sum[i]);
}

#endif
