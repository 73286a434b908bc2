/* The run header check: options and data that must be the same in all processes that train together
   are compared by name and value, so that the first one that differs can be named. */
#ifndef DPTI_HEADER_CHECK_H
#define DPTI_HEADER_CHECK_H

#include "dptrain.h"

/* The parts of the header, in the order in which processes that come are told them. */
typedef enum dpti_header_part { DPTI_HEADER_TRAINER, DPTI_HEADER_COURSE } dpti_header_part;

/* All processes call each of these alike, and get the same result: DPT_E_INVALID names what
   differs, both values and a process that has the other one.  With one process nothing is compared.
 */

/* Of a trainer: model, data, and all of its resolved options that its steps depend on. */
DPT_CHECK_RESULT dpt_status dpti_header_check_trainer(dpt_trainer *trainer,
                                                      const dpt_trainer_options *options);
/* Of dpt_fit: its limits, its schedule, what it is tested and validated on, whether it resumes. */
DPT_CHECK_RESULT dpt_status dpti_header_check_course(dpt_trainer *trainer,
                                                     const dpt_fit_options *options);
/* This process has come to a job: compares the same, of resolved options, with what the job has
   told (collective/arrivals.h).  It makes the call alone.  DPT_E_INVALID names what differs. */
DPT_CHECK_RESULT dpt_status dpti_header_compare(const dpt_model *model, const dpt_dataset *data,
                                                const dpt_trainer_options *trainer,
                                                const dpt_fit_options *fit);

#endif
