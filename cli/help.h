/* What help and the man pages share. */
#ifndef DPTRAIN_CLI_HELP_H
#define DPTRAIN_CLI_HELP_H

#include "cli.h"

/* A word and what it means.  Lists end with a NULL name. */
typedef struct cli_help_line {
    const char *name, *text;
} cli_help_line;

extern const cli_help_line cli_exit_codes[], cli_environment[];
extern const char *const cli_examples[]; /* command lines; ends with NULL */
extern const char cli_purpose[];         /* of dptrain, in a sentence */

/* The options of a command under one heading. */
typedef struct cli_help_group {
    const char *heading;
    const cli_option *options[CLI_MOST_OPTIONS];
    size_t n;
} cli_help_group;

/* Finds the options that help has under a heading of the command, the first heading being 0.
   Returns false behind the last one. */
bool cli_help_find(const cli_verb_entry *verb, size_t i, cli_help_group *out);
/* Whether help of the command names the models. */
bool cli_help_has_models(const cli_verb_entry *verb);

#endif
