/* Computes the figures of dptrain bench mix from its runs: balance, scaling and gain of each mix,
   and medians over repetitions.  Arithmetic only.

   The figures of a repetition come from runs of the same repetition.  Changes of the machine's
   speed from minute to minute therefore affect both sides of a ratio. */
#include "bench.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *bench_kind_name(bench_kind kind)
{
    static const char *const names[] = {
        [BENCH_ALONE] = "alone",
        [BENCH_PART] = "alone",
        [BENCH_EVEN] = "equal",
        [BENCH_MEASURED] = "measured",
    };
    return names[kind];
}

static bool is_mix(const bench_run *run)
{
    return run->kind == BENCH_EVEN || run->kind == BENCH_MEASURED;
}

static bool same_devices(const bench_run *a, const bench_run *b)
{
    return a->n_devices == b->n_devices &&
           memcmp(a->devices, b->devices, a->n_devices * sizeof *a->devices) == 0;
}

const bench_run *bench_find_alone(const bench *b, size_t repetition, size_t device,
                                  size_t batch_size)
{
    for (size_t i = 0; i < b->n_runs; i++) {
        const bench_run *run = &b->runs[i];
        if (!is_mix(run) && run->repetition == repetition && run->devices[0] == device &&
            run->batch_size == batch_size && run->rate > 0)
            return run;
    }
    return NULL;
}

/* ---- One repetition -------------------------------------------------------------------------- */

static double rate_alone(const bench *b, const bench_run *mix, size_t device, size_t batch_size)
{
    const bench_run *alone = bench_find_alone(b, mix->repetition, device, batch_size);
    return alone ? alone->rate : NAN;
}

static double even_rate(const bench *b, const bench_run *measured)
{
    for (size_t i = 0; i < b->n_runs; i++) {
        const bench_run *run = &b->runs[i];
        if (run->kind == BENCH_EVEN && run->repetition == measured->repetition &&
            same_devices(run, measured))
            return run->rate;
    }
    return NAN;
}

/* Computes the figures of a mix.  A figure is NaN if one of its runs is missing. */
static void compare(const bench *b, bench_run *mix)
{
    double parts = 0, wholes = 0;
    for (size_t i = 0; i < mix->n_devices; i++) {
        const size_t device = mix->devices[i];
        mix->part_rates[i] = mix->shards[i] > 0 ? rate_alone(b, mix, device, mix->shards[i]) : 0;
        mix->whole_rates[i] = rate_alone(b, mix, device, b->batch_size);
        parts += mix->part_rates[i];
        wholes += mix->whole_rates[i];
    }
    mix->balance = mix->rate / parts;
    mix->scaling = mix->rate / wholes;
    if (mix->kind == BENCH_MEASURED) mix->gain = mix->rate / even_rate(b, mix);
}

void bench_compare(bench *b, size_t repetition)
{
    for (size_t i = 0; i < b->n_runs; i++)
        if (is_mix(&b->runs[i]) && b->runs[i].repetition == repetition && b->runs[i].rate > 0)
            compare(b, &b->runs[i]);
}

/* ---- Rows ------------------------------------------------------------------------------------ */

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static bool same_row(const bench_run *a, const bench_run *b)
{
    return a->kind == b->kind && a->batch_size == b->batch_size && same_devices(a, b);
}

/* The spread of the values at an offset into each run of the row, without NaN.  `values` has room
   for one value a repetition. */
static bench_spread spread_of(const bench *b, const bench_run *like, size_t offset, double *values)
{
    size_t n = 0;
    for (size_t i = 0; i < b->n_runs && n < b->n_repetitions; i++) {
        if (!same_row(&b->runs[i], like)) continue;
        double value;
        memcpy(&value, (const char *)&b->runs[i] + offset, sizeof value);
        if (!isnan(value)) values[n++] = value;
    }
    if (n == 0) return (bench_spread){.median = NAN, .least = NAN, .most = NAN};
    qsort(values, n, sizeof *values, by_size);
    return (bench_spread){.median = (values[(n - 1) / 2] + values[n / 2]) / 2,
                          .least = values[0],
                          .most = values[n - 1]};
}

static bench_row make_row(const bench *b, const bench_run *first, double *values)
{
    bench_row row = {
        .last = first,
        .rate = spread_of(b, first, offsetof(bench_run, rate), values),
        .balance = spread_of(b, first, offsetof(bench_run, balance), values),
        .scaling = spread_of(b, first, offsetof(bench_run, scaling), values),
        .gain = spread_of(b, first, offsetof(bench_run, gain), values),
    };
    for (const bench_run *run = first; run < b->runs + b->n_runs; run++) {
        if (!same_row(run, first)) continue;
        row.n_done += run->rate > 0;
        row.n_failed += run->error[0] != '\0';
        row.n_unsettled += run->rate > 0 && !run->settled;
        if (run->rate > 0 || !(row.last->rate > 0)) row.last = run;
        if (!row.error && run->error[0]) row.error = run->error;
    }
    return row;
}

static bool is_first_of_row(const bench *b, size_t i)
{
    for (size_t k = 0; k < i; k++)
        if (same_row(&b->runs[k], &b->runs[i])) return false;
    return b->runs[i].kind != BENCH_PART;
}

static void mark_best_batches(bench_row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        bool best = rows[i].last->kind == BENCH_ALONE && rows[i].rate.median > 0;
        for (size_t k = 0; k < n; k++)
            if (k != i && same_devices(rows[k].last, rows[i].last) &&
                rows[k].rate.median > rows[i].rate.median)
                best = false;
        rows[i].best = best;
    }
}

bench_row *bench_make_rows(const bench *b, size_t *n_rows)
{
    bench_row *rows = calloc(b->n_runs + 1, sizeof *rows);
    double *values = calloc(b->n_repetitions, sizeof *values);
    size_t n = 0;
    if (!rows || !values) {
        free(values);
        free(rows);
        return NULL;
    }
    for (size_t i = 0; i < b->n_runs; i++)
        if (is_first_of_row(b, i)) rows[n++] = make_row(b, &b->runs[i], values);
    free(values);
    mark_best_batches(rows, n);
    *n_rows = n;
    return rows;
}
