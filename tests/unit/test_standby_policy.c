/* Tests the standby policy on simulated steps, with the test's clock. */
#include "balance/standby_policy.h"
#include "harness.h"

#include <math.h>
#include <string.h>

/* Seconds of a step with all devices and without some. */
typedef struct world {
    double with, without, cost;
    double promise; /* what models make of `without` */
} world;

typedef struct seen {
    size_t n_standby, n_changes;
    double seconds;
} seen;

/* Steps of that world. */
static void live(dpti_standby_policy *r, const world *w, size_t n, seen *out)
{
    *out = (seen){.n_changes = 0};
    for (size_t i = 0; i < n; i++) {
        const bool standby = r->state == DPTI_STANDBY_TRY || r->state == DPTI_STANDBY_LASTS;
        const double noise = 1.0 + 0.004 * (double)(i * 7 % 5);
        const double seconds = (standby ? w->without : w->with) * noise;
        out->n_standby += standby;
        out->seconds += seconds;
        dpti_standby_policy_observe(r, seconds, true);
        if (!dpti_standby_policy_decide(r, w->promise, w->cost)) continue;
        dpti_standby_policy_change(r, false);
        out->n_changes++;
    }
}

static void a_brake_rests(test *t)
{
    const world w = {.with = 6e-3, .without = 1e-3, .cost = 1e-3, .promise = 0.9e-3};
    dpti_standby_policy r = dpti_standby_policy_new();
    seen first, later;
    live(&r, &w, 200, &first);
    CHECK(r.state == DPTI_STANDBY_LASTS);
    CHECK_SIZE(first.n_changes, 3); /* without, with, without */
    CHECK(first.n_standby > 140);
    CHECK_NEAR(r.learnt.with.seconds, 6e-3, 1e-4);
    CHECK_NEAR(r.learnt.without.seconds, 1e-3, 1e-4);
    /* Tries with all cost half a percent, about. */
    live(&r, &w, 100000, &later);
    CHECK(later.n_changes >= 4);
    CHECK(later.seconds < 1.02 * 100000 * w.without * 1.01);
}

/* A host that is slow for a while in turns is no reason, though a try may begin in a slow one and
   end in a fast one. */
static void moods_of_the_host_are_none(test *t)
{
    dpti_standby_policy r = dpti_standby_policy_new();
    size_t n_standby = 0;
    for (size_t i = 0; i < 20000; i++) {
        const bool standby = r.state == DPTI_STANDBY_TRY || r.state == DPTI_STANDBY_LASTS;
        const double mood = i % 97 < 45 ? 2.0 : 1.0, noise = 1.0 + 0.01 * (double)(i * 7 % 5);
        n_standby += standby;
        dpti_standby_policy_observe(&r, (standby ? 1.2e-3 : 1e-3) * mood * noise, true);
        if (dpti_standby_policy_decide(&r, 0.5e-3, 1e-4)) dpti_standby_policy_change(&r, false);
    }
    CHECK(n_standby < 1000);
}

static void dear_tries_are_none(test *t)
{
    const world w = {.with = 1e-3, .without = 0.5e-3, .promise = 1.3e-3};
    dpti_standby_policy r = dpti_standby_policy_new();
    seen s;
    live(&r, &w, 100000, &s);
    CHECK_SIZE(s.n_changes, 0);
}

/* Devices that are in each other's way: models promise nothing, and it is found out all the same.
   Where there is nothing to be found tries cost next to nothing. */
static void cheap_tries_are_rare(test *t)
{
    const world gain = {.with = 1e-3, .without = 0.5e-3, .promise = 1.1e-3, .cost = 1e-3};
    const world none = {.with = 1e-3, .without = 1.2e-3, .promise = 1.2e-3, .cost = 1e-3};
    dpti_standby_policy r = dpti_standby_policy_new();
    seen s;
    live(&r, &gain, 200, &s);
    CHECK_SIZE(s.n_changes, 0);
    live(&r, &gain, 200, &s);
    CHECK(r.state == DPTI_STANDBY_LASTS);
    r = dpti_standby_policy_new();
    live(&r, &none, 5000, &s);
    CHECK(r.state == DPTI_STANDBY_NONE);
    CHECK(s.n_changes >= 6 && s.n_changes <= 10);
    CHECK(s.n_standby < 110);
}

/* Models promise what does not come: tries become rare. */
static void promises_are_measured(test *t)
{
    const world w = {.with = 1e-3, .without = 1.2e-3, .promise = 0.5e-3};
    dpti_standby_policy r = dpti_standby_policy_new();
    seen s;
    live(&r, &w, 100000, &s);
    CHECK(s.n_changes > 0 && s.n_changes < 80);
    CHECK(s.n_standby < 600);
}

static void what_others_do_is_noticed(test *t)
{
    const world brake = {.with = 6e-3, .without = 1e-3, .cost = 1e-3, .promise = 1e-3};
    const world help = {.with = 2e-3, .without = 4e-3, .cost = 1e-3, .promise = 4e-3};
    dpti_standby_policy r = dpti_standby_policy_new();
    seen s;
    live(&r, &brake, 200, &s);
    CHECK(r.state == DPTI_STANDBY_LASTS);
    /* Those that are left have become slow, and all together are fast. */
    live(&r, &help, 1000, &s);
    CHECK(r.state == DPTI_STANDBY_NONE);
    CHECK(s.n_standby < 700);
    live(&r, &brake, 200, &s);
    CHECK(r.state == DPTI_STANDBY_LASTS);
}

static void steps_that_are_not_steady_say_nothing(test *t)
{
    dpti_standby_policy r = dpti_standby_policy_new();
    for (size_t i = 0; i < 1000; i++) {
        dpti_standby_policy_observe(&r, 1.0, false);
        CHECK(!dpti_standby_policy_is_due(&r));
        CHECK(!dpti_standby_policy_decide(&r, 0.1, 0.0));
    }
}

static void others_begin_anew(test *t)
{
    const world w = {.with = 6e-3, .without = 1e-3, .promise = 1e-3};
    dpti_standby_policy r = dpti_standby_policy_new();
    seen s;
    live(&r, &w, 200, &s);
    dpti_standby_policy_forget(&r);
    CHECK(r.state == DPTI_STANDBY_NONE);
    CHECK(!dpti_standby_policy_is_due(&r));
}

/* A later process goes on as if the try had just been made, whatever numbers it is given. */
static void what_was_learnt_lasts(test *t)
{
    const world w = {.with = 6e-3, .without = 1e-3, .cost = 1e-3, .promise = 0.9e-3};
    dpti_standby_policy r = dpti_standby_policy_new();
    seen s;
    live(&r, &w, 200, &s);
    dpti_standby_policy later =
        dpti_standby_policy_resume(&r.learnt, r.state == DPTI_STANDBY_LASTS);
    dpti_standby_policy_change(&later, false);
    CHECK(later.state == DPTI_STANDBY_LASTS && !later.confirms);
    CHECK(memcmp(&later.learnt, &r.learnt, sizeof r.learnt) == 0);
    live(&later, &w, 200, &s);
    CHECK_SIZE(s.n_standby, 200);
    live(&later, &w, 100000, &s);
    CHECK(s.n_changes >= 4); /* all are tried as before */

    /* Of a long sleep, until a try is paid for, the rest. */
    r.n_steps = 12000;
    const dpti_standby_record tired = dpti_standby_policy_record(&r);
    later = dpti_standby_policy_resume(&tired, true);
    CHECK_SIZE(dpti_standby_policy_record(&later).waited, 12000); /* before its first step, too */
    dpti_standby_policy_change(&later, false);
    live(&later, &w, 400, &s);
    CHECK(s.n_changes >= 1);
    CHECK_SIZE(dpti_standby_policy_resume(&tired, false).n_steps, 12000);

    const dpti_standby_record wild = {.present_for = 0, .standby_for = SIZE_MAX};
    later = dpti_standby_policy_resume(&wild, false);
    CHECK(later.state == DPTI_STANDBY_NONE);
    CHECK_SIZE(later.learnt.present_for, dpti_standby_policy_new().learnt.present_for);
    CHECK(later.learnt.standby_for < SIZE_MAX / 2);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"a brake rests", a_brake_rests},
        {"moods of the host are none", moods_of_the_host_are_none},
        {"dear tries are none", dear_tries_are_none},
        {"cheap tries are rare", cheap_tries_are_rare},
        {"promises are measured", promises_are_measured},
        {"what others do is noticed", what_others_do_is_noticed},
        {"steps that are not steady say nothing", steps_that_are_not_steady_say_nothing},
        {"others begin anew", others_begin_anew},
        {"what was learnt lasts", what_was_learnt_lasts},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
