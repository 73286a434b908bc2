/* Files that are written during training.  They are opened without waiting, locked, and written in
   whole events.  Writing to a pipe without a reader raises no signal. */
#ifndef DPTI_OUTPUT_H
#define DPTI_OUTPUT_H

#include "dpt_error.h"

#include <sys/types.h>

/* Linux transfers at most about this many bytes in one call.  A larger request is no error, but
   has no advantage. */
#define DPTI_MAX_TRANSFER ((size_t)1 << 30)

/* Opens a file for writing without waiting for a pipe's reader: without a reader the result is -1
   and ENXIO.  Later writes may block as usual. */
int dpti_open_for_writing(const char *path, int flags);
/* Calls write(2) until everything is written.  Returns 0 or an error number.  A pipe without a
   reader gives EPIPE and no SIGPIPE, whatever the process's handler of that signal is; the handler
   does not change. */
DPT_CHECK_RESULT int dpti_write_all(int fd, const void *bytes, size_t n_bytes);
/* Records "cannot write WHATPATH: ..." and what to do.  Returns DPT_E_NO_MEMORY for ENOMEM, else
   DPT_E_IO. */
dpt_status dpti_fail_write(dpt_error *error, const char *what, const char *path, int code);

typedef struct dpti_output {
    const char *what; /* text before the path in messages, such as "the log " */
    char *path;
    int fd;
    off_t n_written; /* bytes in the file, counted from the cut */
} dpti_output;

/* Opens a file; creates it if it is missing and otherwise keeps its content.  A regular file is
   locked for this process until it is closed.  Errors: DPT_E_STATE if another process, or another
   training of this process, holds the lock; DPT_E_IO, with ENXIO for a pipe that has no reader
   yet. */
DPT_CHECK_RESULT dpt_status dpti_output_open(const char *what, const char *path, dpti_output *out,
                                             dpt_error *error);
/* Keeps the first n_bytes; writing continues behind them.  Does nothing for a file that is not
   regular. */
DPT_CHECK_RESULT dpt_status dpti_output_cut(dpti_output *output, size_t n_bytes, dpt_error *error);
/* After a failure the file has the same end as before the call, if that is possible. */
DPT_CHECK_RESULT dpt_status dpti_output_write(dpti_output *output, const void *bytes,
                                              size_t n_bytes, dpt_error *error);
/* Errors: DPT_E_IO if the file system reports only now that there was no space; an earlier failure
   is reported instead. */
dpt_status dpti_output_close(dpti_output *output, dpt_error *error);

#endif
