/* What the files of the options table share.  Each file has the options of one subject; index.c
   puts them in the order of help.  To add an option, add it to the file of its subject. */
#ifndef DPTRAIN_CLI_OPTIONS_TABLE_H
#define DPTRAIN_CLI_OPTIONS_TABLE_H

#include "cli.h"

#include <stddef.h>

/* The options of one subject.  The first one has the heading of help. */
typedef struct cli_option_part {
    const cli_option *options;
    size_t n;
} cli_option_part;

#define CLI_PART(array)                                                                            \
    {                                                                                              \
        (array), sizeof(array) / sizeof *(array)                                                   \
    }

extern const cli_option_part cli_options_of_devices, cli_options_of_data, cli_options_of_text,
    cli_options_of_training, cli_options_of_optimizer, cli_options_of_bench,
    cli_options_of_settings, cli_options_of_output, cli_options_of_supervise;

/* Sets of commands: those that describe a training; those that also use its network; those that
   also measure; all. */
enum {
    SETS = CLI_TRAIN | CLI_PLAN,
    RUNS = SETS | CLI_EVAL | CLI_PREDICT,
    USES = RUNS | CLI_BENCH,
    ALL = USES | CLI_DEVICES | CLI_DATA | CLI_EXPORT | CLI_COMPARE | CLI_GENERATE | CLI_MERGE |
          CLI_MANUAL | CLI_JOIN | CLI_SUPERVISE,
};

/* More than any machine can hold, and small enough that a sum of several cannot overflow. */
#define MAX_COUNT     ((size_t)1000000000)

#define TARGET(field) .offset = offsetof(cli_options, field)

#endif
