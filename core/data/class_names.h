/* Lists of the names of classes, each in one block of memory. */
#ifndef DPTI_CLASS_NAMES_H
#define DPTI_CLASS_NAMES_H

#include "base/bytes.h"
#include "dpt_error.h"

/* Returns `n` pointers to copies of the names, which are behind them in the same block; NULL if
   there is no memory.  The caller frees the block. */
const char **dpti_class_names_copy(const char *const *names, size_t n);
/* Does the same for the numbers first, first + 1, ..., as text. */
const char **dpti_class_names_count(size_t first, size_t n);
/* Does the same for the lines of a text.  There must be `n`; a line may end with a carriage return,
   and empty lines at the end do not count.  Errors: DPT_E_FORMAT, whose message names the file, for
   another number of lines, and for a line that is empty or not printable UTF-8; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_class_names_parse(const dpti_file_bytes *file, size_t n,
                                                   const char ***out, dpt_error *error);

#endif
