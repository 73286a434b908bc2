/* Writes the run log: one JSON object per line, and one write per line.  So a run can be followed
   while it trains, and a full disk is noticed at once. */
#include "io/log.h"

#include "base/print.h"
#include "base/text.h"
#include "io/class_json.h"
#include "io/output.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

struct dpti_log {
    dpti_output output;
};

static dpt_status open_log(const char *path, dpti_log **out, dpt_error *error)
{
    dpti_log *log = calloc(1, sizeof *log);
    if (!log) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the log %s", path);
    const dpt_status status = dpti_output_open("the log ", path, &log->output, error);
    if (status == DPT_OK)
        *out = log;
    else
        free(log);
    return status;
}

/* Returns the log, or no log after a failure. */
static dpt_status settle(dpti_log *log, dpt_status status, dpti_log **out)
{
    if (status == DPT_OK) {
        *out = log;
        return DPT_OK;
    }
    (void)dpti_output_close(&log->output, NULL);
    free(log);
    return status;
}

dpt_status dpti_log_open(const char *path, dpti_log **out, dpt_error *error)
{
    dpti_log *log = NULL;
    DPT_TRY(open_log(path, &log, error));
    return settle(log, dpti_output_cut(&log->output, 0, error), out);
}

/* The file is locked before it is read, so that nobody adds to it meanwhile. */
dpt_status dpti_log_resume(const char *path, const dpti_log_position *position,
                           dpti_log_resumed *out, dpt_error *error)
{
    dpti_log *log = NULL;
    dpti_log_cut cut = {0};
    DPT_TRY(open_log(path, &log, error));
    dpt_status status = dpti_log_find(path, position, &cut, error);
    if (status == DPT_OK) status = dpti_output_cut(&log->output, cut.n_kept, error);
    out->begun = cut.n_kept > 0;
    out->last_step = cut.last_step;
    out->last_epoch = cut.last_epoch;
    return settle(log, status, &out->log);
}

dpt_status dpti_log_close(dpti_log *log, dpt_error *error)
{
    if (!log) return DPT_OK;
    const dpt_status status = dpti_output_close(&log->output, error);
    free(log);
    return status;
}

/* ---- Values ---------------------------------------------------------------------------------- */

/* An event that is being built.  The first failure is kept, and write_event reports it. */
typedef struct event {
    json_t *object;
    bool failed;
} event;

static event event_begin(const char *kind)
{
    event e = {.object = json_object()};
    e.failed = json_object_set_new(e.object, "event", json_string(kind)) != 0;
    return e;
}

/* Takes over the value, which is NULL if there was no memory. */
static void set(event *e, const char *key, json_t *value)
{
    if (json_object_set_new(e->object, key, value) != 0) e->failed = true;
}

static void append(event *e, json_t *array, json_t *value)
{
    if (json_array_append_new(array, value) != 0) e->failed = true;
}

static json_t *size_value(uint64_t value)
{
    if (value <= INT64_MAX) return json_integer((json_int_t)value);
    /* JSON readers support integers below 2^63; a larger seed is written as a string of digits. */
    char digits[24];
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)value);
    return json_string(digits);
}

/* JSON has no NaN and no infinity. */
static json_t *real_value(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

static json_t *measured(bool was, double value)
{
    return was ? real_value(value) : json_null();
}

/* The name of a device or folder may not be UTF-8, which JSON cannot hold. */
static json_t *text_value(const char *text)
{
    if (!text) return json_null();
    json_t *value = json_string(text);
    if (value) return value;
    char *ascii = dpti_strdup(text);
    for (char *c = ascii; c && *c; c++)
        if ((unsigned char)*c >= 0x80) *c = '?';
    value = ascii ? json_string(ascii) : NULL;
    free(ascii);
    return value;
}

static void set_reals(event *e, const char *key, const double *values, size_t n)
{
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++)
        append(e, array, real_value(values[i]));
    set(e, key, array);
}

static dpt_status write_event(dpti_log *log, event *e, dpt_error *error)
{
    enum { SIGNIFICANT_DIGITS = 9 }; /* tells any two floats apart */
    char *text =
        e->failed ? NULL
                  : json_dumps(e->object, JSON_COMPACT | JSON_REAL_PRECISION(SIGNIFICANT_DIGITS));
    json_decref(e->object);
    char *line = text ? dpti_format("%s\n", text) : NULL;
    free(text);
    if (!line)
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to write the log %s", log->output.path);
    const dpt_status status = dpti_output_write(&log->output, line, strlen(line), error);
    free(line);
    return status;
}

/* ---- Events ---------------------------------------------------------------------------------- */

static json_t *device_value(event *e, const dpti_log_run *run, size_t i)
{
    const dpt_device_info *device = &run->devices[i];
    event d = {.object = json_object()};
    set(&d, "id", text_value(device->id));
    set(&d, "backend", text_value(device->backend));
    set(&d, "name", text_value(device->name));
    if (device->detail && device->detail[0]) set(&d, "detail", text_value(device->detail));
    if (device->n_threads > 0) set(&d, "threads", size_value(device->n_threads));
    if (device->memory_bytes > 0) set(&d, "memory_bytes", size_value(device->memory_bytes));
    if (run->micro_batch_limits)
        set(&d, "micro_batch",
            run->micro_batch_limits[i] < SIZE_MAX ? size_value(run->micro_batch_limits[i])
                                                  : json_null());
    if (run->streamed && run->streamed[i]) set(&d, "streamed", json_true());
    if (device->island > 0) set(&d, "island", size_value(device->island));
    if (device->host) {
        set(&d, "process", size_value(device->process));
        set(&d, "host", text_value(device->host));
    }
    if (d.failed) e->failed = true;
    return d.object;
}

/* Adds the devices and how they are connected. */
static void set_run_devices(event *e, const dpti_log_run *run)
{
    json_t *devices = json_array();
    if (run->transport) set(e, "transport", text_value(run->transport));
    if (run->survives) set(e, "goes_on_without_dead_processes", json_true());
    if (run->delays) set_reals(e, "transport_delay_seconds", run->delays, run->n_processes);
    for (size_t i = 0; i < run->n_devices; i++)
        append(e, devices, device_value(e, run, i));
    set(e, "devices", devices);
}

static void set_exchange(event *e, const dpti_log_run *run)
{
    const dpti_log_exchange *exchange = run->exchange;
    if (!exchange) return;
    event x = {.object = json_object()};
    if (exchange->measured) {
        set(&x, "alpha_seconds", real_value(exchange->alpha));
        set(&x, "beta_seconds", real_value(exchange->beta));
        set(&x, "route", text_value(exchange->route));
        set(&x, "window", size_value(exchange->window));
    }
    if (exchange->bucket > 0) {
        set(&x, "first_bucket_bytes", size_value(exchange->first_bucket));
        set(&x, "bucket_bytes", size_value(exchange->bucket));
    }
    if (x.failed) e->failed = true;
    set(e, "exchange", x.object);
}

static void set_settings(event *e, const dpti_log_run *run)
{
    if (run->n_settings == 0) return;
    event s = {.object = json_object()};
    for (size_t i = 0; i < run->n_settings; i++)
        set(&s, run->settings[i].name, text_value(run->settings[i].value));
    if (s.failed) e->failed = true;
    set(e, "settings", s.object);
}

/* What devices hold in parts. */
static void set_parts(event *e, const dpti_log_run *run)
{
    if (run->shard) set(e, "shard", text_value(run->shard));
    if (run->offload) set(e, "offload", json_true());
    if (run->chosen) set(e, "chosen", text_value(run->chosen));
}

dpt_status dpti_log_write_run(dpti_log *log, const dpti_log_run *run, dpt_error *error)
{
    event e = event_begin("run");
    set(&e, "version", text_value(DPT_VERSION));
    set(&e, "model", text_value(run->model));
    set(&e, "parameters", size_value(run->parameters));
    set(&e, "batch_size", size_value(run->batch_size));
    if (run->accumulate > 1) set(&e, "accumulate", size_value(run->accumulate));
    if (run->compress) set(&e, "compress", text_value(run->compress));
    if (run->compress_rank > 0) set(&e, "compress_rank", size_value(run->compress_rank));
    set_parts(&e, run);
    if (run->local_steps > 0) set(&e, "local_steps", size_value(run->local_steps));
    if (run->outer_delay > 0) set(&e, "outer_delay", size_value(run->outer_delay));
    if (run->outer_fragments > 1) set(&e, "outer_fragments", size_value(run->outer_fragments));
    set(&e, "seed", size_value(run->seed));
    set(&e, "dataset", text_value(run->dataset));
    set(&e, "split", text_value(run->split));
    set_settings(&e, run);
    set_exchange(&e, run);
    set_run_devices(&e, run);
    return write_event(log, &e, error);
}

dpt_status dpti_log_write_resume(dpti_log *log, const dpti_log_run *run, size_t step,
                                 dpt_error *error)
{
    event e = event_begin("resume");
    set(&e, "version", text_value(DPT_VERSION));
    set(&e, "step", size_value(step));
    set(&e, "split", text_value(run->split));
    set_parts(&e, run);
    set_exchange(&e, run);
    set_run_devices(&e, run);
    return write_event(log, &e, error);
}

dpt_status dpti_log_write_choices(dpti_log *log, size_t device,
                                  const dpti_recorded_choices *choices, dpt_error *error)
{
    event e = event_begin("algorithms");
    json_t *list = json_array();
    for (size_t i = 0; i < choices->n; i++) {
        json_t *words = json_array();
        append(&e, words, text_value(choices->items[i].layer));
        append(&e, words, text_value(choices->items[i].kind));
        append(&e, words, text_value(choices->items[i].algorithm));
        append(&e, list, words);
    }
    set(&e, "device", size_value(device));
    set(&e, "operations", list);
    return write_event(log, &e, error);
}

dpt_status dpti_log_write_step(dpti_log *log, const dpt_step_metrics *step, dpt_error *error)
{
    event e = event_begin("step");
    set(&e, "step", size_value(step->step));
    set(&e, "epoch", size_value(step->epoch));
    set(&e, "loss", real_value(step->loss));
    set(&e, "lr", real_value(step->lr));
    set(&e, "samples", size_value(step->samples));
    if (step->labels != step->samples) set(&e, "labels", size_value(step->labels));
    set(&e, "hits", size_value(step->hits));
    json_t *shards = json_array();
    for (size_t i = 0; i < step->n_devices; i++)
        append(&e, shards, size_value(step->shards[i]));
    set(&e, "shards", shards);
    set_reals(&e, "device_seconds", step->device_seconds, step->n_devices);
    set_reals(&e, "exchange_seconds", step->exchange_seconds, step->n_devices);
    set_reals(&e, "waiting_seconds", step->waiting_seconds, step->n_devices);
    set(&e, "seconds", real_value(step->seconds));
    if (step->data_seconds > 0) set(&e, "data_seconds", real_value(step->data_seconds));
    if (step->round_seconds > 0) set(&e, "round_seconds", real_value(step->round_seconds));
    return write_event(log, &e, error);
}

dpt_status dpti_log_write_rebalance(dpti_log *log, const dpt_step_metrics *step, dpt_error *error)
{
    event e = event_begin("rebalance");
    set(&e, "step", size_value(step->step));
    json_t *shards = json_array(), *throughput = json_array();
    for (size_t i = 0; i < step->n_devices; i++) {
        append(&e, shards, size_value(step->shards[i]));
        append(&e, throughput, measured(step->throughput[i] > 0, step->throughput[i]));
    }
    set(&e, "shards", shards);
    set(&e, "throughput", throughput);
    set(&e, "reason", text_value(step->rebalance));
    return write_event(log, &e, error);
}

const char *dpti_log_event_name(dpt_device_event_kind kind)
{
    static const char *const names[] = {
        [DPT_DEVICE_LOST] = "device_lost",           [DPT_DEVICE_NOT_FINITE] = "device_not_finite",
        [DPT_REPLICA_RESTORED] = "replica_restored", [DPT_DEVICE_READMITTED] = "device_readmitted",
        [DPT_ISLAND_LOST] = "island_lost",           [DPT_DEVICE_STANDBY] = "device_standby",
        [DPT_DEVICE_PRESENT] = "device_present",     [DPT_STEPS_IN_SEGMENTS] = "steps_in_segments",
        [DPT_DEVICE_JOINED] = "device_joined",
    };
    return names[kind];
}

dpt_status dpti_log_write_device_event(dpti_log *log, const dpt_device_event *device_event,
                                       dpt_error *error)
{
    const dpt_device_event *d = device_event;
    event e = event_begin(dpti_log_event_name(d->kind));
    set(&e, "step", size_value(d->step));
    set(&e, "device", size_value(d->device));
    set(&e, "id", text_value(d->id));
    set(&e, "error", text_value(d->message));
    return write_event(log, &e, error);
}

dpt_status dpti_log_write_rewind(dpti_log *log, size_t step, size_t until, dpt_error *error)
{
    event e = event_begin("rewind");
    set(&e, "step", size_value(step));
    set(&e, "until", size_value(until));
    return write_event(log, &e, error);
}

dpt_status dpti_log_write_epoch(dpti_log *log, const dpt_epoch_metrics *epoch, dpt_error *error)
{
    event e = event_begin("epoch");
    set(&e, "epoch", size_value(epoch->epoch));
    set(&e, "train_loss", real_value(epoch->train_loss));
    set(&e, "train_accuracy", real_value(epoch->train_accuracy));
    set(&e, "validation_loss", measured(epoch->validated, epoch->validation_loss));
    set(&e, "validation_accuracy", measured(epoch->validated, epoch->validation_accuracy));
    set(&e, "test_loss", measured(epoch->tested, epoch->test_loss));
    set(&e, "test_accuracy", measured(epoch->tested, epoch->test_accuracy));
    set(&e, "seconds", real_value(epoch->seconds));
    set(&e, "images_per_second", real_value(epoch->images_per_second));
    if (epoch->weights_sha256[0]) set(&e, "weights_sha256", text_value(epoch->weights_sha256));
    if (epoch->validation_classes)
        set(&e, "validation_metrics", dpti_class_json(epoch->validation_classes, true));
    if (epoch->test_classes) set(&e, "test_metrics", dpti_class_json(epoch->test_classes, true));
    return write_event(log, &e, error);
}

dpt_status dpti_log_write_checkpoint(dpti_log *log, const dpti_log_checkpoint *checkpoint,
                                     dpt_error *error)
{
    event e = event_begin("checkpoint");
    set(&e, "step", size_value(checkpoint->step));
    set(&e, "bytes", size_value(checkpoint->bytes));
    set(&e, "stopped_seconds", real_value(checkpoint->stopped));
    set(&e, "write_seconds", real_value(checkpoint->written));
    set(&e, "processor_seconds", real_value(checkpoint->processor));
    return write_event(log, &e, error);
}

/* Adds the reports of every device, in arrays like those of a step. */
static void set_devices(event *e, const dpti_log_done *done)
{
    json_t *samples = json_array(), *busy = json_array(), *exchange = json_array();
    json_t *waiting = json_array(), *throughput = json_array(), *alone = json_array();
    for (size_t i = 0; i < done->n_devices; i++) {
        const dpt_device_report *d = &done->devices[i];
        append(e, samples, size_value(d->samples));
        append(e, busy, real_value(d->busy_seconds));
        append(e, exchange, real_value(d->exchange_seconds));
        append(e, waiting, real_value(d->waiting_seconds));
        append(e, throughput, measured(d->throughput > 0, d->throughput));
        append(e, alone, measured(d->alone_throughput > 0, d->alone_throughput));
    }
    set(e, "samples", samples);
    set(e, "device_seconds", busy);
    set(e, "exchange_seconds", exchange);
    set(e, "waiting_seconds", waiting);
    set(e, "throughput", throughput);
    set(e, "alone_throughput", alone);
    set(e, "balance", measured(done->mix.balance > 0, done->mix.balance));
    set(e, "scaling", measured(done->mix.scaling > 0, done->mix.scaling));
}

dpt_status dpti_log_write_done(dpti_log *log, const dpti_log_done *done, dpt_error *error)
{
    const dpt_fit_result *result = done->result;
    struct rusage usage = {0};
    getrusage(RUSAGE_SELF, &usage); /* cannot fail: the arguments are right */
    const bool validated = result->best_epoch > 0;
    event e = event_begin("done");
    set(&e, "steps", size_value(result->steps));
    set(&e, "epochs", size_value(result->epochs));
    set(&e, "seconds", real_value(result->seconds));
    set(&e, "images_per_second", real_value(result->images_per_second));
    set(&e, "test_accuracy", real_value(result->test_accuracy));
    set(&e, "best_epoch", validated ? size_value(result->best_epoch) : json_null());
    set(&e, "best_validation_loss", measured(validated, result->best_validation_loss));
    set_devices(&e, done);
    set(&e, "peak_rss_bytes", size_value((uint64_t)usage.ru_maxrss * 1024)); /* given in KiB */
    return write_event(log, &e, error);
}
