/* Turns a training into the numbers and texts of its report. */
#include "fit/reporting.h"

#include "balance/account.h"
#include "base/grow.h"
#include "base/print.h"
#include "base/text.h"
#include "context/context.h"
#include "fit/board.h"
#include "train/evaluation/classify.h"
#include "train/membership/presence.h"
#include "train/peers/peers.h"
#include "train/plan/shards.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_EVENTS = 200, MOST_FACTS = 16, FACT_BYTES = 64 };

/* ---- Collecting ------------------------------------------------------------------------------ */

static void free_event(dpti_report_event *event)
{
    free(event->kind);
    free(event->device);
    free(event->message);
}

static bool has_room(dpti_reporting *r)
{
    if (r->n_events == MOST_EVENTS) return false;
    dpti_report_event *events =
        dpti_grow(r->events, r->n_events, &r->events_capacity, sizeof *events);
    if (events) r->events = events;
    return events != NULL;
}

/* "device_lost" becomes "device lost". */
static char *words_of(const char *name)
{
    char *words = dpti_strdup(name);
    for (char *c = words; c && *c; c++)
        if (*c == '_') *c = ' ';
    return words;
}

void dpti_reporting_add(dpti_reporting *reporting, const dpt_device_event *event)
{
    dpti_report_event e = {.step = event->step,
                           .kind = words_of(dpti_log_event_name(event->kind)),
                           .device = dpti_strdup(event->id),
                           .message = dpti_strdup(event->message)};
    if (e.kind && e.device && e.message && has_room(reporting)) {
        reporting->events[reporting->n_events++] = e;
        return;
    }
    free_event(&e);
    reporting->n_left_out++;
}

void dpti_reporting_no_samples(dpti_reporting *reporting, const char *why)
{
    free(reporting->no_samples);
    reporting->no_samples = dpti_strdup(why);
}

void dpti_reporting_free(dpti_reporting *reporting)
{
    for (size_t i = 0; i < reporting->n_events; i++)
        free_event(&reporting->events[i]);
    free(reporting->events);
    free(reporting->no_samples);
    dpti_samples_free(&reporting->samples);
    *reporting = (dpti_reporting){.events = NULL};
}

/* ---- Facts ----------------------------------------------------------------------------------- */

typedef struct facts {
    size_t n;
    dpti_report_fact list[MOST_FACTS];
    char values[MOST_FACTS][FACT_BYTES];
} facts;

DPT_PRINTF(3, 4) static void add_fact(facts *f, const char *name, const char *format, ...)
{
    va_list args;
    if (f->n == MOST_FACTS) return;
    va_start(args, format);
    dpti_print_args(f->values[f->n], FACT_BYTES, format, args);
    va_end(args);
    f->list[f->n] = (dpti_report_fact){name, f->values[f->n]};
    f->n++;
}

static void add_time(facts *f, double seconds)
{
    const size_t whole = seconds < 1e15 ? (size_t)(seconds + 0.5) : 0;
    if (whole >= 3600)
        add_fact(f, "training time", "%zu h %02zu min", whole / 3600, whole / 60 % 60);
    else if (whole >= 60)
        add_fact(f, "training time", "%zu min %02zu s", whole / 60, whole % 60);
    else
        add_fact(f, "training time", "%.1f s", seconds);
}

/* The figures by which a language model is judged. */
static void add_text_facts(facts *f, const dpt_dataset *data, double loss)
{
    if (data->vocabulary == 0 || !data->reads_labels || !isfinite(loss)) return;
    add_fact(f, "test perplexity", "%.4g", exp(loss));
    if (data->bytes_per_label > 0)
        add_fact(f, "test bits per byte", "%.4f", loss / log(2) / data->bytes_per_label);
}

static void find_facts(const dpti_reported *r, facts *f)
{
    const dpt_fit_result *result = r->result;
    const dpt_trainer *t = r->trainer;
    const bool tokens = t->data->vocabulary > 0 && dpti_dataset_has_labels(t->data);
    const double units = tokens ? (double)dpti_dataset_labels(t->data) : 1;
    if (dpti_classifies(t) && isfinite(result->test_accuracy))
        add_fact(f, "test accuracy", "%.4f", result->test_accuracy);
    if (isfinite(result->test_loss)) add_fact(f, "test loss", "%.4f", result->test_loss);
    add_text_facts(f, t->data, result->test_loss);
    if (isfinite(result->train_loss)) add_fact(f, "training loss", "%.4f", result->train_loss);
    if (result->best_epoch > 0)
        add_fact(f, "best validation loss", "%.4f in epoch %zu", result->best_validation_loss,
                 result->best_epoch);
    add_fact(f, "steps", "%zu", result->steps);
    add_fact(f, "whole epochs", "%zu", result->epochs);
    add_time(f, result->seconds);
    if (result->images_per_second > 0)
        add_fact(f, tokens ? "tokens/s" : "images/s", "%.0f", units * result->images_per_second);
    add_fact(f, "parameters", "%zu", t->model->scalars);
    add_fact(f, "batch", "%zu", dpti_step_samples(t));
    add_fact(f, "training samples", "%zu", t->data->count);
}

/* ---- Devices --------------------------------------------------------------------------------- */

static double quotient(double a, double b)
{
    return b > 0 ? a / b : 0;
}

/* Whether one of this process's devices is lost. */
static bool is_lost(const dpt_trainer *t, size_t device)
{
    return device >= t->first_device && device < t->first_device + t->n_workers &&
           dpti_is_lost(&t->workers[device - t->first_device]);
}

/* The part of the samples of the kept steps that a device had. */
static double share_of(const dpti_history *h, size_t n_devices, size_t device)
{
    double own = 0, all = 0;
    for (size_t i = 0; i < h->n_steps * n_devices; i++) {
        all += (double)h->shards[i];
        if (i % n_devices == device) own += (double)h->shards[i];
    }
    return quotient(own, all);
}

/* The caller frees the result; NULL if there is no memory. */
static dpti_report_device *find_devices(const dpt_trainer *t, const dpti_history *h)
{
    const dpti_account *account = dpti_shards_account(t);
    const dpt_mix_report mix = dpti_account_mix(account);
    dpti_report_device *devices = calloc(t->n_devices, sizeof *devices);
    for (size_t i = 0; devices && i < t->n_devices; i++) {
        const dpt_device_report report = dpti_account_device(account, i);
        dpt_device_info about = {.size = sizeof about};
        if (dpt_trainer_device(t, i, &about) != DPT_OK) continue; /* cannot fail: it exists */
        devices[i] = (dpti_report_device){
            .id = about.id,
            .backend = about.backend,
            .name = about.name,
            .detail = about.detail,
            .host = about.host,
            .threads = about.n_threads,
            .memory_bytes = about.memory_bytes,
            .share = share_of(h, t->n_devices, i),
            .busy = quotient(report.busy_seconds, mix.seconds),
            .exchange = quotient(report.exchange_seconds, mix.seconds),
            .waiting = quotient(report.waiting_seconds, mix.seconds),
            .throughput = report.throughput,
            .lost = is_lost(t, i),
        };
    }
    return devices;
}

/* ---- The report ------------------------------------------------------------------------------ */

static dpti_report_course course_of(const dpti_reported *r)
{
    const dpti_history *h = r->history;
    return (dpti_report_course){.steps_before = h->steps_before,
                                .epochs_before = h->epochs_before,
                                .n_steps = h->n_steps,
                                .n_epochs = h->n_epochs,
                                .loss = h->loss,
                                .lr = h->lr,
                                .shards = h->shards,
                                .rebalanced = h->rebalanced,
                                .train_loss = h->train_loss,
                                .validation_loss = h->validation_loss,
                                .test_loss = h->test_loss,
                                .train_accuracy = h->train_accuracy,
                                .validation_accuracy = h->validation_accuracy,
                                .test_accuracy = h->test_accuracy,
                                .has_accuracy = dpti_classifies(r->trainer)};
}

typedef struct settings {
    dpti_told *told;
    dpti_report_fact *list;
    size_t n;
} settings;

static bool find_settings(const dpti_reported *r, settings *s)
{
    s->told = dpti_tell_settings(r->trainer, r->schedule);
    s->list = calloc(DPTI_SETTINGS + 1, sizeof *s->list);
    if (!s->told || !s->list) return false;
    for (; s->n < s->told->all.n; s->n++)
        s->list[s->n] = (dpti_report_fact){s->told->list[s->n].name, s->told->list[s->n].value};
    s->list[s->n++] = (dpti_report_fact){"split", dpti_shards_split_text(r->trainer)};
    return true;
}

dpt_status dpti_reporting_write(const dpti_reporting *reporting, const dpti_reported *reported)
{
    const dpt_trainer *t = reported->trainer;
    settings told = {.n = 0};
    facts known = {.n = 0};
    dpt_error error = {0};
    dpti_report_device *devices = find_devices(t, reported->history);
    char *title = dpti_format("%s on %s", t->model->name, t->data->name);
    dpt_status status = DPT_E_NO_MEMORY;
    find_facts(reported, &known);
    if (devices && title && find_settings(reported, &told)) {
        const dpti_report report = {
            .title = title,
            .version = DPT_VERSION,
            .command = reported->options->command,
            .ending = reported->ending,
            .well = reported->well,
            .facts = known.list,
            .n_facts = known.n,
            .settings = told.list,
            .n_settings = told.n,
            .course = course_of(reported),
            .devices = devices,
            .n_devices = t->n_devices,
            .events = reporting->events,
            .n_events = reporting->n_events,
            .n_events_left_out = reporting->n_left_out,
            .classes = reporting->samples.worst ? &reporting->samples.classes : NULL,
            .no_classes = reporting->no_samples};
        status = dpti_report_write(reported->options->report, &report, &error);
    } else {
        status = DPT_FAIL(&error, DPT_E_NO_MEMORY, "no memory for the report %s",
                          reported->options->report);
    }
    free(told.list);
    free(told.told);
    free(title);
    free(devices);
    return status == DPT_OK ? DPT_OK : dpti_context_fail(t->context, NULL, &error);
}
