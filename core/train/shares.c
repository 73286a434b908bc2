/* The shares of a trainer's steps: from a split or from the log of an earlier run, and the most
   that a device will ever see. */
#include "train/trainer.h"

#include "base/base.h"

#include <stdlib.h>
#include <string.h>

static const char replay_prefix[] = "replay:";

static dpt_status load_replay(dpt_trainer *t, const char *path)
{
    dpt_error error = {0};
    if (!*path)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "split \"replay:\" names no log; write \"replay:FILE\"");
    if (dpti_replay_read(path, &t->replay, &error) != DPT_OK)
        return dpti_context_fail(t->context, NULL, &error);
    if (t->replay.n_devices != t->n_workers)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "log %s is of a run on %zu devices, but this one has %zu", path,
                        t->replay.n_devices, t->n_workers);
    if (t->replay.batch_size != t->batch_size)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "log %s is of a run with batches of %zu, but this one has %zu", path,
                        t->replay.batch_size, t->batch_size);
    for (size_t i = 0; i < t->replay.n_steps * t->n_workers; i++)
        if (t->replay.shards[i] > t->batch_size)
            return dpt_fail(t->context, DPT_E_FORMAT,
                            "log %s: step %zu gives a device more samples than the batch has", path,
                            i / t->n_workers + 1);
    return DPT_OK;
}

dpt_status dpti_trainer_take_split(dpt_trainer *trainer, const char *text)
{
    dpt_trainer *t = trainer;
    dpt_error error = {0};
    if (!text) text = "equal";
    t->split_text = dpti_strdup(text);
    if (!t->split_text) return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for a trainer");
    if (strncmp(text, replay_prefix, strlen(replay_prefix)) == 0)
        return load_replay(t, text + strlen(replay_prefix));
    if (dpti_split_parse(text, t->n_workers, &t->split, &error) != DPT_OK)
        return dpti_context_fail(t->context, NULL, &error);
    return DPT_OK;
}

dpt_status dpti_trainer_check_steps(dpt_trainer *trainer, size_t n_steps)
{
    const dpt_trainer *t = trainer;
    if (t->replay.n_steps == 0 || n_steps <= t->replay.n_steps - t->next.step) return DPT_OK;
    return dpt_fail(t->context, DPT_E_INVALID,
                    "the log that is replayed has shares for %zu steps; ask for no more steps than "
                    "that",
                    t->replay.n_steps);
}

dpt_status dpti_trainer_divide(dpt_trainer *trainer, const dpti_cursor *cursor, size_t n_samples,
                               size_t *rows)
{
    dpt_trainer *t = trainer;
    if (t->replay.n_steps == 0) {
        dpti_split_rows(&t->split, n_samples, rows);
        return DPT_OK;
    }
    DPT_TRY(dpti_trainer_check_steps(t, 1));
    size_t sum = 0;
    memcpy(rows, t->replay.shards + cursor->step * t->n_workers, t->n_workers * sizeof *rows);
    for (size_t i = 0; i < t->n_workers; i++)
        sum += rows[i];
    if (sum != n_samples)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "the log that is replayed has %zu samples in step %zu, but the batch has "
                        "%zu; is it of the same data set?",
                        sum, cursor->step + 1, n_samples);
    return DPT_OK;
}

static void raise(size_t *capacities, const size_t *rows, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (rows[i] > capacities[i]) capacities[i] = rows[i];
}

dpt_status dpti_trainer_find_capacities(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    const size_t n = t->n_workers;
    size_t *rows = calloc(2 * n, sizeof *rows);
    if (!rows) return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for a trainer");
    size_t *capacities = rows + n;
    if (t->replay.n_steps > 0) {
        for (size_t s = 0; s < t->replay.n_steps; s++)
            raise(capacities, t->replay.shards + s * n, n);
        /* Evaluation follows what devices can hold. */
        t->split = (dpti_split){.n_devices = n};
        for (size_t i = 0; i < n; i++)
            t->split.parts[i] = (double)capacities[i];
    } else {
        dpti_split_rows(&t->split, t->batch_size, rows);
        raise(capacities, rows, n);
        const size_t rest = t->data->count % t->batch_size;
        if (rest > 0) {
            dpti_split_rows(&t->split, rest, rows);
            raise(capacities, rows, n);
        }
    }
    for (size_t i = 0; i < n; i++)
        t->workers[i].capacity = capacities[i];
    free(rows);
    return DPT_OK;
}
