/* --class-weights, --freeze and --group: lists that are read once. */
#ifndef DPT_CLI_LISTS_H
#define DPT_CLI_LISTS_H

#include "cli.h"
#include "dptrain.h"

enum { CLI_MOST_CLASS_WEIGHTS = 65536 };

struct cli_lists {
    float *class_weights;        /* (CLI_MOST_CLASS_WEIGHTS) */
    size_t n_class_weights;      /* 0: none, or they depend on the data (cli_class_weights) */
    dpt_parameter_group *groups; /* those of --freeze first */
    size_t n_groups;
    char *text;     /* what the patterns of the groups point into */
    size_t n_bytes; /* of `text` that are used */
};

/* Reads the lists of the options, if there are any, into options->lists.  Returns CLI_OK, or an
   exit code after one line on stderr.  The caller releases them in both cases. */
DPT_CHECK_RESULT int cli_read_lists(cli_options *options);
void cli_release_lists(cli_options *options);

#endif
