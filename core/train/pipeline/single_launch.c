/* Steps that are one piece of work for a device (trainer.h, dpti_may_use_single_launch): enqueued,
   and left alone until the next one is enqueued behind.

   What is not finite stops it by the replica's halt word.  That stays set, so a step that is under
   way behind changes nothing either, until the driver clears it for the next one that is submitted
   after the failure was collected.  A failure of a call with what lasts perhaps half changed, or
   with nobody knowing whether it has, makes the replica stale. */
#include "device/buffer.h"
#include "device/stream.h"
#include "train/trainer.h"

#include "base/clock.h"
#include "dpt_error.h"

#include <math.h>

enum { LOOKS = 3 };

bool dpti_may_use_single_launch(const dpti_worker *worker)
{
    const dpt_trainer *t = worker->trainer;
    return !t->processes && t->accumulate == 1 && !dpti_has_micro_batches(worker) &&
           worker->device->throttle == 1.0 && !dpti_host_pointer(&worker->replica.parameters);
}

/* ---- Marks ----------------------------------------------------------------------------------- */

dpt_status dpti_single_launch_create(dpti_worker *worker)
{
    for (size_t i = 0; i < DPTI_STEP_SLOTS; i++) {
        dpti_marks *m = &worker->marks[i];
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
        dpti_marks *m = &worker->marks[i];
        dpti_event_destroy(worker->device, &m->passed);
        dpti_event_destroy(worker->device, &m->end);
        dpti_event_destroy(worker->device, &m->start);
        dpti_event_destroy(worker->device, &m->moving);
    }
    worker->last_end = NULL;
}

void dpti_single_launch_destroy(dpti_worker *worker)
{
    dpti_executable_destroy(&worker->alone);
    destroy_marks(worker);
    worker->whole = NULL;
    worker->not_alone = worker->halts = false;
}

static const dpti_marks *marks_of(const dpti_share *share)
{
    return &share->worker->marks[share->step % DPTI_STEP_SLOTS];
}

/* ---- A device that is left alone ------------------------------------------------------------- */

/* The others bring nothing to batch-norm's meetings, and then the part is the sum; the slices in
   which gradients are computed stay what they are. */
static dpt_status create_program(dpti_worker *w, dpt_error *error)
{
    dpti_data_places places;
    dpti_program_options options;
    dpti_worker_program(w, &options, &places);
    options.whole = options.exchange_at_end = true;
    options.holds_filters = false;
    options.n_parts = 1;
    DPT_TRY(dpti_single_launch_create(w));
    DPT_TRY(dpti_executable_create(&w->replica, &options, &places, &w->alone, error));
    if (!w->alone.arena.handle) return DPT_OK;
    return DPT_FAIL(error, DPT_E_NO_MEMORY,
                    "they need more memory than their parts do, which may "
                    "be wanted for evaluation");
}

typedef struct alone_job {
    dpti_worker *worker;
    dpt_error error; /* status DPT_OK: it is made */
} alone_job;

static void create_alone(dpti_device *device, void *argument)
{
    alone_job *job = argument;
    const dpt_status status = create_program(job->worker, &job->error);
    if (status == DPT_OK) return;
    if (job->error.status == DPT_OK) job->error = *dpti_device_error(device);
    job->error.status = status;
    dpti_single_launch_destroy(job->worker);
}

/* Without the program steps stay what they were, and that is told; a device that is lost at it is
   lost. */
static dpt_status make_alone(dpt_trainer *t, dpti_worker *w)
{
    alone_job job = {.worker = w};
    if (!dpti_trainer_prepare(t, w->rank, create_alone, &job)) return DPT_E_CANCELLED;
    if (job.error.status == DPT_OK) return DPT_OK;
    if (job.error.status == DPT_E_DEVICE_LOST) {
        DPT_TRY(dpti_trainer_lose_one(t, w->rank, &job.error));
        return DPT_E_CANCELLED;
    }
    w->not_alone = true;
    dpti_trainer_note_event(t, DPT_STEPS_IN_PARTS, t->first_device + w->rank, &job.error);
    return DPT_OK;
}

static dpt_status settle(dpt_trainer *t, dpti_worker *w)
{
    const bool wanted = dpti_is_alone(w) && !w->not_alone && dpti_may_use_single_launch(w);
    if (wanted && !w->alone.replica) DPT_TRY(make_alone(t, w));
    dpti_executable *whole = wanted && w->alone.replica ? &w->alone : NULL;
    if (whole != w->whole) w->last_end = NULL; /* much may have happened since */
    w->whole = whole;
    return DPT_OK;
}

dpt_status dpti_single_launch_settle(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    for (size_t i = 0; t->n_workers > 1 && i < t->n_workers; i++)
        if (!dpti_sits_out(&t->workers[i])) DPT_TRY(settle(t, &t->workers[i]));
    return DPT_OK;
}

/* ---- Enqueuing ------------------------------------------------------------------------------- */

static dpt_status upload(const dpti_share *share)
{
    dpti_worker *w = share->worker;
    const dpti_marks *m = marks_of(share);
    if (w->last_end == m->end) w->last_end = NULL; /* after a checkpoint was loaded */
    if (w->halts) DPT_TRY(dpti_fill(&w->replica.halt, 0, 0, sizeof(float)));
    w->halts = false;
    DPT_TRY(dpti_worker_clean(w));
    DPT_TRY(dpti_event_record(w->device, m->moving));
    DPT_TRY(dpti_worker_upload(w, share->staging, 0, share->n_samples));
    DPT_TRY(dpti_feed_upload(&w->feed, w->trainer->data, share->slot, 0, share->n_samples));
    return dpti_event_record(w->device, m->start);
}

/* Where the halt word is downloaded to: behind the results. */
static float *halt_of(const dpti_share *share)
{
    return share->result + 2 * share->n_samples;
}

static dpt_status download_results(const dpti_share *share)
{
    const dpti_worker *w = share->worker;
    DPT_TRY(dpti_executable_result(w->whole, share->n_samples, share->result));
    return dpti_download(halt_of(share), &w->replica.halt, 0, sizeof(float));
}

static dpt_status download(const dpti_share *share)
{
    dpti_worker *w = share->worker;
    const dpti_marks *m = marks_of(share);
    DPT_TRY(dpti_event_record(w->device, m->end));
    DPT_TRY(download_results(share));
    DPT_TRY(dpti_event_record(w->device, m->passed));
    /* While the device computes. */
    return dpti_executable_record(w->whole, 0, share->n_samples);
}

/* ---- Finishing ------------------------------------------------------------------------------- */

/* The device's durations on the host's clock.  Where the host was there it ended now; else when
   follows from when the one before it did, by the device's clock, which may go at another pace than
   the host's, but not before the step was enqueued. */
static dpt_status take_times(dpti_share *share, double enqueued, bool was_there)
{
    dpti_worker *w = share->worker;
    const dpti_marks *m = marks_of(share);
    double busy = 0, moved = 0, since = 0, ended = dpti_seconds();
    DPT_TRY(dpti_event_elapsed(w->device, m->start, m->end, &busy));
    DPT_TRY(dpti_event_elapsed(w->device, m->moving, m->start, &moved));
    if (w->last_end) {
        DPT_TRY(dpti_event_elapsed(w->device, w->last_end, m->end, &since));
        if (!was_there) ended = fmin(ended, fmax(w->ended + since, enqueued));
    }
    w->last_end = m->end;
    w->ended = ended;
    share->finished = ended;
    dpti_times_add(&share->times, DPTI_SPAN_UPLOAD, ended - busy - moved, moved);
    dpti_times_add(&share->times, DPTI_SPAN_COMPUTE, ended - busy, busy);
    return DPT_OK;
}

/* Whether the step's results are there, the halt word among them: those of when it had passed, if
   they have been enqueued; else as they are now.  Tried more than once: without them weights are
   worth nothing, and a device may be short of memory for a moment. */
static bool look(const dpti_share *share, bool enqueued)
{
    const dpti_worker *w = share->worker;
    for (size_t i = 0; i < LOOKS; i++) {
        if (dpti_sync(w->device) != DPT_OK) continue;
        if (enqueued) return true;
        if (download_results(share) == DPT_OK && dpti_sync(w->device) == DPT_OK) return true;
    }
    return false;
}

/* Whether one before it has failed: the halt word knew of it, or nobody knows what that one was. */
static bool is_behind_failure(const dpti_share *share)
{
    const dpti_worker *w = share->worker;
    return w->halted && share->step > w->halted_step;
}

/* Of a step that counts.  A device that has been short of memory behind it knows no more than the
   times too little. */
static void commit(dpti_share *share, dpt_status status)
{
    share->fresh = share->fresh || status == DPT_E_NO_MEMORY;
    dpti_share_commit(share, status == DPT_E_NO_MEMORY ? DPT_OK : status);
}

/* A call has failed behind what the step is made of.  The step may be well all the same, and then
   it counts; if the device does not tell, nobody knows.  `enqueued`: the download of the results
   has been, and what they are now may be another step's doing. */
static void recover(dpti_share *share, dpt_status status, bool enqueued)
{
    dpti_worker *w = share->worker;
    const dpt_error first = w->device->base.error;
    const bool known = look(share, enqueued);
    w->device->base.error = first;
    share->under_way = false;
    share->finished = dpti_seconds();
    if (known && *halt_of(share) == 0.0f && !is_behind_failure(share)) {
        const dpt_status added = dpti_share_add_results(share);
        commit(share, added == DPT_OK ? status : added);
        return;
    }
    if (!known) dpti_membership_replica(&w->member, DPTI_REPLICA_MISS);
    dpti_share_fail(share, status);
}

/* was_there: the host has seen it end. */
static void finish(dpti_share *share, bool was_there)
{
    const dpti_worker *w = share->worker;
    const double enqueued = share->finished; /* so far */
    dpt_status status = dpti_event_sync(w->device, marks_of(share)->passed);
    share->finished = dpti_seconds();
    if (status != DPT_OK) {
        recover(share, status, true);
        return;
    }
    share->under_way = false;
    if (is_behind_failure(share)) return;
    status = dpti_share_add_results(share);
    if (status == DPT_OK && *halt_of(share) != 0.0f)
        status = dpti_share_not_finite(share, "gradients");
    if (status == DPT_OK)
        commit(share, take_times(share, enqueued, was_there));
    else
        dpti_share_fail(share, status);
}

void dpti_single_launch_finish(dpti_device *device, void *argument)
{
    dpti_share *share = argument;
    bool passed = false;
    const dpt_status status = dpti_event_query(device, marks_of(share)->passed, &passed);
    if (status == DPT_OK)
        finish(share, !passed);
    else
        recover(share, status, true);
}

static dpt_status run(dpti_share *share)
{
    dpti_worker *w = share->worker;
    DPT_TRY(upload(share));
    share->under_way = true;
    DPT_TRY(dpti_executable_run(w->whole, 0, share->n_samples));
    share->fresh = w->whole->fresh;
    return DPT_OK;
}

void dpti_single_launch_begin(dpti_share *share)
{
    dpti_worker *w = share->worker;
    bool passed = false;
    w->whole->touched = false;
    dpt_status status = run(share);
    if (status != DPT_OK) {
        if (w->whole->touched) dpti_membership_replica(&w->member, DPTI_REPLICA_MISS);
        share->under_way = false;
        dpti_share_fail(share, status);
        return;
    }
    status = download(share);
    if (status == DPT_OK) status = dpti_event_query(w->device, marks_of(share)->passed, &passed);
    if (status != DPT_OK)
        recover(share, status, false);
    else if (passed)
        finish(share, true);
}
