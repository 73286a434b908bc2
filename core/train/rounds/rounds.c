/* Rounds of local steps (rounds.h). */
#include "train/rounds/rounds.h"

#include "base/left_behind.h"
#include "base/range.h"
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
    r->samples = calloc(t->n_fragments * n, sizeof *r->samples);
    r->since = calloc(n, sizeof *r->since);
    r->contributes = calloc(t->n_fragments * n, sizeof *r->contributes);
    r->contributed = calloc(n, sizeof *r->contributed);
    if (t->outer_momentum > 0) r->velocity = calloc(t->model->flat_gradients, sizeof *r->velocity);
    const bool counts = r->samples && r->since && r->contributes && r->contributed;
    const bool complete = r->velocity || !(t->outer_momentum > 0);
    return complete && counts && r->beginning ? DPT_OK : DPT_E_NO_MEMORY;
}

/* Waits for an exchange in flight, and forgets what it brings.  A transport that has failed may
   still write to its memory. */
static void drop_exchange(dpt_trainer *t)
{
    dpti_rounds *r = &t->rounds;
    dpt_error error = {.status = DPT_OK};
    if (!r->in_flight) return;
    r->in_flight = false;
    if (dpti_processes_finish_collectives(t->processes, &error) == DPT_OK) return;
    dpti_leave_behind(r->travelling);
    r->travelling = NULL;
}

void dpti_rounds_destroy(dpt_trainer *trainer)
{
    dpti_rounds *r = &trainer->rounds;
    drop_exchange(trainer);
    free(r->beginning);
    free(r->velocity);
    free(r->samples);
    free(r->since);
    free(r->contributes);
    free(r->contributed);
    free(r->travelling);
    free(r->noted);
}

/* ---- Fragments ------------------------------------------------------------------------------- */

/* The first trained parameter of fragment f of n; that of n_fragments is behind the last one.
   Fragments begin at multiples of 64, so that small ones may be empty. */
static size_t fragment_begin(size_t n_trained, size_t n_fragments, size_t f)
{
    return f == n_fragments ? n_trained : n_trained / n_fragments * f / 64 * 64;
}

static dpti_range fragment_range(const dpt_trainer *t, size_t f)
{
    const size_t n = t->model->flat_trained;
    return (dpti_range){fragment_begin(n, t->n_fragments, f),
                        fragment_begin(n, t->n_fragments, f + 1)};
}

static size_t largest_fragment(size_t n_trained, size_t n_fragments)
{
    size_t most = 0;
    for (size_t f = 0; f < n_fragments; f++) {
        const size_t n = fragment_begin(n_trained, n_fragments, f + 1) -
                         fragment_begin(n_trained, n_fragments, f);
        if (n > most) most = n;
    }
    return most;
}

/* The fragment whose exchange begins behind a step of a round, from 1; n_fragments: none.  That of
   the last one begins at the end of the round. */
static size_t fragment_behind(const dpt_trainer *t, size_t step)
{
    size_t f = 0;
    while (f < t->n_fragments && (f + 1) * t->local_steps / t->n_fragments != step)
        f++;
    return f;
}

/* The samples of the processes since fragment f was exchanged; and whether they have any. */
static size_t *samples_of(const dpt_trainer *t, size_t f)
{
    return t->rounds.samples + f * dpti_processes_count(t->processes);
}

static bool *contributes_of(const dpt_trainer *t, size_t f)
{
    return t->rounds.contributes + f * dpti_processes_count(t->processes);
}

/* ---- What rounds take ------------------------------------------------------------------------ */

static size_t summed_bytes(const dpti_packing *packing, size_t n)
{
    return packing ? packing->n_bytes(n) : n * sizeof(float);
}

dpt_round_plan dpti_rounds_plan(const dpt_model *model, const dpt_trainer_options *options,
                                size_t n_kinds)
{
    const dpti_packing *packing = dpti_packing_of(options->compress);
    const size_t n_fragments = options->outer_fragments > 1 ? options->outer_fragments : 1;
    const size_t n_trained = model->flat_trained, n_state = n_kinds - 1;
    const size_t n_velocity = options->outer_momentum > 0 ? model->flat_gradients : 0;
    const size_t largest = largest_fragment(n_trained, n_fragments);
    const size_t n_delayed = options->outer_delay > 0 ? 2 * largest : 0;
    const size_t more = summed_bytes(NULL, model->flat_gradients - n_trained) +
                        n_state * summed_bytes(packing ? &dpti_packing_bf16 : NULL, n_trained);
    size_t n_bytes = options->outer_delay > 0 ? 0 : more;
    for (size_t f = 0; f < n_fragments; f++)
        n_bytes += summed_bytes(packing, fragment_begin(n_trained, n_fragments, f + 1) -
                                             fragment_begin(n_trained, n_fragments, f));
    return (dpt_round_plan){
        .exchange_bytes = n_bytes,
        .largest_bytes = n_fragments > 1 ? summed_bytes(packing, largest) : n_bytes,
        .host_bytes = (model->flat_size + n_velocity + n_delayed) * sizeof(float),
        .end_bytes = n_kinds * model->flat_size * sizeof(float)};
}

/* ---- Where a round stands -------------------------------------------------------------------- */

/* The steps of the epoch before a cursor. */
static size_t step_of_epoch(const dpt_trainer *t, const dpti_cursor *cursor)
{
    return cursor->position / dpti_step_samples(t);
}

/* The fragment whose exchange begins there; n_fragments: none. */
static size_t fragment_at(const dpt_trainer *t, size_t step)
{
    const size_t of_round = step % t->local_steps;
    return fragment_behind(t, of_round > 0 ? of_round : t->local_steps);
}

bool dpti_rounds_border(const dpt_trainer *trainer, const dpti_cursor *cursor)
{
    const dpt_trainer *t = trainer;
    return t->local_steps > 0 && fragment_at(t, step_of_epoch(t, cursor)) < t->n_fragments;
}

bool dpti_rounds_takes(const dpt_trainer *trainer, const dpti_cursor *cursor)
{
    const dpt_trainer *t = trainer;
    const size_t step = step_of_epoch(t, cursor);
    return t->rounds.in_flight && step >= t->outer_delay &&
           fragment_at(t, step - t->outer_delay) == t->rounds.fragment;
}

bool dpti_rounds_stops(const dpt_trainer *trainer, const dpti_cursor *cursor)
{
    return dpti_rounds_border(trainer, cursor) || dpti_rounds_takes(trainer, cursor);
}

bool dpti_rounds_closes(const dpt_trainer *trainer, const dpti_cursor *cursor)
{
    return dpti_rounds_border(trainer, cursor) &&
           (trainer->outer_delay == 0 || step_of_epoch(trainer, cursor) == 0);
}

bool dpti_rounds_open(const dpt_trainer *trainer)
{
    return trainer->rounds.open;
}

bool dpti_rounds_continue(const dpt_trainer *trainer)
{
    return trainer->rounds.open && !dpti_rounds_closes(trainer, dpti_steps_next(trainer));
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
    if (!trainer->rounds.open || !dpti_rounds_stops(trainer, dpti_steps_next(trainer)))
        return DPT_OK;
    return dpt_fail(trainer->context, DPT_E_STATE,
                    "a round of local steps ends behind the steps in flight: collect them first");
}

/* ---- The course of a round ------------------------------------------------------------------- */

/* The steps to come are the first ones of so many rows of counts. */
static void forget_samples(const dpt_trainer *t, size_t *samples, size_t n_rows)
{
    memset(samples, 0, n_rows * dpti_processes_count(t->processes) * sizeof *samples);
}

float *dpti_rounds_begin(dpt_trainer *trainer)
{
    forget_samples(trainer, trainer->rounds.samples, trainer->n_fragments);
    forget_samples(trainer, trainer->rounds.since, 1);
    trainer->rounds.open = true;
    return trainer->rounds.beginning;
}

void dpti_rounds_count(dpt_trainer *trainer, const dpti_in_flight_step *inflight)
{
    const size_t *firsts = dpti_peers_firsts(trainer);
    for (size_t p = 0; p < dpti_processes_count(trainer->processes); p++)
        for (size_t i = firsts[p]; i < firsts[p + 1]; i++) {
            for (size_t f = 0; f < trainer->n_fragments; f++)
                samples_of(trainer, f)[p] += inflight->shards[i];
            trainer->rounds.since[p] += inflight->shards[i];
        }
}

/* The part of this process in a mean over all of them, by these samples; 0 if there are none. */
static float own_part(const dpt_trainer *t, const size_t *samples, bool *contributes)
{
    size_t total = 0;
    for (size_t p = 0; p < dpti_processes_count(t->processes); p++) {
        contributes[p] = samples[p] > 0;
        total += samples[p];
    }
    const size_t own = samples[dpti_processes_rank(t->processes)];
    return total > 0 ? (float)((double)own / (double)total) : 0;
}

/* Starts the sum over all processes that have samples, in the order of ranks, in place. */
static void start_sum(const dpt_trainer *t, const dpti_collective *what)
{
    dpti_collective sum = *what;
    sum.kind = DPTI_ALL_REDUCE;
    if (sum.count > 0) dpti_processes_start_collective(t->processes, &sum);
}

/* Of what has changed in fragment f of the parameters, which may be compressed. */
static void start_sum_of_changes(dpt_trainer *t, size_t f, float *changes,
                                 const dpti_feedback *feedback)
{
    const dpti_range range = fragment_range(t, f);
    dpti_collective sum = {.data = changes,
                           .count = dpti_range_size(range),
                           .contributes = contributes_of(t, f),
                           .finite = &t->rounds.finite};
    if (feedback) {
        sum.packing = feedback->packing;
        sum.residual = feedback->residual + range.begin;
        sum.owes = feedback->owes + range.begin;
    }
    start_sum(t, &sum);
}

static void start_sum_of_statistics(const dpt_trainer *t, float *flat, bool *finite)
{
    const size_t begin = t->model->flat_trained;
    const dpti_collective sum = {.data = flat + begin,
                                 .count = t->model->flat_gradients - begin,
                                 .contributes = t->rounds.contributed,
                                 .finite = finite};
    start_sum(t, &sum);
}

/* Of one buffer of the optimizer's state. */
static void start_sum_of_state(const dpt_trainer *t, float *flat, bool compressed, bool *finite)
{
    const dpti_collective sum = {.data = flat,
                                 .count = t->model->flat_trained,
                                 .contributes = t->rounds.contributed,
                                 .packing = compressed ? &dpti_packing_bf16 : NULL,
                                 .finite = finite};
    start_sum(t, &sum);
}

/* What the outer step makes of parameter i, of which `d` is the mean of what has changed. */
static float step_parameter(const dpt_trainer *t, size_t i, float d)
{
    const dpti_rounds *r = &t->rounds;
    const float mu = t->outer_momentum;
    if (r->velocity) {
        r->velocity[i] = mu * r->velocity[i] + d;
        d += mu * r->velocity[i];
    }
    return r->beginning[i] - t->outer_lr * d;
}

/* The outer step of a fragment.  `mean` (flat_trained) is the mean of what has changed, and becomes
   the new parameters. */
static void take_outer_step(dpt_trainer *t, dpti_range range, float *mean)
{
    for (size_t i = range.begin; i < range.end; i++)
        mean[i] = step_parameter(t, i, mean[i]);
}

/* `mean` is that of what has changed, and becomes the running statistics. */
static void take_statistics(const dpt_trainer *t, float *mean)
{
    for (size_t i = t->model->flat_trained; i < t->model->flat_gradients; i++)
        mean[i] = t->rounds.beginning[i] - mean[i];
}

/* Whether there are samples since the last exchange of fragment f. */
static bool has_changed(const dpt_trainer *t, size_t f)
{
    bool any = false;
    for (size_t p = 0; p < dpti_processes_count(t->processes); p++)
        any = any || samples_of(t, f)[p] > 0;
    return any;
}

/* Makes what this process contributes of its training state.  A fragment that has not changed since
   its last exchange is the same in all processes, and stays. */
static void weigh(dpt_trainer *t, size_t n_kinds, float *const *flats)
{
    const dpti_rounds *r = &t->rounds;
    const size_t n_trained = t->model->flat_trained;
    for (size_t f = 0; f < t->n_fragments; f++) {
        const dpti_range range = fragment_range(t, f);
        const float part = own_part(t, samples_of(t, f), contributes_of(t, f));
        const bool changed = has_changed(t, f);
        for (size_t i = range.begin; changed && i < range.end; i++)
            flats[0][i] = part * (r->beginning[i] - flats[0][i]);
    }
    const float since = own_part(t, r->since, r->contributed);
    for (size_t i = n_trained; i < t->model->flat_gradients; i++)
        flats[0][i] = since * (r->beginning[i] - flats[0][i]);
    for (size_t k = 1; k < n_kinds; k++)
        for (size_t i = 0; i < n_trained; i++)
            flats[k][i] *= since;
}

static dpt_status fail_not_finite(dpt_trainer *t)
{
    dpti_processes_know(t->processes);
    return dpt_fail(t->context, DPT_E_NOT_FINITE,
                    "what has changed in a round of local steps is not finite: training diverges; "
                    "lower the learning rate (now %g)",
                    (double)t->lr);
}

/* Waits for what was started. */
static dpt_status finish_sums(dpt_trainer *t)
{
    dpt_error error = {.status = DPT_OK};
    if (dpti_processes_finish_collectives(t->processes, &error) != DPT_OK)
        return dpti_context_fail(t->context, NULL, &error);
    return t->rounds.finite ? DPT_OK : fail_not_finite(t);
}

/* Takes over what is owed after the sum of a fragment. */
static void commit_feedback(dpti_feedback *feedback, dpti_range range)
{
    if (feedback) dpti_feedback_commit_part(feedback, range.begin, dpti_range_size(range));
}

dpt_status dpti_rounds_join(dpt_trainer *trainer, size_t n_kinds, float *const *flats,
                            dpti_feedback *feedback)
{
    dpt_trainer *t = trainer;
    bool *finite = &t->rounds.finite;
    *finite = true;
    weigh(t, n_kinds, flats);
    for (size_t f = 0; f < t->n_fragments; f++)
        if (has_changed(t, f))
            start_sum_of_changes(t, f, flats[0] + fragment_range(t, f).begin, feedback);
    start_sum_of_statistics(t, flats[0], finite);
    for (size_t k = 1; k < n_kinds; k++)
        start_sum_of_state(t, flats[k], feedback != NULL, finite);
    DPT_TRY(finish_sums(t));
    for (size_t f = 0; f < t->n_fragments; f++) {
        if (!has_changed(t, f)) continue;
        commit_feedback(feedback, fragment_range(t, f));
        take_outer_step(t, fragment_range(t, f), flats[0]);
    }
    take_statistics(t, flats[0]);
    return DPT_OK;
}

/* ---- With an outer delay --------------------------------------------------------------------- */

dpt_status dpti_rounds_make_room(dpt_trainer *trainer)
{
    dpti_rounds *r = &trainer->rounds;
    const size_t n = largest_fragment(trainer->model->flat_trained, trainer->n_fragments);
    if (!r->travelling) r->travelling = calloc(n + 1, sizeof *r->travelling);
    if (!r->noted) r->noted = calloc(n + 1, sizeof *r->noted);
    if (r->travelling && r->noted) return DPT_OK;
    return dpt_fail(trainer->context, DPT_E_NO_MEMORY, "no memory for the exchange of a round");
}

void dpti_rounds_start_exchange(dpt_trainer *trainer, const float *now,
                                const dpti_feedback *feedback)
{
    dpt_trainer *t = trainer;
    dpti_rounds *r = &t->rounds;
    const size_t f = fragment_at(t, step_of_epoch(t, dpti_steps_done(t)));
    const dpti_range range = fragment_range(t, f);
    const float part = own_part(t, samples_of(t, f), contributes_of(t, f));
    for (size_t i = range.begin; i < range.end; i++) {
        r->noted[i - range.begin] = now[i];
        r->travelling[i - range.begin] = part * (r->beginning[i] - now[i]);
    }
    r->fragment = f;
    r->finite = r->in_flight = true;
    start_sum_of_changes(t, f, r->travelling, feedback);
    forget_samples(t, samples_of(t, f), 1);
}

bool dpti_rounds_in_flight(const dpt_trainer *trainer)
{
    return trainer->rounds.in_flight;
}

dpt_status dpti_rounds_take_exchange(dpt_trainer *trainer, float *now, dpti_feedback *feedback)
{
    dpti_rounds *r = &trainer->rounds;
    const dpti_range range = fragment_range(trainer, r->fragment);
    DPT_TRY(finish_sums(trainer));
    commit_feedback(feedback, range);
    r->in_flight = false;
    for (size_t i = range.begin; i < range.end; i++) {
        r->beginning[i] = step_parameter(trainer, i, r->travelling[i - range.begin]);
        now[i] = r->beginning[i] + (now[i] - r->noted[i - range.begin]);
    }
    return DPT_OK;
}

void dpti_rounds_close(dpt_trainer *trainer)
{
    drop_exchange(trainer);
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
    drop_exchange(trainer);
    r->open = false;
    if (r->velocity) memset(r->velocity, 0, trainer->model->flat_gradients * sizeof *r->velocity);
}
