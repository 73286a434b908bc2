/* The JSON file of dptrain bench mix (docs/bench-mix.md): options, machine, devices, the table, and
   every run. */
#include "bench.h"
#include "new_file.h"
#include "recipe.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <time.h>
#include <unistd.h>

/* ---- Values ---------------------------------------------------------------------------------- */

/* A document under construction.  `failed` is set if memory was missing once. */
typedef struct document {
    bool failed;
} document;

/* Adds a value and takes ownership.  The value is NULL if memory was missing. */
static void set(document *d, json_t *object, const char *key, json_t *value)
{
    if (json_object_set_new(object, key, value) != 0) d->failed = true;
}

static void append(document *d, json_t *array, json_t *value)
{
    if (json_array_append_new(array, value) != 0) d->failed = true;
}

static json_t *size_value(size_t value)
{
    return json_integer((json_int_t)value);
}

/* The seed; as text if it exceeds JSON's integers, as in the log. */
static json_t *seed_value(size_t seed)
{
    char digits[24];
    if (seed <= INT64_MAX) return size_value(seed);
    snprintf(digits, sizeof digits, "%zu", seed);
    return json_string(digits);
}

/* A number; null for NaN and infinity, which JSON does not have. */
static json_t *real_value(double value)
{
    return isfinite(value) ? json_real(value) : json_null();
}

/* A text.  Names from drivers may be invalid UTF-8, which JSON does not allow. */
static json_t *text_value(const char *text)
{
    if (!text) return json_null();
    json_t *value = json_string(text);
    return value ? value : json_string("?");
}

static json_t *sizes_value(document *d, const size_t *values, size_t n)
{
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++)
        append(d, array, size_value(values[i]));
    return array;
}

static json_t *reals_value(document *d, const double *values, size_t n)
{
    json_t *array = json_array();
    for (size_t i = 0; i < n; i++)
        append(d, array, real_value(values[i]));
    return array;
}

/* ---- Options and machine --------------------------------------------------------------------- */

static json_t *machine_value(document *d, const bench *b)
{
    json_t *object = json_object();
    struct utsname about;
    if (uname(&about) == 0) {
        set(d, object, "system", text_value(about.sysname));
        set(d, object, "release", text_value(about.release));
        set(d, object, "architecture", text_value(about.machine));
    }
    const long cores = sysconf(_SC_NPROCESSORS_ONLN);
    if (cores > 0) set(d, object, "cores", size_value((size_t)cores));
    set(d, object, "load_average", real_value(b->load_average));
    return object;
}

static json_t *augment_value(document *d, const cli_augment *all)
{
    const dpt_augment_options *a = &all->images;
    const dpt_jitter_options *j = &all->jitter;
    json_t *object = json_object();
    set(d, object, "crop_padding", size_value(a->crop_padding));
    set(d, object, "flip", json_boolean(a->flip));
    set(d, object, "erase", real_value((double)a->erase));
    set(d, object, "resized_crop", real_value((double)a->resized_crop));
    if (all->rotate > 0) set(d, object, "rotate", real_value((double)all->rotate));
    if (all->randaugment.ops > 0) {
        json_t *randaugment = json_array();
        append(d, randaugment, size_value(all->randaugment.ops));
        append(d, randaugment, size_value(all->randaugment.magnitude));
        set(d, object, "randaugment", randaugment);
    }
    if (all->mixup > 0) set(d, object, "mixup", real_value((double)all->mixup));
    if (all->cutmix > 0) set(d, object, "cutmix", real_value((double)all->cutmix));
    if (cli_jitters(j)) {
        json_t *jitter = json_array();
        append(d, jitter, real_value((double)j->brightness));
        append(d, jitter, real_value((double)j->contrast));
        append(d, jitter, real_value((double)j->saturation));
        append(d, jitter, real_value((double)j->hue));
        set(d, object, "jitter", jitter);
    }
    return object;
}

static json_t *options_value(document *d, const bench *b)
{
    const cli_options *o = b->options;
    json_t *object = json_object();
    set(d, object, "devices", text_value(o->devices));
    set(d, object, "model", text_value(b->session.model_name));
    set(d, object, "dataset", text_value(b->session.data_name));
    set(d, object, "batch_size", size_value(b->batch_size));
    set(d, object, "micro_batch", o->micro_batch ? size_value(o->micro_batch) : json_null());
    set(d, object, "batchnorm", text_value(o->batchnorm ? o->batchnorm : "sync"));
    set(d, object, "overlap", text_value(o->overlap ? o->overlap : "on"));
    set(d, object, "precision", text_value(o->precision ? o->precision : "fp32"));
    set(d, object, "augment", augment_value(d, &o->augment));
    set(d, object, "optimizer", text_value(o->optimizer ? o->optimizer : "sgd"));
    set(d, object, "momentum", real_value(o->momentum));
    set(d, object, "seed", seed_value(o->seed));
    set(d, object, "repeat", size_value(b->n_repetitions));
    set(d, object, "max_time", real_value(b->least_seconds));
    set(d, object, "max_steps", b->most_steps ? size_value(b->most_steps) : json_null());
    set(d, object, "best_batch", json_boolean(o->best_batch));
    set(d, object, "all_only", json_boolean(o->all_only));
    return object;
}

static json_t *devices_value(document *d, const bench *b)
{
    json_t *array = json_array();
    for (size_t i = 0; i < b->n_devices; i++) {
        dpt_device_info about = {.size = sizeof about};
        dpt_device_describe(dpt_device_set_get(b->session.devices, i), &about);
        json_t *object = json_object();
        set(d, object, "id", text_value(about.id));
        set(d, object, "backend", text_value(about.backend));
        set(d, object, "name", text_value(about.name));
        set(d, object, "detail", text_value(about.detail));
        if (about.n_threads) set(d, object, "threads", size_value(about.n_threads));
        if (about.memory_bytes) set(d, object, "memory_bytes", size_value(about.memory_bytes));
        append(d, array, object);
    }
    return array;
}

/* ---- Results --------------------------------------------------------------------------------- */

static json_t *spread_value(document *d, bench_spread spread)
{
    if (isnan(spread.median)) return json_null();
    json_t *object = json_object();
    set(d, object, "median", real_value(spread.median));
    set(d, object, "min", real_value(spread.least));
    set(d, object, "max", real_value(spread.most));
    return object;
}

static bool is_mix(const bench_run *run)
{
    return run->kind == BENCH_EVEN || run->kind == BENCH_MEASURED;
}

static void set_what(document *d, json_t *object, const bench_run *run)
{
    set(d, object, "devices", sizes_value(d, run->devices, run->n_devices));
    set(d, object, "split", text_value(bench_kind_name(run->kind)));
    set(d, object, "batch_size", size_value(run->batch_size));
}

/* By the name of now and by the older one, which stays for one release.  NULL: there are none. */
static void set_shards(document *d, json_t *object, const bench_run *run)
{
    static const char *const names[] = {"shards", "shares"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        set(d, object, names[i], run ? sizes_value(d, run->shards, run->n_devices) : json_null());
}

static json_t *row_value(document *d, const bench_row *row)
{
    json_t *object = json_object();
    set_what(d, object, row->last);
    set(d, object, "repetitions", size_value(row->n_done));
    set(d, object, "failures", size_value(row->n_failed));
    set(d, object, "unsettled", size_value(row->n_unsettled));
    set_shards(d, object, row->n_done ? row->last : NULL);
    set(d, object, "images_per_second", spread_value(d, row->rate));
    if (!is_mix(row->last)) return object;
    set(d, object, "balance", spread_value(d, row->balance));
    set(d, object, "scaling", spread_value(d, row->scaling));
    if (row->last->kind == BENCH_MEASURED) set(d, object, "gain", spread_value(d, row->gain));
    return object;
}

static void set_figures(document *d, json_t *object, const bench_run *run)
{
    set(d, object, "settling_steps", size_value(run->settling_steps));
    set(d, object, "settled", json_boolean(run->settled));
    set(d, object, "steps", size_value(run->steps));
    set(d, object, "samples", size_value(run->samples));
    set(d, object, "seconds", real_value(run->seconds));
    set(d, object, "images_per_second", real_value(run->rate));
    set_shards(d, object, run);
    set(d, object, "shard_steps", size_value(run->shard_steps));
    set(d, object, "share_steps", size_value(run->shard_steps)); /* the older name */
    set(d, object, "rebalances", size_value(run->n_rebalances));
    set(d, object, "busy_seconds", reals_value(d, run->busy, run->n_devices));
    set(d, object, "exchange_seconds", reals_value(d, run->exchanging, run->n_devices));
    set(d, object, "waiting_seconds", reals_value(d, run->waiting, run->n_devices));
    if (!is_mix(run)) return;
    set(d, object, "alone_at_share", reals_value(d, run->part_rates, run->n_devices));
    set(d, object, "alone_at_batch", reals_value(d, run->whole_rates, run->n_devices));
    set(d, object, "balance", real_value(run->balance));
    set(d, object, "scaling", real_value(run->scaling));
    if (run->kind == BENCH_MEASURED) set(d, object, "gain", real_value(run->gain));
}

static json_t *run_value(document *d, const bench_run *run)
{
    json_t *object = json_object();
    set(d, object, "repetition", size_value(run->repetition));
    set_what(d, object, run);
    if (run->error[0])
        set(d, object, "error", text_value(run->error));
    else if (run->rate > 0)
        set_figures(d, object, run);
    return object;
}

static json_t *whole_value(document *d, const bench *b, const bench_row *rows, size_t n_rows)
{
    char started[32] = "";
    struct tm broken;
    if (gmtime_r(&b->started, &broken))
        strftime(started, sizeof started, "%Y-%m-%dT%H:%M:%SZ", &broken);
    json_t *object = json_object(), *table = json_array(), *runs = json_array();
    set(d, object, "benchmark", json_string("mix"));
    set(d, object, "version", json_string(DPT_VERSION));
    set(d, object, "started", json_string(started));
    set(d, object, "machine", machine_value(d, b));
    set(d, object, "options", options_value(d, b));
    set(d, object, "parameters", size_value(dpt_model_parameter_count(b->session.model)));
    set(d, object, "devices", devices_value(d, b));
    set(d, object, "complete", json_boolean(b->complete));
    set(d, object, "failures", size_value(b->n_failed));
    for (size_t i = 0; i < n_rows; i++)
        append(d, table, row_value(d, &rows[i]));
    set(d, object, "table", table);
    for (size_t i = 0; i < b->n_runs; i++)
        append(d, runs, run_value(d, &b->runs[i]));
    set(d, object, "runs", runs);
    return object;
}

int bench_write_json(const bench *b, const bench_row *rows, size_t n_rows)
{
    enum { DIGITS = 9 };
    document d = {.failed = false};
    json_t *object = whole_value(&d, b, rows, n_rows);
    char *text = d.failed ? NULL : json_dumps(object, JSON_INDENT(1) | JSON_REAL_PRECISION(DIGITS));
    json_decref(object);
    if (!text) return cli_error(CLI_FAILURE, "no memory to write %s", b->options->json);
    const int code = cli_new_file_write(b->options->json, text);
    free(text);
    return code;
}
