/* --class-weights, --freeze and --group (lists.h). */
#include "lists.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_GROUPS = 64, TEXT_BYTES = 4096 };

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
static bool take_group(const char **at, bool frozen, cli_lists *list)
{
    char property[64];
    if (list->n_groups == MOST_GROUPS) return false;
    dpt_parameter_group *group = &list->groups[list->n_groups++];
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

static bool take_list(const char *text, bool frozen, cli_lists *list)
{
    if (!text) return true;
    for (const char *at = text;; at++) {
        if (!take_group(&at, frozen, list)) return false;
        if (!*at) return true;
    }
}

/* Parses a list of numbers.  Returns false for a list that is none. */
static bool take_class_weights(const char *text, cli_lists *list)
{
    for (const char *at = text; list->n_class_weights < CLI_MOST_CLASS_WEIGHTS; at++) {
        const size_t length = strcspn(at, ",");
        char field[32];
        double value;
        if (length >= sizeof field) return false;
        memcpy(field, at, length);
        field[length] = 0;
        if (!cli_parse_real(field, 0, 1e20, &value)) return false;
        list->class_weights[list->n_class_weights++] = (float)value;
        at += length;
        if (!*at) return true;
    }
    return false;
}

/* Whether weights are "balanced", or in a file (cli_class_weights). */
static bool depends_on_data(const char *weights)
{
    return strcmp(weights, "balanced") == 0 || access(weights, F_OK) == 0;
}

static int take_all(const cli_options *options, cli_lists *list)
{
    const char *weights = options->class_weights;
    if (weights && !take_class_weights(weights, list)) {
        list->n_class_weights = 0;
        if (!depends_on_data(weights))
            return cli_error(CLI_USAGE,
                             "--class-weights: '%s' is not a list of numbers of at least 0, such "
                             "as 1,2,0.5, nor balanced, nor a file",
                             weights);
    }
    if (!take_list(options->freeze, true, list))
        return cli_error(CLI_USAGE,
                         "--freeze: '%s' is not a list of at most %d patterns, such as "
                         "conv1.*,bn1.*",
                         options->freeze, MOST_GROUPS);
    if (!take_list(options->group, false, list))
        return cli_error(CLI_USAGE,
                         "--group: '%s' is not a list of groups, at most %d with those of "
                         "--freeze, such as conv*:lr=0.1,*.bias:lr=2:decay=0",
                         options->group, MOST_GROUPS);
    return CLI_OK;
}

int cli_read_lists(cli_options *options)
{
    options->lists = NULL;
    if (!options->class_weights && !options->freeze && !options->group) return CLI_OK;
    cli_lists *list = options->lists = calloc(1, sizeof *list);
    if (list) {
        list->class_weights = calloc(CLI_MOST_CLASS_WEIGHTS, sizeof *list->class_weights);
        list->groups = calloc(MOST_GROUPS, sizeof *list->groups);
        list->text = calloc(TEXT_BYTES, 1);
    }
    if (!list || !list->class_weights || !list->groups || !list->text)
        return cli_error(CLI_FAILURE, "no memory for the options");
    return take_all(options, list);
}

void cli_release_lists(cli_options *options)
{
    if (!options->lists) return;
    free(options->lists->class_weights);
    free(options->lists->groups);
    free(options->lists->text);
    free(options->lists);
    options->lists = NULL;
}
