/* Sums over the rows of a matrix in a fixed order.  One launch sums pieces of the rows, and a second
   one sums the pieces. */
#include "column_sums_params.h"

#if LANES == 1

/* x (rows, columns), with p.row elements between rows -> y (n_pieces, columns).  A group treats
   p.width columns of a piece, and p.height items share the rows of a column. */
KERNEL void column_sums(OUT(float, y), IN(act, x), const column_sums_params p)
{
    SHARED float sums[GROUP];
    TENSOR_OUT(float, y);
    TENSOR_IN(act, x);
    const u32 column = GROUP_ID(0) * p.width + LOCAL_ID % p.width, own = LOCAL_ID / p.width;
    const u64 piece = GROUP_ID(1), begin = piece * p.piece_rows;
    const u64 end = begin + p.piece_rows < p.rows ? begin + p.piece_rows : p.rows;
    const bool takes = own < p.height && column < p.columns;
    GLOBAL const act *const from = x + column;
    const u64 step = p.height;
    /* Four independent sums, so that no load waits for an addition. */
    float a = 0.0f, b = 0.0f, c = 0.0f, d = 0.0f;
    u64 row = takes ? begin + own : end;
    for (; row + 3 * step < end; row += 4 * step) {
        a += GET(from, row * p.row);
        b += GET(from, (row + step) * p.row);
        c += GET(from, (row + 2 * step) * p.row);
        d += GET(from, (row + 3 * step) * p.row);
    }
    for (; row < end; row += step)
        a += GET(from, row * p.row);
    sums[LOCAL_ID] = a + b + (c + d);
    BARRIER();
    for (u32 half_height = p.half_height; half_height > 0; half_height /= 2) {
        if (own < half_height && own + half_height < p.height)
            sums[LOCAL_ID] += sums[LOCAL_ID + half_height * p.width];
        BARRIER();
    }
    if (own > 0 || !takes) return;
    GLOBAL float *const to = y + piece * p.columns + column;
    *to = p.accumulate ? *to + sums[LOCAL_ID] : sums[LOCAL_ID];
}

#else

/* An item treats LANES neighbouring columns, which are a vector on a CPU. */
#define JOIN_(a, b) a##b
#define JOIN(a, b) JOIN_(a, b)
#define VEC JOIN(float, LANES)
#define LOAD(p) JOIN(vload, LANES)(0, (p))
#define STORE(x, p) JOIN(vstore, LANES)((x), 0, (p))
#if defined(BF16) && BF16
#define LOAD_X(p) JOIN(as_float, LANES)(JOIN(convert_uint, LANES)(JOIN(vload, LANES)(0, (p))) << 16)
#else
#define LOAD_X(p) LOAD(p)
#endif

/* Sums the rows begin .. end-1 of LANES columns.  Rows are `length` elements apart. */
DEVICE void sum_vectors(GLOBAL float *to, GLOBAL const act *x, u32 length, u64 begin, u64 end,
                        u32 accumulate)
{
    VEC sum = (VEC)(0.0f);
    for (u64 row = begin; row < end; row++)
        sum += LOAD_X(x + row * length);
    if (accumulate) sum += LOAD(to);
    STORE(sum, to);
}

/* Sums the rows begin .. end-1 of one column. */
DEVICE void sum_column(GLOBAL float *to, GLOBAL const act *x, u32 length, u64 begin, u64 end,
                       u32 accumulate)
{
    float sum = 0.0f;
    for (u64 row = begin; row < end; row++)
        sum += GET(x, row * length);
    *to = accumulate ? *to + sum : sum;
}

/* x (rows, columns), with p.row elements between rows -> y (n_pieces, columns).  An item for each
   piece and LANES columns. */
KERNEL void column_sums(OUT(float, y), IN(act, x), const column_sums_params p)
{
    TENSOR_OUT(float, y);
    TENSOR_IN(act, x);
    const u32 n_vectors = (p.columns + LANES - 1) / LANES;
    const u64 piece = GLOBAL_ID / n_vectors;
    const u32 column = (u32)(GLOBAL_ID % n_vectors) * LANES;
    if (piece >= p.n_pieces) return;
    const u64 begin = piece * p.piece_rows, end = min(begin + p.piece_rows, p.rows);
    GLOBAL float *const to = y + piece * p.columns;
    if (column + LANES <= p.columns) {
        sum_vectors(to + column, x + column, p.row, begin, end, p.accumulate);
    } else {
        for (u32 i = column; i < p.columns; i++)
            sum_column(to + i, x + i, p.row, begin, end, p.accumulate);
    }
}

#endif
