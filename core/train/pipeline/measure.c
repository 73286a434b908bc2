/* What came of a step (measure.h). */
#include "train/pipeline/measure.h"

#include "train/compute/finite.h"
#include "train/membership/deadline.h"
#include "train/membership/presence.h"
#include "train/peers/outcomes.h"
#include "train/pipeline/drain.h"
#include "train/plan/shards.h"
#include "train/progress/calls.h"
#include "train/progress/in_flight.h"
#include "train/standby/standby.h"
#include "train/state/in_flight_step.h"
#include "train/state/trainer.h"

#include <math.h>

/* ---- Failures -------------------------------------------------------------------------------- */

/* The first failure in device order that is a device's own, and more than lack of memory if there
   is one; NULL: none. */
static const dpti_shard *find_failure(const dpt_trainer *t, const dpti_in_flight_step *inflight)
{
    const dpti_shard *found = NULL;
    for (size_t i = 0; i < t->n_workers; i++) {
        const dpti_shard *shard = &inflight->jobs[i];
        if (shard->status == DPT_OK || shard->status == DPT_E_CANCELLED) continue;
        if (!found || (found->status == DPT_E_NO_MEMORY && shard->status != DPT_E_NO_MEMORY))
            found = shard;
    }
    return found;
}

dpt_status dpti_report_step(dpt_trainer *trainer, dpti_in_flight_step *inflight)
{
    dpt_trainer *t = trainer;
    if (t->processes) {
        const dpt_status status = dpti_peers_report(t, inflight);
        return status == DPT_E_NOT_FINITE ? dpti_trainer_fail_not_finite(t, inflight) : status;
    }
    const dpti_shard *found = find_failure(t, inflight);
    if (found && found->status == DPT_E_NOT_FINITE)
        return dpti_trainer_fail_not_finite(t, inflight);
    if (found) return dpti_trainer_fail(t, found->worker->device, &found->error);
    if (dpti_steps_committed(t, inflight)) return DPT_OK;
    return dpt_fail(t->context, DPT_E_INTERNAL, "no device has done step %zu, and none says why",
                    inflight->cursor.step + 1);
}

/* ---- Times ----------------------------------------------------------------------------------- */

static void take_times(const double *s, dpti_in_flight_step *inflight, size_t device)
{
    const double exchange = s[DPTI_SPAN_UPLOAD] + s[DPTI_SPAN_EXCHANGE];
    inflight->device_seconds[device] = s[DPTI_SPAN_COMPUTE] + exchange;
    inflight->exchange_seconds[device] = exchange;
    inflight->waiting_seconds[device] = s[DPTI_SPAN_WAITING];
}

/* Of any process: the others wait for its devices. */
static double longest_reading(const dpt_trainer *t, const dpti_in_flight_step *inflight)
{
    double longest = 0;
    for (size_t i = 0; i < t->n_devices; i++)
        longest = fmax(longest, inflight->outcomes[i].data_seconds);
    return longest;
}

/* When a step began and ended, and how long it waited for images in between. */
typedef struct step_times {
    double began, finished, waited_for_images;
} step_times;

static step_times find_times(const dpt_trainer *t, const dpti_in_flight_step *inflight)
{
    double finished = 0;
    for (size_t i = 0; i < t->n_workers; i++)
        finished = fmax(finished, inflight->jobs[i].finished);
    const double began = fmax(inflight->submitted, dpti_steps_last_finished(t));
    const double read = inflight->submitted + longest_reading(t, inflight);
    return (step_times){.began = began,
                        .finished = finished,
                        .waited_for_images = fmax(fmin(read - began, finished - began), 0)};
}

/* The sum of the losses of all samples, which does not depend on the shards. */
static double find_exact_loss(const dpt_trainer *t, const dpti_in_flight_step *inflight)
{
    dpti_exact_sum sum = {.n_not_finite = 0};
    for (size_t i = 0; i < t->n_devices; i++)
        dpti_exact_join(&sum, &inflight->outcomes[i].exact_loss);
    return dpti_exact_value(&sum);
}

void dpti_measure_step(dpt_trainer *trainer, dpti_in_flight_step *inflight, dpt_step_metrics *out)
{
    dpt_trainer *t = trainer;
    double loss = 0;
    size_t hits = 0;
    dpti_peers_take(t, inflight);
    dpti_peers_take_requests(t, inflight);
    for (size_t i = 0; i < t->n_devices; i++) {
        loss += inflight->outcomes[i].loss;
        hits += inflight->outcomes[i].hits;
        take_times(inflight->outcomes[i].seconds, inflight, i);
    }
    if (t->program.deterministic) loss = find_exact_loss(t, inflight);
    const step_times times = find_times(t, inflight);
    dpti_steps_set_last_finished(t, times.finished);
    if (dpti_standby_take_time(t))
        dpti_deadline_note_step(t, times.finished - times.began - times.waited_for_images);
    *out = (dpt_step_metrics){
        .size = sizeof(dpt_step_metrics),
        .step = inflight->cursor.step + 1,
        .epoch = inflight->cursor.epoch,
        .last_of_epoch = inflight->last_of_epoch,
        .lr = (double)inflight->lr,
        .samples = inflight->n_samples,
        .loss = loss / inflight->weight,
        .labels = inflight->n_labels,
        .hits = hits,
        .seconds = fmax(times.finished - times.began, 0),
        .data_seconds = times.waited_for_images,
        .n_devices = t->n_devices,
        .shards = inflight->shards,
        .device_seconds = inflight->device_seconds,
        .exchange_seconds = inflight->exchange_seconds,
        .waiting_seconds = inflight->waiting_seconds,
        .rebalance = inflight->reason != DPTI_BALANCE_SAME
                         ? dpti_balance_reason_words(inflight->reason)
                         : NULL,
        .throughput = inflight->throughput,
        .n_lost = dpti_trainer_n_lost(t),
    };
    if (dpti_standby_retries(t).under_way) return;
    dpti_trainer_observe(t, inflight, out->seconds - times.waited_for_images);
    dpti_standby_observe(t, inflight, out->seconds - times.waited_for_images);
}
