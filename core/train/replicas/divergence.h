/* Replica divergence, decided on the caller's thread, with nothing in flight (verify.h finds it).
 */
#ifndef DPTI_DIVERGENCE_H
#define DPTI_DIVERGENCE_H

#include "train/state/in_flight_step.h"

typedef struct dpt_trainer dpt_trainer;

/* Whether a step was given up because replicas differ. */
bool dpti_verify_failed(const dpt_trainer *trainer, const dpti_in_flight_step *inflight);
/* Marks the replicas that differ from the good ones as stale, with an event for each: nothing in
   flight.  Good are those of the largest number of replicas that are alike; of equal numbers the
   first ones, in the order of devices, that hold finite numbers only.  A replica of another backend
   than theirs is left as it is if it is like them within rounding.  DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_verify_settle(dpt_trainer *trainer,
                                               const dpti_in_flight_step *inflight);

#endif
