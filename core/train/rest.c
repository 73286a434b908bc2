/* Trying steps with and without some devices (rest.h). */
#include "train/rest.h"

#include <math.h>
#include <string.h>

enum {
    SETTLING = 3, /* steady steps that do not count: queues fill, models follow */
    FIRST_AWAKE = 32,
    LAST_AWAKE = 4096,
    FIRST_ASLEEP = 256,
    LAST_ASLEEP = 65536,
    TRY_STEPS = 16, /* of a try, about */
};

/* What models must promise for a try, and what it must gain; how much slower those that are left
   become before all are tried early; what tries may cost of all time. */
static const double least_promise = 0.05, least_gain = 0.015, slowed_down = 1.3, try_cost = 0.005;

dpti_rest dpti_rest_new(void)
{
    return (dpti_rest){.awake_for = FIRST_AWAKE, .asleep_for = FIRST_ASLEEP};
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

bool dpti_rest_is_measured(const dpti_rest *rest)
{
    return rest->n_steady >= SETTLING + DPTI_REST_STEPS;
}

static double median(const dpti_rest *r)
{
    double sorted[DPTI_REST_STEPS];
    for (size_t i = 0; i < DPTI_REST_STEPS; i++) {
        size_t k = i;
        for (; k > 0 && sorted[k - 1] > r->seconds[i]; k--)
            sorted[k] = sorted[k - 1];
        sorted[k] = r->seconds[i];
    }
    return 0.5 * (sorted[DPTI_REST_STEPS / 2 - 1] + sorted[DPTI_REST_STEPS / 2]);
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

static bool is_gain(double seconds, double before)
{
    return seconds < before * (1.0 - least_gain);
}

/* Whether it is time to try all again: it is paid for, or those that are left have become slow. */
static bool wakes(const dpti_rest *r, double now, double cost)
{
    const double loss = fmax(r->with - r->without, 0.0) * TRY_STEPS + cost;
    if (now > slowed_down * r->without) return true;
    return r->n_steps >= r->asleep_for && loss <= try_cost * now * (double)r->n_steps;
}

bool dpti_rest_decide(dpti_rest *rest, double promise, double cost)
{
    dpti_rest *r = rest;
    if (!dpti_rest_is_measured(r)) return false;
    const double now = median(r);
    switch (r->state) {
    case DPTI_REST_NONE:
        r->with = now;
        return r->n_steps >= r->awake_for && promise < now * (1.0 - least_promise);
    case DPTI_REST_TRY:
        r->without = now;
        if (!is_gain(now, r->with)) return true;
        r->asleep_for = FIRST_ASLEEP;
        begin(r, DPTI_REST_LASTS);
        return false;
    case DPTI_REST_LASTS:
        if (!wakes(r, now, cost)) return false;
        r->without = now;
        return true;
    case DPTI_REST_TRY_ALL:
        r->with = now;
        if (!is_gain(now, r->without)) return true;
        r->awake_for = FIRST_AWAKE;
        begin(r, DPTI_REST_NONE);
        return false;
    }
    return false;
}

void dpti_rest_change(dpti_rest *rest)
{
    dpti_rest *r = rest;
    switch (r->state) {
    case DPTI_REST_NONE: begin(r, DPTI_REST_TRY); break;
    case DPTI_REST_TRY: /* it was no gain */
        r->awake_for = twice(r->awake_for, LAST_AWAKE);
        begin(r, DPTI_REST_NONE);
        break;
    case DPTI_REST_LASTS: begin(r, DPTI_REST_TRY_ALL); break;
    case DPTI_REST_TRY_ALL: /* neither */
        r->asleep_for = twice(r->asleep_for, LAST_ASLEEP);
        begin(r, DPTI_REST_LASTS);
        break;
    }
}
