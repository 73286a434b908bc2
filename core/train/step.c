/* What a device's driver thread does in one step: upload, forward and backward, all-reduce with the
   vote, update. */
#include "train/trainer.h"

#include "base/base.h"

#include <errno.h>
#include <math.h>
#include <time.h>

dpt_status dpti_worker_upload(dpti_worker *worker, const uint8_t *staging, size_t n_samples)
{
    return dpti_upload(&worker->replica.step, 0, staging, dpti_step_bytes(n_samples));
}

/* Makes a device slower by waiting: an instrument for experiments on equal hardware. */
static void wait_seconds(double seconds)
{
    struct timespec left = {.tv_sec = (time_t)seconds,
                            .tv_nsec = (long)((seconds - floor(seconds)) * 1e9)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

dpt_status dpti_worker_run(dpti_worker *worker, dpti_executable *executable, size_t segment,
                           size_t n_samples, float *result, double *seconds)
{
    dpti_device *device = worker->device;
    const dpti_replica *replica = &worker->replica;
    double busy = 0;
    DPT_TRY(dpti_event_record(device, replica->start));
    DPT_TRY(dpti_executable_run(executable, segment, n_samples));
    DPT_TRY(dpti_event_record(device, replica->end));
    if (result) DPT_TRY(dpti_executable_result(executable, n_samples, result));
    DPT_TRY(dpti_sync(device));
    DPT_TRY(dpti_event_elapsed(device, replica->start, replica->end, &busy));
    if (device->throttle > 1) wait_seconds((device->throttle - 1) * busy);
    *seconds += busy * device->throttle;
    return DPT_OK;
}

/* Segment 0: everything before the gradients are exchanged. */
static dpt_status compute(dpti_share *share)
{
    dpti_worker *w = share->worker;
    if (w->stale)
        return DPT_FAIL(&w->device->base.error, DPT_E_DEVICE, "its replica missed an update");
    DPT_TRY(dpti_worker_upload(w, share->staging, share->n_samples));
    if (share->n_samples == 0) return DPT_OK;
    DPT_TRY(dpti_worker_run(w, &w->train, 0, share->n_samples, share->result, &share->seconds));
    for (size_t i = 0; i < share->n_samples; i++) {
        share->loss += (double)share->result[2 * i];
        share->hits += share->result[2 * i + 1] != 0.0f;
    }
    if (!isfinite(share->loss))
        return DPT_FAIL(&w->device->base.error, DPT_E_NOT_FINITE,
                        "the loss of step %zu is not finite (%g); lower the learning rate (now %g) "
                        "or check the data",
                        share->step, share->loss, (double)share->lr);
    return DPT_OK;
}

static void run(dpti_share *share)
{
    dpti_worker *w = share->worker;
    dpt_status mine = compute(share);
    const dpt_status verdict =
        dpti_allreduce_run(w->trainer->allreduce, w->rank, share->n_samples > 0, &mine);
    if (verdict == DPT_OK) {
        /* From here on the step counts, whatever happens to this device. */
        share->committed = true;
        mine = dpti_worker_run(w, &w->train, 1, 0, NULL, &share->seconds);
        if (mine != DPT_OK) w->stale = true;
        share->status = mine;
    } else {
        w->halted = true;
        share->status = mine != DPT_OK ? mine : DPT_E_CANCELLED;
    }
    if (mine != DPT_OK) {
        share->error = w->device->base.error;
        share->error.status = mine;
    }
}

void dpti_step_job(dpti_device *device, void *argument)
{
    dpti_share *share = argument;
    (void)device;
    share->committed = false;
    share->loss = 0;
    share->hits = 0;
    share->seconds = 0;
    share->status = DPT_E_CANCELLED;
    if (!share->worker->halted) run(share);
    share->finished = dpti_seconds();
}
