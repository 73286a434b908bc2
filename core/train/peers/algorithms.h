/* The algorithms that devices took, of other processes' devices too.  They are in logs and in
   checkpoints: where they are measured the next process may measure otherwise, and a training that
   goes on has the same bits only by the same ones. */
#ifndef DPTI_ALGORITHMS_H
#define DPTI_ALGORITHMS_H

#include "checkpoint/run_state.h"

typedef struct dpt_trainer dpt_trainer;

/* All processes tell each other how they fare (`mine`), and which algorithms their devices have:
   when these have been prepared, and before anybody writes them down.  Where there is one process
   that is all there is to it. */
DPT_CHECK_RESULT dpt_status dpti_algorithms_gather(dpt_trainer *trainer, dpt_status mine);
void dpti_algorithms_free(dpt_trainer *trainer); /* what was gathered */
/* Those of a device of any process, to be freed; none of one that is lost. */
DPT_CHECK_RESULT dpt_status dpti_algorithms_of(const dpt_trainer *trainer, size_t device,
                                               dpti_recorded_choices *out);

/* Those of all devices, into a state that has none.  false without memory. */
DPT_CHECK_RESULT bool dpti_algorithms_note(const dpt_trainer *trainer, dpti_run_state *state);
/* Devices that are what the state's were take the same, but those that cannot be had any more; for
   that all are prepared anew, where there is a difference.  As many devices as then, in whatever
   processes, and nothing in flight; a replay has its own.  All processes call it, each with how it
   fares (`mine`): one that has failed brings no state.  Fails as dpti_trainer_rebuild does. */
DPT_CHECK_RESULT dpt_status dpti_algorithms_resume(dpt_trainer *trainer, dpt_status mine,
                                                   const dpti_run_state *state);

#endif
