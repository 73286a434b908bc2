/* The run state as JSON, and back. */
#include "checkpoint/run_state.h"

#include "base/parse.h"
#include "base/print.h"
#include "io/recorded_json.h"
#include "train/components/order.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS = 17 }; /* enough to distinguish any two doubles */

/* Larger counts are never reached by a training, and sums of a few such counts do not overflow. */
static const size_t max_count = (size_t)1 << 48;

void dpti_settings_add(dpti_settings *settings, const char *key, const char *format, ...)
{
    if (settings->n == DPTI_SETTINGS) return;
    dpti_setting *s = &settings->list[settings->n++];
    va_list args;
    va_start(args, format);
    dpti_print_args(s->text, sizeof s->text, format, args);
    va_end(args);
    snprintf(s->key, sizeof s->key, "%s", key);
    /* Names of models and data may have any bytes, but JSON is UTF-8. */
    for (char *c = s->text; *c; c++)
        if ((unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f) *c = '?';
}

const char *dpti_settings_find(const dpti_settings *settings, const char *key)
{
    for (size_t i = 0; i < settings->n; i++)
        if (strcmp(settings->list[i].key, key) == 0) return settings->list[i].text;
    return NULL;
}

void dpti_run_state_free(dpti_run_state *state)
{
    dpti_recorded_devices_free(&state->algorithms);
    free(state->devices);
    *state = (dpti_run_state){.n_devices = 0};
}

/* ---- Encoding -------------------------------------------------------------------------------- */

/* The first failure is kept. */
typedef struct encoder {
    bool failed;
} encoder;

static void set(encoder *e, json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) != 0) e->failed = true;
}

static void set_size(encoder *e, json_t *object, const char *key, size_t value)
{
    set(e, object, key, json_integer((json_int_t)value));
}

/* JSON has no NaN and no infinity. */
static void set_real(encoder *e, json_t *object, const char *key, double value)
{
    set(e, object, key, isfinite(value) ? json_real(value) : json_null());
}

static json_t *encode_cursor(encoder *e, const dpti_cursor *cursor)
{
    json_t *o = json_object();
    set_size(e, o, "step", cursor->step);
    set_size(e, o, "epoch", cursor->epoch);
    set_size(e, o, "position", cursor->position);
    return o;
}

static json_t *encode_course(encoder *e, const dpti_run_state *state)
{
    const dpti_course *c = &state->course;
    const dpt_fit_result *r = &c->result;
    json_t *o = json_object();
    set(e, o, "first", encode_cursor(e, &c->first));
    set_real(e, o, "elapsed", c->elapsed);
    set_real(e, o, "epoch_loss", c->loss);
    set_real(e, o, "epoch_seconds", c->seconds);
    set_size(e, o, "epoch_samples", c->samples);
    if (c->labels != c->samples) set_size(e, o, "epoch_labels", c->labels);
    set_size(e, o, "epoch_hits", c->hits);
    set_size(e, o, "samples", c->total_samples);
    set_size(e, o, "without_better", c->without_better);
    set_size(e, o, "steps", r->steps);
    set_size(e, o, "epochs", r->epochs);
    set_real(e, o, "seconds", r->seconds);
    set_real(e, o, "train_loss", r->train_loss);
    set_real(e, o, "test_loss", r->test_loss);
    set_real(e, o, "test_accuracy", r->test_accuracy);
    set_size(e, o, "best_epoch", r->best_epoch);
    set_real(e, o, "best_validation_loss", r->best_validation_loss);
    set(e, o, "finished", json_boolean(state->finished));
    return o;
}

static json_t *encode_device(encoder *e, const dpti_run_device *device)
{
    const dpti_time_model *m = &device->model;
    json_t *o = json_object();
    set(e, o, "id", json_string(device->id));
    set_size(e, o, "shard", device->shard);
    set_real(e, o, "a", m->a);
    set_real(e, o, "b", m->b);
    set_real(e, o, "p00", m->p[0]);
    set_real(e, o, "p01", m->p[1]);
    set_real(e, o, "p11", m->p[2]);
    set_real(e, o, "idle", m->idle);
    set_real(e, o, "noise", m->noise);
    set_real(e, o, "lean", m->lean);
    set_real(e, o, "wandering", m->wandering);
    set_size(e, o, "seen", m->n_seen);
    if (device->rests) set(e, o, "rests", json_true());
    if (device->exchange > 0) set_real(e, o, "exchange", device->exchange);
    return o;
}

static json_t *encode_rest(encoder *e, const dpti_standby_record *rest)
{
    json_t *o = json_object();
    set_real(e, o, "with", rest->with.seconds);
    set_real(e, o, "with_error", rest->with.error);
    set_real(e, o, "without", rest->without.seconds);
    set_real(e, o, "without_error", rest->without.error);
    set_size(e, o, "awake_for", rest->present_for);
    set_size(e, o, "asleep_for", rest->standby_for);
    set_size(e, o, "waited", rest->waited);
    return o;
}

static json_t *encode_balance(encoder *e, const dpti_run_state *state)
{
    json_t *o = json_object(), *devices = json_array();
    for (size_t i = 0; i < state->n_devices; i++)
        if (json_array_append_new(devices, encode_device(e, &state->devices[i])) != 0)
            e->failed = true;
    set(e, o, "calibrated", json_boolean(state->calibrated));
    set(e, o, "devices", devices);
    if (state->may_standby) set(e, o, "rest", encode_rest(e, &state->rest));
    return o;
}

static json_t *encode_algorithms(encoder *e, const dpti_run_state *state)
{
    json_t *list = json_array();
    for (size_t i = 0; i < state->algorithms.n; i++) {
        json_t *o = json_object();
        set(e, o, "kind", json_string(state->algorithms.items[i].kind));
        set(e, o, "operations", dpti_recorded_encode(&state->algorithms.items[i].choices));
        if (json_array_append_new(list, o) != 0) e->failed = true;
    }
    return list;
}

char *dpti_run_state_encode(const dpti_run_state *state)
{
    encoder e = {.failed = false};
    char digits[24];
    json_t *o = json_object(), *settings = json_object();
    set_size(&e, o, "version", DPTI_RUN_VERSION);
    set(&e, o, "done", encode_cursor(&e, &state->done));
    set_size(&e, o, "optimizer_origin", state->optimizer_origin);
    /* The number is modulo 2^64, which exceeds the integers of JSON readers. */
    snprintf(digits, sizeof digits, "%zu", state->batches_before);
    set(&e, o, "batches_before", json_string(digits));
    set_real(&e, o, "lr", state->lr);
    for (size_t i = 0; i < state->settings.n; i++)
        set(&e, settings, state->settings.list[i].key, json_string(state->settings.list[i].text));
    set(&e, o, "settings", settings);
    if (state->n_owing > 0) set_size(&e, o, "owing", state->n_owing);
    if (state->in_course) set(&e, o, "fit", encode_course(&e, state));
    if (state->n_devices > 0) set(&e, o, "balance", encode_balance(&e, state));
    if (state->algorithms.n > 0) set(&e, o, "algorithms", encode_algorithms(&e, state));
    char *text = e.failed ? NULL : json_dumps(o, JSON_COMPACT | JSON_REAL_PRECISION(DIGITS));
    json_decref(o);
    return text;
}

/* ---- Decoding -------------------------------------------------------------------------------- */

/* The first failure is kept. */
typedef struct decoder {
    const char *name;
    dpt_error *error;
    dpt_status status;
} decoder;

static bool fail_key(decoder *d, const char *key, const char *wanted)
{
    if (d->status == DPT_OK)
        d->status = DPT_FAIL(d->error, DPT_E_FORMAT, "%s: the training's %s is no %s", d->name, key,
                             wanted);
    return false;
}

/* A value, and its key for messages. */
typedef struct entry {
    const json_t *value;
    const char *key;
} entry;

static entry of(const json_t *object, const char *key)
{
    return (entry){json_object_get(object, key), key};
}

static bool get_size(decoder *d, entry from, size_t max, size_t *out)
{
    const json_t *value = from.value;
    if (!json_is_integer(value) || json_integer_value(value) < 0 ||
        (uint64_t)json_integer_value(value) > max)
        return fail_key(d, from.key, "number within its bounds");
    *out = (size_t)json_integer_value(value);
    return true;
}

/* null means NaN, if NaN is allowed. */
static bool get_real(decoder *d, entry from, bool may_be_nan, double *out)
{
    const json_t *value = from.value;
    const bool none = may_be_nan && json_is_null(value);
    if (!none && (!json_is_number(value) || !isfinite(json_number_value(value))))
        return fail_key(d, from.key, "real number");
    *out = none ? (double)NAN : json_number_value(value);
    return true;
}

static bool get_positive(decoder *d, entry from, double max, double *out)
{
    if (!get_real(d, from, false, out)) return false;
    return (*out >= 0 && *out <= max) || fail_key(d, from.key, "number within its bounds");
}

static bool get_bool(decoder *d, const json_t *object, const char *key, bool *out)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_boolean(value)) return fail_key(d, key, "truth value");
    *out = json_is_true(value);
    return true;
}

static bool get_text(decoder *d, entry from, char *out, size_t out_bytes)
{
    const json_t *value = from.value;
    const char *text = json_string_value(value);
    if (!text || strlen(text) >= out_bytes || strlen(text) != json_string_length(value))
        return fail_key(d, from.key, "short text");
    snprintf(out, out_bytes, "%s", text);
    return true;
}

static bool get_cursor(decoder *d, const json_t *object, const char *key, dpti_cursor *out)
{
    const json_t *o = json_object_get(object, key);
    if (!json_is_object(o)) return fail_key(d, key, "position");
    if (!get_size(d, of(o, "step"), max_count, &out->step) ||
        !get_size(d, of(o, "epoch"), max_count, &out->epoch) ||
        !get_size(d, of(o, "position"), DPTI_MAX_RECORDS, &out->position))
        return false;
    return out->epoch > 0 || fail_key(d, key, "position");
}

static bool get_result(decoder *d, const json_t *o, dpt_fit_result *r)
{
    const double max = 1e30;
    return get_size(d, of(o, "steps"), max_count, &r->steps) &&
           get_size(d, of(o, "epochs"), max_count, &r->epochs) &&
           get_positive(d, of(o, "seconds"), max, &r->seconds) &&
           get_real(d, of(o, "train_loss"), true, &r->train_loss) &&
           get_real(d, of(o, "test_loss"), true, &r->test_loss) &&
           get_real(d, of(o, "test_accuracy"), true, &r->test_accuracy) &&
           get_size(d, of(o, "best_epoch"), max_count, &r->best_epoch) &&
           get_real(d, of(o, "best_validation_loss"), true, &r->best_validation_loss);
}

/* Returns whether the counts of dpt_fit are consistent. */
static bool course_agrees(const dpti_run_state *s)
{
    const dpti_course *c = &s->course;
    const dpt_fit_result *r = &c->result;
    /* An epoch whose steps are done and whose evaluation has failed does not count yet. */
    const size_t open = s->done.position == 0 && c->samples > 0;
    return c->first.step <= s->done.step && r->steps == s->done.step - c->first.step &&
           c->first.epoch + open <= s->done.epoch &&
           r->epochs == s->done.epoch - c->first.epoch - open && c->hits <= c->labels &&
           c->samples <= c->total_samples && r->best_epoch <= s->done.epoch &&
           (c->samples > 0) == ((s->done.position > 0 || open > 0) && r->steps > 0);
}

/* There are as many labels as samples if nothing else is said. */
static bool get_labels(decoder *d, const json_t *o, dpti_course *c)
{
    c->labels = c->samples;
    if (!json_object_get(o, "epoch_labels")) return true;
    return get_size(d, of(o, "epoch_labels"), max_count, &c->labels);
}

static bool get_course(decoder *d, const json_t *o, dpti_run_state *s)
{
    const double max = 1e30;
    dpti_course *c = &s->course;
    if (!json_is_object(o)) return fail_key(d, "fit", "object");
    if (!get_cursor(d, o, "first", &c->first) ||
        !get_positive(d, of(o, "elapsed"), max, &c->elapsed) ||
        !get_real(d, of(o, "epoch_loss"), false, &c->loss) ||
        !get_positive(d, of(o, "epoch_seconds"), max, &c->seconds) ||
        !get_size(d, of(o, "epoch_samples"), max_count, &c->samples) || !get_labels(d, o, c) ||
        !get_size(d, of(o, "epoch_hits"), max_count, &c->hits) ||
        !get_size(d, of(o, "samples"), SIZE_MAX >> 1, &c->total_samples) ||
        !get_size(d, of(o, "without_better"), max_count, &c->without_better) ||
        !get_result(d, o, &c->result) || !get_bool(d, o, "finished", &s->finished))
        return false;
    return course_agrees(s) || fail_key(d, "fit", "course that could have been");
}

static bool get_model(decoder *d, const json_t *o, dpti_time_model *m)
{
    const double max = 1e15;
    *m = dpti_time_model_new();
    if (!get_positive(d, of(o, "a"), max, &m->a) || !get_positive(d, of(o, "b"), max, &m->b) ||
        !get_positive(d, of(o, "p00"), max, &m->p[0]) ||
        !get_real(d, of(o, "p01"), false, &m->p[1]) ||
        !get_positive(d, of(o, "p11"), max, &m->p[2]) ||
        !get_positive(d, of(o, "idle"), max, &m->idle) ||
        !get_positive(d, of(o, "noise"), 1, &m->noise) ||
        !get_real(d, of(o, "lean"), false, &m->lean) ||
        !get_positive(d, of(o, "wandering"), 1, &m->wandering) ||
        !get_size(d, of(o, "seen"), max_count, &m->n_seen))
        return false;
    if (fabs(m->p[1]) > max || fabs(m->lean) > max || !(m->noise > 0) ||
        (m->n_seen > 0 && !(m->a + m->b > 0)))
        return fail_key(d, "balance", "model of a device");
    return true;
}

static bool get_device(decoder *d, const json_t *o, dpti_run_device *device)
{
    const json_t *rests = json_object_get(o, "rests"), *exchange = json_object_get(o, "exchange");
    /* Checkpoints of an earlier release have the key "share". */
    const char *shard_key = json_object_get(o, "shard") ? "shard" : "share";
    return get_text(d, (entry){json_object_get(o, "id"), "device"}, device->id,
                    sizeof device->id) &&
           get_size(d, of(o, shard_key), DPTI_MAX_RECORDS, &device->shard) &&
           get_model(d, o, &device->model) && (!rests || get_bool(d, o, "rests", &device->rests)) &&
           (!exchange || get_positive(d, of(o, "exchange"), 1e15, &device->exchange));
}

static bool get_rest(decoder *d, const json_t *o, dpti_standby_record *r)
{
    const double max = 1e15;
    return get_positive(d, of(o, "with"), max, &r->with.seconds) &&
           get_positive(d, of(o, "with_error"), max, &r->with.error) &&
           get_positive(d, of(o, "without"), max, &r->without.seconds) &&
           get_positive(d, of(o, "without_error"), max, &r->without.error) &&
           get_size(d, of(o, "awake_for"), max_count, &r->present_for) &&
           get_size(d, of(o, "asleep_for"), max_count, &r->standby_for) &&
           get_size(d, of(o, "waited"), max_count, &r->waited);
}

static bool get_balance(decoder *d, const json_t *o, dpti_run_state *s)
{
    const json_t *devices = json_object_get(o, "devices"), *rest = json_object_get(o, "rest");
    const size_t n = json_array_size(devices);
    if (!get_bool(d, o, "calibrated", &s->calibrated)) return false;
    s->may_standby = rest != NULL;
    if (rest && !get_rest(d, rest, &s->rest)) return false;
    if (n == 0 || n > DPTI_BALANCE_MAX_DEVICES) return fail_key(d, "balance", "list of devices");
    s->devices = calloc(n, sizeof *s->devices);
    if (!s->devices) {
        d->status = DPT_FAIL(d->error, DPT_E_NO_MEMORY, "no memory for the state of %s", d->name);
        return false;
    }
    s->n_devices = n;
    for (size_t i = 0; i < n; i++)
        if (!get_device(d, json_array_get(devices, i), &s->devices[i])) return false;
    return true;
}

static bool get_algorithms(decoder *d, const json_t *list, dpti_run_state *s)
{
    const size_t n = json_array_size(list);
    if (n == 0 || n > DPTI_BALANCE_MAX_DEVICES) return fail_key(d, "algorithms", "list of devices");
    s->algorithms.items = calloc(n, sizeof *s->algorithms.items);
    dpt_status status = s->algorithms.items ? DPT_OK : DPT_E_NO_MEMORY;
    for (size_t i = 0; status == DPT_OK && i < n; i++) {
        const json_t *device = json_array_get(list, i);
        dpti_recorded_device *a = &s->algorithms.items[s->algorithms.n++];
        if (!get_text(d, of(device, "kind"), a->kind, sizeof a->kind)) return false;
        status = dpti_recorded_decode(json_object_get(device, "operations"), &a->choices);
    }
    if (status == DPT_E_FORMAT) return fail_key(d, "algorithms", "list of three words each");
    if (status == DPT_OK) return true;
    d->status = DPT_FAIL(d->error, DPT_E_NO_MEMORY, "no memory for the state of %s", d->name);
    return false;
}

static bool get_settings(decoder *d, json_t *o, dpti_settings *settings)
{
    const char *key;
    json_t *value;
    if (!json_is_object(o) || json_object_size(o) > DPTI_SETTINGS)
        return fail_key(d, "settings", "object of texts");
    json_object_foreach(o, key, value)
    {
        dpti_setting *s = &settings->list[settings->n];
        if (strlen(key) >= sizeof s->key) return fail_key(d, "settings", "object of texts");
        if (!get_text(d, (entry){value, "settings"}, s->text, sizeof s->text)) return false;
        snprintf(s->key, sizeof s->key, "%s", key);
        settings->n++;
    }
    return true;
}

static bool get_state(decoder *d, const json_t *o, dpti_run_state *s)
{
    size_t version = 0;
    char digits[24];
    if (!get_size(d, of(o, "version"), SIZE_MAX >> 1, &version)) return false;
    if (version != DPTI_RUN_VERSION) {
        d->status = DPT_FAIL(d->error, DPT_E_FORMAT,
                             "%s: a checkpoint of version %zu, and this dptrain knows %d", d->name,
                             version, DPTI_RUN_VERSION);
        return false;
    }
    if (!get_cursor(d, o, "done", &s->done) ||
        !get_size(d, of(o, "optimizer_origin"), max_count, &s->optimizer_origin) ||
        !get_text(d, of(o, "batches_before"), digits, sizeof digits) ||
        !get_positive(d, of(o, "lr"), 1e6, &s->lr) ||
        !get_settings(d, json_object_get(o, "settings"), &s->settings))
        return false;
    if (!dpti_parse_size(digits, 0, SIZE_MAX, &s->batches_before))
        return fail_key(d, "batches_before", "number within its bounds");
    if (s->optimizer_origin > s->done.step)
        return fail_key(d, "optimizer_origin", "number within its bounds");
    if (json_object_get(o, "owing") &&
        !get_size(d, of(o, "owing"), DPTI_BALANCE_MAX_DEVICES, &s->n_owing))
        return false;
    const json_t *fit = json_object_get(o, "fit"), *balance = json_object_get(o, "balance");
    const json_t *algorithms = json_object_get(o, "algorithms");
    s->in_course = fit != NULL;
    return (!fit || get_course(d, fit, s)) && (!balance || get_balance(d, balance, s)) &&
           (!algorithms || get_algorithms(d, algorithms, s));
}

dpt_status dpti_run_state_decode(const char *name, const char *text, dpti_run_state *out,
                                 dpt_error *error)
{
    decoder d = {.name = name, .error = error, .status = DPT_OK};
    dpti_run_state *state = calloc(1, sizeof *state);
    json_t *object = json_loads(text, JSON_REJECT_DUPLICATES, NULL);
    if (!state)
        d.status = DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the state of %s", name);
    else if (!json_is_object(object))
        (void)fail_key(&d, "state", "JSON object");
    else
        (void)get_state(&d, object, state);
    json_decref(object);
    if (d.status == DPT_OK)
        *out = *state;
    else if (state)
        dpti_run_state_free(state);
    free(state);
    return d.status;
}
