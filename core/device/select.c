/* Finds the devices that a list means.  Most of the code writes messages that help with typing
 * errors. */
#include "device/select.h"
#include "base/parse.h"
#include "base/text.h"
#include "device/device.h"
#include "dpt_error.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* ---- Messages -------------------------------------------------------------------------------- */

/* Text of a limited size; what does not fit is cut. */
typedef struct words {
    char text[400];
    size_t length;
} words;

DPT_PRINTF(2, 3) static void say(words *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    const int n = vsnprintf(w->text + w->length, sizeof w->text - w->length, format, args);
    va_end(args);
    if (n > 0) w->length += (size_t)n;
    if (w->length >= sizeof w->text) w->length = sizeof w->text - 1;
}

/* Returns the nearest of n words, or NULL.  Case does not count. */
static const char *nearest(const char *word, const char *const *known, size_t n)
{
    char lower[DPTI_ID_BYTES];
    size_t length = 0;
    for (; word[length] && length < sizeof lower - 1; length++)
        lower[length] = (char)tolower((unsigned char)word[length]);
    lower[length] = '\0';
    const char **list = calloc(n + 1, sizeof *list);
    if (!list) return NULL;
    for (size_t i = 0; i < n; i++)
        list[i] = known[i];
    const char *found = dpti_nearest(lower, list);
    free(list);
    return found;
}

/* Lists the n known words, at least one, and suggests the nearest.  Returns whether one is near. */
static bool say_known(words *w, const char *word, const char *const *known, size_t n)
{
    const char *near = nearest(word, known, n);
    say(w, "; known:");
    for (size_t i = 0; i < n; i++)
        say(w, "%s %.40s", i ? "," : "", known[i]);
    if (near) say(w, " (did you mean \"%.40s\"?)", near);
    return near != NULL;
}

static dpt_status fail_no_plugins(const dpti_registry *registry, dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_ABSENT,
                    "no backend was found; plug-ins (libdptrain-NAME.so) were looked for in: "
                    "%.300s; set DPTRAIN_BACKEND_PATH to their folder",
                    registry->searched && *registry->searched ? registry->searched : "no folder");
}

static dpt_status fail_unknown_backend(const dpti_registry *registry, const char *name,
                                       dpt_error *error)
{
    words w = {.length = 0};
    const char **known = calloc(registry->n_backends + 1, sizeof *known);
    if (!known) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the device list");
    for (size_t i = 0; i < registry->n_backends; i++)
        known[i] = registry->backends[i].name;
    if (registry->n_backends > 0) {
        /* For example "cuda" if dptrain was built without it. */
        if (!say_known(&w, name, known, registry->n_backends))
            say(&w, "; there is no plug-in libdptrain-%.60s.so", name);
    } else {
        say(&w, ": there is no plug-in (libdptrain-NAME.so) in %.300s",
            registry->searched && *registry->searched ? registry->searched : "any folder");
    }
    free(known);
    return DPT_FAIL(error, DPT_E_INVALID, "unknown device \"%.60s\"%s", name, w.text);
}

static dpt_status fail_unknown_param(const dpti_device_entry *entry, const char *key,
                                     const dpt_param_spec *specs, dpt_error *error)
{
    enum { MAX_KNOWN = 32 };
    const char *known[MAX_KNOWN] = {"memory", "throttle"};
    size_t n = 2;
    for (; specs && specs->key && n < MAX_KNOWN; specs++)
        known[n++] = specs->key;
    words w = {.length = 0};
    say_known(&w, key, known, n);
    return DPT_FAIL(error, DPT_E_INVALID, "device \"%s\": unknown parameter \"%s\"%s", entry->id,
                    key, w.text);
}

/* ---- Parameters ------------------------------------------------------------------------------ */

static const char *const precision_names[DPT_PRECISION_COUNT + 1] = {DPT_PRECISION_NAMES};

static dpt_status fail_bad_number(const dpti_device_entry *entry, const dpti_entry_param *param,
                                  const dpt_param_spec *spec, dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_INVALID,
                    "device \"%s\": %s=%s is not a number from %zu to %zu; %s: %.200s", entry->id,
                    param->key, param->text, spec->min, spec->max, param->key, spec->help);
}

/* `values` holds the possible values, ended by NULL. */
static dpt_status fail_bad_choice(const dpti_device_entry *entry, const dpti_entry_param *param,
                                  const char *const *values, dpt_error *error)
{
    size_t n = 0;
    words w = {.length = 0};
    while (values[n])
        n++;
    say(&w, "%s", n == 1 ? "not" : n == 2 ? "neither" : "none of");
    for (size_t i = 0; i < n; i++) {
        const char *before_last = n == 2 ? " nor" : " and";
        const bool is_last = n > 1 && i == n - 1;
        say(&w, "%s %.40s", is_last ? before_last : i > 0 ? "," : "", values[i]);
    }
    return DPT_FAIL(error, DPT_E_INVALID, "device \"%s\": %s=%s is %s", entry->id, param->key,
                    param->text, w.text);
}

/* Returns the index of a word in a list that NULL ends, or SIZE_MAX. */
static size_t index_in(const char *const *list, const char *word)
{
    for (size_t i = 0; list[i]; i++)
        if (strcmp(list[i], word) == 0) return i;
    return SIZE_MAX;
}

/* Returns whether `precision` is an index of precision_names that the backend declares. */
static bool declares(const dpt_param_spec *spec, size_t precision)
{
    return precision < DPT_PRECISION_COUNT && (spec->precisions >> precision & 1);
}

static dpt_status parse_precision(const dpti_entry_param *param, const dpt_param_spec *spec,
                                  dpti_selected *out, dpt_error *error)
{
    const size_t precision = index_in(precision_names, param->text);
    if (declares(spec, precision)) {
        out->precision = (dpt_precision)precision;
        out->has_precision = true;
        return DPT_OK;
    }
    const char *declared[DPT_PRECISION_COUNT + 1] = {NULL};
    size_t n = 0;
    for (size_t i = 0; i < DPT_PRECISION_COUNT; i++)
        if (declares(spec, i)) declared[n++] = precision_names[i];
    return fail_bad_choice(out->entry, param, declared, error);
}

/* Parses one value of the device's entry and adds it to the device. */
static dpt_status parse_param(const dpti_entry_param *param, const dpt_param_spec *spec,
                              dpti_selected *out, dpt_error *error)
{
    const dpti_device_entry *entry = out->entry;
    dpt_param parsed = {.key = spec->key, .text = param->text};
    switch (spec->type) {
    case DPT_PARAM_TEXT: break;
    case DPT_PARAM_NUMBER:
        if (!dpti_parse_size(param->text, spec->min, spec->max, &parsed.number))
            return fail_bad_number(entry, param, spec, error);
        break;
    case DPT_PARAM_CHOICE:
        parsed.number = index_in(spec->choices, param->text);
        if (parsed.number == SIZE_MAX) return fail_bad_choice(entry, param, spec->choices, error);
        break;
    case DPT_PARAM_PRECISION: return parse_precision(param, spec, out, error);
    }
    out->params[out->n_params++] = parsed;
    return DPT_OK;
}

/* Parses the parameters of the device's entry, as its backend declares them. */
static dpt_status parse_params(dpti_selected *device, dpt_error *error)
{
    const dpti_device_entry *entry = device->entry;
    const dpt_param_spec *specs = device->backend->backend->params;
    for (size_t i = 0; i < entry->n_params; i++) {
        const dpt_param_spec *spec = specs;
        while (spec && spec->key && strcmp(spec->key, entry->params[i].key) != 0)
            spec++;
        if (!spec || !spec->key)
            return fail_unknown_param(entry, entry->params[i].key, specs, error);
        DPT_TRY(parse_param(&entry->params[i], spec, device, error));
    }
    return DPT_OK;
}

/* ---- One backend ----------------------------------------------------------------------------- */

/* Finds the backend that an entry names. */
static dpt_status find_backend(const dpti_registry *registry, const dpti_device_entry *entry,
                               const dpti_registry_backend **out, dpt_error *error)
{
    const dpti_registry_backend *backend = dpti_registry_find(registry, entry->name);
    if (!backend) return fail_unknown_backend(registry, entry->name, error);
    if (backend->hung)
        return DPT_FAIL(error, DPT_E_DEVICE_LOST, "device \"%s\": %s: %.380s", entry->id,
                        backend->name, backend->reason);
    if (backend->reason)
        return DPT_FAIL(error, DPT_E_ABSENT, "device \"%s\": %s is absent: %.380s", entry->id,
                        backend->name, backend->reason);
    *out = backend;
    return DPT_OK;
}

/* ---- Groups ---------------------------------------------------------------------------------- */

/* Returns whether a device is in this group.  NULL: every device is. */
static bool in_group(const dpti_registry_device *device, const char *group)
{
    if (!group) return true;
    return device->status == DPT_OK && strcmp(device->info.group, group) == 0;
}

static size_t count_in_group(const dpti_registry_backend *backend, const char *group)
{
    size_t n = 0;
    for (size_t i = 0; i < backend->n_devices; i++)
        n += in_group(&backend->devices[i], group);
    return n;
}

/* Lists the groups of a backend, each once, in the order of its devices, and returns their number.
 */
static size_t list_groups(const dpti_registry_backend *backend, const char **groups)
{
    size_t n = 0;
    for (size_t i = 0; i < backend->n_devices; i++) {
        const dpti_registry_device *device = &backend->devices[i];
        size_t k = 0;
        if (device->status != DPT_OK || !device->info.group[0]) continue;
        while (k < n && strcmp(groups[k], device->info.group) != 0)
            k++;
        if (k == n) groups[n++] = device->info.group;
    }
    return n;
}

static dpt_status fail_unknown_group(const dpti_registry_backend *backend,
                                     const dpti_device_entry *entry, dpt_error *error)
{
    words w = {.length = 0};
    const char **known = calloc(backend->n_devices, sizeof *known);
    if (!known) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the device list");
    const size_t n = list_groups(backend, known);
    if (n > 0)
        say_known(&w, entry->group, known, n);
    else
        say(&w, ": behind the name stands an index, \"all\" or a parameter key=value");
    free(known);
    return DPT_FAIL(error, DPT_E_INVALID, "device \"%s\": %s has no %s \"%s\"%s", entry->id,
                    backend->name, n > 0 ? "group" : "groups, so no", entry->group, w.text);
}

/* Checks that an entry's group and index exist. */
static dpt_status check_place(const dpti_registry_backend *backend, const dpti_device_entry *entry,
                              dpt_error *error)
{
    const size_t n = count_in_group(backend, entry->group);
    const char *s = n == 1 ? "" : "s";
    if (n == 0) return fail_unknown_group(backend, entry, error);
    if (entry->kind != DPTI_ENTRY_ONE || entry->index < n) return DPT_OK;
    if (entry->group)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "device \"%s\": group %s of %s has %zu device%s, numbered from 0",
                        entry->id, entry->group, backend->name, n, s);
    return DPT_FAIL(error, DPT_E_INVALID, "device \"%s\": %s has %zu device%s, numbered from 0",
                    entry->id, backend->name, n, s);
}

/* ---- Adding ---------------------------------------------------------------------------------- */

static dpt_status add(dpti_selection *selection, const dpti_selected *device, dpt_error *error)
{
    const dpti_registry_device *known = &device->backend->devices[device->index];
    if (known->hung)
        return DPT_FAIL(error, DPT_E_DEVICE_LOST, "device %s: %.400s", device->id,
                        known->error.message);
    if (selection->n_devices == DPTI_MAX_ENTRIES)
        return DPT_FAIL(error, DPT_E_INVALID, "the device list means more than %d devices",
                        DPTI_MAX_ENTRIES);
    selection->devices[selection->n_devices++] = *device;
    return DPT_OK;
}

/* Adds a device of an entry that names several.  Its id becomes its own id with the entry's
   parameters. */
static dpt_status add_expanded(dpti_selection *selection, dpti_selected *device, dpt_error *error)
{
    const char *own = device->backend->devices[device->index].id, *suffix = device->entry->suffix;
    const int length = snprintf(device->id, sizeof device->id, "%s%s", own, suffix);
    if (length < 0 || (size_t)length >= sizeof device->id)
        return DPT_FAIL(error, DPT_E_INVALID, "device \"%s%s\" is longer than %d characters", own,
                        suffix, DPTI_ID_BYTES - 1);
    return add(selection, device, error);
}

static dpt_status add_named(const dpti_registry *registry, const dpti_device_entry *entry,
                            dpti_selection *selection, dpt_error *error)
{
    const dpti_registry_backend *backend = NULL;
    DPT_TRY(find_backend(registry, entry, &backend, error));
    dpti_selected device = {.backend = backend, .entry = entry};
    DPT_TRY(parse_params(&device, error));
    DPT_TRY(check_place(backend, entry, error));
    size_t place = 0; /* in the group */
    for (size_t i = 0; i < backend->n_devices; i++) {
        if (!in_group(&backend->devices[i], entry->group)) continue;
        device.index = i;
        if (entry->kind == DPTI_ENTRY_SEVERAL) {
            DPT_TRY(add_expanded(selection, &device, error));
        } else if (place == entry->index) {
            memcpy(device.id, entry->id, sizeof device.id);
            return add(selection, &device, error);
        }
        place++;
    }
    return DPT_OK;
}

/* ---- All ------------------------------------------------------------------------------------- */

/* A device that "all" may mean. */
typedef struct candidate {
    const dpti_registry_backend *backend;
    size_t index;
    bool kept;
} candidate;

static const dpt_device_properties *info_of(const candidate *c)
{
    return &c->backend->devices[c->index].info;
}

/* Returns whether the device's memory is host memory and its cores are the host's. */
static bool native(const candidate *c)
{
    return (info_of(c)->flags & DPT_DEVICE_IS_HOST_CPU) &&
           c->backend->backend->memory->host_pointer;
}

static bool same_text(const char *a, const char *b, size_t size)
{
    return a[0] && strncmp(a, b, size) == 0;
}

/* Two backends that both reach this machine's cores mean the same ones, whatever they call the
   domain. */
static bool both_host(const candidate *a, const candidate *b)
{
    return a->backend != b->backend &&
           (info_of(a)->flags & info_of(b)->flags & DPT_DEVICE_IS_HOST_CPU);
}

static bool same_hardware(const dpt_device_properties *a, const dpt_device_properties *b)
{
    static const unsigned char none[sizeof a->uuid] = {0};
    return same_text(a->compute_domain, b->compute_domain, sizeof a->compute_domain) ||
           same_text(a->pci_id, b->pci_id, sizeof a->pci_id) ||
           (memcmp(a->uuid, none, sizeof none) != 0 &&
            memcmp(a->uuid, b->uuid, sizeof a->uuid) == 0);
}

static void keep_once(candidate *candidates, size_t n, bool natives)
{
    for (size_t i = 0; i < n; i++) {
        if (native(&candidates[i]) != natives) continue;
        bool taken = false;
        for (size_t j = 0; j < n && !taken; j++)
            taken = candidates[j].kept &&
                    (both_host(&candidates[i], &candidates[j]) ||
                     same_hardware(info_of(&candidates[i]), info_of(&candidates[j])));
        candidates[i].kept = !taken;
    }
}

static bool any_hung(const dpti_registry_backend *backend)
{
    bool hung = false;
    for (size_t i = 0; i < backend->n_devices; i++)
        hung = hung || backend->devices[i].hung;
    return hung;
}

static dpt_status fail_nothing(const dpti_registry *registry, dpt_error *error)
{
    if (registry->n_backends == 0) return fail_no_plugins(registry, error);
    words w = {.length = 0};
    bool hung = false;
    for (size_t i = 0; i < registry->n_backends; i++) {
        const dpti_registry_backend *backend = &registry->backends[i];
        say(&w, "%s%s: %.120s", i ? "; " : "", backend->name,
            backend->reason ? backend->reason : backend->devices[0].error.message);
        hung = hung || backend->hung || any_hung(backend);
    }
    return DPT_FAIL(error, hung ? DPT_E_DEVICE_LOST : DPT_E_ABSENT, "no device can be used: %s",
                    w.text);
}

/* Lists the devices of all backends in order, without those that could not be described. */
static size_t list_candidates(const dpti_registry *registry, candidate *out)
{
    size_t n = 0;
    for (size_t b = 0; b < registry->n_backends; b++) {
        const dpti_registry_backend *backend = &registry->backends[b];
        for (size_t i = 0; i < backend->n_devices; i++) {
            if (backend->devices[i].status != DPT_OK) continue;
            if (out) out[n] = (candidate){.backend = backend, .index = i};
            n++;
        }
    }
    return n;
}

static dpt_status add_all(const dpti_registry *registry, const dpti_device_entry *entry,
                          dpti_selection *selection, dpt_error *error)
{
    const size_t n = list_candidates(registry, NULL);
    if (n == 0) return fail_nothing(registry, error);
    candidate *candidates = calloc(n, sizeof *candidates);
    if (!candidates) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the device list");
    list_candidates(registry, candidates);
    keep_once(candidates, n, true);
    keep_once(candidates, n, false);
    dpt_status status = DPT_OK;
    for (size_t i = 0; status == DPT_OK && i < n; i++) {
        dpti_selected device = {
            .backend = candidates[i].backend, .index = candidates[i].index, .entry = entry};
        if (candidates[i].kept) status = add_expanded(selection, &device, error);
    }
    free(candidates);
    return status;
}

/* ---- Selections ------------------------------------------------------------------------------ */

dpt_status dpti_select(const dpti_registry *registry, const dpti_device_list *list,
                       dpti_selection *out, dpt_error *error)
{
    dpti_selection selection = {.devices = calloc(DPTI_MAX_ENTRIES, sizeof *selection.devices)};
    if (!selection.devices)
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the device list");
    dpt_status status = DPT_OK;
    for (size_t i = 0; status == DPT_OK && i < list->n_entries; i++) {
        const dpti_device_entry *entry = &list->entries[i];
        status = entry->kind == DPTI_ENTRY_ALL ? add_all(registry, entry, &selection, error)
                                               : add_named(registry, entry, &selection, error);
    }
    if (status != DPT_OK) {
        dpti_selection_free(&selection);
        return status;
    }
    *out = selection;
    return DPT_OK;
}

/* ---- Precision ------------------------------------------------------------------------------- */

static bool takes_precision(const dpti_registry_backend *backend, size_t precision)
{
    for (const dpt_param_spec *spec = backend->backend->params; spec && spec->key; spec++)
        if (spec->type == DPT_PARAM_PRECISION) return declares(spec, precision);
    return false;
}

static dpt_status give_precision(dpti_selected *device, dpt_precision precision, dpt_error *error)
{
    const size_t used = strlen(device->id), left = sizeof device->id - used;
    const int length =
        snprintf(device->id + used, left, ":precision=%s", precision_names[precision]);
    if (length < 0 || (size_t)length >= left)
        return DPT_FAIL(error, DPT_E_INVALID, "device \"%s\" is longer than %d characters",
                        device->id, DPTI_ID_BYTES - 1);
    device->precision = precision;
    device->has_precision = true;
    return DPT_OK;
}

dpt_status dpti_selection_set_precision(dpti_selection *selection, const char *name,
                                        dpt_error *error)
{
    const size_t precision = index_in(precision_names, name);
    bool any = false;
    for (size_t i = 0; i < selection->n_devices; i++) {
        dpti_selected *device = &selection->devices[i];
        if (!takes_precision(device->backend, precision)) continue;
        any = true;
        if (!device->has_precision)
            DPT_TRY(give_precision(device, (dpt_precision)precision, error));
    }
    if (any) return DPT_OK;
    return DPT_FAIL(error, DPT_E_INVALID, "no device computes in %.40s: %s computes in fp32", name,
                    selection->devices[0].id);
}

void dpti_selection_free(dpti_selection *selection)
{
    free(selection->devices);
    *selection = (dpti_selection){.n_devices = 0};
}
