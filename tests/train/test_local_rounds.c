/* Tests rounds of local steps: where dpt_fit ends them, checkpoints and resuming, failures, calls
   within a round, and what cannot be combined. */
#include "harness.h"
#include "train/flat.h"
#include "train/local.h"
#include "train/processes.h"
#include "train/replicas/state.h"
#include "train/replicas/state_buffers.h"
#include "train/rounds/rounds.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- dpt_fit --------------------------------------------------------------------------------- */

static void forget_files(void)
{
    (void)!system("rm -rf kept kept.jsonl");
}

/* Whether a log has a line with both texts. */
static bool log_has(const char *event, const char *text)
{
    char line[4096];
    bool has = false;
    FILE *file = fopen("kept.jsonl", "r");
    while (file && fgets(line, sizeof line, file))
        has = has || (strstr(line, event) && strstr(line, text));
    if (file) fclose(file);
    return has;
}

/* Behind which step the round of a step ends, both from 1. */
static size_t end_of_round(size_t step, size_t local_steps)
{
    const size_t before = (step - 1) / LOCAL_PER_EPOCH * LOCAL_PER_EPOCH, of_epoch = step - before;
    const size_t end = (of_epoch + local_steps - 1) / local_steps * local_steps;
    return before + (end < LOCAL_PER_EPOCH ? end : LOCAL_PER_EPOCH);
}

/* What each process owes is the same. */
static void check_owed(test *t, const local_course *a, const local_course *b)
{
    for (size_t r = 0; r < stand_ins_count(a->devices); r++) {
        const local_state x = {.flats = {a->states[r].residual}},
                          y = {.flats = {b->states[r].residual}};
        local_check_same(t, &x, &y);
    }
}

/* A process asks for the end within a round: the round is completed, and what is resumed is as if
   it had not been interrupted. */
static void resumes_with(test *t, dpt_compression compress, size_t fragments)
{
    const size_t local_steps = 3;
    for (size_t stopper = 0; stopper < 2; stopper++)
        for (size_t stops = 4; stops <= 9; stops += 2) {
            local_course a = local_with(LOCAL_UNEQUAL, local_steps);
            a.options.compress = compress;
            a.options.outer_fragments = fragments;
            local_course b = a, c = a;
            a.fits = b.fits = c.fits = true;
            b.stops = stops;
            b.stopper = stopper;
            c.resumes = true;
            forget_files();
            bool all = local_trains(t, &a);
            forget_files();
            all = all && local_trains(t, &b);
            if (all) {
                CHECK(b.results[0].stopped && b.results[1].stopped);
                CHECK_SIZE(b.n_steps, end_of_round(stops, local_steps));
            }
            if (all && local_trains(t, &c)) {
                CHECK_SIZE(c.n_steps, a.n_steps);
                local_check_processes_agree(t, &c);
                local_check_same(t, &a.states[0], &c.states[0]);
                if (compress != DPT_COMPRESS_NONE) check_owed(t, &a, &c);
                for (size_t s = b.n_steps; s < LOCAL_STEPS; s++)
                    CHECK(a.losses[s] == c.losses[s]);
            }
            local_forget(&a);
            local_forget(&b);
            local_forget(&c);
        }
}

static void resumes(test *t)
{
    resumes_with(t, DPT_COMPRESS_NONE, 0);
    resumes_with(t, DPT_COMPRESS_BF16, 0);
    resumes_with(t, DPT_COMPRESS_INT8, 1);
}

/* With an outer delay the round ends early instead, as if the training had this many steps.  What
   is resumed is as if a training of this many steps were resumed. */
static void ends_early_with(test *t, dpt_compression compress, size_t delay, size_t fragments)
{
    for (size_t stopper = 0; stopper < 2; stopper++)
        for (size_t stops = 4; stops <= 9; stops += 2) {
            local_course a = local_with(LOCAL_UNEQUAL, fragments > 1 ? 2 * fragments : 3);
            a.options.compress = compress;
            a.options.outer_delay = delay;
            a.options.outer_fragments = fragments;
            a.fits = true;
            local_course b = a, c = a, d = a;
            b.stops = stops;
            b.stopper = stopper;
            c.resumes = d.resumes = true;
            forget_files();
            if (local_trains(t, &b)) {
                CHECK(b.results[0].stopped && b.results[1].stopped);
                CHECK(b.n_steps >= stops && b.n_steps <= stops + 3);
            }
            const bool resumed = local_trains(t, &c);
            forget_files();
            a.steps = b.n_steps;
            if (local_trains(t, &a)) {
                local_check_same(t, &a.states[0], &b.states[0]);
                if (compress != DPT_COMPRESS_NONE) check_owed(t, &a, &b);
            }
            if (resumed && local_trains(t, &d)) {
                CHECK_SIZE(c.n_steps, LOCAL_STEPS);
                local_check_processes_agree(t, &c);
                local_check_same(t, &c.states[0], &d.states[0]);
                if (compress != DPT_COMPRESS_NONE) check_owed(t, &c, &d);
                for (size_t s = b.n_steps; s < LOCAL_STEPS; s++)
                    CHECK(c.losses[s] == d.losses[s]);
            }
            local_forget(&a);
            local_forget(&b);
            local_forget(&c);
            local_forget(&d);
        }
}

static void ends_early(test *t)
{
    ends_early_with(t, DPT_COMPRESS_NONE, 2, 1);
    ends_early_with(t, DPT_COMPRESS_INT8, 1, 0);
    ends_early_with(t, DPT_COMPRESS_INT8, 1, 2);
}

/* A checkpoint has one state, with which any number of processes goes on. */
static void other_processes_resume(test *t)
{
    local_course a = local_with(LOCAL_TWO, 3), b = local_with(LOCAL_TWO "|" LOCAL_ONE, 3);
    a.fits = b.fits = b.resumes = true;
    a.stops = 5;
    forget_files();
    if (local_trains(t, &a) && local_trains(t, &b)) {
        CHECK_SIZE(a.n_steps, 6);
        CHECK_SIZE(b.n_steps, LOCAL_STEPS);
        local_check_processes_agree(t, &b);
        CHECK(local_count_differences(&a.states[0], &b.states[0]) > 0);
    }
    local_forget(&a);
    local_forget(&b);
}

/* The last step of a training ends the round, also where none would end. */
static void limits_end_rounds(test *t)
{
    for (size_t n = 5; n <= 11; n += 3) {
        local_course a = local_with(LOCAL_TWO, 4), b = local_with(LOCAL_TWO, 4);
        a.options.outer_delay = b.options.outer_delay = n == 8 ? 0 : n == 5 ? 2 : 1;
        a.options.outer_fragments = b.options.outer_fragments = n == 11 ? 2 : 0;
        a.steps = b.steps = n;
        b.fits = true;
        forget_files();
        if (local_trains(t, &a) && local_trains(t, &b)) {
            CHECK_SIZE(b.n_steps, n);
            local_check_processes_agree(t, &b);
            local_check_same(t, &a.states[0], &b.states[0]);
        }
        local_forget(&a);
        local_forget(&b);
    }
}

/* Checkpoints are made behind rounds, of steps and of epochs. */
static void checkpoints_are_behind_rounds(test *t)
{
    const dpt_fit_options limits = {
        .max_steps = LOCAL_STEPS, .checkpoint_every = {.steps = 2}, .checkpoint_keep = 100};
    local_course c = local_with(LOCAL_TWO, 3);
    c.fits = true;
    c.limits = &limits;
    forget_files();
    if (local_trains(t, &c))
        for (size_t s = 1; s < LOCAL_STEPS; s++) {
            char step[32];
            (void)snprintf(step, sizeof step, "\"step\":%zu,", s);
            if (s % LOCAL_PER_EPOCH % 3 != 0) CHECK(!log_has("\"event\":\"checkpoint\"", step));
        }
    CHECK(log_has("\"event\":\"checkpoint\"", "\"step\":3,"));
    CHECK(log_has("\"event\":\"checkpoint\"", "\"step\":19,"));
    local_forget(&c);
}

/* ---- Failures -------------------------------------------------------------------------------- */

/* In step 6 the weights of process 1 are not finite. */
static dpt_status spoil(dpt_trainer *t, size_t step)
{
    if (step != 6 || dpt_process_rank(t->context) != 1) return DPT_OK;
    dpt_step_metrics m = {.size = sizeof m};
    while (dpt_trainer_in_flight(t) > 0)
        DPT_TRY(dpt_trainer_collect(t, &m));
    float *flat = dpti_trainer_make_flat(t);
    if (!flat) return DPT_E_NO_MEMORY;
    for (size_t i = 0; i < t->model->flat_trained; i++)
        flat[i] = NAN;
    const dpt_status status = dpti_trainer_write(t, 0, DPT_PARAMETER, flat);
    free(flat);
    return status;
}

static void failures_end_all(test *t)
{
    local_course c = local_with(LOCAL_TWO, 4);
    c.before = spoil;
    CHECK_STATUS(local_train(&c), DPT_E_NOT_FINITE);
    for (size_t r = 0; r < 2; r++) {
        CHECK_STATUS(c.statuses[r], DPT_E_NOT_FINITE);
        CHECK_CONTAINS(c.messages[r], "of process 1");
        CHECK_CONTAINS(c.messages[r], "of step 6");
    }
    local_forget(&c);
}

/* What the other process has taken of the round is of no use: a state is loaded, here that behind
   step 4, and training is as if nothing had been. */
static dpt_status spoil_and_load(dpt_trainer *t, size_t step)
{
    static bool spoilt[2];
    const size_t rank = dpt_process_rank(t->context);
    dpt_step_metrics m = {.size = sizeof m};
    char path[32];
    (void)snprintf(path, sizeof path, "state-%zu.safetensors", rank);
    if (step == 5 && !spoilt[rank]) return dpt_trainer_save_state(t, path);
    if (step != 6 || spoilt[rank]) return DPT_OK;
    spoilt[rank] = true;
    while (dpt_trainer_in_flight(t) > 0)
        DPT_TRY(dpt_trainer_collect(t, &m));
    DPT_TRY(spoil(t, step));
    DPT_TRY(dpt_trainer_submit(t));
    if (dpt_trainer_collect(t, &m) != DPT_E_NOT_FINITE) return DPT_E_INTERNAL;
    if (dpt_trainer_step(t, &m) != DPT_E_STATE) return DPT_E_INTERNAL;
    return dpt_trainer_load_state(t, path);
}

static void states_are_loaded(test *t)
{
    local_course a = local_with(LOCAL_TWO, 4), b = local_with(LOCAL_TWO, 4);
    b.before = spoil_and_load;
    if (local_trains(t, &a) && local_trains(t, &b)) {
        local_check_processes_agree(t, &b);
        local_check_same(t, &a.states[0], &b.states[0]);
    }
    local_forget(&a);
    local_forget(&b);
}

/* In step 4 of rounds of 3, with the exchange of the first one in flight, weights are not finite.
 */
static dpt_status spoil_beside(dpt_trainer *t, size_t step)
{
    static bool spoilt[2];
    const size_t rank = dpt_process_rank(t->context);
    dpt_step_metrics m = {.size = sizeof m};
    char path[32];
    (void)snprintf(path, sizeof path, "beside-%zu.safetensors", rank);
    if (step == 1 && !spoilt[rank]) return dpt_trainer_save_state(t, path);
    if (step != 4 || spoilt[rank]) return DPT_OK;
    spoilt[rank] = true;
    if (!dpti_rounds_in_flight(t)) return DPT_E_INTERNAL;
    float *flat = dpti_trainer_make_flat(t);
    for (size_t i = 0; flat && i < t->model->flat_trained; i++)
        flat[i] = NAN;
    if (!flat || (rank == 1 && dpti_trainer_write(t, 0, DPT_PARAMETER, flat) != DPT_OK))
        return DPT_E_INTERNAL;
    free(flat);
    if (dpt_trainer_step(t, &m) != DPT_E_NOT_FINITE) return DPT_E_INTERNAL;
    if (dpti_rounds_in_flight(t)) return DPT_E_INTERNAL;
    return dpt_trainer_load_state(t, path);
}

/* What was in flight when steps failed is of no use: a state is loaded, and training is as if
   nothing had been. */
static void exchanges_are_dropped(test *t)
{
    local_course a = local_with(LOCAL_TWO, 3), b = local_with(LOCAL_TWO, 3);
    a.options.outer_delay = b.options.outer_delay = 2;
    b.before = spoil_beside;
    if (local_trains(t, &a) && local_trains(t, &b)) {
        local_check_processes_agree(t, &b);
        local_check_same(t, &a.states[0], &b.states[0]);
    }
    local_forget(&a);
    local_forget(&b);
}

/* The transport fails at any time, in a step, in the end of a round, or beside steps. */
static void transport_fails(test *t, size_t local_steps, size_t delay, size_t fragments)
{
    size_t n_failed = 0;
    for (size_t after = 20; n_failed < 1000; after += 2) {
        local_course c = local_with(LOCAL_TWO, local_steps);
        c.options.outer_delay = delay;
        c.options.outer_fragments = fragments;
        c.steps = 7;
        stand_ins_fail(1, after);
        const dpt_status status = local_train(&c);
        stand_ins_fail(0, SIZE_MAX);
        for (size_t r = 0; status != DPT_OK && r < 2; r++)
            if (!CHECK(c.statuses[r] != DPT_OK) || !CHECK(strstr(c.messages[r], "is cut")))
                FAIL("after %zu, process %zu: %s", after, r, c.messages[r]);
        local_forget(&c);
        if (status == DPT_OK) break;
        n_failed++;
    }
    CHECK(n_failed > 20);
}

static void transports_fail(test *t)
{
    transport_fails(t, 2, 0, 1);
    transport_fails(t, 2, 1, 1);
    transport_fails(t, 4, 1, 2);
}

/* ---- Calls within a round -------------------------------------------------------------------- */

static dpt_status refused(dpt_trainer *t, dpt_status status)
{
    const bool told = strstr(dpt_error_message(t->context), "round of local steps");
    return status == DPT_E_STATE && told ? DPT_OK : DPT_E_INTERNAL;
}

/* In step 3 of rounds of 4. */
static dpt_status try_calls(dpt_trainer *t, size_t step)
{
    dpt_step_metrics m = {.size = sizeof m};
    dpt_evaluation e = {.size = sizeof e};
    dpt_fit_result r = {.size = sizeof r};
    const dpt_fit_options options = {.size = sizeof options, .max_steps = 1};
    float value[1] = {0};
    if (step != 3) return DPT_OK;
    while (dpt_trainer_in_flight(t) > 0)
        DPT_TRY(dpt_trainer_collect(t, &m));
    DPT_TRY(refused(t, dpt_trainer_evaluate(t, t->data, &e)));
    DPT_TRY(refused(t, dpt_trainer_save(t, "weights.safetensors")));
    DPT_TRY(refused(t, dpt_trainer_save_state(t, "state.safetensors")));
    DPT_TRY(refused(t, dpt_trainer_load(t, "weights.safetensors")));
    DPT_TRY(refused(t, dpt_trainer_load_state(t, "state.safetensors")));
    DPT_TRY(refused(t, dpt_trainer_set(t, DPT_PARAMETER, "none", value, 1)));
    DPT_TRY(refused(t, dpt_fit(t, &options, &r)));
    /* Up to the end of the round, behind which nothing can be submitted. */
    DPT_TRY(dpt_trainer_submit(t));
    DPT_TRY(dpt_trainer_submit(t));
    DPT_TRY(dpt_trainer_collect(t, &m));
    DPT_TRY(refused(t, dpt_trainer_submit(t)));
    DPT_TRY(dpt_trainer_collect(t, &m));
    return dpt_trainer_evaluate(t, t->data, &e);
}

static void calls_within_rounds(test *t)
{
    local_course c = local_with(LOCAL_TWO, 4);
    c.before = try_calls;
    if (local_trains(t, &c)) local_check_processes_agree(t, &c);
    local_forget(&c);
}

/* Behind step 4 of rounds of 3, with an exchange in flight: the round ends at once, and is over. */
static dpt_status end_early(dpt_trainer *t, size_t step)
{
    dpt_step_metrics m = {.size = sizeof m};
    dpt_evaluation e = {.size = sizeof e};
    if (step != 5) return DPT_OK;
    while (dpt_trainer_in_flight(t) > 0)
        DPT_TRY(dpt_trainer_collect(t, &m));
    if (!dpti_rounds_in_flight(t)) return DPT_E_INTERNAL;
    DPT_TRY(refused(t, dpt_trainer_evaluate(t, t->data, &e)));
    DPT_TRY(dpt_trainer_end_round(t));
    DPT_TRY(dpt_trainer_evaluate(t, t->data, &e));
    /* Two steps in flight behind which an outer step would be taken if one were in flight. */
    DPT_TRY(dpt_trainer_submit(t));
    DPT_TRY(dpt_trainer_collect(t, &m));
    return dpti_rounds_in_flight(t) || m.round_seconds > 0 ? DPT_E_INTERNAL : DPT_OK;
}

static void rounds_in_flight_end_early(test *t)
{
    local_course c = local_with(LOCAL_TWO, 3);
    c.options.outer_delay = 2;
    c.before = end_early;
    if (local_trains(t, &c)) local_check_processes_agree(t, &c);
    local_forget(&c);
}

/* A trainer is destroyed with an exchange in flight. */
static dpt_status leave_in_flight(dpt_trainer *t, size_t step)
{
    return step == 4 && dpti_rounds_in_flight(t) ? DPT_E_CANCELLED : DPT_OK;
}

static void trainers_are_destroyed_in_flight(test *t)
{
    local_course c = local_with(LOCAL_TWO, 3);
    c.options.outer_delay = 1;
    c.before = leave_in_flight;
    CHECK_STATUS(local_train(&c), DPT_E_CANCELLED);
    CHECK_STATUS(c.statuses[1], DPT_E_CANCELLED);
    local_forget(&c);
}

/* One process ends the round in which the other takes a step: behind step 2 of rounds of 4, or step
   3. */
static size_t ender, end_after;

static dpt_status end_alone(dpt_trainer *t, size_t step)
{
    dpt_step_metrics m = {.size = sizeof m};
    if (step != end_after + 1 || dpt_process_rank(t->context) != ender) return DPT_OK;
    while (dpt_trainer_in_flight(t) > 0)
        DPT_TRY(dpt_trainer_collect(t, &m));
    const dpt_status status = dpt_trainer_end_round(t);
    if (status == DPT_OK || dpt_trainer_step(t, &m) != DPT_E_STATE) return DPT_E_INTERNAL;
    return status;
}

static void rounds_end_together(test *t)
{
    for (ender = 0; ender < 2; ender++)
        for (end_after = 2; end_after < 4; end_after++) {
            local_course c = local_with(LOCAL_TWO, 4);
            c.before = end_alone;
            CHECK_STATUS(local_train(&c), DPT_E_INVALID);
            CHECK_STATUS(c.statuses[1 - ender], DPT_E_INVALID);
            CHECK_CONTAINS(c.messages[1 - ender],
                           ender == 0 ? "takes a step where process 0 ends the round"
                                      : "ends the round where process 0 takes a step");
            local_forget(&c);
        }
}

/* ---- What cannot be combined ----------------------------------------------------------------- */

static void check_refused(test *t, const dpt_trainer_options *options, const char *devices,
                          const char *words)
{
    local_course c = local_with(devices, options->local_steps);
    c.options = *options;
    CHECK_STATUS(local_train(&c), DPT_E_INVALID);
    CHECK_CONTAINS(c.messages[0], words);
    local_forget(&c);
}

static void refusals(test *t)
{
    const dpt_trainer_options good = local_with(LOCAL_TWO, 4).options;
    dpt_trainer_options o = good;
    check_refused(t, &o, LOCAL_ONE, "by several processes, and there is one");
    o.accumulate = 2;
    check_refused(t, &o, LOCAL_TWO, "cannot be combined with accumulate");
    o = good;
    o.deterministic = true;
    check_refused(t, &o, LOCAL_TWO, "cannot be combined with deterministic");
    o = good;
    o.outer_lr = -1;
    check_refused(t, &o, LOCAL_TWO, "an outer learning rate of -1");
    o = good;
    o.outer_momentum = 1;
    check_refused(t, &o, LOCAL_TWO, "an outer momentum of 1 ");
    o = good;
    o.outer_delay = 4;
    check_refused(t, &o, LOCAL_TWO, "an outer delay of 4 steps is not less than the 4 local steps");
    o.outer_delay = 2;
    o.outer_fragments = 2;
    check_refused(t, &o, LOCAL_TWO, "2 steps is not less than the 2 steps from one of 2");
    o.outer_delay = 1;
    o.outer_fragments = 5;
    check_refused(t, &o, LOCAL_TWO, "1 steps is not less than the 0 steps from one of 5");
    o.outer_delay = 0;
    check_refused(t, &o, LOCAL_TWO, "give outer-delay");
    o = good;
    o.local_steps = 0;
    o.outer_delay = 1;
    check_refused(t, &o, LOCAL_TWO, "belong to local steps");
    o.outer_delay = 0;
    o.outer_lr = 0.5f;
    check_refused(t, &o, LOCAL_TWO, "belong to local steps");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"a training that is interrupted resumes", resumes},
        {"with an outer delay a training that is interrupted ends early", ends_early},
        {"other processes resume", other_processes_resume},
        {"limits end rounds", limits_end_rounds},
        {"checkpoints are behind rounds", checkpoints_are_behind_rounds},
        {"failures end all processes", failures_end_all},
        {"a state is loaded after a failure", states_are_loaded},
        {"an exchange is dropped after a failure", exchanges_are_dropped},
        {"the transport fails", transports_fail},
        {"calls within rounds", calls_within_rounds},
        {"a round in flight ends early", rounds_in_flight_end_early},
        {"a trainer is destroyed with an exchange in flight", trainers_are_destroyed_in_flight},
        {"rounds end together", rounds_end_together},
        {"what cannot be combined", refusals},
    };
    char folder[TEST_FOLDER_BYTES];
    if (!test_enter_folder(folder)) return 1;
    const int status = test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
    test_remove_folder(folder);
    return status;
}
