/* Whole files: reading one into memory, and replacing one so that no reader ever sees a partial
   file.  Does not interpret the content. */
#ifndef DPTI_FILE_H
#define DPTI_FILE_H

#include "base/bytes.h"
#include "dpt_error.h"

#include <sys/stat.h>

/* Reads a regular file.  The caller frees out->bytes.  Errors:
   DPT_E_NOT_FOUND; DPT_E_IO; DPT_E_NO_MEMORY, also if the machine has less memory than the size of
   the file, which may consist of holes. */
DPT_CHECK_RESULT dpt_status dpti_file_read(const char *path, dpti_content *out, dpt_error *error);

/* Reads a file as dpti_file_read does, but refuses a file of more than max_bytes before it
   allocates memory: DPT_E_FORMAT with EFBIG. */
DPT_CHECK_RESULT dpt_status dpti_file_read_most(const char *path, size_t max_bytes,
                                                dpti_content *out, dpt_error *error);

/* Reads the first bytes of a file, at most `most`; out->n_bytes were read. */
DPT_CHECK_RESULT dpt_status dpti_file_read_first(const char *path, size_t most, dpti_content *out,
                                                 dpt_error *error);

/* The parts of reading, for kept_file.h.  Opens a regular file for reading, and describes it.
   Errors: DPT_E_NOT_FOUND, DPT_E_IO. */
DPT_CHECK_RESULT dpt_status dpti_file_open(const char *path, int *fd, struct stat *info,
                                           dpt_error *error);
/* Errors: DPT_E_FORMAT with EFBIG if a file has more than max_bytes. */
DPT_CHECK_RESULT dpt_status dpti_file_check_size(const char *path, size_t n_bytes, size_t max_bytes,
                                                 dpt_error *error);
/* Allocates memory for a file's content; the caller frees out->bytes.  Errors: DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_file_take_memory(const char *path, size_t n_bytes,
                                                  dpti_content *out, dpt_error *error);

/* Returns whether two descriptions are of one file or folder. */
static inline bool dpti_same_file(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* A file that is being replaced.  Data are written to a temporary file in the same folder.  Commit
   moves the temporary file into place (fsync, rename, fsync of the folder).  Symbolic links are
   followed.  A path that is not a regular file (/dev/stdout, a pipe that has a reader) is written
   directly. */
typedef struct dpti_new_file {
    const char *name; /* the caller's path, for messages; must stay valid until commit or discard */
    char *path;
    char *temporary; /* NULL: the path is written directly */
    int fd;
} dpti_new_file;

/* Errors: DPT_E_IO with the reason why the path cannot be written.  After success the caller must
   call commit or discard. */
DPT_CHECK_RESULT dpt_status dpti_new_file_create(const char *path, dpti_new_file *out,
                                                 dpt_error *error);
/* Checks whether a path can be written, as far as that can be known in advance.  Changes nothing.
   Errors: DPT_E_IO. */
DPT_CHECK_RESULT dpt_status dpti_new_file_check(const char *path, dpt_error *error);
DPT_CHECK_RESULT dpt_status dpti_new_file_write(dpti_new_file *file, const void *bytes,
                                                size_t n_bytes, dpt_error *error);
/* Commits.  After success and after failure the temporary file is gone and `file` is released. */
DPT_CHECK_RESULT dpt_status dpti_new_file_commit(dpti_new_file *file, dpt_error *error);
/* Removes the temporary file.  The old file does not change. */
void dpti_new_file_discard(dpti_new_file *file);

#endif
