/* Replicas that drift apart: every N steps each driver hashes what lasts of its replica, before it
   computes anything with it, and all compare.  If they are not alike nobody goes on; the caller's
   thread, with nothing in flight, decides which of them are good, and the step is done again when
   the others have been restored from these (state.c).  So nothing that a damaged replica would have
   computed reaches the others, if it was damaged since the last comparison. */
#ifndef DPTI_VERIFY_H
#define DPTI_VERIFY_H

#include "dpt_types.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dpti_worker;
struct dpti_share;
struct dpti_in_flight_step;
typedef struct dpt_trainer dpt_trainer;

/* [driver] Memory for what is downloaded: none where the replica lies in host memory. */
DPT_CHECK_RESULT dpt_status dpti_verify_create(struct dpti_worker *worker);
void dpti_verify_destroy(struct dpti_worker *worker); /* [driver] */

/* [driver] Called by all devices at the beginning of a step.  *mine is this device's status so far,
   and becomes the failure of its own transfers.  DPT_OK: go on.  DPT_E_CANCELLED: replicas differ
   (share->astray), or another device has failed. */
DPT_CHECK_RESULT dpt_status dpti_verify_run(struct dpti_share *share, dpt_status *mine);

/* Whether a step was given up because replicas differ. */
bool dpti_verify_failed(const dpt_trainer *trainer, const struct dpti_in_flight_step *inflight);
/* Marks those that differ from the good ones as stale, with an event for each: nothing in flight.
   Good are those of the largest number of replicas that are alike; of equal numbers the first ones,
   in the order of devices, that hold finite numbers only.  A replica of another backend than theirs
   is left as it is if it is that within rounding. */
DPT_CHECK_RESULT dpt_status dpti_verify_settle(dpt_trainer *trainer,
                                               const struct dpti_in_flight_step *inflight);

#endif
