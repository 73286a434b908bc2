/* Checks the options of a training and converts them to the library's options. */
#ifndef DPTRAIN_CLI_RECIPE_H
#define DPTRAIN_CLI_RECIPE_H

#include "cli.h"

extern const char cli_default_model[];

/* Gives the options of a training what the model's recipe has for those that are not given, unless
   --recipe or the environment says none (model_recipe.c).  Call it once, before cli_recipe_check.
   Returns CLI_OK, or CLI_USAGE after one line on stderr. */
DPT_CHECK_RESULT int cli_recipe_take(cli_options *options);

/* Checks that the options go together.  Returns CLI_OK, or CLI_USAGE after one line on stderr. */
DPT_CHECK_RESULT int cli_recipe_check(const cli_options *options);

dpt_loss cli_loss(const cli_options *options);
/* The same; without --loss that of the training of these weights, which may be zeroed. */
dpt_loss cli_loss_of(const cli_options *options, const dpt_weights_info *weights);
dpt_batch_norm_mode cli_batch_norm(const cli_options *options);
/* The batch size for training data of `count` samples. */
size_t cli_batch_size(const cli_options *options, size_t count);
/* The samples of a step, because a schedule counts steps. */
size_t cli_step_samples(const cli_options *options, size_t count);
/* The limit of epochs; 0 if only other limits are given. */
size_t cli_epochs(const cli_options *options);

/* The library's options and schedule for training data of `count` samples. */
dpt_trainer_options cli_trainer_options(const cli_options *options, size_t count);
dpt_schedule cli_schedule(const cli_options *options, size_t count);

/* The name of a schedule on the command line, or NULL. */
const char *cli_schedule_name(dpt_schedule_kind kind);

/* Prints what a recipe has given, as options. */
void cli_recipe_print_taken(const cli_options *options, size_t count);
/* Prints the lines of the header that say how the model is trained. */
void cli_recipe_print(const cli_options *options, size_t count, const dpt_trainer *trainer);

#endif
