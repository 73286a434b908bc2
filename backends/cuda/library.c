/* Opening a library and finding its functions. */
#include "library.h"

#include <dlfcn.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

static void *open_in(const char *folder, const char *name)
{
    char path[512];
    const int n = snprintf(path, sizeof path, "%s/%s", folder, name);
    return n > 0 && (size_t)n < sizeof path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
}

/* Writes the loader's message, as "libcudnn.so.9: cannot open shared object file".  The file that
   it names may be another library that this one needs. */
static void tell(const char *words, const char *name, char *reason, size_t n_bytes)
{
    static const char rest[] = ": No such file or directory";
    const size_t n = words ? strlen(words) : 0, n_rest = sizeof rest - 1;
    const bool ends = n > n_rest && strcmp(words + n - n_rest, rest) == 0;
    if (words)
        snprintf(reason, n_bytes, "%.*s", (int)(ends ? n - n_rest : n), words);
    else
        snprintf(reason, n_bytes, "%s", name);
}

void *dpt_cuda_library_open(const char *name, dpt_cuda_symbols symbols, char *reason,
                            size_t n_bytes)
{
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
        tell(dlerror(), name, reason, n_bytes);
        library = open_in(DPT_CUDA_LIBRARY_FOLDER, name);
    }
    if (!library) return NULL;
    for (size_t i = 0; i < symbols.n; i++) {
        /* ISO C has no conversion from dlsym's object pointer; POSIX promises it works. */
        void *address = dlsym(library, symbols.items[i].name);
        if (!address) {
            snprintf(reason, n_bytes, "%s has no %s", name, symbols.items[i].name);
            return NULL;
        }
        memcpy(symbols.items[i].function, &address, sizeof address);
    }
    return library;
}
