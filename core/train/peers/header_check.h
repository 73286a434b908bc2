/* The run header check: options and data that must be the same in all processes that train together
   are compared by name and value, so that the first one that differs can be named. */
#ifndef DPTI_HEADER_CHECK_H
#define DPTI_HEADER_CHECK_H

#include "dptrain.h"

/* All processes call each of these alike, and get the same result: DPT_E_INVALID names what
   differs, both values and a process that has the other one.  With one process nothing is compared.
 */

/* Of a trainer: model, data, and all of its resolved options that its steps depend on. */
DPT_CHECK_RESULT dpt_status dpti_header_check_trainer(dpt_trainer *trainer,
                                                      const dpt_trainer_options *options);
/* Of dpt_fit: its limits, its schedule, what it is tested and validated on, whether it resumes. */
DPT_CHECK_RESULT dpt_status dpti_header_check_course(dpt_trainer *trainer,
                                                     const dpt_fit_options *options);

#endif
