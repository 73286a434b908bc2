/* The trace of a run: each device is a process with tracks for computing, for exchanges and for
   waiting; the host has tracks for epochs, steps and evaluations.  Every function does nothing if
   there is no trace. */
#ifndef DPTI_TRACING_H
#define DPTI_TRACING_H

#include "io/trace.h"
#include "train/trainer.h"

typedef struct dpti_traced_device {
    size_t process, tracks[DPTI_SPAN_KINDS];
    size_t share;      /* the counter's value */
    double throughput; /* likewise; 0: none yet */
} dpti_traced_device;

/* Zeroed: no trace. */
typedef struct dpti_tracing {
    dpt_trainer *trainer;
    dpti_trace *trace;
    size_t host, steps; /* tracks */
    size_t n_steps;
    dpti_traced_device *devices; /* (n_workers) */
} dpti_tracing;

/* Nothing is in flight.  From now on the trainer keeps the spans of its steps.  Times count from
   `origin`.  The error is in *error; end is to be called in any case. */
DPT_CHECK_RESULT dpt_status dpti_tracing_begin(dpti_tracing *tracing, dpt_trainer *trainer,
                                               const char *path, double origin, dpt_error *error);
/* Nothing is in flight, or the trainer has failed.  Closes the file. */
DPT_CHECK_RESULT dpt_status dpti_tracing_end(dpti_tracing *tracing, dpt_error *error);

/* The step that was collected last. */
DPT_CHECK_RESULT dpt_status dpti_tracing_step(dpti_tracing *tracing, const dpt_step_metrics *step,
                                              dpt_error *error);
/* What the host did from `began` until now for this epoch.  Failures come from the next step or the
   end. */
void dpti_tracing_host(dpti_tracing *tracing, const char *what, size_t epoch, double began);

#endif
