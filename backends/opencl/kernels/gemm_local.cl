/* Matrix products on GPUs: a group computes a tile of C of TILE_M x TILE_N from slices of A and B
   of TILE_K terms in local memory; an item computes ITEM_M x ITEM_N of it in registers.

   Slices lie term by term, so that an item reads four rows or columns at once; an item's rows (and
   columns) come in fours that are as far apart as the tile allows, so that neighbouring items read
   neighbouring places of local memory.  While a slice is computed with, the next is on its way from
   global memory to registers, and there are two of each in local memory: one barrier a slice.

   Options: TILE_M, TILE_N, TILE_K, ITEM_M, ITEM_N (multiples of 4), A_TRANSPOSED, B_TRANSPOSED,
   FINISH (whether there may be a bias, an activation or a mask). */
#include "gemm_params.h"
#if FINISH
#include "gemm_finish.h"
#endif

#define UNROLL  _Pragma("unroll")

#define ITEMS_N (TILE_N / ITEM_N)
#define ITEMS   (TILE_M / ITEM_M * ITEMS_N)
/* Fours from one term of a slice to the next; one more than needed, so that terms begin in
   different banks. */
#define STRIDE_M (TILE_M / 4 + 1)
#define STRIDE_N (TILE_N / 4 + 1)
#define FOURS_M  (TILE_M * TILE_K / 4 / ITEMS) /* fours of a slice that an item fetches */
#define FOURS_N  (TILE_N * TILE_K / 4 / ITEMS)
#define APART_M  (TILE_M / (ITEM_M / 4)) /* rows from one four of an item to its next */
#define APART_N  (TILE_N / (ITEM_N / 4))

/* ---- Slices ---------------------------------------------------------------------------------- */

/* A stored matrix of n_lines lines of `length` elements. */
typedef struct matrix {
    GLOBAL const float *first;
    u64 stride;
    u32 n_lines, length;
    bool aligned; /* a four that begins at a multiple of 4 is aligned */
} matrix;

/* Four elements of a line; zeros in place of elements that do not exist. */
DEVICE float4 four_at(const matrix *x, u32 line, u32 at)
{
    GLOBAL const float *from = x->first + line * x->stride + at;
    float4 v = (float4)(0.0f);
    if (line >= x->n_lines || at >= x->length) return v;
    if (at + 4 <= x->length) return x->aligned ? *(GLOBAL const float4 *)from : vload4(0, from);
    v.x = from[0];
    if (at + 1 < x->length) v.y = from[1];
    if (at + 2 < x->length) v.z = from[2];
    return v;
}

/* The line and the place of four number i, in a slice of `width` rows or columns.  BY_TERM: a line
   is a term.  BY_ROW: a line is a row, and terms run along it. */
#define LINE_BY_TERM(i, width) ((i) / ((width) / 4))
#define AT_BY_TERM(i, width)   ((i) % ((width) / 4) * 4)
#define LINE_BY_ROW(i)         ((i) / (TILE_K / 4))
#define AT_BY_ROW(i)           ((i) % (TILE_K / 4) * 4)

/* Fetches the slice from `term` on.  Terms behind the end are zero in A and in B. */
DEVICE void fetch_a(float4 *to, const matrix *a, u32 row, u32 term)
{
    UNROLL for (u32 f = 0; f < FOURS_M; f++)
    {
        const u32 i = f * ITEMS + LOCAL_ID;
#if A_TRANSPOSED
        to[f] = four_at(a, term + LINE_BY_TERM(i, TILE_M), row + AT_BY_TERM(i, TILE_M));
#else
        to[f] = four_at(a, row + LINE_BY_ROW(i), term + AT_BY_ROW(i));
#endif
    }
}

DEVICE void fetch_b(float4 *to, const matrix *b, u32 column, u32 term)
{
    UNROLL for (u32 f = 0; f < FOURS_N; f++)
    {
        const u32 i = f * ITEMS + LOCAL_ID;
#if B_TRANSPOSED
        to[f] = four_at(b, column + LINE_BY_ROW(i), term + AT_BY_ROW(i));
#else
        to[f] = four_at(b, term + LINE_BY_TERM(i, TILE_N), column + AT_BY_TERM(i, TILE_N));
#endif
    }
}

DEVICE void put_by_term(LOCAL float4 *slice, u32 stride, u32 term, u32 at, float4 v)
{
    slice[term * stride + at / 4] = v;
}

DEVICE void put_by_row(LOCAL float4 *slice, u32 stride, u32 row, u32 term, float4 v)
{
    LOCAL float *to = (LOCAL float *)(slice + term * stride) + row;
    to[0] = v.x;
    to[4 * stride] = v.y;
    to[8 * stride] = v.z;
    to[12 * stride] = v.w;
}

DEVICE void put_a(LOCAL float4 *slice, const float4 *from)
{
    UNROLL for (u32 f = 0; f < FOURS_M; f++)
    {
        const u32 i = f * ITEMS + LOCAL_ID;
#if A_TRANSPOSED
        put_by_term(slice, STRIDE_M, LINE_BY_TERM(i, TILE_M), AT_BY_TERM(i, TILE_M), from[f]);
#else
        put_by_row(slice, STRIDE_M, LINE_BY_ROW(i), AT_BY_ROW(i), from[f]);
#endif
    }
}

DEVICE void put_b(LOCAL float4 *slice, const float4 *from)
{
    UNROLL for (u32 f = 0; f < FOURS_N; f++)
    {
        const u32 i = f * ITEMS + LOCAL_ID;
#if B_TRANSPOSED
        put_by_row(slice, STRIDE_N, LINE_BY_ROW(i), AT_BY_ROW(i), from[f]);
#else
        put_by_term(slice, STRIDE_N, LINE_BY_TERM(i, TILE_N), AT_BY_TERM(i, TILE_N), from[f]);
#endif
    }
}

/* ---- Products -------------------------------------------------------------------------------- */

DEVICE void multiply(float4 sum[ITEM_M][ITEM_N / 4], LOCAL const float4 *a, LOCAL const float4 *b)
{
    UNROLL for (u32 term = 0; term < TILE_K; term++)
    {
        float4 x[ITEM_M / 4], y[ITEM_N / 4];
        UNROLL for (u32 i = 0; i < ITEM_M / 4; i++) x[i] = a[term * STRIDE_M + i * (APART_M / 4)];
        UNROLL for (u32 j = 0; j < ITEM_N / 4; j++) y[j] = b[term * STRIDE_N + j * (APART_N / 4)];
        UNROLL for (u32 i = 0; i < ITEM_M / 4; i++) UNROLL for (u32 j = 0; j < ITEM_N / 4; j++)
        {
            sum[4 * i][j] = fma((float4)(x[i].x), y[j], sum[4 * i][j]);
            sum[4 * i + 1][j] = fma((float4)(x[i].y), y[j], sum[4 * i + 1][j]);
            sum[4 * i + 2][j] = fma((float4)(x[i].z), y[j], sum[4 * i + 2][j]);
            sum[4 * i + 3][j] = fma((float4)(x[i].w), y[j], sum[4 * i + 3][j]);
        }
    }
}

typedef struct result {
    GLOBAL float *c; /* the matrix of the batch and the split */
    GLOBAL const float *bias, *mask;
} result;

DEVICE void store(const result *r, const gemm_params *p, u32 row, u32 column, float x)
{
    const u64 at = (u64)row * p->ldc + column;
    if (row >= p->m || column >= p->n) return;
    if (p->accumulate) x += r->c[at];
#if FINISH
    x = gemm_finish(p, x, r->bias, r->mask, at, column);
#endif
    r->c[at] = x;
}

/* Stores the sums of a work item; row and column are those of its first element. */
DEVICE void store_sums(const result *r, const gemm_params *p, u32 row, u32 column,
                       float4 sum[ITEM_M][ITEM_N / 4])
{
    UNROLL for (u32 i = 0; i < ITEM_M; i++)
    {
        const u32 to_row = row + i / 4 * APART_M + i % 4;
        UNROLL for (u32 j = 0; j < ITEM_N / 4; j++)
        {
            const u32 to_column = column + j * APART_N;
            store(r, p, to_row, to_column, sum[i][j].x);
            store(r, p, to_row, to_column + 1, sum[i][j].y);
            store(r, p, to_row, to_column + 2, sum[i][j].z);
            store(r, p, to_row, to_column + 3, sum[i][j].w);
        }
    }
}

KERNEL __attribute__((reqd_work_group_size(ITEMS, 1, 1))) void
gemm_local(OUT(float, c), IN(float, a), IN(float, b), IN(float, bias), IN(float, mask),
           const gemm_params p)
{
    SHARED float4 a_slice[2][TILE_K * STRIDE_M];
    SHARED float4 b_slice[2][TILE_K * STRIDE_N];
    TENSOR_OUT(float, c);
    TENSOR_IN(float, a);
    TENSOR_IN(float, b);
    const u32 batch = GROUP_ID(1) / p.n_splits, split = GROUP_ID(1) % p.n_splits;
    const u32 row = GROUP_ID(0) / p.n_column_tiles * TILE_M;
    const u32 column = GROUP_ID(0) % p.n_column_tiles * TILE_N;
    const u32 first_term = split * p.split_terms;
    const u32 end_term = min(first_term + p.split_terms, p.k);
    const matrix a_of = {.first = a + batch * p.a_stride,
                         .stride = p.lda,
                         .n_lines = A_TRANSPOSED ? end_term : p.m,
                         .length = A_TRANSPOSED ? p.m : end_term,
                         .aligned = p.aligned};
    const matrix b_of = {.first = b + batch * p.b_stride,
                         .stride = p.ldb,
                         .n_lines = B_TRANSPOSED ? p.n : end_term,
                         .length = B_TRANSPOSED ? end_term : p.n,
                         .aligned = p.aligned};
    const u32 item_m = LOCAL_ID / ITEMS_N, item_n = LOCAL_ID % ITEMS_N;

    float4 a_next[FOURS_M], b_next[FOURS_N];
    float4 sum[ITEM_M][ITEM_N / 4];
    UNROLL for (u32 i = 0; i < ITEM_M; i++) UNROLL for (u32 j = 0; j < ITEM_N / 4; j++) sum[i][j] =
        (float4)(0.0f);
    fetch_a(a_next, &a_of, row, first_term);
    fetch_b(b_next, &b_of, column, first_term);
    u32 slice = 0;
    for (u32 term = first_term; term < end_term; term += TILE_K) {
        put_a(a_slice[slice], a_next);
        put_b(b_slice[slice], b_next);
        BARRIER();
        fetch_a(a_next, &a_of, row, term + TILE_K);
        fetch_b(b_next, &b_of, column, term + TILE_K);
        multiply(sum, a_slice[slice] + item_m, b_slice[slice] + item_n);
        slice = 1 - slice;
    }

    result r = {.c = c + batch * p.c_stride + split * p.split_stride};
#if FINISH
    r.bias = bias_base + bias_place;
    r.mask = mask_base + mask_place + batch * p.c_stride;
#endif
    store_sums(&r, &p, row + item_m * 4, column + item_n * 4, sum);
}
