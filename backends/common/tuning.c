/* The choices of a device, and timing work on its stream. */
#include "tuning.h"
#include "launch.h"

#include <time.h>

dpt_status dpt_tuning_open(dpt_device *device, const char *file, dpt_choices **out)
{
    dpt_choices *found = dpt_choices_get(file);
    if (!found)
        return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for a device's choices");
    *out = found;
    return DPT_OK;
}

dpt_status dpt_choose(dpt_device *device, const dpt_choice *choice, size_t *out)
{
    return dpt_choices_find(dpt_tuner_of(device)->choices, choice, &device->error, out);
}

/* ---- Measuring ------------------------------------------------------------------------------- */

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/* The work is enqueued `n` times for each wait, as one recording if there is one. */
typedef struct timed {
    const dpt_tuner *tuner;
    dpt_timed_work work;
    unsigned n;
    dpt_recording *recording; /* or NULL */
} timed;

static dpt_status enqueue_all(const timed *w)
{
    for (unsigned i = 0; i < w->n; i++)
        DPT_TRY(w->work.enqueue(w->work.argument, w->tuner->stream));
    return DPT_OK;
}

/* *seconds: the time of one of the n. */
static dpt_status run_once(const timed *w, double *seconds)
{
    const dpt_tuner *tuner = w->tuner;
    const double start = now();
    DPT_TRY(w->recording ? tuner->capture->replay(tuner->stream, w->recording) : enqueue_all(w));
    DPT_TRY(tuner->finish(tuner->stream));
    *seconds = (now() - start) / w->n;
    return DPT_OK;
}

/* Records the work n times.  If it cannot be recorded, w->recording stays NULL and the work is
   enqueued for every run. */
static dpt_status record(dpt_device *device, timed *w)
{
    const dpt_tuner *tuner = w->tuner;
    if (!tuner->capture) return DPT_OK;
    const dpt_error before = device->error;
    dpt_status status = tuner->capture->begin(tuner->stream);
    if (status == DPT_OK) {
        status = enqueue_all(w);
        const dpt_status ended = tuner->capture->end(tuner->stream, &w->recording);
        if (status == DPT_OK) status = ended;
    }
    if (status != DPT_OK) {
        tuner->capture->release(device, w->recording);
        w->recording = NULL;
    }
    if (status == DPT_E_DEVICE_LOST) return status;
    device->error = before;
    return DPT_OK;
}

/* Releases the recording.  After a failure the recording may still run, so this waits first. */
static void forget(dpt_device *device, const timed *w, dpt_status status)
{
    const dpt_error first = device->error;
    if (!w->recording) return;
    if (status != DPT_OK && status != DPT_E_DEVICE_LOST) (void)!w->tuner->finish(w->tuner->stream);
    device->error = first;
    w->tuner->capture->release(device, w->recording);
}

/* Whether the candidate is so slow that timing it further is a waste.  The answer is no until a
   disturbance of some milliseconds, as another program's time slice, would have passed. */
static bool is_hopeless(const dpt_budget *budget, int n_runs, double spent_seconds, double best)
{
    enum { ENOUGH_TO_SEE = 3 };
    return budget->hopeless_seconds > 0.0 && best > budget->hopeless_seconds &&
           n_runs >= ENOUGH_TO_SEE && spent_seconds >= 0.25 * budget->seconds;
}

/* *seconds: the time of the fastest run. */
static dpt_status run_often(const timed *w, const dpt_budget *budget, double *seconds)
{
    enum { MAX_RUNS = 50 };
    double best = 0.0, one = 0.0;
    const double start = now();
    for (int i = 0; i < MAX_RUNS && (i < 2 || now() - start < budget->seconds); i++) {
        if (is_hopeless(budget, i, now() - start, best)) break;
        DPT_TRY(run_once(w, &one));
        if (i == 0 || one < best) best = one;
    }
    *seconds = best;
    return DPT_OK;
}

dpt_status dpt_measure(dpt_device *device, const dpt_budget *budget, const dpt_timed_work *work,
                       double *seconds)
{
    enum { MOST = 16 };
    static const double long_enough = 400e-6; /* against the time that a wait takes */
    timed w = {.tuner = dpt_tuner_of(device), .work = *work, .n = 1};
    double one = 0.0;
    DPT_TRY(run_once(&w, &one)); /* the first run compiles and warms up */
    if (dpt_traits_of(device)->is_cpu) return run_often(&w, budget, seconds);
    DPT_TRY(run_once(&w, &one));
    while (w.n < MOST && one * w.n < long_enough)
        w.n *= 2;
    if (w.n > 1) DPT_TRY(record(device, &w));
    const dpt_status status = run_often(&w, budget, seconds);
    forget(device, &w, status);
    return status;
}
