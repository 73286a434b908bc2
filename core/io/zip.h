/* The list of files in a zip file, and the places of their bytes.
   https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT describes zip files. */
#ifndef DPTI_ZIP_H
#define DPTI_ZIP_H

#include "base/bytes.h"
#include "dpt_error.h"

/* How the bytes of a file are packed. */
enum { DPTI_ZIP_STORED = 0, DPTI_ZIP_DEFLATED = 8 };

/* A zip file.  Messages about a damaged one end with the advice, such as "write it again with
   numpy.savez". */
typedef struct dpti_zip_source {
    const dpti_file_bytes *file;
    const char *advice;
} dpti_zip_source;

/* A file within the zip file. */
typedef struct dpti_zip_entry {
    const dpti_zip_source *source;
    const char *label; /* for messages; NULL: not yet known */
    const char *name;  /* name_length characters, not terminated */
    size_t name_length;
    unsigned flags, method;
    uint32_t crc;                 /* of the unpacked bytes */
    uint64_t packed, size, local; /* bytes, and the place of the local header */
} dpti_zip_entry;

/* The list of the files: entries [at, end) are left. */
typedef struct dpti_zip_list {
    const dpti_zip_source *source;
    size_t at, end;
} dpti_zip_list;

/* Finds the list.  `source` must stay valid.  Errors: DPT_E_FORMAT. */
DPT_CHECK_RESULT dpt_status dpti_zip_open(const dpti_zip_source *source, dpti_zip_list *out,
                                          dpt_error *error);
/* Reads the next entry; some must be left.  Errors: DPT_E_FORMAT. */
DPT_CHECK_RESULT dpt_status dpti_zip_next(dpti_zip_list *list, dpti_zip_entry *out,
                                          dpt_error *error);
/* Finds the packed bytes of a file, of which `packed` are within the zip file.  Sizes are possible
   for the method.  The label must be set.  Errors: DPT_E_FORMAT; also for an encrypted file, or one
   that is packed by another method than the two above. */
DPT_CHECK_RESULT dpt_status dpti_zip_place(const dpti_zip_entry *entry, size_t *first,
                                           dpt_error *error);

#endif
