/* One run of dptrain bench mix: a training from the start on some of the open devices.  Its steps
   are timed after it has settled. */
#include "bench.h"
#include "recipe.h"
#include "settling.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { KEPT_SHARDS = 32 }; /* the most different divisions that are counted */

double bench_clock(void)
{
    struct timespec now;
    return clock_gettime(CLOCK_MONOTONIC, &now) == 0
               ? (double)now.tv_sec + 1e-9 * (double)now.tv_nsec
               : 0;
}

/* ---- Shards ---------------------------------------------------------------------------------- */

/* Counts the steps of each division. */
typedef struct tally {
    size_t n;
    size_t counts[KEPT_SHARDS];
    size_t shards[KEPT_SHARDS][BENCH_MAX_DEVICES];
} tally;

static void count_shards(tally *t, const dpt_step_metrics *m)
{
    const size_t n_bytes = m->n_devices * sizeof *m->shards;
    size_t i = 0;
    while (i < t->n && memcmp(t->shards[i], m->shards, n_bytes) != 0)
        i++;
    if (i == KEPT_SHARDS) return; /* with so many divisions none is that of most steps */
    if (i == t->n) memcpy(t->shards[t->n++], m->shards, n_bytes);
    t->counts[i]++;
}

static void take_most_frequent(const tally *t, bench_run *run)
{
    size_t best = 0;
    for (size_t i = 1; i < t->n; i++)
        if (t->counts[i] > t->counts[best]) best = i;
    memcpy(run->shards, t->shards[best], run->n_devices * sizeof *run->shards);
    run->shard_steps = t->counts[best];
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static void time_step(bench_run *run, const dpt_step_metrics *m, tally *shards)
{
    run->steps++;
    run->samples += m->samples;
    run->seconds += m->seconds;
    run->n_rebalances += m->rebalance != NULL;
    for (size_t i = 0; i < m->n_devices; i++) {
        run->busy[i] += m->device_seconds[i];
        run->exchanging[i] += m->exchange_seconds[i];
        run->waiting[i] += m->waiting_seconds[i];
    }
    count_shards(shards, m);
}

static bool timed_enough(const bench *b, const bench_run *run)
{
    if (b->most_steps > 0 && run->steps >= b->most_steps) return true;
    return run->steps >= CLI_LEAST_STEPS && run->seconds >= b->least_seconds;
}

/* Trains until enough steps are timed.  A smaller last batch of an epoch is trained and not timed.
 */
static dpt_status drive(bench *b, dpt_trainer *trainer, bench_run *run)
{
    tally shards = {0};
    cli_settling settling = {.measured = run->kind == BENCH_MEASURED};
    bool timing = false;
    while (!timed_enough(b, run)) {
        dpt_step_metrics m = {.size = sizeof m};
        DPT_TRY(cli_next_step(trainer, &m));
        if (cli_signals_caught()) return DPT_E_CANCELLED;
        bench_show(b, run, timing ? "timing" : "settling");
        if (m.samples != run->batch_size) continue;
        if (timing)
            time_step(run, &m, &shards);
        else
            timing = cli_settling_step(&settling, &m);
        run->settling_steps = settling.n_steps;
        run->settled = settling.settled;
    }
    for (size_t i = 0; i < run->n_devices; i++) {
        run->busy[i] /= (double)run->steps;
        run->exchanging[i] /= (double)run->steps;
        run->waiting[i] /= (double)run->steps;
    }
    take_most_frequent(&shards, run);
    return DPT_OK;
}

static dpt_status train(bench *b, dpt_device_set *devices, bench_run *run)
{
    dpt_dataset_info data = {.size = sizeof data};
    dpt_dataset_describe(b->session.train, &data);
    cli_options options = *b->options;
    options.batch_size = run->batch_size;
    options.lr = CLI_HARMLESS_RATE;
    options.split = run->kind == BENCH_EVEN ? "equal" : "measured";
    dpt_trainer_options described = cli_trainer_options(&options, data.count);
    described.stop_on_loss = true; /* the remaining devices are another row of the table */
    dpt_trainer *trainer = NULL;
    bench_show(b, run, "preparing");
    DPT_TRY(dpt_trainer_create(devices, b->session.model, b->session.train, &described, &trainer));
    const dpt_status status = drive(b, trainer, run);
    dpt_trainer_destroy(trainer);
    return status;
}

dpt_status bench_run_make(bench *b, bench_run *run)
{
    dpt_device_set *devices;
    dpt_status status =
        dpt_device_set_subset(b->session.devices, run->devices, run->n_devices, &devices);
    run->rate = run->balance = run->scaling = run->gain = NAN;
    if (status == DPT_OK) {
        status = train(b, devices, run);
        dpt_device_set_close(devices);
    }
    if (status == DPT_OK)
        run->rate = (double)run->samples / run->seconds;
    else if (status != DPT_E_CANCELLED)
        snprintf(run->error, sizeof run->error, "%s", dpt_error_message(b->session.context));
    return status;
}
