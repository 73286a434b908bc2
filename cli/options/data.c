/* The options of model and data: what is trained, on what, and the files of weights. */
#include "table.h"

#define DATA_SETS                                                                                  \
    "fashion-mnist, mnist, kmnist, emnist:SPLIT (byclass, bymerge, balanced, letters, "            \
    "digits, mnist), cifar10, cifar100, cifar100:coarse, synthetic:HxWxC:CLASSES:COUNT, idx "      \
    "for any IDX pair in the directory of --data, or folder:HxW for the pictures in its "          \
    "train/CLASS and test/CLASS, scaled to HxW (folder:HxWx1: in grey; folder:HxW:stream: "        \
    "read while training runs; folder:HxW:depth=2: in train/FOLDER/CLASS), or "                    \
    "pictures:HxW:FILE.csv:PATH:LABEL or pictures:HxW:LIST for those that a table, or lines "      \
    "of a path and a label, name; or arrays: npz:FILE, npy:IMAGES:LABELS, csv:FILE:LABEL; or "     \
    "windows of CONTEXT ids: text:CONTEXT, tokens:CONTEXT[:u16|:u32][:VOCABULARY]"

const char *const cli_data_sets[] = {"fashion-mnist",  "mnist",
                                     "kmnist",         "emnist:byclass",
                                     "emnist:bymerge", "emnist:balanced",
                                     "emnist:letters", "emnist:digits",
                                     "emnist:mnist",   "cifar10",
                                     "cifar100",       "cifar100:coarse",
                                     "synthetic:",     "idx",
                                     "folder:",        "pictures:",
                                     "npz:",           "npy:",
                                     "csv:",           "text:",
                                     "tokens:",        NULL};

static const char *const formats[] = {"text", "jsonl", "csv", NULL};

static const cli_option options[] = {
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
        .offers = cli_data_sets,
    },
    {
        .name = "dataset",
        .argument = "NAME",
        .help =
            DATA_SETS ". Default: the one that the file of weights names, if it consists of files",
        .verbs = CLI_EVAL,
        .kind = CLI_TEXT,
        TARGET(dataset),
        .offers = cli_data_sets,
    },
    {
        .name = "dataset",
        .argument = "NAME",
        .help =
            DATA_SETS ". Needed only if the file of weights does not tell the images and classes",
        .verbs = CLI_PREDICT | CLI_EXPORT,
        .kind = CLI_TEXT,
        TARGET(dataset),
        .offers = cli_data_sets,
    },
    {
        .name = "data",
        .argument = "DIR",
        .help = "directory of the data; of text and tokens a file, a folder, or several with "
                "commas between them. Default: $DPTRAIN_DATA, the user's cache, the "
                "distribution's package",
        .verbs = USES | CLI_DATA | CLI_EXPORT | CLI_JOIN,
        .kind = CLI_TEXT,
        TARGET(data),
        .list = true,
    },
    {
        .name = "test-data",
        .argument = "PATH",
        .help = "test data of text and tokens, as for --data. Default: the files of --data with "
                "test or val in place of the last train, or the training data",
        .verbs = SETS | CLI_EVAL | CLI_BENCH | CLI_DATA,
        .kind = CLI_TEXT,
        TARGET(test_data),
        .list = true,
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
        .help =
            "change training images at random: crop[:PADDING] (a window of the padded image; "
            "default 4), flip (left to right), rotate:DEGREES (by up to so many, to both sides), "
            "randaugment[:OPERATIONS[:MAGNITUDE]] (as RandAugment of torchvision; default 2:9), "
            "jitter:BRIGHTNESS[:CONTRAST[:SATURATION[:HUE]]] (colours, as ColorJitter of "
            "torchvision; such as jitter:0.4:0.4:0.4:0.1), mixup[:ALPHA] and cutmix[:ALPHA] "
            "(mix each image, and the loss of its label, with the next one; default 1), erase[:P] "
            "(a rectangle, with probability P; default 0.25), resized-crop[:AREA] (for pictures "
            "of folder:HxW:stream, a window of at least this part of the picture; default 0.08)",
        .verbs = SETS | CLI_BENCH,
        .kind = CLI_AUGMENT,
        TARGET(augment),
        .offers = cli_augmentations,
        .list = true,
    },
    {
        .name = "no-orientation",
        .help = "do not turn pictures as the camera has noted (EXIF)",
        .verbs = RUNS | CLI_DATA,
        .kind = CLI_FLAG,
        TARGET(no_orientation),
    },
    {
        .name = "skip-unreadable",
        .help = "leave out pictures of folder:HxW that cannot be read, and say how many these are. "
                "All pictures are read once for this before the first step",
        .verbs = SETS | CLI_EVAL | CLI_BENCH,
        .kind = CLI_FLAG,
        TARGET(skip_unreadable),
    },
    {
        .name = "skip-unreadable",
        .help = "leave out pictures that cannot be read, and say how many these are",
        .verbs = CLI_PREDICT,
        .kind = CLI_FLAG,
        TARGET(skip_unreadable),
    },
    {
        .name = "labels-from",
        .argument = "N",
        .help = "the smallest label of files with numbers as labels, such as 1: it becomes the "
                "first class. Default: what the file of weights says, if there is one; else 0",
        .verbs = SETS | CLI_EVAL | CLI_PREDICT | CLI_BENCH | CLI_DATA,
        .kind = CLI_COUNT,
        TARGET(labels_from),
        .min = 1,
        .max = CLI_MOST_LABEL,
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
        .list = true,
    },
    {
        .name = "load-partial",
        .help = "with --load: take the weights that fit by name and shape, and say which others "
                "the file or the network has. These begin anew, or are left out",
        .verbs = SETS,
        .kind = CLI_FLAG,
        TARGET(load_partial),
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
        .name = "format",
        .argument = "FORMAT",
        .help = "what is written, one line for each image: text, jsonl (a JSON object) or csv. "
                "Default: text",
        .verbs = CLI_PREDICT,
        .kind = CLI_TEXT,
        .values = formats,
        TARGET(format),
    },
    {
        .name = "output",
        .argument = "FILE",
        .help = "write the lines to this file. Default: standard output",
        .verbs = CLI_PREDICT,
        .kind = CLI_TEXT,
        TARGET(output),
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
};

const cli_option_part cli_options_of_data = CLI_PART(options);
