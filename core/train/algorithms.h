/* The algorithms that devices took, in checkpoints: where they are measured the next process may
   measure otherwise, and a training that goes on has the same bits only by the same ones. */
#ifndef DPTI_ALGORITHMS_H
#define DPTI_ALGORITHMS_H

#include "train/run_state.h"

typedef struct dpt_trainer dpt_trainer;

/* Those of all devices, into a state that has none; nothing where there are several processes.
   false without memory. */
DPT_CHECK_RESULT bool dpti_algorithms_note(const dpt_trainer *trainer, dpti_run_state *state);
/* Devices that are what the state's were take the same, but those that cannot be had any more; for
   that all are prepared anew, where there is a difference.  As many devices as then, in one
   process, and nothing in flight; a replay has its own.  Fails as dpti_trainer_rebuild does. */
DPT_CHECK_RESULT dpt_status dpti_algorithms_resume(dpt_trainer *trainer,
                                                   const dpti_run_state *state);

#endif
