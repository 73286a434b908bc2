/* When devices that hold the others up are better left out of steps.  Pure arithmetic: knows no
   device and no clock.

   A step costs every device something whatever its share: the exchange and the update.  Where that
   takes one longer than the others' whole work, it is a brake though it has no samples.  Models
   tell whether leaving some out is worth a try, or cheap enough for one now and then, and whether
   it is a gain is measured: the median of steps without them against that of steps with all, before
   and behind, as far as these can be told apart: a host that is slow for a while slows both.  In
   the same way all are tried again, now and then, so that it costs little of all time. */
#ifndef DPTI_STANDBY_POLICY_H
#define DPTI_STANDBY_POLICY_H

#include <stdbool.h>
#include <stddef.h>

typedef enum dpti_standby_phase {
    DPTI_STANDBY_NONE,    /* all take part */
    DPTI_STANDBY_TRY,     /* some rest, to see what that gains */
    DPTI_STANDBY_LASTS,   /* they do because it does */
    DPTI_STANDBY_TRY_ALL, /* all take part, to see whether it does, or still does */
} dpti_standby_phase;

enum { DPTI_STANDBY_STEPS = 16 };

/* Of steps. */
typedef struct dpti_standby_time {
    double seconds, error; /* the median, and its standard error */
} dpti_standby_time;

/* What tries have shown, for a later process. */
typedef struct dpti_standby_record {
    dpti_standby_time with, without; /* as last measured */
    size_t present_for, standby_for; /* steps before the next try, */
    size_t waited;                   /* of which an earlier process has made so many */
} dpti_standby_record;

typedef struct dpti_standby_policy {
    dpti_standby_phase state;
    double seconds[DPTI_STANDBY_STEPS]; /* of the last steady steps */
    size_t n_steady;                    /* since the state began */
    size_t n_steps;                     /* likewise, all of them */
    bool confirms;                      /* TRY_ALL: it is the other half of a try */
    dpti_standby_record learnt;
} dpti_standby_policy;

dpti_standby_policy dpti_standby_policy_new(void);
/* What a later one may go on with. */
dpti_standby_record dpti_standby_policy_record(const dpti_standby_policy *rest);
/* With what an earlier process has learnt, its numbers of steps brought within their bounds.  If
   some rested there it is as if a try had just shown that this is a gain: the next change leads to
   LASTS. */
dpti_standby_policy dpti_standby_policy_resume(const dpti_standby_record *learnt, bool rested);
/* What a step has taken.  Steady: its shares are those of the step before, a full batch's. */
void dpti_standby_policy_observe(dpti_standby_policy *rest, double seconds, bool steady);
/* Whether enough is known of the present state, and for long enough, to ask whether to change it:
   in NONE once in so many steps, since what models promise takes time to find out. */
bool dpti_standby_policy_is_due(const dpti_standby_policy *rest);
/* Whether all should take part in NONE and TRY_ALL, or some rest in the others, no longer.
   `promise`: seconds of a step without those who would rest, as modelled, which counts in NONE;
   `cost`: seconds that waking them takes, which counts in LASTS.  Goes from a try to what it was
   for. */
bool dpti_standby_policy_decide(dpti_standby_policy *rest, double promise, double cost);
/* It has been changed.  From TRY_ALL to a try if others are to rest than before. */
void dpti_standby_policy_change(dpti_standby_policy *rest, bool others);
/* Devices are others: all take part, and nothing is known. */
void dpti_standby_policy_forget(dpti_standby_policy *rest);

#endif
