/* Whole files: read one into memory, replace one so that nobody ever sees half of it.  Knows
   nothing of what stands in them. */
#ifndef DPTI_FILE_H
#define DPTI_FILE_H

#include "backend.h"

/* A regular file, whole; *bytes is aligned to 64 bytes and freed by the caller.  DPT_E_NOT_FOUND,
   DPT_E_IO; DPT_E_NO_MEMORY, also if the machine has less than the file, which may be all holes. */
DPT_CHECK_RESULT dpt_status dpti_file_read(const char *path, uint8_t **bytes, size_t *n_bytes,
                                           dpt_error *error);

/* The same, refused with DPT_E_FORMAT, EFBIG, before memory is taken if it has more than max_bytes.
 */
DPT_CHECK_RESULT dpt_status dpti_file_read_most(const char *path, size_t max_bytes, uint8_t **bytes,
                                                size_t *n_bytes, dpt_error *error);

/* The first bytes of a file, at most `most`; *n_bytes are there. */
DPT_CHECK_RESULT dpt_status dpti_file_read_first(const char *path, size_t most, uint8_t **bytes,
                                                 size_t *n_bytes, dpt_error *error);

/* A file that is being replaced: what is written goes to a temporary file in the same folder, and
   commit puts it into place (fsync, rename, fsync of the folder).  Links are followed.  What is no
   regular file (/dev/stdout, a pipe that is read) is written directly. */
typedef struct dpti_new_file {
    const char *name; /* the caller's path, for messages; stays valid until commit or discard */
    char *path;
    char *temporary; /* NULL: written directly */
    int fd;
} dpti_new_file;

/* DPT_E_IO says why the path cannot be written.  After success: commit or discard. */
DPT_CHECK_RESULT dpt_status dpti_new_file_create(const char *path, dpti_new_file *out,
                                                 dpt_error *error);
/* Whether a path can be written, as far as that is known before: nothing changes.  DPT_E_IO. */
DPT_CHECK_RESULT dpt_status dpti_new_file_check(const char *path, dpt_error *error);
DPT_CHECK_RESULT dpt_status dpti_new_file_write(dpti_new_file *file, const void *bytes,
                                                size_t n_bytes, dpt_error *error);
/* Whether it works or not, the temporary file is gone afterwards and `file` is released. */
DPT_CHECK_RESULT dpt_status dpti_new_file_commit(dpti_new_file *file, dpt_error *error);
/* Removes the temporary file; the old one stays as it was. */
void dpti_new_file_discard(dpti_new_file *file);

#endif
