/* Single-launch steps (single_launch.h): enqueued, and left alone until the next step is enqueued
   behind.

   A value that is not finite stops such a step by the replica's halt word.  The halt word stays
   set, so a step that is under way behind changes nothing either.  The driver thread clears the
   halt word for the next step that is submitted after the failure was collected.  A call that fails
   when the training state may be changed in part, or when the outcome cannot be read, makes the
   replica stale. */
#include "train/compute/single_launch.h"

#include "base/clock.h"
#include "base/times.h"
#include "device/buffer.h"
#include "device/stream.h"
#include "graph/call.h"
#include "graph/loss.h"
#include "train/components/membership.h"
#include "train/compute/shard.h"
#include "train/feeding/feeding.h"
#include "train/membership/presence.h"
#include "train/replicas/state_parts.h"
#include "train/state/in_flight_step.h"
#include "train/state/trainer.h"

#include <math.h>

enum { LOOKS = 3 };

bool dpti_may_use_single_launch(const dpti_worker *worker)
{
    const dpt_trainer *t = worker->trainer;
    return !t->processes && t->accumulate == 1 && !t->program.deterministic &&
           !dpti_model_calls(t->model) && !dpti_loss_is_own(t->program.loss) &&
           !dpti_has_micro_batches(worker) && worker->device->throttle == 1.0 &&
           !dpti_state_parts_on(t) && !dpti_host_pointer(&worker->replica.parameters);
}

/* ---- Marks ----------------------------------------------------------------------------------- */

dpt_status dpti_single_launch_create(dpti_worker *worker)
{
    for (size_t i = 0; i < DPTI_STEP_SLOTS; i++) {
        dpti_marks *m = &worker->compute.single.marks[i];
        DPT_TRY(dpti_event_create(worker->device, &m->moving));
        DPT_TRY(dpti_event_create(worker->device, &m->start));
        DPT_TRY(dpti_event_create(worker->device, &m->end));
        DPT_TRY(dpti_event_create(worker->device, &m->passed));
    }
    return DPT_OK;
}

static void destroy_marks(dpti_worker *worker)
{
    for (size_t i = 0; i < DPTI_STEP_SLOTS; i++) {
        dpti_marks *m = &worker->compute.single.marks[i];
        dpti_event_destroy(worker->device, &m->passed);
        dpti_event_destroy(worker->device, &m->end);
        dpti_event_destroy(worker->device, &m->start);
        dpti_event_destroy(worker->device, &m->moving);
    }
    worker->compute.single.last_end = NULL;
}

void dpti_single_launch_destroy(dpti_worker *worker)
{
    dpti_executable_destroy(&worker->compute.single.alone);
    destroy_marks(worker);
    worker->compute.single.program = NULL;
    worker->compute.single.alone_state = DPTI_ALONE_NOT_MADE;
    worker->compute.driver.left &= ~(unsigned)DPTI_LEFT_HALT_WORD;
}

void dpti_single_launch_use_train(dpti_worker *worker)
{
    worker->compute.single.program = &worker->train;
}

dpti_single_launch *dpti_single_launch_of(dpti_worker *worker)
{
    return &worker->compute.single;
}

static const dpti_marks *marks_of(const dpti_shard *shard)
{
    return &shard->worker->compute.single.marks[shard->step % DPTI_STEP_SLOTS];
}

/* ---- Enqueuing ------------------------------------------------------------------------------- */

static dpt_status upload(const dpti_shard *shard)
{
    dpti_worker *w = shard->worker;
    const dpti_marks *m = marks_of(shard);
    if (w->compute.single.last_end == m->end)
        w->compute.single.last_end = NULL; /* after a checkpoint was loaded */
    if (w->compute.driver.left & DPTI_LEFT_HALT_WORD)
        DPT_TRY(dpti_fill(&w->replica.halt, 0, 0, sizeof(float)));
    w->compute.driver.left &= ~(unsigned)DPTI_LEFT_HALT_WORD;
    DPT_TRY(dpti_worker_clean(w));
    DPT_TRY(dpti_event_record(w->device, m->moving));
    DPT_TRY(dpti_worker_upload(w, shard->staging, 0, shard->n_samples));
    DPT_TRY(dpti_feeding_upload(shard, 0, shard->n_samples));
    return dpti_event_record(w->device, m->start);
}

/* Where the halt word is downloaded to: behind the results. */
static float *halt_of(const dpti_shard *shard)
{
    return shard->result + 2 * shard->n_samples;
}

static dpt_status download_results(const dpti_shard *shard)
{
    const dpti_worker *w = shard->worker;
    DPT_TRY(dpti_executable_result(w->compute.single.program, shard->n_samples, shard->result));
    return dpti_download(halt_of(shard), &w->replica.halt, 0, sizeof(float));
}

static dpt_status download(const dpti_shard *shard)
{
    dpti_worker *w = shard->worker;
    const dpti_marks *m = marks_of(shard);
    DPT_TRY(dpti_event_record(w->device, m->end));
    DPT_TRY(download_results(shard));
    DPT_TRY(dpti_event_record(w->device, m->passed));
    /* While the device computes. */
    return dpti_executable_record(w->compute.single.program, 0, shard->n_samples, NULL);
}

/* ---- Finishing ------------------------------------------------------------------------------- */

/* The device's durations, on the host's clock.  If the host saw the step end, the step ended now.
   Otherwise the step ended when the step before it ended plus the time between both ends by the
   device's clock, which may run at another pace than the host's, but not before the step was
   enqueued. */
static dpt_status take_times(dpti_shard *shard, double enqueued, bool was_there)
{
    dpti_worker *w = shard->worker;
    const dpti_marks *m = marks_of(shard);
    double busy = 0, moved = 0, since = 0, ended = dpti_seconds();
    DPT_TRY(dpti_event_elapsed(w->device, m->start, m->end, &busy));
    DPT_TRY(dpti_event_elapsed(w->device, m->moving, m->start, &moved));
    if (w->compute.single.last_end) {
        DPT_TRY(dpti_event_elapsed(w->device, w->compute.single.last_end, m->end, &since));
        if (!was_there) ended = fmin(ended, fmax(w->compute.single.ended + since, enqueued));
    }
    w->compute.single.last_end = m->end;
    w->compute.single.ended = ended;
    shard->finished = ended;
    dpti_times_add(&shard->times, DPTI_SPAN_UPLOAD, ended - busy - moved, moved);
    dpti_times_add(&shard->times, DPTI_SPAN_COMPUTE, ended - busy, busy);
    return DPT_OK;
}

/* Whether the step's results are in host memory, the halt word among them.  If their download was
   enqueued, they are as of the end of the step; otherwise they are read as they are now.  It is
   tried several times: without the results the replica cannot be trusted, and a device may be short
   of memory for a moment. */
static bool look(const dpti_shard *shard, bool enqueued)
{
    const dpti_worker *w = shard->worker;
    for (size_t i = 0; i < LOOKS; i++) {
        if (dpti_sync(w->device) != DPT_OK) continue;
        if (enqueued) return true;
        if (download_results(shard) == DPT_OK && dpti_sync(w->device) == DPT_OK) return true;
    }
    return false;
}

/* Whether a step before this one has failed.  The halt word was set by that step, or the outcome of
   that step is not known. */
static bool is_behind_failure(const dpti_shard *shard)
{
    const dpti_worker *w = shard->worker;
    const size_t halted_step = w->compute.driver.halted_step;
    return halted_step > 0 && shard->step > halted_step;
}

/* Ends a step that is committed.  If the device was short of memory behind the step, only the
   step's times are incomplete. */
static void commit(dpti_shard *shard, dpt_status status)
{
    shard->first_run = shard->first_run || status == DPT_E_NO_MEMORY;
    dpti_shard_commit(shard, status == DPT_E_NO_MEMORY ? DPT_OK : status);
}

/* A call has failed behind the step's own work.  The step may be complete all the same, and then it
   is committed.  If its results cannot be read its outcome is not known.  `enqueued`: the download
   of the results was enqueued; if not, what is read now may be another step's result. */
static void recover(dpti_shard *shard, dpt_status status, bool enqueued)
{
    dpti_worker *w = shard->worker;
    const dpt_error first = w->device->base.error;
    const bool known = look(shard, enqueued);
    w->device->base.error = first;
    shard->under_way = false;
    shard->finished = dpti_seconds();
    if (known && *halt_of(shard) == 0.0f && !is_behind_failure(shard)) {
        const dpt_status added = dpti_shard_add_results(shard);
        commit(shard, added == DPT_OK ? status : added);
        return;
    }
    if (!known) dpti_change_replica(w, DPTI_REPLICA_MISS);
    dpti_shard_fail(shard, status);
}

/* was_there: the host has seen the step end. */
static void finish(dpti_shard *shard, bool was_there)
{
    const dpti_worker *w = shard->worker;
    const double enqueued = shard->finished; /* so far */
    dpt_status status = dpti_event_sync(w->device, marks_of(shard)->passed);
    shard->finished = dpti_seconds();
    if (status != DPT_OK) {
        recover(shard, status, true);
        return;
    }
    shard->under_way = false;
    if (is_behind_failure(shard)) return;
    status = dpti_shard_add_results(shard);
    if (status == DPT_OK && *halt_of(shard) != 0.0f)
        status = dpti_shard_not_finite(shard, "gradients");
    if (status == DPT_OK)
        commit(shard, take_times(shard, enqueued, was_there));
    else
        dpti_shard_fail(shard, status);
}

void dpti_single_launch_finish(dpti_device *device, void *argument)
{
    dpti_shard *shard = argument;
    bool passed = false;
    const dpt_status status = dpti_event_query(device, marks_of(shard)->passed, &passed);
    if (status == DPT_OK)
        finish(shard, !passed);
    else
        recover(shard, status, true);
}

static dpt_status run(dpti_shard *shard)
{
    dpti_worker *w = shard->worker;
    DPT_TRY(upload(shard));
    shard->under_way = true;
    DPT_TRY(dpti_executable_run(w->compute.single.program, 0, shard->n_samples, NULL));
    shard->first_run = w->compute.single.program->first_run;
    return DPT_OK;
}

void dpti_single_launch_begin(dpti_shard *shard)
{
    dpti_worker *w = shard->worker;
    bool passed = false;
    w->compute.single.program->touched = false;
    dpt_status status = run(shard);
    if (status != DPT_OK) {
        if (w->compute.single.program->touched) dpti_change_replica(w, DPTI_REPLICA_MISS);
        shard->under_way = false;
        dpti_shard_fail(shard, status);
        return;
    }
    status = download(shard);
    if (status == DPT_OK) status = dpti_event_query(w->device, marks_of(shard)->passed, &passed);
    if (status != DPT_OK)
        recover(shard, status, false);
    else if (passed)
        finish(shard, true);
}
