/* Prints the header and the table of dptrain bench mix. */
#include "bench.h"
#include "recipe.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const char *bench_places(const bench_run *run, char out[64])
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < run->n_devices && used < 60; i++)
        used += (size_t)snprintf(out + used, 64 - used, "%s%zu", i ? "," : "", run->devices[i]);
    return out;
}

/* ---- The header ------------------------------------------------------------------------------ */

static void print_runs(const bench *b)
{
    const bool all = b->n_devices > 2 && !b->options->all_only;
    printf("%-10s%zu repetition%s of each device alone and %s, with equal and measured shards;\n",
           "runs", b->n_repetitions, b->n_repetitions == 1 ? "" : "s",
           all ? "of every mix" : "of all together");
    printf("%-10seach timed for ", "");
    if (b->most_steps > 0) printf("at most %zu steps, or ", b->most_steps);
    printf("%g s after it has settled\n", b->least_seconds);
}

void bench_print_header(const bench *b)
{
    dpt_dataset_info data = {.size = sizeof data};
    dpt_dataset_describe(b->session.train, &data);
    printf("%-10s%s, %zu parameters\n", "model", dpt_model_name(b->session.model),
           dpt_model_parameter_count(b->session.model));
    printf("%-10s%s, %zu images of %zux%zux%zu\n", "data", data.name, data.count, data.height,
           data.width, data.channels);
    printf("%-10s%zu\n", "batch", b->batch_size);
    for (size_t i = 0; i < b->n_devices; i++) {
        dpt_device_info device = {.size = sizeof device};
        dpt_device_describe(dpt_device_set_get(b->session.devices, i), &device);
        printf("%-8zu  ", i);
        cli_print_device(&device);
    }
    print_runs(b);
    printf("\n");
    fflush(stdout);
}

/* ---- The table ------------------------------------------------------------------------------- */

/* Prints a rate with decimals by its size; "-" for NaN. */
static void print_rate(double value)
{
    if (isnan(value))
        printf("  %9s", "-");
    else
        printf("  %9.*f", value < 100 ? 2 : value < 1000 ? 1 : 0, value);
}

static void print_ratio(double value)
{
    if (isnan(value))
        printf("  %7s", "-");
    else
        printf("  %7.3f", value);
}

static void format_shards(const bench_run *run, char *out, size_t out_bytes)
{
    size_t used = 0;
    out[0] = '\0';
    for (size_t i = 0; i < run->n_devices && used + 24 < out_bytes; i++)
        used +=
            (size_t)snprintf(out + used, out_bytes - used, "%s%zu", i ? ":" : "", run->shards[i]);
}

/* The width of a column, at least that of its heading. */
static int widest(const bench_row *rows, size_t n, bool shards)
{
    size_t width = strlen(shards ? "SHARDS" : "DEVICES");
    for (size_t i = 0; i < n; i++) {
        char text[BENCH_MAX_DEVICES * 24], places[64];
        format_shards(rows[i].last, text, sizeof text);
        const size_t length = strlen(shards ? text : bench_places(rows[i].last, places));
        if (length > width) width = length;
    }
    return (int)width;
}

static void print_row(const bench_row *row, int devices_width, int shards_width, bool stars)
{
    char places[64], shards[BENCH_MAX_DEVICES * 24];
    const bool done = row->n_done > 0;
    format_shards(row->last, shards, sizeof shards);
    printf("%-*s  %-8s  %*s%s", devices_width, bench_places(row->last, places),
           bench_kind_name(row->last->kind), shards_width, done ? shards : "failed",
           !stars      ? ""
           : row->best ? "*"
                       : " ");
    print_rate(row->rate.median);
    print_rate(row->rate.least);
    print_rate(row->rate.most);
    print_ratio(row->balance.median);
    print_ratio(row->scaling.median);
    print_ratio(row->gain.median);
    printf("\n");
}

/* Prints the fastest mix, compared with the fastest device alone. */
static void print_best(const bench_row *rows, size_t n)
{
    const bench_row *alone = NULL, *mix = NULL;
    for (size_t i = 0; i < n; i++) {
        const bench_row **best = rows[i].last->n_devices == 1 ? &alone : &mix;
        if (rows[i].n_done > 0 && (!*best || rows[i].rate.median > (*best)->rate.median))
            *best = &rows[i];
    }
    if (!alone || !mix) return;
    char one[64], several[64];
    printf(
        "\nfastest: %s with %s shards, %.3f times the fastest device alone (%s, batches of %zu)\n",
        bench_places(mix->last, several), bench_kind_name(mix->last->kind),
        mix->rate.median / alone->rate.median, bench_places(alone->last, one),
        alone->last->batch_size);
}

static void print_unsettled(const bench_row *rows, size_t n)
{
    char places[64];
    for (size_t i = 0; i < n; i++)
        if (rows[i].n_unsettled > 0)
            printf("unsettled: the shards of %s still changed when timing began, in %zu of %zu "
                   "repetitions\n",
                   bench_places(rows[i].last, places), rows[i].n_unsettled, rows[i].n_done);
}

static void print_failures(const bench *b)
{
    char places[64];
    for (size_t i = 0; i < b->n_runs; i++) {
        const bench_run *run = &b->runs[i];
        if (!run->error[0]) continue;
        printf("failed: %s %s", bench_places(run, places), bench_kind_name(run->kind));
        if (run->n_devices == 1) printf(" with batches of %zu", run->batch_size);
        printf(", repetition %zu: %s\n", run->repetition, run->error);
    }
}

void bench_print_table(const bench *b, const bench_row *rows, size_t n_rows)
{
    const int devices_width = widest(rows, n_rows, false);
    const int shards_width = widest(rows, n_rows, true);
    const bool stars = b->options->best_batch;
    printf("%-*s  %-8s  %*s%s  %9s  %9s  %9s  %7s  %7s  %7s\n", devices_width, "DEVICES", "SPLIT",
           shards_width, "SHARDS", stars ? " " : "", "IMG/S", "LEAST", "MOST", "BALANCE", "SCALING",
           "GAIN");
    for (size_t i = 0; i < n_rows; i++)
        print_row(&rows[i], devices_width, shards_width, stars);
    if (stars) printf("* the fastest of the device's batches\n");
    print_best(rows, n_rows);
    print_unsettled(rows, n_rows);
    print_failures(b);
}
