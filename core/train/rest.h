/* When devices that hold the others up are better left out of steps.  Pure arithmetic: knows no
   device and no clock.

   A step costs every device something whatever its share: the exchange and the update.  Where that
   takes one longer than the others' whole work, it is a brake though it has no samples.  Models
   tell whether leaving some out is worth a try, and whether it is a gain is measured: the median of
   steps without them against that of steps with all.  In the same way all are tried again, now and
   then, so that it costs half a percent of all time at most. */
#ifndef DPTI_REST_H
#define DPTI_REST_H

#include <stdbool.h>
#include <stddef.h>

typedef enum dpti_rest_state {
    DPTI_REST_NONE,    /* all take part */
    DPTI_REST_TRY,     /* some rest, to see what that gains */
    DPTI_REST_LASTS,   /* they do because it does */
    DPTI_REST_TRY_ALL, /* all take part, to see whether it still does */
} dpti_rest_state;

enum { DPTI_REST_STEPS = 8 };

typedef struct dpti_rest {
    dpti_rest_state state;
    double seconds[DPTI_REST_STEPS]; /* of the last steady steps */
    size_t n_steady;                 /* since the state began */
    size_t n_steps;                  /* likewise, all of them */
    double with, without;            /* seconds of a step, as last measured */
    size_t awake_for, asleep_for;    /* steps before the next try */
} dpti_rest;

dpti_rest dpti_rest_new(void);
/* What a step has taken.  Steady: its shares are those of the step before, a full batch's. */
void dpti_rest_observe(dpti_rest *rest, double seconds, bool steady);
/* Whether enough is known of the present state to ask whether to change it. */
bool dpti_rest_is_measured(const dpti_rest *rest);
/* Whether all should take part in NONE and TRY_ALL, or some rest in the others, no longer.
   `promise`: seconds of a step without those who would rest, as modelled, which counts in NONE;
   `cost`: seconds that waking them takes, which counts in LASTS.  Goes from a try to what it was
   for. */
bool dpti_rest_decide(dpti_rest *rest, double promise, double cost);
/* It has been changed. */
void dpti_rest_change(dpti_rest *rest);
/* Devices are others: all take part, and nothing is known. */
void dpti_rest_forget(dpti_rest *rest);

#endif
