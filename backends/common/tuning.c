/* Choices of devices that tune their kernels, and how their work is timed. */
#include "tuning.h"

#include <time.h>

dpt_status dpt_tuning_open(dpt_device *device, const char *file, dpt_tuning **out)
{
    dpt_tuning *found = dpt_choices_get(file);
    if (!found)
        return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for a device's choices");
    *out = found;
    return DPT_OK;
}

dpt_status dpt_choose(dpt_device *device, const dpt_choice *choice, size_t *out)
{
    return dpt_choices_find(dpt_tuner_of(device)->tuning, choice, &device->error, out);
}

/* ---- Measuring ------------------------------------------------------------------------------- */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

typedef dpt_status enqueue_fn(void *argument, dpt_stream *stream);

static dpt_status run_once(const dpt_tuner *tuner, enqueue_fn *enqueue, void *argument,
                           double *seconds)
{
    const double start = now();
    DPT_TRY(enqueue(argument, tuner->stream));
    DPT_TRY(tuner->finish(tuner->stream));
    *seconds = now() - start;
    return DPT_OK;
}

dpt_status dpt_measure(dpt_device *device, double budget_seconds,
                       dpt_status (*enqueue)(void *argument, dpt_stream *stream), void *argument,
                       double *seconds)
{
    enum { MAX_RUNS = 50 };
    const dpt_tuner *tuner = dpt_tuner_of(device);
    double best = 0.0, one = 0.0;
    DPT_TRY(run_once(tuner, enqueue, argument, &one)); /* the first run compiles and warms up */
    const double start = now();
    for (int i = 0; i < MAX_RUNS && (i < 2 || now() - start < budget_seconds); i++) {
        DPT_TRY(run_once(tuner, enqueue, argument, &one));
        if (i == 0 || one < best) best = one;
    }
    *seconds = best;
    return DPT_OK;
}
