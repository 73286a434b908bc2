/* Replica divergence, decided on the caller's thread, with nothing in flight (verify.h finds it).
 */
#ifndef DPTI_DIVERGENCE_H
#define DPTI_DIVERGENCE_H

#include "train/state/in_flight_step.h"

typedef struct dpt_trainer dpt_trainer;

/* Whether a step was given up because replicas differ. */
bool dpti_verify_failed(const dpt_trainer *trainer, const dpti_in_flight_step *inflight);
/* Nothing in flight: marks the replicas that differ from the good ones as stale, with an event for
   each.  The good replicas are the largest group of replicas that are alike.  Of groups of the same
   size it is the first, in the order of devices, that holds finite numbers only.  A replica of
   another backend than theirs is left as it is if it is like them within rounding. DPT_E_NO_MEMORY.
 */
DPT_CHECK_RESULT dpt_status dpti_verify_settle(dpt_trainer *trainer,
                                               const dpti_in_flight_step *inflight);

#endif
