/* The records of steps, and where training stands (in_flight.h). */
#include "train/progress/in_flight.h"

#include "base/times.h"
#include "train/components/order.h"
#include "train/state/in_flight_step.h"
#include "train/state/trainer.h"

#include <stdlib.h>

/* ---- Records --------------------------------------------------------------------------------- */

/* Whether all of it could be allocated. */
static bool create_slot(const dpt_trainer *t, dpti_in_flight_step *inflight)
{
    const size_t n = t->n_devices;
    const size_t n_processes = t->processes ? dpti_processes_count(t->processes) : 0;
    if (n_processes > 0) {
        inflight->contributing = calloc(n_processes, sizeof(bool));
        inflight->grain_borders = calloc(n_processes + 1, sizeof(size_t));
    }
    inflight->jobs = calloc(t->n_workers, sizeof *inflight->jobs);
    inflight->outcomes = calloc(n, sizeof *inflight->outcomes);
    inflight->shards = calloc(n, sizeof *inflight->shards);
    inflight->device_seconds = calloc(n, sizeof *inflight->device_seconds);
    inflight->exchange_seconds = calloc(n, sizeof *inflight->exchange_seconds);
    inflight->waiting_seconds = calloc(n, sizeof *inflight->waiting_seconds);
    inflight->throughput = calloc(n, sizeof *inflight->throughput);
    bool complete = ((inflight->contributing && inflight->grain_borders) || n_processes == 0) &&
                    inflight->jobs && inflight->outcomes && inflight->shards &&
                    inflight->device_seconds && inflight->exchange_seconds &&
                    inflight->waiting_seconds && inflight->throughput;
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
    dpti_trainer_progress *p = &trainer->progress;
    bool complete = true;
    p->done = p->next = (dpti_cursor){.epoch = 1};
    for (size_t i = 0; i < DPTI_STEP_SLOTS; i++)
        complete = create_slot(trainer, &p->slots[i]) && complete;
    return complete ? DPT_OK : DPT_E_NO_MEMORY;
}

static void destroy_slot(const dpt_trainer *t, dpti_in_flight_step *inflight)
{
    free(inflight->grain_borders);
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
    dpti_trainer_progress *p = &trainer->progress;
    for (size_t i = 0; i < DPTI_STEP_SLOTS; i++)
        destroy_slot(trainer, &p->slots[i]);
}

dpti_in_flight_step *dpti_steps_step(dpt_trainer *trainer, size_t step)
{
    return &trainer->progress.slots[(step - 1) % DPTI_STEP_SLOTS];
}

dpti_shard *dpti_steps_shard(dpt_trainer *trainer, size_t i, size_t rank)
{
    dpti_shard *shards = trainer->progress.slots[i].jobs;
    return shards ? &shards[rank] : NULL;
}

/* Nothing is in flight, so the host memory of any step is free. */
dpti_shard *dpti_steps_spare_shard(dpt_trainer *trainer, size_t rank)
{
    return &trainer->progress.slots[0].jobs[rank];
}

/* ---- Where training stands ------------------------------------------------------------------- */

const dpti_cursor *dpti_steps_done(const dpt_trainer *trainer)
{
    return &trainer->progress.done;
}

const dpti_cursor *dpti_steps_next(const dpt_trainer *trainer)
{
    return &trainer->progress.next;
}

void dpti_steps_move_to(dpt_trainer *trainer, dpti_cursor cursor)
{
    trainer->progress.done = trainer->progress.next = cursor;
}

void dpti_steps_set_done(dpt_trainer *trainer, dpti_cursor cursor)
{
    trainer->progress.done = cursor;
}

void dpti_steps_set_next(dpt_trainer *trainer, dpti_cursor cursor)
{
    trainer->progress.next = cursor;
}

size_t dpti_steps_retry_to(const dpt_trainer *trainer)
{
    return trainer->progress.retry_to;
}

void dpti_steps_set_retry_to(dpt_trainer *trainer, size_t step)
{
    trainer->progress.retry_to = step;
}

size_t dpti_steps_n_in_flight(const dpt_trainer *trainer)
{
    return trainer->progress.n_in_flight;
}

void dpti_steps_set_in_flight(dpt_trainer *trainer, size_t n)
{
    dpti_dataset_note_reading(trainer->data, n, trainer->progress.n_in_flight);
    trainer->progress.n_in_flight = n;
}

dpt_status dpti_steps_check_room(const dpt_trainer *trainer)
{
    if (trainer->progress.n_in_flight < DPTI_MAX_IN_FLIGHT) return DPT_OK;
    return dpt_fail(trainer->context, DPT_E_STATE, "%d steps are in flight: collect one first",
                    DPTI_MAX_IN_FLIGHT);
}

double dpti_steps_last_finished(const dpt_trainer *trainer)
{
    return trainer->progress.last_finished;
}

void dpti_steps_set_last_finished(dpt_trainer *trainer, double seconds)
{
    trainer->progress.last_finished = seconds;
}

bool dpti_steps_traced(const dpt_trainer *trainer)
{
    return trainer->progress.traced;
}

void dpti_steps_set_traced(dpt_trainer *trainer, bool traced)
{
    trainer->progress.traced = traced;
}

size_t dpti_steps_last_step_of(const dpt_trainer *trainer, size_t rank)
{
    return trainer->workers[rank].progress.last_step;
}

void dpti_steps_set_last_step_of(dpt_trainer *trainer, size_t rank, size_t step)
{
    trainer->workers[rank].progress.last_step = step;
}

size_t dpt_trainer_in_flight(const dpt_trainer *trainer)
{
    return trainer->progress.n_in_flight;
}

size_t dpt_trainer_steps(const dpt_trainer *trainer)
{
    return trainer->progress.done.step;
}

dpt_status dpti_trainer_catch_up(dpt_trainer *trainer)
{
    return trainer->progress.catch_up(trainer);
}

void dpti_steps_set_catch_up(dpt_trainer *trainer, dpt_status (*catch_up)(dpt_trainer *trainer))
{
    trainer->progress.catch_up = catch_up;
}
