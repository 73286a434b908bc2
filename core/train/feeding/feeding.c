/* Order, copies and feeds of a trainer's samples (feeding.h). */
#include "train/feeding/feeding.h"

#include "context/context.h"
#include "device/buffer.h"
#include "device/driver.h"
#include "train/components/data_store.h"
#include "train/components/feed.h"
#include "train/components/order.h"
#include "train/feeding/batch_reader.h"
#include "train/membership/deadline.h"
#include "train/membership/presence.h"
#include "train/state/in_flight_step.h"
#include "train/state/trainer.h"

/* ---- The trainer's part ---------------------------------------------------------------------- */

dpt_status dpti_feeding_create(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    if (!dpti_order_create(t->data,
                           &(dpti_order_options){dpti_step_samples(t), t->seed, t->shuffle},
                           &t->feeding.order))
        return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for a trainer");
    return dpti_batch_reader_create(t);
}

static bool place(void *user, size_t device, dpti_job *job, void *argument)
{
    return dpti_trainer_prepare(user, device, job, argument);
}

dpti_placing dpti_trainer_placing(dpt_trainer *trainer, const bool *absent)
{
    return (dpti_placing){
        .devices = trainer->devices, .absent = absent, .call = place, .user = trainer};
}

dpt_status dpti_feeding_place(dpt_trainer *trainer)
{
    dpti_data_store_failure failure = {0};
    const dpti_placing where = dpti_trainer_placing(trainer, NULL);
    if (dpti_data_store_create(&where, trainer->data, &trainer->feeding.store, &failure) == DPT_OK)
        return DPT_OK;
    return dpti_context_fail(trainer->context, NULL, &failure.error);
}

void dpti_feeding_destroy(dpt_trainer *trainer)
{
    dpti_data_store_destroy(&trainer->feeding.store);
    dpti_batch_reader_destroy(trainer);
    dpti_order_free(&trainer->feeding.order);
}

/* ---- Order ----------------------------------------------------------------------------------- */

const uint32_t *dpti_feeding_batch(dpt_trainer *trainer, const dpti_cursor *cursor,
                                   size_t *n_samples)
{
    return dpti_order_batch(&trainer->feeding.order, cursor, n_samples);
}

dpti_cursor dpti_feeding_behind(const dpt_trainer *trainer, dpti_cursor cursor)
{
    return dpti_order_next(&trainer->feeding.order, cursor);
}

/* ---- Copies of the training data ------------------------------------------------------------- */

dpti_data_store *dpti_feeding_store(dpt_trainer *trainer)
{
    return &trainer->feeding.store;
}

dpti_data_copy *dpti_feeding_copy_of(const dpti_worker *worker)
{
    const dpti_data_store *store = &worker->trainer->feeding.store;
    return &store->copies[store->copy_of[worker->rank]];
}

void dpti_feeding_leave(dpt_trainer *trainer, size_t rank)
{
    dpti_dataset_leave(trainer->data);
    dpti_data_store_leave(&trainer->feeding.store, rank);
}

/* ---- Host feeds ------------------------------------------------------------------------------ */

bool dpti_is_fed(const dpti_worker *worker)
{
    return !dpti_data_resident(dpti_feeding_copy_of(worker)) && worker->capacity > 0;
}

dpt_status dpti_feeding_create_feed(dpti_worker *worker, size_t most)
{
    const dpt_trainer *t = worker->trainer;
    const dpti_feed_options options = {.data = t->data,
                                       .loss = t->program.loss,
                                       .capacity = most,
                                       .host_capacity = worker->capacity * t->accumulate,
                                       .n_slots = DPTI_FEED_SLOTS,
                                       .with_partners = dpti_mixes(&t->program)};
    if (!dpti_is_fed(worker)) return DPT_OK;
    return dpti_feed_create(worker->device, &options, &worker->feeding.feed);
}

void dpti_feeding_destroy_feed(dpti_worker *worker)
{
    dpti_feed_destroy(&worker->feeding.feed);
}

const dpti_feed *dpti_feeding_feed(const dpti_worker *worker)
{
    return &worker->feeding.feed;
}

bool dpti_feeding_has_feed(const dpti_worker *worker)
{
    return worker->feeding.feed.device != NULL;
}

void dpti_feeding_gather(dpt_trainer *trainer, dpti_in_flight_step *inflight)
{
    const dpti_records_at from = {.data = trainer->data,
                                  .ahead = trainer->feeding.reader.ahead,
                                  .key = dpti_batch_reader_key(trainer, &inflight->cursor)};
    const bool unread = inflight->unread.status != DPT_OK;
    for (size_t i = 0; i < trainer->n_workers; i++) {
        const dpti_worker *w = &trainer->workers[i];
        dpti_shard *shard = &inflight->jobs[i];
        if (dpti_sits_out(w)) continue;
        shard->unread = unread ? &inflight->unread : NULL;
        if (!dpti_feeding_has_feed(w) || unread) continue;
        dpti_feed_gather(
            &w->feeding.feed, &from, shard->slot,
            (dpti_records){.indices = dpti_shard_indices(shard), .n = shard->n_samples});
        if (dpti_mixes(&trainer->program))
            dpti_feed_gather(&w->feeding.feed, &from, shard->slot,
                             (dpti_records){.indices = dpti_shard_partners(shard),
                                            .n = shard->n_samples,
                                            .partners = true});
    }
}

/* Uploads the record numbers of the partners of these samples, and what was drawn for them. */
static dpt_status upload_mix(const dpti_shard *shard, size_t first, size_t n)
{
    const dpti_replica *r = &shard->worker->replica;
    const size_t elements = dpti_mix_elements(&shard->worker->trainer->program);
    if (n == 0) return DPT_OK;
    DPT_TRY(dpti_upload(&r->step, dpti_step_partners_offset(r->capacity),
                        dpti_shard_partners(shard) + first, n * sizeof(uint32_t)));
    return dpti_upload(&r->step, dpti_step_mix_offset(r->capacity),
                       dpti_shard_mix(shard) + first * elements, n * elements * sizeof(float));
}

dpt_status dpti_feeding_upload(const dpti_shard *shard, size_t first, size_t n)
{
    const dpti_worker *w = shard->worker;
    const dpt_dataset *data = w->trainer->data;
    dpti_feed_range range = {.slot = shard->slot, .first = first, .n = n};
    DPT_TRY(dpti_feed_upload(&w->feeding.feed, data, range));
    if (!dpti_mixes(&w->trainer->program)) return DPT_OK;
    range.partners = true;
    DPT_TRY(dpti_feed_upload(&w->feeding.feed, data, range));
    return upload_mix(shard, first, n);
}
