/* Parses the command line by the table of options, with GNU's conventions: --name=value, --name
   value, unambiguous beginnings of names, -h, -V, and -- for the end of the options.  Every mistake
   gives one line on stderr.  getopt_long is not used, because it writes its own messages and makes
   no suggestions. */
#include "cli.h"

#include <stdio.h>
#include <string.h>

enum { MAX_NAMES = 256 };

/* ---- Names ----------------------------------------------------------------------------------- */

static int unknown_option(const cli_verb_entry *verb, const char *name)
{
    const char *names[MAX_NAMES];
    const cli_option *o;
    size_t n = 0;
    for (size_t i = 0; (o = cli_option_at(i)) != NULL; i++) {
        if (strcmp(o->name, name) == 0)
            return cli_error(CLI_USAGE, "--%s does not go with 'dptrain %s'", name, verb->name);
        if ((o->verbs & verb->verb) && o->help && !o->now && n + 1 < MAX_NAMES)
            names[n++] = o->name;
    }
    names[n] = NULL;
    const char *nearest = dpt_nearest(name, names);
    if (nearest)
        return cli_error(CLI_USAGE, "unknown option --%s; did you mean --%s?", name, nearest);
    return cli_error(CLI_USAGE, "unknown option --%s; see 'dptrain %s --help'", name, verb->name);
}

/* The option of the command that `name` means: its whole name or an unambiguous beginning.  NULL
   after a message. */
static const cli_option *find_option(const cli_verb_entry *verb, const char *name, size_t length)
{
    const cli_option *found = NULL, *o;
    char word[64];
    snprintf(word, sizeof word, "%.*s", (int)(length < sizeof word ? length : sizeof word - 1),
             name);
    for (size_t i = 0; length > 0 && (o = cli_option_at(i)) != NULL; i++) {
        if (!(o->verbs & verb->verb) || strncmp(o->name, name, length) != 0) continue;
        if (o->name[length] == '\0') return o;
        if (o->now) continue; /* an older name is valid as a whole only */
        if (found) {
            cli_error(CLI_USAGE, "--%s is ambiguous: --%s or --%s?", word, found->name, o->name);
            return NULL;
        }
        found = o;
    }
    if (!found) {
        unknown_option(verb, word);
        return NULL;
    }
    return found;
}

/* ---- The command line ------------------------------------------------------------------------ */

/* Parses the long option at argv[*i] and its value, which may be the next argument. */
static int parse_long(const cli_verb_entry *verb, const cli_arguments *arguments, int *i,
                      cli_options *out)
{
    char **argv = arguments->argv;
    const char *name = argv[*i] + 2;
    const size_t length = strcspn(name, "=");
    const cli_option *option = find_option(verb, name, length);
    if (!option) return CLI_USAGE;
    if (!option->help)
        return cli_error(CLI_USAGE, "--%s is not available in this version", option->name);
    if (option->now)
        cli_note("--%s is now --%s; the older name is valid in this release only", option->name,
                 option->now);
    char label[64];
    snprintf(label, sizeof label, "--%s", option->name);
    const char *value = name[length] ? name + length + 1 : NULL;
    if (!option->argument) {
        if (value) return cli_error(CLI_USAGE, "--%s takes no value", option->name);
        return cli_set_option(option, label, "true", out);
    }
    if (!value && *i + 1 < arguments->argc) value = argv[++*i];
    if (!value || !*value)
        return cli_error(CLI_USAGE, "--%s needs a value: --%s=%s", option->name, option->name,
                         option->argument);
    return cli_set_option(option, label, value, out);
}

static int parse_letter(const cli_verb_entry *verb, const char *argument, cli_options *out)
{
    const cli_option *o;
    for (size_t i = 0; (o = cli_option_at(i)) != NULL; i++)
        if (o->letter && o->letter == argument[1] && argument[2] == '\0')
            return cli_set_option(o, argument, "true", out);
    return cli_error(CLI_USAGE, "unknown option %s; see 'dptrain %s --help'", argument, verb->name);
}

int cli_parse(const cli_verb_entry *verb, const cli_arguments *arguments, cli_options *out)
{
    char **argv = arguments->argv;
    const int first = arguments->first;
    cli_options options = {.operands = argv + first};
    bool end = false; /* of the options */
    for (int i = first; i < arguments->argc; i++) {
        int code = CLI_OK;
        if (!end && strcmp(argv[i], "--") == 0)
            end = true;
        else if (!end && strncmp(argv[i], "--", 2) == 0)
            code = parse_long(verb, arguments, &i, &options);
        else if (!end && argv[i][0] == '-' && argv[i][1])
            code = parse_letter(verb, argv[i], &options);
        else if (verb->operands) {
            argv[first + (int)options.n_operands++] = argv[i]; /* overwrites a parsed one */
            end = end || verb->command;
        } else
            code = cli_error(CLI_USAGE, "unexpected argument '%s'; see 'dptrain %s --help'",
                             argv[i], verb->name);
        if (code != CLI_OK) return code;
    }
    *out = options;
    return CLI_OK;
}

const cli_verb_entry *cli_find_verb(int argc, char **argv, int *first)
{
    *first = 1;
    if (argc < 2 || argv[1][0] == '-') return cli_verbs;
    const char *names[MAX_NAMES];
    size_t n = 0;
    for (const cli_verb_entry *v = cli_verbs; v->name; v++) {
        if (strcmp(v->name, argv[1]) == 0) {
            *first = 2;
            if (v->verb) return v;
            cli_error(CLI_USAGE, "'dptrain %s' is not available in this version", v->name);
            return NULL;
        }
        if (v->verb && !v->hidden && n + 1 < MAX_NAMES) names[n++] = v->name;
    }
    names[n] = NULL;
    char known[CLI_LIST_BYTES];
    const char *nearest = dpt_nearest(argv[1], names);
    if (nearest)
        cli_error(CLI_USAGE, "unknown command '%s'; did you mean 'dptrain %s'?", argv[1], nearest);
    else if (strcmp(argv[1], "help") == 0)
        cli_error(CLI_USAGE, "unknown command 'help'; did you mean 'dptrain --help'?");
    else
        cli_error(CLI_USAGE, "unknown command '%s'; known: %s", argv[1], cli_join(names, known));
    return NULL;
}
