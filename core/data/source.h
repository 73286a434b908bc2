/* A run of bytes that is read from front to back: a file or memory, gzipped or not.  Decompresses
   straight into the reader's memory, so that nothing large exists twice. */
#ifndef DPTI_SOURCE_H
#define DPTI_SOURCE_H

#include "backend.h"

typedef struct dpti_source dpti_source;

/* gzip is told by the content.  DPT_E_NOT_FOUND, DPT_E_IO, DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_source_open(const char *path, dpti_source **out, dpt_error *error);
/* Takes no copy.  `name` stands in messages; both stay valid until close. */
DPT_CHECK_RESULT dpt_status dpti_source_memory(const char *name, const uint8_t *bytes,
                                               size_t n_bytes, dpti_source **out, dpt_error *error);
/* Accepts NULL. */
void dpti_source_close(dpti_source *source);

/* The most bytes that the whole source can give: its size, or what deflate can make of it. */
size_t dpti_source_limit(const dpti_source *source);

/* Up to n_bytes; fewer only at the end.  DPT_E_FORMAT for a corrupt or truncated gzip stream. */
DPT_CHECK_RESULT dpt_status dpti_source_read(dpti_source *source, void *to, size_t n_bytes,
                                             size_t *n_read, dpt_error *error);
/* Checks that everything has been read: DPT_E_FORMAT if bytes follow, before or after the end of
   the gzip stream, or if its checksum is wrong. */
DPT_CHECK_RESULT dpt_status dpti_source_end(dpti_source *source, dpt_error *error);

#endif
