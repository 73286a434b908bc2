/* Shards of a trainer's steps (shards.h), and the most samples that a device will ever see. */
#include "train/plan/shards.h"

#include "base/grains.h"
#include "base/text.h"
#include "context/context.h"
#include "device/set.h"
#include "train/membership/presence.h"
#include "train/peers/peers.h"
#include "train/plan/micro_batches.h"
#include "train/progress/in_flight.h"
#include "train/state/in_flight_step.h"
#include "train/state/trainer.h"

#include <stdlib.h>
#include <string.h>

static const char replay_prefix[] = "replay:";

/* In deterministic training a shard is a run of whole grains. */
static void to_grains(const dpt_trainer *t, size_t n_samples, size_t *rows)
{
    const dpti_grains grains = dpti_grains_of(n_samples);
    if (t->program.deterministic && n_samples > 0 && n_samples <= t->batch_size)
        dpti_grains_round(&grains, t->n_devices, rows);
}

/* Forgets recorded algorithms that do not apply: another network has other operations, and a device
   of another backend has other algorithms. */
static void forget_foreign_choices(dpt_trainer *t)
{
    const bool same_model = strcmp(t->replay.model, t->model->name) == 0;
    for (size_t i = 0; i < t->n_workers; i++) {
        const char *backend = t->devices->devices[i]->base.backend->name;
        const size_t device = t->first_device + i;
        if (!same_model || strcmp(t->replay.backends[device], backend) != 0)
            dpti_replay_forget_choices(&t->replay, device);
    }
}

/* The shards of a log that was not written by a deterministic training may be no whole grains. */
static void round_replayed(dpt_trainer *t)
{
    for (size_t s = 0; s < t->replay.n_steps; s++) {
        size_t *shards = t->replay.shards + s * t->n_devices, n = 0;
        for (size_t i = 0; i < t->n_devices; i++)
            n += shards[i];
        to_grains(t, n, shards);
    }
}

static dpt_status load_replay(dpt_trainer *t, const char *path)
{
    dpt_error error = {0};
    if (!*path)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "split \"replay:\" names no log; write \"replay:FILE\"");
    if (dpti_replay_read(path, &t->replay, &error) != DPT_OK)
        return dpti_context_fail(t->context, NULL, &error);
    if (t->replay.n_devices != t->n_devices)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "log %s is of a run on %zu devices, but this one has %zu", path,
                        t->replay.n_devices, t->n_devices);
    if (t->replay.batch_size != dpti_step_samples(t))
        return dpt_fail(t->context, DPT_E_INVALID,
                        "log %s is of a run with batches of %zu, but this one has %zu", path,
                        t->replay.batch_size, dpti_step_samples(t));
    for (size_t i = 0; i < t->replay.n_steps * t->n_devices; i++)
        if (t->replay.shards[i] > dpti_step_samples(t))
            return dpt_fail(t->context, DPT_E_FORMAT,
                            "log %s: step %zu gives a device more samples than the batch has", path,
                            i / t->n_devices + 1);
    forget_foreign_choices(t);
    round_replayed(t);
    return DPT_OK;
}

dpt_status dpti_plan_create(dpt_trainer *trainer)
{
    return dpti_account_create(trainer->n_devices, dpti_step_samples(trainer),
                               &trainer->plan.account)
               ? DPT_OK
               : DPT_E_NO_MEMORY;
}

void dpti_plan_destroy(dpt_trainer *trainer)
{
    dpti_account_free(&trainer->plan.account);
    dpti_balance_destroy(trainer->plan.balance);
    free(trainer->plan.split_text);
}

const char *dpti_shards_split_text(const dpt_trainer *trainer)
{
    return trainer->plan.split_text;
}

const dpti_split *dpti_shards_split(const dpt_trainer *trainer)
{
    return &trainer->plan.split;
}

dpti_balance *dpti_shards_balance(const dpt_trainer *trainer)
{
    return trainer->plan.balance;
}

const dpti_account *dpti_shards_account(const dpt_trainer *trainer)
{
    return &trainer->plan.account;
}

const char *dpti_trainer_replayed(const dpt_trainer *trainer)
{
    const char *text = trainer->plan.split_text;
    const size_t length = strlen(replay_prefix);
    return strncmp(text, replay_prefix, length) == 0 ? text + length : NULL;
}

/* The devices of all processes at the start. */
typedef struct first_devices {
    size_t n;
    size_t n_untold; /* of these, in processes that died before they told how many they have */
} first_devices;

/* Counts them, for the numbers of a split.  If processes have not told, the numbers that are left
   over are theirs, as long as it is clear which ones these are. */
static dpt_status count_first(const dpt_trainer *t, const char *numbers, first_devices *out)
{
    const dpti_device_counts *c = &t->context->counts;
    size_t n = 0, n_told = 0, n_untold = 0, n_gaps = 0;
    for (const char *at = numbers; at; at = strchr(at, ':') ? strchr(at, ':') + 1 : NULL)
        n++;
    for (size_t i = 0; i < c->n; i++) {
        n_told += c->of[i];
        if (c->of[i] > 0) continue;
        n_untold++;
        if (i == 0 || c->of[i - 1] > 0) n_gaps++;
    }
    if (n_gaps > 1)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "%zu processes died before they told their devices, so it is not known "
                        "which numbers of the split %.100s are theirs: start the training again",
                        n_untold, numbers);
    if (n_gaps > 0 && n > n_told + n_untold) n_untold = n - n_told;
    *out = (first_devices){.n = n_told + n_untold, .n_untold = n_untold};
    return DPT_OK;
}

/* Leaves out the devices of processes that have died. */
static void leave_out_dead(const dpt_trainer *t, size_t n_untold, dpti_split *split)
{
    const dpti_device_counts *c = &t->context->counts;
    size_t n = 0, at = 0;
    double sum = 0;
    for (size_t i = 0; i < c->n; i++) {
        if (c->of[i] == 0) {
            at += n_untold;
            n_untold = 0; /* of all processes in the one gap */
        }
        for (size_t k = 0; k < c->of[i]; k++, at++) {
            if (!dpti_processes_live(t->processes, i)) continue;
            sum += split->parts[at];
            split->parts[n++] = split->parts[at];
        }
    }
    split->n_devices = n;
    if (!(sum > 0)) split->equal = true;
}

static bool any_dead(const dpt_trainer *t)
{
    const dpti_processes *p = t->processes;
    return p && dpti_processes_count(p) < dpti_processes_first_count(p);
}

dpt_status dpti_trainer_take_split(dpt_trainer *trainer, dpt_split given)
{
    dpt_trainer *t = trainer;
    dpt_error error = {0};
    const bool measured = given.kind == DPT_SPLIT_MEASURED;
    t->plan.split_text = dpti_split_text(given);
    const char *text = t->plan.split_text;
    if (!text) return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for a trainer");
    if (dpti_trainer_replayed(t)) return load_replay(t, dpti_trainer_replayed(t));
    t->measured = measured && t->n_devices > 1;
    if (measured) text = "equal"; /* until throughput is measured */
    const bool of_first = given.kind == DPT_SPLIT_PROPORTIONS && any_dead(t);
    first_devices first = {.n = t->n_devices};
    if (of_first) DPT_TRY(count_first(t, text, &first));
    if (dpti_split_parse(text, first.n, &t->plan.split, &error) != DPT_OK)
        return dpti_context_fail(t->context, NULL, &error);
    if (of_first) leave_out_dead(t, first.n_untold, &t->plan.split);
    return DPT_OK;
}

dpt_status dpti_trainer_check_steps(dpt_trainer *trainer, size_t n_steps)
{
    const dpt_trainer *t = trainer;
    if (t->replay.n_steps == 0 || n_steps <= t->replay.n_steps - dpti_steps_next(t)->step)
        return DPT_OK;
    return dpt_fail(t->context, DPT_E_INVALID,
                    "the log that is replayed has shards for %zu steps; ask for no more steps than "
                    "that",
                    t->replay.n_steps);
}

void dpti_trainer_split_left(const dpt_trainer *trainer, const dpti_split *split, size_t n_rows,
                             size_t *rows)
{
    const dpt_trainer *t = trainer;
    dpti_split left = {.equal = split->equal};
    size_t of_left[DPTI_SPLIT_MAX_DEVICES];
    double sum = 0;
    if (t->processes) { /* with several processes no device is lost */
        dpti_split_rows(split, n_rows, rows);
        to_grains(t, n_rows, rows);
        return;
    }
    for (size_t i = 0; i < t->n_workers; i++) {
        if (dpti_is_lost(&t->workers[i])) continue;
        left.parts[left.n_devices++] = split->parts[i];
        sum += split->parts[i];
    }
    if (!(sum > 0)) left.equal = true;
    if (left.n_devices > 0) dpti_split_rows(&left, n_rows, of_left);
    for (size_t i = 0, k = 0; i < t->n_workers; i++)
        rows[i] = dpti_is_lost(&t->workers[i]) ? 0 : of_left[k++];
    to_grains(t, n_rows, rows);
}

/* Shards of a log when devices are lost: in the proportions of the others' shards. */
static void divide_rows_left(const dpt_trainer *t, size_t n_samples, size_t *rows)
{
    dpti_split split = {.n_devices = t->n_workers};
    for (size_t i = 0; i < t->n_workers; i++)
        split.parts[i] = (double)rows[i];
    dpti_trainer_split_left(t, &split, n_samples, rows);
}

static dpt_status divide_replayed(dpt_trainer *t, size_t step, size_t n_samples, size_t *rows)
{
    DPT_TRY(dpti_trainer_check_steps(t, 1));
    size_t sum = 0;
    memcpy(rows, t->replay.shards + step * t->n_devices, t->n_devices * sizeof *rows);
    for (size_t i = 0; i < t->n_devices; i++)
        sum += rows[i];
    if (sum == n_samples && dpti_trainer_n_lost(t) > 0) divide_rows_left(t, n_samples, rows);
    if (sum != n_samples)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "the log that is replayed has %zu samples in step %zu, but the batch has "
                        "%zu; is it of the same data set?",
                        sum, step + 1, n_samples);
    to_grains(t, n_samples, rows);
    return DPT_OK;
}

/* ---- Batches of a step ---- */

size_t dpti_trainer_n_batches(const dpt_trainer *trainer, size_t n_samples)
{
    return n_samples / trainer->batch_size + (n_samples % trainer->batch_size != 0);
}

static size_t sum_of(const size_t *rows, size_t n)
{
    size_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += rows[i];
    return sum;
}

/* Whether device i has room for one more row of a batch; capacities are not known at first. */
static bool has_room(const dpt_trainer *t, size_t i, const size_t *left, const size_t *rows)
{
    const size_t capacity = dpti_peers_device(t, i)->capacity;
    return rows[i] < left[i] && (capacity == 0 || rows[i] < capacity);
}

/* Takes n rows of those that are left, in their proportions.  The largest remainders are rounded
   up. */
static void take_rows(const dpt_trainer *t, const size_t *left, size_t n, size_t *rows)
{
    const size_t sum = sum_of(left, t->n_devices);
    size_t remainders[DPTI_SPLIT_MAX_DEVICES];
    for (size_t i = 0; i < t->n_devices; i++) {
        rows[i] = left[i] * n / sum;
        remainders[i] = left[i] * n % sum;
    }
    for (size_t missing = n - sum_of(rows, t->n_devices); missing > 0; missing--) {
        size_t best = t->n_devices;
        for (size_t i = 0; i < t->n_devices; i++)
            if (has_room(t, i, left, rows) &&
                (best == t->n_devices || remainders[i] > remainders[best]))
                best = i;
        if (best == t->n_devices) break; /* cannot happen: the capacities hold */
        rows[best]++;
        remainders[best] = 0;
    }
}

void dpti_trainer_batch_rows(const dpt_trainer *trainer, const dpti_step_batch *batch, size_t *rows)
{
    const dpt_trainer *t = trainer;
    size_t left[DPTI_SPLIT_MAX_DEVICES], n_samples = batch->n_samples;
    memcpy(left, batch->shards, t->n_devices * sizeof *left);
    for (size_t b = batch->batch;; b--) {
        const size_t n = n_samples < t->batch_size ? n_samples : t->batch_size;
        if (n < n_samples)
            take_rows(t, left, n, rows);
        else
            memcpy(rows, left, t->n_devices * sizeof *rows);
        if (b == 0) return;
        for (size_t i = 0; i < t->n_devices; i++)
            left[i] -= rows[i];
        n_samples -= n;
    }
}

/* From the shards of the step's first batch to those of the step. */
static void multiply_shards(const dpt_trainer *t, dpti_in_flight_step *inflight)
{
    const size_t n_whole = inflight->n_samples / t->batch_size;
    dpti_split split = {.n_devices = t->n_devices};
    size_t rest[DPTI_SPLIT_MAX_DEVICES];
    if (inflight->n_samples <= t->batch_size) return;
    for (size_t i = 0; i < t->n_devices; i++)
        split.parts[i] = (double)inflight->shards[i];
    dpti_split_rows(&split, inflight->n_samples % t->batch_size, rest);
    for (size_t i = 0; i < t->n_devices; i++)
        inflight->shards[i] = n_whole * inflight->shards[i] + rest[i];
}

/* Whole grains of the last batch of an epoch can be more than a device holds that has little
   memory. */
static dpt_status check_room(dpt_trainer *t, const dpti_in_flight_step *inflight)
{
    for (size_t i = 0; i < t->n_devices; i++) {
        const dpti_peer *device = dpti_peers_device(t, i);
        if (inflight->shards[i] <= device->capacity) continue;
        return dpt_fail(t->context, DPT_E_INVALID,
                        "%s holds %zu samples, and whole grains of a batch of %zu give it %zu: use "
                        "another batch size, or more memory",
                        device->id, device->capacity, inflight->n_samples, inflight->shards[i]);
    }
    return DPT_OK;
}

dpt_status dpti_trainer_divide(dpt_trainer *trainer, dpti_in_flight_step *inflight)
{
    dpt_trainer *t = trainer;
    const size_t n = inflight->n_samples < t->batch_size ? inflight->n_samples : t->batch_size;
    inflight->reason = DPTI_BALANCE_SAME;
    if (t->replay.n_steps > 0)
        return divide_replayed(t, inflight->cursor.step, inflight->n_samples, inflight->shards);
    if (t->plan.balance) {
        inflight->reason = dpti_balance_next(t->plan.balance, n, inflight->shards);
        to_grains(t, n, inflight->shards);
        if (t->program.deterministic && n == t->batch_size)
            dpti_balance_adopt(t->plan.balance, inflight->shards);
        (void)dpti_balance_rates(t->plan.balance,
                                 inflight->throughput); /* zero until the rates are known */
    } else {
        dpti_trainer_split_left(t, &t->plan.split, n, inflight->shards);
    }
    multiply_shards(t, inflight);
    return t->program.deterministic ? check_room(t, inflight) : DPT_OK;
}

dpt_status dpti_trainer_first_shards(dpt_trainer *trainer, size_t *rows)
{
    dpt_trainer *t = trainer;
    size_t shards[DPTI_SPLIT_MAX_DEVICES];
    if (t->replay.n_steps == 0) {
        dpti_trainer_split_left(t, &t->plan.split, t->batch_size, rows);
        return DPT_OK;
    }
    DPT_TRY(divide_replayed(t, 0, dpti_step_samples(t), shards));
    dpti_trainer_batch_rows(t, &(dpti_step_batch){shards, dpti_step_samples(t), 0}, rows);
    return DPT_OK;
}

/* The balance sees the mean of a step's batches, and nothing of a step with a ragged batch.  It
   sees no time of a device that had a first run. */
static void observe_balance(dpt_trainer *t, const dpti_in_flight_step *inflight)
{
    size_t rows[DPTI_SPLIT_MAX_DEVICES];
    double seconds[DPTI_SPLIT_MAX_DEVICES];
    const size_t n = dpti_trainer_n_batches(t, inflight->n_samples);
    if (n > 1 && inflight->n_samples != n * t->batch_size) return;
    for (size_t i = 0; i < t->n_devices; i++) {
        rows[i] = inflight->shards[i] / n;
        seconds[i] =
            inflight->outcomes[i].first_run ? 0.0 : inflight->device_seconds[i] / (double)n;
    }
    dpti_balance_observe(t->plan.balance, rows, seconds);
}

void dpti_trainer_observe(dpt_trainer *trainer, const dpti_in_flight_step *inflight, double seconds)
{
    dpt_trainer *t = trainer;
    for (size_t i = 0; i < t->n_devices; i++)
        dpti_account_add(&t->plan.account, i,
                         &(dpti_device_step){inflight->shards[i], inflight->outcomes[i].seconds,
                                             inflight->outcomes[i].first_run});
    dpti_account_add_step(&t->plan.account, inflight->n_samples, seconds);
    if (t->plan.balance) observe_balance(t, inflight);
}

dpt_status dpti_trainer_start_balance(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    size_t capacities[DPTI_SPLIT_MAX_DEVICES];
    if (!t->measured) return DPT_OK;
    for (size_t i = 0; i < t->n_devices; i++)
        capacities[i] = dpti_peers_device(t, i)->capacity;
    const dpti_balance_options options = {
        .n_devices = t->n_devices,
        .batch_size = t->batch_size,
        .quantum = t->program.deterministic ? dpti_grains_of(t->batch_size).size : 1,
        .capacities = capacities};
    t->plan.balance = dpti_balance_create(&options);
    if (!t->plan.balance) return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for a trainer");
    for (size_t i = 0; i < t->n_workers; i++)
        if (dpti_is_lost(&t->workers[i]) && !dpti_balance_lose(t->plan.balance, i))
            return dpt_fail(t->context, DPT_E_INVALID,
                            "without %s, which is lost, the devices hold no batch of %zu: use a "
                            "smaller batch size, or a micro-batch",
                            t->workers[i].device->id, t->batch_size);
    return DPT_OK;
}

void dpti_trainer_update_split(dpt_trainer *trainer)
{
    dpti_split measured = {.n_devices = trainer->n_devices};
    if (trainer->plan.balance && dpti_balance_rates(trainer->plan.balance, measured.parts))
        trainer->plan.split = measured;
}

static void raise(size_t *capacities, const size_t *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (rows[i] > capacities[i]) capacities[i] = rows[i];
}

static void raise_replayed(const dpt_trainer *t, size_t step, size_t *capacities, size_t *rows)
{
    size_t shards[DPTI_SPLIT_MAX_DEVICES];
    memcpy(shards, t->replay.shards + step * t->n_devices, t->n_devices * sizeof *shards);
    const size_t n = sum_of(shards, t->n_devices);
    if (dpti_trainer_n_lost(t) > 0) divide_rows_left(t, n, shards);
    for (size_t b = 0; b < dpti_trainer_n_batches(t, n); b++) {
        dpti_trainer_batch_rows(t, &(dpti_step_batch){shards, n, b}, rows);
        raise(capacities, rows, t->n_devices);
    }
}

/* ---- Nodes of grains ---- */

size_t dpti_trainer_nodes_in(const dpt_trainer *trainer, size_t device, const size_t *rows)
{
    const dpt_trainer *t = trainer;
    const dpti_grains grains = dpti_grains_of(sum_of(rows, t->n_devices));
    const size_t first = sum_of(rows, device), end = first + rows[device];
    if (!t->program.deterministic || rows[device] == 0) return 0;
    const dpti_grain_node shard = {first / grains.size, (end + grains.size - 1) / grains.size};
    return dpti_most_nodes(&grains, shard, t->workers[device - t->first_device].replica.capacity);
}

static size_t nodes_in_split(const dpt_trainer *t, size_t device, size_t n_samples)
{
    size_t rows[DPTI_SPLIT_MAX_DEVICES];
    if (n_samples == 0) return 0;
    dpti_trainer_split_left(t, &t->plan.split, n_samples, rows);
    return dpti_trainer_nodes_in(t, device, rows);
}

static size_t nodes_in_log(const dpt_trainer *t, size_t device)
{
    size_t most = 0, shards[DPTI_SPLIT_MAX_DEVICES];
    for (size_t s = 0; s < t->replay.n_steps; s++) {
        memcpy(shards, t->replay.shards + s * t->n_devices, t->n_devices * sizeof *shards);
        if (dpti_trainer_n_lost(t) > 0) divide_rows_left(t, sum_of(shards, t->n_devices), shards);
        const size_t n = dpti_trainer_nodes_in(t, device, shards);
        if (n > most) most = n;
    }
    return most;
}

size_t dpti_trainer_known_nodes(const dpt_trainer *trainer, size_t device)
{
    const dpt_trainer *t = trainer;
    if (t->measured) return 0;
    if (t->replay.n_steps > 0) return nodes_in_log(t, device);
    const size_t whole = nodes_in_split(t, device, t->batch_size);
    const size_t rest = nodes_in_split(t, device, t->data->count % t->batch_size);
    return whole > rest ? whole : rest;
}

dpt_status dpti_trainer_find_capacities(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    const size_t n = t->n_devices;
    size_t *rows = calloc(2 * n, sizeof *rows);
    if (!rows) return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for a trainer");
    size_t *capacities = rows + n;
    if (t->replay.n_steps > 0) {
        for (size_t s = 0; s < t->replay.n_steps; s++)
            raise_replayed(t, s, capacities, rows);
        /* Evaluation divides samples by what devices can hold. */
        t->plan.split = (dpti_split){.n_devices = n};
        for (size_t i = 0; i < n; i++)
            t->plan.split.parts[i] = (double)capacities[i];
    } else if (t->measured) {
        for (size_t i = 0; i < n; i++)
            capacities[i] = t->batch_size;
    } else {
        dpti_trainer_split_left(t, &t->plan.split, t->batch_size, rows);
        raise(capacities, rows, n);
        const size_t rest = t->data->count % t->batch_size;
        if (rest > 0) {
            dpti_trainer_split_left(t, &t->plan.split, rest, rows);
            raise(capacities, rows, n);
        }
    }
    for (size_t i = 0; i < t->n_workers; i++)
        t->workers[i].capacity = capacities[t->first_device + i];
    free(rows);
    return DPT_OK;
}
