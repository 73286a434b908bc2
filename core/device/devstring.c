/* Parses device lists.  The parser works on a copy of the text, which it cuts into fields in place.
 */
#include "device/devstring.h"
#include "base/parse.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_INDEX = 65535 };

/* Far above any useful factor, and far below factors with which a time overflows. */
static const double max_throttle = 1e6;

/* ---- Parameters ------------------------------------------------------------------------------ */

static bool key_valid(const char *key)
{
    static const char allowed[] = "abcdefghijklmnopqrstuvwxyz0123456789_-";
    return key[0] >= 'a' && key[0] <= 'z' && key[strspn(key, allowed)] == '\0';
}

/* Which parameters of core have been given.  A parameter that gives the default value leaves no
   other trace. */
typedef struct core_params {
    bool memory, throttle;
} core_params;

static bool repeated(const dpti_device_entry *entry, const core_params *said, const char *key)
{
    if (strcmp(key, "memory") == 0) return said->memory;
    if (strcmp(key, "throttle") == 0) return said->throttle;
    for (size_t i = 0; i < entry->n_params; i++)
        if (strcmp(entry->params[i].key, key) == 0) return true;
    return false;
}

static dpt_status store_param(dpti_device_entry *entry, core_params *said, dpti_entry_param param,
                              dpt_error *error)
{
    if (strcmp(param.key, "memory") == 0) {
        said->memory = true;
        if (!dpti_parse_bytes(param.text, &entry->memory_limit_bytes) ||
            entry->memory_limit_bytes == 0)
            return DPT_FAIL(error, DPT_E_INVALID,
                            "device \"%s\": memory=%s is not a size: give bytes, or a number with "
                            "K, M, G or T, as in memory=2G",
                            entry->id, param.text);
        return DPT_OK;
    }
    if (strcmp(param.key, "throttle") == 0) {
        said->throttle = true;
        if (!dpti_parse_real(param.text, 1.0, max_throttle, &entry->throttle))
            return DPT_FAIL(error, DPT_E_INVALID,
                            "device \"%s\": throttle=%s is not a factor from 1 to %g", entry->id,
                            param.text, max_throttle);
        return DPT_OK;
    }
    if (entry->n_params == DPTI_MAX_ENTRY_PARAMS)
        return DPT_FAIL(error, DPT_E_INVALID, "device \"%s\" has more than %d parameters",
                        entry->id, DPTI_MAX_ENTRY_PARAMS);
    entry->params[entry->n_params++] = param;
    return DPT_OK;
}

static dpt_status parse_param(char *field, dpti_device_entry *entry, core_params *said,
                              dpt_error *error)
{
    char *equals = strchr(field, '=');
    if (!equals)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "device \"%s\": \"%s\" is not a parameter, which has the form key=value",
                        entry->id, field);
    *equals = '\0';
    const dpti_entry_param param = {.key = field, .text = equals + 1};
    if (!key_valid(param.key))
        return DPT_FAIL(error, DPT_E_INVALID,
                        "device \"%s\": \"%s\" is no name of a parameter: small letters and digits",
                        entry->id, param.key);
    if (!*param.text)
        return DPT_FAIL(error, DPT_E_INVALID, "device \"%s\": \"%s=\" lacks a value", entry->id,
                        param.key);
    if (repeated(entry, said, param.key))
        return DPT_FAIL(error, DPT_E_INVALID, "device \"%s\": \"%s\" is given twice", entry->id,
                        param.key);
    return store_param(entry, said, param, error);
}

/* ---- Entries --------------------------------------------------------------------------------- */

/* Ends the string at the next separator and returns what follows, or NULL. */
static char *cut(char *text, char separator)
{
    char *at = strchr(text, separator);
    if (!at) return NULL;
    *at = '\0';
    return at + 1;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* A field behind the name that is no parameter.  Whatever begins with a letter may be a group:
   those who know the groups complain better. */
static dpt_status parse_place(const char *field, dpti_device_entry *entry, bool *more,
                              dpt_error *error)
{
    *more = false;
    if (strcmp(field, "all") == 0) {
        entry->kind = DPTI_ENTRY_SEVERAL;
        return DPT_OK;
    }
    if (dpti_parse_size(field, 0, MAX_INDEX, &entry->index)) return DPT_OK;
    if (is_letter(field[0]) && !entry->group) {
        entry->group = field;
        *more = true;
        return DPT_OK;
    }
    return DPT_FAIL(error, DPT_E_INVALID,
                    "device \"%s\": \"%s\" is neither an index from 0 to %d, nor \"all\", nor a "
                    "parameter key=value",
                    entry->id, field, MAX_INDEX);
}

static dpt_status parse_fields(char *text, dpti_device_entry *entry, dpt_error *error)
{
    char *rest = cut(text, ':');
    if (strcmp(text, "all") == 0) {
        entry->kind = DPTI_ENTRY_ALL;
        if (rest)
            return DPT_FAIL(error, DPT_E_INVALID,
                            "device \"%s\": \"all\" takes no index and no parameters: name the "
                            "devices",
                            entry->id);
        return DPT_OK;
    }
    entry->name = text;
    core_params said = {.memory = false};
    bool places = true; /* group, index and "all" come before parameters */
    while (rest) {
        char *field = rest;
        rest = cut(field, ':');
        if (!*field)
            return DPT_FAIL(error, DPT_E_INVALID, "device \"%s\": nothing stands behind a colon",
                            entry->id);
        if (places && !strchr(field, '=')) {
            DPT_TRY(parse_place(field, entry, &places, error));
            continue;
        }
        places = false;
        DPT_TRY(parse_param(field, entry, &said, error));
    }
    return DPT_OK;
}

/* Returns where the parameters begin in the text of an entry. */
static const char *find_suffix(const char *id)
{
    for (const char *at = strchr(id, ':'); at; at = strchr(at + 1, ':')) {
        const size_t n_field = strcspn(at + 1, ":");
        if (memchr(at + 1, '=', n_field)) return at;
    }
    return id + strlen(id);
}

static dpt_status parse_entry(char *text, dpti_device_entry *entry, dpt_error *error)
{
    const size_t length = strlen(text);
    if (length == 0 || text[0] == ':')
        return DPT_FAIL(error, DPT_E_INVALID,
                        "the device list has an entry without a name: give names with single "
                        "commas between them, as in \"NAME,NAME:1\"");
    if (length >= DPTI_ID_BYTES)
        return DPT_FAIL(error, DPT_E_INVALID, "device \"%.40s...\" is longer than %d characters",
                        text, DPTI_ID_BYTES - 1);
    *entry = (dpti_device_entry){.memory_limit_bytes = SIZE_MAX, .throttle = 1.0};
    memcpy(entry->id, text, length + 1);
    entry->suffix = find_suffix(entry->id);
    return parse_fields(text, entry, error);
}

/* ---- Lists ----------------------------------------------------------------------------------- */

static dpt_status check_text(const char *text, dpt_error *error)
{
    size_t length = 0;
    for (; text[length]; length++) {
        if (length == DPTI_MAX_LIST_BYTES)
            return DPT_FAIL(error, DPT_E_INVALID, "the device list is longer than %d characters",
                            DPTI_MAX_LIST_BYTES);
        if (text[length] <= ' ' || text[length] > '~')
            return DPT_FAIL(error, DPT_E_INVALID,
                            "the device list has a space or a character that is not ASCII at "
                            "position %zu: write it without",
                            length + 1);
    }
    if (length == 0)
        return DPT_FAIL(error, DPT_E_INVALID, "the device list is empty: name devices, or \"all\"");
    return DPT_OK;
}

static size_t count_entries(const char *text)
{
    size_t n = 1;
    for (; *text; text++)
        n += *text == ',';
    return n;
}

dpt_status dpti_device_list_parse(const char *text, dpti_device_list *out, dpt_error *error)
{
    DPT_TRY(check_text(text, error));
    const size_t n_entries = count_entries(text);
    if (n_entries > DPTI_MAX_ENTRIES)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "the device list has %zu entries, at most %d are "
                        "possible",
                        n_entries, DPTI_MAX_ENTRIES);
    dpti_device_list list = {
        .n_entries = n_entries,
        .entries = calloc(n_entries, sizeof *list.entries),
        .text = dpti_strdup(text),
    };
    dpt_status status = DPT_OK;
    if (!list.entries || !list.text)
        status = DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the device list");
    char *rest = list.text;
    for (size_t i = 0; status == DPT_OK && i < n_entries; i++) {
        char *entry = rest;
        rest = cut(entry, ',');
        status = parse_entry(entry, &list.entries[i], error);
    }
    if (status != DPT_OK) {
        dpti_device_list_free(&list);
        return status;
    }
    *out = list;
    return DPT_OK;
}

void dpti_device_list_free(dpti_device_list *list)
{
    free(list->entries);
    free(list->text);
    *list = (dpti_device_list){.n_entries = 0};
}
