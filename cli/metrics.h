/* What eval says of classes: as text, and as JSON (docs/metrics.md). */
#ifndef DPTRAIN_CLI_METRICS_H
#define DPTRAIN_CLI_METRICS_H

#include "cli.h"

/* The result of an evaluation. */
typedef struct cli_evaluated {
    const dpt_dataset_info *data;
    const dpt_evaluation *evaluation;
    bool classifies;                   /* there is an accuracy */
    double perplexity, bits_per_byte;  /* of text; 0: not known */
    const dpt_classification *classes; /* NULL: not asked for */
} cli_evaluated;

/* Prints the figures of the classes. */
void cli_metrics_print(const cli_evaluated *of);
/* Writes all of it to the file.  Returns CLI_OK, or CLI_FAILURE after one line on stderr. */
DPT_CHECK_RESULT int cli_metrics_write(const cli_evaluated *of, const char *path);

#endif
