/* The whole content of a file, gzipped or not, in one block of memory.  Does not interpret the
   content. */
#ifndef DPTI_SOURCE_H
#define DPTI_SOURCE_H

#include "base/bytes.h"
#include "dpt_error.h"

/* Reads a regular file and decompresses it if it is gzip (RFC 1952, one member), which the content
   tells, not the name.  Allocates memory for the file, and for the decompressed size that the file
   states.  That size is at most what deflate can produce, and less than 4 GiB unless the content
   is larger.  Errors: DPT_E_NOT_FOUND; DPT_E_IO; DPT_E_NO_MEMORY; DPT_E_FORMAT if the gzip data
   are corrupt or truncated, or are followed by other bytes or another member. */
DPT_CHECK_RESULT dpt_status dpti_source_read(const char *path, dpti_content *out, dpt_error *error);
/* Does the same for a file in memory, which the caller keeps; `name` is used in messages. */
DPT_CHECK_RESULT dpt_status dpti_source_copy(const dpti_file_bytes *file, dpti_content *out,
                                             dpt_error *error);

#endif
