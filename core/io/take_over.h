/* Taking over a file that another process has open. */
#ifndef DPTI_TAKE_OVER_H
#define DPTI_TAKE_OVER_H

#include "dpt_error.h"

/* If a process that is left behind (base/fence.h) holds the lock of a regular file: replaces the
   file by a copy, so that what that process still writes goes to a file without a name.  Errors:
   DPT_E_IO, DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_take_over(const char *what, const char *path, dpt_error *error);

#endif
