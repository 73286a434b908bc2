/* Growing arrays of a run's steps and epochs, which become its picture. */
#include "fit/history.h"
#include "context/context.h"

#include "base/print.h"
#include "base/size.h"
#include "io/log.h"
#include "io/plot.h"
#include "train/peers/peers.h"
#include "train/state/trainer.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool enlarge(void **items, size_t n, size_t item_bytes)
{
    size_t n_bytes;
    if (!dpti_multiply(n, item_bytes, &n_bytes)) return false;
    void *grown = realloc(*items, n_bytes);
    if (grown) *items = grown;
    return grown != NULL;
}

bool dpti_history_add_step(dpti_history *history, const dpt_step_metrics *step)
{
    dpti_history *h = history;
    if (h->n_steps == h->steps_capacity) {
        const size_t n = h->steps_capacity ? 2 * h->steps_capacity : 1024;
        if (!enlarge((void **)&h->loss, n, sizeof *h->loss) ||
            !enlarge((void **)&h->lr, n, sizeof *h->lr) ||
            !enlarge((void **)&h->epoch, n, sizeof *h->epoch) ||
            !enlarge((void **)&h->rebalanced, n, sizeof *h->rebalanced) ||
            !enlarge((void **)&h->shards, n, step->n_devices * sizeof *h->shards))
            return false;
        h->steps_capacity = n;
    }
    /* Steps before a gap are not drawn. */
    if (h->n_steps > 0 && step->step != h->steps_before + h->n_steps + 1) h->n_steps = 0;
    if (h->n_steps == 0) h->steps_before = step->step - 1;
    h->loss[h->n_steps] = step->loss;
    h->lr[h->n_steps] = step->lr;
    h->epoch[h->n_steps] = step->epoch;
    /* The first shards are not a change. */
    h->rebalanced[h->n_steps] = step->rebalance && h->n_steps > 0;
    memcpy(h->shards + h->n_steps * step->n_devices, step->shards,
           step->n_devices * sizeof *h->shards);
    h->n_steps++;
    return true;
}

bool dpti_history_add_epoch(dpti_history *history, const dpt_epoch_metrics *epoch)
{
    dpti_history *h = history;
    if (h->n_epochs == h->epochs_capacity) {
        const size_t n = h->epochs_capacity ? 2 * h->epochs_capacity : 32;
        double **const arrays[] = {&h->train_loss,     &h->validation_loss,     &h->test_loss,
                                   &h->train_accuracy, &h->validation_accuracy, &h->test_accuracy};
        for (size_t i = 0; i < sizeof arrays / sizeof *arrays; i++)
            if (!enlarge((void **)arrays[i], n, sizeof **arrays[i])) return false;
        h->epochs_capacity = n;
    }
    if (h->n_epochs > 0 && epoch->epoch != h->epochs_before + h->n_epochs + 1) h->n_epochs = 0;
    if (h->n_epochs == 0) h->epochs_before = epoch->epoch - 1;
    h->train_loss[h->n_epochs] = epoch->train_loss;
    h->validation_loss[h->n_epochs] = epoch->validated ? epoch->validation_loss : NAN;
    h->test_loss[h->n_epochs] = epoch->tested ? epoch->test_loss : NAN;
    h->train_accuracy[h->n_epochs] = epoch->train_accuracy;
    h->validation_accuracy[h->n_epochs] = epoch->validated ? epoch->validation_accuracy : NAN;
    h->test_accuracy[h->n_epochs] = epoch->tested ? epoch->test_accuracy : NAN;
    h->n_epochs++;
    return true;
}

/* Returns how many of n entries, the first of which has the number before + 1, are left up to the
   number `last`. */
static size_t left_of(size_t n, size_t before, size_t last)
{
    const size_t most = last > before ? last - before : 0;
    return n < most ? n : most;
}

void dpti_history_cut(dpti_history *history, size_t step, size_t epoch)
{
    dpti_history *h = history;
    h->n_steps = left_of(h->n_steps, h->steps_before, step);
    h->n_epochs = left_of(h->n_epochs, h->epochs_before, epoch - 1);
}

static bool recall_step(void *user, const dpt_step_metrics *step)
{
    return dpti_history_add_step(user, step);
}

static bool recall_epoch(void *user, const dpt_epoch_metrics *epoch)
{
    return dpti_history_add_epoch(user, epoch);
}

dpt_status dpti_history_recall(dpti_history *history, const char *log, size_t n_devices,
                               dpt_error *error)
{
    const dpti_log_listener listener = {
        .n_devices = n_devices, .step = recall_step, .epoch = recall_epoch, .user = history};
    return dpti_log_recall(log, &listener, error);
}

void dpti_history_free(dpti_history *history)
{
    free(history->loss);
    free(history->lr);
    free(history->train_loss);
    free(history->validation_loss);
    free(history->test_loss);
    free(history->epoch);
    free(history->shards);
    free(history->rebalanced);
    free(history->train_accuracy);
    free(history->validation_accuracy);
    free(history->test_accuracy);
    *history = (dpti_history){0};
}

dpt_status dpti_history_plot(const dpti_history *history, const dpt_trainer *trainer,
                             double images_per_second, const char *path)
{
    const dpt_trainer *t = trainer;
    const dpti_history *h = history;
    dpt_error error = {0};
    char subtitle[256];
    const char **ids = calloc(t->n_devices, sizeof *ids);
    if (!ids) return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for the picture %s", path);
    for (size_t i = 0; i < t->n_devices; i++)
        ids[i] = dpti_peers_device(t, i)->id;
    char steps[64];
    if (h->steps_before == 0)
        snprintf(steps, sizeof steps, "%zu steps", h->n_steps);
    else
        snprintf(steps, sizeof steps, "steps %zu to %zu", h->steps_before + 1,
                 h->steps_before + h->n_steps);
    dpti_print(subtitle, sizeof subtitle, "batch %zu, learning rate %g, %s, %.0f images/s",
               dpti_step_samples(t), (double)t->lr, steps, images_per_second);
    char *title = dpti_format("%s on %s", t->model->name, t->data->name);
    const dpti_plot plot = {.title = title ? title : t->model->name,
                            .subtitle = subtitle,
                            .steps_before = h->steps_before,
                            .n_steps = h->n_steps,
                            .loss = h->loss,
                            .epoch = h->epoch,
                            .epochs_before = h->epochs_before,
                            .n_epochs = h->n_epochs,
                            .train_accuracy = h->train_accuracy,
                            .validation_accuracy = h->validation_accuracy,
                            .test_accuracy = h->test_accuracy,
                            .n_devices = t->n_devices,
                            .devices = ids,
                            .shards = h->shards,
                            .rebalanced = h->rebalanced};
    const dpt_status status = dpti_plot_write(path, &plot, &error);
    free(title);
    free(ids);
    return status == DPT_OK ? DPT_OK : dpti_context_fail(t->context, NULL, &error);
}
