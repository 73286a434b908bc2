/* Replica divergence.  Every N steps each driver thread hashes the training state of its replica,
   before it computes anything with it, and all driver threads compare the hashes.  If they differ
   no device goes on.  The caller's thread, with nothing in flight, decides which replicas are good,
   and the step is retried when the others have been restored from these (state.c).  So nothing that
   a damaged replica would have computed reaches the others, if it was damaged since the last
   comparison. */
#ifndef DPTI_VERIFY_H
#define DPTI_VERIFY_H

#include "train/state/in_flight_step.h"

typedef struct dpt_trainer dpt_trainer;
typedef struct dpti_worker dpti_worker;

/* Where driver threads meet to compare, if replicas are compared every `every` > 0 steps.
   DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_verify_begin(dpt_trainer *trainer, size_t every);
void dpti_verify_end(dpt_trainer *trainer);
/* Whether a worker takes part in comparisons. */
void dpti_verify_set_present(dpt_trainer *trainer, size_t rank, bool present);
/* A device does not answer: turns every thread away that waits for it, until mend. */
void dpti_verify_break(dpt_trainer *trainer);
void dpti_verify_mend(dpt_trainer *trainer);

/* [driver] Host memory for what is downloaded: none where the host sees the replica's memory. */
DPT_CHECK_RESULT dpt_status dpti_verify_create(dpti_worker *worker);
void dpti_verify_destroy(dpti_worker *worker); /* [driver] */

/* [driver] Called by all devices at the beginning of a step.  *mine is this device's status so far,
   and becomes the failure of its own transfers.  DPT_OK: go on.  DPT_E_CANCELLED: replicas differ
   (shard->diverged), or another device has failed. */
DPT_CHECK_RESULT dpt_status dpti_verify_run(dpti_shard *shard, dpt_status *mine);

#endif
