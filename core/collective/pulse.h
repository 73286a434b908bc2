/* The pulse of this process: a thread that notices that the process stood still for so long that
   the other processes have left it behind, as after a signal that stops it, and ends it then. */
#ifndef DPTI_PULSE_H
#define DPTI_PULSE_H

#include "dpt_error.h"

#include <stddef.h>

typedef struct dpti_pulse dpti_pulse;

/* From now on, this process ends with status 1 and a line on stderr once it goes on after it stood
   still for more than `limit` seconds.  It changes no file after that (base/fence.h).  `rank` is
   for the line.  There is one pulse at a time.  DPT_E_NO_MEMORY, DPT_E_INTERNAL. */
DPT_CHECK_RESULT dpt_status dpti_pulse_start(double limit, size_t rank, dpti_pulse **out,
                                             dpt_error *error);
void dpti_pulse_stop(dpti_pulse *pulse); /* accepts NULL */

#endif
