/* Tests standby: training has the same result as with these devices, a standby device has the
   weights when they are read from it, and standby devices go on when all others are lost.

   test-fault-standby fault|faultstaged [CASE...] */
#include "fault/standby_support.h"
#include "train/components/membership.h"
#include "train/membership/presence.h"
#include "train/recovery/readmit.h"
#include "train/recovery/recover.h"
#include "train/replicas/state.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- Resting --------------------------------------------------------------------------------- */

static void rests_and_wakes(test *t)
{
    static plant_weights a, b;
    training w;
    if (CHECK_OK(standby_begin(t, "cpu:threads=1,@:threads=1", &w))) {
        w.wakes = true;
        for (size_t i = 0; i < STEPS; i += 3) {
            standby_steps(t, &w, 3);
            /* Whoever asks a device that rests for its weights gets those of now. */
            if (CHECK_OK(plant_read_weights(w.model, w.trainer, 0, &a)) &&
                CHECK_OK(plant_read_weights(w.model, w.trainer, 1, &b)))
                CHECK(plant_same_weights(&a, &b));
        }
        CHECK_SIZE(w.n_lost, 0);
        standby_check_weights(t, &w, 1);
    }
    standby_end(&w);
}

static void nobody_asks(test *t)
{
    training w;
    if (CHECK_OK(standby_begin(t, "@:threads=1,cpu:threads=1", &w))) {
        w.wakes = true;
        standby_steps(t, &w, REST + 3);
        CHECK(dpti_is_standby(&w.trainer->workers[1]) && dpti_is_stale(&w.trainer->workers[1]));
        CHECK_SIZE(w.trainer->standby.n_lr, 3);
        standby_steps(t, &w, STEPS - REST - 3);
        CHECK(!dpti_is_standby(&w.trainer->workers[1]) && !dpti_is_stale(&w.trainer->workers[1]));
        standby_check_weights(t, &w, 0);
        standby_check_weights(t, &w, 1);
    }
    standby_end(&w);
}

/* A device does whole steps while the other one rests, if it can: the host does not see its memory,
   and it has no reason to work in pieces. */
static void whole_while_alone(test *t)
{
    static const char *const lists[] = {"@:threads=1,cpu:threads=1",
                                        "@:threads=1:throttle=1.001,cpu:threads=1"};
    const bool staged = strcmp(((plant *)t->user)->backend, "faultstaged") == 0;
    for (size_t i = 0; i < 2; i++) {
        training w;
        if (CHECK_OK(standby_begin(t, lists[i], &w))) {
            w.wakes = true;
            while (w.n_steps < STEPS) {
                standby_steps(t, &w, 1);
                CHECK((w.trainer->workers[0].compute.single.program != NULL) ==
                      (i == 0 && staged && standby_is_due(&w, w.n_steps)));
                CHECK(!w.trainer->workers[1].compute.single.program);
            }
            standby_check_weights(t, &w, 0);
            standby_check_weights(t, &w, 1);
        }
        standby_end(&w);
    }
}

/* It is lost, or hangs, when what whole steps take is made: who has just gone to rest goes on. */
static void lost_when_it_is_alone(test *t)
{
    static const char *const hows[] = {"prepare:lost=1", "prepare:lost=7", "event_create:lost=2",
                                       "prepare:hang=3"};
    if (strcmp(((plant *)t->user)->backend, "faultstaged") != 0)
        SKIP("its memory is the host's: it does no whole steps");
    for (size_t i = 0; i < sizeof hows / sizeof *hows; i++) {
        char devices[128];
        training w;
        snprintf(devices, sizeof devices, "@:threads=1:after=%d:entry=%s,cpu:threads=1", REST,
                 hows[i]);
        if (CHECK_OK(standby_begin(t, devices, &w))) {
            standby_steps(t, &w, REST);
            w.n_lost = 1; /* from the next step on */
            standby_steps(t, &w, STEPS - REST);
            CHECK_SIZE(w.n_lost, 2);
            CHECK(dpti_is_lost(&w.trainer->workers[0]));
            CHECK_SIZE(w.trainer->standby.n, 0);
            standby_check_weights(t, &w, 1);
        }
        standby_end(&w);
    }
}

/* ---- Losses ---------------------------------------------------------------------------------- */

/* The only device that trains is lost in some call behind its n-th update: the other one goes on
   from where it went to rest. */
static void the_last_one_is_lost(test *t)
{
    for (size_t after = REST + 1; after < STEPS; after += 4)
        for (size_t n = 1; n < 60; n += 7) {
            char devices[128];
            training w;
            snprintf(devices, sizeof devices, "@:threads=1:after=%zu:lost=%zu,cpu:threads=1", after,
                     n);
            if (CHECK_OK(standby_begin(t, devices, &w))) {
                standby_steps(t, &w, STEPS);
                if (w.n_lost > 0) CHECK_SIZE(w.trainer->standby.n, 0);
                CHECK(w.n_lost == 1 || after + n / 20 + 1 >= STEPS);
                standby_check_weights(t, &w, 1);
            }
            standby_end(&w);
        }
}

/* Where its weights were refreshed since, nothing before that is done again. */
static void goes_on_from_its_last_weights(test *t)
{
    training w;
    if (CHECK_OK(standby_begin(t, "@:threads=1:after=13:lost=1,cpu:threads=1", &w))) {
        standby_steps(t, &w, 9);
        REQUIRE_OK(dpti_trainer_refresh(w.trainer));
        CHECK(!dpti_is_stale(&w.trainer->workers[1]));
        standby_steps(t, &w, 1);
        CHECK_SIZE(w.trainer->standby.first, 9);
        CHECK_SIZE(w.trainer->standby.n_lr, 1);
        standby_steps(t, &w, STEPS - 10);
        CHECK_SIZE(w.n_lost, 1);
        standby_check_weights(t, &w, 1);
    }
    standby_end(&w);
}

/* One that rests is lost when it is to get weights. */
static void lost_while_it_rests(test *t)
{
    for (size_t n = 1; n < 30; n += 3) {
        char devices[128];
        training w;
        snprintf(devices, sizeof devices, "cpu:threads=1,@:threads=1:after=4:lost=%zu", n);
        if (CHECK_OK(standby_begin(t, devices, &w))) {
            w.wakes = true;
            standby_steps(t, &w, STEPS);
            CHECK_SIZE(w.n_lost, 1);
            standby_check_weights(t, &w, 0);
        }
        standby_end(&w);
    }
}

/* Memory that runs out: who rests takes part again, since the others hold less from then on. */
static void memory_wakes(test *t)
{
    training w;
    if (CHECK_OK(standby_begin(t, "@:threads=1:room=6:from=9,cpu:threads=1", &w))) {
        w.woken = 9;
        standby_steps(t, &w, STEPS);
        CHECK_SIZE(w.n_lost, 0);
        CHECK_SIZE(w.trainer->standby.n, 0);
        standby_check_weights(t, &w, 1);
    }
    standby_end(&w);
}

/* Likewise where it is short of memory for some calls, any of them, those of the update too.  No
   step fails for it: where nobody knows any more whether the last one of the only device that
   trained counts, or where it missed that, it is done from what the other one has. */
static void memory_is_short(test *t)
{
    static const size_t durations[] = {1, 2, 12};
    for (size_t i = 0; i < 3; i++)
        for (size_t n = 1; n < 25; n++) {
            char devices[128];
            training w;
            snprintf(devices, sizeof devices, "@:threads=1:full=%zu:for=%zu:from=9,cpu:threads=1",
                     n, durations[i]);
            bool goes_on = CHECK_OK(standby_begin(t, devices, &w));
            while (goes_on && dpt_trainer_steps(w.trainer) < STEPS) {
                dpt_step_metrics m = {.size = sizeof m};
                standby_plan(t, &w, dpt_trainer_steps(w.trainer));
                goes_on = CHECK_OK(dpt_trainer_step(w.trainer, &m));
                if (goes_on && i == 0)
                    goes_on = CHECK_OK(dpt_trainer_save(w.trainer, "rest.weights"));
                if (!goes_on) FAIL("%s: %s", w.devices, dpt_error_message(w.context));
            }
            /* If there was no memory to write it, it is lost. */
            if (goes_on && !dpti_is_lost(&w.trainer->workers[0])) standby_check_weights(t, &w, 0);
            if (goes_on) standby_check_weights(t, &w, 1);
            standby_end(&w);
        }
}

/* Likewise for updates, of which it is lost for the second that it misses in a row; one in a whole
   step is not among them, since nobody knows what there is of it. */
static void memory_is_short_in_updates(test *t)
{
    static const size_t durations[] = {1, 2, 100};
    const bool staged = strcmp(((plant *)t->user)->backend, "faultstaged") == 0;
    const size_t most = staged ? 3 : 2;
    for (size_t i = 0; i < 9; i++) {
        const size_t n = durations[i % 3];
        char devices[128];
        training w;
        snprintf(devices, sizeof devices, "@:threads=1:starve=%zu:for=%zu,cpu:threads=1", 8 + i / 3,
                 n);
        if (CHECK_OK(standby_begin(t, devices, &w))) {
            for (size_t step = 1; step <= STEPS; step++) {
                dpt_step_metrics m = {.size = sizeof m};
                standby_plan(t, &w, step - 1);
                if (!CHECK_OK(dpt_trainer_step(w.trainer, &m)))
                    FAIL("%s: %s", w.devices, dpt_error_message(w.context));
                CHECK_SIZE(m.step, step);
            }
            CHECK_SIZE(plant_count("fired"), n < most ? n : most);
            CHECK(dpti_is_lost(&w.trainer->workers[0]) == (n >= most));
            if (!dpti_is_lost(&w.trainer->workers[0])) standby_check_weights(t, &w, 0);
            standby_check_weights(t, &w, 1);
        }
        standby_end(&w);
    }
}

/* And what comes back then is given what the other one has. */
static void memory_is_short_as_another_returns(test *t)
{
    for (size_t n = 1; n < 4; n++) {
        char devices[160];
        training w;
        dpt_step_metrics m = {.size = sizeof m};
        snprintf(devices, sizeof devices,
                 "@:threads=1:full=%zu:for=3:from=9,cpu:threads=1,@:threads=1:after=2:lost=1:"
                 "again=1",
                 n);
        if (CHECK_OK(standby_begin(t, devices, &w))) {
            w.trainer->recovery.readmit_after = 0.3;
            for (size_t tries = 0; dpt_trainer_steps(w.trainer) < STEPS && tries < 4;) {
                standby_plan(t, &w, dpt_trainer_steps(w.trainer));
                const dpt_status status = dpt_trainer_step(w.trainer, &m);
                if (status == DPT_OK) continue;
                if (!CHECK_STATUS(status, DPT_E_NO_MEMORY))
                    FAIL("%s: %s", w.devices, dpt_error_message(w.context));
                for (tries++; !dpti_readmit_waits(w.trainer) && tries == 1; (void)usleep(1000))
                    dpti_readmit_poll(w.trainer);
            }
            CHECK(w.trainer->recovery.returned_step > 0 || dpti_trainer_n_lost(w.trainer) > 0);
            standby_check_weights(t, &w, 1);
        }
        standby_end(&w);
    }
}

/* The first tensor of a replica, and whether it was to be had. */
static dpt_status get_first(training *w, size_t device, float *out)
{
    const dpti_parameter *p = &w->model->parameters[0];
    return dpt_trainer_get(w->trainer, device, DPT_PARAMETER, p->name, out, p->size);
}

/* What is written to all while one rests is part of where it goes on from. */
static void written_while_it_rests(test *t)
{
    static float values[16384];
    training w;
    if (CHECK_OK(standby_begin(t, "@:threads=1:after=13:lost=1,cpu:threads=1", &w))) {
        const dpti_parameter *p = &w.model->parameters[0];
        standby_steps(t, &w, 9);
        CHECK_OK(get_first(&w, 0, values));
        CHECK_OK(dpt_trainer_set(w.trainer, DPT_PARAMETER, p->name, values, p->size));
        standby_steps(t, &w, STEPS - 9);
        CHECK_SIZE(w.n_lost, 1);
        standby_check_weights(t, &w, 1);
    }
    standby_end(&w);
}

/* Calls of it fail while its weights are read for the other, which has parts of them then and is
   not gone on from: the training ends, or has the right weights. */
static void torn_weights_are_nobodys(test *t)
{
    static float values[16384];
    for (size_t n = 1; n < 12; n++) {
        char devices[128];
        training w;
        dpt_step_metrics m = {.size = sizeof m};
        snprintf(devices, sizeof devices, "@:threads=1:after=9:fail=%zu:lost=120,cpu:threads=1", n);
        if (CHECK_OK(standby_begin(t, devices, &w))) {
            dpt_status status = DPT_OK;
            standby_steps(t, &w, 9);
            (void)!get_first(&w, 1, values);
            for (; w.n_steps < STEPS && status == DPT_OK; w.n_steps++) {
                standby_plan(t, &w, w.n_steps);
                status = dpt_trainer_step(w.trainer, &m);
            }
            if (status == DPT_OK) standby_check_weights(t, &w, 1);
        }
        standby_end(&w);
    }
}

/* An earlier state is loaded, whatever comes of it. */
static void loaded_while_it_rests(test *t)
{
    for (size_t n = 1; n < 14; n++) {
        char devices[128];
        training w;
        dpt_step_metrics m = {.size = sizeof m};
        snprintf(devices, sizeof devices, "cpu:threads=1,@:threads=1:after=4:fail=%zu", n);
        if (CHECK_OK(standby_begin(t, devices, &w))) {
            standby_steps(t, &w, REST - 1);
            CHECK_OK(dpt_trainer_save_state(w.trainer, "rest.state"));
            standby_steps(t, &w, 6);
            (void)!dpt_trainer_load_state(w.trainer, "rest.state");
            CHECK_SIZE(dpt_trainer_steps(w.trainer), REST - 1);
            CHECK_SIZE(w.trainer->standby.n, 0);
            for (size_t i = REST - 1; i < STEPS; i++) {
                CHECK_OK(dpt_trainer_set_lr(w.trainer, 0.05f - 0.002f * (float)i));
                CHECK_OK(dpt_trainer_step(w.trainer, &m));
            }
            standby_check_weights(t, &w, 0);
        }
        standby_end(&w);
    }
}

/* The only one that trains is lost while what lasts is read for a file, in any call: the file is
   written, has those nine steps, and training goes on. */
static void lost_while_saved(test *t)
{
    for (size_t n = 1; n < 40; n++) {
        char devices[128];
        training w;
        snprintf(devices, sizeof devices, "@:threads=1:after=9:lost=%zu,cpu:threads=1", n);
        if (CHECK_OK(standby_begin(t, devices, &w))) {
            standby_steps(t, &w, 9);
            if (n % 2 == 0)
                CHECK_OK(dpt_trainer_save(w.trainer, "rest.weights"));
            else
                CHECK_OK(dpt_trainer_save_state(w.trainer, "rest.state"));
            CHECK_SIZE(dpt_trainer_steps(w.trainer), 9);
            standby_steps(t, &w, STEPS - 9);
            standby_check_weights(t, &w, 1);
            if (n % 2 == 1) {
                CHECK_OK(dpt_trainer_load_state(w.trainer, "rest.state"));
                w.n_steps = 9;
                standby_steps(t, &w, STEPS - 9);
                standby_check_weights(t, &w, 1);
            }
        }
        standby_end(&w);
    }
}

/* The one that rests has no memory to be written: it is lost, and neither the file nor the
 * training. */
static void starved_while_saved(test *t)
{
    for (size_t n = 1; n < 4; n++) {
        char devices[128];
        training w;
        dpt_evaluation e = {.size = sizeof e};
        snprintf(devices, sizeof devices,
                 "cpu:threads=1,@:threads=1:after=4:full=%zu:for=3:entry=upload", n);
        if (CHECK_OK(standby_begin(t, devices, &w))) {
            standby_steps(t, &w, 9);
            if (n == 2)
                CHECK_OK(dpt_trainer_evaluate(w.trainer, w.data, &e));
            else
                CHECK_OK(dpt_trainer_save_state(w.trainer, "rest.state"));
            standby_steps(t, &w, STEPS - 9);
            standby_check_weights(t, &w, 0);
        }
        standby_end(&w);
    }
}

/* A call between steps finds out that a device is lost, and what the next one does first is to
   compare replicas. */
static void lost_before_it_is_compared(test *t)
{
    static float values[16384];
    training w;
    if (CHECK_OK(standby_begin(t, "cpu:threads=1,@:threads=1:after=3:lost=4", &w))) {
        standby_steps(t, &w, 3);
        (void)!get_first(&w, 1, values);
        standby_steps(t, &w, STEPS - 3);
        CHECK_SIZE(w.n_lost, 1);
        standby_check_weights(t, &w, 0);
    }
    standby_end(&w);
}

/* Gradients of the last step are asked of one that rested in it. */
static void gradients_are_of_the_last_step(test *t)
{
    static float of_first[16384], of_second[16384];
    training w;
    if (CHECK_OK(standby_begin(t, "cpu:threads=1,@:threads=1", &w))) {
        const dpti_parameter *p = &w.model->parameters[0];
        standby_steps(t, &w, 9);
        CHECK_OK(dpt_trainer_get(w.trainer, 0, DPT_GRADIENT, p->name, of_first, p->size));
        CHECK_OK(dpt_trainer_get(w.trainer, 1, DPT_GRADIENT, p->name, of_second, p->size));
        CHECK(memcmp(of_first, of_second, p->size * sizeof(float)) == 0);
    }
    standby_end(&w);
}

/* Of two that train one is lost, which wakes the third, and the other before that has been given
   what it missed, or later. */
static void lost_when_it_has_woken(test *t)
{
    size_t both = 0;
    for (size_t n = 1; n < 90; n++) {
        char devices[160];
        training w;
        snprintf(devices, sizeof devices,
                 "@:threads=1:after=9:lost=3,@:threads=1:after=9:lost=%zu,cpu:threads=1", n);
        if (CHECK_OK(standby_begin(t, devices, &w))) {
            w.rests = 2;
            standby_steps(t, &w, STEPS);
            both += w.n_lost == 2;
            standby_check_weights(t, &w, 2);
        }
        standby_end(&w);
    }
    CHECK(both > 60);
}

/* Of the data, behind nine steps of one healthy device. */
static double loss_of_nine(test *t)
{
    training w;
    dpt_step_metrics m = {.size = sizeof m};
    dpt_evaluation e = {.size = sizeof e};
    if (CHECK_OK(standby_begin(t, "cpu:threads=1", &w))) {
        for (size_t i = 0; i < 9; i++) {
            CHECK_OK(dpt_trainer_set_lr(w.trainer, 0.05f - 0.002f * (float)i));
            CHECK_OK(dpt_trainer_step(w.trainer, &m));
        }
        CHECK_OK(dpt_trainer_evaluate(w.trainer, w.data, &e));
    }
    standby_end(&w);
    return e.loss;
}

/* Outside of steps: when an evaluation, or whoever asks for weights, meets the loss. */
static void lost_between_steps(test *t)
{
    static float values[16384];
    const double loss = loss_of_nine(t);
    for (size_t n = 1; n < 60; n++) {
        char devices[128];
        training w;
        dpt_evaluation e = {.size = sizeof e, .loss = loss};
        snprintf(devices, sizeof devices, "@:threads=1:after=9:lost=%zu,cpu:threads=1", n);
        if (CHECK_OK(standby_begin(t, devices, &w))) {
            standby_steps(t, &w, 9);
            if (n % 2 == 0)
                CHECK_OK(dpt_trainer_evaluate(w.trainer, w.data, &e));
            else
                CHECK_OK(get_first(&w, 1, values));
            CHECK_NEAR(e.loss, loss, 1e-3);
            CHECK_SIZE(dpt_trainer_steps(w.trainer), 9);
            standby_steps(t, &w, STEPS - 9);
            standby_check_weights(t, &w, 1);
        }
        standby_end(&w);
    }
}

/* Once it has gone back and on, an earlier state is loaded: nothing is done again but what is asked
   for. */
static void loaded_behind_it(test *t)
{
    training w;
    if (CHECK_OK(standby_begin(t, "@:threads=1:after=9:lost=1,cpu:threads=1", &w))) {
        dpt_step_metrics m = {.size = sizeof m};
        standby_steps(t, &w, REST - 1);
        CHECK_OK(dpt_trainer_save_state(w.trainer, "rest.state"));
        standby_steps(t, &w, WAKE - REST);
        CHECK_SIZE(w.n_lost, 1);
        CHECK_OK(dpt_trainer_load_state(w.trainer, "rest.state"));
        for (size_t i = REST - 1; i < STEPS; i++) {
            CHECK_OK(dpt_trainer_set_lr(w.trainer, 0.05f - 0.002f * (float)i));
            CHECK_OK(dpt_trainer_step(w.trainer, &m));
            CHECK_SIZE(m.step, i + 1);
        }
        standby_check_weights(t, &w, 1);
    }
    standby_end(&w);
}

/* One whose replica has missed an update, or differs, does not rest before it is right. */
static void stale_ones_are_mended_first(test *t)
{
    training w;
    if (CHECK_OK(standby_begin(t, "@:threads=1:after=9:lost=1,cpu:threads=1", &w))) {
        standby_steps(t, &w, REST);
        dpti_membership_replica(&w.trainer->workers[1].membership.state, DPTI_REPLICA_MISS);
        standby_steps(t, &w, STEPS - REST);
        CHECK_SIZE(w.n_lost, 1);
        standby_check_weights(t, &w, 1);
    }
    standby_end(&w);
}

/* The step in which it happens takes what was done once more, and nothing counts twice. */
static void what_is_told_of_it(test *t)
{
    for (size_t n = 1; n < 60; n += 4) {
        char devices[128];
        training w;
        dpt_step_metrics m = {.size = sizeof m};
        dpt_device_event event = {.size = sizeof event};
        snprintf(devices, sizeof devices, "@:threads=1:after=13:lost=%zu,cpu:threads=1", n);
        if (CHECK_OK(standby_begin(t, devices, &w))) {
            for (; w.n_steps < STEPS; w.n_steps++) {
                standby_plan(t, &w, w.n_steps);
                CHECK_OK(dpt_trainer_step(w.trainer, &m));
                CHECK(m.seconds > 0);
                if (!dpt_trainer_next_event(w.trainer, &event)) continue;
                CHECK(event.step == m.step || event.step == m.step + 1);
                w.n_lost++;
            }
            CHECK_SIZE(w.n_lost, 1);
            CHECK(w.trainer->plan.account.steps <= STEPS);
        }
        standby_end(&w);
    }
}

/* What a device was found not to hold stays so. */
static void bounds_outlast_it(test *t)
{
    training w;
    if (CHECK_OK(standby_begin(t, "cpu:threads=1,@:threads=1:room=3:from=2", &w))) {
        w.wakes = true;
        standby_steps(t, &w, STEPS);
        CHECK_SIZE(plant_count("fired"), 1);
    }
    standby_end(&w);
}

/* Beside devices that sum among themselves, and stay where they are. */
static void beside_an_island(test *t)
{
    static const char *const lists[] = {
        "@:threads=1:island=1,@:threads=1:island=1,cpu:threads=1",
        "@:threads=1:island=1:after=9:lost=8,@:threads=1:island=1,cpu:threads=1",
    };
    for (size_t i = 0; i < 2; i++) {
        training w;
        if (CHECK_OK(standby_begin(t, lists[i], &w))) {
            w.rests = 2;
            w.wakes = true;
            standby_steps(t, &w, STEPS);
            CHECK_SIZE(w.n_lost, i);
            CHECK_SIZE(plant_count("order"), 0);
            CHECK_SIZE(plant_count("joined"), 1);
            standby_check_weights(t, &w, 2);
        }
        standby_end(&w);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"rests and wakes", rests_and_wakes},
        {"nobody asks", nobody_asks},
        {"whole while alone", whole_while_alone},
        {"lost when it is alone", lost_when_it_is_alone},
        {"the last one is lost", the_last_one_is_lost},
        {"goes on from its last weights", goes_on_from_its_last_weights},
        {"lost while it rests", lost_while_it_rests},
        {"memory wakes", memory_wakes},
        {"memory is short", memory_is_short},
        {"memory is short in updates", memory_is_short_in_updates},
        {"memory is short as another returns", memory_is_short_as_another_returns},
        {"beside an island", beside_an_island},
        {"written while it rests", written_while_it_rests},
        {"torn weights are nobody's", torn_weights_are_nobodys},
        {"lost while saved", lost_while_saved},
        {"lost when it has woken", lost_when_it_has_woken},
        {"starved while saved", starved_while_saved},
        {"lost before it is compared", lost_before_it_is_compared},
        {"gradients are of the last step", gradients_are_of_the_last_step},
        {"loaded while it rests", loaded_while_it_rests},
        {"lost between steps", lost_between_steps},
        {"loaded behind it", loaded_behind_it},
        {"stale ones are mended first", stale_ones_are_mended_first},
        {"what is told of it", what_is_told_of_it},
        {"bounds outlast it", bounds_outlast_it},
    };
    if (argc < 2 || !plant_setup()) {
        fputs("usage: test-fault-standby fault|faultstaged [CASE...]\n", stderr);
        return 2;
    }
    plant p = {.backend = argv[1]};
    return test_run((size_t)argc - 2, argv + 2, cases, sizeof cases / sizeof *cases, &p);
}
