/* A pass of the convolutions of kernels/conv2d_local_tile.h as CUDA: PASS is forward, data or
   weights. */
#define TILE_OPTIONS  OPTION(TILE_M) OPTION(TILE_N) OPTION(TILE_K) OPTION(REG_M) OPTION(REG_N)
#define WIDTH_OPTIONS OPTION(A_WIDTH) OPTION(B_WIDTH) OPTION(C_WIDTH)
#ifdef TENSOR
#define OPTIONS TILE_OPTIONS WIDTH_OPTIONS OPTION(TENSOR)
#else
#define OPTIONS TILE_OPTIONS WIDTH_OPTIONS
#endif
#include "table.h"

#define FILE_OF_(pass)     conv2d_local_##pass.cl
#define FILE_OF(pass)      TEXT(FILE_OF_(pass))
#define FUNCTION_OF_(pass) dpt_conv2d_local_##pass
#define FUNCTION_OF(pass)  FUNCTION_OF_(pass)
#include FILE_OF(PASS)

const struct dpt_kernel KERNEL_TABLE[] = {
    KERNEL_ROW(FILE_OF(PASS), FUNCTION_OF(PASS)),
    END_OF_TABLE,
};
