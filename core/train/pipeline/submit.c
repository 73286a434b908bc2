/* Laying out a step and posting its jobs (submit.h). */
#include "train/pipeline/submit.h"

#include "base/clock.h"
#include "base/floats.h"
#include "base/times.h"
#include "device/driver.h"
#include "train/components/feed.h"
#include "train/components/mix.h"
#include "train/components/outcome.h"
#include "train/compute/step.h"
#include "train/exchange/exchange.h"
#include "train/feeding/batch_reader.h"
#include "train/feeding/feeding.h"
#include "train/membership/presence.h"
#include "train/peers/peers.h"
#include "train/plan/shards.h"
#include "train/progress/in_flight.h"
#include "train/recovery/readmit.h"
#include "train/replicas/state_buffers.h"
#include "train/replicas/weights.h"
#include "train/standby/standby.h"
#include "train/state/in_flight_step.h"
#include "train/state/trainer.h"

#include <math.h>
#include <string.h>

/* ---- Laying out ------------------------------------------------------------------------------ */

/* Adam's corrections of moments that began at zero, in double precision. */
static void set_adam_scales(const dpt_trainer *t, size_t step, dpt_step_block *block)
{
    const dpti_optimizer *o = &t->program.optimizer;
    const size_t updates = step - dpti_state_get_origin(t).optimizer;
    if (o->kind != DPT_OPTIMIZER_ADAMW) return;
    block->adam_scale_m = (float)(1.0 / (1.0 - dpti_power((double)o->beta1, updates)));
    block->adam_scale_v = (float)(1.0 / sqrt(1.0 - dpti_power((double)o->beta2, updates)));
}

/* The shard of a device that takes no part. */
static void clear_shard(dpti_shard *shard)
{
    shard->status = DPT_E_CANCELLED;
    shard->committed = shard->under_way = shard->first_run = false;
    shard->diverged = false;
    shard->n_samples = 0;
    shard->loss = 0;
    shard->exact_loss = (dpti_exact_sum){.n_not_finite = 0};
    shard->hits = 0;
    dpti_times_begin(&shard->times, false);
}

static void find_contributing(const dpt_trainer *t, dpti_in_flight_step *inflight)
{
    const size_t *firsts = dpti_peers_firsts(t);
    for (size_t p = 0; t->processes && p < dpti_processes_count(t->processes); p++) {
        inflight->contributing[p] = false;
        for (size_t i = firsts[p]; i < firsts[p + 1]; i++)
            if (inflight->shards[i] > 0) inflight->contributing[p] = true;
    }
}

/* The records of a batch. */
typedef struct batch {
    const uint32_t *records; /* (n) */
    size_t n;
} batch;

/* Samples [first, first + n) of a batch. */
typedef struct mixed_run {
    batch whole;
    size_t first, n;
} mixed_run;

/* Finds the partners of the samples that a shard gets next, and draws how they are mixed. */
static void mix_samples(const dpt_trainer *t, const dpti_in_flight_step *inflight,
                        dpti_shard *shard, const mixed_run *run)
{
    const size_t elements = dpti_mix_elements(&t->program);
    const dpti_mix_options options = {.mixup = t->program.mixup,
                                      .cutmix = t->program.cutmix,
                                      .height = t->data->height,
                                      .width = t->data->width,
                                      .seed = t->seed};
    for (size_t i = 0; elements > 0 && i < run->n; i++) {
        const size_t at = run->first + i, to = shard->n_samples + i;
        dpti_shard_partners(shard)[to] = run->whole.records[(at + 1) % run->whole.n];
        dpti_mix_draw(&options, inflight->cursor.epoch, run->whole.records[at],
                      dpti_shard_mix(shard) + to * elements);
    }
}

/* Deals out batch b, which has these records: a run of consecutive samples to each device. */
static void deal_batch(dpt_trainer *t, dpti_in_flight_step *inflight, size_t b,
                       const uint32_t *records)
{
    size_t rows[DPTI_SPLIT_MAX_DEVICES];
    const size_t left = inflight->n_samples - b * t->batch_size;
    const batch whole = {records, left < t->batch_size ? left : t->batch_size};
    dpti_trainer_batch_rows(t, &(dpti_step_batch){inflight->shards, inflight->n_samples, b}, rows);
    for (size_t i = 0; i < t->first_device; i++)
        records += rows[i];
    for (size_t i = 0; i < t->n_workers; i++) {
        dpti_shard *shard = &inflight->jobs[i];
        const size_t n = rows[t->first_device + i];
        if (dpti_sits_out(&t->workers[i])) continue;
        if (n > 0)
            memcpy(dpti_shard_indices(shard) + shard->n_samples, records, n * sizeof *records);
        mix_samples(t, inflight, shard,
                    &(const mixed_run){whole, (size_t)(records - whole.records), n});
        shard->of_batch[b] = n;
        shard->n_samples += n;
        shard->n_batches = b + 1;
        records += n;
    }
}

/* The samples of a step over which gradients are a mean: the global batch, or with local steps
   those of this process's devices. */
typedef struct shared_part {
    size_t n_samples, n_labels; /* n_labels: at least 1, since the loss of nothing is 0 */
    double weight;              /* as in dpti_in_flight_step */
} shared_part;

/* Of n samples with these records. */
static shared_part weigh(const dpt_trainer *t, const uint32_t *records, size_t n)
{
    const size_t n_labels = dpti_dataset_count_labels(t->data, records, n);
    shared_part part = {.n_samples = n, .n_labels = n_labels ? n_labels : 1};
    part.weight = (double)part.n_labels;
    if (t->class_weights) {
        part.weight = dpti_dataset_weigh_labels(t->data, records, n, t->class_weights);
        if (part.weight == 0) part.weight = 1;
    }
    return part;
}

/* Of this process's devices. */
static size_t count_own(const dpt_trainer *t, const dpti_in_flight_step *inflight)
{
    size_t n = 0;
    for (size_t i = 0; i < t->n_workers; i++)
        n += inflight->shards[t->first_device + i];
    return n;
}

/* The step block of a shard whose samples begin at `first` of the global batch. */
static dpt_step_block make_block(const dpt_trainer *t, const dpti_in_flight_step *inflight,
                                 const shared_part *shared, size_t first)
{
    dpt_step_block block = {
        .lr = inflight->lr,
        .inv_batch = shared->n_samples > 0 ? 1.0f / (float)shared->n_samples : 0,
        .inv_labels = 1.0f / (float)shared->weight,
        .step = (uint32_t)(inflight->cursor.step + 1),
        .epoch = (uint32_t)inflight->cursor.epoch,
        .seed_low = (uint32_t)t->seed,
        .seed_high = (uint32_t)(t->seed >> 32),
        .first = (uint32_t)first,
    };
    set_adam_scales(t, inflight->cursor.step + 1, &block);
    return block;
}

/* Which grains each process has. */
static void find_borders(const dpt_trainer *t, dpti_in_flight_step *inflight)
{
    const dpti_grains grains = dpti_grains_of(inflight->n_samples);
    const size_t *firsts = dpti_peers_firsts(t);
    size_t n = 0;
    if (!t->program.deterministic || !t->processes) return;
    inflight->grain_borders[0] = 0;
    for (size_t p = 0; p < dpti_processes_count(t->processes); p++) {
        for (size_t i = firsts[p]; i < firsts[p + 1]; i++)
            n += inflight->shards[i];
        inflight->grain_borders[p + 1] = n / grains.size + (n % grains.size != 0);
    }
}

/* Lays out the shards: step blocks, indices, and samples for host feeds. */
static void lay_out(dpt_trainer *t, dpti_in_flight_step *inflight, const uint32_t *records)
{
    size_t first = 0;
    const shared_part whole = weigh(t, records, inflight->n_samples);
    inflight->n_labels = whole.n_labels;
    inflight->weight = whole.weight;
    for (size_t i = 0; i < t->first_device; i++)
        first += inflight->shards[i];
    const shared_part shared =
        t->local_steps > 0 ? weigh(t, records + first, count_own(t, inflight)) : whole;
    for (size_t i = 0; i < t->n_workers; i++) {
        dpti_shard *shard = &inflight->jobs[i];
        shard->committed = shard->under_way = false; /* in case its job never runs */
        shard->step = inflight->cursor.step + 1;
        shard->lr = inflight->lr;
        if (dpti_sits_out(&t->workers[i])) {
            clear_shard(shard);
            continue;
        }
        const dpt_step_block block = make_block(t, inflight, &shared, first);
        shard->n_samples = 0;
        shard->idle = shared.n_samples == 0;
        shard->slot = inflight->cursor.step % DPTI_FEED_SLOTS;
        dpti_stage(shard->staging, &block, NULL, 0);
        shard->grains =
            t->program.deterministic ? dpti_grains_of(inflight->n_samples) : (dpti_grains){.n = 0};
        shard->first_grain = shard->grains.n > 0 ? first / shard->grains.size : 0;
        shard->grain_borders = t->processes ? inflight->grain_borders : NULL;
        first += inflight->shards[t->first_device + i];
    }
    for (size_t b = 0; b < dpti_trainer_n_batches(t, inflight->n_samples); b++)
        deal_batch(t, inflight, b, records + b * t->batch_size);
    dpti_feeding_gather(t, inflight);
}

/* ---- Submitting ------------------------------------------------------------------------------ */

/* Why the step's shards differ from those of the step before.  The balance knows why it changed
   them; a reason of an earlier attempt at this step, of a readmission and of standby go before. */
static dpti_balance_reason find_reason(const dpt_trainer *t, const dpti_in_flight_step *inflight)
{
    const size_t step = inflight->cursor.step + 1;
    const dpti_balance_reason standby = dpti_standby_reason_at(t, step);
    if (standby != DPTI_BALANCE_SAME) return standby;
    if (dpti_readmit_returned_at(t, step)) return DPTI_BALANCE_RETURNED;
    if (inflight->reason != DPTI_BALANCE_SAME) return inflight->reason;
    return dpti_batch_reader_reason(t);
}

/* Waits for the step's images.  If that fails the step is tried again with the same reason. */
static dpt_status read_images(dpt_trainer *t, dpti_in_flight_step *inflight,
                              const uint32_t *records)
{
    dpti_batch_reader_note_reason(t, inflight->reason);
    DPT_TRY(dpti_batch_reader_step(t, inflight, records));
    dpti_batch_reader_note_reason(t, DPTI_BALANCE_SAME);
    return DPT_OK;
}

/* Whether devices may be busy with work that waits for other devices, or makes them wait: the
   step's first run, or opening a device that was lost. */
static bool may_wait(dpt_trainer *t, const dpti_in_flight_step *inflight)
{
    const bool settled = dpti_exchange_is_settled(t, inflight);
    return !settled || dpti_readmit_tries(t);
}

static void post(dpt_trainer *t, dpti_in_flight_step *inflight)
{
    const bool late = may_wait(t, inflight);
    inflight->failure.status = DPT_OK;
    inflight->diverged = false;
    for (size_t i = 0; i < t->n_devices; i++)
        inflight->outcomes[i] = (dpti_outcome){.status = DPT_E_CANCELLED};
    for (size_t i = 0; i < t->n_workers; i++) {
        dpti_worker *w = &t->workers[i];
        dpti_shard *shard = &inflight->jobs[i];
        if (dpti_sits_out(w)) continue;
        shard->late = late;
        dpti_steps_set_last_step_of(t, i, inflight->cursor.step + 1);
        shard->ticket = dpti_driver_post(w->device, dpti_step_job, shard);
    }
    dpti_steps_set_in_flight(t, dpti_steps_n_in_flight(t) + 1);
}

dpt_status dpti_submit_step(dpt_trainer *trainer, float lr)
{
    dpt_trainer *t = trainer;
    const dpti_cursor *next = dpti_steps_next(t);
    dpti_in_flight_step *inflight = dpti_steps_step(t, next->step + 1);
    inflight->cursor = *next;
    DPT_TRY(dpti_peers_begin_step(t, inflight));
    const uint32_t *records = dpti_feeding_batch(t, next, &inflight->n_samples);
    DPT_TRY(dpti_trainer_divide(t, inflight));
    inflight->reason = find_reason(t, inflight);
    inflight->lr = lr;
    inflight->submitted = dpti_seconds();
    DPT_TRY(read_images(t, inflight, records));
    DPT_TRY(dpti_standby_note(t, inflight));
    dpti_steps_set_next(t, dpti_feeding_behind(t, *next));
    inflight->last_of_epoch = next->epoch != inflight->cursor.epoch;
    find_contributing(t, inflight);
    find_borders(t, inflight);
    lay_out(t, inflight, records);
    post(t, inflight);
    return DPT_OK;
}
