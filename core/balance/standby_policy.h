/* The decision to put devices on standby if they slow the others down.  Pure arithmetic: this file
   uses no device and no clock.

   A step costs every device something whatever its shard is: the exchange and the update.  If that
   takes one device longer than all the work of the others, this device slows every step down even
   without samples.  The time models tell whether a trial without some devices is promising, or
   cheap enough to be made now and then.  A trial measures whether leaving them out is a gain: it
   compares the median time of steps without these devices with the median times of steps with all
   devices before and after, as far as the two can be told apart, since a host that is slow for a
   while slows both.  In the same way all devices are tried again now and then, at a small part of
   all time. */
#ifndef DPTI_STANDBY_POLICY_H
#define DPTI_STANDBY_POLICY_H

#include <stdbool.h>
#include <stddef.h>

typedef enum dpti_standby_phase {
    DPTI_STANDBY_NONE,    /* all devices take part */
    DPTI_STANDBY_TRY,     /* a trial: some devices are on standby, to measure the gain */
    DPTI_STANDBY_LASTS,   /* some devices are on standby, because a trial has shown a gain */
    DPTI_STANDBY_TRY_ALL, /* all devices take part, to measure whether standby is a gain, or still
                             is */
} dpti_standby_phase;

enum { DPTI_STANDBY_STEPS = 16 };

/* The time of steps, in seconds. */
typedef struct dpti_standby_time {
    double seconds, error; /* the median and its standard error */
} dpti_standby_time;

/* The results of trials, stored in a checkpoint for a later process. */
typedef struct dpti_standby_record {
    dpti_standby_time with,
        without; /* step times with all devices and without some, as measured last */
    size_t present_for, standby_for; /* numbers of steps before the next trial, with all devices and
                                        with some on standby */
    size_t waited;                   /* how many of these steps an earlier process has made */
} dpti_standby_record;

typedef struct dpti_standby_policy {
    dpti_standby_phase state;
    double seconds[DPTI_STANDBY_STEPS]; /* times of the last steady steps */
    size_t n_steady;                    /* steady steps since the phase began */
    size_t n_steps;                     /* all steps since the phase began */
    bool confirms;                      /* TRY_ALL only: it is the second half of a trial */
    dpti_standby_record learnt;
} dpti_standby_policy;

dpti_standby_policy dpti_standby_policy_new(void);
/* Returns what a later process can resume from. */
dpti_standby_record dpti_standby_policy_record(const dpti_standby_policy *policy);
/* Resumes from the record of an earlier process.  Its numbers of steps are brought within their
   bounds.  If some devices were on standby, the state is as if a trial had just shown a gain: the
   next change leads to LASTS. */
dpti_standby_policy dpti_standby_policy_resume(const dpti_standby_record *learnt, bool rested);
/* Adds the time of a step.  Steady: the step has the shards of the step before, and a full
   batch. */
void dpti_standby_policy_observe(dpti_standby_policy *policy, double seconds, bool steady);
/* Returns whether the present phase has lasted long enough, with enough measurements, to decide on
   a change.  In NONE that is once in many steps, because computing what the models promise takes
   time. */
bool dpti_standby_policy_is_due(const dpti_standby_policy *policy);
/* Decides whether the phase ends: in NONE and TRY_ALL, whether some devices go on standby; in the
   other phases, whether all take part again.  `promise`: modelled seconds of a step without the
   standby candidates, used in NONE.  `cost`: seconds that ending standby takes, used in LASTS.  A
   trial that succeeds goes on to the phase that it was made for. */
bool dpti_standby_policy_decide(dpti_standby_policy *policy, double promise, double cost);
/* Tells that the change was made.  From TRY_ALL the phase becomes a trial if other devices go on
   standby than before. */
void dpti_standby_policy_change(dpti_standby_policy *policy, bool others);
/* Forgets all measurements, because the devices have changed: all devices take part. */
void dpti_standby_policy_forget(dpti_standby_policy *policy);

#endif
