/* Gradients that are not finite are found before the training state changes, and the device that
   they come from is named.

   Where devices sum on the host, the sum is checked while it is in the cache; only if it is not
   finite is each device's part checked.  Over processes each part is checked before the vote
   (collective/allreduce.h).  A device that sums with no other device checks its own gradients.  So
   does a device in an island, where the host sees no parts, before it contributes each.  The
   program of a single-launch step contains a check (graph/program.h,
   `single_launch`). */
#ifndef DPTI_FINITE_H
#define DPTI_FINITE_H

#include "train/state/in_flight_step.h"

typedef struct dpt_trainer dpt_trainer;
typedef struct dpti_worker dpti_worker;

/* [driver] Makes a worker's check of all its gradients; destroys that and its checks in islands
   (exchange/looks.h). */
DPT_CHECK_RESULT dpt_status dpti_worker_create_finite(dpti_worker *worker);
void dpti_worker_destroy_finite(dpti_worker *worker);
size_t dpti_worker_finite_bytes(const dpti_worker *worker); /* of device memory */

/* [driver] Enqueues the check that this device makes itself behind a segment of training, if it
   makes one.  Behind a sync: whether all that was checked is finite. */
DPT_CHECK_RESULT dpt_status dpti_worker_look(const dpti_worker *worker, size_t segment);
bool dpti_worker_saw_finite(const dpti_worker *worker, size_t segment);

/* Records, of a step in which a device has met DPT_E_NOT_FINITE, what was not finite, and where: it
   is the training's fault if it was so on every device, else the fault of those named, each with an
   event.  All processes say the same.  Returns DPT_E_NOT_FINITE. */
dpt_status dpti_trainer_fail_not_finite(dpt_trainer *trainer, dpti_in_flight_step *inflight);
/* Writes to *error what was not finite in a step, from 1, and what to do.  Returns
 * DPT_E_NOT_FINITE.
 */
dpt_status dpti_trainer_diverges(dpt_error *error, const char *flaw, size_t step, float lr);

#endif
