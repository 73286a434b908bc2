/* The trace of a run: each device is a process with tracks for computing, for exchanges and for
   waiting; the host has tracks for epochs, steps and evaluations.  Every function does nothing if
   there is no trace. */
#ifndef DPTI_TRACING_H
#define DPTI_TRACING_H

#include "io/trace.h"
#include "train/state/trainer.h"

typedef struct dpti_traced_device {
    size_t process, tracks[DPTI_SPAN_KINDS];
    size_t shard;      /* the last value of the counter */
    double throughput; /* the last value of the counter; 0: none yet */
} dpti_traced_device;

/* The trace of a run.  All zero: no trace. */
typedef struct dpti_tracing {
    dpt_trainer *trainer;
    dpti_trace *trace;
    size_t host, steps; /* tracks */
    size_t n_steps;
    dpti_traced_device *devices; /* (n_workers) */
} dpti_tracing;

/* Begins a trace; no step may be in flight.  From now on the trainer keeps the spans of its steps.
   Times count from this call.  The error is in *error. dpti_tracing_end must be called in any
   case. */
DPT_CHECK_RESULT dpt_status dpti_tracing_begin(dpti_tracing *tracing, dpt_trainer *trainer,
                                               const char *path, dpt_error *error);
/* Ends a trace and closes the file; no step may be in flight, or the trainer has failed. */
DPT_CHECK_RESULT dpt_status dpti_tracing_end(dpti_tracing *tracing, dpt_error *error);

/* Adds the step that was collected last. */
DPT_CHECK_RESULT dpt_status dpti_tracing_step(dpti_tracing *tracing, const dpt_step_metrics *step,
                                              dpt_error *error);
/* Adds what the host did from `began` until now, for this epoch.  The next step or the end reports
   a failure. */
void dpti_tracing_host(dpti_tracing *tracing, const char *what, size_t epoch, double began);

#endif
