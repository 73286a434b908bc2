/* The options and commands of dptrain, as tables.  Parsing, help and suggestions use the tables.
   This file has data only. */
#include "cli.h"

#include <stddef.h>

static const char *const optimizers[] = {"sgd", "adamw", NULL};
static const char *const recomputes[] = {"auto", "on", "off", NULL};
static const char *const schedules[] = {"constant",
                                        "step",
                                        "cosine",
                                        "onecycle",
                                        "cosine-nanogpt",
                                        "cosine-transformers",
                                        "linear-transformers",
                                        NULL};
static const char *const batch_norms[] = {"sync", "local", "frozen", NULL};
static const char *const on_off[] = {"on", "off", NULL};
static const char *const compressions[] = {"none", "bf16", NULL};
static const char *const collectives[] = {"all-reduce", "reduce-scatter", "all-gather", "broadcast",
                                          NULL};
static const char *const losses[] = {"cross-entropy", "squared-error",        "absolute",
                                     "huber",         "binary-cross-entropy", NULL};
static const char *const precisions[] = {"fp32", "tf32", "bf16", NULL};

/* Sets of commands: those that describe a training; those that also use its network; those that
   also measure; all. */
enum {
    SETS = CLI_TRAIN | CLI_PLAN,
    RUNS = SETS | CLI_EVAL | CLI_PREDICT,
    USES = RUNS | CLI_BENCH,
    ALL = USES | CLI_DEVICES | CLI_DATA | CLI_EXPORT | CLI_COMPARE | CLI_GENERATE | CLI_MERGE,
};

/* More than any machine can hold, and small enough that a sum of several cannot overflow. */
#define MAX_COUNT ((size_t)1000000000)

/* Help that several commands have in common. */
#define DATA_SETS                                                                                  \
    "fashion-mnist, mnist, cifar10, synthetic:HxWxC:CLASSES:COUNT, idx for any IDX pair in the "   \
    "directory of --data, or folder:HxW for the PNG and JPEG pictures in its train/CLASS and "     \
    "test/CLASS, scaled to HxW (folder:HxWx1: in grey; folder:HxW:stream: read while training "    \
    "runs); or arrays: npz:FILE, npy:IMAGES:LABELS, csv:FILE:LABEL; or windows of CONTEXT ids: "   \
    "text:CONTEXT, tokens:CONTEXT[:u16|:u32][:VOCABULARY]"
#define OVERLAP                                                                                    \
    "when devices exchange gradients: on (default), in buckets while backward still runs; off, "   \
    "after "                                                                                       \
    "backward"

#define TARGET(field) .offset = offsetof(cli_options, field)

const cli_option cli_option_table[] = {
    {
        .group = "Devices",
        .name = "devices",
        .argument = "LIST",
        .help = "devices to use, separated by commas: cpu, cpu:threads=2, opencl:1, all. A "
                "device may be in the list twice. Default: all",
        .verbs = RUNS | CLI_DEVICES,
        .kind = CLI_TEXT,
        TARGET(devices),
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
        .verbs = RUNS | CLI_DEVICES | CLI_BENCH,
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
        .verbs = RUNS | CLI_GENERATE | CLI_DEVICES | CLI_BENCH,
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
        .verbs = USES | CLI_GENERATE,
        .benchmarks = CLI_MIX | CLI_ALLREDUCE,
        .kind = CLI_TEXT,
        TARGET(precision),
        .values = precisions,
    },
    {
        .group = "Model and data",
        .name = "model",
        .argument = "NAME",
        .help = "network to train: a name, FILE.onnx, or the config.json of a language model of "
                "transformers, or its folder. Default: lenet",
        .verbs = SETS | CLI_BENCH,
        .kind = CLI_TEXT,
        TARGET(model),
    },
    {
        .name = "model",
        .argument = "NAME",
        .help = "network that the weights are of. Default: the one that the file of weights names, "
                "or that of the config.json beside it",
        .verbs = CLI_EVAL | CLI_PREDICT | CLI_EXPORT | CLI_GENERATE | CLI_MERGE,
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
        .help =
            DATA_SETS ". Default: the one that the file of weights names, if it consists of files",
        .verbs = CLI_EVAL,
        .kind = CLI_TEXT,
        TARGET(dataset),
    },
    {
        .name = "dataset",
        .argument = "NAME",
        .help =
            DATA_SETS ". Needed only if the file of weights does not tell the images and classes",
        .verbs = CLI_PREDICT | CLI_EXPORT,
        .kind = CLI_TEXT,
        TARGET(dataset),
    },
    {
        .name = "data",
        .argument = "DIR",
        .help = "directory of the data; of text and tokens a file, a folder, or several with "
                "commas between them. Default: $DPTRAIN_DATA, the user's cache, the "
                "distribution's package",
        .verbs = USES | CLI_DATA | CLI_EXPORT,
        .kind = CLI_TEXT,
        TARGET(data),
    },
    {
        .name = "test-data",
        .argument = "PATH",
        .help = "test data of text and tokens, as for --data. Default: the files of --data with "
                "test or val in place of the last train, or the training data",
        .verbs = SETS | CLI_EVAL | CLI_BENCH | CLI_DATA,
        .kind = CLI_TEXT,
        TARGET(test_data),
    },
    {
        .name = "tokenizer",
        .argument = "PATH",
        .help = "the ids of text:CONTEXT, instead of bytes: a tokenizer.json of byte-level BPE, or "
                "a folder with it or with vocab.json and merges.txt. For tokens:CONTEXT it tells "
                "the vocabulary",
        .verbs = SETS | CLI_EVAL | CLI_BENCH | CLI_DATA,
        .kind = CLI_TEXT,
        TARGET(tokenizer),
    },
    {
        .name = "tokenizer",
        .argument = "PATH",
        .help =
            "the tokens of the model: a tokenizer.json of byte-level BPE, or a folder with it or "
            "with vocab.json and merges.txt. Default: the one in the folder of --checkpoint, or "
            "that of the training; else tokens are bytes",
        .verbs = CLI_GENERATE,
        .kind = CLI_TEXT,
        TARGET(tokenizer),
    },
    {
        .name = "normalize",
        .help = "subtract the training data's mean from each channel and divide by its standard "
                "deviation",
        .verbs = RUNS,
        .kind = CLI_FLAG,
        TARGET(normalize),
    },
    {
        .name = "augment",
        .argument = "LIST",
        .help = "change training images at random: crop[:PADDING] (a window of the padded image; "
                "default 4), flip (left to right), erase[:P] (a rectangle, with probability P; "
                "default 0.25), resized-crop[:AREA] (for pictures of folder:HxW:stream, a window "
                "of at least this part of the picture; default 0.08)",
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
        .argument = "FILE|DIR",
        .help = "start from the weights of this safetensors file, of the index of several files, "
                "or of a directory with model.safetensors. They are not read if --resume finds a "
                "checkpoint",
        .verbs = CLI_TRAIN,
        .kind = CLI_TEXT,
        TARGET(load),
    },
    {
        .name = "load",
        .argument = "FILE",
        .help = "weights to start from. A plan does not read them",
        .verbs = CLI_PLAN,
        .kind = CLI_TEXT,
        TARGET(load),
    },
    {
        .name = "load",
        .argument = "FILE|DIR",
        .help = "weights of the base. Default: those that adapter_config.json names",
        .verbs = CLI_MERGE,
        .kind = CLI_TEXT,
        TARGET(load),
    },
    {
        .name = "lora",
        .argument = "RANK[:ALPHA][:LAYERS]|DIR",
        .help = "train adapters of this rank at linear layers of these names (default "
                "8, and c_attn,q_proj,v_proj), or those of a directory of PEFT, and nothing else. "
                "--load gives the base",
        .verbs = SETS,
        .kind = CLI_TEXT,
        TARGET(lora),
    },
    {
        .name = "lora",
        .argument = "DIR",
        .help = "adapters to add to the base: a directory with adapter_model.safetensors and "
                "adapter_config.json",
        .verbs = CLI_MERGE,
        .kind = CLI_TEXT,
        TARGET(lora),
    },
    {
        .name = "fresh",
        .argument = "LAYER[,...]",
        .help = "with --load: give these layers new weights instead of the file's. --fresh fc "
                "trains for other classes than those of the file",
        .verbs = SETS,
        .kind = CLI_TEXT,
        TARGET(fresh),
    },
    {
        .name = "checkpoint",
        .argument = "FILE|DIR",
        .help = "weights to use: a safetensors file, or a directory with model.safetensors",
        .verbs = CLI_EVAL | CLI_PREDICT | CLI_EXPORT | CLI_GENERATE,
        .kind = CLI_TEXT,
        TARGET(checkpoint),
    },
    {
        .name = "checkpoint",
        .argument = "DIR",
        .help = "directory to which model.safetensors and config.json of the sum are written",
        .verbs = CLI_MERGE,
        .kind = CLI_TEXT,
        TARGET(checkpoint),
    },
    {
        .name = "onnx",
        .argument = "FILE",
        .help = "file to write. If the weights have more than 1.75 GiB, they go to FILE.data",
        .verbs = CLI_EXPORT,
        .kind = CLI_TEXT,
        TARGET(onnx),
    },
    {
        .name = "opset",
        .argument = "N",
        .help = "version of the operators, 13 to 25. Default: 18",
        .verbs = CLI_EXPORT,
        .kind = CLI_COUNT,
        TARGET(opset),
        .min = 13,
        .max = 25,
    },
    {
        .name = "top",
        .argument = "N",
        .help = "number of classes to print for each image. Default: 3",
        .verbs = CLI_PREDICT,
        .kind = CLI_COUNT,
        TARGET(top),
        .min = 1,
        .max = MAX_COUNT,
    },
    {
        .group = "Text",
        .name = "prompt",
        .argument = "TEXT",
        .help = "the text to continue",
        .verbs = CLI_GENERATE,
        .kind = CLI_TEXT,
        TARGET(prompt),
    },
    {
        .name = "prompt-file",
        .argument = "FILE",
        .help = "the file with the text to continue; - is standard input",
        .verbs = CLI_GENERATE,
        .kind = CLI_TEXT,
        TARGET(prompt_file),
    },
    {
        .name = "tokens",
        .argument = "N",
        .help = "the most tokens to generate. Default: 100",
        .verbs = CLI_GENERATE,
        .kind = CLI_COUNT,
        TARGET(tokens),
        .min = 1,
        .max = MAX_COUNT,
    },
    {
        .name = "temperature",
        .argument = "T",
        .help = "draw each token by its probability after the logits are divided by T. Default: 0, "
                "the likeliest token",
        .verbs = CLI_GENERATE,
        .kind = CLI_REAL,
        TARGET(temperature),
        .low = 0,
        .high = 1000000,
    },
    {
        .name = "top-k",
        .argument = "K",
        .help = "draw from the K likeliest tokens only. Default: all",
        .verbs = CLI_GENERATE,
        .kind = CLI_COUNT,
        TARGET(top_k),
        .min = 1,
        .max = MAX_COUNT,
    },
    {
        .name = "top-p",
        .argument = "P",
        .help = "draw from the likeliest tokens only: the fewest that have more than this part of "
                "the probability. Default: 1, all",
        .verbs = CLI_GENERATE,
        .kind = CLI_REAL,
        TARGET(top_p),
        .low = 0.000001,
        .high = 1,
    },
    {
        .name = "seed",
        .argument = "N",
        .help = "seed of the draws. Default: 0",
        .verbs = CLI_GENERATE,
        .kind = CLI_COUNT,
        TARGET(seed),
        .max = SIZE_MAX,
    },
    {
        .name = "stop-id",
        .argument = "ID[,...]",
        .help = "ids of the tokens that end the text. Default: eos_token_id of the config.json in "
                "the folder of --checkpoint",
        .verbs = CLI_GENERATE,
        .kind = CLI_TEXT,
        TARGET(stop_id),
    },
    {
        .name = "json",
        .argument = "FILE",
        .help = "write the ids of the prompt and of the text, and the times, as JSON",
        .verbs = CLI_GENERATE,
        .kind = CLI_TEXT,
        TARGET(json),
    },
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
        .help = "gradients between processes: none (default), as float32; bf16, rounded to 16 bits "
                "for slow networks. The rounding error is kept and added in the next step. "
                "Gradients then go through MPI on all devices",
        .verbs = SETS,
        .kind = CLI_TEXT,
        TARGET(compress),
        .values = compressions,
    },
    {
        .name = "loss",
        .argument = "NAME",
        .help = "cross-entropy of labels (default); or, of the targets of npz, npy and csv data: "
                "squared-error, absolute, huber, or binary-cross-entropy with logits",
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
    },
    {
        .name = "class-weights",
        .argument = "LIST",
        .help = "cross-entropy: a weight for each class, such as 1,2,0.5. The loss is the weighted "
                "mean over the labels of the global batch",
        .verbs = SETS,
        .kind = CLI_TEXT,
        TARGET(class_weights),
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
        .group = "Benchmark",
        .name = "repeat",
        .argument = "N",
        .help = "number of repetitions of each run. The table has medians. Default: 3",
        .verbs = CLI_BENCH,
        .kind = CLI_COUNT,
        TARGET(repeat),
        .min = 1,
        .max = 1000,
    },
    {
        .name = "max-time",
        .argument = "TIME",
        .help = "time each run for this long after it has settled: seconds, or 90s, 5m. Default: "
                "2, and at least 5 steps",
        .verbs = CLI_BENCH,
        .kind = CLI_SECONDS,
        TARGET(max_time),
    },
    {
        .name = "max-steps",
        .argument = "N",
        .help = "time at most N steps of each run",
        .verbs = CLI_BENCH,
        .kind = CLI_COUNT,
        TARGET(max_steps),
        .min = 1,
        .max = MAX_COUNT,
    },
    {
        .name = "best-batch",
        .help = "also run each device alone with a quarter, half, twice and four times the batch, "
                "and mark the fastest",
        .verbs = CLI_BENCH,
        .kind = CLI_FLAG,
        TARGET(best_batch),
    },
    {
        .name = "all-only",
        .help = "of the mixes, run only the one of all devices",
        .verbs = CLI_BENCH,
        .kind = CLI_FLAG,
        TARGET(all_only),
    },
    {
        .name = "collective",
        .argument = "NAME",
        .help = "the collective to measure: all-reduce (default), reduce-scatter, all-gather or "
                "broadcast. Bytes are those of a whole array",
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
        .help = "write all results as JSON, of mix each run by itself",
        .verbs = CLI_BENCH,
        .benchmarks = CLI_MIX | CLI_ALLREDUCE,
        .kind = CLI_TEXT,
        TARGET(json),
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
        .name = "host-copy",
        .argument = "N",
        .help = "every N steps copy the training state into host memory, and write the copy as a "
                "checkpoint if all devices are lost and none can be read. Default: never",
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
        .name = "verbose",
        .help = "also print the algorithm of each operation on each device, and the times from "
                "which it was chosen",
        .verbs = CLI_PLAN,
        .kind = CLI_FLAG,
        TARGET(verbose),
    },
    {
        .name = "quiet",
        .help = "print only errors",
        .verbs = CLI_TRAIN | CLI_GENERATE,
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
        .help = "print loss and accuracy of saved weights on the test data",
        .run = cli_eval,
    },
    {
        .name = "predict",
        .verb = CLI_PREDICT,
        .arguments = "--checkpoint FILE|DIR [option]... IMAGE...",
        .help =
            "print the most likely classes of images (PNG, JPEG, or IDX as FILE or FILE:0,5,10-19)",
        .operands = true,
        .run = cli_predict,
    },
    {
        .name = "generate",
        .verb = CLI_GENERATE,
        .arguments = "--checkpoint FILE|DIR --prompt TEXT [option]...",
        .help = "continue a text with a language model",
        .run = cli_generate,
    },
    {
        .name = "export",
        .verb = CLI_EXPORT,
        .arguments = "--checkpoint FILE|DIR --onnx FILE [option]...",
        .help = "write the network of saved weights as an ONNX file",
        .run = cli_export,
    },
    {
        .name = "devices",
        .verb = CLI_DEVICES,
        .arguments = "[option]...",
        .help = "list this machine's devices, how fast each one is, and what is absent and why",
        .run = cli_devices,
    },
    {
        .name = "data",
        .verb = CLI_DATA,
        .arguments = "[option]...",
        .help = "check all images of a data set: images of each class, mean and deviation, and "
                "pictures that cannot be read",
        .run = cli_data,
    },
    {
        .name = "plan",
        .verb = CLI_PLAN,
        .arguments = "[option]...",
        .help = "print layers, memory and operations of a training, without training",
        .run = cli_plan,
    },
    {
        .name = "bench",
        .verb = CLI_BENCH,
        .arguments = "mix|allreduce [option]...",
        .help = "mix: measure how fast devices train alone and in every mix, with equal and with "
                "measured shards; allreduce: measure how fast devices exchange gradients",
        .operands = true,
        .run = cli_bench,
    },
    {
        .name = "merge",
        .verb = CLI_MERGE,
        .arguments = "--lora DIR --load FILE|DIR --checkpoint DIR [option]...",
        .help = "add adapters to the weights that they were trained for",
        .run = cli_merge,
    },
    {
        .name = "compare",
        .verb = CLI_COMPARE,
        .arguments = "A.jsonl B.jsonl",
        .help = "print the first step at which two run logs differ, or that none does",
        .operands = true,
        .run = cli_compare,
    },
    {.name = NULL},
};
