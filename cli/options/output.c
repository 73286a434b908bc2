/* The options of what is written: checkpoints, log, pictures, lines.  --help and --version are the
 * last. */
#include "table.h"

static const cli_option options[] = {
    {
        .group = "Output",
        .name = "json",
        .argument = "FILE",
        .help = "write all results as JSON, of mix each run by itself",
        .verbs = CLI_BENCH,
        .benchmarks = CLI_MIX | CLI_ALLREDUCE,
        .kind = CLI_TEXT,
        TARGET(json),
    },
    {
        .name = "json",
        .argument = "FILE",
        .help = "write the results as JSON; with --metrics also these",
        .verbs = CLI_EVAL,
        .kind = CLI_TEXT,
        TARGET(json),
    },
    {
        .name = "metrics",
        .help = "also the accuracy of the five most likely classes; precision, recall and F1 of "
                "each class, and their means; AUC; the confusion matrix. train writes them to "
                "--log after each epoch",
        .verbs = CLI_TRAIN | CLI_EVAL,
        .kind = CLI_FLAG,
        TARGET(metrics),
    },
    {
        .name = "checkpoint",
        .argument = "DIR",
        .help =
            "write model.safetensors to this directory after each epoch, best.safetensors after "
            "the best epoch (with --validation), and the checkpoints from which --resume continues",
        .verbs = CLI_TRAIN,
        .kind = CLI_TEXT,
        TARGET(checkpoint),
    },
    {
        .name = "checkpoint-every",
        .argument = "N[steps|epochs|s|m|h]",
        .help = "interval of the checkpoints, which are written in the background. Default: "
                "1epochs, and at the end",
        .verbs = CLI_TRAIN,
        .kind = CLI_INTERVAL,
        TARGET(checkpoint_every),
        .max = MAX_COUNT,
    },
    {
        .name = "checkpoint-keep",
        .argument = "N",
        .help = "number of checkpoints to keep. Default: 2",
        .verbs = CLI_TRAIN,
        .kind = CLI_COUNT,
        TARGET(checkpoint_keep),
        .min = 1,
        .max = 10000,
    },
    {
        .name = "requeue-exit",
        .argument = "N",
        .help = "SIGUSR1 and SIGUSR2 end training with a checkpoint and this exit status, 4 to "
                "125, by which a scheduler starts it again with --resume. Default: they write a "
                "checkpoint, and training goes on",
        .verbs = CLI_TRAIN,
        .kind = CLI_COUNT,
        TARGET(requeue_exit),
        .min = 4,
        .max = 125,
    },
    {
        .name = "host-copy",
        .argument = "N",
        .help =
            "every N steps copy the training state into host memory, and write the copy as a "
            "checkpoint if all devices are lost and none can be read. Default: never. With dptrain "
            "supervise also the interval of copies that outlive processes; default there: every "
            "second",
        .verbs = CLI_TRAIN,
        .kind = CLI_COUNT,
        TARGET(host_copy),
        .min = 1,
        .max = MAX_COUNT,
    },
    {
        .name = "resume",
        .help = "continue the training of --checkpoint exactly where it was interrupted, its --log "
                "too. Without a checkpoint, begin",
        .verbs = CLI_TRAIN,
        .kind = CLI_FLAG,
        TARGET(resume),
    },
    {
        .name = "supervise",
        .help = "run the training in a child process, and start it again from its last checkpoint "
                "when it crashes or its devices are lost",
        .verbs = CLI_TRAIN,
        .kind = CLI_FLAG,
        TARGET(supervise),
    },
    {
        .name = "log",
        .argument = "FILE",
        .help = "write the run log: what happens in each step, as JSON Lines",
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
        .name = "tensorboard",
        .argument = "DIR",
        .help =
            "write event files for TensorBoard to this directory, which without --resume has none "
            "yet: losses, accuracies, rates, and shares and times of each device",
        .verbs = CLI_TRAIN,
        .kind = CLI_TEXT,
        TARGET(tensorboard),
    },
    {
        .name = "tensorboard-histograms",
        .help = "add histograms of all weights after each epoch",
        .verbs = CLI_TRAIN,
        .kind = CLI_FLAG,
        TARGET(tensorboard_histograms),
    },
    {
        .name = "report",
        .argument = "FILE",
        .help =
            "write a report of the training as one HTML file: curves, devices, confused classes, "
            "worst samples",
        .verbs = CLI_TRAIN,
        .kind = CLI_TEXT,
        TARGET(report),
    },
    {
        .name = "verbose",
        .help = "also print the algorithm of each operation on each device, and the times from "
                "which it was chosen",
        .verbs = CLI_PLAN,
        .kind = CLI_FLAG,
        TARGET(verbose),
    },
    {
        .name = "measure",
        .argument = "TIME",
        .help = "also train for this long after the shards have settled, at least 5 steps, and "
                "print the time of a step and of an epoch: seconds, or 90s, 5m. The weights are "
                "thrown away",
        .verbs = CLI_PLAN,
        .kind = CLI_SECONDS,
        TARGET(measure),
    },
    {
        .name = "quiet",
        .help = "print only errors",
        .verbs = CLI_TRAIN | CLI_GENERATE | CLI_JOIN,
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
};

const cli_option_part cli_options_of_output = CLI_PART(options);
