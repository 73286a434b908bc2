/* Checks a descriptor once, when its backend is added, so that dispatch can call every required
   entry without a check. */
#include "device/descriptor.h"

#include <string.h>

enum { MAX_NAME = 31, MAX_GROUP = DPT_GROUP_BYTES - 1 };

static bool name_valid(const char *name, const char *allowed, size_t most)
{
    const size_t length = strlen(name);
    return length > 0 && length <= most && name[0] >= 'a' && name[0] <= 'z' &&
           strspn(name, allowed) == length && strcmp(name, "all") != 0;
}

bool dpti_backend_name_valid(const char *name)
{
    return name_valid(name, "abcdefghijklmnopqrstuvwxyz0123456789_-", MAX_NAME);
}

bool dpti_group_name_valid(const char *name)
{
    return name_valid(name, "abcdefghijklmnopqrstuvwxyz0123456789", MAX_GROUP);
}

/* Returns the name of the first required entry that is missing, or NULL. */
static const char *missing_required(const dpt_backend *b)
{
#define REQUIRE(table, entry)                                                                      \
    if (!b->table->entry) return #table "." #entry
    if (!b->device) return "device";
    if (!b->memory) return "memory";
    if (!b->stream) return "stream";
    if (!b->operators) return "operators";
    REQUIRE(device, probe);
    REQUIRE(device, describe);
    REQUIRE(device, open);
    REQUIRE(device, close);
    REQUIRE(device, info);
    REQUIRE(memory, alloc);
    REQUIRE(memory, free);
    REQUIRE(memory, upload);
    REQUIRE(memory, download);
    REQUIRE(memory, copy);
    REQUIRE(memory, fill);
    REQUIRE(stream, create);
    REQUIRE(stream, destroy);
    REQUIRE(stream, sync);
    REQUIRE(stream, event_create);
    REQUIRE(stream, event_destroy);
    REQUIRE(stream, event_record);
    REQUIRE(stream, event_wait);
    REQUIRE(stream, event_query);
    REQUIRE(stream, event_sync);
    REQUIRE(stream, event_elapsed);
    REQUIRE(operators, prepare);
    REQUIRE(operators, release);
    REQUIRE(operators, run);
    return NULL;
}

/* Does the same for optional tables, and for entries that are required in pairs. */
static const char *missing_optional(const dpt_backend *b)
{
    if (!b->memory->host_alloc != !b->memory->host_free)
        return b->memory->host_alloc ? "memory.host_free" : "memory.host_alloc";
    if (b->capture) {
        REQUIRE(capture, begin);
        REQUIRE(capture, end);
        REQUIRE(capture, replay);
        REQUIRE(capture, release);
    }
    if (b->collective) {
        REQUIRE(collective, check);
        REQUIRE(collective, invite);
        REQUIRE(collective, create);
        REQUIRE(collective, destroy);
        REQUIRE(collective, all_reduce);
        REQUIRE(collective, broadcast);
        REQUIRE(collective, abort);
    }
#undef REQUIRE
    return NULL;
}

/* Returns what is wrong with the declaration of a parameter, or NULL. */
static const char *spec_fault(const dpt_param_spec *spec)
{
    const bool is_precision = strcmp(spec->key, "precision") == 0;
    if (!spec->help) return "has no help";
    if (is_precision != (spec->type == DPT_PARAM_PRECISION))
        return is_precision ? "is not of the type for precisions" : "has the type of precision=";
    switch (spec->type) {
    case DPT_PARAM_TEXT: return NULL;
    case DPT_PARAM_NUMBER: return spec->min > spec->max ? "has no possible number" : NULL;
    case DPT_PARAM_CHOICE: return spec->choices && spec->choices[0] ? NULL : "has no choices";
    case DPT_PARAM_PRECISION:
        return spec->precisions == 0 || spec->precisions >> DPT_PRECISION_COUNT
                   ? "has no precisions, or unknown ones"
                   : NULL;
    }
    return "has an unknown type";
}

/* Checks what the backend says of its parameters, so that select.c can parse their values. */
static dpt_status check_specs(const dpt_backend *backend, dpt_error *error)
{
    for (const dpt_param_spec *spec = backend->params; spec && spec->key; spec++) {
        const char *fault = spec_fault(spec);
        if (fault)
            return DPT_FAIL(error, DPT_E_INVALID, "the plug-in's parameter %.40s= %s", spec->key,
                            fault);
    }
    return DPT_OK;
}

dpt_status dpti_descriptor_check(const char *name, const dpt_backend *backend, dpt_error *error)
{
    if (backend->abi != DPT_BACKEND_ABI)
        return DPT_FAIL(error, DPT_E_UNSUPPORTED, "built for ABI %u, wanted %u: rebuild it",
                        backend->abi, DPT_BACKEND_ABI);
    if (!dpti_backend_name_valid(name))
        return DPT_FAIL(error, DPT_E_INVALID, "\"%.60s\" is no name for a backend", name);
    if (!backend->name || strcmp(backend->name, name) != 0)
        return DPT_FAIL(error, DPT_E_INVALID, "the plug-in calls itself \"%.60s\", not \"%.60s\"",
                        backend->name ? backend->name : "", name);
    const char *missing = missing_required(backend);
    if (!missing) missing = missing_optional(backend);
    if (missing)
        return DPT_FAIL(error, DPT_E_INVALID, "the plug-in lacks %s: rebuild or reinstall it",
                        missing);
    return check_specs(backend, error);
}
