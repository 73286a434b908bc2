/* The decision on standby by trials: steps with and without some devices (standby_policy.h). */
#include "balance/standby_policy.h"

#include <math.h>

enum {
    SETTLING = 3, /* first steady steps, which do not count: queues fill, and models adapt */
    FIRST_AWAKE = 32,
    LAST_AWAKE = 4096,
    FIRST_ASLEEP = 256,
    LAST_ASLEEP = 65536,
    LEAST_STANDBY = 64, /* least number of steps on standby */
    GLANCE = 3,         /* steps after which a trial can be judged hopeless */
    TRY_STEPS = 12,     /* approximate steps of a trial, with its overhead */
    UNPROMISED = 8,     /* factor of the pause before a trial if the models promise no gain */
};

/* In order: the gain that the models must promise for a trial; the cost that a trial may have, by
   the models, if they promise no gain (models know the devices from steps in which devices may
   disturb each other); the gain that a trial must show; how far the two times must be apart; how
   much slower the remaining devices must become before all devices are tried early; the part of
   all time that trials may cost; and that early trials may cost. */
static const double least_promise = 0.05, most_cost = 0.25, least_gain = 0.015, sigmas = 3.0,
                    slowed_down = 1.3, try_cost = 0.005, early_cost = 0.02;

dpti_standby_policy dpti_standby_policy_new(void)
{
    return (dpti_standby_policy){
        .learnt = {.present_for = FIRST_AWAKE, .standby_for = FIRST_ASLEEP}};
}

static size_t within(size_t n, size_t least, size_t most)
{
    return n < least ? least : n > most ? most : n;
}

dpti_standby_record dpti_standby_policy_record(const dpti_standby_policy *policy)
{
    dpti_standby_record learnt = policy->learnt;
    if (policy->state == DPTI_STANDBY_NONE || policy->state == DPTI_STANDBY_LASTS)
        learnt.waited = policy->n_steps;
    return learnt;
}

dpti_standby_policy dpti_standby_policy_resume(const dpti_standby_record *learnt, bool rested)
{
    dpti_standby_policy r = {.state = rested ? DPTI_STANDBY_TRY_ALL : DPTI_STANDBY_NONE,
                             .confirms = rested,
                             .learnt = *learnt};
    if (!rested) {
        r.n_steps = learnt->waited;
        r.learnt.waited = 0;
    }
    r.learnt.present_for = within(learnt->present_for, FIRST_AWAKE, LAST_AWAKE);
    r.learnt.standby_for = within(learnt->standby_for, FIRST_ASLEEP, LAST_ASLEEP);
    return r;
}

void dpti_standby_policy_forget(dpti_standby_policy *policy)
{
    *policy = dpti_standby_policy_new();
}

void dpti_standby_policy_observe(dpti_standby_policy *policy, double seconds, bool steady)
{
    dpti_standby_policy *r = policy;
    r->n_steps++;
    if (!steady) return;
    r->seconds[r->n_steady % DPTI_STANDBY_STEPS] = seconds;
    r->n_steady++;
}

/* Returns whether a trial is hopeless: the first steps that count are all much slower than those
   before the trial. */
static bool is_hopeless(const dpti_standby_policy *r)
{
    const double before =
        r->state == DPTI_STANDBY_TRY ? r->learnt.with.seconds : r->learnt.without.seconds;
    if (r->state != DPTI_STANDBY_TRY && r->state != DPTI_STANDBY_TRY_ALL) return false;
    if (r->n_steady < SETTLING + GLANCE) return false;
    for (size_t i = 1; i <= GLANCE; i++)
        if (!(r->seconds[(r->n_steady - i) % DPTI_STANDBY_STEPS] > slowed_down * before))
            return false;
    return true;
}

bool dpti_standby_policy_is_due(const dpti_standby_policy *policy)
{
    const size_t least = policy->state == DPTI_STANDBY_NONE    ? policy->learnt.present_for
                         : policy->state == DPTI_STANDBY_LASTS ? LEAST_STANDBY
                                                               : 0;
    if (is_hopeless(policy)) return true;
    if (policy->state == DPTI_STANDBY_NONE && policy->n_steps % DPTI_STANDBY_STEPS > 0)
        return false;
    return policy->n_steady >= SETTLING + DPTI_STANDBY_STEPS && policy->n_steps >= least;
}

static double median(const double values[DPTI_STANDBY_STEPS])
{
    double sorted[DPTI_STANDBY_STEPS];
    for (size_t i = 0; i < DPTI_STANDBY_STEPS; i++) {
        size_t k = i;
        for (; k > 0 && sorted[k - 1] > values[i]; k--)
            sorted[k] = sorted[k - 1];
        sorted[k] = values[i];
    }
    return 0.5 * (sorted[DPTI_STANDBY_STEPS / 2 - 1] + sorted[DPTI_STANDBY_STEPS / 2]);
}

/* For a normal distribution the standard deviation is 1.48 median absolute deviations, and the
   standard error of the median is 1.25 times that of the mean. */
static dpti_standby_time measure(const dpti_standby_policy *r)
{
    double deviations[DPTI_STANDBY_STEPS];
    const double middle = median(r->seconds);
    for (size_t i = 0; i < DPTI_STANDBY_STEPS; i++)
        deviations[i] = fabs(r->seconds[i] - middle);
    const double error = 1.25 * 1.48 * median(deviations) / sqrt((double)DPTI_STANDBY_STEPS);
    return (dpti_standby_time){middle, error};
}

static void begin(dpti_standby_policy *r, dpti_standby_phase state)
{
    r->state = state;
    r->n_steady = r->n_steps = 0;
}

static size_t twice(size_t n, size_t most)
{
    return 2 * n < most ? 2 * n : most;
}

static bool is_gain(dpti_standby_time now, dpti_standby_time before)
{
    const double gain = before.seconds - now.seconds;
    return gain > least_gain * before.seconds && gain > sigmas * hypot(now.error, before.error);
}

/* Returns whether all devices should be tried again: the time saved has paid for the trial, or the
   remaining devices have become slower. */
static bool is_trial_due(const dpti_standby_policy *r, dpti_standby_time now, double cost)
{
    const double gone_by = now.seconds * (double)r->n_steps;
    const double loss = fmax(r->learnt.with.seconds - now.seconds, 0.0) * TRY_STEPS + cost;
    if (now.seconds - sigmas * now.error > slowed_down * r->learnt.without.seconds)
        return loss <= early_cost * gone_by;
    return r->n_steps >= r->learnt.standby_for && loss <= try_cost * gone_by;
}

bool dpti_standby_policy_decide(dpti_standby_policy *policy, double promise, double cost)
{
    dpti_standby_policy *r = policy;
    if (!dpti_standby_policy_is_due(r)) return false;
    if (is_hopeless(r)) return true;
    const dpti_standby_time now = measure(r);
    switch (r->state) {
    case DPTI_STANDBY_NONE:
        r->learnt.with = now;
        if (promise < now.seconds * (1.0 - least_promise) - sigmas * now.error) return true;
        return r->n_steps >= UNPROMISED * r->learnt.present_for &&
               promise < now.seconds * (1.0 + most_cost);
    case DPTI_STANDBY_TRY:
        r->learnt.without = now;
        r->confirms = is_gain(now, r->learnt.with);
        return true;
    case DPTI_STANDBY_LASTS:
        if (!is_trial_due(r, now, cost)) return false;
        r->learnt.without = now;
        return true;
    case DPTI_STANDBY_TRY_ALL:
        r->learnt.with = now;
        if (r->confirms ? is_gain(r->learnt.without, now) : !is_gain(now, r->learnt.without))
            return true;
        if (r->confirms) r->learnt.present_for = twice(r->learnt.present_for, LAST_AWAKE);
        r->learnt.standby_for = FIRST_ASLEEP;
        r->confirms = false;
        begin(r, DPTI_STANDBY_NONE);
        return false;
    }
    return false;
}

void dpti_standby_policy_change(dpti_standby_policy *policy, bool others)
{
    dpti_standby_policy *r = policy;
    switch (r->state) {
    case DPTI_STANDBY_NONE: begin(r, DPTI_STANDBY_TRY); break;
    case DPTI_STANDBY_TRY:
        if (!r->confirms) r->learnt.present_for = twice(r->learnt.present_for, LAST_AWAKE);
        begin(r, r->confirms ? DPTI_STANDBY_TRY_ALL : DPTI_STANDBY_NONE);
        return;
    case DPTI_STANDBY_LASTS: begin(r, DPTI_STANDBY_TRY_ALL); break;
    case DPTI_STANDBY_TRY_ALL:
        if (!r->confirms) r->learnt.standby_for = twice(r->learnt.standby_for, LAST_ASLEEP);
        begin(r, others && !r->confirms ? DPTI_STANDBY_TRY : DPTI_STANDBY_LASTS);
        r->n_steps = r->learnt.waited;
        r->learnt.waited = 0;
        break;
    }
    r->confirms = false;
}
