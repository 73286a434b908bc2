/* The user's cache on disk: $XDG_CACHE_HOME/dptrain/opencl, or ~/.cache/dptrain/opencl.  It speeds
   up the next start and nothing depends on it: where it cannot be read or written, work is done
   again.  Files are written whole (temporary file, rename) and carry a checksum, so that one that
   was cut short or altered counts as missing.  Read through secure_getenv. */
#ifndef DPT_OPENCL_CACHE_H
#define DPT_OPENCL_CACHE_H

#include "backend.h"

/* 128-bit FNV-1a in hexadecimal digits, for file names. */
enum { DPT_CL_HASH_CHARS = 32 };
typedef struct dpt_cl_hash {
    uint64_t word[2];
} dpt_cl_hash;
dpt_cl_hash dpt_cl_hash_begin(void);
dpt_cl_hash dpt_cl_hash_add(dpt_cl_hash hash, const void *bytes, size_t n_bytes);
dpt_cl_hash dpt_cl_hash_text(dpt_cl_hash hash, const char *text); /* its NUL included */
void dpt_cl_hash_print(dpt_cl_hash hash, char out[DPT_CL_HASH_CHARS + 1]);

/* The content of a cache file, allocated, or NULL if there is none that is whole. */
unsigned char *dpt_cl_cache_read(const char *name, size_t *n_bytes);
/* Replaces a cache file.  false: it could not be written, which is no failure. */
bool dpt_cl_cache_write(const char *name, const void *bytes, size_t n_bytes);
/* Whether files can be written at all; makes the folder. */
bool dpt_cl_cache_writable(void);
/* The path that a file has or would have, allocated; NULL without a home folder. */
char *dpt_cl_cache_path(const char *name);

#endif
