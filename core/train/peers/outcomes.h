/* What came of each step, told between processes. */
#ifndef DPTI_OUTCOMES_H
#define DPTI_OUTCOMES_H

#include "train/state/in_flight_step.h"

typedef struct dpt_trainer dpt_trainer;

/* [driver] Behind a device's part of a step: when all driver threads of this process have done
   theirs, the first one tells the other processes, and fills in the step's outcomes. */
void dpti_peers_finish(dpti_shard *shard);
/* The same with local steps, where driver threads do not wait for other processes: the caller's
   thread tells, when it collects the step and its devices have done their parts. */
void dpti_peers_finish_collected(dpt_trainer *trainer, dpti_in_flight_step *inflight);
/* All processes end a round early: tells that this one does, as it would tell of a step, and fails
   in all of them if another one has taken a step instead, or is behind another step. DPT_E_INVALID;
   fails as the transport does. */
DPT_CHECK_RESULT dpt_status dpti_peers_meet_at_end(dpt_trainer *trainer);
/* With one process: fills in a step's outcomes. */
void dpti_peers_take(const dpt_trainer *trainer, dpti_in_flight_step *inflight);
/* Takes over what processes ask for with a step that is collected. */
void dpti_peers_take_requests(dpt_trainer *trainer, const dpti_in_flight_step *inflight);
/* Records in the context the failure of another process's device, or of the transport, or that
   processes took different steps, which were told as one.  DPT_OK if there is none.
   DPT_E_NOT_FINITE is not recorded: dpti_trainer_fail_not_finite does. */
DPT_CHECK_RESULT dpt_status dpti_peers_report(dpt_trainer *trainer, dpti_in_flight_step *inflight);
/* Whether what has failed is the reading of images, in any process: the weights are what they were.
 */
bool dpti_peers_could_not_read(const dpt_trainer *trainer, const dpti_in_flight_step *inflight);

#endif
