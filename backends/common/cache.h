/* The user's cache on disk: $XDG_CACHE_HOME/dptrain, or ~/.cache/dptrain.  A name is a path in the
   cache, as "opencl/tuning-0123.txt"; each backend has a folder.

   - The cache makes the next start faster, and no result depends on it.  If the cache cannot be
   read or written, the work is done again.
   - A file is written as a whole (temporary file, then rename) and carries a checksum.  A file that
     was cut short or altered counts as missing.
   - Folders and files are accessible to the user alone.  A file that belongs to another user, that
     others may write to, or that is a link or a pipe counts as missing.
   - The environment is read through secure_getenv. */
#ifndef DPT_COMMON_CACHE_H
#define DPT_COMMON_CACHE_H

#include "backend.h"

/* A 128-bit FNV-1a hash, whose hexadecimal digits become part of file names. */
enum { DPT_HASH_CHARS = 32 };
typedef struct dpt_hash {
    uint64_t word[2];
} dpt_hash;
dpt_hash dpt_hash_begin(void);
dpt_hash dpt_hash_add(dpt_hash hash, const void *bytes, size_t n_bytes);
dpt_hash dpt_hash_text(dpt_hash hash, const char *text); /* adds the NUL, too */
void dpt_hash_print(dpt_hash hash, char out[DPT_HASH_CHARS + 1]);

/* The content of a cache file, which the caller frees.  NULL if there is no intact file of this
   name, or no memory. */
unsigned char *dpt_cache_read(const char *name, size_t *n_bytes);
/* Replaces a cache file.  false: the file could not be written.  That is no error. */
bool dpt_cache_write(const char *name, const void *bytes, size_t n_bytes);
/* Whether files can be written to a folder, as "opencl/".  Makes the folder if it is missing. */
bool dpt_cache_writable(const char *folder);
/* Locks the folder of the file `name` until dpt_cache_unlock, against other processes that lock the
   folder.  Makes the folder if it is missing.  Returns a negative number, which dpt_cache_unlock
   accepts, if the folder cannot be locked. */
int dpt_cache_lock(const char *name);
void dpt_cache_unlock(int lock);
/* The path of a cache file, whether the file exists or not; the caller frees it.  NULL if the user
   has no home folder, or there is no memory. */
char *dpt_cache_path(const char *name);

#endif
