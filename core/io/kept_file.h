/* A file that stays open, so that a part of it can be read when it is needed.  A network has the
   weights of its file in this way, and takes no memory for them. */
#ifndef DPTI_KEPT_FILE_H
#define DPTI_KEPT_FILE_H

#include "base/bytes.h"
#include "dpt_error.h"

typedef struct dpti_kept_file dpti_kept_file;

/* Opens a regular file.  The caller releases *out.  Errors: DPT_E_NOT_FOUND, DPT_E_IO,
   DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_kept_file_open(const char *path, dpti_kept_file **out,
                                                dpt_error *error);
/* Keeps a regular file that the caller has opened, under the name `path` for messages; the file is
   closed if this fails, too.  Errors: DPT_E_IO, DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_kept_file_take(int fd, const char *path, dpti_kept_file **out,
                                                dpt_error *error);
/* Counts one more user, who releases the file, too.  Any thread may call it. */
dpti_kept_file *dpti_kept_file_share(dpti_kept_file *file);
/* The last user's call closes the file.  NULL is allowed.  Any thread may call it. */
void dpti_kept_file_release(dpti_kept_file *file);

/* The size in bytes when the file was opened, and its name. */
size_t dpti_kept_file_size(const dpti_kept_file *file);
const char *dpti_kept_file_path(const dpti_kept_file *file);
/* Reads all of it.  The caller frees out->bytes.  Errors: DPT_E_FORMAT with EFBIG if the file has
   more than max_bytes; DPT_E_NO_MEMORY; as dpti_file_part_read. */
DPT_CHECK_RESULT dpt_status dpti_kept_file_read(dpti_kept_file *file, size_t max_bytes,
                                                dpti_content *out, dpt_error *error);

/* A part of a file: n_bytes bytes from `offset` on. */
typedef struct dpti_file_part {
    dpti_kept_file *file; /* NULL: there is no part */
    size_t offset, n_bytes;
    uint32_t crc; /* CRC-32 of the bytes, for dpti_file_part_check */
} dpti_file_part;

/* Reads a whole part.  Several threads may read one file at a time.  Errors: DPT_E_IO, also if the
   file has been written since it was opened, as far as its size and its time tell. */
DPT_CHECK_RESULT dpt_status dpti_file_part_read(const dpti_file_part *part, void *to,
                                                dpt_error *error);
/* Compares the CRC-32 of all that was read of a part, piece by piece, with the part's `crc`.
   Errors: DPT_E_IO if they differ, because the file has been written. */
DPT_CHECK_RESULT dpt_status dpti_file_part_check(const dpti_file_part *part, uint32_t crc,
                                                 dpt_error *error);

#endif
