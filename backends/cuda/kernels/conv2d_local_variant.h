/* The convolutions of kernels/conv2d_local_*.cl as CUDA, by tensor cores if TENSOR is 1, in tiles
   of 64 rows and COLUMNS columns, for accesses of IN_WIDTH elements to what has the input's
   channels and of OUT_WIDTH to what has the output's; IS_FORWARD. */
#define TILE_M 64
#define TILE_N COLUMNS
#define TILE_K 16
#if TENSOR
#define REG_M 4
#define REG_N (COLUMNS / 8)
#else
#define REG_M (COLUMNS == 16 ? 4 : 8)
#define REG_N 4
#endif
#define B_WIDTH IN_WIDTH
#if IS_FORWARD
#define A_WIDTH IN_WIDTH
#define C_WIDTH OUT_WIDTH
#else
#define A_WIDTH OUT_WIDTH
#define C_WIDTH IN_WIDTH
#endif
