/* What is written while training runs: opened without waiting, locked, written whole events at a
   time.  And how anything of ours is written: no signal comes of a pipe that nobody reads. */
#ifndef DPTI_OUTPUT_H
#define DPTI_OUTPUT_H

#include "backend.h"

#include <sys/types.h>

/* Linux transfers at most about this much in one call; asking for more is no error but pointless.
 */
#define DPTI_MAX_TRANSFER ((size_t)1 << 30)

/* `open` for writing that does not wait for the reader of a pipe: without one it is -1 and ENXIO.
   Writing waits as always. */
int dpti_open_for_writing(const char *path, int flags);
/* write(2) until all is written; 0, or an error number.  A pipe that nobody reads any more is EPIPE
   and no SIGPIPE, whatever the process does with that signal, which stays as it is. */
DPT_CHECK_RESULT int dpti_write_all(int fd, const void *bytes, size_t n_bytes);
/* "cannot write WHATPATH: ..." and what to do; DPT_E_NO_MEMORY of ENOMEM, else DPT_E_IO. */
dpt_status dpti_fail_write(dpt_error *error, const char *what, const char *path, int code);

typedef struct dpti_output {
    const char *what; /* before the path in messages: "the log " */
    char *path;
    int fd;
    off_t n_written; /* what the file has, from cut on */
} dpti_output;

/* Opens a file, which is made if it is not there and stays as it is otherwise.  A regular file is
   held for this process until it is closed: DPT_E_STATE if another one, or another training of this
   one, holds it.  DPT_E_IO, with ENXIO of a pipe that nobody reads yet. */
DPT_CHECK_RESULT dpt_status dpti_output_open(const char *what, const char *path, dpti_output *out,
                                             dpt_error *error);
/* Keeps the first n_bytes, behind which it goes on.  No regular file has any to cut. */
DPT_CHECK_RESULT dpt_status dpti_output_cut(dpti_output *output, size_t n_bytes, dpt_error *error);
/* After a failure the file ends, where that can be, as it did before. */
DPT_CHECK_RESULT dpt_status dpti_output_write(dpti_output *output, const void *bytes,
                                              size_t n_bytes, dpt_error *error);
/* DPT_E_IO where a file system tells only now that there was no room; behind another failure that
   one counts. */
dpt_status dpti_output_close(dpti_output *output, dpt_error *error);

#endif
