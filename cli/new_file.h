/* A text file that is replaced as a whole: nobody ever sees half of it. */
#ifndef DPTRAIN_CLI_NEW_FILE_H
#define DPTRAIN_CLI_NEW_FILE_H

#include "cli.h"

/* Whether the file could be written, without changing what is there.  CLI_OK, or CLI_FAILURE after
   one line on stderr. */
DPT_CHECK_RESULT int cli_new_file_check(const char *path);
/* Writes it, with a new line at its end.  Links are followed, and what is no regular file is
   written to directly; a pipe that nobody reads then is a failure.  After a failure the old one is
   as it was. */
DPT_CHECK_RESULT int cli_new_file_write(const char *path, const char *text);

#endif
