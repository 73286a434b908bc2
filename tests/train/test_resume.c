/* Tests that a resumed training has the bits of one without the interruption, whenever that came,
   and that a state of another training is refused. */
#include "harness.h"
#include "io/file.h"
#include "train/programs/worker.h"
#include "train/recovery/recover.h"
#include "train/replicas/state.h"
#include "train/resume.h"
#include "train/support.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Trains up to `stop`, loses what was written behind `kept`, and goes on in a new trainer. */
static void interrupt_at(test *t, const dpt_trainer_options *options, size_t stop, size_t kept,
                         const training *whole, const record *seen, const dpt_fit_result *result)
{
    const setting *s = t->user;
    training w;
    record first = {.stop_after = stop}, second = {.n_steps = 0};
    dpt_fit_result r = {.size = sizeof r};
    resume_empty(t, "cut");
    if (resume_open(t, resume_devices, options, &w)) {
        const dpt_fit_options fit = resume_fit_options(s, "cut", &first);
        CHECK_OK(dpt_fit(w.trainer, &fit, &r));
        CHECK(r.stopped);
    }
    resume_close(&w);
    const size_t done = r.steps; /* also a step that was in flight */
    const bool any = forget_checkpoints(t, "cut", kept) > 0;
    if (resume_open(t, resume_devices, options, &w)) {
        dpt_fit_options fit = resume_fit_options(s, "cut", &second);
        fit.resume = true;
        if (!CHECK_OK(dpt_fit(w.trainer, &fit, &r))) FAIL("%s", dpt_error_message(s->context));
        resume_check_same(t, whole, &w);
        resume_check_results(t, result, &r);
        CHECK_SIZE(second.n_infos, 1);
        CHECK_CONTAINS(second.last, any ? "resuming from cut/checkpoint-" : "beginning at step 1");
        for (size_t i = 1; i <= STEPS; i++)
            if (second.loss[i] != 0) CHECK_NEAR(second.loss[i], seen->loss[i], 0);
        for (size_t i = 1; i <= EPOCHS; i++)
            if (second.train_loss[i] != 0) CHECK_NEAR(second.train_loss[i], seen->train_loss[i], 0);
        CHECK(second.n_steps >= STEPS - stop && second.n_steps <= STEPS);
        if (kept >= done) CHECK_SIZE(second.n_steps, STEPS - done);
    }
    resume_close(&w);
}

static void interrupt_everywhere(test *t, const dpt_trainer_options *options)
{
    const setting *s = t->user;
    training whole;
    record seen = {.n_steps = 0};
    dpt_fit_result result = {.size = sizeof result};
    if (resume_open(t, resume_devices, options, &whole)) {
        dpt_fit_options fit = resume_fit_options(s, NULL, &seen);
        CHECK_OK(dpt_fit(whole.trainer, &fit, &result));
        CHECK_SIZE(seen.n_steps, STEPS);
        for (size_t stop = 1; stop <= STEPS; stop++)
            interrupt_at(t, options, stop, stop, &whole, &seen, &result);
        for (size_t stop = 3; stop <= STEPS; stop += 4)
            interrupt_at(t, options, stop, stop - 2, &whole, &seen, &result);
        interrupt_at(t, options, 3, 0, &whole, &seen, &result);
    }
    resume_close(&whole);
}

static void sgd_goes_on_exactly(test *t)
{
    interrupt_everywhere(t, &resume_sgd);
}

static void adamw_goes_on_exactly(test *t)
{
    interrupt_everywhere(t, &resume_adamw);
}

/* Patience and the best epoch are those of the whole. */
static void patience_goes_on(test *t)
{
    const setting *s = t->user;
    dpt_fit_result results[2];
    dpt_trainer_options wild = resume_sgd;
    wild.lr = 0.4f;
    for (size_t i = 0; i < 2; i++) {
        training w = {.devices = NULL};
        record r = {.stop_after = i == 0 ? 0 : 12};
        resume_empty(t, "patient");
        for (size_t part = 0; part <= i; part++) {
            if (!resume_open(t, resume_devices, &wild, &w)) return;
            dpt_fit_options fit = resume_fit_options(s, "patient", &r);
            fit.epochs = 40;
            fit.patience = 2;
            fit.schedule.kind = DPT_SCHEDULE_CONSTANT;
            fit.resume = part > 0;
            results[i].size = sizeof results[i];
            CHECK_OK(dpt_fit(w.trainer, &fit, &results[i]));
            resume_close(&w);
            r.stop_after = 0;
        }
    }
    CHECK(results[0].no_patience);
    CHECK_SIZE(results[0].epochs, results[1].epochs);
    resume_check_results(t, &results[0], &results[1]);
}

/* ---- Trainers by themselves ------------------------------------------------------------------ */

static void a_state_goes_on_exactly(test *t)
{
    training a = {.devices = NULL}, b = a;
    for (size_t i = 0; i < 2; i++) {
        const dpt_trainer_options *o = i == 0 ? &resume_sgd : &resume_adamw;
        if (resume_open(t, resume_devices, o, &a) && resume_open(t, resume_devices, o, &b)) {
            resume_make_steps(t, &a, 7);
            CHECK_OK(dpt_trainer_set_lr(a.trainer, 0.02f));
            CHECK_OK(dpt_trainer_save_state(a.trainer, "state.safetensors"));
            resume_make_steps(t, &b, 3); /* are forgotten */
            CHECK_OK(dpt_trainer_load_state(b.trainer, "state.safetensors"));
            resume_check_same(t, &a, &b);
            resume_make_steps(t, &a, 9);
            resume_make_steps(t, &b, 9);
            resume_check_same(t, &a, &b);
        }
        resume_close(&b);
        resume_close(&a);
    }
}

/* By which a device finds the gradient of filters. */
static const char *way_of(test *t, const training *w, size_t device)
{
    dpt_operation o = {.size = sizeof o, .algorithm = "none"};
    for (size_t i = 0; i < dpt_trainer_operation_count(w->trainer, device); i++) {
        CHECK_OK(dpt_trainer_operation(w->trainer, device, i, &o));
        if (strcmp(o.kind, "CONV2D_BACKWARD_WEIGHTS") == 0) break;
    }
    return o.algorithm;
}

/* As if that had been measured to be the fastest on all devices. */
static void choose(test *t, training *w, const char *way)
{
    for (size_t i = 0; i < w->trainer->n_workers; i++) {
        dpti_recorded_choices *kept = &w->trainer->workers[i].kept;
        for (size_t k = 0; k < kept->n; k++) {
            if (strcmp(kept->items[k].kind, "CONV2D_BACKWARD_WEIGHTS") != 0) continue;
            free(kept->items[k].algorithm);
            kept->items[k].algorithm = strdup(way);
        }
    }
    CHECK_OK(dpti_trainer_rebuild(w->trainer));
}

/* Devices that would choose otherwise go on by the algorithms that the training had; others, and
   such as are asked for another way, choose. */
static void algorithms_go_on(test *t)
{
    static const char other[] = "cpu:threads=1,cpu:threads=1:algorithm=direct";
    training a = {.devices = NULL}, b = a, c = a;
    if (resume_open(t, resume_devices, &resume_sgd, &a) &&
        resume_open(t, resume_devices, &resume_sgd, &b) && resume_open(t, other, &resume_sgd, &c)) {
        choose(t, &a, "columns");
        CHECK_TEXT(way_of(t, &a, 0), "columns");
        CHECK_TEXT(way_of(t, &b, 0), "direct");
        resume_make_steps(t, &a, 7);
        CHECK_OK(dpt_trainer_save_state(a.trainer, "state.safetensors"));
        CHECK_OK(dpt_trainer_load_state(b.trainer, "state.safetensors"));
        CHECK_TEXT(way_of(t, &b, 0), "columns");
        CHECK_TEXT(way_of(t, &b, 1), "columns");
        resume_make_steps(t, &a, 9);
        resume_make_steps(t, &b, 9);
        resume_check_same(t, &a, &b);
        CHECK_OK(dpt_trainer_load_state(c.trainer, "state.safetensors"));
        CHECK_TEXT(way_of(t, &c, 0), "columns");
        CHECK_TEXT(way_of(t, &c, 1), "direct");
        resume_make_steps(t, &c, 2);
        /* One that cannot be had any more. */
        choose(t, &a, "columns");
        free(a.trainer->workers[1].kept.items[0].algorithm);
        a.trainer->workers[1].kept.items[0].algorithm = strdup("of tomorrow");
        CHECK_OK(dpt_trainer_save_state(a.trainer, "state.safetensors"));
        CHECK_OK(dpt_trainer_load_state(b.trainer, "state.safetensors"));
        CHECK_TEXT(way_of(t, &b, 1), "columns");
        resume_check_same(t, &a, &b);
    }
    resume_close(&c);
    resume_close(&b);
    resume_close(&a);
}

static void check_same_files(test *t, const char *a, const char *b)
{
    dpti_content first = {.bytes = NULL}, second = {.bytes = NULL};
    dpt_error error;
    if (CHECK_OK(dpti_file_read(a, &first, &error)) &&
        CHECK_OK(dpti_file_read(b, &second, &error)) && CHECK_SIZE(first.n_bytes, second.n_bytes))
        CHECK(memcmp(first.bytes, second.bytes, first.n_bytes) == 0);
    free(first.bytes);
    free(second.bytes);
}

/* A training that began with weights of an earlier one has seen that one's batches, too:
   batch-norm's counter in the files says so. */
static void batches_of_before_count(test *t)
{
    training a = {.devices = NULL}, b = a;
    if (resume_open(t, resume_devices, &resume_sgd, &a) &&
        resume_open(t, resume_devices, &resume_sgd, &b)) {
        resume_make_steps(t, &a, 2);
        CHECK_OK(dpt_trainer_save(a.trainer, "two-batches.safetensors"));
        resume_make_steps(t, &b, 1);
        CHECK_OK(dpt_trainer_load(b.trainer, "two-batches.safetensors"));
        resume_make_steps(t, &b, 1); /* three batches in two steps */
        CHECK_OK(dpt_trainer_save(b.trainer, "three-batches.safetensors"));
        CHECK_OK(dpt_trainer_save_state(b.trainer, "state.safetensors"));
        CHECK_OK(dpt_trainer_load_state(a.trainer, "state.safetensors"));
        CHECK_OK(dpt_trainer_save(a.trainer, "resumed.safetensors"));
        check_same_files(t, "three-batches.safetensors", "resumed.safetensors");
    }
    resume_close(&b);
    resume_close(&a);
}

/* A program whose decimal point is a comma takes the same options, and reads the state that another
   one has written, and the other way. */
static void states_know_no_locale(test *t)
{
    static const char devices[] = "cpu:threads=1,cpu:threads=1:throttle=1.5";
    training plain = {.devices = NULL}, commas = plain;
    dpt_trainer_options fractions = resume_sgd;
    fractions.split = dpt_split_from("2.5:1");
    fractions.init = (dpt_init){DPT_INIT_NORMAL, 0.1};
    if (!test_set_comma_locale()) SKIP("no locale with a decimal comma, and no localedef");
    const bool made = resume_open(t, devices, &fractions, &commas);
    setlocale(LC_ALL, "C");
    if (resume_open(t, devices, &fractions, &plain) && made) {
        resume_make_steps(t, &plain, 7);
        CHECK_OK(dpt_trainer_save_state(plain.trainer, "state.safetensors"));
        CHECK(test_set_comma_locale());
        CHECK_OK(dpt_trainer_load_state(commas.trainer, "state.safetensors"));
        resume_check_same(t, &plain, &commas);
        resume_make_steps(t, &commas, 2);
        CHECK_OK(dpt_trainer_save_state(commas.trainer, "state.safetensors"));
        setlocale(LC_ALL, "C");
        CHECK_OK(dpt_trainer_load_state(plain.trainer, "state.safetensors"));
        resume_check_same(t, &plain, &commas);
    }
    resume_close(&plain);
    resume_close(&commas);
}

/* Another mix makes the same steps but for rounding. */
static void another_mix_goes_on(test *t)
{
    const setting *s = t->user;
    const size_t n = s->model->flat_size;
    float *flat = calloc(2 * n, sizeof *flat);
    training a = {.devices = NULL}, b = a;
    dpt_trainer_options three = resume_sgd;
    three.split = dpt_split_from("1:1:2");
    if (resume_open(t, resume_devices, &resume_sgd, &a) &&
        resume_open(t, "cpu:threads=1,cpu:threads=1,cpu:threads=1", &three, &b) && CHECK(flat)) {
        resume_make_steps(t, &a, 7);
        CHECK_OK(dpt_trainer_save_state(a.trainer, "state.safetensors"));
        CHECK_OK(dpt_trainer_load_state(b.trainer, "state.safetensors"));
        resume_make_steps(t, &a, 5);
        resume_make_steps(t, &b, 5);
        CHECK_OK(dpti_trainer_read(a.trainer, 0, DPT_PARAMETER, flat));
        CHECK_OK(dpti_trainer_read(b.trainer, 2, DPT_PARAMETER, flat + n));
        double norm = 0;
        for (size_t i = 0; i < n; i++)
            norm += pow((double)flat[i], 2);
        CHECK_NEAR(distance(flat, flat + n, n) / sqrt(norm), 0, 1e-4);
    }
    resume_close(&b);
    resume_close(&a);
    free(flat);
}

/* What the balance knows is there again; on other devices it begins anew. */
static void the_balance_goes_on(test *t)
{
    static const char uneven[] = "cpu:threads=1,cpu:threads=1:throttle=3";
    dpti_time_model models[2][2];
    size_t shards[2][2];
    bool calibrated = false;
    training a = {.devices = NULL}, b = a, c = a;
    dpt_trainer_options measured = resume_sgd;
    measured.split = dpt_split_from("measured");
    if (resume_open(t, uneven, &measured, &a) && resume_open(t, uneven, &measured, &b) &&
        resume_open(t, resume_devices, &measured, &c)) {
        resume_make_steps(t, &a, 25);
        CHECK_OK(dpt_trainer_save_state(a.trainer, "state.safetensors"));
        CHECK_OK(dpt_trainer_load_state(b.trainer, "state.safetensors"));
        CHECK(dpti_balance_learnt(a.trainer->plan.balance, models[0], shards[0], &calibrated));
        CHECK(calibrated);
        CHECK(dpti_balance_learnt(b.trainer->plan.balance, models[1], shards[1], &calibrated));
        CHECK(calibrated);
        for (size_t i = 0; i < 2; i++) {
            CHECK_SIZE(shards[0][i], shards[1][i]);
            CHECK_NEAR(models[0][i].a, models[1][i].a, 0);
            CHECK_NEAR(models[0][i].b, models[1][i].b, 0);
            CHECK_SIZE(models[0][i].n_seen, models[1][i].n_seen);
        }
        resume_make_steps(t, &b, 5);
        CHECK_OK(dpt_trainer_load_state(c.trainer, "state.safetensors"));
        CHECK(!dpti_balance_learnt(c.trainer->plan.balance, models[1], shards[1], &calibrated));
        resume_make_steps(t, &c, 5);
    }
    resume_close(&c);
    resume_close(&b);
    resume_close(&a);
}

static void weights_alone_are_no_state(test *t)
{
    const setting *s = t->user;
    training a = {.devices = NULL}, b = a;
    if (resume_open(t, resume_devices, &resume_sgd, &a) &&
        resume_open(t, resume_devices, &resume_sgd, &b)) {
        resume_make_steps(t, &a, 2);
        CHECK_OK(dpt_trainer_save(a.trainer, "weights.safetensors"));
        CHECK_STATUS(dpt_trainer_load_state(b.trainer, "weights.safetensors"), DPT_E_FORMAT);
        CHECK_CONTAINS(dpt_error_message(s->context), "has weights only");
        /* The other way round the weights are found. */
        CHECK_OK(dpt_trainer_save_state(a.trainer, "state.safetensors"));
        CHECK_OK(dpt_trainer_load(b.trainer, "state.safetensors"));
        CHECK_SIZE(dpt_trainer_steps(b.trainer), 0);
    }
    resume_close(&b);
    resume_close(&a);
}

static void other_trainings_are_refused(test *t)
{
    const setting *s = t->user;
    enum { N = 8 };
    dpt_trainer_options others[N];
    static const char *const words[N] = {"another seed (3, and now it is 9)",
                                         "another batch-size (32, and now it is 31)",
                                         "another momentum (0.9, and now it is 0.8)",
                                         "another weight-decay",
                                         "another no-shuffle (no, and now it is yes)",
                                         "another optimizer (sgd, and now it is adamw)",
                                         "another label-smoothing",
                                         "another augment (crop 1"};
    training a = {.devices = NULL}, b = a;
    for (size_t i = 0; i < N; i++)
        others[i] = resume_sgd;
    others[0].seed = 9;
    others[1].batch_size = 31;
    others[2].momentum = 0.8f;
    others[3].weight_decay = 0;
    others[4].no_shuffle = true;
    others[5] = (dpt_trainer_options){.size = sizeof(dpt_trainer_options),
                                      .batch_size = BATCH,
                                      .seed = 3,
                                      .split = {DPT_SPLIT_PROPORTIONS, "3:1"},
                                      .optimizer = DPT_OPTIMIZER_ADAMW};
    others[6].label_smoothing = 0.1f;
    others[7].augment.flip = false;
    if (resume_open(t, resume_devices, &resume_sgd, &a)) {
        resume_make_steps(t, &a, 2);
        CHECK_OK(dpt_trainer_save_state(a.trainer, "state.safetensors"));
        for (size_t i = 0; i < N; i++) {
            if (resume_open(t, resume_devices, &others[i], &b)) {
                CHECK_STATUS(dpt_trainer_load_state(b.trainer, "state.safetensors"), DPT_E_INVALID);
                CHECK_CONTAINS(dpt_error_message(s->context), words[i]);
                CHECK_SIZE(dpt_trainer_steps(b.trainer), 0);
            }
            resume_close(&b);
        }
    }
    resume_close(&a);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"sgd goes on exactly", sgd_goes_on_exactly},
        {"adamw goes on exactly", adamw_goes_on_exactly},
        {"patience goes on", patience_goes_on},
        {"a state goes on exactly", a_state_goes_on_exactly},
        {"algorithms go on", algorithms_go_on},
        {"batches of before count", batches_of_before_count},
        {"states know no locale", states_know_no_locale},
        {"another mix goes on", another_mix_goes_on},
        {"the balance goes on", the_balance_goes_on},
        {"weights alone are no state", weights_alone_are_no_state},
        {"other trainings are refused", other_trainings_are_refused},
    };
    return resume_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
