/* Compares two run logs. */
#ifndef DPTI_COMPARE_H
#define DPTI_COMPARE_H

#include "base/bytes.h"
#include "dpt_error.h"
#include "dptrain.h"

/* Compares the texts of two logs; their names are used in messages.  Results and errors as of
   dpt_compare_logs. */
DPT_CHECK_RESULT dpt_status dpti_compare_logs(const dpti_file_bytes logs[2],
                                              dpt_log_comparison *out, dpt_error *error);

#endif
