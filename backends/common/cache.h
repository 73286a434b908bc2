/* The user's cache on disk: $XDG_CACHE_HOME/dptrain, or ~/.cache/dptrain.  Names are paths in it,
   as "opencl/tuning-0123.txt": each backend has a folder.  It speeds up the next start and nothing
   depends on it: where it cannot be read or written, work is done again.  Files are written whole
   (temporary file, rename) and carry a checksum, so that one that was cut short or altered counts
   as missing.  Folders and files are the user's alone: a file that belongs to somebody else, that
   others may write to, or that is a link or a pipe counts as missing, too.  Read through
   secure_getenv. */
#ifndef DPT_COMMON_CACHE_H
#define DPT_COMMON_CACHE_H

#include "backend.h"

/* 128-bit FNV-1a in hexadecimal digits, for file names. */
enum { DPT_HASH_CHARS = 32 };
typedef struct dpt_hash {
    uint64_t word[2];
} dpt_hash;
dpt_hash dpt_hash_begin(void);
dpt_hash dpt_hash_add(dpt_hash hash, const void *bytes, size_t n_bytes);
dpt_hash dpt_hash_text(dpt_hash hash, const char *text); /* its NUL included */
void dpt_hash_print(dpt_hash hash, char out[DPT_HASH_CHARS + 1]);

/* The content of a cache file, allocated, or NULL if there is none that is whole. */
unsigned char *dpt_cache_read(const char *name, size_t *n_bytes);
/* Replaces a cache file.  false: it could not be written, which is no failure. */
bool dpt_cache_write(const char *name, const void *bytes, size_t n_bytes);
/* Whether files can be written to a folder ("opencl/") at all; makes it. */
bool dpt_cache_writable(const char *folder);
/* Keeps other processes out of the folder of a file until unlock, if they lock it too; makes it.
   Negative, which unlock accepts, where that cannot be done. */
int dpt_cache_lock(const char *name);
void dpt_cache_unlock(int lock);
/* The path that a file has or would have, allocated; NULL without a home folder. */
char *dpt_cache_path(const char *name);

#endif
