/* The records of steps, and where training stands (in_flight.h). */
#include "train/pipeline/in_flight.h"

#include "base/times.h"
#include "train/feeding/order.h"
#include "train/in_flight_step.h"
#include "train/trainer.h"

#include <stdlib.h>

/* ---- Records --------------------------------------------------------------------------------- */

/* Whether all of it could be allocated. */
static bool create_slot(const dpt_trainer *t, dpti_in_flight_step *inflight)
{
    const size_t n = t->n_devices;
    const size_t n_processes = t->processes ? dpti_processes_count(t->processes) : 0;
    if (n_processes > 0) inflight->contributing = calloc(n_processes, sizeof(bool));
    inflight->jobs = calloc(t->n_workers, sizeof *inflight->jobs);
    inflight->outcomes = calloc(n, sizeof *inflight->outcomes);
    inflight->shards = calloc(n, sizeof *inflight->shards);
    inflight->device_seconds = calloc(n, sizeof *inflight->device_seconds);
    inflight->exchange_seconds = calloc(n, sizeof *inflight->exchange_seconds);
    inflight->waiting_seconds = calloc(n, sizeof *inflight->waiting_seconds);
    inflight->throughput = calloc(n, sizeof *inflight->throughput);
    bool complete = (inflight->contributing || n_processes == 0) && inflight->jobs &&
                    inflight->outcomes && inflight->shards && inflight->device_seconds &&
                    inflight->exchange_seconds && inflight->waiting_seconds && inflight->throughput;
    for (size_t i = 0; inflight->jobs && i < t->n_workers; i++) {
        dpti_shard *shard = &inflight->jobs[i];
        *shard = (dpti_shard){.worker = &t->workers[i],
                              .contributing = inflight->contributing,
                              .of_batch = calloc(t->accumulate, sizeof(size_t))};
        complete = complete && shard->of_batch;
    }
    return complete;
}

dpt_status dpti_steps_create(dpt_trainer *trainer)
{
    dpti_trainer_pipeline *p = &trainer->pipeline;
    bool complete =
        dpti_account_create(trainer->n_devices, dpti_step_samples(trainer), &p->account);
    p->done = p->next = (dpti_cursor){.epoch = 1};
    for (size_t i = 0; i < DPTI_STEP_SLOTS; i++)
        complete = create_slot(trainer, &p->slots[i]) && complete;
    return complete ? DPT_OK : DPT_E_NO_MEMORY;
}

static void destroy_slot(const dpt_trainer *t, dpti_in_flight_step *inflight)
{
    free(inflight->contributing);
    free(inflight->outcomes);
    for (size_t i = 0; inflight->jobs && i < t->n_workers; i++) {
        dpti_times_free(&inflight->jobs[i].times);
        free(inflight->jobs[i].of_batch);
    }
    free(inflight->throughput);
    free(inflight->waiting_seconds);
    free(inflight->exchange_seconds);
    free(inflight->device_seconds);
    free(inflight->shards);
    free(inflight->jobs);
}

void dpti_steps_destroy(dpt_trainer *trainer)
{
    dpti_trainer_pipeline *p = &trainer->pipeline;
    for (size_t i = 0; i < DPTI_STEP_SLOTS; i++)
        destroy_slot(trainer, &p->slots[i]);
    dpti_account_free(&p->account);
    dpti_balance_destroy(p->balance);
    free(p->split_text);
}

dpti_in_flight_step *dpti_steps_step(dpt_trainer *trainer, size_t step)
{
    return &trainer->pipeline.slots[(step - 1) % DPTI_STEP_SLOTS];
}

dpti_shard *dpti_steps_shard(dpt_trainer *trainer, size_t i, size_t rank)
{
    dpti_shard *shards = trainer->pipeline.slots[i].jobs;
    return shards ? &shards[rank] : NULL;
}

/* Nothing is in flight, so the host memory of any step is free. */
dpti_shard *dpti_steps_spare_shard(dpt_trainer *trainer, size_t rank)
{
    return &trainer->pipeline.slots[0].jobs[rank];
}

/* ---- Where training stands ------------------------------------------------------------------- */

const dpti_cursor *dpti_steps_done(const dpt_trainer *trainer)
{
    return &trainer->pipeline.done;
}

const dpti_cursor *dpti_steps_next(const dpt_trainer *trainer)
{
    return &trainer->pipeline.next;
}

void dpti_steps_move_to(dpt_trainer *trainer, dpti_cursor cursor)
{
    trainer->pipeline.done = trainer->pipeline.next = cursor;
}

size_t dpti_steps_n_in_flight(const dpt_trainer *trainer)
{
    return trainer->pipeline.n_in_flight;
}

void dpti_steps_set_in_flight(dpt_trainer *trainer, size_t n)
{
    dpti_dataset_note_reading(trainer->data, n, trainer->pipeline.n_in_flight);
    trainer->pipeline.n_in_flight = n;
}

dpt_status dpti_steps_check_room(const dpt_trainer *trainer)
{
    if (trainer->pipeline.n_in_flight < DPTI_MAX_IN_FLIGHT) return DPT_OK;
    return dpt_fail(trainer->context, DPT_E_STATE, "%d steps are in flight: collect one first",
                    DPTI_MAX_IN_FLIGHT);
}

double dpti_steps_last_finished(const dpt_trainer *trainer)
{
    return trainer->pipeline.last_finished;
}

void dpti_steps_set_traced(dpt_trainer *trainer, bool traced)
{
    trainer->pipeline.traced = traced;
}

size_t dpti_steps_last_step_of(const dpt_trainer *trainer, size_t rank)
{
    return trainer->workers[rank].pipeline.last_step;
}

size_t dpt_trainer_in_flight(const dpt_trainer *trainer)
{
    return trainer->pipeline.n_in_flight;
}

size_t dpt_trainer_steps(const dpt_trainer *trainer)
{
    return trainer->pipeline.done.step;
}

dpt_status dpti_trainer_catch_up(dpt_trainer *trainer)
{
    return trainer->pipeline.catch_up(trainer);
}

void dpti_steps_set_catch_up(dpt_trainer *trainer, dpt_status (*catch_up)(dpt_trainer *trainer))
{
    trainer->pipeline.catch_up = catch_up;
}
