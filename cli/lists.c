/* --freeze and --group (groups.h). */
#include "groups.h"

#include <string.h>

enum { MOST_GROUPS = 64, TEXT_BYTES = 4096 };

/* Groups while they are read, and the text that their patterns point into. */
typedef struct group_list {
    size_t n, n_bytes;
    dpt_parameter_group groups[MOST_GROUPS];
    char text[TEXT_BYTES];
} group_list;

/* The length of a field, which ends before one of these characters or at the end. */
static size_t field(const char *at, const char *ends, char *out, size_t n_bytes)
{
    const size_t length = strcspn(at, ends);
    const size_t kept = length < n_bytes ? length : 0;
    memcpy(out, at, kept);
    out[kept] = 0;
    return length;
}

/* One property of a group, such as lr=0.1. */
static bool take_property(const char *text, dpt_parameter_group *group)
{
    double value;
    if (strncmp(text, "lr=", 3) == 0 && cli_parse_real(text + 3, 1e-20, 1e6, &value)) {
        group->lr_factor = (float)value;
        return true;
    }
    if (strncmp(text, "decay=", 6) == 0 && cli_parse_real(text + 6, 0, 1e3, &value)) {
        group->weight_decay = (float)value;
        group->has_weight_decay = true;
        return true;
    }
    return false;
}

/* Reads the group at *at and moves *at behind it. */
static bool take_group(const char **at, bool frozen, group_list *list)
{
    char property[64];
    if (list->n == MOST_GROUPS) return false;
    dpt_parameter_group *group = &list->groups[list->n++];
    char *pattern = list->text + list->n_bytes;
    *group = (dpt_parameter_group){.pattern = pattern, .frozen = frozen};
    *at += field(*at, ":,", pattern, TEXT_BYTES - list->n_bytes);
    list->n_bytes += strlen(pattern) + 1;
    if (!*pattern || list->n_bytes >= TEXT_BYTES) return false;
    if (frozen) return **at != ':';
    while (**at == ':') {
        ++*at;
        *at += field(*at, ":,", property, sizeof property);
        if (!take_property(property, group)) return false;
    }
    return group->lr_factor > 0 || group->has_weight_decay;
}

static bool take_list(const char *text, bool frozen, group_list *list)
{
    if (!text) return true;
    for (const char *at = text;; at++) {
        if (!take_group(&at, frozen, list)) return false;
        if (!*at) return true;
    }
}

int cli_groups_check(const cli_options *options)
{
    group_list list = {.n = 0};
    if (!take_list(options->freeze, true, &list))
        return cli_error(CLI_USAGE,
                         "--freeze: '%s' is not a list of at most %d patterns, such as "
                         "conv1.*,bn1.*",
                         options->freeze, MOST_GROUPS);
    if (!take_list(options->group, false, &list))
        return cli_error(CLI_USAGE,
                         "--group: '%s' is not a list of groups, at most %d with those of "
                         "--freeze, such as conv*:lr=0.1,*.bias:lr=2:decay=0",
                         options->group, MOST_GROUPS);
    return CLI_OK;
}

const dpt_parameter_group *cli_groups(const cli_options *options, size_t *n)
{
    static group_list list;
    list.n = list.n_bytes = 0;
    (void)take_list(options->freeze, true, &list);
    (void)take_list(options->group, false, &list);
    *n = list.n;
    return list.n ? list.groups : NULL;
}
