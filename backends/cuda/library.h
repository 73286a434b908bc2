/* cuBLASLt and cuDNN are opened when the first device is, not linked: the plug-in then loads where
   they are missing (our own kernels do their work), `dptrain devices` need not wait for a gigabyte
   of libraries, and the build needs their headers only. */
#ifndef DPT_CUDA_LIBRARY_H
#define DPT_CUDA_LIBRARY_H

#include <stddef.h>

/* A function of the library: where its name is, and where its address goes. */
typedef struct dpt_cuda_symbol {
    const char *name;
    void *function; /* the address of a pointer to a function */
} dpt_cuda_symbol;

/* Opens a library by its name, through the loader's usual places and then in the folder of the
   toolkit that this was built with, and fills in all n symbols.  NULL if there is none with all of
   them; *reason, of n_bytes, then says why, in few words.  Never closed: these libraries do not
   bear it. */
void *dpt_cuda_library_open(const char *name, const dpt_cuda_symbol *symbols, size_t n,
                            char *reason, size_t n_bytes);

#endif
