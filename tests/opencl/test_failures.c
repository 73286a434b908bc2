/* What OpenCL fails, and when: every function that the backend calls fails in its first call, its
   second, and so on (every one with $DPTRAIN_TEST_EVERY, else ever fewer of many), in a training on
   the device alone and in one beside the CPU.

   Whatever happens, nothing crashes or hangs; a call that fails has a status of a device and a
   message of one line that names the device and the native code in words; a training that goes on,
   at once or when the call is repeated, has the right numbers; and no object stays behind, unless
   the device is lost.  What is asked once a process, platforms and devices, and what keeps programs
   and loads them, is in cli/opencl.sh. */
#include "opencl/interpose.h"

#include "harness.h"
#include "train/flat.h"
#include "train/support.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { STEPS = 2, BATCH = 13, COUNT = STEPS * BATCH, SECONDS_A_RUN = 120, MOST_FAILURES = 5 };

/* ---- Codes ----------------------------------------------------------------------------------- */

typedef struct failure {
    const char *function;
    int code;
    const char *words;
    bool cold; /* without a cache: what is called to compile */
} failure;

static const failure special[] = {
    {"clBuildProgram", -11, "planted.cl:7:3: error: planted", true},
    {"clCreateBuffer", -4, "CL_MEM_OBJECT_ALLOCATION_FAILURE (-4)", false},
    {"clCreateContext", -6, "CL_OUT_OF_HOST_MEMORY (-6)", false},
    {"clCreateProgramWithSource", -6, "CL_OUT_OF_HOST_MEMORY (-6)", true},
    {"clCreateKernel", -46, "CL_INVALID_KERNEL_NAME (-46)", false},
    {"clEnqueueMapBuffer", -12, "CL_MAP_FAILURE (-12)", false},
    {"clFinish", -2, "CL_DEVICE_NOT_AVAILABLE (-2)", false},
    {"clWaitForEvents", -2, "CL_DEVICE_NOT_AVAILABLE (-2)", false},
};

static failure failure_of(const char *function)
{
    for (size_t i = 0; i < sizeof special / sizeof *special; i++)
        if (strcmp(special[i].function, function) == 0) return special[i];
    return (failure){function, -5, "CL_OUT_OF_RESOURCES (-5)", false};
}

/* ---- One training ---------------------------------------------------------------------------- */

typedef struct setting {
    dpt_context *context;
    dpt_dataset *data;
    dpt_model *plain, *residual; /* without and with batch-norms */
} setting;

/* What came of it. */
typedef struct outcome {
    double losses[STEPS], evaluated;
    float *weights;
    size_t at_once; /* samples of a pass of the first device */
    bool failed, finished;
    bool lost; /* the device, or the weights with the only device that had them */
    bool gone; /* the device */
} outcome;

typedef struct training {
    test *t;
    const setting *s;
    const failure *p; /* NULL: nothing is planted */
    const char *devices;
    size_t n; /* the call that fails */
    const dpt_model *model;
    outcome *out;
} training;

/* Whether a call is to be believed; looks at it if not. */
static bool succeeded(const training *w, dpt_status status, const char *what)
{
    test *t = w->t;
    if (status == DPT_OK) return true;
    const char *message = dpt_error_message(w->s->context);
    if (status == DPT_E_STATE && w->out->failed && strstr(message, "load a checkpoint")) {
        w->out->lost = true; /* the update failed on the only device */
        return false;
    }
    if (!w->p || !CHECK(interpose_fired())) {
        FAIL("%s: %s fails by itself: %s", w->devices, what, message);
        return false;
    }
    if (!CHECK(status == DPT_E_DEVICE || status == DPT_E_DEVICE_LOST || status == DPT_E_NO_MEMORY))
        FAIL("%s %zu: %s gives %s: %s", w->p->function, w->n, what, dpt_status_name(status),
             message);
    if (!strstr(message, "opencl") || strchr(message, '\n') || !strstr(message, w->p->words))
        FAIL("%s %zu: %s does not name device and code in one line: \"%s\"", w->p->function, w->n,
             what, message);
    w->out->failed = true;
    w->out->gone = w->out->gone || status == DPT_E_DEVICE_LOST;
    w->out->lost = w->out->lost || w->out->gone;
    return false;
}

/* A failure is repeated once: it happens only once, unless the device is gone. */
static bool went(const training *w, dpt_status first, dpt_status (*again)(const training *, void *),
                 void *argument, const char *what)
{
    if (succeeded(w, first, what)) return true;
    return !w->out->lost && succeeded(w, again(w, argument), what);
}

static dpt_status open_devices(const training *w, void *argument)
{
    return dpt_devices_open(w->s->context, w->devices, argument);
}

typedef struct trained {
    dpt_device_set *devices;
    dpt_trainer *trainer;
} trained;

static dpt_status create_trainer(const training *w, void *argument)
{
    trained *d = argument;
    const dpt_trainer_options options = {.batch_size = BATCH,
                                         .split = "equal",
                                         .lr = FLAT_RATE,
                                         .momentum = 0.9f,
                                         .seed = 1,
                                         .no_shuffle = true,
                                         .stop_on_loss = true};
    return dpt_trainer_create(d->devices, w->model, w->s->data, &options, &d->trainer);
}

static dpt_status evaluate(const training *w, void *argument)
{
    trained *d = argument;
    dpt_evaluation evaluation;
    const dpt_status status = dpt_trainer_evaluate(d->trainer, w->s->data, &evaluation);
    if (status == DPT_OK) w->out->evaluated = evaluation.loss;
    return status;
}

static dpt_status read_weights(const training *w, void *argument)
{
    trained *d = argument;
    return dpti_trainer_read(d->trainer, 0, DPT_PARAMETER, w->out->weights);
}

static bool take_steps(const training *w, dpt_trainer *trainer)
{
    test *t = w->t;
    for (int attempts = 0; attempts < 3 * STEPS; attempts++) {
        dpt_step_metrics metrics;
        const size_t before = dpt_trainer_steps(trainer);
        if (before >= STEPS) return true;
        if (succeeded(w, dpt_trainer_step(trainer, &metrics), "dpt_trainer_step"))
            w->out->losses[before] = metrics.loss;
        else if (dpt_trainer_steps(trainer) > before)
            w->out->losses[before] = NAN; /* the update counts, and its loss is not told */
        if (w->out->lost) return false;
    }
    FAIL("%s %zu: training does not go on", w->p ? w->p->function : "", w->n);
    return false;
}

static void train_once(const training *w, trained *d)
{
    dpt_device_plan plan = {.micro_batch = 0};
    if (!went(w, open_devices(w, &d->devices), open_devices, &d->devices, "dpt_devices_open"))
        return;
    if (!went(w, create_trainer(w, d), create_trainer, d, "dpt_trainer_create")) return;
    if (!take_steps(w, d->trainer)) return;
    if (!went(w, evaluate(w, d), evaluate, d, "dpt_trainer_evaluate")) return;
    if (!went(w, read_weights(w, d), read_weights, d, "reading weights")) return;
    for (size_t i = 0; i < dpt_devices_count(d->devices); i++) {
        if (dpt_trainer_plan(d->trainer, i, &plan) != DPT_OK) return;
        if (i == 0 || plan.micro_batch < w->out->at_once) w->out->at_once = plan.micro_batch;
    }
    w->out->finished = true;
}

/* The training with everything around it; nothing stays behind. */
static void train_and_close(const training *w)
{
    test *t = w->t;
    trained d = {.devices = NULL};
    const size_t before = interpose_objects();
    *w->out = (outcome){.weights = calloc(w->model->flat_size, sizeof(float))};
    REQUIRE(w->out->weights);
    (void)alarm(SECONDS_A_RUN); /* nothing may hang */
    if (w->p) interpose_plant(w->p->function, w->n, w->p->code, false);
    train_once(w, &d);
    dpt_trainer_destroy(d.trainer);
    dpt_devices_close(d.devices);
    (void)alarm(0);
    const size_t left = interpose_objects() - before;
    if (!w->out->gone && left != 0)
        FAIL("%s %zu: %zu objects of OpenCL were not released", w->p ? w->p->function : "", w->n,
             left);
}

/* ---- One failure after the other ------------------------------------------------------------- */

static void compare(const training *w, const outcome *healthy)
{
    test *t = w->t;
    const outcome *o = w->out;
    double norm = 0, difference = 0;
    if (o->lost) return;
    if (!CHECK(o->finished)) return;
    /* With less memory a share is worked off in passes, and a batch-norm sees a pass. */
    if (w->model == w->s->residual && o->at_once != healthy->at_once) return;
    bool right = true;
    for (size_t i = 0; i < STEPS; i++)
        if (!isnan(o->losses[i]))
            right = right && CHECK_NEAR(o->losses[i], healthy->losses[i], 1e-4);
    right = right && CHECK_NEAR(o->evaluated, healthy->evaluated, 1e-4);
    for (size_t i = 0; i < w->model->flat_size; i++) {
        norm += pow((double)healthy->weights[i], 2);
        difference += pow((double)o->weights[i] - (double)healthy->weights[i], 2);
    }
    right = right && CHECK(sqrt(difference) <= 1e-4 * sqrt(norm));
    if (!right) FAIL("%s %zu: wrong numbers", w->p->function, w->n);
}

static size_t next_call(size_t n)
{
    return getenv("DPTRAIN_TEST_EVERY") ? n + 1 : n + 1 + n / 4;
}

/* A place where there is no cache and none can be made, so that programs are compiled. */
static void use_cache(bool cold)
{
    static char *kept;
    const char *now = getenv("XDG_CACHE_HOME");
    if (!kept) kept = strdup(now ? now : "");
    setenv("XDG_CACHE_HOME", cold ? "/proc/no-cache" : kept, 1);
}

static void fail_function(test *t, const char *function, const char *devices,
                          const dpt_model *model, const outcome *healthy)
{
    const failure p = failure_of(function);
    size_t n = 1, n_failures = 0, n_runs = 0;
    for (bool fired = true; fired && t->n_failures < MOST_FAILURES; n = next_call(n)) {
        outcome o;
        const training w = {
            .t = t, .s = t->user, .p = &p, .devices = devices, .n = n, .model = model, .out = &o};
        use_cache(p.cold);
        train_and_close(&w);
        fired = interpose_fired();
        interpose_plant(NULL, 0, 0, false);
        if (o.weights) compare(&w, healthy);
        free(o.weights);
        n_runs += fired;
        n_failures += fired && o.failed;
    }
    use_cache(false);
    printf("  %s on %s: %zu calls failed in turn, of which %zu came to light\n", function, devices,
           n_runs, n_failures);
}

static void fail_everything(test *t, const char *devices, const dpt_model *model)
{
    outcome healthy;
    const training w = {.t = t, .s = t->user, .devices = devices, .model = model, .out = &healthy};
    train_and_close(&w);
    if (CHECK(healthy.finished) && CHECK(!healthy.failed))
        for (size_t i = 0; interpose_function(i) && t->n_failures < MOST_FAILURES; i++)
            fail_function(t, interpose_function(i), devices, model, &healthy);
    free(healthy.weights);
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static void alone(test *t)
{
    const setting *s = t->user;
    fail_everything(t, "opencl:0", s->plain);
}

static void beside_the_cpu(test *t)
{
    const setting *s = t->user;
    fail_everything(t, "cpu,opencl:0", s->residual);
}

/* From some call on nothing works any more: the training ends, and the process does not. */
static void gone_for_good(test *t)
{
    const setting *s = t->user;
    static const failure gone = {"clFinish", -2, "CL_DEVICE_NOT_AVAILABLE (-2)", false};
    for (size_t n = 1; n < 40 && t->n_failures < MOST_FAILURES; n = next_call(n)) {
        trained d = {.devices = NULL};
        outcome o = {.weights = calloc(s->residual->flat_size, sizeof(float))};
        const training w = {.t = t,
                            .s = s,
                            .p = &gone,
                            .devices = "cpu,opencl:0",
                            .n = n,
                            .model = s->residual,
                            .out = &o};
        (void)alarm(SECONDS_A_RUN);
        interpose_plant(gone.function, n, gone.code, true);
        train_once(&w, &d);
        CHECK(o.finished || o.lost);
        dpt_trainer_destroy(d.trainer);
        dpt_devices_close(d.devices);
        (void)alarm(0);
        interpose_plant(NULL, 0, 0, false);
        free(o.weights);
    }
}

static dpt_status make_plain(dpt_context *context, dpt_model **out)
{
    DPT_TRY(dpt_model_create(context, "plain", out));
    dpt_model *m = *out;
    const dpt_conv2d_options first = {
        .out_channels = 6, .kernel = {3, 3}, .padding = {1, 1}, .activation = DPT_ACT_RELU};
    const dpt_pool2d_options halved = {.kind = DPT_POOL_MAX, .kernel = {2, 2}, .stride = {2, 2}};
    dpt_value x = dpt_input(m, FLAT_SIDE, FLAT_SIDE, FLAT_CHANNELS);
    x = dpt_pool2d(m, dpt_conv2d(m, x, "conv", &first), &halved);
    x = dpt_linear(m, dpt_flatten(m, x), "fc", &(dpt_linear_options){.out = FLAT_CLASSES});
    return dpt_model_finish(m, x);
}

static dpt_status set_up(setting *s)
{
    DPT_TRY(dpt_context_create(&s->context));
    DPT_TRY(flat_data(s->context, COUNT, 0, &s->data));
    DPT_TRY(make_plain(s->context, &s->plain));
    return flat_residual(s->context, &s->residual);
}

static bool has_device(const dpt_context *context)
{
    for (size_t i = 0; i < dpt_backend_count(context); i++)
        if (strcmp(dpt_backend_name(context, i), "opencl") == 0)
            return dpt_backend_device_count(context, i) > 0;
    return false;
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"alone", alone},
        {"beside the CPU", beside_the_cpu},
        {"gone for good", gone_for_good},
    };
    setting s = {.context = NULL};
    int code = 1;
    if (set_up(&s) != DPT_OK) {
        printf("FAIL: %s\n", s.context ? dpt_error_message(s.context) : "no context");
    } else if (!has_device(s.context)) {
        const char *required = getenv("DPTRAIN_TEST_REQUIRE");
        code = test_list_has(required ? required : "", "opencl") ? 1 : TEST_SKIP_CODE;
        puts("no device of opencl");
    } else {
        code = test_main(argc, argv, cases, sizeof cases / sizeof *cases, &s);
    }
    dpt_model_destroy(s.residual);
    dpt_model_destroy(s.plain);
    dpt_dataset_destroy(s.data);
    dpt_context_destroy(s.context);
    return code;
}
