/* Submitting, collecting and retrying steps.  dpt_trainer_submit, dpt_trainer_collect and
   dpt_trainer_step are defined in steps.c. */
#ifndef DPTI_STEPS_H
#define DPTI_STEPS_H

#include "dptrain.h"

/* Nothing in flight: where training has gone back it retries the steps since.  Given to
   dpti_steps_set_catch_up, by which other concerns call it. */
DPT_CHECK_RESULT dpt_status dpti_steps_catch_up(dpt_trainer *trainer);
/* When a step is retried, the steps in flight behind it are submitted again.  If submitting one of
   them fails, dpt_trainer_submit tries it again later.  After this call it does not. */
void dpti_trainer_forget_unsubmitted(dpt_trainer *trainer);

#endif
