/* Which devices take part in steps (presence.h). */
#include "train/membership/presence.h"

#include "train/components/membership.h"
#include "train/state/trainer.h"

#include <string.h>

bool dpti_is_lost(const dpti_worker *worker)
{
    return dpti_membership_lost(&worker->membership.state);
}

bool dpti_is_hung(const dpti_worker *worker)
{
    return dpti_membership_hung(&worker->membership.state);
}

bool dpti_is_standby(const dpti_worker *worker)
{
    return dpti_membership_standby(&worker->membership.state);
}

bool dpti_is_stale(const dpti_worker *worker)
{
    return worker->membership.state.replica != DPTI_REPLICA_VALID;
}

bool dpti_sits_out(const dpti_worker *worker)
{
    return dpti_is_lost(worker) || dpti_is_standby(worker);
}

bool dpti_is_alone(const dpti_worker *worker)
{
    const dpt_trainer *t = worker->trainer;
    return !dpti_step_processes(t) && dpti_trainer_n_present(t) == 1;
}

size_t dpti_trainer_n_lost(const dpt_trainer *trainer)
{
    size_t n = 0;
    for (size_t i = 0; trainer->workers && i < trainer->n_workers; i++)
        n += dpti_is_lost(&trainer->workers[i]);
    return n;
}

size_t dpti_trainer_n_present(const dpt_trainer *trainer)
{
    size_t n = 0;
    for (size_t i = 0; i < trainer->n_workers; i++)
        n += !dpti_sits_out(&trainer->workers[i]);
    return n;
}

bool dpti_same_fault_domain(const dpti_device *a, const dpti_device *b)
{
    return a->base.backend == b->base.backend && a->info.fault_domain[0] &&
           strncmp(a->info.fault_domain, b->info.fault_domain, sizeof a->info.fault_domain) == 0;
}

const dpt_error *dpti_hung_error(const dpti_worker *worker)
{
    return &worker->membership.watch.hung_error;
}

void dpti_change_device(dpti_worker *worker, dpti_device_change change)
{
    dpti_membership_device(&worker->membership.state, change);
}

void dpti_change_replica(dpti_worker *worker, dpti_replica_change change)
{
    dpti_membership_replica(&worker->membership.state, change);
}

void dpti_skip_step(dpti_worker *worker, dpti_cursor step)
{
    dpti_membership_skip(&worker->membership.state, step);
}

bool dpti_is_behind(const dpti_worker *worker)
{
    return dpti_membership_behind(&worker->membership.state);
}

const dpti_cursor *dpti_stands_at(const dpti_worker *worker)
{
    const dpti_membership *state = &worker->membership.state;
    return state->replica == DPTI_REPLICA_BEHIND ? &state->stands_at : NULL;
}

dpt_status dpti_membership_check(const dpt_trainer *trainer)
{
    for (size_t i = 0; i < trainer->n_workers; i++)
        if (dpti_membership_refused(&trainer->workers[i].membership.state))
            return dpt_fail(trainer->context, DPT_E_INTERNAL,
                            "device %s changed its state illegally",
                            trainer->workers[i].device->id);
    return DPT_OK;
}
