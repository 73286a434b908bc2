/* What a device's driver thread does in one step. */
#ifndef DPTI_STEP_H
#define DPTI_STEP_H

#include "collective/allgather.h"
#include "graph/replica.h"
#include "train/state/in_flight_step.h"

typedef struct dpti_worker dpti_worker;

/* [driver] The job of a shard. */
void dpti_step_job(dpti_device *device, void *shard);

/* One run of one segment of a program. */
typedef struct dpti_segment_run {
    dpti_executable *executable;
    size_t segment;
    size_t n_samples;
    float *result;             /* gets (n_samples, 2) losses and hits; NULL: not wanted */
    dpti_times *times;         /* gets what the device took, by its own clock; NULL: not wanted */
    bool looks;                /* the device checks the gradients of this segment (finite.h) */
    const dpti_grain_run *run; /* the grains of the samples, in deterministic training; else NULL */
    const dpti_gather *contributes; /* parts of batch-norms to be fetched behind the segment, or
                                       NULL */
} dpti_segment_run;

/* [driver] Enqueues a segment and waits for it.  Times: the segment, throttle included, and the
   transfers before it that the worker has noted as pending.  Throttle does not stretch these: it
   stands for a slower processor.  The device's error tells of a failure. */
DPT_CHECK_RESULT dpt_status dpti_worker_run(dpti_worker *worker, const dpti_segment_run *what);
/* Lays a step block and n_samples indices out in staging memory. */
void dpti_stage(uint8_t *staging, const dpt_step_block *block, const uint32_t *records,
                size_t n_samples);

#endif
