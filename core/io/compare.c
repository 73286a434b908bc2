/* Compares two run logs, both read from their first line to their last one at the same time. */
#include "io/compare.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The step or epoch at which a log stands. */
typedef struct place {
    size_t step;  /* of an epoch: its last step */
    size_t epoch; /* of an epoch's results; 0: of the step's */
} place;

typedef struct reader {
    const dpti_file_bytes *file;
    size_t line, offset; /* `line` from 1; `offset` of the next line */
    json_t *run;         /* the run event; NULL: not read yet */
    json_t *event;       /* the step or epoch at which the log stands; NULL: the log has ended */
    place at;
    dpt_error *error;
} reader;

/* ---- Reading --------------------------------------------------------------------------------- */

static dpt_status fail_line(const reader *r, const char *what)
{
    return DPT_FAIL(r->error, DPT_E_FORMAT, "%s:%zu: %s; this is no whole log of dptrain",
                    r->file->name, r->line, what);
}

static bool read_size(const json_t *event, const char *key, size_t *out)
{
    const json_t *value = json_object_get(event, key);
    if (!json_is_integer(value) || json_integer_value(value) <= 0) return false;
    *out = (size_t)json_integer_value(value);
    return true;
}

/* Parses the next line into *event: NULL for an incomplete last line, which a run that was killed
   leaves. */
static dpt_status read_line(reader *r, json_t **event)
{
    const char *text = (const char *)r->file->bytes + r->offset;
    const size_t left = r->file->n_bytes - r->offset;
    const char *newline = memchr(text, '\n', left);
    const size_t length = newline ? (size_t)(newline - text) : left;
    json_error_t why;
    r->line++;
    r->offset += newline ? length + 1 : length;
    *event = json_loadb(text, length, JSON_REJECT_DUPLICATES, &why);
    if (*event || !newline) return DPT_OK;
    if (json_error_code(&why) == json_error_out_of_memory)
        return DPT_FAIL(r->error, DPT_E_NO_MEMORY, "no memory to read %s", r->file->name);
    return fail_line(r, "the line is no JSON");
}

/* Takes over an event if it is a step or an epoch, or the run. */
static dpt_status take(reader *r, json_t *event)
{
    const char *kind = json_string_value(json_object_get(event, "event"));
    const place before = r->at;
    if (!kind) return fail_line(r, "no JSON object with an event");
    if (strcmp(kind, "run") == 0 && !r->run) {
        r->run = json_incref(event);
    } else if (strcmp(kind, "step") == 0) {
        r->at.epoch = 0;
        if (!read_size(event, "step", &r->at.step) || r->at.step <= before.step)
            return fail_line(r, "a step without a number, or not in order");
        r->event = json_incref(event);
    } else if (strcmp(kind, "epoch") == 0) {
        if (!read_size(event, "epoch", &r->at.epoch))
            return fail_line(r, "an epoch without a number");
        r->event = json_incref(event);
    }
    return DPT_OK;
}

/* Goes to the next step or epoch. */
static dpt_status advance(reader *r)
{
    json_decref(r->event);
    r->event = NULL;
    while (!r->event && r->offset < r->file->n_bytes) {
        json_t *event = NULL;
        DPT_TRY(read_line(r, &event));
        const dpt_status status = event ? take(r, event) : DPT_OK;
        json_decref(event);
        DPT_TRY(status);
    }
    return DPT_OK;
}

/* ---- Comparing ------------------------------------------------------------------------------- */

/* Compares places in the order of a log: negative if `a` comes first. */
static int compare_places(const place *a, const place *b)
{
    if (a->step != b->step) return a->step < b->step ? -1 : 1;
    if (a->epoch != b->epoch) return a->epoch < b->epoch ? -1 : 1;
    return 0;
}

static bool write_value(const json_t *value, char *out, size_t size)
{
    char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(9));
    if (text) snprintf(out, size, "%s", text);
    free(text);
    return text != NULL;
}

/* Notes the first difference.  Returns false if there is no memory. */
static bool note(const reader readers[2], const char *key, dpt_log_comparison *out)
{
    if (out->differs) return true;
    out->differs = true;
    out->step = readers[0].at.step;
    out->epoch = readers[0].at.epoch;
    snprintf(out->key, sizeof out->key, "%s", key);
    for (size_t i = 0; i < 2; i++)
        if (!write_value(json_object_get(readers[i].event, key), out->values[i],
                         sizeof out->values[i]))
            return false;
    return true;
}

static bool compare_keys(const reader readers[2], const char *const *keys, dpt_log_comparison *out)
{
    for (; *keys; keys++) {
        const json_t *a = json_object_get(readers[0].event, *keys);
        const json_t *b = json_object_get(readers[1].event, *keys);
        if (a && b && !json_equal(a, b) && !note(readers, *keys, out)) return false;
    }
    return true;
}

static void measure_losses(const reader readers[2], dpt_log_comparison *out)
{
    const json_t *a = json_object_get(readers[0].event, "loss");
    const json_t *b = json_object_get(readers[1].event, "loss");
    if (!json_is_number(a) || !json_is_number(b)) return;
    const double x = json_number_value(a), y = json_number_value(b);
    const double larger = fmax(fabs(x), fabs(y));
    const double difference = larger > 0 ? fabs(x - y) / larger : 0;
    if (difference <= out->largest_loss_difference) return;
    out->largest_loss_difference = difference;
    out->largest_loss_step = readers[0].at.step;
}

/* Compares a step, or the results of an epoch, that both logs have. */
static bool compare_events(const reader readers[2], dpt_log_comparison *out)
{
    static const char *const of_step[] = {"epoch", "loss", "lr", "samples", "labels", "hits", NULL};
    static const char *const of_epoch[] = {"weights_sha256",  "train_loss", "train_accuracy",
                                           "validation_loss", "test_loss",  "validation_accuracy",
                                           "test_accuracy",   NULL};
    if (readers[0].at.epoch > 0) {
        out->common_epochs++;
        if (json_object_get(readers[0].event, "weights_sha256") &&
            json_object_get(readers[1].event, "weights_sha256"))
            out->common_weights++;
        return compare_keys(readers, of_epoch, out);
    }
    out->common_steps++;
    measure_losses(readers, out);
    return compare_keys(readers, of_step, out);
}

static void count(const reader *r, size_t side, dpt_log_comparison *out)
{
    if (r->at.epoch > 0)
        out->epochs[side]++;
    else
        out->steps[side]++;
}

static dpt_status compare_all(reader readers[2], dpt_log_comparison *out)
{
    reader *a = &readers[0], *b = &readers[1];
    DPT_TRY(advance(a));
    DPT_TRY(advance(b));
    while (a->event || b->event) {
        int order = compare_places(&a->at, &b->at);
        if (!a->event || !b->event) order = a->event ? -1 : 1;
        if (order == 0 && !compare_events(readers, out))
            return DPT_FAIL(a->error, DPT_E_NO_MEMORY, "no memory to compare %s and %s",
                            a->file->name, b->file->name);
        if (order <= 0) {
            count(a, 0, out);
            DPT_TRY(advance(a));
        }
        if (order >= 0) {
            count(b, 1, out);
            DPT_TRY(advance(b));
        }
    }
    return DPT_OK;
}

/* ---- Settings -------------------------------------------------------------------------------- */

static void add_name(const char *name, char *list, size_t size)
{
    const size_t used = strlen(list);
    snprintf(list + used, size - used, "%s%s", used > 0 ? ", " : "", name);
}

/* Lists the settings that both runs record and that are not the same. */
static void compare_settings(const reader readers[2], dpt_log_comparison *out)
{
    json_t *settings = json_object_get(readers[0].run, "settings"), *value;
    const json_t *others = json_object_get(readers[1].run, "settings");
    const json_t *seed = json_object_get(readers[0].run, "seed");
    const json_t *other_seed = json_object_get(readers[1].run, "seed");
    const char *name;
    json_object_foreach(settings, name, value)
    {
        const json_t *other = json_object_get(others, name);
        if (other && !json_equal(value, other)) add_name(name, out->settings, sizeof out->settings);
    }
    if (seed && other_seed && !json_equal(seed, other_seed))
        add_name("seed", out->settings, sizeof out->settings);
}

/* ---- Both ------------------------------------------------------------------------------------ */

static dpt_status check_run(const reader *r)
{
    if (r->run) return DPT_OK;
    return DPT_FAIL(r->error, DPT_E_FORMAT, "%s: no run event; this is no log of dptrain",
                    r->file->name);
}

dpt_status dpti_compare_logs(const dpti_file_bytes logs[2], dpt_log_comparison *out,
                             dpt_error *error)
{
    reader readers[2] = {{.file = &logs[0], .error = error}, {.file = &logs[1], .error = error}};
    dpt_log_comparison found = {.size = sizeof found, .largest_loss_difference = -1};
    dpt_status status = compare_all(readers, &found);
    for (size_t i = 0; i < 2 && status == DPT_OK; i++)
        status = check_run(&readers[i]);
    if (status == DPT_OK && found.common_steps == 0)
        status = DPT_FAIL(error, DPT_E_INVALID, "no step is in %s and in %s: nothing to compare",
                          logs[0].name, logs[1].name);
    if (status == DPT_OK) {
        compare_settings(readers, &found);
        if (found.largest_loss_difference < 0) found.largest_loss_difference = NAN;
        *out = found;
    }
    for (size_t i = 0; i < 2; i++) {
        json_decref(readers[i].event);
        json_decref(readers[i].run);
    }
    return status;
}
