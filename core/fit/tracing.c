/* The steps of a run as a timeline. */
#include "fit/tracing.h"

#include "base/clock.h"
#include "base/times.h"
#include "dpt_error.h"
#include "train/progress/in_flight.h"
#include "train/state/in_flight_step.h"

#include <stdlib.h>

enum { ARGS_BYTES = 128 };

static const char *const kinds[DPTI_SPAN_KINDS] = {
    [DPTI_SPAN_COMPUTE] = "compute",
    [DPTI_SPAN_UPLOAD] = "upload",
    [DPTI_SPAN_EXCHANGE] = "exchange",
    [DPTI_SPAN_WAITING] = "waiting",
};

/* ---- Begin and end --------------------------------------------------------------------------- */

static void add_device(dpti_tracing *tracing, size_t i)
{
    dpti_traced_device *d = &tracing->devices[i];
    dpti_trace *trace = tracing->trace;
    dpt_device_info about = {.size = sizeof about};
    dpt_device_describe(&tracing->trainer->workers[i].device->base, &about);
    d->process = dpti_trace_process(trace, about.id, about.name);
    d->tracks[DPTI_SPAN_COMPUTE] = dpti_trace_track(trace, d->process, "compute");
    d->tracks[DPTI_SPAN_EXCHANGE] = dpti_trace_track(trace, d->process, "exchange");
    d->tracks[DPTI_SPAN_WAITING] = dpti_trace_track(trace, d->process, "waiting");
    d->tracks[DPTI_SPAN_UPLOAD] = d->tracks[DPTI_SPAN_EXCHANGE];
}

dpt_status dpti_tracing_begin(dpti_tracing *tracing, dpt_trainer *trainer, const char *path,
                              dpt_error *error)
{
    dpti_tracing *x = tracing;
    *x = (dpti_tracing){.trainer = trainer};
    DPT_TRY(dpti_trace_open(path, dpti_seconds(), &x->trace, error));
    x->devices = calloc(trainer->n_workers, sizeof *x->devices);
    if (!x->devices) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the trace %s", path);
    const size_t host = dpti_trace_process(x->trace, "dptrain", trainer->model->name);
    x->host = dpti_trace_track(x->trace, host, "epochs");
    x->steps = dpti_trace_track(x->trace, host, "steps");
    for (size_t i = 0; i < trainer->n_workers; i++)
        add_device(x, i);
    dpti_steps_set_traced(trainer, true);
    /* A full disk should be found before training. */
    return dpti_trace_flush(x->trace, error);
}

dpt_status dpti_tracing_end(dpti_tracing *tracing, dpt_error *error)
{
    const dpt_status status = dpti_trace_close(tracing->trace, error);
    if (tracing->trainer) dpti_steps_set_traced(tracing->trainer, false);
    free(tracing->devices);
    *tracing = (dpti_tracing){.trainer = NULL};
    return status;
}

/* ---- Steps ----------------------------------------------------------------------------------- */

static void count(dpti_tracing *tracing, const dpt_step_metrics *step, size_t i, double when)
{
    dpti_traced_device *d = &tracing->devices[i];
    const size_t shard = step->shards[tracing->trainer->first_device + i];
    const double throughput = step->throughput[tracing->trainer->first_device + i];
    if (tracing->n_steps == 1 || shard != d->shard)
        dpti_trace_count(tracing->trace, d->process,
                         &(dpti_trace_value){"shard", when, (double)shard});
    if (throughput != d->throughput)
        dpti_trace_count(tracing->trace, d->process,
                         &(dpti_trace_value){"throughput", when, throughput});
    d->shard = shard;
    d->throughput = throughput;
}

static void add_spans(dpti_tracing *tracing, size_t i, const dpti_times *times, const char *args)
{
    const dpti_traced_device *d = &tracing->devices[i];

    for (size_t s = 0; s < times->n_spans; s++) {
        const dpti_span *span = &times->spans[s];
        dpti_trace_span(tracing->trace, d->tracks[span->kind],
                        &(dpti_trace_event){kinds[span->kind], span->began, span->seconds, args});
    }
}

dpt_status dpti_tracing_step(dpti_tracing *tracing, const dpt_step_metrics *step, dpt_error *error)
{
    dpti_tracing *x = tracing;
    dpt_trainer *t = x->trainer;
    char args[ARGS_BYTES];
    if (!x->trace) return DPT_OK;
    const dpti_in_flight_step *inflight = dpti_steps_step(t, step->step);
    const double began = dpti_steps_last_finished(t) - step->seconds;
    x->n_steps++;
    if (step->rebalance) {
        snprintf(args, sizeof args, "\"step\":%zu,\"reason\":\"%s\"", step->step, step->rebalance);
        dpti_trace_mark(x->trace, x->steps,
                        &(dpti_trace_event){.name = "rebalance", .when = began, .args = args});
    }
    for (size_t i = 0; i < t->n_workers; i++) {
        snprintf(args, sizeof args, "\"step\":%zu,\"samples\":%zu", step->step,
                 step->shards[t->first_device + i]);
        count(x, step, i, began);
        if (inflight->jobs[i].times.lost)
            return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the spans of a step");
        add_spans(x, i, &inflight->jobs[i].times, args);
    }
    snprintf(args, sizeof args, "\"step\":%zu,\"samples\":%zu", step->step, step->samples);
    dpti_trace_span(x->trace, x->steps, &(dpti_trace_event){"step", began, step->seconds, args});
    return dpti_trace_status(x->trace, error);
}

void dpti_tracing_host(dpti_tracing *tracing, const char *what, size_t epoch, double began)
{
    char args[ARGS_BYTES];
    if (!tracing->trace) return;
    snprintf(args, sizeof args, "\"epoch\":%zu", epoch);
    dpti_trace_span(tracing->trace, tracing->host,
                    &(dpti_trace_event){what, began, dpti_seconds() - began, args});
}
