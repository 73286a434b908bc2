/* Files of settings: --config reads one, --save-config writes one (docs/config.md). */
#ifndef DPTRAIN_CLI_CONFIG_H
#define DPTRAIN_CLI_CONFIG_H

#include "toml.h"

/* Sets the options of the command that the file gives and the command line has not: first those
   below the command's own header, then those above all headers.  The values of other commands are
   checked, too.  *out has what the options then point into; the caller releases it in all cases.
   CLI_OK, or an exit code after one line on stderr that names the file and the line. */
DPT_CHECK_RESULT int cli_config_take(const cli_verb_entry *verb, const cli_toml_file *file,
                                     cli_options *options, cli_toml *out);
/* The same with the file of --config, if it is given. */
DPT_CHECK_RESULT int cli_config_read(const cli_verb_entry *verb, cli_options *options,
                                     cli_toml *out);

/* Returns the given options of the command as a file for --config, for the caller to free.  NULL
   after one line on stderr. */
char *cli_config_text(cli_verb verb, const cli_options *options);
/* The same for processes that join a training: without the options that they give themselves. */
char *cli_config_text_for_joining(const cli_options *options);
/* Writes that to the file of --save-config, if it is given.  CLI_OK, or an exit code after one line
   on stderr. */
DPT_CHECK_RESULT int cli_config_save(cli_verb verb, const cli_options *options);

#endif
