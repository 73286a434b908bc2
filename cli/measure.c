/* dptrain plan --measure: trains for a while and tells the time of a step.  The weights are thrown
   away. */
#include "measure.h"
#include "settling.h"

#include <stdio.h>
#include <stdlib.h>

/* Sums over the timed steps; times in seconds. */
typedef struct measurement {
    size_t n_devices;
    size_t n_steps, n_samples; /* n_samples: of each step */
    double seconds, least, most;
    size_t *shards;                      /* (n_devices) of the last step */
    double *busy, *exchanging, *waiting; /* (n_devices) */
} measurement;

static void add_step(measurement *of, const dpt_step_metrics *step)
{
    of->n_steps++;
    of->seconds += step->seconds;
    if (of->n_steps == 1 || step->seconds < of->least) of->least = step->seconds;
    if (of->n_steps == 1 || step->seconds > of->most) of->most = step->seconds;
    for (size_t i = 0; i < of->n_devices; i++) {
        of->shards[i] = step->shards[i];
        of->busy[i] += step->device_seconds[i];
        of->exchanging[i] += step->exchange_seconds[i];
        of->waiting[i] += step->waiting_seconds[i];
    }
}

/* Trains until the timed steps take `least_seconds`, or a signal is caught.  A smaller last batch
   of an epoch is trained and not timed. */
static dpt_status train(dpt_trainer *trainer, double least_seconds, cli_settling *settling,
                        measurement *out)
{
    bool timing = false;
    while (out->n_steps < CLI_LEAST_STEPS || out->seconds < least_seconds) {
        dpt_step_metrics step = {.size = sizeof step};
        DPT_TRY(cli_next_step(trainer, &step));
        if (cli_signals_caught()) return DPT_OK;
        if (out->n_samples == 0) out->n_samples = step.samples; /* the first batch is a whole one */
        if (step.samples != out->n_samples) continue;
        if (timing)
            add_step(out, &step);
        else
            timing = cli_settling_step(settling, &step);
    }
    return DPT_OK;
}

static void print_devices(const cli_session *session, const measurement *of)
{
    const int width = cli_id_width(session->devices);
    const double each = 1e3 / (double)of->n_steps;
    printf("%-*s %7s  %10s %11s %10s\n", width, "DEVICE", "SAMPLES", "BUSY MS", "EXCHANGE MS",
           "WAITING MS");
    for (size_t i = 0; i < of->n_devices; i++) {
        dpt_device_info about = {.size = sizeof about};
        dpt_device_describe(dpt_device_set_get(session->devices, i), &about);
        printf("%-*s %7zu  %10.3f %11.3f %10.3f\n", width, about.id, of->shards[i],
               each * of->busy[i], each * of->exchanging[i], each * of->waiting[i]);
    }
}

static void print(const cli_session *session, const cli_settling *settling, const measurement *of)
{
    const double each = of->seconds / (double)of->n_steps;
    dpt_dataset_info data = {.size = sizeof data};
    dpt_dataset_describe(session->train, &data);
    printf("\nMeasured in %zu steps of %zu samples, after %zu others%s:\n", of->n_steps,
           of->n_samples, settling->n_steps,
           settling->settled ? "" : ", in which the shards did not settle");
    print_devices(session, of);
    printf("A step takes %.3f ms (%.3f to %.3f): %.0f samples/s\n", 1e3 * each, 1e3 * of->least,
           1e3 * of->most, (double)of->n_samples / each);
    printf("An epoch of %zu samples takes %.2f s, without its evaluation\n", data.count,
           each * (double)data.count / (double)of->n_samples);
}

dpt_status cli_measure(const cli_session *session, double least_seconds, bool measured_split,
                       double *step_seconds)
{
    const size_t n = dpt_trainer_device_count(session->trainer);
    size_t *shards = calloc(n, sizeof *shards);
    double *times = calloc(3 * n, sizeof *times);
    dpt_status status = shards && times ? DPT_OK
                                        : dpt_fail(session->context, DPT_E_NO_MEMORY,
                                                   "no memory for a measurement");
    *step_seconds = 0;
    if (status == DPT_OK) {
        cli_settling settling = {.measured = measured_split && n > 1};
        measurement of = {.n_devices = n,
                          .shards = shards,
                          .busy = times,
                          .exchanging = times + n,
                          .waiting = times + 2 * n};
        status = train(session->trainer, least_seconds, &settling, &of);
        if (status == DPT_OK && of.n_steps > 0) print(session, &settling, &of);
        if (of.n_steps > 0) *step_seconds = of.seconds / (double)of.n_steps;
    }
    free(shards);
    free(times);
    return status;
}
