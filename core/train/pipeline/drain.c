/* Waiting for steps in flight, and dropping them (drain.h). */
#include "train/pipeline/drain.h"

#include "device/driver.h"
#include "train/components/membership.h"
#include "train/compute/shard.h"
#include "train/compute/single_launch.h"
#include "train/exchange/exchange.h"
#include "train/feeding/feeding.h"
#include "train/membership/deadline.h"
#include "train/membership/presence.h"
#include "train/progress/in_flight.h"
#include "train/state/in_flight_step.h"
#include "train/state/trainer.h"

/* Waits until the outcome of a shard is known.  false: the device hangs. */
static bool await_shard(dpt_trainer *t, size_t rank, dpti_shard *shard)
{
    if (!dpti_trainer_await(t, rank, shard->ticket)) return false;
    if (!shard->under_way) return true;
    shard->ticket = dpti_driver_post(t->workers[rank].device, dpti_single_launch_finish, shard);
    return dpti_trainer_await(t, rank, shard->ticket);
}

void dpti_steps_wait_for(dpt_trainer *trainer, dpti_in_flight_step *inflight)
{
    for (size_t i = 0; i < trainer->n_workers; i++) {
        dpti_worker *w = &trainer->workers[i];
        dpti_shard *shard = &inflight->jobs[i];
        if (dpti_sits_out(w) || await_shard(trainer, i, shard)) continue;
        shard->status = DPT_E_DEVICE_LOST;
        shard->error = *dpti_hung_error(w);
        if (shard->committed || shard->under_way) dpti_change_replica(w, DPTI_REPLICA_MISS);
        shard->under_way = false;
    }
}

bool dpti_steps_committed(const dpt_trainer *trainer, const dpti_in_flight_step *inflight)
{
    for (size_t i = 0; i < trainer->n_workers; i++)
        if (inflight->jobs[i].committed) return true;
    return false;
}

void dpti_trainer_drain(dpt_trainer *trainer)
{
    const size_t next = dpti_steps_next(trainer)->step;
    for (size_t step = next - dpti_steps_n_in_flight(trainer); step < next; step++) {
        dpti_in_flight_step *inflight = dpti_steps_step(trainer, step + 1);
        dpti_steps_wait_for(trainer, inflight);
        if (dpti_steps_committed(trainer, inflight))
            dpti_steps_set_done(trainer, dpti_feeding_behind(trainer, inflight->cursor));
    }
    dpti_steps_set_next(trainer, *dpti_steps_done(trainer));
    dpti_steps_set_in_flight(trainer, 0);
    dpti_exchange_unsettle(trainer); /* islands have not been through the step that failed */
    dpti_trainer_mend(trainer);
    dpti_exchange_reset(trainer);
    for (size_t i = 0; trainer->workers && i < trainer->n_workers; i++)
        dpti_worker_go_on(&trainer->workers[i]);
}
