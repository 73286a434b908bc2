/* The inner loop of backward-weights of Winograd convolutions on CPUs. */
#ifndef DPT_OPENCL_WINOGRAD_SUM_H
#define DPT_OPENCL_WINOGRAD_SUM_H

#include "winograd.h"
#include "winograd_vector.h"

/* Rows of A^T that are treated at once, and rows that are summed before a result is stored. */
#define SUM_ROWS  (WIDTH < 8 ? WIDTH : WIDTH / 2)
#define SUM_DEPTH 128
/* Whether a sum goes on from the stored one.  Otherwise parts are added up, whose errors are
   smaller. */
#define CONTINUES    DETERMINISTIC
#define SUM_AT(r, n) (to + ((u64)(lane + (r)) * row_chunks + other + (n)) * WIDTH)

/* Sums up the products of one point, of a chunk of A and n_chunks chunks of B.  left, right: at the
   first of n rows; chunks of B are chunk_stride elements apart.  to: rows of row_chunks chunks, one
   for each lane of A.  resumes: the sums are added to those of `to`. */
DEVICE void sum_products(GLOBAL float *to, u32 row_chunks, GLOBAL const float *left,
                         GLOBAL const float *right, u64 chunk_stride, u32 n_chunks, u32 n,
                         bool resumes)
{
    for (u32 first = 0; first < n; first += SUM_DEPTH) {
        const u32 end = first + SUM_DEPTH < n ? first + SUM_DEPTH : n;
        const bool add = resumes || first > 0;
        for (u32 other = 0; other < n_chunks; other += PANEL) {
            GLOBAL const float *b = right + other * chunk_stride;
            for (u32 lane = 0; lane < WIDTH; lane += SUM_ROWS) {
                vec acc[SUM_ROWS][PANEL];
#pragma unroll
                for (u32 r = 0; r < SUM_ROWS; r++) {
#pragma unroll
                    for (u32 k = 0; k < PANEL; k++)
                        acc[r][k] = CONTINUES && add ? LOAD(SUM_AT(r, k)) : (vec)(0.0f);
                }
                for (u32 i = first; i < end; i++) {
                    vec row[PANEL];
#pragma unroll
                    for (u32 k = 0; k < PANEL; k++)
                        row[k] = LOAD(b + k * chunk_stride + (u64)i * WIDTH);
#pragma unroll
                    for (u32 r = 0; r < SUM_ROWS; r++) {
                        const vec value = (vec)(left[(u64)i * WIDTH + lane + r]);
#pragma unroll
                        for (u32 k = 0; k < PANEL; k++)
                            acc[r][k] = fma(value, row[k], acc[r][k]);
                    }
                }
#pragma unroll
                for (u32 r = 0; r < SUM_ROWS; r++) {
#pragma unroll
                    for (u32 k = 0; k < PANEL; k++) {
                        GLOBAL float *at = SUM_AT(r, k);
                        STORE(!CONTINUES && add ? LOAD(at) + acc[r][k] : acc[r][k], at);
                    }
                }
            }
        }
    }
}

#endif
