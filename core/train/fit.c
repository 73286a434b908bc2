/* The training loop: epochs, limits, tests, and what is written on the way. */
#include "train/trainer.h"

#include "base/base.h"
#include "io/plot.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* What the plot shows, kept only if one was asked for. */
typedef struct history {
    size_t n_steps, steps_capacity, n_epochs, epochs_capacity;
    double *loss;
    size_t *epoch, *shards;
    double *train_accuracy, *test_accuracy, *test_loss;
} history;

typedef struct fit {
    dpt_trainer *trainer;
    const dpt_fit_options *options;
    dpt_context *context;
    dpti_log *log;
    char *checkpoint; /* path of the file */
    history history;
    double began;
    size_t first_step; /* the trainer's, when fit began */
    size_t steps_total;
    /* of the epoch so far */
    double loss;
    size_t samples, hits;
    double seconds;
    dpt_fit_result result;
    size_t total_samples;
} fit;

/* ---- History --------------------------------------------------------------------------------- */

static bool enlarge(void **items, size_t n, size_t item_bytes)
{
    size_t n_bytes;
    if (!dpti_multiply(n, item_bytes, &n_bytes)) return false;
    void *grown = realloc(*items, n_bytes);
    if (grown) *items = grown;
    return grown != NULL;
}

static dpt_status no_memory(const fit *f)
{
    return dpt_fail(f->context, DPT_E_NO_MEMORY, "no memory for the course of the training");
}

static dpt_status remember_step(fit *f, const dpt_step_metrics *m)
{
    history *h = &f->history;
    if (!f->options->plot) return DPT_OK;
    if (h->n_steps == h->steps_capacity) {
        const size_t n = h->steps_capacity ? 2 * h->steps_capacity : 1024;
        if (!enlarge((void **)&h->loss, n, sizeof *h->loss) ||
            !enlarge((void **)&h->epoch, n, sizeof *h->epoch) ||
            !enlarge((void **)&h->shards, n, m->n_devices * sizeof *h->shards))
            return no_memory(f);
        h->steps_capacity = n;
    }
    h->loss[h->n_steps] = m->loss;
    h->epoch[h->n_steps] = m->epoch;
    memcpy(h->shards + h->n_steps * m->n_devices, m->shards, m->n_devices * sizeof *h->shards);
    h->n_steps++;
    return DPT_OK;
}

static dpt_status remember_epoch(fit *f, const dpt_epoch_metrics *m)
{
    history *h = &f->history;
    if (!f->options->plot) return DPT_OK;
    if (h->n_epochs == h->epochs_capacity) {
        const size_t n = h->epochs_capacity ? 2 * h->epochs_capacity : 32;
        if (!enlarge((void **)&h->train_accuracy, n, sizeof *h->train_accuracy) ||
            !enlarge((void **)&h->test_accuracy, n, sizeof *h->test_accuracy) ||
            !enlarge((void **)&h->test_loss, n, sizeof *h->test_loss))
            return no_memory(f);
        h->epochs_capacity = n;
    }
    h->train_accuracy[h->n_epochs] = m->train_accuracy;
    h->test_accuracy[h->n_epochs] = m->tested ? m->test_accuracy : NAN;
    h->test_loss[h->n_epochs] = m->tested ? m->test_loss : NAN;
    h->n_epochs++;
    return DPT_OK;
}

static void forget(history *h)
{
    free(h->loss);
    free(h->epoch);
    free(h->shards);
    free(h->train_accuracy);
    free(h->test_accuracy);
    free(h->test_loss);
}

static dpt_status write_plot(fit *f)
{
    const dpt_trainer *t = f->trainer;
    const history *h = &f->history;
    dpt_error error = {0};
    char subtitle[256];
    const char **ids = calloc(t->n_workers, sizeof *ids);
    if (!ids) return no_memory(f);
    for (size_t i = 0; i < t->n_workers; i++)
        ids[i] = t->workers[i].device->id;
    snprintf(subtitle, sizeof subtitle, "batch %zu, learning rate %g, %zu steps, %.0f images/s",
             t->batch_size, (double)t->lr, h->n_steps, f->result.images_per_second);
    char *title = dpti_format("%s on %s", t->model->name, t->data->name);
    const dpti_plot plot = {.title = title ? title : t->model->name,
                            .subtitle = subtitle,
                            .n_steps = h->n_steps,
                            .loss = h->loss,
                            .epoch = h->epoch,
                            .n_epochs = h->n_epochs,
                            .train_accuracy = h->train_accuracy,
                            .test_accuracy = h->test_accuracy,
                            .test_loss = h->test_loss,
                            .n_devices = t->n_workers,
                            .devices = ids,
                            .shards = h->shards};
    const dpt_status status = dpti_plot_write(f->options->plot, &plot, &error);
    free(title);
    free(ids);
    return status == DPT_OK ? DPT_OK : dpti_context_fail(f->context, NULL, &error);
}

/* ---- Before the first step ------------------------------------------------------------------- */

static dpt_status make_folder(fit *f, const char *path)
{
    struct stat about;
    if (mkdir(path, 0777) == 0) return DPT_OK;
    const int code = errno;
    if (code == EEXIST && stat(path, &about) == 0 && S_ISDIR(about.st_mode)) return DPT_OK;
    return dpt_fail(f->context, DPT_E_IO,
                    "cannot make the checkpoint folder %s: %s; choose another place", path,
                    code == EEXIST ? "there is a file of that name" : strerror(code));
}

/* What is written last would silently replace the other. */
static dpt_status not_one_file(fit *f, const char *a, const char *b)
{
    struct stat about;
    if (!a || !b || strcmp(a, b) != 0) return DPT_OK;
    if (stat(a, &about) == 0 && !S_ISREG(about.st_mode)) return DPT_OK; /* /dev/null */
    return dpt_fail(f->context, DPT_E_INVALID,
                    "%s is to be written twice; name another file for the log or the plot", a);
}

static dpt_status log_run(fit *f)
{
    const dpt_trainer *t = f->trainer;
    dpt_error error = {0};
    dpt_device_description *devices = calloc(t->n_workers, sizeof *devices);
    if (!devices) return no_memory(f);
    for (size_t i = 0; i < t->n_workers; i++)
        dpt_device_describe(&t->workers[i].device->base, &devices[i]);
    const dpti_log_run run = {.model = t->model->name,
                              .parameters = t->model->scalars,
                              .batch_size = t->batch_size,
                              .seed = t->seed,
                              .dataset = t->data->name,
                              .split = t->split_text,
                              .n_devices = t->n_workers,
                              .devices = devices};
    const dpt_status status = dpti_log_write_run(f->log, &run, &error);
    free(devices);
    return status == DPT_OK ? DPT_OK : dpti_context_fail(f->context, NULL, &error);
}

static dpt_status open_files(fit *f)
{
    const dpt_fit_options *o = f->options;
    dpt_error error = {0};
    if (o->checkpoint) {
        f->checkpoint = dpti_format("%s/model.safetensors", o->checkpoint);
        if (!f->checkpoint) return no_memory(f);
    }
    DPT_TRY(not_one_file(f, o->log, o->plot));
    DPT_TRY(not_one_file(f, o->log, f->checkpoint));
    DPT_TRY(not_one_file(f, o->plot, f->checkpoint));
    if (o->plot && dpti_plot_check(o->plot, &error) != DPT_OK)
        return dpti_context_fail(f->context, NULL, &error);
    if (o->checkpoint) {
        DPT_TRY(make_folder(f, o->checkpoint));
        if (dpti_plot_check(f->checkpoint, &error) != DPT_OK)
            return dpti_context_fail(f->context, NULL, &error);
    }
    if (o->log) {
        if (dpti_log_open(o->log, &f->log, &error) != DPT_OK)
            return dpti_context_fail(f->context, NULL, &error);
        return log_run(f);
    }
    return DPT_OK;
}

/* ---- Limits ---------------------------------------------------------------------------------- */

/* Steps that fit will make, as far as epochs and max_steps tell; 0 if only time limits it. */
static size_t planned_steps(const fit *f)
{
    const dpt_fit_options *o = f->options;
    const dpti_order *order = &f->trainer->order;
    const dpti_cursor at = f->trainer->next;
    size_t epochs = o->epochs;
    if (epochs == 0 && o->max_steps == 0 && !(o->max_seconds > 0)) epochs = 1;
    size_t total = 0;
    if (epochs > 0) {
        const size_t per_epoch = (order->n_records + order->batch_size - 1) / order->batch_size;
        const size_t used = at.position / order->batch_size;
        if (!dpti_multiply(per_epoch, epochs, &total)) total = SIZE_MAX;
        total -= used;
    }
    if (o->max_steps > 0 && (total == 0 || o->max_steps < total)) total = o->max_steps;
    return total;
}

static bool wants_more(const fit *f)
{
    const size_t submitted = f->trainer->next.step - f->first_step;
    const double limit = f->options->max_seconds;
    if (f->result.stopped || (f->steps_total > 0 && submitted >= f->steps_total)) return false;
    return !(limit > 0 && dpti_seconds() - f->began >= limit);
}

/* ---- Reports --------------------------------------------------------------------------------- */

static void tell(fit *f, const dpt_step_metrics *step, const dpt_epoch_metrics *epoch)
{
    const dpt_fit_progress progress = {.step = step,
                                       .epoch = epoch,
                                       .steps_done = f->result.steps,
                                       .steps_total = f->steps_total,
                                       .seconds = dpti_seconds() - f->began};
    if (f->options->progress && f->options->progress(&progress, f->options->user) != 0)
        f->result.stopped = true;
}

static dpt_status after_step(fit *f, const dpt_step_metrics *m)
{
    dpt_error error = {0};
    f->result.steps++;
    f->total_samples += m->samples;
    f->loss += m->loss * (double)m->samples;
    f->samples += m->samples;
    f->hits += m->hits;
    f->seconds += m->seconds;
    if (f->log && dpti_log_write_step(f->log, m, &error) != DPT_OK)
        return dpti_context_fail(f->context, NULL, &error);
    DPT_TRY(remember_step(f, m));
    tell(f, m, NULL);
    return DPT_OK;
}

static dpt_status after_epoch(fit *f, size_t epoch)
{
    const double samples = (double)f->samples;
    dpt_epoch_metrics m = {.epoch = epoch,
                           .train_loss = f->loss / samples,
                           .train_accuracy = (double)f->hits / samples,
                           .test_loss = NAN,
                           .test_accuracy = NAN,
                           .seconds = f->seconds,
                           .images_per_second = samples / f->seconds};
    dpt_error error = {0};
    if (f->options->test) {
        dpt_evaluation test;
        DPT_TRY(dpt_trainer_evaluate(f->trainer, f->options->test, &test));
        m.tested = true;
        m.test_loss = test.loss;
        m.test_accuracy = test.accuracy;
    }
    f->result.epochs++;
    f->result.seconds += f->seconds;
    f->result.train_loss = m.train_loss;
    f->result.test_loss = m.test_loss;
    f->result.test_accuracy = m.test_accuracy;
    f->loss = f->seconds = 0;
    f->samples = f->hits = 0;
    if (f->log && dpti_log_write_epoch(f->log, &m, &error) != DPT_OK)
        return dpti_context_fail(f->context, NULL, &error);
    if (f->checkpoint) DPT_TRY(dpt_trainer_save(f->trainer, f->checkpoint));
    DPT_TRY(remember_epoch(f, &m));
    tell(f, NULL, &m);
    return DPT_OK;
}

/* ---- The loop -------------------------------------------------------------------------------- */

/* Keeps two steps in flight inside an epoch; the test between epochs wants none. */
static dpt_status run_epoch(fit *f)
{
    dpt_trainer *t = f->trainer;
    const size_t epoch = t->next.epoch;
    dpt_step_metrics m = {0};
    bool whole = false;
    do {
        while (t->n_in_flight < DPTI_IN_FLIGHT && t->next.epoch == epoch && wants_more(f))
            DPT_TRY(dpt_trainer_submit(t));
        if (t->n_in_flight == 0) break;
        DPT_TRY(dpt_trainer_collect(t, &m));
        whole = m.last_of_epoch;
        DPT_TRY(after_step(f, &m));
    } while (!whole);
    return whole ? after_epoch(f, epoch) : DPT_OK;
}

/* An epoch that a limit cut short: its steps count, its test is made, the checkpoint is written. */
static dpt_status finish_partial(fit *f)
{
    const double samples = (double)f->samples;
    if (f->result.steps > 0 && f->samples == 0) return DPT_OK;
    if (f->samples > 0) f->result.train_loss = f->loss / samples;
    f->result.seconds += f->seconds;
    if (f->options->test && !f->result.stopped) {
        dpt_evaluation test;
        DPT_TRY(dpt_trainer_evaluate(f->trainer, f->options->test, &test));
        f->result.test_loss = test.loss;
        f->result.test_accuracy = test.accuracy;
    }
    return f->checkpoint ? dpt_trainer_save(f->trainer, f->checkpoint) : DPT_OK;
}

static dpt_status train(fit *f)
{
    dpt_error error = {0};
    while (wants_more(f))
        DPT_TRY(run_epoch(f));
    DPT_TRY(finish_partial(f));
    if (f->result.seconds > 0)
        f->result.images_per_second = (double)f->total_samples / f->result.seconds;
    if (f->log && dpti_log_write_done(f->log, &f->result, &error) != DPT_OK)
        return dpti_context_fail(f->context, NULL, &error);
    return DPT_OK;
}

dpt_status dpt_fit(dpt_trainer *trainer, const dpt_fit_options *options, dpt_fit_result *out)
{
    static const dpt_fit_options defaults;
    dpt_error error = {0};
    fit f = {.trainer = trainer,
             .options = options ? options : &defaults,
             .context = trainer->context,
             .began = dpti_seconds(),
             .first_step = trainer->next.step,
             .result = {.train_loss = NAN, .test_loss = NAN, .test_accuracy = NAN}};
    DPT_TRY(dpti_trainer_idle(trainer, "dpt_fit"));
    if (f.options->test) DPT_TRY(dpti_trainer_check_test(trainer, f.options->test));
    f.steps_total = planned_steps(&f);
    if (!(f.options->max_seconds > 0)) DPT_TRY(dpti_trainer_check_steps(trainer, f.steps_total));
    dpt_status status = open_files(&f);
    if (status == DPT_OK) status = train(&f);
    if (status != DPT_OK) dpti_trainer_drain(trainer);
    /* What was learned up to a failure is worth seeing; the first error is the one to tell. */
    const dpt_error first = f.context->error;
    if (f.options->plot && f.history.n_steps > 0) {
        const dpt_status plotted = write_plot(&f);
        if (status == DPT_OK) status = plotted;
    }
    const dpt_status closed = dpti_log_close(f.log, &error);
    if (status == DPT_OK && closed != DPT_OK)
        status = dpti_context_fail(f.context, NULL, &error);
    else if (status != DPT_OK && first.status != DPT_OK)
        f.context->error = first;
    if (status == DPT_OK) *out = f.result;
    forget(&f.history);
    free(f.checkpoint);
    return status;
}
