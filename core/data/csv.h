/* The fields of a text file of comma- or tab-separated values (RFC 4180). */
#ifndef DPTI_DATA_CSV_H
#define DPTI_DATA_CSV_H

#include "base/bytes.h"
#include "dpt_error.h"

enum { DPTI_CSV_FIELD_BYTES = 1024 };

/* A place in the text.  A field ends at a separator, at the end of the line, or at the end of the
   text. */
typedef struct dpti_csv {
    const dpti_file_bytes *file;
    size_t at;
    size_t line; /* from 1; quoted fields may have several lines */
    char separator;
    bool line_ended; /* the last field was the last one of its row */
} dpti_csv;

/* The text of a field, cut off if it is longer. */
typedef struct dpti_csv_field {
    char text[DPTI_CSV_FIELD_BYTES];
    size_t line;
    bool whole; /* it is not cut off, and has no zero byte */
} dpti_csv_field;

/* Returns the place of the first row, behind a byte order mark.  Tabs separate fields if the first
   row has one, and else commas.  The file must live as long as the place is used. */
dpti_csv dpti_csv_begin(const dpti_file_bytes *file);
/* Returns whether there is another row.  Skips empty lines at the end of the file. */
bool dpti_csv_has_row(dpti_csv *csv);
/* Takes a field and what ends it.  Errors: DPT_E_FORMAT, whose message names the file and the
   line. */
DPT_CHECK_RESULT dpt_status dpti_csv_take(dpti_csv *csv, dpti_csv_field *out, dpt_error *error);

#endif
