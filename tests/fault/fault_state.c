/* Parameters, counters, and the list of live objects of a device of the fault backend. */
#include "fault.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Opened anew on every call: the loader counts references, and so this plug-in needs no state. */
const dpt_backend *fault_inner(dpt_error *error)
{
    const char *path = getenv("DPTRAIN_FAULT_INNER");
    if (!path || !*path) {
        (void)DPT_FAIL(error, DPT_E_ABSENT, "set DPTRAIN_FAULT_INNER to the plug-in to wrap");
        return NULL;
    }
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    void *symbol = handle ? dlsym(handle, DPT_BACKEND_ENTRY_NAME) : NULL;
    if (!symbol) {
        (void)DPT_FAIL(error, DPT_E_ABSENT, "%s", dlerror());
        return NULL;
    }
    dpt_backend_entry_fn entry;
    memcpy(&entry, &symbol, sizeof entry); /* C has no cast from a pointer to a function's */
    const dpt_backend *backend = entry(DPT_BACKEND_ABI);
    if (!backend) (void)DPT_FAIL(error, DPT_E_ABSENT, "%s has another ABI", path);
    return backend;
}

/* ---- Parameters ------------------------------------------------------------------------------ */

static const char *const own_keys[] = {
    "fail",    "lost",  "full",   "for",   "room",  "from",   "clock",  "entry",
    "bug",     "after", "domain", "hang",  "stall", "poison", "smudge", "again",
    "away",    "huge",  "flip",   "wreck", "place", "island", "stick",  "narrow",
    "refuses", "late",  "lag",    "cache", "only",  "starve", "varies", "apart"};

static bool is_own(const char *key)
{
    for (size_t i = 0; i < sizeof own_keys / sizeof *own_keys; i++) {
        if (strcmp(key, own_keys[i]) == 0) return true;
    }
    return false;
}

static bool copy_word(const char *text, char *out, size_t n_bytes)
{
    const bool fits = strlen(text) < n_bytes;
    if (fits) strcpy(out, text);
    return fits;
}

/* Where the count of this key goes, or NULL. */
static size_t *count_of(fault_state *state, const char *key)
{
    const struct {
        const char *key;
        size_t *count;
    } counts[] = {
        {"fail", &state->fail},        {"lost", &state->lost},     {"full", &state->full},
        {"for", &state->lasting},      {"room", &state->room},     {"from", &state->from},
        {"clock", &state->clock},      {"after", &state->after},   {"domain", &state->domain},
        {"hang", &state->hang},        {"stall", &state->stall},   {"poison", &state->poison},
        {"smudge", &state->smudge},    {"flip", &state->flip},     {"again", &state->again},
        {"away", &state->readmission}, {"huge", &state->huge},     {"wreck", &state->wreck},
        {"place", &state->place},      {"island", &state->island}, {"stick", &state->stick},
        {"narrow", &state->narrow},    {"late", &state->late},     {"lag", &state->lag},
        {"varies", &state->varies},    {"cache", &state->cache},   {"only", &state->only},
        {"starve", &state->starve},    {"apart", &state->apart}};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++)
        if (strcmp(key, counts[i].key) == 0) return counts[i].count;
    return NULL;
}

dpt_status fault_parse(dpt_device *device, const dpt_device_request *request)
{
    fault_state *state = fault_of(device);
    state->lasting = state->place = 1;
    for (size_t i = 0; i < request->n_params; i++) {
        const dpt_param *param = &request->params[i];
        const char *key = param->key;
        bool good = true;
        size_t *count = count_of(state, key);
        if (count) *count = param->number;
        if (strcmp(key, "bug") == 0) state->bug = (fault_bug)param->number;
        if (strcmp(key, "entry") == 0)
            good = copy_word(param->text, state->entry, sizeof state->entry);
        if (strcmp(key, "refuses") == 0)
            good = copy_word(param->text, state->refuses, sizeof state->refuses);
        if (!good)
            return DPT_FAIL(&device->error, DPT_E_INVALID, "%s=%s is too long", key, param->text);
    }
    if (state->readmission > 0 && state->again == 0) state->again = 1;
    return DPT_OK;
}

/* How often it has been opened in this run, this time included: the plug-in has no state of its
   own. */
static size_t count_opening(size_t self)
{
    const char *path = getenv("DPTRAIN_FAULT_REPORT");
    char line[128], mine[32];
    size_t n = 1;
    FILE *file = path && *path ? fopen(path, "r") : NULL;
    snprintf(mine, sizeof mine, "opened %zu\n", self);
    while (file && fgets(line, sizeof line, file))
        n += strcmp(line, mine) == 0;
    if (file) fclose(file);
    fault_report("%s", mine);
    return n;
}

dpt_status fault_appear(dpt_device *device, size_t self)
{
    fault_state *state = fault_of(device);
    state->opening = count_opening(self);
    if ((state->again > 0 && state->opening > state->again) ||
        (state->only > 0 && state->opening != state->only))
        state->fail = state->lost = state->full = state->hang = state->room = 0;
    if (state->opening == 1 || state->opening - 1 > state->readmission) return DPT_OK;
    return DPT_FAIL(&device->error, DPT_E_DEVICE, "opening %zu fails (planted)", state->opening);
}

dpt_device_request *fault_strip(const dpt_open_args *args)
{
    size_t n_params = 0;
    for (size_t i = 0; i < args->n_requests; i++)
        n_params += args->requests[i].n_params;
    dpt_device_request *requests =
        calloc(1, args->n_requests * sizeof *requests + (n_params + 1) * sizeof(dpt_param));
    if (!requests) return NULL;
    dpt_param *next = (dpt_param *)(void *)(requests + args->n_requests);
    for (size_t i = 0; i < args->n_requests; i++) {
        const dpt_device_request *from = &args->requests[i];
        requests[i] = *from;
        requests[i].params = next;
        requests[i].n_params = 0;
        for (size_t k = 0; k < from->n_params; k++) {
            if (is_own(from->params[k].key)) continue;
            *next++ = from->params[k];
            requests[i].n_params++;
        }
    }
    return requests;
}

/* ---- Counting -------------------------------------------------------------------------------- */

void fault_report(const char *format, ...)
{
    const char *path = getenv("DPTRAIN_FAULT_REPORT");
    FILE *file = path && *path ? fopen(path, "a") : NULL;
    if (!file) return;
    va_list args;
    va_start(args, format);
    vfprintf(file, format, args);
    va_end(args);
    fclose(file);
}

/* Whether the step has been reached from which on memory is short. */
static bool is_short(const fault_state *state)
{
    return state->n_updates + 1 >= state->from;
}

dpt_status fault_hold(dpt_device *device, size_t n_samples)
{
    const fault_state *state = fault_of(device);
    if (state->room == 0 || n_samples <= state->room || !is_short(state)) return DPT_OK;
    fault_report("fired %zu room\n", state->n_calls);
    return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for %zu samples (planted)",
                    n_samples);
}

/* Counts a call for full=. */
static bool is_full(fault_state *state)
{
    if (state->full == 0 || !is_short(state)) return false;
    state->n_counted_full++;
    return state->n_counted_full >= state->full &&
           state->n_counted_full - state->full < state->lasting;
}

/* Returns late, if at all; then the call goes on as if nothing had been. */
static void hang(const fault_state *state, const char *entry)
{
    fault_report("fired %zu %s\n", state->n_calls, entry);
    for (size_t ms = 0; state->stall == 0 || ms < state->stall; ms++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

void fault_hang_if_told(const char *backend, const char *call)
{
    const char *told = getenv("DPTRAIN_FAULT_HANG");
    char words[64];
    const int length = snprintf(words, sizeof words, "%s:%s", backend, call);
    if (!told || strncmp(told, words, (size_t)length) != 0) return;
    if (told[length] != '\0' && told[length] != ':') return;
    hang(&(fault_state){.stall = told[length] ? strtoul(told + length + 1, NULL, 10) : 0}, call);
}

dpt_status fault_enter(dpt_device *device, const char *entry)
{
    fault_state *state = fault_of(device);
    if (state->is_lost) {
        return DPT_FAIL(&device->error, DPT_E_DEVICE_LOST, "the device is gone (planted), at %s",
                        entry);
    }
    if (state->entry[0] && strcmp(entry, state->entry) != 0) return DPT_OK;
    if (state->n_updates < state->after) return DPT_OK;
    state->n_calls++;
    if (state->n_calls == state->hang) hang(state, entry);
    if (state->n_calls == state->lost) {
        state->is_lost = true;
        fault_report("fired %zu %s\n", state->n_calls, entry);
        return DPT_FAIL(&device->error, DPT_E_DEVICE_LOST, "planted loss at call %zu, %s",
                        state->n_calls, entry);
    }
    if (is_full(state)) {
        fault_report("fired %zu %s\n", state->n_calls, entry);
        return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory in call %zu, %s (planted)",
                        state->n_calls, entry);
    }
    if (state->n_calls == state->fail) {
        fault_report("fired %zu %s\n", state->n_calls, entry);
        return DPT_FAIL(&device->error, DPT_E_DEVICE, "planted failure of call %zu, %s",
                        state->n_calls, entry);
    }
    return DPT_OK;
}

void fault_let_go(dpt_device *device, const char *entry)
{
    fault_state *state = fault_of(device);
    if (strcmp(entry, state->entry) != 0 || state->n_updates < state->after) return;
    state->n_calls++;
    if (state->n_calls == state->hang) hang(state, entry);
}

dpt_status fault_forwarded(dpt_device *device, dpt_status status)
{
    if (status != DPT_OK) device->error = fault_of(device)->inner.error;
    return status;
}

/* ---- What is alive --------------------------------------------------------------------------- */

bool fault_track(dpt_device *device, fault_object_kind kind, void *handle)
{
    fault_state *state = fault_of(device);
    fault_object *object = malloc(sizeof *object);
    if (!object) return false;
    *object = (fault_object){.kind = kind, .handle = handle, .next = state->objects};
    state->objects = object;
    return true;
}

void fault_forget(dpt_device *device, const void *handle)
{
    fault_state *state = fault_of(device);
    if (state->is_lost && !state->is_closing && handle) fault_report("touched a lost device\n");
    fault_object **at = &state->objects;
    while (*at && (*at)->handle != handle)
        at = &(*at)->next;
    if (!*at) return;
    fault_object *found = *at;
    *at = found->next;
    free(found);
}

size_t fault_count_objects(const fault_state *state)
{
    size_t n = 0;
    for (const fault_object *object = state->objects; object; object = object->next)
        n++;
    return n;
}
