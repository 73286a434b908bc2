/* The options of devices: which compute, how a batch is divided, what happens when one fails, and
   in which arithmetic. */
#include "table.h"

static const char *const recomputes[] = {"auto", "on", "off", NULL};
static const char *const shards[] = {"none", "optimizer", "gradients", "parameters", "auto", NULL};
static const char *const precisions[] = {"fp32", "tf32", "bf16", NULL};

static const char *const splits[] = {"measured", "equal", "replay:", NULL};

static const cli_option options[] = {
    {
        .group = "Devices",
        .name = "devices",
        .argument = "LIST",
        .help = "devices to use, separated by commas: cpu, cpu:threads=2, opencl:1, all. A "
                "device may be in the list twice. Default: all",
        .verbs = RUNS | CLI_DEVICES | CLI_JOIN,
        .kind = CLI_TEXT,
        TARGET(devices),
        .list = true,
    },
    {
        .name = "devices",
        .argument = "LIST",
        .help = "devices to use, separated by commas: cpu, cpu:threads=2, opencl:1, all. A "
                "device may be in the list twice. Default of allreduce: all; mix needs it",
        .verbs = CLI_BENCH,
        .benchmarks = CLI_MIX | CLI_ALLREDUCE,
        .kind = CLI_TEXT,
        TARGET(devices),
        .list = true,
    },
    {
        .name = "devices",
        .argument = "DEVICE",
        .help = "the one device that computes, such as cpu, cpu:threads=2 or cuda:0. Default: cpu",
        .verbs = CLI_GENERATE,
        .kind = CLI_TEXT,
        TARGET(devices),
    },
    {
        .name = "devices-of",
        .argument = "FILE",
        .help = "read the devices of each process from this file, with a line for each rank or "
                "host: @0=cuda:0,cpu, @HOST=cpu, and @*=all for all others. # begins a comment. "
                "Such lines, separated by ;, are also a valid LIST",
        .verbs = RUNS | CLI_DEVICES | CLI_BENCH | CLI_JOIN,
        .benchmarks = CLI_MIX | CLI_ALLREDUCE,
        .kind = CLI_TEXT,
        TARGET(devices_of),
    },
    {
        .name = "no-measure",
        .help = "list the devices without measuring them",
        .verbs = CLI_DEVICES,
        .kind = CLI_FLAG,
        TARGET(no_measure),
    },
    {
        .name = "split",
        .argument = "HOW",
        .help = "how each batch is divided among the devices: measured (default), by the measured "
                "speed of each device; equal; proportions such as 5:2:1; or replay:LOG, with the "
                "shards and algorithms of an earlier run's log",
        .verbs = SETS | CLI_EVAL,
        .kind = CLI_TEXT,
        TARGET(split),
        .offers = splits,
    },
    {
        .name = "stop-on-loss",
        .help = "end training when a device fails. Without this option training goes on with the "
                "other devices",
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
        .verbs = RUNS | CLI_GENERATE | CLI_DEVICES | CLI_BENCH | CLI_JOIN,
        .benchmarks = CLI_MIX | CLI_ALLREDUCE,
        .kind = CLI_SECONDS,
        TARGET(device_timeout),
    },
    {
        .name = "readmit",
        .argument = "TIME",
        .help =
            "try a lost device again after this time (seconds, or with a unit) and use it if it "
            "works. If it does not, the pause doubles, up to 64 times this time. Default: never",
        .verbs = CLI_TRAIN,
        .kind = CLI_SECONDS,
        TARGET(readmit_after),
    },
    {
        .name = "verify-replicas",
        .argument = "N",
        .help = "every N steps compare the devices' replicas to the bit, and restore a replica "
                "that differs. Default: never",
        .verbs = CLI_TRAIN,
        .kind = CLI_COUNT,
        TARGET(verify_replicas),
        .min = 1,
        .max = MAX_COUNT,
    },
    {
        .name = "recompute",
        .argument = "auto|on|off",
        .help =
            "compute activations again in the backward pass instead of keeping them: less "
            "memory, a fifth to a third more operations, the same bits. auto (default): where a "
            "device's memory does not hold one sample's otherwise",
        .verbs = SETS,
        .kind = CLI_TEXT,
        TARGET(recompute),
        .values = recomputes,
    },
    {
        .name = "shard",
        .argument = "none|optimizer|gradients|parameters|auto",
        .help = "optimizer: the devices hold the optimizer's state in parts, in proportion to the "
                "memory that each has left, and not each for itself: less memory on each device, "
                "the same bits. Host memory holds a copy. gradients: so they do with summed "
                "gradients. parameters: so they do with these and the weights, and copy those of a "
                "layer when it is computed. auto: the cheapest of these that fits, with --offload "
                "and --recompute auto where they help; none if all fits; in one process. Default: "
                "none",
        .verbs = SETS,
        .kind = CLI_TEXT,
        TARGET(shard),
        .values = shards,
    },
    {
        .name = "offload",
        .help = "the CPUs in the list hold the parts of --shard for all devices, and do their "
                "update: other devices hold none of the optimizer's state. The same bits. Without "
                "--shard: --shard optimizer. In one process",
        .verbs = SETS,
        .kind = CLI_FLAG,
        TARGET(offload),
    },
    {
        .name = "rows-of-logits",
        .argument = "N",
        .help = "language models: compute the logits, the loss and the gradients of N tokens at a "
                "time; with --deterministic, of the samples of a grain. Default: by the device's "
                "memory and caches",
        .verbs = SETS,
        .kind = CLI_COUNT,
        TARGET(logit_rows),
        .min = 1,
        .max = MAX_COUNT,
    },
    {
        .name = "deterministic",
        .help = "the same bits on any devices that can do it, with any shares: weights, losses, "
                "evaluations and predictions. CPUs, OpenCL devices and NVIDIA cards can, unless "
                "they say why not",
        .verbs = RUNS | CLI_GENERATE,
        .kind = CLI_FLAG,
        TARGET(deterministic),
    },
    {
        .name = "precision",
        .argument = "NAME",
        .help =
            "arithmetic of matrix products and convolutions: fp32 (default), true float32; where a "
            "device can, tf32: inputs rounded to 11 bits, or bf16: activations stored in 16 bits",
        .verbs = USES | CLI_GENERATE | CLI_JOIN,
        .benchmarks = CLI_MIX | CLI_ALLREDUCE,
        .kind = CLI_TEXT,
        TARGET(precision),
        .values = precisions,
    },
};

const cli_option_part cli_options_of_devices = CLI_PART(options);
