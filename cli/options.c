/* The options and verbs of the dptrain command: the tables that drive parsing, help and
   suggestions. This file is data. */
#include "cli.h"

#include <stddef.h>

static const char *const optimizers[] = {"sgd", "adamw", NULL};
static const char *const schedules[] = {"constant", "step", "cosine", "onecycle", NULL};
static const char *const batch_norms[] = {"sync", "local", NULL};
static const char *const on_off[] = {"on", "off", NULL};
static const char *const compressions[] = {"none", "bf16", NULL};
static const char *const collectives[] = {"all-reduce", "reduce-scatter", "all-gather", "broadcast",
                                          NULL};
static const char *const precisions[] = {"fp32", "tf32", "bf16", NULL};

/* Options of what sets a training up; of what runs a network for its result; of what runs one at
   all; of every command. */
enum {
    SETS = CLI_TRAIN | CLI_PLAN,
    RUNS = SETS | CLI_EVAL | CLI_PREDICT,
    USES = RUNS | CLI_BENCH,
    ALL = USES | CLI_DEVICES | CLI_DATA,
};

/* Far above what fits a machine, and low enough that sums of a few cannot overflow. */
#define MAX_COUNT ((size_t)1000000000)

/* What several commands say alike. */
#define DATA_SETS                                                                                  \
    "fashion-mnist, mnist, cifar10, synthetic:HxWxC:CLASSES:COUNT, idx for any IDX pair in the "   \
    "directory of --data, or folder:HxW (folder:HxWx1: grey; folder:HxW:stream: read as they are " \
    "needed) for the PNG and JPEG pictures in "                                                    \
    "its train/CLASS and test/CLASS, scaled to HxW"
#define OVERLAP                                                                                    \
    "devices exchange gradients: on (default), in buckets, while the rest of them is computed; "   \
    "off, when all are computed"

#define TARGET(field) .offset = offsetof(cli_options, field)

const cli_option cli_option_table[] = {
    {
        .group = "Devices",
        .name = "devices",
        .argument = "LIST",
        .help = "devices to use, separated by commas: cpu, cpu:threads=2, opencl:1, all. The same "
                "device may stand twice. Default: all",
        .verbs = RUNS | CLI_DEVICES,
        .kind = CLI_TEXT,
        TARGET(devices),
    },
    {
        .name = "devices",
        .argument = "LIST",
        .help = "devices to use, separated by commas: cpu, cpu:threads=2, opencl:1, all. The same "
                "device may stand twice. Default of allreduce: all; mix needs it",
        .verbs = CLI_BENCH,
        .benchmarks = CLI_MIX | CLI_ALLREDUCE,
        .kind = CLI_TEXT,
        TARGET(devices),
    },
    {
        .name = "devices-of",
        .argument = "FILE",
        .help = "read the device list from this file, which has a line for each process or host: "
                "@0=cuda:0,cpu or @HOST=cpu, and @*=all for all others; # begins a comment. "
                "A list on the command line may be such lines too, with ; between them",
        .verbs = RUNS | CLI_DEVICES | CLI_BENCH,
        .benchmarks = CLI_MIX | CLI_ALLREDUCE,
        .kind = CLI_TEXT,
        TARGET(devices_of),
    },
    {
        .name = "no-measure",
        .help = "list only, and measure nothing",
        .verbs = CLI_DEVICES,
        .kind = CLI_FLAG,
        TARGET(no_measure),
    },
    {
        .name = "split",
        .argument = "HOW",
        .help = "shards of each batch: measured (default), which follow what each device is "
                "measured to do; equal; proportions such as 5:2:1; or replay:LOG, those of an "
                "earlier run's log, and its algorithms",
        .verbs = SETS | CLI_EVAL,
        .kind = CLI_TEXT,
        TARGET(split),
    },
    {
        .name = "stop-on-loss",
        .help = "end where a device fails, which training otherwise goes on without",
        .verbs = CLI_TRAIN,
        .kind = CLI_FLAG,
        TARGET(stop_on_loss),
    },
    {
        .name = "device-timeout",
        .argument = "TIME",
        .help = "a device that does not answer for this long is lost: seconds, or with a unit; ten "
                "times as long while devices are looked for, opened and prepared. Default: 10m; in "
                "training, after the first step, 60s, or 20 times the longest step if that is more",
        .verbs = RUNS | CLI_DEVICES | CLI_BENCH,
        .benchmarks = CLI_MIX | CLI_ALLREDUCE,
        .kind = CLI_SECONDS,
        TARGET(device_timeout),
    },
    {
        .name = "readmit",
        .argument = "TIME",
        .help = "try a lost device again after this time (seconds, or with a unit), then after "
                "twice it, up to 64 times it, and go on with it if it answers. Default: never",
        .verbs = CLI_TRAIN,
        .kind = CLI_SECONDS,
        TARGET(readmit_after),
    },
    {
        .name = "verify-replicas",
        .argument = "N",
        .help = "every N steps compare the devices' replicas, to the bit, and restore one that "
                "differs. Default: never",
        .verbs = CLI_TRAIN,
        .kind = CLI_COUNT,
        TARGET(verify_replicas),
        .min = 1,
        .max = MAX_COUNT,
    },
    {
        .name = "precision",
        .argument = "NAME",
        .help = "arithmetic of products and convolutions: fp32 (default), true "
                "float32; where a device can, tf32: inputs rounded to 11 bits; bf16: activations "
                "stored in 16 bits",
        .verbs = USES,
        .benchmarks = CLI_MIX | CLI_ALLREDUCE,
        .kind = CLI_TEXT,
        TARGET(precision),
        .values = precisions,
    },
    {
        .group = "Model and data",
        .name = "model",
        .argument = "NAME",
        .help = "network to train. Default: lenet",
        .verbs = SETS | CLI_BENCH,
        .kind = CLI_TEXT,
        TARGET(model),
    },
    {
        .name = "model",
        .argument = "NAME",
        .help = "network that the weights are of. Default: what they say",
        .verbs = CLI_EVAL | CLI_PREDICT,
        .kind = CLI_TEXT,
        TARGET(model),
    },
    {
        .name = "dataset",
        .argument = "NAME",
        .help = DATA_SETS ". Default: fashion-mnist",
        .verbs = SETS | CLI_BENCH | CLI_DATA,
        .kind = CLI_TEXT,
        TARGET(dataset),
    },
    {
        .name = "dataset",
        .argument = "NAME",
        .help = DATA_SETS ". Default: what the weights say, if it lies in files",
        .verbs = CLI_EVAL,
        .kind = CLI_TEXT,
        TARGET(dataset),
    },
    {
        .name = "dataset",
        .argument = "NAME",
        .help = DATA_SETS ". Needed only where the weights do not say of what images and classes "
                          "they are",
        .verbs = CLI_PREDICT,
        .kind = CLI_TEXT,
        TARGET(dataset),
    },
    {
        .name = "data",
        .argument = "DIR",
        .help = "where the data are. Default: $DPTRAIN_DATA, the user's cache, the distribution's "
                "package",
        .verbs = USES | CLI_DATA,
        .kind = CLI_TEXT,
        TARGET(data),
    },
    {
        .name = "normalize",
        .help = "subtract the training data's mean from each channel and divide by the deviation",
        .verbs = RUNS,
        .kind = CLI_FLAG,
        TARGET(normalize),
    },
    {
        .name = "augment",
        .argument = "LIST",
        .help = "change training images at random: crop[:PADDING] (a window of the padded image; "
                "4), flip (left to right), erase[:P] (a rectangle, with probability P; 0.25), "
                "resized-crop[:AREA] (of pictures of folder:HxW:stream, a window of at least this "
                "part; 0.08)",
        .verbs = SETS | CLI_BENCH,
        .kind = CLI_AUGMENT,
        TARGET(augment),
    },
    {
        .name = "validation",
        .argument = "PART",
        .help = "set this part of the training data apart, such as 0.1, and evaluate it after each "
                "epoch",
        .verbs = SETS,
        .kind = CLI_REAL,
        TARGET(validation),
        .low = 0.0001,
        .high = 0.9999,
    },
    {
        .name = "load",
        .argument = "FILE",
        .help = "start from the weights of this safetensors file; not read where --resume finds a "
                "checkpoint",
        .verbs = CLI_TRAIN,
        .kind = CLI_TEXT,
        TARGET(load),
    },
    {
        .name = "load",
        .argument = "FILE",
        .help = "weights to start from, of which a plan reads nothing",
        .verbs = CLI_PLAN,
        .kind = CLI_TEXT,
        TARGET(load),
    },
    {
        .name = "fresh",
        .argument = "LAYER[,...]",
        .help = "with --load: these layers begin anew and the others as in the file, as in "
                "--fresh fc for other classes than it was trained on",
        .verbs = SETS,
        .kind = CLI_TEXT,
        TARGET(fresh),
    },
    {
        .name = "checkpoint",
        .argument = "FILE|DIR",
        .help = "weights to use: a safetensors file, or a directory with model.safetensors",
        .verbs = CLI_EVAL | CLI_PREDICT,
        .kind = CLI_TEXT,
        TARGET(checkpoint),
    },
    {
        .name = "top",
        .argument = "N",
        .help = "how many classes to print of each image. Default: 3",
        .verbs = CLI_PREDICT,
        .kind = CLI_COUNT,
        TARGET(top),
        .min = 1,
        .max = MAX_COUNT,
    },
    {
        .group = "Training",
        .name = "batch-size",
        .argument = "N",
        .help = "samples of the global batch, over all devices. Default: 256, or all the data",
        .verbs = SETS | CLI_EVAL | CLI_BENCH,
        .kind = CLI_COUNT,
        TARGET(batch_size),
        .min = 1,
        .max = MAX_COUNT,
    },
    {
        .name = "epochs",
        .argument = "N",
        .help = "end after N passes over the data. Default: 5, or no limit if another is given",
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
        .help = "most samples that a device computes at once; it computes its shard in several "
                "passes. Default: what its memory holds, and without batch-norm what its "
                "caches do",
        .verbs = SETS | CLI_BENCH,
        .kind = CLI_COUNT,
        TARGET(micro_batch),
        .min = 1,
        .max = MAX_COUNT,
    },
    {
        .name = "accumulate",
        .argument = "N",
        .help = "batches whose gradients are summed before devices exchange them: the step of one "
                "batch N times as large, for slow networks; batch-norm sees each by itself. "
                "Default: 1",
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
                "does not depend on the devices; local, over each device's shard",
        .verbs = SETS | CLI_BENCH,
        .kind = CLI_TEXT,
        TARGET(batchnorm),
        .values = batch_norms,
    },
    {
        .name = "overlap",
        .argument = "HOW",
        .help = OVERLAP ". The training is the same to the bit, but with --compress",
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
        .help =
            "a device that slows the others down whatever its shard is: on (default), it is put "
            "on standby while steps are measured to be faster without it (with --split "
            "measured); off, all devices always take part",
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
        .help =
            "gradients between processes: none (default), as they are; bf16, rounded to 16 bits "
            "for slow networks (through MPI, on any devices), where what rounding drops is kept "
            "and added in the next step",
        .verbs = SETS,
        .kind = CLI_TEXT,
        TARGET(compress),
        .values = compressions,
    },
    {
        .name = "label-smoothing",
        .argument = "X",
        .help = "part of each label that is spread over all classes. Default: 0",
        .verbs = SETS,
        .kind = CLI_REAL,
        TARGET(label_smoothing),
        .low = 0,
        .high = 0.9999,
    },
    {
        .name = "init",
        .argument = "HOW",
        .help = "first weights: default (PyTorch's), normal:STD (biases 0), xavier, he",
        .verbs = SETS,
        .kind = CLI_TEXT,
        TARGET(init),
    },
    {
        .name = "seed",
        .argument = "N",
        .help = "of weights and shuffling. The same seed, options and devices give the same bits. "
                "Default: 0",
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
        .help = "learning rate. Default: 0.1, of adamw 0.001",
        .verbs = SETS,
        .kind = CLI_REAL,
        TARGET(lr),
        .low = 1e-9,
        .high = 1000,
    },
    {
        .name = "lr-base-batch",
        .argument = "N",
        .help =
            "the learning rate is meant for batches of N and grows with the batch in proportion",
        .verbs = SETS,
        .kind = CLI_COUNT,
        TARGET(lr_base_batch),
        .min = 1,
        .max = MAX_COUNT,
    },
    {
        .name = "schedule",
        .argument = "NAME",
        .help = "course of the learning rate: constant (default); step; cosine, to 0 at the end; "
                "onecycle, up to --lr and down",
        .verbs = SETS,
        .kind = CLI_TEXT,
        TARGET(schedule),
        .values = schedules,
    },
    {
        .name = "step-every",
        .argument = "N",
        .help = "with --schedule step: the rate falls after every N epochs. Default: 30",
        .verbs = SETS,
        .kind = CLI_COUNT,
        TARGET(step_every),
        .min = 1,
        .max = MAX_COUNT,
    },
    {
        .name = "step-factor",
        .argument = "X",
        .help = "with --schedule step: what it is multiplied by. Default: 0.1",
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
            "let the rate rise linearly to that of the schedule in the first N steps, or epochs",
        .verbs = SETS,
        .kind = CLI_SPAN,
        TARGET(warmup),
        .max = MAX_COUNT,
    },
    {
        .name = "momentum",
        .argument = "M",
        .help = "of sgd. Default: 0",
        .verbs = SETS | CLI_BENCH,
        .kind = CLI_REAL,
        TARGET(momentum),
        .low = 0,
        .high = 0.9999,
    },
    {
        .name = "nesterov",
        .help = "Nesterov's momentum; needs --momentum",
        .verbs = SETS,
        .kind = CLI_FLAG,
        TARGET(nesterov),
    },
    {
        .name = "beta1",
        .argument = "B",
        .help = "of adamw: decay of the mean of gradients. Default: 0.9",
        .verbs = SETS,
        .kind = CLI_REAL,
        TARGET(beta1),
        .low = 1e-6,
        .high = 0.999999,
    },
    {
        .name = "beta2",
        .argument = "B",
        .help = "of adamw: decay of the mean of their squares. Default: 0.999",
        .verbs = SETS,
        .kind = CLI_REAL,
        TARGET(beta2),
        .low = 1e-6,
        .high = 0.999999,
    },
    {
        .name = "epsilon",
        .argument = "E",
        .help = "of adamw: added to the root of that mean. Default: 1e-8",
        .verbs = SETS,
        .kind = CLI_REAL,
        TARGET(epsilon),
        .low = 1e-30,
        .high = 0.999,
    },
    {
        .name = "weight-decay",
        .argument = "W",
        .help =
            "of sgd an L2 penalty, of adamw decoupled, on all parameters as in PyTorch. Default: 0",
        .verbs = SETS,
        .kind = CLI_REAL,
        TARGET(weight_decay),
        .low = 0,
        .high = 1000,
    },
    {
        .name = "no-bias-decay",
        .help = "no weight decay on biases and on the parameters of norms",
        .verbs = SETS,
        .kind = CLI_FLAG,
        TARGET(no_bias_decay),
    },
    {
        .name = "clip-norm",
        .argument = "X",
        .help = "scale a gradient whose norm over all parameters is greater down to X",
        .verbs = SETS,
        .kind = CLI_REAL,
        TARGET(clip_norm),
        .low = 1e-9,
        .high = 1e9,
    },
    {
        .group = "Benchmark",
        .name = "repeat",
        .argument = "N",
        .help = "how often each run is made; the table has medians. Default: 3",
        .verbs = CLI_BENCH,
        .kind = CLI_COUNT,
        TARGET(repeat),
        .min = 1,
        .max = 1000,
    },
    {
        .name = "max-time",
        .argument = "TIME",
        .help = "how long each run is timed once it has settled: seconds, or 90s, 5m. Default: 2; "
                "5 steps at least",
        .verbs = CLI_BENCH,
        .kind = CLI_SECONDS,
        TARGET(max_time),
    },
    {
        .name = "max-steps",
        .argument = "N",
        .help = "time no more than N steps of each run",
        .verbs = CLI_BENCH,
        .kind = CLI_COUNT,
        TARGET(max_steps),
        .min = 1,
        .max = MAX_COUNT,
    },
    {
        .name = "best-batch",
        .help = "run each device alone also with a quarter, half, twice and four times the batch, "
                "and mark the fastest",
        .verbs = CLI_BENCH,
        .kind = CLI_FLAG,
        TARGET(best_batch),
    },
    {
        .name = "all-only",
        .help = "of the mixes, only that of all devices",
        .verbs = CLI_BENCH,
        .kind = CLI_FLAG,
        TARGET(all_only),
    },
    {
        .name = "collective",
        .argument = "NAME",
        .help = "what is measured: all-reduce (default), reduce-scatter, all-gather or broadcast. "
                "Bytes are those of a whole array",
        .verbs = CLI_BENCH,
        .benchmarks = CLI_ALLREDUCE,
        .kind = CLI_TEXT,
        TARGET(collective),
        .values = collectives,
    },
    {
        .group = "Output",
        .name = "json",
        .argument = "FILE",
        .help = "write everything, each run of a mix by itself, as JSON",
        .verbs = CLI_BENCH,
        .benchmarks = CLI_MIX | CLI_ALLREDUCE,
        .kind = CLI_TEXT,
        TARGET(json),
    },
    {
        .name = "checkpoint",
        .argument = "DIR",
        .help = "write model.safetensors there after each epoch, with --validation "
                "best.safetensors after the best, and what --resume goes on from",
        .verbs = CLI_TRAIN,
        .kind = CLI_TEXT,
        TARGET(checkpoint),
    },
    {
        .name = "checkpoint-every",
        .argument = "N[steps|epochs|s|m|h]",
        .help = "how often that is written, in the background. Default: 1epochs, and at the end",
        .verbs = CLI_TRAIN,
        .kind = CLI_INTERVAL,
        TARGET(checkpoint_every),
        .max = MAX_COUNT,
    },
    {
        .name = "checkpoint-keep",
        .argument = "N",
        .help = "how many of these stay. Default: 2",
        .verbs = CLI_TRAIN,
        .kind = CLI_COUNT,
        TARGET(checkpoint_keep),
        .min = 1,
        .max = 10000,
    },
    {
        .name = "host-copy",
        .argument = "N",
        .help = "every N steps copy the state into host memory, and write it as a checkpoint if "
                "all devices are lost and cannot be read. Default: never",
        .verbs = CLI_TRAIN,
        .kind = CLI_COUNT,
        TARGET(host_copy),
        .min = 1,
        .max = MAX_COUNT,
    },
    {
        .name = "resume",
        .help = "go on exactly where the training of --checkpoint was interrupted, its --log too; "
                "begin if there is no checkpoint",
        .verbs = CLI_TRAIN,
        .kind = CLI_FLAG,
        TARGET(resume),
    },
    {
        .name = "supervise",
        .help = "run the training in a process of its own, and start it again from its last "
                "checkpoint when it crashes or its devices are lost",
        .verbs = CLI_TRAIN,
        .kind = CLI_FLAG,
        TARGET(supervise),
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
        .help = "draw loss, accuracy and shards as SVG",
        .verbs = CLI_TRAIN,
        .kind = CLI_TEXT,
        TARGET(plot),
    },
    {
        .name = "trace",
        .argument = "FILE",
        .help = "write when each device computes, exchanges and waits, for Perfetto "
                "(ui.perfetto.dev) or chrome://tracing",
        .verbs = CLI_TRAIN,
        .kind = CLI_TEXT,
        TARGET(trace),
    },
    {
        .name = "verbose",
        .help =
            "also show by which algorithm each device does each operation, and what was measured "
            "to choose it",
        .verbs = CLI_PLAN,
        .kind = CLI_FLAG,
        TARGET(verbose),
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
        .benchmarks = CLI_MIX | CLI_ALLREDUCE,
        .kind = CLI_FLAG,
        TARGET(help),
    },
    {
        .name = "version",
        .letter = 'V',
        .help = "print the version",
        .verbs = ALL,
        .benchmarks = CLI_MIX | CLI_ALLREDUCE,
        .kind = CLI_FLAG,
        TARGET(version),
    },
    /* Names that are taken, refused until they are true. */
    {.name = "deterministic", .verbs = CLI_TRAIN},
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
        .name = "predict",
        .verb = CLI_PREDICT,
        .arguments = "--checkpoint FILE|DIR [option]... IMAGE...",
        .help = "the most likely classes of images (PNG, JPEG, or IDX as FILE or FILE:0,5,10-19)",
        .operands = true,
        .run = cli_predict,
    },
    {
        .name = "devices",
        .verb = CLI_DEVICES,
        .arguments = "[option]...",
        .help = "list this machine's devices, how fast each is, and what is absent and why",
        .run = cli_devices,
    },
    {
        .name = "data",
        .verb = CLI_DATA,
        .arguments = "[option]...",
        .help = "look at all images of a data set: how many of which class, their mean and "
                "deviation, and pictures that cannot be read",
        .run = cli_data,
    },
    {
        .name = "plan",
        .verb = CLI_PLAN,
        .arguments = "[option]...",
        .help = "layers, memory and operations of a training, without training",
        .run = cli_plan,
    },
    {
        .name = "bench",
        .verb = CLI_BENCH,
        .arguments = "mix|allreduce [option]...",
        .help = "mix: how fast devices are alone and in every mix, with even and with measured "
                "shares; allreduce: how fast they exchange gradients",
        .operands = true,
        .run = cli_bench,
    },
    {.name = NULL},
};
