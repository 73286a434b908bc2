/* Waiting for jobs, and giving up devices whose calls do not return (deadline.h). */
#include "train/membership/deadline.h"

#include "device/call_limit.h"
#include "device/driver.h"
#include "dpt_error.h"
#include "train/components/membership.h"
#include "train/membership/presence.h"
#include "train/membership/rendezvous.h"
#include "train/progress/in_flight.h"
#include "train/state/trainer.h"

#include <math.h>

static const double least_limit = 60, first_limit = 600, slowest_steps = 20;
static const double longest_wait = 0.1;

/* The limit of a call in a step. */
static double step_limit(const dpt_trainer *t)
{
    if (t->device_timeout > 0) return t->device_timeout;
    if (!(t->membership.longest_step > 0)) return first_limit;
    return fmax(least_limit, slowest_steps * t->membership.longest_step);
}

static double time_limit(const dpt_trainer *t, const dpti_worker *w)
{
    if (!dpti_is_lost(w) && w->membership.watch.purpose != DPTI_CALLED_TO_PREPARE)
        return step_limit(t);
    const double limit = dpti_preparing_seconds(t->device_timeout);
    return t->device_timeout > 0 ? limit : fmax(limit, step_limit(t));
}

static void give_up(dpt_trainer *t, dpti_worker *w, unsigned long long call, double limit)
{
    const bool longer =
        w->membership.watch.purpose == DPTI_CALLED_TO_PREPARE && t->device_timeout > 0;
    dpt_error error = {.status = DPT_E_DEVICE_LOST};
    (void)DPT_FAIL(&error, DPT_E_DEVICE_LOST, "no answer within %.3g s (%s)", limit,
                   longer ? "ten times --device-timeout, while it is prepared"
                          : "--device-timeout sets the limit");
    if (!dpti_driver_abandon(w->device, call, &error)) return; /* the call has come back just now */
    dpti_change_device(w, DPTI_DEVICE_HANG);
    w->membership.watch.hung_error = error;
    if (dpti_is_lost(w)) return; /* no thread waits for it */
    t->membership.broken = true;
    dpti_rendezvous_abort_islands(t);
    /* Other processes would wait for this one, and its driver threads for them.  If nothing is in
       flight they are told later. */
    if (t->processes && dpti_steps_n_in_flight(t) > 0) dpti_processes_give_up(t->processes);
    dpti_rendezvous_break_all(t);
}

void dpti_deadline_watch_readmission(dpti_worker *worker, bool tried)
{
    worker->membership.watch.purpose = tried ? DPTI_CALLED_FOR_READMISSION : DPTI_CALLED_FOR_STEPS;
}

void dpti_deadline_note_step(dpt_trainer *trainer, double seconds)
{
    trainer->membership.longest_step = fmax(trainer->membership.longest_step, seconds);
}

/* Looks at all devices after a wait of so many seconds. */
static void look(dpt_trainer *t, double waited)
{
    dpti_rendezvous_watch_islands(t, waited);
    for (size_t i = 0; i < t->n_workers; i++) {
        dpti_worker *w = &t->workers[i];
        const bool tried = w->membership.watch.purpose == DPTI_CALLED_FOR_READMISSION;
        const double limit = time_limit(t, w);
        if (dpti_is_lost(w) ? !tried : dpti_is_hung(w)) continue;
        const unsigned long long call = dpti_driver_call_now(w->device);
        if (call != w->membership.watch.call) w->membership.watch.seconds = 0;
        w->membership.watch.call = call;
        if (call == 0) continue;
        w->membership.watch.seconds += waited;
        if (w->membership.watch.seconds >= limit) give_up(t, w, call, limit);
    }
}

dpti_awaited dpti_trainer_await_a_while(dpt_trainer *trainer, size_t rank, uint64_t ticket)
{
    dpti_device *device = trainer->workers[rank].device;
    const double wait = fmin(longest_wait, step_limit(trainer) / 4);
    if (dpti_driver_wait_for(device, ticket, wait)) return DPTI_AWAITED;
    if (!dpti_driver_is_running(device)) return DPTI_AWAIT_NONE;
    look(trainer, wait);
    return DPTI_AWAIT_MORE;
}

bool dpti_trainer_await(dpt_trainer *trainer, size_t rank, uint64_t ticket)
{
    dpti_awaited what;
    do
        what = dpti_trainer_await_a_while(trainer, rank, ticket);
    while (what == DPTI_AWAIT_MORE);
    return what == DPTI_AWAITED;
}

bool dpti_trainer_call(dpt_trainer *trainer, size_t rank, dpti_job *job, void *argument)
{
    dpti_device *device = trainer->workers[rank].device;
    if (dpti_trainer_await(trainer, rank, dpti_driver_post(device, job, argument))) return true;
    dpti_trainer_mend(trainer); /* no thread waits for the device in a collective */
    return false;
}

bool dpti_trainer_prepare(dpt_trainer *trainer, size_t rank, dpti_job *job, void *argument)
{
    dpti_worker *w = &trainer->workers[rank];
    w->membership.watch.purpose = DPTI_CALLED_TO_PREPARE;
    const bool done = dpti_trainer_call(trainer, rank, job, argument);
    w->membership.watch.purpose = DPTI_CALLED_FOR_STEPS;
    return done;
}

static void note_hung(dpti_worker *w)
{
    dpti_change_device(w, DPTI_DEVICE_HANG);
    w->membership.watch.hung_error = w->device->given_up;
}

void dpti_trainer_note_hung(dpt_trainer *trainer)
{
    for (size_t i = 0; i < trainer->n_workers; i++) {
        dpti_worker *w = &trainer->workers[i];
        if (!dpti_is_lost(w) && !dpti_is_hung(w) && !dpti_driver_is_running(w->device))
            note_hung(w);
    }
}

/* The limit of a call that releases something: nothing is compiled then. */
static double patience(const dpt_trainer *t)
{
    if (t->device_timeout > 0) return t->device_timeout;
    return fmax(least_limit, slowest_steps * t->membership.longest_step);
}

bool dpti_trainer_release(dpt_trainer *trainer, size_t rank, dpti_job *job, void *argument)
{
    dpti_worker *w = &trainer->workers[rank];
    if (dpti_is_hung(w)) return false;
    w->device->patience = patience(trainer);
    if (dpti_driver_finish(w->device, job, argument)) return true;
    note_hung(w);
    return false;
}

void dpti_trainer_mend(dpt_trainer *trainer)
{
    if (!trainer->membership.broken) return;
    trainer->membership.broken = false;
    dpti_rendezvous_mend_all(trainer);
}
