/* What the helper process (child.h) prints: the driver's own words, for messages. */
#ifndef DPT_OPENCL_PRINTED_H
#define DPT_OPENCL_PRINTED_H

#include "backend.h"

enum { DPT_CL_PRINTED_BYTES = 16384 };

/* The end of what was printed.  The pipe does not block. */
typedef struct dpt_cl_printed {
    int fd; /* the read end of the pipe; -1: nobody writes any more */
    size_t n;
    char text[DPT_CL_PRINTED_BYTES + 1]; /* (n) and a NUL */
} dpt_cl_printed;

/* Reads what is in the pipe, without waiting. */
void dpt_cl_printed_read(dpt_cl_printed *printed);
/* Returns the part that explains a failure: it begins with the first line that has a word of
   failures ("error", "abort"), or else `most` characters before the end.  Trailing white space is
   removed from the text. */
const char *dpt_cl_printed_part(dpt_cl_printed *printed, size_t most);

#endif
