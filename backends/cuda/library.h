/* Opening NVIDIA's libraries at run time, with the first device or the first communicator, instead
   of linking them.  Without a library the plug-in still loads, and our own kernels do its work.
   `dptrain devices` does not load a gigabyte of libraries.  The build needs their headers only. */
#ifndef DPT_CUDA_LIBRARY_H
#define DPT_CUDA_LIBRARY_H

#include <stddef.h>

/* A function of a library. */
typedef struct dpt_cuda_symbol {
    const char *name;
    void *function; /* the address of the function pointer to fill in */
} dpt_cuda_symbol;

typedef struct dpt_cuda_symbols {
    const dpt_cuda_symbol *items; /* (n) */
    size_t n;
} dpt_cuda_symbols;

/* Opens a library by its name and fills in all symbols.  The loader's usual folders are searched
   first, then the folder of the toolkit of this build.  NULL if no library has all symbols;
   `reason`, of n_bytes, then says why.  The library is never closed, because these libraries do not
   survive it. */
void *dpt_cuda_library_open(const char *name, dpt_cuda_symbols symbols, char *reason,
                            size_t n_bytes);

#endif
