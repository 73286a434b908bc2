/* The options and verbs of the dptrain command: the tables that drive parsing, help and
   suggestions. This file is data. */
#include "cli.h"

#include <stddef.h>

static const char *const optimizers[] = {"sgd", NULL};
static const char *const planned_optimizers[] = {"adamw", NULL};
static const char *const schedules[] = {"constant", NULL};
static const char *const planned_schedules[] = {"step", "cosine", "onecycle", NULL};
static const char *const precisions[] = {"fp32", NULL};
static const char *const planned_precisions[] = {"tf32", "bf16", NULL};
static const char *const planned_splits[] = {"measured", NULL};

enum { ALL = CLI_TRAIN | CLI_EVAL | CLI_DEVICES, RUNS = CLI_TRAIN | CLI_EVAL };

/* Far above what fits a machine, and low enough that sums of a few cannot overflow. */
#define MAX_COUNT     ((size_t)1000000000)

#define TARGET(field) .offset = offsetof(cli_options, field)

const cli_option cli_option_table[] = {
    {
        .group = "Devices",
        .name = "devices",
        .argument = "LIST",
        .help = "devices to use, separated by commas: cpu, cpu:threads=2, all. The same device may "
                "stand twice. Default: all",
        .verbs = ALL,
        .kind = CLI_TEXT,
        TARGET(devices),
    },
    {
        .name = "split",
        .argument = "HOW",
        .help = "shares of each batch: equal (default), proportions such as 5:2:1, or replay:LOG, "
                "those of an earlier run's log",
        .verbs = RUNS,
        .kind = CLI_TEXT,
        TARGET(split),
        .planned = planned_splits,
    },
    {
        .name = "precision",
        .argument = "NAME",
        .help = "arithmetic: fp32",
        .verbs = RUNS,
        .kind = CLI_TEXT,
        TARGET(precision),
        .values = precisions,
        .planned = planned_precisions,
    },
    {
        .group = "Model and data",
        .name = "model",
        .argument = "NAME",
        .help = "network to train. Default: lenet",
        .verbs = RUNS,
        .kind = CLI_TEXT,
        TARGET(model),
    },
    {
        .name = "dataset",
        .argument = "NAME",
        .help = "fashion-mnist (default), mnist, cifar10, synthetic:HxWxC:CLASSES:COUNT, or idx "
                "for any IDX pair in the directory of --data",
        .verbs = RUNS,
        .kind = CLI_TEXT,
        TARGET(dataset),
    },
    {
        .name = "data",
        .argument = "DIR",
        .help = "where the data are. Default: $DPTRAIN_DATA, the user's cache, the distribution's "
                "package",
        .verbs = RUNS,
        .kind = CLI_TEXT,
        TARGET(data),
    },
    {
        .name = "load",
        .argument = "FILE",
        .help = "start from the weights of this safetensors file",
        .verbs = CLI_TRAIN,
        .kind = CLI_TEXT,
        TARGET(load),
    },
    {
        .name = "checkpoint",
        .argument = "FILE|DIR",
        .help = "weights to evaluate: a safetensors file, or a directory with model.safetensors",
        .verbs = CLI_EVAL,
        .kind = CLI_TEXT,
        TARGET(checkpoint),
    },
    {
        .group = "Training",
        .name = "batch-size",
        .argument = "N",
        .help = "samples of the global batch, over all devices. Default: 256, or all the data",
        .verbs = RUNS,
        .kind = CLI_COUNT,
        TARGET(batch_size),
        .min = 1,
        .max = MAX_COUNT,
    },
    {
        .name = "epochs",
        .argument = "N",
        .help = "end after N passes over the data. Default: 5, or no limit if another is given",
        .verbs = CLI_TRAIN,
        .kind = CLI_COUNT,
        TARGET(epochs),
        .min = 1,
        .max = MAX_COUNT,
    },
    {
        .name = "max-steps",
        .argument = "N",
        .help = "end after N steps",
        .verbs = CLI_TRAIN,
        .kind = CLI_COUNT,
        TARGET(max_steps),
        .min = 1,
        .max = MAX_COUNT,
    },
    {
        .name = "max-time",
        .argument = "TIME",
        .help = "end after this time: seconds, or with a unit, as in 90s, 5m, 2h",
        .verbs = CLI_TRAIN,
        .kind = CLI_SECONDS,
        TARGET(max_time),
    },
    {
        .name = "optimizer",
        .argument = "NAME",
        .help = "sgd",
        .verbs = CLI_TRAIN,
        .kind = CLI_TEXT,
        TARGET(optimizer),
        .values = optimizers,
        .planned = planned_optimizers,
    },
    {
        .name = "lr",
        .argument = "RATE",
        .help = "learning rate. Default: 0.1",
        .verbs = CLI_TRAIN,
        .kind = CLI_REAL,
        TARGET(lr),
        .low = 1e-9,
        .high = 1000,
    },
    {
        .name = "schedule",
        .argument = "NAME",
        .help = "course of the learning rate: constant",
        .verbs = CLI_TRAIN,
        .kind = CLI_TEXT,
        TARGET(schedule),
        .values = schedules,
        .planned = planned_schedules,
    },
    {
        .name = "momentum",
        .argument = "M",
        .help = "momentum of SGD. Default: 0",
        .verbs = CLI_TRAIN,
        .kind = CLI_REAL,
        TARGET(momentum),
        .low = 0,
        .high = 0.9999,
    },
    {
        .name = "nesterov",
        .help = "Nesterov's momentum; needs --momentum",
        .verbs = CLI_TRAIN,
        .kind = CLI_FLAG,
        TARGET(nesterov),
    },
    {
        .name = "weight-decay",
        .argument = "W",
        .help = "L2 penalty on the weights (biases are left out). Default: 0",
        .verbs = CLI_TRAIN,
        .kind = CLI_REAL,
        TARGET(weight_decay),
        .low = 0,
        .high = 1000,
    },
    {
        .name = "init",
        .argument = "HOW",
        .help = "first weights: default (PyTorch's), normal:STD (biases 0), xavier, he",
        .verbs = CLI_TRAIN,
        .kind = CLI_TEXT,
        TARGET(init),
    },
    {
        .name = "seed",
        .argument = "N",
        .help = "of weights and shuffling. The same seed, options and devices give the same bits. "
                "Default: 0",
        .verbs = CLI_TRAIN,
        .kind = CLI_COUNT,
        TARGET(seed),
        .max = SIZE_MAX,
    },
    {
        .name = "no-shuffle",
        .help = "take the samples in the order of the data",
        .verbs = CLI_TRAIN,
        .kind = CLI_FLAG,
        TARGET(no_shuffle),
    },
    {
        .group = "Output",
        .name = "checkpoint",
        .argument = "DIR",
        .help = "write model.safetensors there after each epoch",
        .verbs = CLI_TRAIN,
        .kind = CLI_TEXT,
        TARGET(checkpoint),
    },
    {
        .name = "log",
        .argument = "FILE",
        .help = "write what happens in each step as JSON Lines",
        .verbs = CLI_TRAIN,
        .kind = CLI_TEXT,
        TARGET(log),
    },
    {
        .name = "plot",
        .argument = "FILE",
        .help = "draw loss, accuracy and shares as SVG",
        .verbs = CLI_TRAIN,
        .kind = CLI_TEXT,
        TARGET(plot),
    },
    {
        .name = "quiet",
        .help = "print nothing but errors",
        .verbs = CLI_TRAIN,
        .kind = CLI_FLAG,
        TARGET(quiet),
    },
    {
        .name = "help",
        .letter = 'h',
        .help = "print this help",
        .verbs = ALL,
        .kind = CLI_FLAG,
        TARGET(help),
    },
    {
        .name = "version",
        .letter = 'V',
        .help = "print the version",
        .verbs = ALL,
        .kind = CLI_FLAG,
        TARGET(version),
    },
    /* Names that are taken, refused until they are true. */
    {.name = "batchnorm", .argument = "HOW", .verbs = CLI_TRAIN},
    {.name = "checkpoint-every", .argument = "N", .verbs = CLI_TRAIN},
    {.name = "clip-norm", .argument = "X", .verbs = CLI_TRAIN},
    {.name = "deterministic", .verbs = CLI_TRAIN},
    {.name = "label-smoothing", .argument = "X", .verbs = CLI_TRAIN},
    {.name = "micro-batch", .argument = "N", .verbs = CLI_TRAIN},
    {.name = "resume", .verbs = CLI_TRAIN},
    {.name = "supervise", .verbs = CLI_TRAIN},
    {.name = "trace", .argument = "FILE", .verbs = CLI_TRAIN},
    {.name = "warmup", .argument = "N", .verbs = CLI_TRAIN},
    {.name = NULL},
};

const cli_verb_entry cli_verbs[] = {
    {
        .name = "train",
        .verb = CLI_TRAIN,
        .arguments = "[option]...",
        .help = "train a network (the default)",
        .run = cli_train,
    },
    {
        .name = "eval",
        .verb = CLI_EVAL,
        .arguments = "--checkpoint FILE|DIR [option]...",
        .help = "loss and accuracy of saved weights on the test data",
        .run = cli_eval,
    },
    {
        .name = "devices",
        .verb = CLI_DEVICES,
        .arguments = "[option]...",
        .help = "list this machine's devices, and what is absent and why",
        .run = cli_devices,
    },
    {.name = "predict"},
    {.name = "plan"},
    {.name = "bench"},
    {.name = NULL},
};
