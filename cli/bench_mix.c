/* dptrain bench mix: runs every device of a list alone, and every mix of them with equal and with
   measured shards, alternately and several times.

   The list is opened once, and every run uses some of its devices.  A device that is measured alone
   therefore has the cores and the memory that it has in the mix.  Its run alone with the shard that
   it had in a mix follows right after the mix. */
#include "bench.h"
#include "new_file.h"
#include "recipe.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DEFAULT_REPETITIONS = 3, BATCHES = 5 };

static const double default_seconds = 2, redraw_seconds = 0.1;

/* ---- Progress -------------------------------------------------------------------------------- */

static void format_left(const bench *b, char out[64])
{
    out[0] = '\0';
    if (b->n_rows_done == 0) return;
    const double each = (bench_clock() - b->began) / (double)b->n_rows_done;
    const unsigned long left = (unsigned long)(each * (double)(b->n_rows - b->n_rows_done) + 0.5);
    snprintf(out, 64, "  about %lu:%02lu left", left / 60, left % 60);
}

void bench_show(bench *b, const bench_run *run, const char *what)
{
    const double now = bench_clock();
    if (!b->redraw) return;
    if (!what) {
        fprintf(stderr, "\r\033[K");
        fflush(stderr);
        return;
    }
    if (now - b->drawn < redraw_seconds && strcmp(what, "preparing") != 0) return;
    char places[64], left[64], text[256];
    format_left(b, left);
    snprintf(text, sizeof text, "%zu/%zu  %s %s, %zu samples, %s%s", b->n_rows_done + 1, b->n_rows,
             bench_places(run, places), bench_kind_name(run->kind), run->batch_size, what, left);
    /* A line that reaches the edge would wrap, and could not be erased. */
    fprintf(stderr, "\r\033[K%.*s", cli_terminal_columns() - 1, text);
    fflush(stderr);
    b->drawn = now;
}

/* ---- Runs ------------------------------------------------------------------------------------ */

/* The place for the next run; NULL without memory. */
static bench_run *next_run(bench *b)
{
    if (b->n_runs == b->capacity) {
        const size_t capacity = 2 * b->capacity + 64;
        bench_run *runs = realloc(b->runs, capacity * sizeof *runs);
        if (!runs) return NULL;
        b->runs = runs;
        b->capacity = capacity;
    }
    return &b->runs[b->n_runs];
}

/* Makes a run.  A failure of the run is recorded in it, and the benchmark continues.  Only failures
   that make all further runs useless are returned: no memory for the list, a signal, and invalid
   options. */
static dpt_status make(bench *b, const bench_run *what)
{
    bench_run *run = next_run(b);
    if (!run) return dpt_fail(b->session.context, DPT_E_NO_MEMORY, "no memory for the results");
    *run = *what;
    const dpt_status status = bench_run_make(b, run);
    const bool mistaken =
        status == DPT_E_INVALID && run->kind == BENCH_ALONE && run->batch_size == b->batch_size;
    if (cli_signals_caught() || mistaken) return status == DPT_OK ? DPT_E_CANCELLED : status;
    b->n_runs++;
    b->n_failed += status != DPT_OK;
    return DPT_OK;
}

static bool was_tried(const bench *b, size_t repetition, size_t device, size_t batch_size)
{
    for (size_t i = 0; i < b->n_runs; i++) {
        const bench_run *run = &b->runs[i];
        if ((run->kind == BENCH_ALONE || run->kind == BENCH_PART) &&
            run->repetition == repetition && run->devices[0] == device &&
            run->batch_size == batch_size)
            return true;
    }
    return false;
}

/* Sets *out to the k-th batch of a device alone: a quarter, half, once, twice or four times the
   batch. False if there is no such batch.  Without --best-batch only the batch itself exists. */
static bool batch_of(const bench *b, size_t k, size_t *out)
{
    static const size_t quarters[BATCHES] = {1, 2, 4, 8, 16};
    dpt_dataset_info data = {.size = sizeof data};
    dpt_dataset_describe(b->session.train, &data);
    const size_t n = b->batch_size * quarters[k];
    *out = n / 4;
    if (quarters[k] == 4) return true; /* if the data have fewer samples, the first run fails */
    return b->options->best_batch && n % 4 == 0 && n / 4 <= data.count;
}

static dpt_status run_alone(bench *b, size_t repetition)
{
    for (size_t device = 0; device < b->n_devices; device++)
        for (size_t k = 0; k < BATCHES; k++) {
            bench_run run = {
                .kind = BENCH_ALONE, .repetition = repetition, .n_devices = 1, .devices = {device}};
            if (!batch_of(b, k, &run.batch_size)) continue;
            DPT_TRY(make(b, &run));
            b->n_rows_done++;
        }
    return DPT_OK;
}

/* Runs the mix, and then each of its devices alone with the shard that it had. */
static dpt_status run_mix(bench *b, const bench_run *what)
{
    const size_t place = b->n_runs;
    DPT_TRY(make(b, what));
    const bench_run mix = b->runs[place]; /* a copy, because the list may move */
    for (size_t i = 0; mix.rate > 0 && i < mix.n_devices; i++) {
        const bench_run part = {.kind = BENCH_PART,
                                .repetition = mix.repetition,
                                .n_devices = 1,
                                .devices = {mix.devices[i]},
                                .batch_size = mix.shards[i]};
        if (mix.shards[i] == 0 || was_tried(b, mix.repetition, mix.devices[i], mix.shards[i]))
            continue;
        DPT_TRY(make(b, &part));
    }
    b->n_rows_done++;
    return DPT_OK;
}

/* Runs equal and measured shards: equal ones first in odd repetitions, measured ones in even ones.
 */
static dpt_status run_splits(bench *b, size_t repetition, unsigned long members)
{
    bench_run run = {.repetition = repetition, .batch_size = b->batch_size};
    for (size_t device = 0; device < b->n_devices; device++)
        if (members >> device & 1) run.devices[run.n_devices++] = device;
    for (size_t k = 0; k < 2; k++) {
        run.kind = (repetition + k) % 2 ? BENCH_EVEN : BENCH_MEASURED;
        DPT_TRY(run_mix(b, &run));
    }
    return DPT_OK;
}

static size_t count_members(unsigned long members)
{
    size_t n = 0;
    for (; members; members &= members - 1)
        n++;
    return n;
}

/* Runs every set of at least two devices, small sets first; with --all-only, all devices. */
static dpt_status run_mixes(bench *b, size_t repetition)
{
    const unsigned long all = (1ul << b->n_devices) - 1;
    if (b->options->all_only) return run_splits(b, repetition, all);
    for (size_t n = 2; n <= b->n_devices; n++)
        for (unsigned long members = 1; members <= all; members++)
            if (count_members(members) == n) DPT_TRY(run_splits(b, repetition, members));
    return DPT_OK;
}

static dpt_status run_all(bench *b)
{
    for (size_t k = 1; k <= b->n_repetitions; k++) {
        dpt_status status = run_alone(b, k);
        if (status == DPT_OK) status = run_mixes(b, k);
        bench_compare(b, k);
        if (status != DPT_OK) return status;
    }
    b->complete = true;
    return DPT_OK;
}

/* ---- The verb -------------------------------------------------------------------------------- */

static size_t count_rows(const bench *b)
{
    size_t n_batches = 0, batch;
    for (size_t k = 0; k < BATCHES; k++)
        n_batches += batch_of(b, k, &batch);
    const size_t n_mixes =
        b->options->all_only ? 1 : ((size_t)1 << b->n_devices) - 1 - b->n_devices;
    return b->n_repetitions * (b->n_devices * n_batches + 2 * n_mixes);
}

static int check_count(const bench *b)
{
    const size_t n = b->n_devices;
    if (n < 2)
        return cli_error(CLI_USAGE,
                         "bench mix compares devices, and %s is one; name several, such "
                         "as cpu:threads=1,cpu:threads=1:throttle=2",
                         b->options->devices);
    if (n > BENCH_MAX_DEVICES)
        return cli_error(CLI_USAGE, "bench mix takes at most %d devices, and these are %zu",
                         BENCH_MAX_DEVICES, n);
    if (n > BENCH_MOST_OF_ALL && !b->options->all_only)
        return cli_error(CLI_USAGE,
                         "%zu devices make %zu mixes, which is too many to run; name at most %d "
                         "devices, or run them all together with --all-only",
                         n, ((size_t)1 << n) - 1 - n, BENCH_MOST_OF_ALL);
    return CLI_OK;
}

/* The name of a given option that this benchmark does not have, or NULL. */
static const char *find_stray(const cli_options *o, cli_benchmark benchmark)
{
    const cli_option *option;
    for (size_t i = 0; (option = cli_option_at(i)) != NULL; i++) {
        const unsigned takers = option->benchmarks ? option->benchmarks : CLI_MIX;
        if (option->verbs & CLI_BENCH && !(takers & benchmark) && o->given[i]) return option->name;
    }
    return NULL;
}

static int check_operands(const cli_options *o)
{
    static const char *const known[] = {"mix", "allreduce", NULL};
    if (o->n_operands == 0)
        return cli_error(CLI_USAGE, "say what to measure: dptrain bench mix --devices LIST, or "
                                    "dptrain bench allreduce");
    if (strcmp(o->operands[0], "mix") != 0 && strcmp(o->operands[0], "allreduce") != 0) {
        const char *near = dpt_nearest(o->operands[0], known);
        return cli_error(CLI_USAGE, "unknown benchmark '%s'; %s%s%s", o->operands[0],
                         near ? "did you mean '" : "known: mix, allreduce", near ? near : "",
                         near ? "'?" : "");
    }
    if (o->n_operands > 1)
        return cli_error(CLI_USAGE, "unexpected argument '%s'; see 'dptrain bench --help'",
                         o->operands[1]);
    const bool mix = strcmp(o->operands[0], "mix") == 0;
    if (!o->devices && mix)
        return cli_error(CLI_USAGE, "bench mix needs the devices to compare: --devices LIST");
    const char *stray = find_stray(o, mix ? CLI_MIX : CLI_ALLREDUCE);
    if (stray)
        return cli_error(CLI_USAGE, "--%s is for bench %s", stray, mix ? "allreduce" : "mix");
    return CLI_OK;
}

/* Prints the table and writes the file with the results so far. */
static int report(const bench *b)
{
    size_t n_rows;
    bench_row *rows = bench_make_rows(b, &n_rows);
    if (!rows) return cli_error(CLI_FAILURE, "no memory for the table");
    if (n_rows > 0) bench_print_table(b, rows, n_rows);
    const int code = b->options->json ? bench_write_json(b, rows, n_rows) : CLI_OK;
    if (code == CLI_OK && b->options->json) printf("wrote %s\n", b->options->json);
    free(rows);
    return code;
}

static int measure(bench *b)
{
    cli_signals_catch();
    bench_print_header(b);
    b->redraw = cli_can_redraw(STDERR_FILENO);
    b->began = bench_clock();
    b->n_rows = count_rows(b);
    const dpt_status status = run_all(b);
    bench_show(b, NULL, NULL);
    const int caught = cli_signals_caught();
    if (status != DPT_OK && !caught) return cli_fail(b->session.context, status);
    const int code = report(b);
    if (caught) return cli_error(128 + caught, "ended early by signal %d", caught);
    if (code == CLI_OK && b->n_failed > 0)
        return cli_error(CLI_FAILURE, "%zu of %zu runs failed; the table says why", b->n_failed,
                         b->n_runs);
    return code;
}

int cli_bench(const cli_options *options)
{
    int code = check_operands(options);
    if (code == CLI_OK && strcmp(options->operands[0], "allreduce") == 0)
        return bench_allreduce(options);
    if (code == CLI_OK) code = cli_recipe_check(options);
    if (code == CLI_OK && options->json) code = cli_new_file_check(options->json);
    if (code != CLI_OK) return code;
    double load[1];
    bench b = {
        .options = options,
        .n_repetitions = options->repeat ? options->repeat : DEFAULT_REPETITIONS,
        .least_seconds = options->max_time > 0 ? options->max_time : default_seconds,
        .most_steps = options->max_steps,
        .started = time(NULL),
        .load_average = getloadavg(load, 1) == 1 ? load[0] : NAN,
    };
    const dpt_status status = cli_session_open(&b.session, options, CLI_WITH_TRAIN);
    if (status != DPT_OK) {
        code = cli_fail(b.session.context, status);
    } else {
        dpt_dataset_info data = {.size = sizeof data};
        dpt_dataset_describe(b.session.train, &data);
        b.n_devices = dpt_device_set_count(b.session.devices);
        b.batch_size = cli_batch_size(options, data.count);
        code = check_count(&b);
        if (code == CLI_OK) code = measure(&b);
    }
    free(b.runs);
    return cli_session_close(&b.session, code);
}
