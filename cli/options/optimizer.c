/* The options of optimizer and schedule. */
#include "table.h"

static const char *const recipes[] = {"default", "none", NULL};
static const char *const optimizers[] = {"sgd", "adamw", NULL};
static const char *const schedules[] = {"constant",
                                        "step",
                                        "cosine",
                                        "onecycle",
                                        "cosine-nanogpt",
                                        "cosine-transformers",
                                        "linear-transformers",
                                        NULL};

static const cli_option options[] = {
    {
        .group = "Optimizer",
        .name = "optimizer",
        .argument = "NAME",
        .help = "sgd (default) or adamw",
        .verbs = SETS | CLI_BENCH,
        .kind = CLI_TEXT,
        TARGET(optimizer),
        .values = optimizers,
    },
    {
        .name = "lr",
        .argument = "RATE",
        .help = "learning rate. Default: 0.1 for sgd, 0.001 for adamw",
        .verbs = SETS,
        .kind = CLI_REAL,
        TARGET(lr),
        .low = 1e-9,
        .high = 1000,
    },
    {
        .name = "lr-base-batch",
        .argument = "N",
        .help = "the learning rate is for batches of N samples, and is scaled in proportion to the "
                "batch",
        .verbs = SETS,
        .kind = CLI_COUNT,
        TARGET(lr_base_batch),
        .min = 1,
        .max = MAX_COUNT,
    },
    {
        .name = "schedule",
        .argument = "NAME",
        .help = "how the learning rate changes: constant (default); step; cosine, down to 0 at the "
                "end; onecycle, up to --lr and down again. Down to --min-lr, counted from the end "
                "of --warmup: cosine-nanogpt, cosine-transformers, linear-transformers, as these "
                "projects have it",
        .verbs = SETS,
        .kind = CLI_TEXT,
        TARGET(schedule),
        .values = schedules,
    },
    {
        .name = "step-every",
        .argument = "N",
        .help = "with --schedule step: multiply the rate after every N epochs. Default: 30",
        .verbs = SETS,
        .kind = CLI_COUNT,
        TARGET(step_every),
        .min = 1,
        .max = MAX_COUNT,
    },
    {
        .name = "step-factor",
        .argument = "X",
        .help = "with --schedule step: the factor. Default: 0.1",
        .verbs = SETS,
        .kind = CLI_REAL,
        TARGET(step_factor),
        .low = 1e-6,
        .high = 1,
    },
    {
        .name = "warmup",
        .argument = "N[steps|epochs]",
        .help =
            "increase the rate linearly to that of the schedule over the first N steps or epochs",
        .verbs = SETS,
        .kind = CLI_SPAN,
        TARGET(warmup),
        .max = MAX_COUNT,
    },
    {
        .name = "min-lr",
        .argument = "RATE",
        .help = "the rate to which --schedule cosine-nanogpt, cosine-transformers or "
                "linear-transformers falls; --lr-base-batch does not scale it. Default: 0",
        .verbs = SETS,
        .kind = CLI_REAL,
        TARGET(min_lr),
        .low = 0,
        .high = 1e6,
    },
    {
        .name = "schedule-steps",
        .argument = "N",
        .help =
            "with these schedules: the rate falls up to step N, --warmup included, and stays at "
            "--min-lr behind it. Default: all steps of the training",
        .verbs = SETS,
        .kind = CLI_COUNT,
        TARGET(schedule_steps),
        .min = 1,
        .max = MAX_COUNT,
    },
    {
        .name = "momentum",
        .argument = "M",
        .help = "momentum of sgd. Default: 0",
        .verbs = SETS | CLI_BENCH,
        .kind = CLI_REAL,
        TARGET(momentum),
        .low = 0,
        .high = 0.9999,
    },
    {
        .name = "nesterov",
        .help = "use Nesterov momentum; needs --momentum",
        .verbs = SETS,
        .kind = CLI_FLAG,
        TARGET(nesterov),
    },
    {
        .name = "beta1",
        .argument = "B",
        .help = "adamw: decay of the mean of gradients. Default: 0.9",
        .verbs = SETS,
        .kind = CLI_REAL,
        TARGET(beta1),
        .low = 1e-6,
        .high = 0.999999,
    },
    {
        .name = "beta2",
        .argument = "B",
        .help = "adamw: decay of the mean of squared gradients. Default: 0.999",
        .verbs = SETS,
        .kind = CLI_REAL,
        TARGET(beta2),
        .low = 1e-6,
        .high = 0.999999,
    },
    {
        .name = "epsilon",
        .argument = "E",
        .help = "adamw: added to the root of the mean of squared gradients. Default: 1e-8",
        .verbs = SETS,
        .kind = CLI_REAL,
        TARGET(epsilon),
        .low = 1e-30,
        .high = 0.999,
    },
    {
        .name = "weight-decay",
        .argument = "W",
        .help = "weight decay on all parameters, as in PyTorch: an L2 penalty with sgd, decoupled "
                "with adamw. Default: 0",
        .verbs = SETS,
        .kind = CLI_REAL,
        TARGET(weight_decay),
        .low = 0,
        .high = 1000,
    },
    {
        .name = "no-bias-decay",
        .help = "no weight decay on biases and on parameters of normalisation layers",
        .verbs = SETS,
        .kind = CLI_FLAG,
        TARGET(no_bias_decay),
    },
    {
        .name = "clip-norm",
        .argument = "X",
        .help = "if the norm of the gradient over all parameters exceeds X, scale it down to X",
        .verbs = SETS,
        .kind = CLI_REAL,
        TARGET(clip_norm),
        .low = 1e-9,
        .high = 1e9,
    },
    {
        .name = "recipe",
        .argument = "NAME",
        .help = "settings of training that no other option gives: default, those of the model's "
                "recipe (docs/recipes.md), which the first lines of the output show; none, the "
                "defaults that this help names. Default: $DPTRAIN_RECIPE, or default",
        .verbs = SETS,
        .kind = CLI_TEXT,
        TARGET(recipe),
        .values = recipes,
    },
};

const cli_option_part cli_options_of_optimizer = CLI_PART(options);
