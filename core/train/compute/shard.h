/* What a driver thread does with a shard in any kind of step: uploading it, and ending it. */
#ifndef DPTI_SHARD_H
#define DPTI_SHARD_H

#include "train/state/in_flight_step.h"

typedef struct dpti_worker dpti_worker;

/* Adds up downloaded losses and hits.  DPT_E_NOT_FINITE if the loss is not finite. */
DPT_CHECK_RESULT dpt_status dpti_shard_add_results(dpti_shard *shard);
/* DPT_E_NOT_FINITE, and records what is not finite: a constant word such as "loss". */
dpt_status dpti_shard_not_finite(dpti_shard *shard, const char *flaw);
/* Ends a shard whose step is committed; status: of the update. */
void dpti_shard_commit(dpti_shard *shard, dpt_status status);
/* Ends a shard that has failed before the commit.  Its worker skips the steps in flight behind. */
void dpti_shard_fail(dpti_shard *shard, dpt_status status);
/* Makes gradients zero that a failed step has left. */
DPT_CHECK_RESULT dpt_status dpti_worker_clean(dpti_worker *worker);
/* Nothing in flight: the worker does not skip steps any more. */
void dpti_worker_go_on(dpti_worker *worker);
/* [driver] Enqueues the upload of the step block and of the indices of samples [first, first +
   n_samples) of the shard that staging memory holds. */
DPT_CHECK_RESULT dpt_status dpti_worker_upload(dpti_worker *worker, const uint8_t *staging,
                                               size_t first, size_t n_samples);

#endif
