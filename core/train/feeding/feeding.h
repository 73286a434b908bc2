/* How samples reach the devices: their order, their copies in device memory, and host feeds. */
#ifndef DPTI_FEEDING_H
#define DPTI_FEEDING_H

#include "train/components/data_store.h"
#include "train/components/feed.h"
#include "train/state/in_flight_step.h"

typedef struct dpt_trainer dpt_trainer;
typedef struct dpti_worker dpti_worker;

/* Makes the order of samples and the batch reader.  DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_feeding_create(dpt_trainer *trainer);
/* Copies the training data to the devices' memories, where these hold the data.  The context tells
   a failure, which names the device. */
DPT_CHECK_RESULT dpt_status dpti_feeding_place(dpt_trainer *trainer);
void dpti_feeding_destroy(dpt_trainer *trainer);
/* Where data are placed: on the devices that are not absent (n_workers; NULL: none is). */
dpti_placing dpti_trainer_placing(dpt_trainer *trainer, const bool *absent);

/* ---- Order ----------------------------------------------------------------------------------- */

/* The records of the batch at the cursor; valid until the next call. */
const uint32_t *dpti_feeding_batch(dpt_trainer *trainer, const dpti_cursor *cursor,
                                   size_t *n_samples);
/* The cursor behind that batch. */
dpti_cursor dpti_feeding_behind(const dpt_trainer *trainer, dpti_cursor cursor);

/* ---- Copies of the training data ------------------------------------------------------------- */

/* The copies of all devices. */
dpti_data_store *dpti_feeding_store(dpt_trainer *trainer);
/* The copy that a worker's device uses, resident or not. */
dpti_data_copy *dpti_feeding_copy_of(const dpti_worker *worker);
/* A device is in a call that may never return: the data that it reads stay. */
void dpti_feeding_leave(dpt_trainer *trainer, size_t rank);

/* ---- Host feeds ------------------------------------------------------------------------------ */

/* Whether samples are to be sent to this worker's device: it has samples, and does not hold the
   data. */
bool dpti_is_fed(const dpti_worker *worker);
/* [driver] Makes the host feed, if the worker needs one, for `most` samples at once. */
DPT_CHECK_RESULT dpt_status dpti_feeding_create_feed(dpti_worker *worker, size_t most);
void dpti_feeding_destroy_feed(dpti_worker *worker); /* [driver] */
/* The worker's host feed; zeroed if it was not made.  And: whether it was made. */
const dpti_feed *dpti_feeding_feed(const dpti_worker *worker);
bool dpti_feeding_has_feed(const dpti_worker *worker);
/* Gathers the samples of a step for the devices that do not hold the data, from shards whose
   indices are laid out.  A step without images is computed by no device of this process, since the
   memory that the devices would read may never have been written. */
void dpti_feeding_gather(dpt_trainer *trainer, dpti_in_flight_step *inflight);
/* [driver] Enqueues the upload of samples [first, first + n) of a shard; nothing without a feed. */
DPT_CHECK_RESULT dpt_status dpti_feeding_upload(const dpti_shard *shard, size_t first, size_t n);

#endif
