/* What must be the same in all processes that train together: options and data, by name and value,
   so that the first one that differs can be named. */
#ifndef DPTI_HEADER_CHECK_H
#define DPTI_HEADER_CHECK_H

#include "train/trainer.h"

/* All processes call each of these alike, and get the same result: DPT_E_INVALID names what
   differs, both values and a process that has the other one.  Where there is one process nothing is
   looked at. */

/* A trainer's: model, data, and all of its options, resolved, that its steps depend on. */
DPT_CHECK_RESULT dpt_status dpti_header_check_trainer(dpt_trainer *trainer,
                                                      const dpt_trainer_options *options);
/* A course's: its limits, schedule, what it is tested and validated on, whether it resumes. */
DPT_CHECK_RESULT dpt_status dpti_header_check_course(dpt_trainer *trainer,
                                                     const dpt_fit_options *options);

/* Of 8 bytes at a time, from `sum` on: for equality among friends, and as fast as memory. */
uint64_t dpti_checksum(uint64_t sum, const void *data, size_t n_bytes);

#endif
