/* The whole content of a file, gzipped or not, in one block of memory.  Does not interpret the
   content. */
#ifndef DPTI_SOURCE_H
#define DPTI_SOURCE_H

#include "dpt_error.h"

typedef struct dpti_content {
    uint8_t *bytes; /* aligned to 64 bytes; owned, free() */
    size_t n_bytes;
} dpti_content;

/* Reads a regular file and unpacks it if it is gzip (RFC 1952, one member; told by the content, not
   by the name).  Takes memory for the file itself, and for what it says that is in it: no more than
   deflate could have packed, and less than 4 GiB unless there is more.
   DPT_E_NOT_FOUND, DPT_E_IO, DPT_E_NO_MEMORY; DPT_E_FORMAT if the gzip data are corrupt or
   truncated, or if bytes (or another member) follow behind them. */
DPT_CHECK_RESULT dpt_status dpti_source_read(const char *path, dpti_content *out, dpt_error *error);
/* The same of a file in memory, which stays the caller's; `name` stands in messages. */
DPT_CHECK_RESULT dpt_status dpti_source_copy(const char *name, const uint8_t *file, size_t n_file,
                                             dpti_content *out, dpt_error *error);

#endif
