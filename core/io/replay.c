/* Reads the shards of each step and device, and the algorithms of the devices, back from a run
   log. */
#include "io/log.h"

#include "base/grow.h"
#include "base/size.h"
#include "base/text.h"
#include "io/file.h"
#include "io/recorded_json.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

typedef struct reader {
    const char *name;
    size_t line;     /* from 1 */
    size_t capacity; /* number of steps for which `shards` has room */
    bool resumed;    /* the log has a resume event */
    dpti_replay replay;
    dpt_error *error;
} reader;

static dpt_status fail_line(const reader *r, const char *what)
{
    return DPT_FAIL(r->error, DPT_E_FORMAT, "%s:%zu: %s; this is no whole log of dptrain", r->name,
                    r->line, what);
}

static bool json_size(const json_t *value, size_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
    *out = (size_t)json_integer_value(value);
    return true;
}

/* Returns a copy of a text, "" if there is no text; NULL if there is no memory. */
static char *copy_text(const json_t *value)
{
    const char *text = json_string_value(value);
    return dpti_strdup(text ? text : "");
}

static dpt_status no_memory(const reader *r)
{
    return DPT_FAIL(r->error, DPT_E_NO_MEMORY, "no memory for what %s records", r->name);
}

/* Reads how many samples a device of a run or a resume event computes at once. */
static dpt_status read_at_once(const reader *r, const json_t *device, size_t *out)
{
    const json_t *at_once = json_object_get(device, "micro_batch");
    *out = SIZE_MAX; /* also in logs without this field */
    if (!at_once || json_is_null(at_once)) return DPT_OK;
    if (json_size(at_once, out) && *out > 0) return DPT_OK;
    return fail_line(r, "a device's micro_batch is no number of samples");
}

static dpt_status read_devices(reader *r, const json_t *devices, size_t n)
{
    dpti_replay *replay = &r->replay;
    replay->backends = calloc(n, sizeof *replay->backends);
    replay->choices = calloc(n, sizeof *replay->choices);
    replay->at_once = calloc(n, sizeof *replay->at_once);
    if (!replay->backends || !replay->choices || !replay->at_once) return no_memory(r);
    replay->n_devices = n;
    for (size_t i = 0; i < n; i++) {
        const json_t *device = json_array_get(devices, i);
        replay->backends[i] = copy_text(json_object_get(device, "backend"));
        if (!replay->backends[i]) return no_memory(r);
        DPT_TRY(read_at_once(r, device, &replay->at_once[i]));
    }
    return DPT_OK;
}

static dpt_status read_run(reader *r, const json_t *event)
{
    dpti_replay *replay = &r->replay;
    if (replay->n_devices) return fail_line(r, "a second run event");
    if (!json_size(json_object_get(event, "batch_size"), &replay->batch_size) ||
        replay->batch_size == 0)
        return fail_line(r, "the run event has no batch_size");
    const json_t *devices = json_object_get(event, "devices");
    if (json_array_size(devices) == 0) return fail_line(r, "the run event has no devices");
    replay->model = copy_text(json_object_get(event, "model"));
    if (!replay->model) return no_memory(r);
    return read_devices(r, devices, json_array_size(devices));
}

/* A device continues with other settings than it began with.  The first step of the first such
   device is stored. */
static void note_change(reader *r, size_t device)
{
    if (r->replay.changed_step > 0) return;
    r->replay.changed_step = r->replay.n_steps + 1;
    r->replay.changed_device = device;
}

static dpt_status read_list(const reader *r, const json_t *list, dpti_recorded_choices *out)
{
    const dpt_status status = dpti_recorded_decode(list, out);
    if (status == DPT_E_NO_MEMORY) return no_memory(r);
    return status == DPT_OK ? DPT_OK : fail_line(r, "a choice is no three words");
}

/* The choices of the first start are replayed; those of a resume are compared with them. */
static dpt_status read_choices(reader *r, const json_t *event)
{
    dpti_replay *replay = &r->replay;
    size_t device = 0;
    if (!json_size(json_object_get(event, "device"), &device) || device >= replay->n_devices)
        return fail_line(r, "the choices' device is none of the run's");
    const json_t *list = json_object_get(event, "operations");
    dpti_recorded_choices *first = &replay->choices[device], now = {.n = 0};
    if (!r->resumed && first->items) return fail_line(r, "a device's choices are there twice");
    if (!r->resumed) return read_list(r, list, first);
    const dpt_status status = read_list(r, list, &now);
    if (status == DPT_OK && first->n > 0 && !dpti_recorded_choices_equal(first, &now))
        note_change(r, device);
    dpti_recorded_choices_free(&now);
    return status;
}

/* Makes room for one more step.  A step takes more bytes in the log than here, up to a bounded
   factor, so the memory is bounded by the size of the file. */
static dpt_status grow(reader *r)
{
    dpti_replay *replay = &r->replay;
    size_t *shards = dpti_grow(replay->shards, replay->n_steps, &r->capacity,
                               replay->n_devices * sizeof *shards);
    if (!shards)
        return DPT_FAIL(r->error, DPT_E_NO_MEMORY, "no memory for the steps of %s", r->name);
    replay->shards = shards;
    return DPT_OK;
}

static dpt_status read_step(reader *r, const json_t *event)
{
    dpti_replay *replay = &r->replay;
    size_t step = 0, samples = 0, sum = 0;
    if (!replay->n_devices) return fail_line(r, "a step before the run event");
    if (!json_size(json_object_get(event, "step"), &step) || step != replay->n_steps + 1)
        return fail_line(r, "a step is missing or out of order");
    if (!json_size(json_object_get(event, "samples"), &samples) || samples == 0 ||
        samples > replay->batch_size)
        return fail_line(r, "the step's samples are not 1 to batch_size");
    const json_t *shards = json_object_get(event, "shards");
    if (!json_is_array(shards) || json_array_size(shards) != replay->n_devices)
        return fail_line(r, "the step's shards are not one for each device");
    DPT_TRY(grow(r));
    size_t *row = replay->shards + replay->n_steps * replay->n_devices;
    for (size_t i = 0; i < replay->n_devices; i++)
        if (!json_size(json_array_get(shards, i), &row[i]) || !dpti_add(sum, row[i], &sum))
            return fail_line(r, "a shard is no number of samples");
    if (sum != samples) return fail_line(r, "the shards do not add up to the step's samples");
    replay->n_steps++;
    return DPT_OK;
}

/* Compares a device of a resume event with the run: another backend, or another number of samples
   at once, is a change. */
static dpt_status compare_device(reader *r, const json_t *device, size_t i)
{
    const dpti_replay *replay = &r->replay;
    const char *backend = json_string_value(json_object_get(device, "backend"));
    size_t at_once = 0;
    DPT_TRY(read_at_once(r, device, &at_once));
    const bool same = strcmp(backend ? backend : "", replay->backends[i]) == 0;
    if (!same || at_once != replay->at_once[i]) note_change(r, i);
    return DPT_OK;
}

/* Reads a resume event: the shards that are already recorded stay, and there must be as many
   devices as before. */
static dpt_status read_resume(reader *r, const json_t *event)
{
    dpti_replay *replay = &r->replay;
    r->resumed = true;
    const json_t *devices = json_object_get(event, "devices");
    size_t step = 0;
    if (!replay->n_devices) return fail_line(r, "a resume event before the run event");
    if (!json_size(json_object_get(event, "step"), &step) || step != replay->n_steps)
        return fail_line(r, "the run goes on from a step that is not the last one here");
    if (json_array_size(devices) != replay->n_devices)
        return fail_line(r, "from here on the run has another number of devices");
    if (replay->changed_step > replay->n_steps)
        replay->changed_step = 0; /* no step was made after the change */
    for (size_t i = 0; i < replay->n_devices; i++)
        DPT_TRY(compare_device(r, json_array_get(devices, i), i));
    return DPT_OK;
}

static dpt_status read_line(reader *r, const char *text, size_t length, bool ended)
{
    json_t *event = json_loadb(text, length, JSON_REJECT_DUPLICATES, NULL);
    if (!event && !ended) return DPT_OK; /* the run was killed while it wrote this line */
    const char *kind = json_string_value(json_object_get(event, "event"));
    dpt_status status = DPT_OK;
    if (!event)
        status = fail_line(r, "the line is no JSON");
    else if (!kind)
        status = fail_line(r, "no JSON object with an event");
    else if (strcmp(kind, "run") == 0)
        status = read_run(r, event);
    else if (strcmp(kind, "algorithms") == 0 || strcmp(kind, "choices") == 0) /* older logs */
        status = read_choices(r, event);
    else if (strcmp(kind, "step") == 0)
        status = read_step(r, event);
    else if (strcmp(kind, "resume") == 0)
        status = read_resume(r, event);
    json_decref(event);
    return status;
}

dpt_status dpti_replay_parse(const dpti_file_bytes *file, dpti_replay *out, dpt_error *error)
{
    reader r = {.name = file->name, .error = error};
    dpt_status status = DPT_OK;
    const char *text = (const char *)file->bytes;
    const char *const end = text + file->n_bytes;
    while (status == DPT_OK && text < end) {
        const char *newline = memchr(text, '\n', (size_t)(end - text));
        const char *const stop = newline ? newline : end;
        r.line++;
        status = read_line(&r, text, (size_t)(stop - text), newline != NULL);
        text = newline ? newline + 1 : end;
    }
    if (status == DPT_OK && r.replay.n_devices == 0)
        status = DPT_FAIL(error, DPT_E_FORMAT, "%s: no run event; this is no log of dptrain",
                          file->name);
    if (status == DPT_OK && r.replay.n_steps == 0)
        status = DPT_FAIL(error, DPT_E_FORMAT, "%s: it records no step that could be replayed",
                          file->name);
    if (status == DPT_OK)
        *out = r.replay;
    else
        dpti_replay_free(&r.replay);
    return status;
}

dpt_status dpti_replay_read(const char *path, dpti_replay *out, dpt_error *error)
{
    dpti_content content = {0};
    DPT_TRY(dpti_file_read(path, &content, error));
    const dpt_status status =
        dpti_replay_parse(&(dpti_file_bytes){path, content.bytes, content.n_bytes}, out, error);
    free(content.bytes);
    return status;
}

void dpti_replay_forget_choices(dpti_replay *replay, size_t device)
{
    dpti_recorded_choices_free(&replay->choices[device]);
    replay->at_once[device] = 0;
}

void dpti_replay_free(dpti_replay *replay)
{
    for (size_t i = 0; i < replay->n_devices; i++) {
        if (replay->backends) free(replay->backends[i]);
        if (replay->choices) dpti_recorded_choices_free(&replay->choices[i]);
    }
    free(replay->at_once);
    free(replay->backends);
    free(replay->choices);
    free(replay->model);
    free(replay->shards);
    *replay = (dpti_replay){0};
}

/* ---- Where a resumed run goes on ------------------------------------------------------------- */

typedef enum verdict { KEEP, CUT, REFUSE } verdict;

static bool same_seed(const json_t *value, uint64_t seed)
{
    char digits[24];
    if (json_is_integer(value)) return (uint64_t)json_integer_value(value) == seed;
    snprintf(digits, sizeof digits, "%llu", (unsigned long long)seed);
    return json_string_value(value) && strcmp(json_string_value(value), digits) == 0;
}

/* Decides whether a line belongs to the time before the checkpoint. */
static verdict judge(const json_t *event, bool first, const dpti_log_position *at,
                     dpti_log_cut *cut)
{
    const char *kind = json_string_value(json_object_get(event, "event"));
    size_t number = 0;
    if (!kind) return first ? REFUSE : CUT;
    if (first) {
        const bool same =
            strcmp(kind, "run") == 0 && json_size(json_object_get(event, "batch_size"), &number) &&
            number == at->batch_size && same_seed(json_object_get(event, "seed"), at->seed);
        return same ? KEEP : REFUSE;
    }
    if (strcmp(kind, "done") == 0) return CUT;
    if (strcmp(kind, "epoch") == 0) {
        if (!json_size(json_object_get(event, "epoch"), &number) || number >= at->epoch) return CUT;
        cut->last_epoch = number;
        return KEEP;
    }
    const json_t *step = json_object_get(event, "step");
    if (!step) return KEEP;
    if (!json_size(step, &number) || number > at->step) return CUT;
    if (strcmp(kind, "step") == 0) cut->last_step = number;
    return KEEP;
}

dpt_status dpti_log_find_in(const dpti_file_bytes *file, const dpti_log_position *position,
                            dpti_log_cut *out, dpt_error *error)
{
    const char *text = (const char *)file->bytes;
    const size_t length = file->n_bytes;
    size_t kept = 0;
    dpti_log_cut cut = {.n_kept = 0};
    while (kept < length) {
        const char *const newline = memchr(text + kept, '\n', length - kept);
        if (!newline) break; /* the line is incomplete because its process ended */
        const size_t n = (size_t)(newline - (text + kept));
        json_t *event = json_loadb(text + kept, n, JSON_REJECT_DUPLICATES, NULL);
        const verdict what = judge(event, kept == 0, position, &cut);
        json_decref(event);
        if (what == REFUSE)
            return DPT_FAIL(error, DPT_E_INVALID,
                            "%s is not the log of the training that is resumed: name another file",
                            file->name);
        if (what == CUT) break;
        kept += n + 1;
    }
    if (kept == 0 && length > 0)
        return DPT_FAIL(error, DPT_E_INVALID, "%s is no log of dptrain: name another file",
                        file->name);
    cut.n_kept = kept;
    *out = cut;
    return DPT_OK;
}

dpt_status dpti_log_find(const char *path, const dpti_log_position *position, dpti_log_cut *out,
                         dpt_error *error)
{
    dpti_content content = {0};
    dpt_error own = {.status = DPT_OK};
    struct stat about;
    *out = (dpti_log_cut){0};
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode)) return DPT_OK; /* /dev/stdout */
    dpt_status status = dpti_file_read(path, &content, &own);
    if (status == DPT_E_NOT_FOUND) return DPT_OK;
    if (status == DPT_OK)
        status = dpti_log_find_in(&(dpti_file_bytes){path, content.bytes, content.n_bytes},
                                  position, out, &own);
    free(content.bytes);
    if (status != DPT_OK && error) *error = own;
    return status;
}
