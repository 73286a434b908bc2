/* The convolutions of kernels/conv2d_local_*.cl by tensor cores, in tiles of 64 rows and COLUMNS
   columns, for accesses of IN_WIDTH elements to what has the input's channels and of OUT_WIDTH to
   what has the output's; IS_FORWARD. */
#define TENSOR 1
#define TILE_M 64
#define TILE_N COLUMNS
#define TILE_K 16
#define REG_M  4
#if COLUMNS == 64
#define REG_N 8
#else
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

#define JOIN_(a, b, c, d) a##b##_##c##d
#define JOIN(a, b, c, d)  JOIN_(a, b, c, d)
#define TEXT_(x)          #x
#define TEXT(x)           TEXT_(x)

/* What conv2d_local.c asks for. */
#define OPTIONS                                                                                    \
    "-DTILE_M=64 -DTILE_N=" TEXT(COLUMNS) " -DTILE_K=16 -DREG_M=4 -DREG_N=" TEXT(                  \
        REG_N) " -DA_WIDTH=" TEXT(A_WIDTH) " -DB_WIDTH=" TEXT(B_WIDTH) " -DC_WIDTH=" TEXT(C_WIDTH) " -DTENSOR=1"
