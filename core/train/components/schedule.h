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
   to them.

   Three kinds have a warm-up of their own and a floor m = min_lr, with W = warmup_steps and
   p = min(1, (t - W) / (T - W)):

       step t < W           lr * (t + 1) / (W + 1) of cosine-nanogpt, lr * t / W of the others
       cosine-nanogpt       m + (lr - m) * (1 + cos(pi p)) / 2, as nanoGPT's get_lr
       cosine-transformers  the same, as get_cosine_schedule_with_warmup of `transformers`, and with
                            m as get_cosine_with_min_lr_schedule_with_warmup
       linear-transformers  m + (lr - m) * (1 - p), as get_linear_schedule_with_warmup */
#ifndef DPTI_SCHEDULE_H
#define DPTI_SCHEDULE_H

#include "dpt_error.h"
#include "dptrain.h"

#include <stdbool.h>

typedef struct dpti_schedule {
    dpt_schedule options;
    double lr;
    size_t steps_per_epoch;
    size_t total_steps; /* of the schedule; 0: not known */
} dpti_schedule;

/* Whether a schedule counts from the end of its warm-up. */
static inline bool dpti_schedule_counts_behind_warmup(dpt_schedule_kind kind)
{
    return kind == DPT_SCHEDULE_COSINE_NANOGPT || kind == DPT_SCHEDULE_COSINE_TRANSFORMERS ||
           kind == DPT_SCHEDULE_LINEAR_TRANSFORMERS;
}

enum { DPTI_SCHEDULES = DPT_SCHEDULE_LINEAR_TRANSFORMERS + 1 };
/* The names of the kinds, under their numbers.  Checkpoints store these names. */
extern const char *const dpti_schedule_names[DPTI_SCHEDULES];

/* Fills the defaults in. */
void dpti_schedule_resolve(dpt_schedule *options);
/* Fills the defaults in and checks the schedule.  DPT_E_INVALID: an unknown kind, a factor that is
   not in (0, 1], a course that needs total_steps without it, a min_lr that is not between 0 and lr
   or that the kind does not have. */
DPT_CHECK_RESULT dpt_status dpti_schedule_check(dpti_schedule *schedule, dpt_error *error);

/* The learning rate of a step of a checked schedule.  A schedule that does not count from the end
   of its warm-up has no step behind total_steps, if that is known. */
double dpti_schedule_lr(const dpti_schedule *schedule, size_t step);

#endif
