/* The course of the learning rate: a pure function of the step.  Knows nothing of trainers.

   Steps count from 0, where dpt_fit began.  `every` counts epochs of steps_per_epoch steps from
   there.  With base rate lr, t the step and T = total_steps:

       constant  lr
       step      lr * factor^floor(t / (every * steps_per_epoch))
       cosine    lr * (1 + cos(pi t / T)) / 2: the last step is one short of 0
       onecycle  from lr / 25 up to lr at step 0.3 T - 1, then down to lr / 25e4 at step T - 1, each
                 way half a cosine

   and all of them times min(1, (t + 1) / warmup_steps): the schedule runs from the first step on,
   and the warm-up holds it down, so that step warmup_steps - 1 is the first to have the schedule's
   own value.  These are PyTorch 2's StepLR, CosineAnnealingLR(T) and OneCycleLR with its defaults,
   stepped after each step, and LinearLR(1 / warmup_steps, total_iters = warmup_steps - 1) chained
   to them. */
#ifndef DPTI_SCHEDULE_H
#define DPTI_SCHEDULE_H

#include "dpt_error.h"
#include "dptrain.h"

typedef struct dpti_schedule {
    dpt_schedule options;
    double lr;
    size_t steps_per_epoch;
    size_t total_steps; /* 0: not known */
} dpti_schedule;

/* Fills the defaults in. */
void dpti_schedule_resolve(dpt_schedule *options);
/* Fills the defaults in and checks the schedule.  DPT_E_INVALID: an unknown kind, a factor that is
   not in (0, 1], a course that needs total_steps without it. */
DPT_CHECK_RESULT dpt_status dpti_schedule_check(dpti_schedule *schedule, dpt_error *error);

/* The learning rate of a step, below total_steps if that is known; of a checked schedule. */
double dpti_schedule_lr(const dpti_schedule *schedule, size_t step);

#endif
