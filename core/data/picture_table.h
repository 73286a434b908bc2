/* Tables of pictures: files that name pictures and their labels. */
#ifndef DPTI_PICTURE_TABLE_H
#define DPTI_PICTURE_TABLE_H

#include "base/bytes.h"
#include "data/find.h"
#include "data/listing.h"
#include "dpt_error.h"

/* The rows of one part. */
typedef struct dpti_picture_rows {
    size_t count, capacity;
    char **paths; /* owned, as all that follow; relative to the table's folder, or absolute */
    char **labels;
    size_t *lines;    /* of the file, from 1 */
    const char *part; /* of a table with a column "split": "train", "test" or "val"; else NULL */
    bool unlabelled;  /* the table has no column of labels: there are no rows */
} dpti_picture_rows;

/* What is read of a table. */
typedef struct dpti_picture_columns {
    const char *path;  /* a column, or a text with a column in braces: images/{id}.jpg; NULL: the
                          file is a list of lines with a path, white space and a label */
    const char *label; /* a column */
    dpt_part part;     /* of the rows of a table with a column "split" */
} dpti_picture_columns;

/* Reads a table with a header line (csv.h), or a list.  A column "split" says of each row whether
   it is of "train", "test", or "val", "valid" or "validation".  Without rows of "test" those of
   "val" are the test part, and without both those of "train".  Errors: DPT_E_FORMAT, whose message
   names the file and the line; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_picture_rows_parse(const dpti_file_bytes *file,
                                                    const dpti_picture_columns *columns,
                                                    dpti_picture_rows *out, dpt_error *error);
/* Accepts a zeroed struct. */
void dpti_picture_rows_free(dpti_picture_rows *rows);

/* The pictures of a part. */
typedef struct dpti_picture_list {
    char *table;  /* the file that was read, and the part of it; owned, as all that follow */
    char *folder; /* of that file */
    dpti_listing classes; /* names in the order of the classes: of the training part */
    dpti_listing files;   /* paths, in the order of the file */
    size_t *labels;       /* (files.count) */
} dpti_picture_list;

/* Reads "FILE:PATH:LABEL" or "FILE" of the name of a data set, for a part of it.  FILE is relative
   to request->directory if that is given.  The test part is the rows of the column "split", or the
   file whose name has "test" or "val" in place of the last "train", if it has labels, or the
   training part.  If all labels of the training part are integers from 0 to DPTI_MAX_CLASSES - 1,
   they are the classes, from 0 to the largest.  Otherwise the classes are the labels, sorted by
   their bytes.  Errors: those of files; DPT_E_INVALID for a wrong text; DPT_E_FORMAT, whose message
   names the file and the line; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_picture_list_read(const dpti_data_request *request,
                                                   const char *text, dpti_picture_list *out,
                                                   dpt_error *error);
/* Accepts a zeroed struct. */
void dpti_picture_list_free(dpti_picture_list *list);

#endif
