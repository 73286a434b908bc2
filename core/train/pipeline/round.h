/* The beginning and the end of a round of local steps, on the devices of this process
   (rounds/rounds.h).  dpt_trainer_end_round is defined in round.c. */
#ifndef DPTI_ROUND_H
#define DPTI_ROUND_H

#include "train/state/in_flight_step.h"

typedef struct dpt_trainer dpt_trainer;

/* Nothing in flight, before a step: begins a round if local steps are used and none is open. */
DPT_CHECK_RESULT dpt_status dpti_round_begin(dpt_trainer *trainer);
/* A step was collected, whose metrics are *out.  If it is the last of its round, the round ends:
   all processes exchange what has changed, and the time of that is added to the step's. */
DPT_CHECK_RESULT dpt_status dpti_round_note(dpt_trainer *trainer,
                                            const dpti_in_flight_step *inflight,
                                            dpt_step_metrics *out);
/* Nothing in flight: ends the round if one is open.  All processes call it alike.  After a failure
   no replica holds the training state any more, because processes may have different ones. */
DPT_CHECK_RESULT dpt_status dpti_round_end(dpt_trainer *trainer);

#endif
