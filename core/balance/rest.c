/* Trying steps with and without some devices (rest.h). */
#include "balance/rest.h"

#include <math.h>

enum {
    SETTLING = 3, /* steady steps that do not count: queues fill, models follow */
    FIRST_AWAKE = 32,
    LAST_AWAKE = 4096,
    FIRST_ASLEEP = 256,
    LAST_ASLEEP = 65536,
    LEAST_ASLEEP = 64, /* whatever happens */
    GLANCE = 3,        /* steps that tell of a try that it is hopeless */
    TRY_STEPS = 12,    /* of a try with all that is, about */
    UNPROMISED = 8,    /* times as many steps before a try that models do not promise a gain of */
};

/* What models must promise for a try, and what it may cost by them where they promise nothing: they
   know devices from steps in which these may be in each other's way.  What a try must gain; how far
   times must be apart; how much slower those that are left become before all are tried early; what
   tries may cost of all time, and such early ones. */
static const double least_promise = 0.05, most_cost = 0.25, least_gain = 0.015, sigmas = 3.0,
                    slowed_down = 1.3, try_cost = 0.005, early_cost = 0.02;

dpti_rest dpti_rest_new(void)
{
    return (dpti_rest){.learnt = {.awake_for = FIRST_AWAKE, .asleep_for = FIRST_ASLEEP}};
}

static size_t within(size_t n, size_t least, size_t most)
{
    return n < least ? least : n > most ? most : n;
}

dpti_rest_learnt dpti_rest_learn(const dpti_rest *rest)
{
    dpti_rest_learnt learnt = rest->learnt;
    if (rest->state == DPTI_REST_NONE || rest->state == DPTI_REST_LASTS)
        learnt.waited = rest->n_steps;
    return learnt;
}

dpti_rest dpti_rest_resume(const dpti_rest_learnt *learnt, bool rested)
{
    dpti_rest r = {.state = rested ? DPTI_REST_TRY_ALL : DPTI_REST_NONE,
                   .confirms = rested,
                   .learnt = *learnt};
    if (!rested) {
        r.n_steps = learnt->waited;
        r.learnt.waited = 0;
    }
    r.learnt.awake_for = within(learnt->awake_for, FIRST_AWAKE, LAST_AWAKE);
    r.learnt.asleep_for = within(learnt->asleep_for, FIRST_ASLEEP, LAST_ASLEEP);
    return r;
}

void dpti_rest_forget(dpti_rest *rest)
{
    *rest = dpti_rest_new();
}

void dpti_rest_observe(dpti_rest *rest, double seconds, bool steady)
{
    dpti_rest *r = rest;
    r->n_steps++;
    if (!steady) return;
    r->seconds[r->n_steady % DPTI_REST_STEPS] = seconds;
    r->n_steady++;
}

/* Of a try: the first steps that count are all much slower than those before it. */
static bool is_hopeless(const dpti_rest *r)
{
    const double before =
        r->state == DPTI_REST_TRY ? r->learnt.with.seconds : r->learnt.without.seconds;
    if (r->state != DPTI_REST_TRY && r->state != DPTI_REST_TRY_ALL) return false;
    if (r->n_steady < SETTLING + GLANCE) return false;
    for (size_t i = 1; i <= GLANCE; i++)
        if (!(r->seconds[(r->n_steady - i) % DPTI_REST_STEPS] > slowed_down * before)) return false;
    return true;
}

bool dpti_rest_is_due(const dpti_rest *rest)
{
    const size_t least = rest->state == DPTI_REST_NONE    ? rest->learnt.awake_for
                         : rest->state == DPTI_REST_LASTS ? LEAST_ASLEEP
                                                          : 0;
    if (is_hopeless(rest)) return true;
    if (rest->state == DPTI_REST_NONE && rest->n_steps % DPTI_REST_STEPS > 0) return false;
    return rest->n_steady >= SETTLING + DPTI_REST_STEPS && rest->n_steps >= least;
}

static double median(const double values[DPTI_REST_STEPS])
{
    double sorted[DPTI_REST_STEPS];
    for (size_t i = 0; i < DPTI_REST_STEPS; i++) {
        size_t k = i;
        for (; k > 0 && sorted[k - 1] > values[i]; k--)
            sorted[k] = sorted[k - 1];
        sorted[k] = values[i];
    }
    return 0.5 * (sorted[DPTI_REST_STEPS / 2 - 1] + sorted[DPTI_REST_STEPS / 2]);
}

/* For a normal distribution the standard deviation is 1.48 median absolute deviations, and the
   median's error 1.25 of a mean's. */
static dpti_rest_time measure(const dpti_rest *r)
{
    double deviations[DPTI_REST_STEPS];
    const double middle = median(r->seconds);
    for (size_t i = 0; i < DPTI_REST_STEPS; i++)
        deviations[i] = fabs(r->seconds[i] - middle);
    const double error = 1.25 * 1.48 * median(deviations) / sqrt((double)DPTI_REST_STEPS);
    return (dpti_rest_time){middle, error};
}

static void begin(dpti_rest *r, dpti_rest_state state)
{
    r->state = state;
    r->n_steady = r->n_steps = 0;
}

static size_t twice(size_t n, size_t most)
{
    return 2 * n < most ? 2 * n : most;
}

static bool is_gain(dpti_rest_time now, dpti_rest_time before)
{
    const double gain = before.seconds - now.seconds;
    return gain > least_gain * before.seconds && gain > sigmas * hypot(now.error, before.error);
}

/* Whether it is time to try all again: it is paid for, or those that are left have become slow. */
static bool wakes(const dpti_rest *r, dpti_rest_time now, double cost)
{
    const double gone_by = now.seconds * (double)r->n_steps;
    const double loss = fmax(r->learnt.with.seconds - now.seconds, 0.0) * TRY_STEPS + cost;
    if (now.seconds - sigmas * now.error > slowed_down * r->learnt.without.seconds)
        return loss <= early_cost * gone_by;
    return r->n_steps >= r->learnt.asleep_for && loss <= try_cost * gone_by;
}

bool dpti_rest_decide(dpti_rest *rest, double promise, double cost)
{
    dpti_rest *r = rest;
    if (!dpti_rest_is_due(r)) return false;
    if (is_hopeless(r)) return true;
    const dpti_rest_time now = measure(r);
    switch (r->state) {
    case DPTI_REST_NONE:
        r->learnt.with = now;
        if (promise < now.seconds * (1.0 - least_promise) - sigmas * now.error) return true;
        return r->n_steps >= UNPROMISED * r->learnt.awake_for &&
               promise < now.seconds * (1.0 + most_cost);
    case DPTI_REST_TRY:
        r->learnt.without = now;
        r->confirms = is_gain(now, r->learnt.with);
        return true;
    case DPTI_REST_LASTS:
        if (!wakes(r, now, cost)) return false;
        r->learnt.without = now;
        return true;
    case DPTI_REST_TRY_ALL:
        r->learnt.with = now;
        if (r->confirms ? is_gain(r->learnt.without, now) : !is_gain(now, r->learnt.without))
            return true;
        if (r->confirms) r->learnt.awake_for = twice(r->learnt.awake_for, LAST_AWAKE);
        r->learnt.asleep_for = FIRST_ASLEEP;
        r->confirms = false;
        begin(r, DPTI_REST_NONE);
        return false;
    }
    return false;
}

void dpti_rest_change(dpti_rest *rest, bool others)
{
    dpti_rest *r = rest;
    switch (r->state) {
    case DPTI_REST_NONE: begin(r, DPTI_REST_TRY); break;
    case DPTI_REST_TRY:
        if (!r->confirms) r->learnt.awake_for = twice(r->learnt.awake_for, LAST_AWAKE);
        begin(r, r->confirms ? DPTI_REST_TRY_ALL : DPTI_REST_NONE);
        return;
    case DPTI_REST_LASTS: begin(r, DPTI_REST_TRY_ALL); break;
    case DPTI_REST_TRY_ALL:
        if (!r->confirms) r->learnt.asleep_for = twice(r->learnt.asleep_for, LAST_ASLEEP);
        begin(r, others && !r->confirms ? DPTI_REST_TRY : DPTI_REST_LASTS);
        r->n_steps = r->learnt.waited;
        r->learnt.waited = 0;
        break;
    }
    r->confirms = false;
}
