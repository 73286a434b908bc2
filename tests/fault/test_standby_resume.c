/* Tests a training that is resumed with devices on standby: they stay on standby from the first
   step on, as long as the devices are the same.

   test-fault-standby_resume fault|faultstaged [CASE...] */
#include "fault/standby_support.h"
#include "train/membership/presence.h"
#include "train/standby/standby.h"

#include <stdio.h>
#include <string.h>

static const char list[] = "cpu:threads=1,@:threads=1", state[] = "rest.state";
static const dpti_standby_record learnt = {
    .with = {6e-3, 1e-5}, .without = {1e-3, 2e-5}, .present_for = 512, .standby_for = 1024};

/* As if a try had just shown that it is a gain. */
static void standby_for_good(training *w)
{
    dpti_standby *r = &w->trainer->standby;
    standby_change(w);
    r->exchange[1] = 0.25;
    r->policy =
        (dpti_standby_policy){.state = DPTI_STANDBY_TRY_ALL, .confirms = true, .learnt = learnt};
}

/* *last: without its words, which are in last_words. */
static char last_words[128];

static size_t count_events(training *w, dpt_device_event_kind kind, dpt_device_event *last)
{
    size_t n = 0;
    dpt_device_event event = {.size = sizeof event};
    while (dpt_trainer_next_event(w->trainer, &event)) {
        if (event.kind != kind) continue;
        *last = event;
        snprintf(last_words, sizeof last_words, "%s", event.message);
        n++;
    }
    return n;
}

/* So far; the second device rests meanwhile, or does not. */
static void step_to(test *t, training *w, size_t end, bool rests)
{
    dpt_step_metrics m = {.size = sizeof m};
    for (; w->n_steps < end; w->n_steps++) {
        CHECK_OK(dpt_trainer_set_lr(w->trainer, 0.05f - 0.002f * (float)w->n_steps));
        if (!CHECK_OK(dpt_trainer_step(w->trainer, &m)))
            FAIL("%s: %s", w->devices, dpt_error_message(w->context));
        CHECK(dpti_is_standby(&w->trainer->workers[1]) == rests);
        CHECK(!rests || m.shards[1] == 0);
    }
}

/* Writes the state of a training whose second device has rested for some steps. */
static bool save(test *t, const char *devices, size_t steps)
{
    training w;
    bool saved = false;
    dpt_device_event event = {.size = sizeof event};
    if (CHECK_OK(standby_begin(t, devices, &w))) {
        step_to(t, &w, REST, false);
        standby_for_good(&w);
        step_to(t, &w, REST + steps, true);
        CHECK_SIZE(count_events(&w, DPT_DEVICE_STANDBY, &event), 1);
        w.trainer->standby.allowed = true;
        saved = CHECK_OK(dpt_trainer_save_state(w.trainer, state));
    }
    standby_end(&w);
    return saved;
}

/* Who may not rest, or has other devices, begins with all. */
static bool load(test *t, const char *devices, bool allowed, training *w)
{
    if (!CHECK_OK(standby_begin(t, devices, w))) return false;
    w->trainer->standby.allowed = allowed;
    const bool loaded = CHECK_OK(dpt_trainer_load_state(w->trainer, state));
    w->trainer->standby.allowed = false;
    w->n_steps = dpt_trainer_steps(w->trainer);
    return loaded;
}

static void rests_on(test *t)
{
    enum { RESTED = 3 };
    training w;
    dpt_device_event event = {.size = sizeof event};
    if (!save(t, list, RESTED)) return;
    if (load(t, list, true, &w)) {
        const dpti_standby *r = &w.trainer->standby;
        step_to(t, &w, REST + RESTED + 1, true);
        CHECK_SIZE(count_events(&w, DPT_DEVICE_STANDBY, &event), 1);
        CHECK_SIZE(event.step, REST + RESTED + 1);
        CHECK_SIZE(event.device, 1);
        CHECK(strstr(last_words, "6 ms with it, 1 ms without") != NULL);
        CHECK(r->policy.state == DPTI_STANDBY_LASTS && r->n == 1 &&
              dpti_is_standby(&w.trainer->workers[1]));
        CHECK(memcmp(&r->policy.learnt, &learnt, sizeof learnt) == 0);
        CHECK_NEAR(r->exchange[1], 0.25, 0);
        step_to(t, &w, WAKE, true);
        standby_change(&w);
        step_to(t, &w, STEPS, false);
        CHECK(!dpti_is_standby(&w.trainer->workers[1]));
        standby_check_weights(t, &w, 0);
        standby_check_weights(t, &w, 1);
    }
    standby_end(&w);
}

/* A state that is written before the first step is still that of a training in which it rests; so
   is one that is loaded twice. */
static void rests_on_from_state_to_state(test *t)
{
    training w;
    if (!save(t, list, 2)) return;
    if (load(t, list, true, &w)) {
        w.trainer->standby.allowed = true;
        CHECK_OK(dpt_trainer_save_state(w.trainer, state));
        w.trainer->standby.allowed = false;
    }
    standby_end(&w);
    if (load(t, list, true, &w)) {
        w.trainer->standby.allowed = true;
        CHECK_OK(dpt_trainer_load_state(w.trainer, state));
        w.trainer->standby.allowed = false;
        step_to(t, &w, WAKE, true);
        CHECK(w.trainer->standby.policy.state == DPTI_STANDBY_LASTS);
        CHECK(memcmp(&w.trainer->standby.policy.learnt, &learnt, sizeof learnt) == 0);
        standby_change(&w);
        step_to(t, &w, STEPS, false);
        standby_check_weights(t, &w, 0);
        standby_check_weights(t, &w, 1);
    }
    standby_end(&w);
}

/* While it rests the state of before is loaded, and what comes then is done again. */
static void loaded_while_it_rests(test *t)
{
    training w;
    dpt_device_event event = {.size = sizeof event};
    if (!save(t, list, 2)) return;
    if (load(t, list, true, &w)) {
        step_to(t, &w, WAKE, true);
        w.trainer->standby.allowed = true;
        CHECK_OK(dpt_trainer_load_state(w.trainer, state));
        w.trainer->standby.allowed = false;
        w.n_steps = dpt_trainer_steps(w.trainer);
        CHECK_SIZE(w.n_steps, REST + 2);
        CHECK_SIZE(w.trainer->standby.n, 0);
        step_to(t, &w, WAKE, true);
        CHECK_SIZE(count_events(&w, DPT_DEVICE_STANDBY, &event), 2);
        standby_change(&w);
        step_to(t, &w, STEPS, false);
        standby_check_weights(t, &w, 0);
        standby_check_weights(t, &w, 1);
    }
    standby_end(&w);
}

static void others_begin_with_all(test *t)
{
    static const struct {
        const char *devices;
        bool allowed;
    } kinds[] = {
        {list, false}, {"@:threads=1,cpu:threads=1", true}, {"cpu:threads=1,cpu:threads=1", true}};
    if (!save(t, list, 1)) return;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        training w;
        dpt_step_metrics m = {.size = sizeof m};
        dpt_device_event event = {.size = sizeof event};
        if (load(t, kinds[i].devices, kinds[i].allowed, &w)) {
            CHECK_OK(dpt_trainer_step(w.trainer, &m));
            CHECK_SIZE(w.trainer->standby.n, 0);
            CHECK(w.trainer->standby.policy.state == DPTI_STANDBY_NONE);
            CHECK_SIZE(count_events(&w, DPT_DEVICE_STANDBY, &event), 0);
        }
        standby_end(&w);
    }
}

/* How long tries wait is known even if nobody rests. */
static void tries_are_as_rare(test *t)
{
    training w;
    if (CHECK_OK(standby_begin(t, list, &w))) {
        step_to(t, &w, REST, false);
        w.trainer->standby.policy.learnt = learnt;
        w.trainer->standby.allowed = true;
        CHECK_OK(dpt_trainer_save_state(w.trainer, state));
    }
    standby_end(&w);
    if (load(t, list, true, &w)) {
        step_to(t, &w, REST + 1, false);
        CHECK_SIZE(w.trainer->standby.policy.learnt.present_for, learnt.present_for);
        CHECK(w.trainer->standby.policy.state == DPTI_STANDBY_NONE);
    }
    standby_end(&w);
}

/* Those that would rest are all there is, or in an island by now. */
static void none_of_them_can(test *t)
{
    static const char *const lists[] = {"cpu:threads=1,@:threads=1",
                                        "@:threads=1:island=1,@:threads=1:island=1"};
    static const double exchange[2] = {0.0, 0.0};
    static const bool both[2] = {true, true}, second[2] = {false, true};
    for (size_t i = 0; i < 2; i++) {
        training w;
        dpt_step_metrics m = {.size = sizeof m};
        if (CHECK_OK(standby_begin(t, lists[i], &w))) {
            CHECK_OK(dpt_trainer_step(w.trainer, &m));
            w.trainer->standby.allowed = true;
            dpti_standby_resume(w.trainer, i == 0 ? both : second, exchange, &learnt);
            w.trainer->standby.allowed = false;
            CHECK_OK(dpt_trainer_step(w.trainer, &m));
            CHECK_SIZE(w.trainer->standby.n, i == 0 ? 1 : 0);
            CHECK(w.trainer->standby.policy.state ==
                  (i == 0 ? DPTI_STANDBY_LASTS : DPTI_STANDBY_NONE));
            CHECK(!w.trainer->standby.changes);
        }
        standby_end(&w);
    }
}

/* The only one that trains is lost soon after: who has rested since the beginning goes on. */
static void lost_when_gone_on_with(test *t)
{
    size_t n_lost = 0;
    for (size_t n = 1; n < 60; n += 3) {
        char devices[128];
        training w;
        dpt_step_metrics m = {.size = sizeof m};
        dpt_device_event event = {.size = sizeof event};
        snprintf(devices, sizeof devices, "@:threads=1:after=8:lost=%zu,cpu:threads=1", n);
        if (!save(t, devices, 3)) return;
        if (load(t, devices, true, &w)) {
            for (; w.n_steps < STEPS; w.n_steps++) {
                CHECK_OK(dpt_trainer_set_lr(w.trainer, 0.05f - 0.002f * (float)w.n_steps));
                if (!CHECK_OK(dpt_trainer_step(w.trainer, &m)))
                    FAIL("%s: %s", devices, dpt_error_message(w.context));
            }
            n_lost += count_events(&w, DPT_DEVICE_LOST, &event);
            standby_check_weights(t, &w, 1);
        }
        standby_end(&w);
    }
    CHECK(n_lost > 10);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"rests on", rests_on},
        {"rests on from state to state", rests_on_from_state_to_state},
        {"loaded while it rests", loaded_while_it_rests},
        {"others begin with all", others_begin_with_all},
        {"tries are as rare", tries_are_as_rare},
        {"none of them can", none_of_them_can},
        {"lost when gone on with", lost_when_gone_on_with},
    };
    if (argc < 2 || !plant_setup()) {
        fputs("usage: test-fault-standby_resume fault|faultstaged [CASE...]\n", stderr);
        return 2;
    }
    plant p = {.backend = argv[1]};
    return test_run((size_t)argc - 2, argv + 2, cases, sizeof cases / sizeof *cases, &p);
}
