/* The tables of this build's kernels, for C and CUDA.  Each object of kernels (kernels.cmake) has a
   table. */
#ifndef DPT_CUDA_TABLE_H
#define DPT_CUDA_TABLE_H

struct dpt_kernel {
    const char *file;     /* of backends/kernels; NULL ends a table */
    const char *options;  /* as in dpt_program_key; "" if the file has one variant */
    const char *name;     /* as in the file */
    const void *function; /* the address by which CUDA's runtime finds the kernel */
};

#ifndef __CUDACC__

/* All tables. */
#include "kernel_list.h"
#define DPT_CUDA_DECLARE(name) extern const struct dpt_kernel dpt_cuda_table_##name[];
DPT_CUDA_TABLES(DPT_CUDA_DECLARE)
#undef DPT_CUDA_DECLARE

#else

/* A source names in OPTIONS the macros of kernels.cmake that distinguish its variants:

       #define OPTIONS OPTION(KERNEL_SIZE) OPTION(CHANNELS)
       #include "conv2d_few.cl"
       #include "table.h"

       const struct dpt_kernel KERNEL_TABLE[] = {
           KERNEL_ROW("conv2d_few.cl", dpt_conv2d_few_forward),
           END_OF_TABLE,
       };

   A source without variants has no OPTIONS.  This header adds BF16 or DETERMINISTIC, and
   kernels.cmake defines KERNEL_TABLE. */
extern "C" const struct dpt_kernel KERNEL_TABLE[];

#define TEXT_(x)      #x
#define TEXT(x)       TEXT_(x)
#define OPTION(macro) " -D" #macro "=" TEXT(macro) /* KERNEL_ROW leaves out the first space */
#ifndef OPTIONS
#define OPTIONS ""
#endif
#if defined(BF16) && BF16
#define ALL_OPTIONS OPTIONS OPTION(BF16)
#elif defined(DETERMINISTIC) && DETERMINISTIC
#define ALL_OPTIONS OPTIONS OPTION(DETERMINISTIC)
#else
#define ALL_OPTIONS OPTIONS
#endif

#ifndef KERNEL_FUNCTION /* an emulator of CUDA defines it otherwise */
#define KERNEL_FUNCTION(name) (const void *)name
#endif
#define KERNEL_ROW(file, name)                                                                     \
    {                                                                                              \
        file, &ALL_OPTIONS[sizeof(ALL_OPTIONS) > 1], TEXT(name), KERNEL_FUNCTION(name)             \
    }
#define END_OF_TABLE                                                                               \
    {                                                                                              \
        0, 0, 0, 0                                                                                 \
    }

#endif

#endif
