/* A device that is left alone (alone.h). */
#include "train/pipeline/alone.h"

#include "dpt_error.h"
#include "train/compute/single_launch.h"
#include "train/membership/deadline.h"
#include "train/membership/events.h"
#include "train/membership/presence.h"
#include "train/programs/worker.h"
#include "train/recovery/recover.h"
#include "train/state/trainer.h"

/* The other devices contribute nothing to batch-norms' exchanges, so that the part is the sum; the
   slices in which gradients are computed stay what they are. */
static dpt_status create_program(dpti_worker *w, dpt_error *error)
{
    dpti_executable_options options;
    dpti_worker_program(w, &options);
    options.program.single_launch = options.program.exchange_at_end = true;
    options.program.holds_filters = false;
    options.program.n_parts = 1;
    DPT_TRY(dpti_single_launch_create(w));
    dpti_executable *alone = &dpti_single_launch_of(w)->alone;
    DPT_TRY(dpti_executable_create(&w->replica, &options, alone, error));
    if (!alone->arena.handle) return DPT_OK;
    return DPT_FAIL(error, DPT_E_NO_MEMORY,
                    "they need more memory than their parts do, which may "
                    "be wanted for evaluation");
}

typedef struct alone_job {
    dpti_worker *worker;
    dpt_error error; /* status DPT_OK: the program is made */
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

/* Without the program steps stay in segments, and an event tells the caller.  A device that is lost
   at it leaves the steps. */
static dpt_status make_alone(dpt_trainer *t, dpti_worker *w)
{
    alone_job job = {.worker = w};
    if (!dpti_trainer_prepare(t, w->rank, create_alone, &job)) return DPT_E_CANCELLED;
    if (job.error.status == DPT_OK) {
        dpti_single_launch_of(w)->alone_state = DPTI_ALONE_MADE;
        return DPT_OK;
    }
    if (job.error.status == DPT_E_DEVICE_LOST) {
        DPT_TRY(dpti_trainer_lose_one(t, w->rank, &job.error));
        return DPT_E_CANCELLED;
    }
    dpti_single_launch_of(w)->alone_state = DPTI_ALONE_REFUSED;
    dpti_trainer_note_event(t, DPT_STEPS_IN_SEGMENTS, t->first_device + w->rank, &job.error);
    return DPT_OK;
}

static dpt_status settle(dpt_trainer *t, dpti_worker *w)
{
    dpti_single_launch *single = dpti_single_launch_of(w);
    const bool wanted = dpti_is_alone(w) && single->alone_state != DPTI_ALONE_REFUSED &&
                        dpti_may_use_single_launch(w);
    if (wanted && single->alone_state == DPTI_ALONE_NOT_MADE) DPT_TRY(make_alone(t, w));
    dpti_executable *program =
        wanted && single->alone_state == DPTI_ALONE_MADE ? &single->alone : NULL;
    if (program != single->program)
        single->last_end = NULL; /* the device may have done other work since */
    single->program = program;
    return DPT_OK;
}

dpt_status dpti_single_launch_settle(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    for (size_t i = 0; t->n_workers > 1 && i < t->n_workers; i++)
        if (!dpti_sits_out(&t->workers[i])) DPT_TRY(settle(t, &t->workers[i]));
    return DPT_OK;
}
