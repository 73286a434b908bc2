/* The error record: where a function leaves the reason of a failure for its caller.

   This header is below everything that can fail: core, backends (backend.h includes it) and
   transports between processes (collective/transport.h includes it).  It includes no header of
   dptrain but dpt_types.h. */
#ifndef DPT_ERROR_H
#define DPT_ERROR_H

#include "dpt_types.h"

#include <stdarg.h>
#include <stdio.h>

enum { DPT_MESSAGE_BYTES = 512 };

/* The record of a failure.  `message` is one line for a person: what failed, and what to do. */
typedef struct dpt_error {
    dpt_status status;
    long native;      /* the vendor's code, 0 if there is none */
    const char *file; /* where it was raised */
    int line;
    char message[DPT_MESSAGE_BYTES];
} dpt_error;

/* Makes a NUL-terminated text one line, whatever names, paths and drivers have put into it.  White
   space other than a space becomes a space; every other control character becomes a question mark.
   Cannot fail. */
static inline void dpt_one_line(char *text)
{
    for (char *c = text; *c; c++) {
        const unsigned char byte = (unsigned char)*c;
        if (byte >= '\t' && byte <= '\r')
            *c = ' ';
        else if (byte < 0x20 || byte == 0x7f)
            *c = '?';
    }
}

/* Writes the message of a record, as vprintf does, and makes the message one line.  A message that
   is too long is cut.  Cannot fail. */
DPT_PRINTF(2, 0)
static inline void dpt_error_print(dpt_error *error, const char *format, va_list args)
{
    vsnprintf(error->message, sizeof error->message, format, args);
    dpt_one_line(error->message);
}

/* Fills an error record, unless `error` is NULL, and returns `status`.  DPT_FAIL and
   DPT_FAIL_NATIVE call this function.  Cannot fail. */
DPT_PRINTF(6, 7)
static inline dpt_status dpt_error_set(dpt_error *error, dpt_status status, long native,
                                       const char *file, int line, const char *format, ...)
{
    if (error) {
        va_list args;
        va_start(args, format);
        dpt_error_print(error, format, args);
        va_end(args);
        error->status = status;
        error->native = native;
        error->file = file;
        error->line = line;
    }
    return status;
}

/* Fills an error record, unless `error` is NULL, and yields the status.  DPT_FAIL_NATIVE also
   stores the vendor's code.

       return DPT_FAIL(error, DPT_E_FORMAT, "%s: no IDX file (magic %08x)", path, magic); */
#define DPT_FAIL(error, status, ...)                                                               \
    dpt_error_set((error), (status), 0, __FILE__, __LINE__, __VA_ARGS__)
#define DPT_FAIL_NATIVE(error, status, native, ...)                                                \
    dpt_error_set((error), (status), (native), __FILE__, __LINE__, __VA_ARGS__)

#endif
