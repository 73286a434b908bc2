/* What predict writes of each image: a line of text, of JSON or of CSV (docs/predict.md). */
#ifndef DPTRAIN_CLI_PREDICT_LINES_H
#define DPTRAIN_CLI_PREDICT_LINES_H

#include "cli.h"

typedef enum cli_lines_format { CLI_LINES_TEXT, CLI_LINES_JSONL, CLI_LINES_CSV } cli_lines_format;

/* Where lines go.  They are written together, and never in part: a signal that ends the process
   waits until the lines that are being written are complete. */
typedef struct cli_lines {
    cli_lines_format format;
    const char *path; /* NULL: standard output */
    int file;
    bool regular;   /* a file, and no pipe or terminal */
    bool no_memory; /* for a line */
    char *text;     /* (capacity) of which n bytes are not written yet */
    size_t n, capacity;
    /* What is predicted. */
    size_t classes, top;
    bool regression;                /* or the integers of a network like ArgMax */
    const char *const *class_names; /* (classes), or NULL */
} cli_lines;

/* Checks --output.  Returns CLI_OK, or CLI_USAGE or CLI_FAILURE after one line on
   stderr. */
DPT_CHECK_RESULT int cli_lines_check(const cli_options *options);
/* Opens the file, which is emptied, and writes the head of CSV.  The caller has set what is
   predicted.  Errors as cli_lines_flush. */
DPT_CHECK_RESULT int cli_lines_open(const cli_options *options, cli_lines *lines);
/* Adds the line of an image.  `name`: of n bytes. `outputs` (classes): probabilities, of which the
   largest are written; or numbers. */
void cli_lines_add(cli_lines *lines, const char *name, size_t n, const float *outputs);
/* Writes the lines that were added.  Returns CLI_OK, or CLI_FAILURE after one line on stderr. */
DPT_CHECK_RESULT int cli_lines_flush(cli_lines *lines);
/* Closes the file, and accepts zeros.  The same results. */
DPT_CHECK_RESULT int cli_lines_close(cli_lines *lines);

#endif
