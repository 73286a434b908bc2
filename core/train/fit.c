/* The training loop: epochs, limits, learning rates, tests, and what is written on the way. */
#include "train/trainer.h"

#include "base/base.h"
#include "io/plot.h"
#include "train/history.h"
#include "train/schedule.h"
#include "train/tracing.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct fit {
    dpt_trainer *trainer;
    const dpt_fit_options *options;
    dpt_context *context;
    dpti_log *log;
    char *model, *best;   /* paths in the checkpoint's folder */
    dpti_history history; /* kept only if a plot was asked for */
    dpti_tracing tracing; /* likewise */
    dpti_schedule schedule;
    double began;
    size_t first_step; /* the trainer's, when fit began */
    size_t steps_total;
    size_t without_better; /* epochs since the best by validation loss */
    /* of the epoch so far */
    size_t epoch;
    double loss;
    size_t samples, hits;
    double seconds;
    dpt_fit_result result;
    size_t total_samples;
} fit;

static dpt_status no_memory(const fit *f)
{
    return dpt_fail(f->context, DPT_E_NO_MEMORY, "no memory for the course of the training");
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
    return dpt_fail(
        f->context, DPT_E_INVALID,
        "%s is to be written twice; name another file for the log, the plot or the trace", a);
}

static dpt_status log_run(fit *f)
{
    const dpt_trainer *t = f->trainer;
    dpt_error error = {0};
    dpt_device_description *devices = calloc(t->n_devices, sizeof *devices);
    bool *streamed = calloc(t->n_devices, sizeof *streamed);
    if (!devices || !streamed) {
        free(streamed);
        free(devices);
        return no_memory(f);
    }
    for (size_t i = 0; i < t->n_devices; i++) {
        if (dpt_trainer_device(t, i, &devices[i]) != DPT_OK) continue; /* there is such a device */
        streamed[i] = t->peers[i].streamed;
    }
    const dpti_log_run run = {.model = t->model->name,
                              .parameters = t->model->scalars,
                              .batch_size = t->batch_size,
                              .seed = t->seed,
                              .dataset = t->data->name,
                              .split = t->split_text,
                              .n_devices = t->n_devices,
                              .devices = devices,
                              .streamed = streamed};
    const dpt_status status = dpti_log_write_run(f->log, &run, &error);
    free(streamed);
    free(devices);
    return status == DPT_OK ? DPT_OK : dpti_context_fail(f->context, NULL, &error);
}

/* The path of NAME.safetensors in the checkpoint's folder, which is not the log's or the plot's. */
static dpt_status checkpoint_path(fit *f, const char *name, char **out)
{
    *out = dpti_format("%s/%s.safetensors", f->options->checkpoint, name);
    if (!*out) return no_memory(f);
    DPT_TRY(not_one_file(f, f->options->log, *out));
    DPT_TRY(not_one_file(f, f->options->trace, *out));
    return not_one_file(f, f->options->plot, *out);
}

static dpt_status check_writable(fit *f, const char *path)
{
    dpt_error error = {0};
    if (!path || dpti_plot_check(path, &error) == DPT_OK) return DPT_OK;
    return dpti_context_fail(f->context, NULL, &error);
}

static dpt_status open_files(fit *f)
{
    const dpt_fit_options *o = f->options;
    dpt_error error = {0};
    DPT_TRY(not_one_file(f, o->log, o->plot));
    DPT_TRY(not_one_file(f, o->log, o->trace));
    DPT_TRY(not_one_file(f, o->plot, o->trace));
    if (o->checkpoint) DPT_TRY(checkpoint_path(f, "model", &f->model));
    if (o->checkpoint && o->validation) DPT_TRY(checkpoint_path(f, "best", &f->best));
    DPT_TRY(check_writable(f, o->plot));
    DPT_TRY(check_writable(f, o->trace));
    if (o->checkpoint) DPT_TRY(make_folder(f, o->checkpoint));
    DPT_TRY(check_writable(f, f->model));
    DPT_TRY(check_writable(f, f->best));
    if (o->log) {
        if (dpti_log_open(o->log, &f->log, &error) != DPT_OK)
            return dpti_context_fail(f->context, NULL, &error);
        DPT_TRY(log_run(f));
    }
    if (o->trace &&
        dpti_tracing_begin(&f->tracing, f->trainer, o->trace, f->began, &error) != DPT_OK)
        return dpti_context_fail(f->context, NULL, &error);
    return DPT_OK;
}

/* ---- Limits ---------------------------------------------------------------------------------- */

static size_t steps_per_epoch(const fit *f)
{
    const dpt_trainer *t = f->trainer;
    return (t->data->count + t->batch_size - 1) / t->batch_size;
}

/* Steps that fit will make, as far as epochs and max_steps tell; 0 if only time limits it. */
static size_t planned_steps(const fit *f)
{
    const dpt_fit_options *o = f->options;
    size_t epochs = o->epochs;
    if (epochs == 0 && o->max_steps == 0 && !(o->max_seconds > 0)) epochs = 1;
    size_t total = 0;
    if (epochs > 0) {
        const size_t used = f->trainer->next.position / f->trainer->batch_size;
        if (!dpti_multiply(steps_per_epoch(f), epochs, &total)) total = SIZE_MAX;
        total -= used;
    }
    if (o->max_steps > 0 && (total == 0 || o->max_steps < total)) total = o->max_steps;
    return total;
}

/* What can be known to be wrong before the first step. */
static dpt_status check(fit *f)
{
    const dpt_fit_options *o = f->options;
    dpt_error error = {0};
    if (o->patience > 0 && !o->validation)
        return dpt_fail(f->context, DPT_E_INVALID,
                        "patience needs validation data, whose loss tells when to end");
    if (o->validation) DPT_TRY(dpti_trainer_check_test(f->trainer, o->validation));
    if (o->test) DPT_TRY(dpti_trainer_check_test(f->trainer, o->test));
    f->steps_total = planned_steps(f);
    f->schedule = (dpti_schedule){.options = o->schedule,
                                  .lr = (double)f->trainer->lr,
                                  .steps_per_epoch = steps_per_epoch(f),
                                  .total_steps = f->steps_total};
    if (dpti_schedule_check(&f->schedule, &error) != DPT_OK)
        return dpti_context_fail(f->context, NULL, &error);
    return DPT_OK;
}

/* With several processes no clock may decide alone: all end behind the same step. */
static bool time_is_up(const fit *f)
{
    const double limit = f->options->max_seconds;
    const bool up = limit > 0 && dpti_seconds() - f->began >= limit;
    if (!f->trainer->processes) return up;
    if (up) dpti_peers_wish(f->trainer, DPTI_WISH_TIME);
    return f->trainer->granted & DPTI_WISH_TIME;
}

static bool wants_more(const fit *f)
{
    const size_t submitted = f->trainer->next.step - f->first_step;
    if (f->result.stopped || f->result.no_patience) return false;
    if (f->steps_total > 0 && submitted >= f->steps_total) return false;
    return !time_is_up(f);
}

/* ---- Reports --------------------------------------------------------------------------------- */

static void tell(fit *f, const dpt_step_metrics *step, const dpt_epoch_metrics *epoch)
{
    const dpt_fit_progress progress = {.step = step,
                                       .epoch = epoch,
                                       .steps_done = f->result.steps,
                                       .steps_total = f->steps_total,
                                       .seconds = dpti_seconds() - f->began};
    const bool stop =
        f->options->progress && f->options->progress(&progress, f->options->user) != 0;
    if (stop) dpti_peers_wish(f->trainer, DPTI_WISH_STOP);
    if (f->trainer->processes ? f->trainer->granted & DPTI_WISH_STOP : stop)
        f->result.stopped = true;
}

/* What has happened to devices. */
static dpt_status tell_devices(fit *f)
{
    dpt_device_event event;
    dpt_error error = {0};
    while (dpt_trainer_next_event(f->trainer, &event)) {
        const dpt_fit_progress progress = {.event = &event,
                                           .steps_done = f->result.steps,
                                           .steps_total = f->steps_total,
                                           .seconds = dpti_seconds() - f->began};
        if (f->options->progress && f->options->progress(&progress, f->options->user) != 0)
            f->result.stopped = true;
        if (f->log && dpti_log_write_device_event(f->log, &event, &error) != DPT_OK)
            return dpti_context_fail(f->context, NULL, &error);
    }
    return DPT_OK;
}

static dpt_status after_step(fit *f, const dpt_step_metrics *m)
{
    dpt_error error = {0};
    DPT_TRY(tell_devices(f));
    f->result.steps++;
    f->epoch = m->epoch;
    f->total_samples += m->samples;
    f->loss += m->loss * (double)m->samples;
    f->samples += m->samples;
    f->hits += m->hits;
    f->seconds += m->seconds;
    if (f->log && m->rebalance && dpti_log_write_rebalance(f->log, m, &error) != DPT_OK)
        return dpti_context_fail(f->context, NULL, &error);
    if (f->log && dpti_log_write_step(f->log, m, &error) != DPT_OK)
        return dpti_context_fail(f->context, NULL, &error);
    if (dpti_tracing_step(&f->tracing, m, &error) != DPT_OK)
        return dpti_context_fail(f->context, NULL, &error);
    if (f->options->plot && !dpti_history_add_step(&f->history, m)) return no_memory(f);
    tell(f, m, NULL);
    return DPT_OK;
}

/* Evaluates these data, and tells the trace. */
static dpt_status evaluate_on(fit *f, const char *what, const dpt_dataset *data, size_t epoch,
                              dpt_evaluation *out)
{
    const double began = dpti_seconds();
    const dpt_status status = dpt_trainer_evaluate(f->trainer, data, out);
    dpti_tracing_host(&f->tracing, what, epoch, began);
    DPT_TRY(status);
    return tell_devices(f);
}

static dpt_status save(fit *f, const char *path, size_t epoch)
{
    const double began = dpti_seconds();
    if (!path) return DPT_OK;
    const dpt_status status = dpt_trainer_save(f->trainer, path);
    dpti_tracing_host(&f->tracing, "checkpoint", epoch, began);
    return status;
}

/* Evaluates the validation data, and keeps the weights if there were none so good. */
static dpt_status validate(fit *f, size_t epoch, dpt_evaluation *out)
{
    dpt_fit_result *r = &f->result;
    DPT_TRY(evaluate_on(f, "validation", f->options->validation, epoch, out));
    const bool better = r->best_epoch == 0 || out->loss < r->best_validation_loss;
    f->without_better = better ? 0 : f->without_better + 1;
    if (!better) return DPT_OK;
    r->best_epoch = epoch;
    r->best_validation_loss = out->loss;
    return save(f, f->best, epoch);
}

/* Validation and test, as far as there are data, into the epoch's and the result's figures. */
static dpt_status evaluate(fit *f, dpt_epoch_metrics *m)
{
    dpt_evaluation e;
    if (f->options->validation) {
        DPT_TRY(validate(f, m->epoch, &e));
        m->validated = true;
        m->validation_loss = e.loss;
        m->validation_accuracy = e.accuracy;
    }
    if (f->options->test) {
        DPT_TRY(evaluate_on(f, "test", f->options->test, m->epoch, &e));
        m->tested = true;
        m->test_loss = f->result.test_loss = e.loss;
        m->test_accuracy = f->result.test_accuracy = e.accuracy;
    }
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
                           .validation_loss = NAN,
                           .validation_accuracy = NAN,
                           .seconds = f->seconds,
                           .images_per_second = samples / f->seconds};
    dpt_error error = {0};
    DPT_TRY(evaluate(f, &m));
    f->result.no_patience = f->options->patience > 0 && f->without_better >= f->options->patience;
    f->result.epochs++;
    f->result.seconds += f->seconds;
    f->result.train_loss = m.train_loss;
    f->loss = f->seconds = 0;
    f->samples = f->hits = 0;
    if (f->log && dpti_log_write_epoch(f->log, &m, &error) != DPT_OK)
        return dpti_context_fail(f->context, NULL, &error);
    DPT_TRY(save(f, f->model, epoch));
    if (f->options->plot && !dpti_history_add_epoch(&f->history, &m)) return no_memory(f);
    tell(f, NULL, &m);
    return DPT_OK;
}

/* ---- The loop -------------------------------------------------------------------------------- */

/* The rate is written straight away: a course may end at 0, which dpt_trainer_set_lr refuses. */
static dpt_status submit(fit *f)
{
    dpt_trainer *t = f->trainer;
    t->lr = (float)dpti_schedule_lr(&f->schedule, t->next.step - f->first_step);
    return dpt_trainer_submit(t);
}

/* Keeps two steps in flight inside an epoch; the test between epochs wants none. */
static dpt_status run_epoch(fit *f)
{
    dpt_trainer *t = f->trainer;
    const size_t epoch = t->next.epoch;
    const double began = dpti_seconds();
    dpt_step_metrics m = {0};
    bool whole = false;
    do {
        while (t->n_in_flight < DPTI_IN_FLIGHT && t->next.epoch == epoch && wants_more(f))
            DPT_TRY(submit(f));
        if (t->n_in_flight == 0) break;
        DPT_TRY(dpt_trainer_collect(t, &m));
        whole = m.last_of_epoch;
        DPT_TRY(after_step(f, &m));
    } while (!whole);
    dpti_tracing_host(&f->tracing, "epoch", epoch, began);
    return whole ? after_epoch(f, epoch) : DPT_OK;
}

/* An epoch that a limit cut short: its steps count, it is evaluated, the checkpoint is written. */
static dpt_status finish_partial(fit *f)
{
    const double samples = (double)f->samples;
    dpt_epoch_metrics m = {.epoch = f->epoch};
    if (f->result.steps > 0 && f->samples == 0) return DPT_OK;
    if (f->samples > 0) f->result.train_loss = f->loss / samples;
    f->result.seconds += f->seconds;
    if (!f->result.stopped) DPT_TRY(evaluate(f, &m));
    return save(f, f->model, f->epoch);
}

static dpt_status log_done(fit *f)
{
    const dpti_account *account = &f->trainer->account;
    dpt_error error = {0};
    dpt_device_report *devices = calloc(account->n_devices, sizeof *devices);
    if (!devices) return no_memory(f);
    for (size_t i = 0; i < account->n_devices; i++)
        devices[i] = dpti_account_device(account, i);
    const dpti_log_done done = {.result = &f->result,
                                .n_devices = account->n_devices,
                                .devices = devices,
                                .mix = dpti_account_mix(account)};
    const dpt_status status = dpti_log_write_done(f->log, &done, &error);
    free(devices);
    return status == DPT_OK ? DPT_OK : dpti_context_fail(f->context, NULL, &error);
}

static dpt_status train(fit *f)
{
    while (wants_more(f))
        DPT_TRY(run_epoch(f));
    DPT_TRY(finish_partial(f));
    if (f->result.seconds > 0)
        f->result.images_per_second = (double)f->total_samples / f->result.seconds;
    return f->log ? log_done(f) : DPT_OK;
}

/* What was learned up to a failure is worth seeing; the first error is the one to tell. */
static dpt_status close_files(fit *f, dpt_status status)
{
    const dpt_error first = f->context->error;
    const bool failed = status != DPT_OK;
    dpt_error error = {0};
    if (f->options->plot && f->history.n_steps > 0) {
        const dpt_status plotted = dpti_history_plot(&f->history, f->trainer,
                                                     f->result.images_per_second, f->options->plot);
        if (status == DPT_OK) status = plotted;
    }
    if (dpti_log_close(f->log, &error) != DPT_OK && status == DPT_OK)
        status = dpti_context_fail(f->context, NULL, &error);
    if (dpti_tracing_end(&f->tracing, &error) != DPT_OK && status == DPT_OK)
        status = dpti_context_fail(f->context, NULL, &error);
    if (failed && first.status != DPT_OK) f->context->error = first;
    return status;
}

/* The end of a run whose devices are lost: what happened to them, and the weights, if a replica can
   still be read.  The failure that ended it is the one to tell. */
static void save_what_is_left(fit *f)
{
    const dpt_error first = f->context->error;
    f->trainer->salvage = true;
    if (tell_devices(f) == DPT_OK && f->result.steps > 0) (void)save(f, f->model, f->epoch);
    f->trainer->salvage = false;
    f->context->error = first;
}

/* Files come from the first process alone. */
static dpt_fit_options own_options(const dpt_trainer *t, const dpt_fit_options *options)
{
    dpt_fit_options own = {.epochs = 0};
    if (options) own = *options;
    if (dpt_process_rank(t->context) > 0) own.log = own.plot = own.trace = own.checkpoint = NULL;
    return own;
}

/* What can be known to be wrong before the first step, in any process. */
static dpt_status prepare(fit *f)
{
    dpt_status status = check(f);
    if (status == DPT_OK && !(f->options->max_seconds > 0))
        status = dpti_trainer_check_steps(f->trainer, f->steps_total);
    DPT_TRY(dpti_peers_agree(f->trainer, status));
    DPT_TRY(dpti_peers_check_weights(f->trainer));
    return dpti_peers_agree(f->trainer, open_files(f));
}

dpt_status dpt_fit(dpt_trainer *trainer, const dpt_fit_options *options, dpt_fit_result *out)
{
    const dpt_fit_options own = own_options(trainer, options);
    fit f = {.trainer = trainer,
             .options = &own,
             .context = trainer->context,
             .began = dpti_seconds(),
             .first_step = trainer->next.step,
             .epoch = trainer->next.epoch,
             .result = {.train_loss = NAN,
                        .test_loss = NAN,
                        .test_accuracy = NAN,
                        .best_validation_loss = NAN}};
    DPT_TRY(dpti_trainer_idle(trainer, "dpt_fit"));
    atomic_store(&trainer->wishes, 0);
    trainer->granted = 0;
    const float lr = trainer->lr;
    dpt_status status = prepare(&f);
    if (status == DPT_OK) status = train(&f);
    if (status != DPT_OK) dpti_trainer_drain(trainer);
    if (dpti_is_loss(status)) save_what_is_left(&f);
    /* Unless they know of it the others would wait for this process, and it for them. */
    if (status != DPT_OK) dpt_process_give_up(f.context);
    trainer->lr = lr;
    status = close_files(&f, status);
    if (status == DPT_OK) *out = f.result;
    dpti_history_free(&f.history);
    free(f.best);
    free(f.model);
    return status;
}
