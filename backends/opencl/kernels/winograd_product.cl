/* The products of Winograd's points on CPUs.  A group has one work item. */
#include "winograd_multiply.h"

/* The work items are (blocks of rows, point). */
KERNEL __attribute__((reqd_work_group_size(1, 1, 1))) void
winograd_multiply(OUT(float, c), IN(float, a), IN(float, b), const winograd_product p)
{
    TENSOR_OUT(float, c);
    TENSOR_IN(float, a);
    TENSOR_IN(float, b);
    const u32 point = (u32)get_group_id(1);
    const u32 first = (u32)get_group_id(0) * p.item_blocks;
    const u32 end = first + p.item_blocks < p.blocks ? first + p.item_blocks : p.blocks;
    const u32 depth = p.depth_chunks * WIDTH;
    for (u32 panel = 0; panel < p.panels; panel++) {
        GLOBAL const float *right =
            b + point * p.b_stride + (u64)panel * depth * (PANEL * WIDTH);
        for (u32 block = first; block < end; block++)
            multiply_block(c + point * p.c_stride +
                               ((u64)block * p.panels + panel) * (PANEL * ROWS * WIDTH),
                           a + point * p.a_stride + (u64)block * ROWS * depth, right,
                           p.depth_chunks);
    }
}

/* Rows of A^T that are treated at once, and rows that are summed before a result is stored. */
#define SUM_ROWS  (WIDTH < 8 ? WIDTH : WIDTH / 2)
#define SUM_DEPTH 128
/* Whether a sum goes on from the stored one.  Otherwise parts are added up, whose errors are
   smaller. */
#define CONTINUES DETERMINISTIC
#define SUM_AT(r, n) (to + ((u64)(lane + (r)) * p.b_chunks + other + (n)) * WIDTH)

/* The work items are (chunk of A, point).  An item treats all chunks of B, PANEL at a time. */
KERNEL __attribute__((reqd_work_group_size(1, 1, 1))) void
winograd_add(OUT(float, c), IN(float, a), IN(float, b), const winograd_sum p)
{
    TENSOR_OUT(float, c);
    TENSOR_IN(float, a);
    TENSOR_IN(float, b);
    const u32 chunk = (u32)get_group_id(0), point = (u32)get_group_id(1);
    GLOBAL const float *left = a + point * p.a_stride + (u64)chunk * p.n_rows * WIDTH;
    GLOBAL float *to = c + point * p.c_stride + (u64)chunk * WIDTH * p.b_chunks * WIDTH;
    for (u32 first = 0; first < p.n_rows; first += SUM_DEPTH) {
        const u32 end = first + SUM_DEPTH < p.n_rows ? first + SUM_DEPTH : p.n_rows;
        const bool add = p.accumulate || first > 0;
        for (u32 other = 0; other < p.b_chunks; other += PANEL) {
            GLOBAL const float *right =
                b + point * p.b_stride + (u64)other * p.n_rows * WIDTH;
            for (u32 lane = 0; lane < WIDTH; lane += SUM_ROWS) {
                vec acc[SUM_ROWS][PANEL];
#pragma unroll
                for (u32 r = 0; r < SUM_ROWS; r++) {
#pragma unroll
                    for (u32 n = 0; n < PANEL; n++)
                        acc[r][n] = CONTINUES && add ? LOAD(SUM_AT(r, n)) : (vec)(0.0f);
                }
                for (u32 i = first; i < end; i++) {
                    vec row[PANEL];
#pragma unroll
                    for (u32 n = 0; n < PANEL; n++)
                        row[n] = LOAD(right + ((u64)n * p.n_rows + i) * WIDTH);
#pragma unroll
                    for (u32 r = 0; r < SUM_ROWS; r++) {
                        const vec value = (vec)(left[(u64)i * WIDTH + lane + r]);
#pragma unroll
                        for (u32 n = 0; n < PANEL; n++)
                            acc[r][n] = fma(value, row[n], acc[r][n]);
                    }
                }
#pragma unroll
                for (u32 r = 0; r < SUM_ROWS; r++) {
#pragma unroll
                    for (u32 n = 0; n < PANEL; n++) {
                        GLOBAL float *at = SUM_AT(r, n);
                        STORE(!CONTINUES && add ? LOAD(at) + acc[r][n] : acc[r][n], at);
                    }
                }
            }
        }
    }
}
