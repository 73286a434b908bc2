/* Laying out a step and posting its jobs, when every concern is ready for it (steps.c). */
#ifndef DPTI_SUBMIT_H
#define DPTI_SUBMIT_H

#include "train/state/in_flight_step.h"

typedef struct dpt_trainer dpt_trainer;

/* Draws the next step's batch, divides it, reads its images, lays out every device's shard, and
   posts the shards.  The context tells a failure, after which the step is not in flight. */
DPT_CHECK_RESULT dpt_status dpti_submit_step(dpt_trainer *trainer, float lr);

#endif
