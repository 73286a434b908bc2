/* The commands. */
#include "cli.h"

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
        .arguments = "--checkpoint FILE|DIR [option]... IMAGE|FOLDER...",
        .help = "print the most likely classes of images (pictures, folders of pictures, or IDX as "
                "FILE or FILE:0,5,10-19)",
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
        .help = "print layers, memory and operations of a training, without training, and with "
                "--measure the time of a step",
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
    {
        .name = "join",
        .verb = CLI_JOIN,
        .arguments = "HOST:PORT [option]...",
        .help = "take part in a training that runs, with the devices of this machine: it has the "
                "options of the training (docs/processes.md)",
        .operands = true,
        .run = cli_train,
    },
    {
        .name = "supervise",
        .verb = CLI_SUPERVISE,
        .arguments = "[option]... [--] LAUNCHER ARGUMENT...",
        .help =
            "start a launcher such as mpirun or srun, and start it again with the processes that "
            "are left when some are lost: the training goes on from a copy in memory",
        .operands = true,
        .command = true,
        .run = cli_supervise_job,
    },
    {
        .name = "manual",
        .verb = CLI_MANUAL,
        .arguments = "DIR",
        .help = "write the man pages and the completions of shells to this directory",
        .operands = true,
        .hidden = true,
        .run = cli_manual,
    },
    {.name = NULL},
};
