/* Reading images ahead of steps (batch_reader.h): of all samples of a batch or, with several
   processes, of those of this process's devices, as far as shards can be foreseen. */
#include "train/feeding/batch_reader.h"
#include "context/context.h"

#include "base/clock.h"
#include "base/memory.h"
#include "train/components/order.h"
#include "train/plan/shards.h"
#include "train/state/in_flight_step.h"
#include "train/state/trainer.h"

#include <stdlib.h>
#include <string.h>

enum {
    STEPS_AHEAD = 3,
    KEPT = DPTI_MAX_IN_FLIGHT + 1, /* steps that may be retried, and the step that is asked for */
    LEAST_PART =
        8, /* the part of the machine's memory that images of more steps may take: one in so many */
};

static size_t count_ahead(const dpt_trainer *t)
{
    const size_t step_bytes = dpti_step_samples(t) * dpti_dataset_read_bytes(t->data);
    const size_t fit = dpti_machine_memory() / LEAST_PART / step_bytes;
    return fit >= STEPS_AHEAD + KEPT ? STEPS_AHEAD : 1;
}

dpt_status dpti_batch_reader_create(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    dpti_batch_reader *s = &t->feeding.reader;
    if (!t->data->reader) return DPT_OK;
    s->steps_ahead = count_ahead(t);
    const dpti_image_use use = {.seed = t->seed,
                                .least_area = (double)t->program.augment.resized_crop};
    s->ahead = dpti_ahead_create(t->data, s->steps_ahead + KEPT, &use);
    s->records = calloc(dpti_step_samples(t) + t->accumulate, sizeof *s->records);
    if (s->ahead && s->records &&
        dpti_order_create(t->data, &(dpti_order_options){dpti_step_samples(t), t->seed, t->shuffle},
                          &s->order))
        return DPT_OK;
    return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory to read images");
}

void dpti_batch_reader_destroy(dpt_trainer *trainer)
{
    dpti_batch_reader *reader = &trainer->feeding.reader;
    dpti_order_free(&reader->order);
    free(reader->records);
    dpti_ahead_destroy(reader->ahead);
    *reader = (dpti_batch_reader){.ahead = NULL};
}

dpti_balance_reason dpti_batch_reader_reason(const dpt_trainer *trainer)
{
    return trainer->feeding.reader.reason;
}

void dpti_batch_reader_note_reason(dpt_trainer *trainer, dpti_balance_reason reason)
{
    trainer->feeding.reader.reason = reason;
}

uint64_t dpti_batch_reader_key(const dpt_trainer *trainer, const dpti_cursor *cursor)
{
    return (uint64_t)cursor->epoch * trainer->data->count + cursor->position;
}

/* Lists those of a step's records that are of this process's devices, with the shards of this step.
   Returns how many there are. */
static size_t list_own(const dpt_trainer *t, const dpti_in_flight_step *inflight,
                       const uint32_t *records, uint32_t *own)
{
    const size_t n_samples = inflight->n_samples;
    size_t rows[DPTI_SPLIT_MAX_DEVICES], n_own = 0;
    for (size_t b = 0; b < dpti_trainer_n_batches(t, n_samples); b++) {
        const uint32_t *batch = records + b * t->batch_size;
        size_t first = 0, n = 0;
        dpti_trainer_batch_rows(t, &(dpti_step_batch){inflight->shards, n_samples, b}, rows);
        for (size_t i = 0; i < t->first_device; i++)
            first += rows[i];
        for (size_t i = 0; i < t->n_workers; i++)
            n += rows[t->first_device + i];
        memcpy(own + n_own, batch + first, n * sizeof *own);
        n_own += n;
        /* The partner of the last sample is of another process, or is here twice. */
        const size_t left = n_samples - b * t->batch_size;
        const size_t whole = left < t->batch_size ? left : t->batch_size;
        if (dpti_mixes(&t->program) && n > 0 && n < whole)
            own[n_own++] = batch[(first + n) % whole];
    }
    return n_own;
}

/* Begins to read the images of a coming step, as if it had the shards of this one.  With one
   process all images are read. */
static void begin(dpt_trainer *t, const dpti_in_flight_step *inflight, const dpti_cursor *cursor)
{
    dpti_batch_reader *s = &t->feeding.reader;
    const uint64_t key = dpti_batch_reader_key(t, cursor);
    size_t n_samples;
    if (dpti_ahead_has(s->ahead, key)) return;
    const uint32_t *records = dpti_order_batch(&s->order, cursor, &n_samples);
    if (!t->processes) {
        dpti_ahead_begin(
            s->ahead, &(dpti_ahead_run){
                          .key = key, .epoch = cursor->epoch, .records = records, .n = n_samples});
        return;
    }
    if (n_samples != inflight->n_samples) return;
    const size_t n = list_own(t, inflight, records, s->records);
    dpti_ahead_begin(
        s->ahead,
        &(dpti_ahead_run){.key = key, .epoch = cursor->epoch, .records = s->records, .n = n});
}

dpt_status dpti_batch_reader_step(dpt_trainer *trainer, dpti_in_flight_step *inflight,
                                  const uint32_t *records)
{
    dpt_trainer *t = trainer;
    dpti_batch_reader *s = &t->feeding.reader;
    const double began = dpti_seconds();
    dpti_cursor coming = inflight->cursor;
    inflight->unread.status = DPT_OK;
    inflight->data_seconds = 0;
    if (!s->ahead) return DPT_OK;
    const uint64_t key = dpti_batch_reader_key(t, &inflight->cursor);
    size_t n = list_own(t, inflight, records, s->records);
    dpti_ahead_begin(
        s->ahead, &(dpti_ahead_run){
                      .key = key, .epoch = inflight->cursor.epoch, .records = s->records, .n = n});
    for (size_t i = 0; i < s->steps_ahead; i++) {
        coming = dpti_order_next(&t->feeding.order, coming);
        begin(t, inflight, &coming);
    }
    n = list_own(t, inflight, records, s->records);
    const dpt_status status = dpti_ahead_wait(
        s->ahead,
        &(dpti_ahead_run){
            .key = key, .epoch = inflight->cursor.epoch, .records = s->records, .n = n},
        &inflight->unread);
    inflight->data_seconds = dpti_seconds() - began;
    if (status == DPT_OK || t->processes) return DPT_OK;
    return dpti_context_fail(t->context, NULL, &inflight->unread);
}
