/* The options of training: batches, limits, losses and first weights. */
#include "table.h"

static const char *const batch_norms[] = {"sync", "local", "frozen", NULL};
static const char *const on_off[] = {"on", "off", NULL};
static const char *const compressions[] = {"none", "bf16", "int8", "lowrank", NULL};
static const char *const losses[] = {"cross-entropy", "squared-error",        "mse", "absolute",
                                     "huber",         "binary-cross-entropy", "bce", NULL};

#define OVERLAP                                                                                    \
    "when devices exchange gradients: on (default), in buckets while backward still runs; off, "   \
    "after "                                                                                       \
    "backward"

static const char *const inits[] = {"default", "xavier", "he", "normal:", NULL};

static const cli_option options[] = {
    {
        .group = "Training",
        .name = "batch-size",
        .argument = "N",
        .help = "samples of the global batch, over all devices. Default: 256, or all samples if "
                "there are fewer",
        .verbs = SETS | CLI_EVAL | CLI_BENCH,
        .kind = CLI_COUNT,
        TARGET(batch_size),
        .min = 1,
        .max = MAX_COUNT,
    },
    {
        .name = "epochs",
        .argument = "N",
        .help =
            "end after N passes over the data. Default: 5, or no limit if another limit is given",
        .verbs = SETS,
        .kind = CLI_COUNT,
        TARGET(epochs),
        .min = 1,
        .max = MAX_COUNT,
    },
    {
        .name = "max-steps",
        .argument = "N",
        .help = "end after N steps",
        .verbs = SETS,
        .kind = CLI_COUNT,
        TARGET(max_steps),
        .min = 1,
        .max = MAX_COUNT,
    },
    {
        .name = "max-time",
        .argument = "TIME",
        .help = "end after this time: seconds, or with a unit, as in 90s, 5m, 2h",
        .verbs = SETS,
        .kind = CLI_SECONDS,
        TARGET(max_time),
    },
    {
        .name = "patience",
        .argument = "N",
        .help = "end after N epochs without a lower validation loss; needs --validation",
        .verbs = SETS,
        .kind = CLI_COUNT,
        TARGET(patience),
        .min = 1,
        .max = MAX_COUNT,
    },
    {
        .name = "micro-batch",
        .argument = "N",
        .help = "the most samples that a device computes at once. A larger shard takes several "
                "micro-batches. Default: what the device's memory holds, and without batch-norm, "
                "or with it frozen, what its caches hold",
        .verbs = SETS | CLI_BENCH,
        .kind = CLI_COUNT,
        TARGET(micro_batch),
        .min = 1,
        .max = MAX_COUNT,
    },
    {
        .name = "accumulate",
        .argument = "N",
        .help = "number of batches whose gradients are summed before devices exchange them, for "
                "slow networks. A step is that of one batch N times as large, except that "
                "batch-norm sees each batch by itself. Default: 1",
        .verbs = SETS,
        .kind = CLI_COUNT,
        TARGET(accumulate),
        .min = 1,
        .max = MAX_COUNT,
    },
    {
        .name = "batchnorm",
        .argument = "HOW",
        .help = "statistics of batch-norm: sync (default), over the whole batch, so that training "
                "does not depend on the devices; local, over the shard of each device; frozen, the "
                "running statistics, which stay as they are",
        .verbs = SETS | CLI_BENCH,
        .kind = CLI_TEXT,
        TARGET(batchnorm),
        .values = batch_norms,
    },
    {
        .name = "overlap",
        .argument = "HOW",
        .help = OVERLAP ". Both give the same bits, except with --compress",
        .verbs = SETS,
        .kind = CLI_TEXT,
        TARGET(overlap),
        .values = on_off,
    },
    {
        .name = "overlap",
        .argument = "HOW",
        .help = OVERLAP,
        .verbs = CLI_BENCH,
        .kind = CLI_TEXT,
        TARGET(overlap),
        .values = on_off,
    },
    {
        .name = "standby",
        .argument = "HOW",
        .help = "a device that slows the others down even with few samples: on (default), it is "
                "left out of steps (standby) while steps are measured to be faster without it, "
                "with --split measured; off, all devices always take part",
        .verbs = SETS,
        .kind = CLI_TEXT,
        TARGET(standby),
        .values = on_off,
    },
    {
        .name = "rest",
        .argument = "HOW",
        .help = "the older name of --standby",
        .now = "standby",
        .verbs = SETS,
        .kind = CLI_TEXT,
        TARGET(standby),
        .values = on_off,
    },
    {
        .name = "compress",
        .argument = "HOW",
        .help = "gradients between processes, or what --local-steps exchange: none (default), as "
                "float32; bf16, rounded to 16 bits for slow networks; int8, rounded to 8 bits; "
                "lowrank, matrices of low rank (--compress-rank). What is dropped is kept and "
                "added to what is sent next. Gradients then go through MPI on all "
                "devices",
        .verbs = SETS,
        .kind = CLI_TEXT,
        TARGET(compress),
        .values = compressions,
    },
    {
        .name = "compress-rank",
        .argument = "R",
        .help = "with --compress lowrank: the rank. Default: 4",
        .verbs = SETS,
        .kind = CLI_COUNT,
        TARGET(compress_rank),
        .min = 1,
        .max = 256,
    },
    {
        .name = "local-steps",
        .argument = "H",
        .help =
            "several processes, for slow networks: processes take H steps by themselves, each on "
            "its part of each batch, then exchange what has changed and take an outer step "
            "(--outer-lr, --outer-momentum). Default: processes share each step",
        .verbs = SETS,
        .kind = CLI_COUNT,
        TARGET(local_steps),
        .min = 1,
        .max = MAX_COUNT,
    },
    {
        .name = "outer-lr",
        .argument = "LR",
        .help = "learning rate of the outer step of --local-steps. Default: 0.7",
        .verbs = SETS,
        .kind = CLI_REAL,
        TARGET(outer_lr),
        .low = 1e-6,
        .high = 10,
    },
    {
        .name = "outer-momentum",
        .argument = "M",
        .help =
            "Nesterov momentum of the outer step of --local-steps. Default: 0.9, for rounds of 50 "
            "steps and more",
        .verbs = SETS,
        .kind = CLI_REAL,
        TARGET(outer_momentum),
        .low = 0,
        .high = 0.9999,
    },
    {
        .name = "outer-delay",
        .argument = "D",
        .help =
            "with --local-steps H: exchange a round while the next one goes on, and take the outer "
            "step D steps later, less than H. Default: 0, processes wait",
        .verbs = SETS,
        .kind = CLI_COUNT,
        TARGET(outer_delay),
        .min = 0,
        .max = MAX_COUNT,
    },
    {
        .name = "outer-fragments",
        .argument = "F",
        .help = "with --outer-delay: exchange a round in F fragments of the parameters, one after "
                "the other within the round. Default: 1",
        .verbs = SETS,
        .kind = CLI_COUNT,
        TARGET(outer_fragments),
        .min = 1,
        .max = MAX_COUNT,
    },
    {
        .name = "loss",
        .argument = "NAME",
        .help = "cross-entropy of labels; or, of the targets of npz, npy and csv data: "
                "squared-error (mse), absolute, huber, or binary-cross-entropy with logits (bce). "
                "Default: that of the file of weights, if there is one; else cross-entropy",
        .verbs = RUNS,
        .kind = CLI_TEXT,
        TARGET(loss),
        .values = losses,
    },
    {
        .name = "freeze",
        .argument = "LIST",
        .help = "tensors that keep their values: names or patterns, such as conv1.*,bn1.*",
        .verbs = SETS,
        .kind = CLI_TEXT,
        TARGET(freeze),
        .list = true,
    },
    {
        .name = "freeze-batch-norm",
        .help = "the same as --batchnorm frozen",
        .verbs = SETS,
        .kind = CLI_FLAG,
        TARGET(freeze_batch_norm),
    },
    {
        .name = "group",
        .argument = "LIST",
        .help = "tensors with a factor of the learning rate, a weight decay or both, such as "
                "conv*:lr=0.1,*.bias:lr=2:decay=0. The first pattern that matches counts",
        .verbs = SETS,
        .kind = CLI_TEXT,
        TARGET(group),
        .list = true,
    },
    {
        .name = "class-weights",
        .argument = "LIST|FILE",
        .help = "cross-entropy: a weight for each class, such as 1,2,0.5. The loss is the weighted "
                "mean over the labels of the global batch. balanced: the number of labels, divided "
                "by the classes and by the labels of the class. A file has a weight a line, or "
                "lines of a class and a weight, and other classes weigh 1",
        .verbs = SETS,
        .kind = CLI_TEXT,
        TARGET(class_weights),
        .list = true,
    },
    {
        .name = "huber-delta",
        .argument = "X",
        .help = "huber: the error above which the loss is linear. Default: 1",
        .verbs = SETS | CLI_EVAL,
        .kind = CLI_REAL,
        TARGET(huber_delta),
        .low = 1e-20,
        .high = 1e20,
    },
    {
        .name = "label-smoothing",
        .argument = "X",
        .help = "part of each label that is distributed over all classes. Default: 0",
        .verbs = SETS,
        .kind = CLI_REAL,
        TARGET(label_smoothing),
        .low = 0,
        .high = 0.9999,
    },
    {
        .name = "init",
        .argument = "HOW",
        .help = "initial weights: default (PyTorch's), normal:STD (biases 0), xavier, he",
        .verbs = SETS,
        .kind = CLI_INIT,
        TARGET(init),
        .offers = inits,
    },
    {
        .name = "seed",
        .argument = "N",
        .help = "seed of initial weights, shuffling and random changes. The same seed, options, "
                "devices and shards give the same bits. Default: 0",
        .verbs = SETS | CLI_BENCH,
        .kind = CLI_COUNT,
        TARGET(seed),
        .max = SIZE_MAX,
    },
    {
        .name = "no-shuffle",
        .help = "take the samples in the order of the data",
        .verbs = SETS,
        .kind = CLI_FLAG,
        TARGET(no_shuffle),
    },
};

const cli_option_part cli_options_of_training = CLI_PART(options);
