/* Sums over the rows of a matrix in a fixed order: first of pieces of the rows, then of the pieces.
   An item has LANES neighbouring columns, which is a vector on a CPU and 1 on a GPU. */
#include "column_sums_params.h"

#if LANES == 1
#define VEC float
#define LOAD(p) (*(p))
#define LOAD_X(p) GET(p, 0)
#define STORE(x, p) (*(p) = (x))
#else
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
#endif

/* Rows begin .. end-1 of LANES columns; rows lie `length` elements apart. */
DEVICE void sum_vectors(GLOBAL float *to, GLOBAL const act *x, u32 length, u64 begin, u64 end,
                        u32 accumulate)
{
    VEC sum = (VEC)(0.0f);
    for (u64 row = begin; row < end; row++)
        sum += LOAD_X(x + row * length);
    if (accumulate) sum += LOAD(to);
    STORE(sum, to);
}

/* Of one column. */
DEVICE void sum_column(GLOBAL float *to, GLOBAL const act *x, u32 length, u64 begin, u64 end,
                       u32 accumulate)
{
    float sum = 0.0f;
    for (u64 row = begin; row < end; row++)
        sum += GET(x, row * length);
    *to = accumulate ? *to + sum : sum;
}

/* x (rows, columns), rows p.row apart -> y (n_pieces, columns): one item for each piece and LANES columns */
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
