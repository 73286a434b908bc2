/* The convolutions of kernels/conv2d_local_*.cl as CUDA, in one tile, for accesses of WIDTH
   elements. */
#define TILE_M      64
#define TILE_N      64
#define TILE_K      16
#define REG_M       8
#define REG_N       4
#define A_WIDTH     WIDTH
#define B_WIDTH     WIDTH
#define C_WIDTH     WIDTH

#define JOIN_(a, b) a##b
#define JOIN(a, b)  JOIN_(a, b)
#define TEXT_(x)    #x
#define TEXT(x)     TEXT_(x)

/* What conv2d_local.c asks for. */
#define OPTIONS                                                                                    \
    "-DTILE_M=64 -DTILE_N=64 -DTILE_K=16 -DREG_M=8 -DREG_N=4 -DA_WIDTH=" TEXT(                     \
        WIDTH) " -DB_WIDTH=" TEXT(WIDTH) " -DC_WIDTH=" TEXT(WIDTH)
