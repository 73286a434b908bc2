/* The registry of a context, and the public functions that read it. */
#include "device/registry.h"
#include "base/print.h"
#include "base/text.h"
#include "context/context.h"
#include "context/sized.h"
#include "device/descriptor.h"
#include "device/devstring.h"
#include "device/inquiry.h"
#include "device/per_rank.h"
#include "device/plugin.h"

#include <dirent.h>
#include <stdlib.h>
#include <string.h>

dpt_status dpti_registry_create(dpt_context *context, dpti_registry **out)
{
    dpti_registry *registry = calloc(1, sizeof *registry);
    if (!registry) return DPT_E_NO_MEMORY;
    registry->context = context;
    *out = registry;
    return DPT_OK;
}

static void release(dpti_registry_backend *entry)
{
    free(entry->devices);
    free(entry->reason);
    free(entry->name);
}

static void forget_list(dpti_registry *registry)
{
    free(registry->list_text);
    registry->list_text = NULL;
    dpti_device_list_free(&registry->list);
}

void dpti_registry_destroy(dpti_registry *registry)
{
    if (!registry) return;
    for (size_t i = 0; i < registry->n_backends; i++)
        release(&registry->backends[i]);
    free(registry->backends);
    forget_list(registry);
    free(registry->searched);
    free(registry);
}

static dpti_registry_backend *find(const dpti_registry *registry, const char *name)
{
    for (size_t i = 0; i < registry->n_backends; i++)
        if (strcmp(registry->backends[i].name, name) == 0) return &registry->backends[i];
    return NULL;
}

const dpti_registry_backend *dpti_registry_find(const dpti_registry *registry, const char *name)
{
    return find(registry, name);
}

/* ---- Adding ---------------------------------------------------------------------------------- */

/* Inserts an entry and takes over its memory, even if it fails. */
static dpt_status insert(dpti_registry *registry, dpti_registry_backend *entry)
{
    dpt_status status = DPT_E_INVALID;
    if (dpti_registry_find(registry, entry->name)) goto fail;
    status = DPT_E_NO_MEMORY;
    dpti_registry_backend *grown =
        realloc(registry->backends, (registry->n_backends + 1) * sizeof *grown);
    if (!grown) goto fail;
    registry->backends = grown;
    size_t at = registry->n_backends;
    for (; at > 0 && strcmp(grown[at - 1].name, entry->name) > 0; at--)
        grown[at] = grown[at - 1];
    grown[at] = *entry;
    registry->n_backends++;
    return DPT_OK;
fail:
    release(entry);
    return status;
}

dpt_status dpti_registry_add_absent(dpti_registry *registry, const char *name, const char *reason)
{
    dpti_registry_backend entry = {.name = dpti_strdup(name), .reason = dpti_strdup(reason)};
    if (!entry.name || !entry.reason) {
        release(&entry);
        return DPT_E_NO_MEMORY;
    }
    dpt_one_line(entry.reason);
    return insert(registry, &entry);
}

/* Gives the next of the entry's devices its names, those before it being there. */
static void name_device(const dpti_registry_backend *entry, size_t index)
{
    dpti_registry_device *device = &entry->devices[index];
    const char *group = device->status == DPT_OK ? device->info.group : "";
    /* The cores of this machine need no number if the backend has only one device of them. */
    const bool bare = entry->n_devices == 1 && device->status == DPT_OK && !group[0] &&
                      (device->info.flags & DPT_DEVICE_IS_HOST_CPU);
    if (bare)
        snprintf(device->id, sizeof device->id, "%.31s", entry->name);
    else
        snprintf(device->id, sizeof device->id, "%.31s:%zu", entry->name, index);
    if (!group[0]) return;
    unsigned place = 0;
    for (size_t i = 0; i < index; i++)
        place +=
            entry->devices[i].status == DPT_OK && strcmp(entry->devices[i].info.group, group) == 0;
    snprintf(device->alias, sizeof device->alias, "%.31s:%.15s:%u", entry->name, group, place);
}

/* Takes the answer of a device, or notes that the device could not be asked because the one before
   it hung. */
static void take(const dpti_inquiry *asked, size_t index, dpti_registry_device *out)
{
    const bool first = index == asked->n_answers;
    if (index < asked->n_answers) {
        const dpti_answer *answer = &asked->answers[index];
        *out = (dpti_registry_device){
            .status = answer->status, .info = answer->info, .error = answer->error};
        return;
    }
    *out = (dpti_registry_device){.status = DPT_E_DEVICE_LOST, .hung = true};
    if (first)
        out->error = asked->error;
    else
        (void)DPT_FAIL(&out->error, DPT_E_DEVICE_LOST,
                       "not asked, since device %zu gave no answer: restart the driver",
                       asked->n_answers);
}

/* Adds a backend that did not answer. */
static dpt_status add_hung(dpti_registry *registry, const char *name, const char *reason)
{
    DPT_TRY(dpti_registry_add_absent(registry, name, reason));
    find(registry, name)->hung = true;
    return DPT_OK;
}

static dpt_status add_answers(dpti_registry *registry, const char *name, const dpti_inquiry *asked)
{
    dpti_registry_backend entry = {
        .name = dpti_strdup(name),
        .backend = asked->backend,
        .n_devices = asked->n_devices,
        .devices = calloc(asked->n_devices, sizeof *entry.devices),
    };
    if (!entry.name || !entry.devices) {
        release(&entry);
        return DPT_E_NO_MEMORY;
    }
    for (size_t i = 0; i < entry.n_devices; i++) {
        take(asked, i, &entry.devices[i]);
        name_device(&entry, i);
    }
    return insert(registry, &entry);
}

static dpt_status add(dpti_registry *registry, const dpti_asked *backend)
{
    dpti_inquiry *asked;
    DPT_TRY(dpti_inquire(registry->context, backend, &asked));
    const char *name = backend->name, *reason = asked->error.message;
    const dpt_status status = asked->n_devices > 0 ? add_answers(registry, name, asked)
                              : asked->hung        ? add_hung(registry, name, reason)
                                            : dpti_registry_add_absent(registry, name, reason);
    dpti_inquiry_destroy(asked);
    return status;
}

dpt_status dpti_registry_add(dpti_registry *registry, const char *name, const dpt_backend *backend)
{
    return add(registry, &(dpti_asked){.name = name, .backend = backend});
}

void dpti_registry_give_up(dpti_registry *registry, const dpti_registry_backend *backend,
                           size_t index, const dpt_error *error)
{
    dpti_registry_device *device = &find(registry, backend->name)->devices[index];
    device->status = DPT_E_DEVICE_LOST;
    device->hung = true;
    device->error = *error;
}

/* ---- Scanning -------------------------------------------------------------------------------- */

static dpt_status add_plugin(dpti_registry *registry, const char *name, const char *folder,
                             const char *file)
{
    char *path = dpti_format("%s/%s", folder, file);
    if (!path) return DPT_E_NO_MEMORY;
    const dpt_status status = add(registry, &(dpti_asked){.name = name, .path = path});
    free(path);
    return status;
}

/* Returns whether a list names devices of this backend.  A list without entries names all. */
static bool means(const dpti_device_list *list, const char *name)
{
    bool named = list->n_entries == 0;
    for (size_t i = 0; i < list->n_entries; i++) {
        const dpti_device_entry *entry = &list->entries[i];
        named = named || entry->kind == DPTI_ENTRY_ALL || strcmp(entry->name, name) == 0;
    }
    return named;
}

static dpt_status scan_folder(dpti_registry *registry, const dpti_device_list *wanted,
                              const char *folder)
{
    DIR *directory = opendir(folder);
    if (!directory) return DPT_OK;
    dpt_status status = DPT_OK;
    for (struct dirent *file; status == DPT_OK && (file = readdir(directory));) {
        char *name;
        status = dpti_plugin_name(file->d_name, &name);
        if (status != DPT_OK || !name) continue;
        if (dpti_backend_name_valid(name) && !dpti_registry_find(registry, name))
            status = means(wanted, name)
                         ? add_plugin(registry, name, folder, file->d_name)
                         : dpti_registry_add_absent(registry, name, "the device list has none");
        free(name);
    }
    closedir(directory);
    return status;
}

static char *join(char *const *words, size_t n)
{
    char *text = dpti_strdup("");
    for (size_t i = 0; text && i < n; i++) {
        char *longer = dpti_format("%s%s%s", text, i ? ", " : "", words[i]);
        free(text);
        text = longer;
    }
    return text;
}

dpt_status dpti_registry_read_list(dpti_registry *registry, const char *text,
                                   const dpti_device_list **out, dpt_error *error)
{
    char *mine = NULL;
    *out = &registry->list;
    if (registry->list_text && strcmp(registry->list_text, text) == 0) return DPT_OK;
    forget_list(registry);
    dpt_status status = dpti_per_rank_list(text, &registry->context->process_name, &mine, error);
    if (status == DPT_OK) status = dpti_device_list_parse(mine, &registry->list, error);
    free(mine);
    DPT_TRY(status);
    registry->list_text = dpti_strdup(text);
    if (registry->list_text) return DPT_OK;
    forget_list(registry);
    return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the device list");
}

/* Reads the list of the devices whose plug-ins are to be loaded.  A list that cannot be read counts
   as none: opening it reports what is wrong with it. */
static dpt_status read_wanted(dpti_registry *registry, const char *devices,
                              const dpti_device_list **out)
{
    static const dpti_device_list none = {.n_entries = 0};
    dpt_error error = {.status = DPT_OK};
    const dpt_status status =
        devices ? dpti_registry_read_list(registry, devices, out, &error) : DPT_E_NOT_FOUND;
    if (status != DPT_OK) *out = &none;
    return status == DPT_E_NO_MEMORY ? status : DPT_OK;
}

dpt_status dpti_registry_scan(dpti_registry *registry, const char *devices)
{
    char *folders[DPTI_MAX_PLUGIN_FOLDERS];
    size_t n_folders = 0;
    const dpti_device_list *wanted;
    DPT_TRY(read_wanted(registry, devices, &wanted));
    if (dpti_plugin_folders(folders, &n_folders) != DPT_OK) return DPT_E_NO_MEMORY;
    free(registry->searched);
    registry->searched = join(folders, n_folders);
    dpt_status status = registry->searched ? DPT_OK : DPT_E_NO_MEMORY;
    for (size_t i = 0; i < n_folders; i++) {
        if (status == DPT_OK) status = scan_folder(registry, wanted, folders[i]);
        free(folders[i]);
    }
    return status;
}

/* ---- The public view ------------------------------------------------------------------------- */

static const dpti_registry_backend *backend_at(const dpt_context *context, size_t backend)
{
    return backend < context->registry->n_backends ? &context->registry->backends[backend] : NULL;
}

size_t dpt_backend_count(const dpt_context *context)
{
    return context->registry->n_backends;
}

const char *dpt_backend_name(const dpt_context *context, size_t backend)
{
    const dpti_registry_backend *entry = backend_at(context, backend);
    return entry ? entry->name : NULL;
}

const char *dpt_backend_reason(const dpt_context *context, size_t backend)
{
    const dpti_registry_backend *entry = backend_at(context, backend);
    return entry ? entry->reason : "there is no such backend";
}

dpt_status dpt_backend_status(const dpt_context *context, size_t backend)
{
    const dpti_registry_backend *entry = backend_at(context, backend);
    if (!entry) return DPT_E_INVALID;
    if (entry->hung) return DPT_E_DEVICE_LOST;
    return entry->reason ? DPT_E_ABSENT : DPT_OK;
}

size_t dpt_backend_device_count(const dpt_context *context, size_t backend)
{
    const dpti_registry_backend *entry = backend_at(context, backend);
    return entry ? entry->n_devices : 0;
}

dpt_status dpt_backend_describe(dpt_context *context, size_t backend, size_t index,
                                dpt_device_info *out)
{
    const dpti_registry_backend *entry = backend_at(context, backend);
    if (!entry || index >= entry->n_devices)
        return dpt_fail(context, DPT_E_INVALID, "there is no device %zu of backend %zu", index,
                        backend);
    const dpti_registry_device *device = &entry->devices[index];
    if (device->status != DPT_OK) return dpti_context_fail(context, device->id, &device->error);
    DPT_TRY(dpti_check_sized(context, "dpt_device_info", out));
    const dpt_device_info info = {
        .size = sizeof info,
        .id = device->id,
        .alias = device->alias,
        .backend = entry->name,
        .name = device->info.name,
        .detail = device->info.detail,
        .memory_bytes = device->info.memory_bytes,
        .n_threads = device->info.n_threads,
    };
    (void)dpti_give_sized(&info, sizeof info, out);
    return DPT_OK;
}
