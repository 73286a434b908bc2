/* Tiles on tensor cores, for CUDA.  Products are TF32: inputs are cut to 11 bits, and bfloat16 has
   fewer.  Sums are float32.

   A warp treats 32 rows and 4 REG_N columns of the tile.  The instruction fixes which elements of
   its matrices a lane holds.  It does not fix which rows and columns of the tile these elements
   are.  Lane (g, t) = (lane / 4, lane % 4) has the rows 4g .. 4g+3 and the columns from REG_N t on,
   all side by side.  It therefore reads four elements of A, and four or two of B, at once, and
   writes four of C.

   The lines of a slice are 8 elements longer than the tile, and are rotated by 8 elements for every
   group of four lines.  The 4 lines that a warp reads at once are then in different banks, and so
   are the elements of a piece of 4 along K that is written into a column.

   This is the only file that depends on the width of a warp.  Without tensor cores (compute
   capabilities before 8.0, and hosts that emulate a card), the same lanes compute the same sums
   with ordinary instructions. */
#ifndef DPT_KERNELS_CONV2D_LOCAL_TENSOR_H
#define DPT_KERNELS_CONV2D_LOCAL_TENSOR_H

#if REG_M != 4 || (REG_N != 4 && REG_N != 8) || TILE_M % 32 != 0 || TILE_N % (4 * REG_N) != 0 ||   \
    (TILE_M & (TILE_M - 1)) != 0 || (TILE_N & (TILE_N - 1)) != 0
#error "no tile of whole warps"
#endif

#define WARPS_N (TILE_N / (4 * REG_N))

DEVICE item_id own_item(void)
{
    item_id item;
    const u32 warp = LOCAL_ID / 32, lane = LOCAL_ID % 32;
    item.m = warp / WARPS_N * 32 + 4 * (lane / 4);
    item.n = warp % WARPS_N * (4 * REG_N) + REG_N * (lane % 4);
    return item;
}

#define ROW_OF(item, i)    ((item).m + (i))
#define COLUMN_OF(item, j) ((item).n + (j))

#define PLACE(tile, k, at) ((k) * ((tile) + PAD) + (((at) + 8 * ((k) / 4)) & ((tile)-1)))

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800

#define HAS_TENSOR_CORES 1

/* sums (16,8) += a (16,8) * b (8,8).  A lane has the rows g and g + 8 and the columns 2t and 2t + 1
   of the sums; the same rows and the columns t and t + 4 of a; the rows t and t + 4 and the column
   g of b. */
DEVICE void multiply_matrices(float *c00, float *c01, float *c10, float *c11, float a0, float a1,
                              float a2, float a3, float b0, float b1)
{
    asm("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
        "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
        : "+f"(*c00), "+f"(*c01), "+f"(*c10), "+f"(*c11)
        : "r"(AS_UINT(a0)), "r"(AS_UINT(a1)), "r"(AS_UINT(a2)), "r"(AS_UINT(a3)), "r"(AS_UINT(b0)),
          "r"(AS_UINT(b1)));
}

/* Column g of matrix n is the tile's column MATRICES_N g + n.  Row g of matrix m is the tile's row
   4g + 2m, and row g + 8 the one behind it. */
#define MATRICES_N (REG_N / 2)

DEVICE void take_columns(float to[MATRICES_N], LOCAL const float *from)
{
#if MATRICES_N == 4
    take(to, from);
#else
    const float2 two = *(LOCAL const float2 *)from;
    to[0] = two.x;
    to[1] = two.y;
#endif
}

DEVICE void add_tensor_products(float sums[REG_M][REG_N], LOCAL const float *a,
                                LOCAL const float *b, item_id item)
{
    const u32 t = LOCAL_ID % 4;
    const u32 column = item.n - REG_N * t + MATRICES_N * (LOCAL_ID % 32 / 4);
    UNROLL
    for (u32 k = 0; k < TILE_K; k += 8) {
        float a_0[4], a_4[4], b_0[MATRICES_N], b_4[MATRICES_N];
        /* k / 4 is the same for all lanes, so the rotation of a line costs nothing. */
        const u32 turn_0 = 8 * (k / 4), turn_4 = turn_0 + 8;
        take(a_0, a + (k + t) * LINE_M + ((item.m + turn_0) & (TILE_M - 1)));
        take(a_4, a + (k + 4 + t) * LINE_M + ((item.m + turn_4) & (TILE_M - 1)));
        take_columns(b_0, b + (k + t) * LINE_N + ((column + turn_0) & (TILE_N - 1)));
        take_columns(b_4, b + (k + 4 + t) * LINE_N + ((column + turn_4) & (TILE_N - 1)));
        UNROLL
        for (u32 m = 0; m < 2; m++) {
            UNROLL
            for (u32 n = 0; n < MATRICES_N; n++)
                multiply_matrices(&sums[2 * m][n], &sums[2 * m][MATRICES_N + n],
                                  &sums[2 * m + 1][n], &sums[2 * m + 1][MATRICES_N + n], a_0[2 * m],
                                  a_0[2 * m + 1], a_4[2 * m], a_4[2 * m + 1], b_0[n], b_4[n]);
        }
    }
}

#else

#define HAS_TENSOR_CORES 0

#endif

#endif
