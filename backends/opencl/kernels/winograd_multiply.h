/* The inner loop of Winograd's products on CPUs: a block of rows times a panel.  Both are read in
   the order of their addresses (winograd.h).  The sums, a tile of ROWS x PANEL vectors, are in
   registers.
 */
#ifndef DPT_OPENCL_WINOGRAD_MULTIPLY_H
#define DPT_OPENCL_WINOGRAD_MULTIPLY_H

#include "winograd.h"
#include "winograd_vector.h"

DEVICE void multiply_block(GLOBAL float *to, GLOBAL const float *left, GLOBAL const float *right,
                           u32 depth_chunks)
{
    vec acc[ROWS][PANEL];
#pragma unroll
    for (u32 r = 0; r < ROWS; r++) {
#pragma unroll
        for (u32 n = 0; n < PANEL; n++)
            acc[r][n] = (vec)(0.0f);
    }
    for (u32 chunk = 0; chunk < depth_chunks; chunk++) {
#pragma unroll 4
        for (u32 l = 0; l < WIDTH; l++) {
            vec row[PANEL];
#pragma unroll
            for (u32 n = 0; n < PANEL; n++)
                row[n] = LOAD(right + n * WIDTH);
#pragma unroll
            for (u32 r = 0; r < ROWS; r++) {
                const vec value = (vec)(left[r * WIDTH + l]);
#pragma unroll
                for (u32 n = 0; n < PANEL; n++)
                    acc[r][n] = fma(value, row[n], acc[r][n]);
            }
            right += PANEL * WIDTH;
        }
        left += ROWS * WIDTH;
    }
#pragma unroll
    for (u32 n = 0; n < PANEL; n++) {
#pragma unroll
        for (u32 r = 0; r < ROWS; r++)
            STORE(acc[r][n], to + (n * ROWS + r) * WIDTH);
    }
}

#endif
