/* How the options of training become those of the library. */
#ifndef DPTRAIN_CLI_RECIPE_H
#define DPTRAIN_CLI_RECIPE_H

#include "cli.h"

/* Options that do not go together: CLI_OK, or CLI_USAGE after one line on stderr. */
DPT_CHECK_RESULT int cli_recipe_check(const cli_options *options);

/* The batch size to use on data of `count` samples. */
size_t cli_batch_size(const cli_options *options, size_t count);
/* Epochs, 0 if only other limits are given. */
size_t cli_epochs(const cli_options *options);

/* For training data of `count` samples. */
dpt_trainer_options cli_trainer_options(const cli_options *options, size_t count);
dpt_schedule cli_schedule(const cli_options *options, size_t count);

/* One line each on stdout: what is trained how. */
void cli_recipe_print(const cli_options *options, size_t count);

#endif
