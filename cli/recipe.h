/* Checks the options of a training and converts them to the library's options. */
#ifndef DPTRAIN_CLI_RECIPE_H
#define DPTRAIN_CLI_RECIPE_H

#include "cli.h"

/* Checks that the options go together.  Returns CLI_OK, or CLI_USAGE after one line on stderr. */
DPT_CHECK_RESULT int cli_recipe_check(const cli_options *options);

dpt_loss cli_loss(const cli_options *options);
dpt_batch_norm_mode cli_batch_norm(const cli_options *options);
/* The batch size for training data of `count` samples. */
size_t cli_batch_size(const cli_options *options, size_t count);
/* The limit of epochs; 0 if only other limits are given. */
size_t cli_epochs(const cli_options *options);

/* The library's options and schedule for training data of `count` samples. */
dpt_trainer_options cli_trainer_options(const cli_options *options, size_t count);
dpt_schedule cli_schedule(const cli_options *options, size_t count);

/* Prints the lines of the header that say how the model is trained. */
void cli_recipe_print(const cli_options *options, size_t count);

#endif
