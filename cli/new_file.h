/* Writes a text file so that a reader sees the old or the new content, and never a part. */
#ifndef DPTRAIN_CLI_NEW_FILE_H
#define DPTRAIN_CLI_NEW_FILE_H

#include "cli.h"

/* Whether two paths name one file, which is there. */
bool cli_is_same_file(const char *a, const char *b);
/* Checks that the file can be written, without changing it.  Returns CLI_OK, or CLI_FAILURE after
   one line on stderr. */
DPT_CHECK_RESULT int cli_new_file_check(const char *path);
/* Replaces the file's content by `text` and a newline.  Links are followed.  A file that is not
   regular is written directly, and a pipe without a reader is an error.  After an error the old
   content is unchanged.  Returns CLI_OK, or CLI_FAILURE after one line on stderr. */
DPT_CHECK_RESULT int cli_new_file_write(const char *path, const char *text);

#endif
