/* dptrain bench mix: devices alone and together.  What is run (bench_mix.c), how one run is timed
   (bench_run.c), what follows from all runs (bench_rows.c), and how it is told (bench_table.c,
   bench_json.c). */
#ifndef DPTRAIN_CLI_BENCH_H
#define DPTRAIN_CLI_BENCH_H

#include "session.h"

#include <time.h>

enum {
    BENCH_MAX_DEVICES = 16,
    BENCH_MOST_OF_ALL = 6, /* devices of which every subset is run */
    BENCH_ERROR_BYTES = 256,
};

typedef enum bench_kind {
    BENCH_ALONE, /* one device with a batch whose rate is asked for */
    BENCH_PART,  /* one device with the share that a mix gave it */
    BENCH_EVEN,  /* a mix with --split equal */
    BENCH_MEASURED,
} bench_kind;

/* One run: a training of its own on some of the devices, timed once it has settled. */
typedef struct bench_run {
    bench_kind kind;
    size_t repetition; /* from 1 */
    size_t n_devices;
    size_t devices[BENCH_MAX_DEVICES]; /* places in the list, from 0, rising */
    size_t batch_size;

    /* What came of it; zero and NaN where there is nothing. */
    char error[BENCH_ERROR_BYTES];    /* "" if none */
    size_t settling_steps;            /* before those that are timed */
    bool settled;                     /* false: shares still moved when timing began */
    size_t steps, samples;            /* that are timed */
    double seconds, rate;             /* of these; rate is samples per second */
    size_t n_rebalances;              /* within these */
    size_t shares[BENCH_MAX_DEVICES]; /* that most of these had, */
    size_t share_steps;               /* and how many had */
    /* Seconds a step of each device, means: busy by its own clock, exchanging (a part of busy), and
       waiting for the others. */
    double busy[BENCH_MAX_DEVICES], exchanging[BENCH_MAX_DEVICES], waiting[BENCH_MAX_DEVICES];

    /* Of mixes, from the runs of the same repetition (bench_rows.c). */
    double part_rates[BENCH_MAX_DEVICES];  /* alone with its share; 0 if it has none */
    double whole_rates[BENCH_MAX_DEVICES]; /* alone with the whole batch */
    double balance, scaling, gain;
} bench_run;

/* Everything that is measured. */
typedef struct bench {
    const cli_options *options;
    cli_session session;
    size_t n_devices, batch_size, n_repetitions;
    double least_seconds; /* of a run's timed part, */
    size_t most_steps;    /* which ends in any case after so many; 0: no limit */
    bench_run *runs;      /* in the order in which they were made */
    size_t n_runs, capacity;
    size_t n_failed;
    time_t started;
    double load_average; /* before the first run */
    bool complete;       /* nothing is missing but what failed */
    /* Progress. */
    bool redraw;
    size_t n_rows, n_rows_done; /* rows of the table times repetitions */
    double began, drawn;
} bench;

/* The other benchmark, of all-reduce (bench_allreduce.c). */
int bench_allreduce(const cli_options *options);

/* Seconds of a clock that only goes forwards. */
double bench_clock(void);
/* "0,1,3" in out, which it returns. */
const char *bench_places(const bench_run *run, char out[64]);
const char *bench_kind_name(bench_kind kind); /* "alone", "alone", "equal", "measured" */

/* Makes the run that is described and fills in what came of it: a failure is in run->error, and its
   status is returned, the context's error being told.  Ends early, as DPT_E_CANCELLED and without a
   figure, when a signal came. */
DPT_CHECK_RESULT dpt_status bench_run_make(bench *b, bench_run *run);

/* A line on the terminal that says what is being done; `what` NULL takes it away. */
void bench_show(bench *b, const bench_run *run, const char *what);

/* ---- What follows ---------------------------------------------------------------------------- */

/* The run of one device with this batch in a repetition that has a rate, or NULL. */
const bench_run *bench_find_alone(const bench *b, size_t repetition, size_t device,
                                  size_t batch_size);
/* Sets balance, scaling and gain of the mixes of a repetition. */
void bench_compare(bench *b, size_t repetition);

typedef struct bench_spread {
    double median, least, most; /* NaN without a value */
} bench_spread;

/* A row of the table: the repetitions of what is the same. */
typedef struct bench_row {
    const bench_run *last; /* the last repetition that has a rate, or else the last */
    size_t n_done, n_failed, n_unsettled;
    bench_spread rate, balance, scaling, gain;
    bool best;         /* of the batches with which this device was run alone */
    const char *error; /* the first, or NULL */
} bench_row;

/* Rows in the order in which they were first run; NULL without memory, else freed by the caller. */
bench_row *bench_make_rows(const bench *b, size_t *n_rows);

void bench_print_header(const bench *b);
void bench_print_table(const bench *b, const bench_row *rows, size_t n_rows);

/* Writes everything to --json.  CLI_OK, or CLI_FAILURE after one line on stderr. */
DPT_CHECK_RESULT int bench_write_json(const bench *b, const bench_row *rows, size_t n_rows);

#endif
