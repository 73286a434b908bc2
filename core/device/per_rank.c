/* Chooses the device list of one process.  Works on a copy of the text, which is cut in place. */
#include "device/per_rank.h"
#include "base/parse.h"
#include "base/text.h"
#include "device/devstring.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_RANK = 65535 };

typedef enum who_kind { WHO_RANK, WHO_HOST, WHO_OTHERS } who_kind;

typedef struct per_rank_entry {
    who_kind kind;
    size_t rank;      /* of WHO_RANK */
    const char *name; /* who, as it stands in the text */
    const char *list;
} per_rank_entry;

typedef struct per_rank_map {
    size_t n;
    per_rank_entry *entries;
    char *text; /* what the entries point into */
} per_rank_map;

bool dpti_is_per_rank(const char *text)
{
    return text[strspn(text, " ")] == '@' || strchr(text, ';') != NULL;
}

/* ---- Names of hosts -------------------------------------------------------------------------- */

static char lower(char c)
{
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Whether the first n characters are the same but for case. */
static bool same(const char *a, const char *b, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (lower(a[i]) != lower(b[i])) return false;
    return true;
}

/* Whether two names mean one host: the names are the same, or one is the other without its domain.
 */
static bool same_host(const char *a, const char *b)
{
    const size_t n_a = strlen(a), n_b = strlen(b);
    const size_t n_short = strcspn(a, ".");
    if (n_a == n_b) return same(a, b, n_a);
    if (n_short != strcspn(b, ".")) return false;
    return (n_a == n_short || n_b == n_short) && same(a, b, n_short);
}

static bool host_valid(const char *name)
{
    static const char allowed[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";
    const size_t length = strlen(name);
    return length > 0 && length < DPTI_HOST_BYTES && name[0] != '.' && name[0] != '-' &&
           name[strspn(name, allowed)] == '\0';
}

/* ---- Entries --------------------------------------------------------------------------------- */

static dpt_status parse_who(const char *name, per_rank_entry *out, dpt_error *error)
{
    out->name = name;
    out->kind = WHO_HOST;
    if (strcmp(name, "*") == 0) {
        out->kind = WHO_OTHERS;
        return DPT_OK;
    }
    if (*name && name[strspn(name, "0123456789")] == '\0') {
        out->kind = WHO_RANK;
        if (dpti_parse_size(name, 0, MAX_RANK, &out->rank)) return DPT_OK;
        return DPT_FAIL(error, DPT_E_INVALID,
                        "device list \"@%.40s=...\": a process has a number from 0 to %d", name,
                        MAX_RANK);
    }
    if (host_valid(name)) return DPT_OK;
    return DPT_FAIL(error, DPT_E_INVALID,
                    "device list \"@%.40s=...\": \"%.40s\" is neither the number of a process, nor "
                    "the name of a host, nor *",
                    name, name);
}

/* Checks a list, so that it is every process that complains and not the one that it is for. */
static dpt_status check_list(const per_rank_entry *entry, dpt_error *error)
{
    dpt_error own = {.status = DPT_OK};
    dpti_device_list list;
    const dpt_status status = dpti_device_list_parse(entry->list, &list, &own);
    if (status != DPT_OK)
        return DPT_FAIL(error, status, "@%.40s: %.400s", entry->name, own.message);
    dpti_device_list_free(&list);
    return DPT_OK;
}

static dpt_status parse_entry(char *text, per_rank_entry *out, dpt_error *error)
{
    char *equals = text[0] == '@' ? strchr(text, '=') : NULL;
    if (!equals)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "device list: \"%.60s\" does not say which process it is for: write "
                        "@RANK=LIST, @HOST=LIST, or @*=LIST for all others",
                        text);
    *equals = '\0';
    *out = (per_rank_entry){.list = equals + 1};
    DPT_TRY(parse_who(text + 1, out, error));
    return check_list(out, error);
}

static bool same_process(const per_rank_entry *a, const per_rank_entry *b)
{
    if (a->kind != b->kind) return false;
    if (a->kind == WHO_RANK) return a->rank == b->rank;
    return a->kind == WHO_OTHERS || same_host(a->name, b->name);
}

static dpt_status add_entry(per_rank_map *map, const per_rank_entry *entry, dpt_error *error)
{
    if (map->n == DPTI_MAX_PER_RANK_ENTRIES)
        return DPT_FAIL(error, DPT_E_INVALID, "the device list has more than %d entries",
                        DPTI_MAX_PER_RANK_ENTRIES);
    for (size_t i = 0; i < map->n; i++) {
        const per_rank_entry *other = &map->entries[i];
        if (same_process(other, entry))
            return DPT_FAIL(error, DPT_E_INVALID,
                            "the device list has two entries for one process, @%.40s and @%.40s: "
                            "leave one",
                            other->name, entry->name);
    }
    map->entries[map->n++] = *entry;
    return DPT_OK;
}

/* ---- The text -------------------------------------------------------------------------------- */

/* Takes the spaces off both ends of [begin, end), in place. */
static char *trim(char *begin, char *end)
{
    while (begin < end && *begin == ' ')
        begin++;
    while (end > begin && end[-1] == ' ')
        end--;
    *end = '\0';
    return begin;
}

static dpt_status check_bytes(const char *text, dpt_error *error)
{
    size_t length = 0;
    for (; text[length]; length++) {
        if (length == DPTI_MAX_PER_RANK_BYTES)
            return DPT_FAIL(error, DPT_E_INVALID, "the device list is longer than %d characters",
                            DPTI_MAX_PER_RANK_BYTES);
        if (text[length] < ' ' || text[length] > '~')
            return DPT_FAIL(error, DPT_E_INVALID,
                            "the device list has a character that is not printable ASCII at "
                            "position %zu: write it without",
                            length + 1);
    }
    return DPT_OK;
}

static dpt_status parse_entries(per_rank_map *map, dpt_error *error)
{
    for (char *rest = map->text; rest;) {
        char *end = rest + strcspn(rest, ";");
        char *next = *end ? end + 1 : NULL;
        char *text = trim(rest, end);
        per_rank_entry entry;
        rest = next;
        if (!*text) continue;
        DPT_TRY(parse_entry(text, &entry, error));
        DPT_TRY(add_entry(map, &entry, error));
    }
    return DPT_OK;
}

static void release(per_rank_map *map)
{
    free(map->entries);
    free(map->text);
}

static dpt_status parse(const char *text, per_rank_map *map, dpt_error *error)
{
    *map = (per_rank_map){.n = 0};
    DPT_TRY(check_bytes(text, error));
    map->text = dpti_strdup(text);
    map->entries = calloc(DPTI_MAX_PER_RANK_ENTRIES, sizeof *map->entries);
    const dpt_status status = map->text && map->entries ? parse_entries(map, error)
                                                        : DPT_FAIL(error, DPT_E_NO_MEMORY,
                                                                   "no memory for the device list");
    if (status != DPT_OK) release(map);
    return status;
}

/* ---- The choice ------------------------------------------------------------------------------ */

static bool means(const per_rank_entry *entry, const dpti_process_name *process)
{
    switch (entry->kind) {
    case WHO_RANK: return entry->rank == process->rank;
    case WHO_HOST: return same_host(entry->name, process->host);
    case WHO_OTHERS: return true;
    }
    return false;
}

static dpt_status choose(const per_rank_map *map, const dpti_process_name *process,
                         const per_rank_entry **out, dpt_error *error)
{
    const per_rank_entry *found = NULL;
    for (size_t i = 0; i < map->n; i++) {
        const per_rank_entry *entry = &map->entries[i];
        if (!means(entry, process) || (found && entry->kind > found->kind)) continue;
        /* Two names with domains, where this host knows itself by its short name. */
        if (found && entry->kind == found->kind)
            return DPT_FAIL(error, DPT_E_INVALID,
                            "the device list has two entries for host \"%.100s\", @%.40s and "
                            "@%.40s: leave one",
                            process->host, found->name, entry->name);
        found = entry;
    }
    if (!found)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "the device list has no entry for process %zu on host \"%.100s\": add "
                        "@%zu=LIST, @HOST=LIST, or @*=LIST for all others",
                        process->rank, process->host, process->rank);
    *out = found;
    return DPT_OK;
}

dpt_status dpti_per_rank_list(const char *text, const dpti_process_name *process, char **out,
                              dpt_error *error)
{
    per_rank_map map;
    *out = NULL;
    if (!dpti_is_per_rank(text)) {
        *out = dpti_strdup(text);
        return *out ? DPT_OK : DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the device list");
    }
    DPT_TRY(parse(text, &map, error));
    const per_rank_entry *found = NULL;
    dpt_status status =
        process->rank_known
            ? choose(&map, process, &found, error)
            : DPT_FAIL(error, DPT_E_INVALID,
                       "the device list is for several processes, and the launcher does not say "
                       "which one this is: give each process a list of its own");
    if (status == DPT_OK) *out = dpti_strdup(found->list);
    if (status == DPT_OK && !*out)
        status = DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the device list");
    release(&map);
    return status;
}
