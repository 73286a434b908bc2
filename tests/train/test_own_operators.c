/* Tests operators that are functions of the program: a network with them trains as the same network
   of built-in layers does, on each mix; a function that fails ends the call and loses nothing. */
#include "train/callback.h"
#include "train/processes.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- The same training ----------------------------------------------------------------------- */

static void operators_train_as_layers(test *t)
{
    counts c = {.weight = 0};
    const run plain = {.network = IMAGE,
                       .answers = TARGETS,
                       .options = {.lr = 0.05f, .momentum = 0.9f, .loss = DPT_LOSS_SQUARED_ERROR}};
    run own = plain;
    own.network = IMAGE_OWN;
    own.counts = &c;
    callback_compare_networks(t, plain, own, 1);
    CHECK(atomic_load(&c.forwards) > atomic_load(&c.backwards));
    CHECK(atomic_load(&c.samples) % (STEPS * BATCH) == 0 && atomic_load(&c.samples) > 0);
    own.options.micro_batch = 5;
    callback_compare_networks(t, plain, own, 1);
}

static void order_is_that_of_the_documents(test *t)
{
    const run image = {.network = RAMP,
                       .answers = TARGETS,
                       .options = {.lr = 0.01f, .loss = DPT_LOSS_SQUARED_ERROR}};
    run flat = image;
    flat.network = RAMP_FLAT;
    callback_compare_networks(t, image, flat, 1);
}

static void operators_take_ids(test *t)
{
    const run plain = {.network = IDS_PLAIN,
                       .answers = TARGETS,
                       .options = {.lr = 0.02f, .loss = DPT_LOSS_SQUARED_ERROR}};
    run own = plain;
    own.network = IDS_OWN;
    callback_compare_networks(t, plain, own, 1);
}

static void operators_take_parameters(test *t)
{
    const run plain = {.network = SCALED,
                       .answers = TARGETS,
                       .options = {.lr = 0.02f, .loss = DPT_LOSS_SQUARED_ERROR}};
    run own = plain;
    own.network = SCALED_OWN;
    own.options.micro_batch = 5;
    callback_compare_networks(t, plain, own, 1);
}

/* On devices with activations of 16 bits the functions see float32. */
static void bfloat16_is_widened(test *t)
{
    static outcome a, b;
    counts c = {.weight = 1};
    const mix one = {"cpu", "1"};
    mix narrow = {"@0:precision=bf16", "1"};
    const run plain = {.where = &one,
                       .network = IMAGE,
                       .answers = TARGETS,
                       .options = {.lr = 0.05f, .loss = DPT_LOSS_SQUARED_ERROR}};
    if (testing_cpu()) SKIP("the CPU computes with float32");
    narrow.devices = tested_devices(narrow.devices);
    run own = plain;
    own.where = &narrow;
    own.network = IMAGE_OWN;
    own.counts = &c;
    own.options.loss = DPT_LOSS_OWN_OF_TARGETS;
    own.options.own_loss = callback_lose_squares;
    own.options.own_loss_user = &c;
    if (callback_train(t, &plain, &a) && callback_train(t, &own, &b))
        callback_compare(t, &a, &b, 1, 2e-2);
}

/* ---- The same bits --------------------------------------------------------------------------- */

/* Operators that say so train deterministically on every mix.  The operator of SCALED_OWN has a
   parameter as an input. */
static void bits_are_the_same(test *t)
{
    static outcome right, o;
    static const network networks[] = {IMAGE_OWN, SCALED_OWN};
    const mix_list mixes = *(const mix_list *)t->user;
    const mix one = {"cpu:threads=1", "1"};
    counts c = {.weight = 1, .declared = true};
    for (size_t k = 0; k < sizeof networks / sizeof *networks; k++) {
        run r = {.where = &one,
                 .network = networks[k],
                 .answers = TARGETS,
                 .counts = &c,
                 .options = {.lr = 0.02f,
                             .loss = DPT_LOSS_OWN_OF_TARGETS,
                             .own_loss = callback_lose_squares,
                             .own_loss_user = &c,
                             .deterministic = true,
                             .own_loss_deterministic = true}};
        if (!callback_train(t, &r, &right)) continue;
        CHECK(right.losses[STEPS - 2] < right.losses[0]);
        r.options.micro_batch = 5;
        for (size_t i = 0; i < mixes.n; i++) {
            r.where = &mixes.items[i];
            if (!callback_train(t, &r, &o)) continue;
            CHECK(memcmp(o.losses, right.losses, sizeof o.losses) == 0);
            CHECK(o.evaluated == right.evaluated);
            CHECK(memcmp(o.predicted, right.predicted, sizeof o.predicted) == 0);
        }
    }
}

static void refuse_deterministic(test *t, const run *r, const char *words)
{
    session s;
    dpt_trainer_options options = r->options;
    options.size = sizeof options;
    options.batch_size = BATCH;
    dpt_trainer *trainer = NULL;
    run plain = *r;
    plain.options = (dpt_trainer_options){.loss = DPT_LOSS_SQUARED_ERROR};
    if (callback_open(t, &plain, &s)) {
        CHECK_STATUS(dpt_trainer_create(s.devices, s.model, s.data, &options, &trainer),
                     DPT_E_INVALID);
        CHECK_CONTAINS(dpt_error_message(s.context), words);
    }
    session_end(&s);
}

static void undeclared_functions_are_refused(test *t)
{
    const mix one = {"cpu:threads=1", "1"};
    counts c = {.weight = 1};
    run r = {.where = &one,
             .network = IMAGE_OWN,
             .answers = TARGETS,
             .counts = &c,
             .options = {.loss = DPT_LOSS_SQUARED_ERROR, .deterministic = true}};
    refuse_deterministic(t, &r, "layer tanh is an operator of the program that does not say");
    r.network = SCALED_OWN;
    r.options.loss = DPT_LOSS_OWN_OF_TARGETS;
    r.options.own_loss = callback_lose_squares;
    r.options.own_loss_user = &c;
    refuse_deterministic(t, &r, "the loss is a function of the program that does not say");
}

/* ---- Failures -------------------------------------------------------------------------------- */

static bool weights_of(test *t, const session *s, float out[OUTPUTS * HIDDEN])
{
    return CHECK_OK(
        dpt_trainer_get(s->trainer, 0, DPT_PARAMETER, "fc.weight", out, OUTPUTS * HIDDEN));
}

/* A step fails, nothing changes, and the next step is what this one would have been. */
static void fail_step(test *t, session *s, dpt_status expected, const char *message)
{
    float before[OUTPUTS * HIDDEN], after[OUTPUTS * HIDDEN];
    dpt_step_metrics m = {.size = sizeof m};
    dpt_device_event event = {.size = sizeof event};
    weights_of(t, s, before);
    CHECK_STATUS(dpt_trainer_step(s->trainer, &m), expected);
    CHECK_CONTAINS(dpt_error_message(s->context), message);
    weights_of(t, s, after);
    CHECK(memcmp(before, after, sizeof before) == 0);
    CHECK(!dpt_trainer_next_event(s->trainer, &event));
}

static void check_failures(test *t, const mix *where)
{
    counts c = {.weight = 1};
    session s;
    dpt_step_metrics m = {.size = sizeof m};
    dpt_evaluation e = {.size = sizeof e};
    static float outputs[SAMPLES * OUTPUTS];
    static outcome healthy;
    run r = {.where = where,
             .network = IMAGE_OWN,
             .answers = TARGETS,
             .counts = &c,
             .options = {.lr = 0.05f,
                         .loss = DPT_LOSS_OWN_OF_TARGETS,
                         .own_loss = callback_lose_squares,
                         .own_loss_user = &c}};
    if (!callback_train(t, &r, &healthy)) return;
    if (callback_open(t, &r, &s)) {
        CHECK_OK(dpt_trainer_step(s.trainer, &m));
        CHECK_NEAR(m.loss, healthy.losses[0], 0.0);
        atomic_store(&c.fail_forward, 1);
        fail_step(t, &s, DPT_E_CALLBACK, "layer tanh: its forward function failed: out of paper");
        atomic_store(&c.fail_backward, 1);
        fail_step(t, &s, DPT_E_CALLBACK, "layer tanh: its backward function failed: device lost");
        atomic_store(&c.fail_loss, 1);
        fail_step(t, &s, DPT_E_CALLBACK, "layer loss: its function failed: out of memory");
        atomic_store(&c.spoil, true);
        fail_step(t, &s, DPT_E_NOT_FINITE, "gradients");
        atomic_store(&c.spoil, false);
        for (size_t i = 1; i < STEPS; i++) {
            CHECK_OK(dpt_trainer_step(s.trainer, &m));
            CHECK_NEAR(m.loss, healthy.losses[i], 0);
            CHECK_SIZE(m.n_lost, 0);
        }
        atomic_store(&c.fail_forward, 1);
        CHECK_STATUS(dpt_trainer_evaluate(s.trainer, s.data, &e), DPT_E_CALLBACK);
        CHECK_CONTAINS(dpt_error_message(s.context), "out of paper");
        atomic_store(&c.fail_forward, 1);
        CHECK_STATUS(dpt_trainer_predict(s.trainer, s.data, 0, SAMPLES, outputs), DPT_E_CALLBACK);
        CHECK_OK(dpt_trainer_evaluate(s.trainer, s.data, &e));
        CHECK_NEAR(e.loss, healthy.evaluated, 1e-6 * e.loss);
    }
    session_end(&s);
}

static void failures_lose_nothing(test *t)
{
    const mix_list mixes = *(const mix_list *)t->user;
    for (size_t i = 0; i < mixes.n; i++)
        check_failures(t, &mixes.items[i]);
}

/* What a process does and sees. */
typedef struct of_process {
    test *t;
    counts counts;
    dpt_status failed;
    char message[512];
    double losses[STEPS];
} of_process;

/* The function of process 1 fails in the first step. */
static dpt_status train_in_process(dpt_context *context, size_t rank, void *user)
{
    of_process *p = (of_process *)user + rank;
    test *t = p->t;
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = BATCH,
                                         .lr = 0.05f,
                                         .no_shuffle = true,
                                         .split = {DPT_SPLIT_PROPORTIONS, "3:1"},
                                         .loss = DPT_LOSS_SQUARED_ERROR};
    session s = {.context = context};
    dpt_step_metrics m = {.size = sizeof m};
    atomic_store(&p->counts.fail_backward, rank == 1);
    dpt_status status = dpt_device_set_open(context, "cpu:threads=1", &s.devices);
    if (status == DPT_OK) status = dpt_model_create(context, "callbacks", &s.model);
    if (status == DPT_OK) s.data = callback_data(t, context, TARGETS, false);
    if (status == DPT_OK) status = callback_build(s.model, IMAGE_OWN, &p->counts);
    if (status == DPT_OK)
        status = dpt_trainer_create(s.devices, s.model, s.data, &options, &s.trainer);
    if (status == DPT_OK) {
        p->failed = dpt_trainer_step(s.trainer, &m);
        snprintf(p->message, sizeof p->message, "%s", dpt_error_message(context));
    }
    for (size_t i = 0; status == DPT_OK && i < STEPS; i++) {
        status = dpt_trainer_step(s.trainer, &m);
        p->losses[i] = m.loss;
    }
    dpt_trainer_destroy(s.trainer);
    dpt_model_destroy(s.model);
    dpt_device_set_close(s.devices);
    dpt_dataset_destroy(s.data);
    return status;
}

/* All processes tell the failure, and train on. */
static void processes_go_on(test *t)
{
    static outcome alone;
    counts c = {.weight = 1};
    of_process processes[2] = {{.t = t}, {.t = t}};
    char message[512] = "";
    const mix one = {"cpu", "1"};
    const run r = {.where = &one,
                   .network = IMAGE_OWN,
                   .answers = TARGETS,
                   .counts = &c,
                   .options = {.lr = 0.05f, .loss = DPT_LOSS_SQUARED_ERROR}};
    if (!callback_train(t, &r, &alone)) return;
    if (!CHECK_OK(stand_ins_run(2, train_in_process, processes, message))) FAIL("%s", message);
    for (size_t k = 0; k < 2; k++) {
        CHECK_STATUS(processes[k].failed, DPT_E_CALLBACK);
        CHECK_CONTAINS(processes[k].message, "process 1 (");
        CHECK_CONTAINS(processes[k].message, "layer tanh: its backward function failed");
        for (size_t i = 0; i < STEPS; i++)
            CHECK_NEAR(processes[k].losses[i], alone.losses[i], 2e-5 * alone.losses[i]);
    }
}

/* ---- Prediction, export, refusals ------------------------------------------------------------ */

static void predicts_and_is_not_exported(test *t)
{
    static float outputs[SAMPLES * OUTPUTS], again[SAMPLES * OUTPUTS];
    counts c = {.weight = 1};
    char folder[] = "/tmp/callback-XXXXXX", weights[64], onnx[64], why[DPT_WHY_BYTES] = "";
    const mix_list mixes = *(const mix_list *)t->user;
    const run r = {.where = &mixes.items[mixes.n > 2 ? 1 : 0],
                   .network = IMAGE_OWN,
                   .answers = TARGETS,
                   .counts = &c,
                   .options = {.lr = 0.05f, .loss = DPT_LOSS_SQUARED_ERROR}};
    session s;
    dpt_step_metrics m = {.size = sizeof m};
    REQUIRE(mkdtemp(folder));
    snprintf(weights, sizeof weights, "%s/w.safetensors", folder);
    snprintf(onnx, sizeof onnx, "%s/net.onnx", folder);
    if (callback_open(t, &r, &s)) {
        dpt_predictor *predictor = NULL;
        const dpt_predictor_options options = {.size = sizeof options,
                                               .weights = weights,
                                               .like = s.data,
                                               .logits = true,
                                               .micro_batch = 9};
        CHECK_OK(dpt_trainer_step(s.trainer, &m));
        CHECK_OK(dpt_trainer_save(s.trainer, weights));
        CHECK_OK(dpt_trainer_predict(s.trainer, s.data, 0, SAMPLES, outputs));
        REQUIRE_OK(dpt_predictor_create(s.devices, s.model, &options, &predictor));
        atomic_store(&c.fail_forward, 1);
        CHECK_STATUS(dpt_predictor_run_data(predictor, s.data, 0, SAMPLES, again, why),
                     DPT_E_CALLBACK);
        CHECK_CONTAINS(why, "layer tanh: its forward function failed: out of paper");
        CHECK_SIZE(dpt_predictor_lost(predictor), 0);
        CHECK_OK(dpt_predictor_run_data(predictor, s.data, 0, SAMPLES, again, why));
        for (size_t i = 0; i < SAMPLES * OUTPUTS; i++)
            CHECK_NEAR((double)again[i], (double)outputs[i], 1e-5);
        dpt_predictor_destroy(predictor);
        CHECK_STATUS(dpt_model_to_onnx(s.model, weights, onnx, NULL), DPT_E_UNSUPPORTED);
        CHECK_CONTAINS(dpt_error_message(s.context), "layer tanh: it is an operator");
    }
    session_end(&s);
    unlink(weights);
    unlink(onnx);
    rmdir(folder);
}

static void refuse_operator(test *t, dpt_operator_options options, size_t n_inputs,
                            const char *reason)
{
    dpt_context *context = NULL;
    dpt_model *m = NULL;
    REQUIRE_OK(dpt_context_create(&context));
    REQUIRE_OK(dpt_model_create(context, "refused", &m));
    const dpt_value x = dpt_flatten(m, dpt_input(m, 1, 1, 4));
    const dpt_value all[DPT_OPERATOR_INPUTS + 1] = {x, x, x, x, x, x};
    const dpt_linear_options last = {.size = sizeof last, .out = 2};
    const dpt_value y = dpt_operator(m, "own", all, n_inputs, options.size ? &options : NULL);
    CHECK_STATUS(dpt_model_finish(m, dpt_linear(m, y, "fc", &last)), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(context), reason);
    dpt_model_destroy(m);
    dpt_context_destroy(context);
}

static void refuses_operators(test *t)
{
    const dpt_operator_options good = {.size = sizeof good,
                                       .elements = 4,
                                       .forward = callback_forward_product,
                                       .backward = callback_backward_product};
    dpt_operator_options o = good;
    o.forward = NULL;
    refuse_operator(t, o, 1, "layer own: an operator needs a forward and a backward function");
    o = good;
    o.backward = NULL;
    refuse_operator(t, o, 1, "needs a forward and a backward function");
    o = good;
    o.elements = 0;
    refuse_operator(t, o, 1, "layer own: give either height");
    o.height = o.width = 2;
    refuse_operator(t, o, 1, "layer own: give either height");
    o = good;
    o.channels = 1;
    refuse_operator(t, o, 1, "layer own: give either height");
    refuse_operator(t, good, 0, "an operator has 1 to 5 inputs");
    refuse_operator(t, good, DPT_OPERATOR_INPUTS + 1, "an operator has 1 to 5 inputs");
    o.size = 0;
    refuse_operator(t, o, 1, "layer own needs options");
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"operators train as layers", operators_train_as_layers},
        {"order is that of the documents", order_is_that_of_the_documents},
        {"operators take ids", operators_take_ids},
        {"operators take parameters", operators_take_parameters},
        {"bfloat16 is widened", bfloat16_is_widened},
        {"bits are the same", bits_are_the_same},
        {"undeclared functions are refused", undeclared_functions_are_refused},
        {"failures lose nothing", failures_lose_nothing},
        {"processes go on", processes_go_on},
        {"predicts and is not exported", predicts_and_is_not_exported},
        {"refuses operators", refuses_operators},
    };
    return callback_main(argc, argv, cases, sizeof cases / sizeof *cases);
}
