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

static size_t summed_bytes(const dpti_packing *packing, size_t n)
{
    return packing ? packing->n_bytes(n) : n * sizeof(float);
}

dpt_round_plan dpti_rounds_plan(const dpt_model *model, const dpt_trainer_options *options,
                                size_t n_kinds)
{
    const dpti_packing *packing = dpti_packing_of(options->compress);
    const size_t n_trained = model->flat_trained, n_state = n_kinds - 1;
    const size_t n_velocity = options->outer_momentum > 0 ? model->flat_gradients : 0;
    return (dpt_round_plan){
        .exchange_bytes = summed_bytes(packing, n_trained) +
                          summed_bytes(NULL, model->flat_gradients - n_trained) +
                          n_state * summed_bytes(packing ? &dpti_packing_bf16 : NULL, n_trained),
        .host_bytes = (model->flat_size + n_velocity) * sizeof(float),
        .end_bytes = n_kinds * model->flat_size * sizeof(float)};
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

/* Starts the sum over all processes that have samples, in the order of ranks, in place. */
static void start_sum(const dpt_trainer *t, const dpti_collective *what)
{
    dpti_collective sum = *what;
    sum.kind = DPTI_ALL_REDUCE;
    sum.contributes = t->rounds.contributes;
    if (sum.count > 0) dpti_processes_start_collective(t->processes, &sum);
}

/* Of what has changed: parameters, which may be compressed, and running statistics. */
static void start_sum_of_changes(const dpt_trainer *t, float *flat, const dpti_feedback *feedback,
                                 bool *finite)
{
    const size_t n_trained = t->model->flat_trained;
    dpti_collective parameters = {.data = flat, .count = n_trained, .finite = finite};
    const dpti_collective statistics = {
        .data = flat + n_trained, .count = t->model->flat_gradients - n_trained, .finite = finite};
    if (feedback) {
        parameters.packing = feedback->packing;
        parameters.residual = feedback->residual;
        parameters.owes = feedback->owes;
    }
    start_sum(t, &parameters);
    start_sum(t, &statistics);
}

/* Of one buffer of the optimizer's state. */
static void start_sum_of_state(const dpt_trainer *t, float *flat, bool compressed, bool *finite)
{
    const dpti_collective sum = {.data = flat,
                                 .count = t->model->flat_trained,
                                 .packing = compressed ? &dpti_packing_bf16 : NULL,
                                 .finite = finite};
    start_sum(t, &sum);
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

/* Makes what this process contributes of its training state. */
static void weigh(dpt_trainer *t, size_t n_kinds, float *const *flats)
{
    const float part = own_part(t), *beginning = t->rounds.beginning;
    for (size_t i = 0; i < t->model->flat_gradients; i++)
        flats[0][i] = part * (beginning[i] - flats[0][i]);
    for (size_t k = 1; k < n_kinds; k++)
        for (size_t i = 0; i < t->model->flat_trained; i++)
            flats[k][i] *= part;
}

static dpt_status fail_not_finite(dpt_trainer *t)
{
    dpti_processes_know(t->processes);
    return dpt_fail(t->context, DPT_E_NOT_FINITE,
                    "what has changed in a round of local steps is not finite: training diverges; "
                    "lower the learning rate (now %g)",
                    (double)t->lr);
}

dpt_status dpti_rounds_join(dpt_trainer *trainer, size_t n_kinds, float *const *flats,
                            dpti_feedback *feedback)
{
    dpt_trainer *t = trainer;
    dpt_error error = {.status = DPT_OK};
    bool finite = true;
    weigh(t, n_kinds, flats);
    start_sum_of_changes(t, flats[0], feedback, &finite);
    for (size_t k = 1; k < n_kinds; k++)
        start_sum_of_state(t, flats[k], feedback != NULL, &finite);
    if (dpti_processes_finish_collectives(t->processes, &error) != DPT_OK)
        return dpti_context_fail(t->context, NULL, &error);
    if (!finite) return fail_not_finite(t);
    if (feedback) dpti_feedback_commit(feedback);
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
