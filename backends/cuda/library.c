/* Opening libraries (library.h). */
#include "library.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>

static void *open_in(const char *folder, const char *name)
{
    char path[512];
    const int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n > 0 && (size_t)n < sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

void *dpt_cuda_library_open(const char *name, const dpt_cuda_symbol *symbols, size_t n,
                            char *reason, size_t n_bytes)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        const char *words = dlerror();
        snprintf(reason, n_bytes, "%s", words ? words : name);
        library = open_in(DPT_CUDA_LIBRARY_FOLDER, name);
    }
    if (!library) return NULL;
    for (size_t i = 0; i < n; i++) {
        /* ISO C has no conversion from dlsym's object pointer; POSIX promises it works. */
        void *address = dlsym(library, symbols[i].name);
        if (!address) {
            snprintf(reason, n_bytes, "%s has no %s", name, symbols[i].name);
            return NULL;
        }
        memcpy(symbols[i].function, &address, sizeof address);
    }
    return library;
}
