/* The files of the training loop: log, plot, trace; and the check that no two outputs are the same
   file. */
#include "context/context.h"
#include "fit/fit.h"

#include "base/clock.h"
#include "base/print.h"
#include "base/text.h"
#include "checkpoint/weights.h"
#include "io/file.h"
#include "io/folder.h"
#include "io/take_over.h"
#include "train/algorithms.h"
#include "train/exchange/exchange.h"
#include "train/exchange/link_probe.h"
#include "train/peers/peers.h"
#include "train/plan/shards.h"
#include "train/progress/in_flight.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ---- Before the first step ------------------------------------------------------------------- */

/* The files that are given by name; NULL: not written. */
enum { N_FILES = 4 };

typedef struct files {
    const char *paths[N_FILES];
} files;

static files files_of(const dpt_fit_options *o)
{
    return (files){.paths = {o->log, o->plot, o->trace, o->report}};
}

static dpt_status make_folder(dpti_fit *f, const char *what, const char *path)
{
    struct stat about;
    if (mkdir(path, 0777) == 0) return DPT_OK;
    const int code = errno;
    if (code == EEXIST && stat(path, &about) == 0 && S_ISDIR(about.st_mode)) return DPT_OK;
    return dpt_fail(f->context, DPT_E_IO,
                    "cannot make the folder of %s %s: %s; choose another place", what, path,
                    code == EEXIST ? "there is a file of that name" : strerror(code));
}

/* Returns the target of a symbolic link, relative to the link's folder; NULL if `path` is not a
   link or there is no memory. */
static char *link_target(const char *path)
{
    char target[PATH_MAX];
    const ssize_t n = readlink(path, target, sizeof target);
    if (n <= 0 || (size_t)n == sizeof target) return NULL;
    const char *slash = strrchr(path, '/');
    const int n_folder = slash && target[0] != '/' ? (int)(slash - path) + 1 : 0;
    return dpti_format("%.*s%.*s", n_folder, path, (int)n, target);
}

/* The place of a file that exists or will be created, with all links resolved, also links whose
   target does not exist yet. */
typedef struct place {
    struct stat folder;
    char *path;
    const char *name; /* the name in the folder; points into the path */
} place;

static void leave_place(place *at)
{
    free(at->path);
    *at = (place){.path = NULL};
}

static bool find_place(const char *path, place *out)
{
    enum { MOST_LINKS = 40 }; /* as in Linux */
    place at = {.path = dpti_strdup(path)};
    char *target = NULL;
    for (int i = 0; i < MOST_LINKS && at.path && (target = link_target(at.path)); i++) {
        free(at.path);
        at.path = target;
    }
    const char *slash = at.path ? strrchr(at.path, '/') : NULL;
    char *above = slash ? dpti_strndup(at.path, (size_t)(slash - at.path) + 1) : dpti_strdup(".");
    at.name = slash ? slash + 1 : at.path;
    const bool found = at.path && above && stat(above, &at.folder) == 0;
    free(above);
    if (found)
        *out = at;
    else
        leave_place(&at);
    return found;
}

/* Returns whether two paths of files that do not exist yet are the same file. */
static bool is_one_place(const char *a, const char *b)
{
    place at_a = {.path = NULL}, at_b = {.path = NULL};
    const bool one = find_place(a, &at_a) && find_place(b, &at_b) &&
                     dpti_same_file(&at_a.folder, &at_b.folder) &&
                     strcmp(at_a.name, at_b.name) == 0;
    leave_place(&at_a);
    leave_place(&at_b);
    return one;
}

/* Returns whether two paths, however they are written, are or will be the same file. */
static bool is_one_file(const char *a, const char *b)
{
    struct stat at_a, at_b;
    if (strcmp(a, b) == 0) return stat(a, &at_a) != 0 || S_ISREG(at_a.st_mode); /* not /dev/null */
    const bool there_a = stat(a, &at_a) == 0, there_b = stat(b, &at_b) == 0;
    if (there_a != there_b) return false;
    if (there_a) return S_ISREG(at_a.st_mode) && dpti_same_file(&at_a, &at_b);
    return is_one_place(a, b);
}

/* Otherwise the file that is written last would silently replace the other one. */
static dpt_status not_one_file(dpti_fit *f, const char *a, const char *b)
{
    if (!a || !b || !is_one_file(a, b)) return DPT_OK;
    return dpt_fail(f->context, DPT_E_INVALID,
                    "%s is to be written twice; name another file for the log, the plot, the trace "
                    "or the report",
                    a);
}

/* Otherwise a failed run would destroy the log that it replays. */
static dpt_status not_replayed(dpti_fit *f, const char *path)
{
    const char *replayed = dpti_trainer_replayed(f->trainer);
    if (!path || !replayed || !is_one_file(path, replayed)) return DPT_OK;
    return dpt_fail(f->context, DPT_E_INVALID,
                    "%s is the log that is replayed, and would be replaced; name another file",
                    path);
}

/* Checkpoint files are deleted by their names, so no other output may have such a name. */
static dpt_status no_checkpoint(dpti_fit *f, const char *path)
{
    struct stat checkpoints;
    place at;
    if (!path || !find_place(path, &at)) return DPT_OK;
    const bool one = stat(f->options->checkpoint, &checkpoints) == 0 &&
                     dpti_same_file(&at.folder, &checkpoints) && dpti_folder_numbers(at.name);
    leave_place(&at);
    if (!one) return DPT_OK;
    return dpt_fail(f->context, DPT_E_INVALID,
                    "%s has the name of a checkpoint; name another file for the log, the plot, the "
                    "trace or the report",
                    path);
}

/* Returns false if devices exchange nothing. */
static bool describe_exchange(const dpt_trainer *t, dpti_log_exchange *out)
{
    const dpti_program_options *p = &t->program;
    const dpti_bucket_sizes sizes =
        p->buckets.first > 0 ? p->buckets : dpti_default_buckets(t->model, p->least_bucket);
    const dpti_link_probe *probe = dpti_link_probe_of(t);
    *out = (dpti_log_exchange){.measured = probe->done,
                               .alpha = probe->link.alpha,
                               .beta = probe->link.beta,
                               .route = dpti_route_name(probe->travel.route),
                               .window = probe->travel.window};
    if (!p->exchange_at_end) {
        out->first_bucket = sizes.first * sizeof(float);
        out->bucket = sizes.others * sizeof(float);
    }
    return t->n_devices > 1;
}

static dpt_status log_choices(dpti_fit *f)
{
    dpti_recorded_choices choices;
    dpt_error error = {0};
    for (size_t i = 0; i < f->trainer->n_devices; i++) {
        if (dpti_algorithms_of(f->trainer, i, &choices) != DPT_OK) return dpti_fit_no_memory(f);
        const dpt_status status = dpti_log_write_choices(f->log, i, &choices, &error);
        dpti_recorded_choices_free(&choices);
        if (status != DPT_OK) return dpti_context_fail(f->context, NULL, &error);
    }
    return DPT_OK;
}

static const char *tell_shard(const dpt_trainer *t)
{
    const dpt_shard shard = dpt_trainer_sharded(t);
    static const char *const names[] = {[DPT_SHARD_OPTIMIZER] = "optimizer",
                                        [DPT_SHARD_GRADIENTS] = "gradients",
                                        [DPT_SHARD_PARAMETERS] = "parameters"};
    return names[shard];
}

/* The options that the trainer chose; NULL: it was not to choose. */
static const char *tell_chosen(const dpt_trainer *t)
{
    return t->candidates.n > 0 ? t->candidates.list[t->candidates.n - 1].options : NULL;
}

/* All are (n_devices). */
static void describe_devices(const dpt_trainer *t, dpt_device_info *devices, bool *streamed,
                             size_t *limits)
{
    for (size_t i = 0; i < t->n_devices; i++) {
        devices[i].size = sizeof devices[i];
        if (dpt_trainer_device(t, i, &devices[i]) != DPT_OK)
            continue; /* cannot fail: the device exists */
        streamed[i] = dpti_peers_device(t, i)->streamed;
        limits[i] = dpti_peers_device(t, i)->micro_batch_limit;
    }
}

/* Writes the run event, or the resume event, with the devices' algorithms. */
static dpt_status log_run(dpti_fit *f, bool resumed)
{
    const dpt_trainer *t = f->trainer;
    dpt_error error = {0};
    dpt_device_info *devices = calloc(t->n_devices, sizeof *devices);
    bool *streamed = calloc(t->n_devices, sizeof *streamed);
    size_t *limits = calloc(t->n_devices, sizeof *limits);
    dpti_told *settings = dpti_tell_settings(t, &f->schedule);
    if (!devices || !streamed || !limits || !settings) {
        free(settings);
        free(limits);
        free(streamed);
        free(devices);
        return dpti_fit_no_memory(f);
    }
    describe_devices(t, devices, streamed, limits);
    dpti_log_exchange exchange;
    const bool exchanges = describe_exchange(t, &exchange);
    const dpti_log_run run = {
        .model = t->model->name,
        .parameters = t->model->scalars,
        .batch_size = dpti_step_samples(t),
        .accumulate = t->accumulate,
        .compress = dpti_exchange_packing(t),
        .compress_rank = dpti_packs(t) ? t->compress_rank : 0,
        .shard = tell_shard(t),
        .offload = dpt_trainer_offloaded(t),
        .chosen = tell_chosen(t),
        .local_steps = t->local_steps,
        .outer_delay = t->outer_delay,
        .outer_fragments = t->n_fragments,
        .seed = t->seed,
        .dataset = t->data->name,
        .split = dpti_shards_split_text(t),
        .n_settings = settings->all.n,
        .settings = settings->list,
        .n_devices = t->n_devices,
        .devices = devices,
        .streamed = streamed,
        .micro_batch_limits = limits,
        .n_processes = t->processes ? dpti_processes_count(t->processes) : 0,
        .transport = t->processes ? dpti_processes_transport(t->processes) : NULL,
        .survives = t->processes && t->local_steps == 0 && dpti_processes_survive(t->processes),
        .delays = t->processes ? dpti_processes_delays(t->processes) : NULL,
        .exchange = exchanges ? &exchange : NULL};
    const dpt_status status =
        resumed ? dpti_log_write_resume(f->log, &run, dpt_trainer_steps(t), &error)
                : dpti_log_write_run(f->log, &run, &error);
    free(settings);
    free(limits);
    free(streamed);
    free(devices);
    if (status != DPT_OK) return dpti_context_fail(f->context, NULL, &error);
    return log_choices(f);
}

static dpt_status check_writable(dpti_fit *f, const char *path)
{
    dpt_error error = {0};
    if (!path || dpti_new_file_check(path, &error) == DPT_OK) return DPT_OK;
    return dpti_context_fail(f->context, NULL, &error);
}

/* Builds the path of NAME.safetensors in the checkpoint folder, and checks that no other output
   has it. */
static dpt_status check_weights(dpti_fit *f, const char *name, char **out)
{
    *out = dpti_format("%s/%s.safetensors", f->options->checkpoint, name);
    if (!*out) return dpti_fit_no_memory(f);
    const files all = files_of(f->options);
    for (size_t i = 0; i < N_FILES; i++)
        DPT_TRY(not_one_file(f, all.paths[i], *out));
    dpti_folder_claim(*out);
    return check_writable(f, *out);
}

static dpt_status check_folder(dpti_fit *f)
{
    const dpt_fit_options *o = f->options;
    DPT_TRY(make_folder(f, "checkpoints", o->checkpoint));
    const files all = files_of(o);
    for (size_t i = 0; i < N_FILES; i++)
        DPT_TRY(no_checkpoint(f, all.paths[i]));
    DPT_TRY(check_weights(f, f->trainer->model->lora ? "adapter_model" : "model", &f->model));
    return o->validation ? check_weights(f, "best", &f->best) : DPT_OK;
}

/* A training that is resumed adds a file to those that it has written. */
static dpt_status check_board(dpti_fit *f)
{
    const dpt_fit_options *o = f->options;
    dpt_error error = {0};
    DPT_TRY(make_folder(f, "TensorBoard's events", o->tensorboard));
    if (o->resume || o->again || f->carried ||
        dpti_events_check_new(o->tensorboard, &error) == DPT_OK)
        return DPT_OK;
    return dpti_context_fail(f->context, NULL, &error);
}

dpt_status dpti_fit_check_files(dpti_fit *f)
{
    const dpt_fit_options *o = f->options;
    const files all = files_of(o);
    for (size_t i = 0; i < N_FILES; i++)
        for (size_t k = 0; k < i; k++)
            DPT_TRY(not_one_file(f, all.paths[k], all.paths[i]));
    for (size_t i = 0; i < N_FILES; i++)
        DPT_TRY(not_replayed(f, all.paths[i]));
    if (o->checkpoint) DPT_TRY(check_folder(f));
    DPT_TRY(check_writable(f, o->plot));
    DPT_TRY(check_writable(f, o->trace));
    DPT_TRY(check_writable(f, o->report));
    return o->tensorboard ? check_board(f) : DPT_OK;
}

/* Which files are given, in the order of file_kinds. */
enum { KIND_REPORT = 4, N_KINDS = 6 };

typedef struct kinds {
    bool given[N_KINDS];
} kinds;

static const char *const file_kinds[N_KINDS] = {
    "checkpoint", "log", "plot", "trace", [KIND_REPORT] = "report", "events for TensorBoard"};

static kinds kinds_given(const dpt_fit_options *o)
{
    return (kinds){.given = {o && o->checkpoint, o && o->log, o && o->plot, o && o->trace,
                             o && o->report, o && o->tensorboard}};
}

static void tell_kind(const dpti_fit *f, size_t k, size_t process)
{
    char text[256];
    snprintf(text, sizeof text,
             "no %s is written: process %zu was given one, but process 0 writes the files, and was "
             "not",
             file_kinds[k], process);
    dpti_fit_notify(f, DPT_NOTICE_WARNING, text);
}

dpt_status dpti_fit_tell_ignored(dpti_fit *f, const dpt_fit_options *given)
{
    const dpt_trainer *t = f->trainer;
    const kinds mine = kinds_given(given);
    dpti_gathered all = {.data = NULL};
    dpt_error error = {.status = DPT_OK};
    f->reports = mine.given[KIND_REPORT];
    if (!t->processes) return DPT_OK;
    if (dpti_processes_gather(t->processes, (dpti_bytes){&mine, sizeof mine}, &all, &error) !=
        DPT_OK)
        return dpti_context_fail(f->context, NULL, &error);
    const kinds *theirs = (const kinds *)(const void *)all.data;
    f->reports = theirs[0].given[KIND_REPORT];
    for (size_t k = 0; k < N_KINDS; k++) {
        size_t r = 0;
        while (r < dpti_processes_count(t->processes) && !theirs[r].given[k])
            r++;
        if (r > 0 && r < dpti_processes_count(t->processes)) tell_kind(f, k, r);
    }
    dpti_gathered_free(&all);
    return DPT_OK;
}

/* Warns that the log lacks steps: they could not be written, but a checkpoint of them could. */
static void tell_gap(const dpti_fit *f, size_t last)
{
    char text[256];
    const size_t done = dpt_trainer_steps(f->trainer);
    if (last >= done) return;
    snprintf(text, sizeof text,
             "%.120s lacks steps %zu to %zu, which could not be written: it cannot be replayed",
             f->options->log, last + 1, done);
    dpti_fit_notify(f, DPT_NOTICE_WARNING, text);
}

/* Adds steps to the log that are done, and that a process has not written because it has died or
   another one had its state.  *last: the last step in the log. */
static dpt_status add_recent(dpti_fit *f, size_t *last)
{
    dpt_error error = {0};
    for (size_t i = 0; i < f->recent.n; i++) {
        const dpt_step_metrics m = dpti_last_steps_step(&f->recent, i);
        if (m.step != *last + 1 || m.step > dpt_trainer_steps(f->trainer)) continue;
        if (dpti_log_write_step(f->log, &m, &error) != DPT_OK)
            return dpti_context_fail(f->context, NULL, &error);
        *last = m.step;
    }
    return DPT_OK;
}

/* Adds an epoch that has ended likewise.  `last`: the last one in the log. */
static dpt_status add_last_epoch(dpti_fit *f, size_t last)
{
    dpt_error error = {0};
    dpt_epoch_metrics *m = &f->last_epoch;
    if (m->epoch != last + 1 || m->epoch >= dpti_fit_next_epoch(f)) return DPT_OK;
    if (dpti_steps_done(f->trainer)->position == 0)
        DPT_TRY(dpti_weights_sha256(f->trainer, m->weights_sha256));
    if (dpti_log_write_epoch(f->log, m, &error) == DPT_OK) return DPT_OK;
    return dpti_context_fail(f->context, NULL, &error);
}

/* A replayed log may contain a resume with changes; it is repeated as it began. */
static void tell_changed(const dpti_fit *f)
{
    char text[384];
    const dpt_trainer *t = f->trainer;
    const size_t step = t->replay.changed_step;
    const bool ends = f->steps_total > 0 && f->course.first.step + f->steps_total < step;
    if (step == 0 || step > t->replay.n_steps || ends) return;
    snprintf(text, sizeof text,
             "the log that is replayed went on at step %zu with another backend, micro_batch or "
             "algorithm of device %.60s: steps from there on are repeated within rounding, not to "
             "the bit",
             step, dpti_peers_device(t, t->replay.changed_device)->id);
    dpti_fit_notify(f, DPT_NOTICE_WARNING, text);
}

/* An output that is being opened. */
typedef struct opening {
    dpti_fit *fit;
    const char *path;
    bool begun;              /* the resumed log has a run event */
    size_t last, last_epoch; /* in the resumed log */
} opening;

static bool is_pipe(const char *path)
{
    struct stat about;
    return stat(path, &about) == 0 && S_ISFIFO(about.st_mode);
}

static void tell_waiting(const dpti_fit *f, const char *path)
{
    char text[256];
    snprintf(text, sizeof text, "nobody reads the pipe %.120s yet: waiting for its reader", path);
    dpti_fit_notify(f, DPT_NOTICE_INFO, text);
}

/* Calls `open` repeatedly while the output is a pipe without a reader, until training is to end.
   If training is to end, the output is not opened, and this is no failure. */
static dpt_status open_once_read(opening *o, dpt_status (*open)(opening *, dpt_error *))
{
    static const struct timespec a_while = {.tv_nsec = 50 * 1000 * 1000};
    dpti_fit *f = o->fit;
    dpt_error error = {0};
    for (bool told = false; open(o, &error) != DPT_OK; told = true) {
        if (error.native != ENXIO || !is_pipe(o->path))
            return dpti_context_fail(f->context, NULL, &error);
        if (!told) tell_waiting(f, o->path);
        if (dpti_fit_is_to_end(f)) return DPT_OK;
        (void)nanosleep(&a_while, NULL);
    }
    return DPT_OK;
}

static dpt_status open_log(opening *o, dpt_error *error)
{
    dpti_fit *f = o->fit;
    const dpti_log_position position = {.step = dpt_trainer_steps(f->trainer),
                                        .epoch = dpti_fit_next_epoch(f),
                                        .batch_size = dpti_step_samples(f->trainer),
                                        .seed = f->trainer->seed};
    if (!f->resumed) return dpti_log_open(o->path, &f->log, error);
    dpti_log_resumed resumed = {0};
    const dpt_status status = dpti_log_resume(o->path, &position, &resumed, error);
    f->log = resumed.log;
    o->begun = resumed.begun;
    o->last = resumed.last_step;
    o->last_epoch = resumed.last_epoch;
    return status;
}

static dpt_status open_trace(opening *o, dpt_error *error)
{
    return dpti_tracing_begin(&o->fit->tracing, o->fit->trainer, o->path, error);
}

/* Opens a new log, or the log of the run that is resumed. */
static dpt_status begin_log(dpti_fit *f)
{
    opening o = {.fit = f, .path = f->options->log};
    dpt_error error = {0};
    DPT_TRY(open_once_read(&o, open_log));
    if (!f->log) return DPT_OK;
    if (!o.begun) DPT_TRY(log_run(f, false));
    if (o.begun) DPT_TRY(add_recent(f, &o.last));
    if (o.begun) DPT_TRY(add_last_epoch(f, o.last_epoch));
    if (o.begun) tell_gap(f, o.last);
    if (o.begun && dpti_fit_keeps_history(f) &&
        dpti_history_recall(&f->history, f->options->log, f->trainer->n_devices, &error) != DPT_OK)
        return dpti_context_fail(f->context, NULL, &error);
    DPT_TRY(dpti_carried_tell_lost(f)); /* devices have the numbers of before */
    DPT_TRY(dpti_carried_tell_joined(f));
    return f->resumed ? log_run(f, true) : DPT_OK;
}

static dpt_status begin_board(dpti_fit *f)
{
    dpt_error error = {0};
    const dpti_board_options options = {.folder = f->options->tensorboard,
                                        .histograms = f->options->tensorboard_histograms,
                                        .schedule = &f->schedule};
    if (dpti_board_begin(&f->board, f->trainer, &options, &error) == DPT_OK) return DPT_OK;
    return dpti_context_fail(f->context, NULL, &error);
}

/* A process that is left behind, and stands still, has the files open. */
static dpt_status take_files_over(const dpti_fit *f)
{
    const dpt_fit_options *o = f->options;
    const dpti_processes *p = f->trainer->processes;
    dpt_error error = {0};
    if (!f->carried || !p || !(dpti_processes_timeout(p) > 0)) return DPT_OK;
    if ((o->log && dpti_take_over("the log ", o->log, &error) != DPT_OK) ||
        (o->trace && dpti_take_over("the trace ", o->trace, &error) != DPT_OK))
        return dpti_context_fail(f->context, NULL, &error);
    return DPT_OK;
}

dpt_status dpti_fit_open_files(dpti_fit *f)
{
    const dpt_fit_options *o = f->options;
    tell_changed(f);
    DPT_TRY(take_files_over(f));
    DPT_TRY(o->log ? begin_log(f) : dpti_carried_tell_lost(f));
    if (!o->log) DPT_TRY(dpti_carried_tell_joined(f));
    if (o->tensorboard) DPT_TRY(begin_board(f));
    return o->trace ? open_once_read(&(opening){.fit = f, .path = o->trace}, open_trace) : DPT_OK;
}

/* ---- The end --------------------------------------------------------------------------------- */

dpt_status dpti_fit_log_done(dpti_fit *f)
{
    const dpti_account *account = dpti_shards_account(f->trainer);
    dpt_error error = {0};
    dpt_device_report *devices = calloc(account->n_devices, sizeof *devices);
    if (!devices) return dpti_fit_no_memory(f);
    for (size_t i = 0; i < account->n_devices; i++)
        devices[i] = dpti_account_device(account, i);
    const dpti_log_done done = {.result = &f->course.result,
                                .n_devices = account->n_devices,
                                .devices = devices,
                                .mix = dpti_account_mix(account)};
    const dpt_status status = dpti_log_write_done(f->log, &done, &error);
    free(devices);
    return status == DPT_OK ? DPT_OK : dpti_context_fail(f->context, NULL, &error);
}

/* The plot is drawn after a failure too, because it shows the steps until then.  The first error
   is the one that is reported. */
dpt_status dpti_fit_close_files(dpti_fit *f, dpt_status status)
{
    const dpt_error first = f->context->error;
    const bool failed = status != DPT_OK;
    dpt_error error = {0};
    /* If training has gone back and ended there, not all reported steps count. */
    dpti_history_cut(&f->history, dpt_trainer_steps(f->trainer), dpti_fit_next_epoch(f));
    if (f->options->plot && f->history.n_steps > 0) {
        const dpt_status plotted = dpti_history_plot(
            &f->history, f->trainer, f->course.result.images_per_second, f->options->plot);
        if (status == DPT_OK) status = plotted;
    }
    if (f->options->report && f->history.n_steps > 0) {
        const dpt_status reported = dpti_fit_write_report(f, failed ? &first : NULL);
        if (status == DPT_OK) status = reported;
    }
    if (dpti_log_close(f->log, &error) != DPT_OK && status == DPT_OK)
        status = dpti_context_fail(f->context, NULL, &error);
    if (dpti_tracing_end(&f->tracing, &error) != DPT_OK && status == DPT_OK)
        status = dpti_context_fail(f->context, NULL, &error);
    const bool finished = !failed && !f->course.result.stopped;
    if (dpti_board_end(&f->board, finished, &error) != DPT_OK && status == DPT_OK)
        status = dpti_context_fail(f->context, NULL, &error);
    if (failed && first.status != DPT_OK) f->context->error = first;
    return status;
}
