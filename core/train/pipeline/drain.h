/* Waiting for steps in flight, and dropping them. */
#ifndef DPTI_DRAIN_H
#define DPTI_DRAIN_H

#include "train/state/in_flight_step.h"

typedef struct dpt_trainer dpt_trainer;

/* Waits for everything in flight and forgets it: the next step is the first that is not committed.
 */
void dpti_trainer_drain(dpt_trainer *trainer);
/* Waits until every shard of a step is over.  A device that hangs at it has failed. */
void dpti_steps_wait_for(dpt_trainer *trainer, dpti_in_flight_step *inflight);
/* Whether the step is committed.  The vote is unanimous, but a device that did not answer may not
   have heard of it. */
bool dpti_steps_committed(const dpt_trainer *trainer, const dpti_in_flight_step *inflight);

#endif
