/* Single-launch steps: steps that a device runs as one recorded segment.

   The host's part of such a step is the halt word alone, which the device sets when a value is not
   finite.  So the next step is enqueued while the device computes. */
#ifndef DPTI_SINGLE_LAUNCH_H
#define DPTI_SINGLE_LAUNCH_H

#include "train/state/compute_state.h"
#include "train/state/in_flight_step.h"

typedef struct dpt_trainer dpt_trainer;
typedef struct dpti_worker dpti_worker;

/* Whether a device that exchanges with no other device does single-launch steps.  It does where a
   shard is one micro-batch, and where the host does not see the device's memory: there each look of
   the host costs a round trip. */
bool dpti_may_use_single_launch(const dpti_worker *worker);
/* [driver] Makes the events that time such steps.  On failure what was made is destroyed with the
   worker's replica. */
DPT_CHECK_RESULT dpt_status dpti_single_launch_create(dpti_worker *worker);
void dpti_single_launch_destroy(dpti_worker *worker); /* [driver] */
/* [driver] The worker's program of training is one piece: its steps are single-launch steps. */
void dpti_single_launch_use_train(dpti_worker *worker);
/* Nothing in flight: the second program, by which a device that is left alone does such steps
   (pipeline/alone.c makes it), and whether it is in use. */
dpti_single_launch *dpti_single_launch_of(dpti_worker *worker);
/* [driver] Enqueues a shard's step.  If shard->under_way is set then, the outcome is not known:
   dpti_single_launch_finish finds it.  That is a job to be posted when the next step is enqueued,
   or when no step is submitted. */
void dpti_single_launch_begin(dpti_shard *shard);
void dpti_single_launch_finish(dpti_device *device, void *shard);

#endif
