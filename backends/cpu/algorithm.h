/* The names that algorithm= of a device string and $DPTRAIN_CPU_ALGORITHM may begin. */
#ifndef DPT_CPU_ALGORITHM_H
#define DPT_CPU_ALGORITHM_H

#include "backend.h"

/* Checks that `text` is the beginning of an algorithm's name.  DPT_E_INVALID if it is not; the
   message begins with `source`, as "algorithm=", and lists the names. */
DPT_CHECK_RESULT dpt_status dpt_cpu_check_algorithm(const char *source, const char *text,
                                                    dpt_error *error);

#endif
