/* dptrain bench mix measures devices alone and together.  bench_mix.c chooses the runs, bench_run.c
   times one run, bench_rows.c computes figures from all runs, and bench_table.c and bench_json.c
   print and write them. */
#ifndef DPTRAIN_CLI_BENCH_H
#define DPTRAIN_CLI_BENCH_H

#include "session.h"

#include <time.h>

enum {
    BENCH_MAX_DEVICES = 16,
    BENCH_MOST_OF_ALL = 6, /* the most devices of which every subset is run */
    BENCH_ERROR_BYTES = 256,
};

typedef enum bench_kind {
    BENCH_ALONE,    /* one device with a batch that has a row in the table */
    BENCH_PART,     /* one device with the shard that it had in a mix */
    BENCH_EVEN,     /* a mix with --split equal */
    BENCH_MEASURED, /* a mix with --split measured */
} bench_kind;

/* One run: a training of its own on some of the devices, timed once it has settled. */
typedef struct bench_run {
    bench_kind kind;
    size_t repetition; /* from 1 */
    size_t n_devices;
    size_t devices[BENCH_MAX_DEVICES]; /* places in the list, from 0, ascending */
    size_t batch_size;

    /* The result; zero and NaN if there is none. */
    char error[BENCH_ERROR_BYTES];    /* "" if none */
    size_t settling_steps;            /* steps before the timed ones */
    bool settled;                     /* false: shards still changed when timing began */
    size_t steps, samples;            /* of the timed part */
    double seconds, rate;             /* of the timed part; rate: samples per second */
    size_t n_rebalances;              /* changes of shards in the timed part */
    size_t shards[BENCH_MAX_DEVICES]; /* the shards that most timed steps had */
    size_t shard_steps;               /* the number of these steps */
    /* For each device, means of a timed step, in seconds: busy time by its own clock, the part of
       it that is exchange, and waiting for the others. */
    double busy[BENCH_MAX_DEVICES], exchanging[BENCH_MAX_DEVICES], waiting[BENCH_MAX_DEVICES];

    /* Only for mixes, from the runs of the same repetition (bench_rows.c). */
    double part_rates[BENCH_MAX_DEVICES];  /* alone with its shard; 0 if it has none */
    double whole_rates[BENCH_MAX_DEVICES]; /* alone with the whole batch */
    double balance, scaling, gain;
} bench_run;

/* The whole benchmark. */
typedef struct bench {
    const cli_options *options;
    cli_session session;
    size_t n_devices, batch_size, n_repetitions;
    double least_seconds; /* the least length of a run's timed part */
    size_t most_steps;    /* the most timed steps; 0: no limit */
    bench_run *runs;      /* (n_runs) in order */
    size_t n_runs, capacity;
    size_t n_failed;
    time_t started;
    double load_average; /* before the first run */
    bool complete;       /* false: the benchmark was ended early */
    /* Progress. */
    bool redraw;
    size_t n_rows, n_rows_done; /* rows of the table, times repetitions */
    double began, drawn;
} bench;

/* The other benchmark: dptrain bench allreduce (bench_allreduce.c). */
int bench_allreduce(const cli_options *options);

/* Seconds of a monotonic clock. */
double bench_clock(void);
/* Writes the places of a run's devices to `out`, as in "0,1,3", and returns `out`. */
const char *bench_places(const bench_run *run, char out[64]);
const char *bench_kind_name(bench_kind kind); /* "alone", "alone", "equal", "measured" */

/* Makes the run that is described, and fills in its result.  On failure it returns the status and
   puts the message into run->error.  After a signal it ends early with DPT_E_CANCELLED and no
   figures. */
DPT_CHECK_RESULT dpt_status bench_run_make(bench *b, bench_run *run);

/* Shows a line on the terminal that says what is being done.  If `what` is NULL, erases it. */
void bench_show(bench *b, const bench_run *run, const char *what);

/* ---- Figures --------------------------------------------------------------------------------- */

/* The run of one device with this batch in this repetition, if it has a rate; else NULL. */
const bench_run *bench_find_alone(const bench *b, size_t repetition, size_t device,
                                  size_t batch_size);
/* Sets balance, scaling and gain of the mixes of a repetition. */
void bench_compare(bench *b, size_t repetition);

typedef struct bench_spread {
    double median, least, most; /* NaN without a value */
} bench_spread;

/* A row of the table: all repetitions of the same run. */
typedef struct bench_row {
    const bench_run *last; /* the last repetition that has a rate, or else the last */
    size_t n_done, n_failed, n_unsettled;
    bench_spread rate, balance, scaling, gain;
    bool best;         /* the fastest batch of this device alone */
    const char *error; /* the first error, or NULL */
} bench_row;

/* Makes the rows, in the order in which they were first run.  The caller frees them.  NULL without
   memory. */
bench_row *bench_make_rows(const bench *b, size_t *n_rows);

void bench_print_header(const bench *b);
void bench_print_table(const bench *b, const bench_row *rows, size_t n_rows);

/* Writes all results to --json.  Returns CLI_OK, or CLI_FAILURE after one line on stderr. */
DPT_CHECK_RESULT int bench_write_json(const bench *b, const bench_row *rows, size_t n_rows);

#endif
