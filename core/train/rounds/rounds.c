/* Rounds of local steps (rounds.h). */
#include "train/rounds/rounds.h"

#include "collective/processes.h"
#include "context/context.h"
#include "train/components/order.h"
#include "train/peers/peers.h"
#include "train/progress/in_flight.h"
#include "train/state/trainer.h"

#include <stdlib.h>
#include <string.h>

dpt_status dpti_rounds_create(dpt_trainer *trainer)
{
    const dpt_trainer *t = trainer;
    dpti_rounds *r = &trainer->rounds;
    if (t->local_steps == 0) return DPT_OK;
    const size_t n = dpti_processes_count(t->processes);
    r->beginning = calloc(t->model->flat_size, sizeof *r->beginning);
    r->samples = calloc(n, sizeof *r->samples);
    r->contributes = calloc(n, sizeof *r->contributes);
    if (t->outer_momentum > 0) r->velocity = calloc(t->model->flat_gradients, sizeof *r->velocity);
    const bool complete = r->velocity || !(t->outer_momentum > 0);
    return complete && r->beginning && r->samples && r->contributes ? DPT_OK : DPT_E_NO_MEMORY;
}

void dpti_rounds_destroy(dpt_trainer *trainer)
{
    dpti_rounds *r = &trainer->rounds;
    free(r->beginning);
    free(r->velocity);
    free(r->samples);
    free(r->contributes);
}

/* ---- Where a round stands -------------------------------------------------------------------- */

bool dpti_rounds_border(const dpt_trainer *trainer, const dpti_cursor *cursor)
{
    const size_t step = cursor->position / dpti_step_samples(trainer); /* of the epoch */
    return trainer->local_steps > 0 && step % trainer->local_steps == 0;
}

bool dpti_rounds_open(const dpt_trainer *trainer)
{
    return trainer->rounds.open;
}

bool dpti_rounds_continue(const dpt_trainer *trainer)
{
    return trainer->rounds.open && !dpti_rounds_border(trainer, dpti_steps_next(trainer));
}

dpt_status dpti_rounds_check_closed(dpt_trainer *trainer, const char *call)
{
    if (!trainer->rounds.open) return DPT_OK;
    return dpt_fail(trainer->context, DPT_E_STATE,
                    "%s within a round of local steps, in which each process has weights of its "
                    "own: call dpt_trainer_end_round in all processes first",
                    call);
}

dpt_status dpti_rounds_check_room(dpt_trainer *trainer)
{
    if (!trainer->rounds.open || dpti_rounds_continue(trainer)) return DPT_OK;
    return dpt_fail(trainer->context, DPT_E_STATE,
                    "a round of local steps ends behind the steps in flight: collect them first");
}

/* ---- The course of a round ------------------------------------------------------------------- */

float *dpti_rounds_begin(dpt_trainer *trainer)
{
    dpti_rounds *r = &trainer->rounds;
    memset(r->samples, 0, dpti_processes_count(trainer->processes) * sizeof *r->samples);
    r->open = true;
    return r->beginning;
}

void dpti_rounds_count(dpt_trainer *trainer, const dpti_in_flight_step *inflight)
{
    const size_t *firsts = dpti_peers_firsts(trainer);
    for (size_t p = 0; p < dpti_processes_count(trainer->processes); p++)
        for (size_t i = firsts[p]; i < firsts[p + 1]; i++)
            trainer->rounds.samples[p] += inflight->shards[i];
}

/* The part of this process in a mean over all of them. */
static float own_part(dpt_trainer *t)
{
    dpti_rounds *r = &t->rounds;
    size_t total = 0;
    for (size_t p = 0; p < dpti_processes_count(t->processes); p++) {
        r->contributes[p] = r->samples[p] > 0;
        total += r->samples[p];
    }
    return (float)((double)r->samples[dpti_processes_rank(t->processes)] / (double)total);
}

/* The sum over all processes that have samples, in the order of ranks, in place. */
static dpt_status sum_over_processes(dpt_trainer *t, float *data, size_t count, bool *finite)
{
    dpt_error error = {.status = DPT_OK};
    const dpti_collective sum = {.kind = DPTI_ALL_REDUCE,
                                 .data = data,
                                 .count = count,
                                 .contributes = t->rounds.contributes,
                                 .finite = finite};
    dpti_processes_start_collective(t->processes, &sum);
    if (dpti_processes_finish_collectives(t->processes, &error) == DPT_OK) return DPT_OK;
    return dpti_context_fail(t->context, NULL, &error);
}

/* The outer step.  `mean` is the mean of what has changed, and becomes the new parameters. */
static void take_outer_step(dpt_trainer *t, float *mean)
{
    const dpti_rounds *r = &t->rounds;
    const float mu = t->outer_momentum, lr = t->outer_lr;
    for (size_t i = 0; i < t->model->flat_trained; i++) {
        float d = mean[i];
        if (r->velocity) {
            r->velocity[i] = mu * r->velocity[i] + d;
            d += mu * r->velocity[i];
        }
        mean[i] = r->beginning[i] - lr * d;
    }
    /* Running statistics. */
    for (size_t i = t->model->flat_trained; i < t->model->flat_gradients; i++)
        mean[i] = r->beginning[i] - mean[i];
}

dpt_status dpti_rounds_join(dpt_trainer *trainer, size_t n_kinds, float *const *flats)
{
    dpt_trainer *t = trainer;
    const size_t n = t->model->flat_gradients;
    const float part = own_part(t);
    const float *beginning = t->rounds.beginning;
    bool finite[DPTI_MAX_STATE_BUFFERS];
    for (size_t i = 0; i < n; i++)
        flats[0][i] = part * (beginning[i] - flats[0][i]);
    for (size_t k = 1; k < n_kinds; k++)
        for (size_t i = 0; i < n; i++)
            flats[k][i] *= part;
    for (size_t k = 0; k < n_kinds; k++) {
        finite[k] = true;
        DPT_TRY(sum_over_processes(t, flats[k], n, &finite[k]));
        if (finite[k]) continue;
        dpti_processes_know(t->processes);
        return dpt_fail(t->context, DPT_E_NOT_FINITE,
                        "what has changed in a round of local steps is not finite: training "
                        "diverges; lower the learning rate (now %g)",
                        (double)t->lr);
    }
    take_outer_step(t, flats[0]);
    return DPT_OK;
}

void dpti_rounds_close(dpt_trainer *trainer)
{
    trainer->rounds.open = false;
}

/* ---- What lasts ------------------------------------------------------------------------------ */

float *dpti_rounds_velocity(const dpt_trainer *trainer)
{
    return trainer->rounds.velocity;
}

void dpti_rounds_restart(dpt_trainer *trainer)
{
    dpti_rounds *r = &trainer->rounds;
    r->open = false;
    if (r->velocity) memset(r->velocity, 0, trainer->model->flat_gradients * sizeof *r->velocity);
}
