/* Pooling (kernels/pool2d.cl) as CUDA, for windows of WINDOW x WINDOW side by side. */
#define POOL_KERNEL WINDOW
#define POOL_STRIDE WINDOW
#define POOL_PAD    0u

#define TEXT_(x)    #x
#define TEXT(x)     TEXT_(x)

/* What pool2d.c asks for. */
#define OPTIONS "-DPOOL_KERNEL=" TEXT(WINDOW) " -DPOOL_STRIDE=" TEXT(WINDOW) " -DPOOL_PAD=0u"
