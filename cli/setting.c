/* Sets an option by its text, which the command line or a configuration file gives. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

static bool contains(const char *const *list, const char *word)
{
    for (; list && *list; list++)
        if (strcmp(*list, word) == 0) return true;
    return false;
}

const char *cli_join(const char *const *list, char out[CLI_LIST_BYTES])
{
    size_t used = 0;
    out[0] = '\0';
    for (; *list && used < CLI_LIST_BYTES; list++) {
        const int n = snprintf(out + used, CLI_LIST_BYTES - used, "%s%s", used ? ", " : "", *list);
        if (n < 0) break;
        used += (size_t)n;
    }
    return out;
}

static int check_word(const cli_option *option, const char *label, const char *value)
{
    char known[CLI_LIST_BYTES];
    if (!option->values || contains(option->values, value)) return CLI_OK;
    const char *nearest = dpt_nearest(value, option->values);
    (void)cli_join(option->values, known);
    if (nearest)
        return cli_error(CLI_USAGE, "%s: unknown value '%s'; did you mean '%s'? Known: %s", label,
                         value, nearest, known);
    return cli_error(CLI_USAGE, "%s: unknown value '%s'; known: %s", label, value, known);
}

static int store(const cli_option *option, const char *label, const char *value, cli_options *out)
{
    void *target = (char *)out + option->offset;
    switch (option->kind) {
    case CLI_FLAG: *(bool *)target = strcmp(value, "true") == 0; return CLI_OK;
    case CLI_TEXT: *(const char **)target = value; return check_word(option, label, value);
    case CLI_COUNT:
        if (cli_parse_count(value, option->min, option->max, target)) return CLI_OK;
        return cli_error(CLI_USAGE, "%s: '%s' is not a whole number from %zu to %zu", label, value,
                         option->min, option->max);
    case CLI_REAL:
        if (cli_parse_real(value, option->low, option->high, target)) return CLI_OK;
        return cli_error(CLI_USAGE, "%s: '%s' is not a number from %g to %g", label, value,
                         option->low, option->high);
    case CLI_SECONDS:
        if (cli_parse_seconds(value, target)) return CLI_OK;
        return cli_error(CLI_USAGE,
                         "%s: '%s' is not a time above 0, such as 90 (seconds), 5m or 2h", label,
                         value);
    case CLI_SPAN:
        if (cli_parse_span(value, option->max, target)) return CLI_OK;
        return cli_error(CLI_USAGE,
                         "%s: '%s' is not a number of steps or epochs, such as 500 (steps) or "
                         "5epochs",
                         label, value);
    case CLI_INTERVAL:
        if (cli_parse_interval(value, option->max, target)) return CLI_OK;
        return cli_error(CLI_USAGE,
                         "%s: '%s' is not a number of steps, epochs or seconds, such as 500 "
                         "(steps), 2epochs or 10m",
                         label, value);
    case CLI_INIT: return cli_parse_init(label, value, target);
    case CLI_AUGMENT: return cli_parse_augment(label, value, target);
    }
    return CLI_USAGE;
}

/* The place of an option in the table.  The older name of an option has the place of the newer one.
 */
static size_t place_of(const cli_option *option)
{
    const cli_option *o;
    size_t i = 0;
    for (; (o = cli_option_at(i)) != NULL; i++)
        if (option->now ? strcmp(o->name, option->now) == 0 && o->verbs & option->verbs
                        : o == option)
            break;
    return i;
}

bool cli_is_given(const cli_options *options, size_t offset)
{
    const cli_option *option;
    for (size_t i = 0; i < CLI_MOST_OPTIONS && (option = cli_option_at(i)) != NULL; i++)
        if (option->offset == offset && options->given[i]) return true;
    return false;
}

int cli_set_option(const cli_option *option, const char *label, const char *text,
                   cli_options *options)
{
    const size_t place = place_of(option);
    const int code = store(option, label, text, options);
    if (code == CLI_OK && place < CLI_MOST_OPTIONS) options->given[place] = text;
    return code;
}
