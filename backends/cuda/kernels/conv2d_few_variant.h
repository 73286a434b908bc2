/* conv2d_few.cl as CUDA, for filters of KERNEL_SIZE x KERNEL_SIZE and CHANNELS of the input. */
#define TEXT_(x) #x
#define TEXT(x)  TEXT_(x)

/* What conv2d_few.c asks for. */
#define OPTIONS "-DKERNEL_SIZE=" TEXT(KERNEL_SIZE) " -DCHANNELS=" TEXT(CHANNELS)
