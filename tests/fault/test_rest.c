/* Devices that rest: training is what it would be with them, they have the weights when they are
   asked for them, and when all others are lost they go on.  test-fault-rest fault|faultstaged
   [CASE...]

   Who rests, and when, the test says, and no clock does. */
#include "fault/plant.h"
#include "io/log.h"
#include "train/trainer.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { SIDE = 8, COUNT = 40, CLASSES = 3, BATCH = 12, STEPS = 18, REST = 4, WAKE = 12, ANY = 9 };

typedef struct training {
    dpt_context *context;
    dpt_device_set *set;
    dpt_model *model;
    dpt_dataset *data;
    dpt_trainer *trainer;
    char devices[256];
    size_t n_steps, n_lost, n_told;
    bool wakes;
    size_t rests; /* which device; 0 stands for 1 */
    size_t woken; /* by what happens: in this step; 0: it is not */
    /* In dpt_fit, while steps are done again: */
    size_t n_asked; /* calls with nothing to tell, */
    size_t awaited; /* before them, behind the next step: the checkpoint of this step; 0: none is */
    size_t stop_at; /* which of them ends training, or */
    double until;   /* waits in it until so many seconds have passed; 0: none does */
    bool fills_disk; /* then, for what is larger than weights alone */
} training;

/* ---- Building -------------------------------------------------------------------------------- */

static dpt_status begin_on(test *t, const char *devices, size_t count, training *w)
{
    const dpt_trainer_options options = {.batch_size = BATCH,
                                         .lr = 0.05f,
                                         .momentum = 0.9f,
                                         .seed = 3,
                                         .bucket_bytes = 1,
                                         .verify_replicas = 3,
                                         .device_timeout = strstr(devices, "hang=") ? 0.3 : 0};
    *w = (training){.context = NULL};
    plant_devices(devices, ((plant *)t->user)->backend, w->devices, sizeof w->devices);
    (void)remove("fault-report.txt");
    (void)alarm(120); /* nothing may hang */
    DPT_TRY(dpt_context_create(&w->context));
    DPT_TRY(dpt_devices_open(w->context, w->devices, &w->set));
    DPT_TRY(plant_data(w->context, count, SIDE, CLASSES, &w->data));
    DPT_TRY(plant_network(w->context, SIDE, CLASSES, &w->model));
    DPT_TRY(dpt_trainer_create(w->set, w->model, w->data, &options, &w->trainer));
    w->trainer->resting.allowed = false; /* no clock says so */
    return DPT_OK;
}

static dpt_status begin(test *t, const char *devices, training *w)
{
    return begin_on(t, devices, COUNT, w);
}

static void end(training *w)
{
    dpt_trainer_destroy(w->trainer);
    dpt_model_destroy(w->model);
    dpt_dataset_destroy(w->data);
    dpt_devices_close(w->set);
    dpt_context_destroy(w->context);
    (void)alarm(0);
}

static size_t rester(const training *w)
{
    return w->rests > 0 ? w->rests : 1;
}

/* As if this had been measured: that device rests, or wakes up. */
static void change(training *w)
{
    dpti_resting *r = &w->trainer->resting;
    memset(r->chosen, 0, w->trainer->n_workers * sizeof *r->chosen);
    r->chosen[rester(w)] = true;
    r->changes = true;
}

static void plan(test *t, training *w, size_t done)
{
    if (done == REST || (done == WAKE && w->wakes && w->n_lost == 0)) change(w);
    CHECK_OK(dpt_trainer_set_lr(w->trainer, 0.05f - 0.002f * (float)done));
}

static bool rests(const training *w, size_t step)
{
    const bool woken = (w->wakes && step > WAKE) || (w->woken > 0 && step >= w->woken);
    return step > REST && !woken && w->n_lost == 0;
}

/* ---- Looking --------------------------------------------------------------------------------- */

static void take_events(test *t, training *w)
{
    dpt_device_event event;
    while (dpt_trainer_next_event(w->trainer, &event)) {
        CHECK(event.kind == DPT_DEVICE_LOST);
        w->n_lost++;
    }
}

static void steps(test *t, training *w, size_t n)
{
    dpt_step_metrics m;
    for (size_t i = 0; i < n; i++) {
        plan(t, w, w->n_steps);
        if (!CHECK_OK(dpt_trainer_step(w->trainer, &m)))
            FAIL("%s: %s", w->devices, dpt_error_message(w->context));
        take_events(t, w);
        CHECK_SIZE(m.step, ++w->n_steps);
        if (rests(w, m.step)) CHECK_SIZE(m.shards[rester(w)], 0);
    }
    CHECK_SIZE(dpt_trainer_steps(w->trainer), w->n_steps);
}

static bool are_near(const plant_weights *a, const plant_weights *b)
{
    double error = 0, size = 0;
    for (size_t i = 0; i < a->n; i++) {
        error += pow((double)a->values[i] - (double)b->values[i], 2);
        size += pow((double)b->values[i], 2);
    }
    return a->n == b->n && error <= 1e-6 * size;
}

/* What one healthy device comes to. */
static bool find_reference(test *t, plant_weights *out)
{
    training w;
    bool done = false;
    if (CHECK_OK(begin(t, "cpu:threads=1", &w))) {
        dpt_step_metrics m;
        for (size_t i = 0; i < STEPS; i++) {
            CHECK_OK(dpt_trainer_set_lr(w.trainer, 0.05f - 0.002f * (float)i));
            CHECK_OK(dpt_trainer_step(w.trainer, &m));
        }
        done = CHECK_OK(plant_read_weights(w.model, w.trainer, 0, out));
    }
    end(&w);
    return done;
}

/* A replica of the training has these weights, as far as rounding lets it. */
static void check_weights(test *t, training *w, size_t device)
{
    static plant_weights found, wanted;
    if (!find_reference(t, &wanted)) return;
    (void)alarm(120);
    if (!CHECK_OK(plant_read_weights(w->model, w->trainer, device, &found)) ||
        !CHECK(are_near(&found, &wanted)))
        FAIL("%s: device %zu has other weights", w->devices, device);
}

/* ---- Resting --------------------------------------------------------------------------------- */

static void rests_and_wakes(test *t)
{
    static plant_weights a, b;
    training w;
    if (CHECK_OK(begin(t, "cpu:threads=1,@:threads=1", &w))) {
        w.wakes = true;
        for (size_t i = 0; i < STEPS; i += 3) {
            steps(t, &w, 3);
            /* Whoever asks a device that rests for its weights gets those of now. */
            if (CHECK_OK(plant_read_weights(w.model, w.trainer, 0, &a)) &&
                CHECK_OK(plant_read_weights(w.model, w.trainer, 1, &b)))
                CHECK(plant_same_weights(&a, &b));
        }
        CHECK_SIZE(w.n_lost, 0);
        check_weights(t, &w, 1);
    }
    end(&w);
}

static void nobody_asks(test *t)
{
    training w;
    if (CHECK_OK(begin(t, "@:threads=1,cpu:threads=1", &w))) {
        w.wakes = true;
        steps(t, &w, REST + 3);
        CHECK(w.trainer->workers[1].resting && w.trainer->workers[1].stale);
        CHECK_SIZE(w.trainer->resting.n_lr, 3);
        steps(t, &w, STEPS - REST - 3);
        CHECK(!w.trainer->workers[1].resting && !w.trainer->workers[1].stale);
        check_weights(t, &w, 0);
        check_weights(t, &w, 1);
    }
    end(&w);
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
        if (CHECK_OK(begin(t, lists[i], &w))) {
            w.wakes = true;
            while (w.n_steps < STEPS) {
                steps(t, &w, 1);
                CHECK((w.trainer->workers[0].whole != NULL) ==
                      (i == 0 && staged && rests(&w, w.n_steps)));
                CHECK(!w.trainer->workers[1].whole);
            }
            check_weights(t, &w, 0);
            check_weights(t, &w, 1);
        }
        end(&w);
    }
}

/* The step of the newest checkpoint; 0: there is none. */
static size_t find_newest(void)
{
    char name[64];
    size_t step = STEPS;
    for (; step > 0; step--) {
        snprintf(name, sizeof name, "rest.kept/checkpoint-%09zu.safetensors", step);
        if (access(name, R_OK) == 0) break;
    }
    return step;
}

/* 0: it ends. */
static void limit_files(size_t n_bytes)
{
    struct rlimit limit;
    (void)signal(SIGXFSZ, SIG_IGN);
    (void)getrlimit(RLIMIT_FSIZE, &limit);
    limit.rlim_cur = n_bytes > 0 ? n_bytes : limit.rlim_max;
    (void)setrlimit(RLIMIT_FSIZE, &limit);
}

/* Nothing to tell: steps are done again. */
static int ask(training *w, const dpt_fit_progress *progress)
{
    if (++w->n_asked != w->stop_at) return 0;
    if (w->fills_disk) limit_files(w->trainer->model->flat_size * sizeof(float) * 3 / 2);
    if (!(w->until > 0)) return 1;
    if (progress->seconds < w->until)
        (void)usleep((useconds_t)(1e6 * (w->until - progress->seconds)));
    return 0;
}

static int follow(const dpt_fit_progress *progress, void *user)
{
    training *w = user;
    if (progress->event) w->n_lost += progress->event->kind == DPT_DEVICE_LOST;
    if (!progress->step && !progress->epoch && !progress->event) return ask(w, progress);
    if (!progress->step) return 0;
    w->n_told += progress->step->step == w->n_steps + 1;
    w->n_steps++;
    while (w->awaited > 0 && w->n_steps > w->awaited && find_newest() != w->awaited)
        (void)usleep(1000);
    if (w->n_steps == REST || (w->wakes && w->n_steps == WAKE && w->n_lost == 0)) change(w);
    return 0;
}

/* What dpt_fit comes to with one healthy device. */
static double find_course(test *t, size_t count, plant_weights *out)
{
    training w;
    dpt_fit_result result = {.train_loss = NAN};
    if (CHECK_OK(begin_on(t, "cpu:threads=1", count, &w))) {
        CHECK_OK(dpt_fit(w.trainer, &(dpt_fit_options){.max_steps = STEPS}, &result));
        CHECK_OK(plant_read_weights(w.model, w.trainer, 0, out));
    }
    end(&w);
    return result.train_loss;
}

/* With steps in flight, epochs and what is measured behind them; as many are told as are done. */
static void in_fit(test *t, const char *devices, bool wakes, size_t n_lost)
{
    static plant_weights found, wanted;
    training w;
    if (wanted.n == 0) (void)find_course(t, COUNT, &wanted);
    dpt_fit_result result;
    if (CHECK_OK(begin(t, devices, &w))) {
        const dpt_fit_options options = {
            .max_steps = STEPS, .test = w.data, .progress = follow, .user = &w};
        w.wakes = wakes;
        if (!CHECK_OK(dpt_fit(w.trainer, &options, &result)))
            FAIL("%s: %s", w.devices, dpt_error_message(w.context));
        CHECK_SIZE(w.n_told, STEPS);
        CHECK(w.n_lost == n_lost || n_lost == ANY);
        CHECK_SIZE(result.steps, STEPS);
        CHECK_SIZE(dpt_trainer_steps(w.trainer), STEPS);
        for (size_t i = 0; i < w.trainer->n_workers; i++)
            if (!w.trainer->workers[i].gone &&
                (!CHECK_OK(plant_read_weights(w.model, w.trainer, i, &found)) ||
                 !CHECK(are_near(&found, &wanted))))
                FAIL("%s: device %zu has other weights", w.devices, i);
    }
    end(&w);
}

static void rests_in_fit(test *t)
{
    in_fit(t, "@:threads=1,cpu:threads=1", true, 0);
    in_fit(t, "cpu:threads=1,@:threads=1", true, 0);
    in_fit(t, "cpu:threads=1,@:threads=1", false, 0);
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
            if (CHECK_OK(begin(t, devices, &w))) {
                steps(t, &w, STEPS);
                if (w.n_lost > 0) CHECK_SIZE(w.trainer->resting.n, 0);
                CHECK(w.n_lost == 1 || after + n / 20 + 1 >= STEPS);
                check_weights(t, &w, 1);
            }
            end(&w);
        }
}

static void lost_in_fit(test *t)
{
    for (size_t n = 1; n < 60; n += 7) {
        char devices[128];
        snprintf(devices, sizeof devices, "@:threads=1:after=9:lost=%zu,cpu:threads=1", n);
        in_fit(t, devices, false, 1);
    }
}

/* A call fails and the device goes on, which has more steps under way: one that counts all the same
   is told once, and those behind it are done with the devices that are left. */
static void fails_in_fit(test *t)
{
    for (size_t n = 1; n < 60; n++) {
        char devices[128];
        snprintf(devices, sizeof devices, "@:threads=1%s:after=9:fail=%zu,cpu:threads=1",
                 n % 3 ? ":lag=1" : "", n);
        in_fit(t, devices, false, 1);
    }
}

/* It does not answer any more, be it when it is prepared to be left alone. */
static void hangs_in_fit(test *t)
{
    for (size_t n = 2; n < 70; n += 7) {
        char devices[128];
        snprintf(devices, sizeof devices, "@:threads=1:after=4:hang=%zu,cpu:threads=1", n);
        in_fit(t, devices, false, 1);
    }
}

/* It is short of memory for some calls: what is done counts, and what is not is done again.  Where
   steps are not whole the call ends if the update was it. */
static void short_of_memory_in_fit(test *t)
{
    const bool staged = strcmp(((plant *)t->user)->backend, "faultstaged") == 0;
    for (size_t n = 1; staged && n < 40; n++) {
        char devices[128];
        snprintf(devices, sizeof devices,
                 "@:threads=1:lag=1:after=6:full=%zu:for=%zu,cpu:threads=1", n, n % 9 + 1);
        in_fit(t, devices, false, ANY); /* if there was no memory to write it, it is */
    }
    CHECK(t);
}

/* ---- Ending while steps are done again ---------------------------------------------------------
 */

typedef struct ending {
    const char *devices; /* of which those that train are lost behind the 13th update */
    size_t rests;
    size_t count; /* samples */
    size_t every; /* steps between checkpoints; 0: there are none */
    size_t copied, awaited;
    bool by_time;
} ending;

static void clear_files(void)
{
    char name[64];
    for (size_t i = 0; i <= STEPS; i++) {
        snprintf(name, sizeof name, "rest.kept/checkpoint-%09zu.safetensors", i);
        (void)remove(name);
    }
    (void)remove("rest.kept/model.safetensors");
    (void)remove("rest.log");
}

static dpt_fit_options files_of(training *w, const ending *e)
{
    return (dpt_fit_options){.max_steps = STEPS,
                             .log = "rest.log",
                             .checkpoint = e->every > 0 ? "rest.kept" : NULL,
                             .checkpoint_every = {.steps = e->every},
                             .host_copy = e->copied,
                             .progress = follow,
                             .user = w};
}

/* The steps that the log says are done again; false: none are. */
static bool find_rewind(size_t *step, size_t *until)
{
    char line[4096];
    bool found = false;
    FILE *file = fopen("rest.log", "r");
    while (file && fgets(line, sizeof line, file))
        found = found ||
                sscanf(line, "{\"event\":\"rewind\",\"step\":%zu,\"until\":%zu", step, until) == 2;
    if (file) fclose(file);
    return found;
}

static size_t count_ends(void)
{
    char line[4096];
    size_t n = 0;
    FILE *file = fopen("rest.log", "r");
    while (file && fgets(line, sizeof line, file))
        n += strncmp(line, "{\"event\":\"done\"", 15) == 0;
    if (file) fclose(file);
    return n;
}

/* Ends at the stop_at-th question, and returns the step behind which it has; what the training has
   come to is that of so many steps.  *more: there would have been another question. */
static size_t end_again(test *t, const ending *e, size_t stop_at, bool *more)
{
    training w;
    dpt_fit_result result = {.steps = 0};
    size_t step = 0, until = 0;
    if (CHECK_OK(begin_on(t, e->devices, e->count, &w))) {
        dpt_fit_options options = files_of(&w, e);
        w.rests = e->rests;
        w.stop_at = stop_at;
        w.awaited = e->awaited;
        if (e->by_time) options.max_seconds = w.until = 6;
        if (!CHECK_OK(dpt_fit(w.trainer, &options, &result)))
            FAIL("%s: %s", w.devices, dpt_error_message(w.context));
        const size_t in_epoch = (e->count + BATCH - 1) / BATCH;
        CHECK(find_rewind(&step, &until));
        const size_t done = step + stop_at - 2;
        *more = done + 1 < until;
        CHECK_SIZE(w.n_asked, stop_at);
        CHECK(w.n_steps == until || w.n_steps + 1 == until);
        CHECK_SIZE(w.n_lost, e->rests > 0 ? 2 : 1);
        CHECK(result.stopped == !e->by_time);
        CHECK_SIZE(result.steps, done);
        CHECK_SIZE(result.epochs, done / in_epoch);
        CHECK_SIZE(dpt_trainer_steps(w.trainer), done);
    }
    end(&w);
    return result.steps;
}

/* Goes on from the newest checkpoint, on healthy devices. */
static void resume(test *t, const ending *e)
{
    const size_t from = find_newest();
    static plant_weights found, wanted;
    training w;
    dpt_fit_result result;
    dpti_replay replay = {.n_steps = 0};
    dpt_error error;
    size_t step, until;
    const char *healthy =
        e->rests > 0 ? "cpu:threads=1,cpu:threads=1,cpu:threads=1" : "cpu:threads=1,cpu:threads=1";
    const double loss = find_course(t, e->count, &wanted);
    if (CHECK_OK(begin_on(t, healthy, e->count, &w))) {
        dpt_fit_options options = files_of(&w, e);
        options.resume = true;
        w.rests = e->rests;
        w.n_steps = from;
        if (!CHECK_OK(dpt_fit(w.trainer, &options, &result)))
            FAIL("from %zu: %s", from, dpt_error_message(w.context));
        CHECK_SIZE(w.n_told, STEPS - from);
        CHECK_SIZE(result.steps, STEPS);
        CHECK_NEAR(result.train_loss, loss, 1e-3);
        CHECK(!find_rewind(&step, &until)); /* it has been cut off */
        if (CHECK_OK(plant_read_weights(w.model, w.trainer, 0, &found)))
            CHECK(are_near(&found, &wanted));
        if (CHECK_OK(dpti_replay_read("rest.log", &replay, &error)))
            CHECK_SIZE(replay.n_steps, STEPS);
        dpti_replay_free(&replay);
    }
    end(&w);
}

/* Whoever ends training then gets what is done by then, which goes on as ever. */
static void ends_while_it_does_steps_again(test *t)
{
    const ending e = {.devices = "@:threads=1:after=13:lost=1,cpu:threads=1",
                      .count = STEPS * BATCH,
                      .every = STEPS};
    bool more = true;
    for (size_t stop_at = 1; more; stop_at++) {
        clear_files();
        const size_t step = end_again(t, &e, stop_at, &more);
        CHECK_SIZE(find_newest(), step);
        resume(t, &e);
    }
}

static void time_holds_while_it_does_steps_again(test *t)
{
    const ending e = {.devices = "@:threads=1:after=13:lost=1,cpu:threads=1",
                      .count = STEPS * BATCH,
                      .every = STEPS,
                      .by_time = true};
    bool more;
    clear_files();
    const size_t step = end_again(t, &e, 3, &more);
    CHECK_SIZE(find_newest(), step);
    resume(t, &e);
}

/* Epochs that nobody evaluates are no place where those that rest get weights. */
static void epochs_go_back_too(test *t)
{
    const ending e = {.devices = "@:threads=1:after=13:lost=1,cpu:threads=1", .count = COUNT};
    bool more = true;
    for (size_t stop_at = 1; more; stop_at++) {
        clear_files();
        (void)end_again(t, &e, stop_at, &more);
        CHECK(stop_at < STEPS);
    }
}

static const ending two_are_lost = {
    .devices = "@:threads=1:after=13:lost=1,@:threads=1:after=13:lost=1,cpu:threads=1",
    .rests = 2,
    .count = STEPS * BATCH};

/* A checkpoint, or a copy, that is newer than what training has gone back to is what is gone on
   from. */
static void what_is_kept_is_not_lost(test *t)
{
    ending e = two_are_lost;
    for (size_t copies = 0; copies < 2; copies++) {
        bool more;
        e.every = copies ? STEPS : 10;
        e.copied = copies ? 10 : 0;
        e.awaited = copies ? 0 : 10;
        clear_files();
        CHECK(end_again(t, &e, 3, &more) < 10);
        CHECK_SIZE(find_newest(), 10);
        resume(t, &e);
    }
}

/* A copy that cannot be written then is missing in the end. */
static void what_is_not_kept_is_told(test *t)
{
    ending e = two_are_lost;
    training w;
    dpt_fit_result result;
    e.every = STEPS;
    e.copied = 10;
    clear_files();
    if (CHECK_OK(begin_on(t, e.devices, e.count, &w))) {
        const dpt_fit_options options = files_of(&w, &e);
        w.rests = e.rests;
        w.stop_at = 3;
        w.fills_disk = true;
        CHECK_STATUS(dpt_fit(w.trainer, &options, &result), DPT_E_IO);
        CHECK_SIZE(w.n_asked, 3);
        limit_files(0);
        CHECK_SIZE(find_newest(), 0);
        CHECK(access("rest.kept/model.safetensors", R_OK) == 0);
    }
    end(&w);
}

/* At the end, when a checkpoint and weights are written, or an epoch is evaluated. */
static void ends_again_at_its_end(test *t)
{
    size_t n_rewound = 0;
    for (size_t n = 1; n < 40; n++) {
        char devices[64];
        training w;
        dpt_fit_result result = {.steps = 0};
        size_t step, until;
        snprintf(devices, sizeof devices, "@:threads=1:after=18:lost=%zu,cpu:threads=1", n);
        /* A checkpoint is due behind the last step, or is written for its being the last. */
        const size_t every = n % 2 == 0 ? STEPS : 2 * STEPS;
        const ending e = {.devices = devices, .count = 2 * STEPS * BATCH, .every = every};
        clear_files();
        if (CHECK_OK(begin_on(t, e.devices, e.count, &w))) {
            dpt_fit_options options = files_of(&w, &e);
            w.stop_at = 2;
            if (!CHECK_OK(dpt_fit(w.trainer, &options, &result)))
                FAIL("%s: %s", w.devices, dpt_error_message(w.context));
            const bool rewound = find_rewind(&step, &until);
            n_rewound += rewound;
            CHECK(result.stopped == rewound);
            CHECK_SIZE(result.steps, rewound ? step : STEPS);
            CHECK_SIZE(dpt_trainer_steps(w.trainer), result.steps);
            CHECK_SIZE(find_newest(), result.steps);
            CHECK_SIZE(count_ends(), 1);
        }
        end(&w);
        if (result.stopped) resume(t, &e);
    }
    CHECK(n_rewound > 0);
}

/* Where its weights were refreshed since, nothing before that is done again. */
static void goes_on_from_its_last_weights(test *t)
{
    training w;
    if (CHECK_OK(begin(t, "@:threads=1:after=13:lost=1,cpu:threads=1", &w))) {
        steps(t, &w, 9);
        REQUIRE_OK(dpti_trainer_refresh(w.trainer));
        CHECK(!w.trainer->workers[1].stale);
        steps(t, &w, 1);
        CHECK_SIZE(w.trainer->resting.first, 9);
        CHECK_SIZE(w.trainer->resting.n_lr, 1);
        steps(t, &w, STEPS - 10);
        CHECK_SIZE(w.n_lost, 1);
        check_weights(t, &w, 1);
    }
    end(&w);
}

/* One that rests is lost when it is to get weights. */
static void lost_while_it_rests(test *t)
{
    for (size_t n = 1; n < 30; n += 3) {
        char devices[128];
        training w;
        snprintf(devices, sizeof devices, "cpu:threads=1,@:threads=1:after=4:lost=%zu", n);
        if (CHECK_OK(begin(t, devices, &w))) {
            w.wakes = true;
            steps(t, &w, STEPS);
            CHECK_SIZE(w.n_lost, 1);
            check_weights(t, &w, 0);
        }
        end(&w);
    }
}

/* Memory that runs out: who rests takes part again, since the others hold less from then on. */
static void memory_wakes(test *t)
{
    training w;
    if (CHECK_OK(begin(t, "@:threads=1:room=6:from=9,cpu:threads=1", &w))) {
        w.woken = 9;
        steps(t, &w, STEPS);
        CHECK_SIZE(w.n_lost, 0);
        CHECK_SIZE(w.trainer->resting.n, 0);
        check_weights(t, &w, 1);
    }
    end(&w);
}

/* Likewise where it is short of memory for some calls, any of them.  A step may fail for it, and is
   done when it is asked for once more: where nobody knows any more whether the last one of the only
   device that trained counts, from what the other one has. */
static void memory_is_short(test *t)
{
    static const size_t durations[] = {1, 2, 12};
    for (size_t i = 0; i < 3; i++)
        for (size_t n = 1; n < 25; n++) {
            char devices[128];
            training w;
            snprintf(devices, sizeof devices, "@:threads=1:full=%zu:for=%zu:from=9,cpu:threads=1",
                     n, durations[i]);
            bool goes_on = CHECK_OK(begin(t, devices, &w));
            for (size_t tries = 0; goes_on && dpt_trainer_steps(w.trainer) < STEPS;) {
                dpt_step_metrics m;
                plan(t, &w, dpt_trainer_steps(w.trainer));
                const dpt_status status = dpt_trainer_step(w.trainer, &m);
                if (status == DPT_OK) continue;
                goes_on = CHECK_STATUS(status, DPT_E_NO_MEMORY) && CHECK(++tries <= durations[i]);
                if (goes_on && i == 0)
                    goes_on = CHECK_OK(dpt_trainer_save(w.trainer, "rest.weights"));
                if (!goes_on) FAIL("%s: %s", w.devices, dpt_error_message(w.context));
            }
            /* If there was no memory to write it, it is lost. */
            if (goes_on && !w.trainer->workers[0].gone) check_weights(t, &w, 0);
            if (goes_on) check_weights(t, &w, 1);
            end(&w);
        }
}

/* And what comes back then is given what the other one has. */
static void memory_is_short_as_another_returns(test *t)
{
    for (size_t n = 1; n < 4; n++) {
        char devices[160];
        training w;
        dpt_step_metrics m;
        snprintf(devices, sizeof devices,
                 "@:threads=1:full=%zu:for=3:from=9,cpu:threads=1,@:threads=1:after=2:lost=1:"
                 "again=1",
                 n);
        if (CHECK_OK(begin(t, devices, &w))) {
            w.trainer->readmit_after = 0.3;
            for (size_t tries = 0; dpt_trainer_steps(w.trainer) < STEPS && tries < 4;) {
                plan(t, &w, dpt_trainer_steps(w.trainer));
                const dpt_status status = dpt_trainer_step(w.trainer, &m);
                if (status == DPT_OK) continue;
                if (!CHECK_STATUS(status, DPT_E_NO_MEMORY))
                    FAIL("%s: %s", w.devices, dpt_error_message(w.context));
                for (tries++; !dpti_readmit_waits(w.trainer) && tries == 1; (void)usleep(1000))
                    dpti_readmit_poll(w.trainer);
            }
            CHECK(w.trainer->returned_step > 0 || dpti_trainer_n_gone(w.trainer) > 0);
            check_weights(t, &w, 1);
        }
        end(&w);
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
    if (CHECK_OK(begin(t, "@:threads=1:after=13:lost=1,cpu:threads=1", &w))) {
        const dpti_parameter *p = &w.model->parameters[0];
        steps(t, &w, 9);
        CHECK_OK(get_first(&w, 0, values));
        CHECK_OK(dpt_trainer_set(w.trainer, DPT_PARAMETER, p->name, values, p->size));
        steps(t, &w, STEPS - 9);
        CHECK_SIZE(w.n_lost, 1);
        check_weights(t, &w, 1);
    }
    end(&w);
}

/* Calls of it fail while its weights are read for the other, which has parts of them then and is
   not gone on from: the training ends, or has the right weights. */
static void torn_weights_are_nobodys(test *t)
{
    static float values[16384];
    for (size_t n = 1; n < 12; n++) {
        char devices[128];
        training w;
        dpt_step_metrics m;
        snprintf(devices, sizeof devices, "@:threads=1:after=9:fail=%zu:lost=120,cpu:threads=1", n);
        if (CHECK_OK(begin(t, devices, &w))) {
            dpt_status status = DPT_OK;
            steps(t, &w, 9);
            (void)!get_first(&w, 1, values);
            for (; w.n_steps < STEPS && status == DPT_OK; w.n_steps++) {
                plan(t, &w, w.n_steps);
                status = dpt_trainer_step(w.trainer, &m);
            }
            if (status == DPT_OK) check_weights(t, &w, 1);
        }
        end(&w);
    }
}

/* An earlier state is loaded, whatever comes of it. */
static void loaded_while_it_rests(test *t)
{
    for (size_t n = 1; n < 14; n++) {
        char devices[128];
        training w;
        dpt_step_metrics m;
        snprintf(devices, sizeof devices, "cpu:threads=1,@:threads=1:after=4:fail=%zu", n);
        if (CHECK_OK(begin(t, devices, &w))) {
            steps(t, &w, REST - 1);
            CHECK_OK(dpt_trainer_save_state(w.trainer, "rest.state"));
            steps(t, &w, 6);
            (void)!dpt_trainer_load_state(w.trainer, "rest.state");
            CHECK_SIZE(dpt_trainer_steps(w.trainer), REST - 1);
            CHECK_SIZE(w.trainer->resting.n, 0);
            for (size_t i = REST - 1; i < STEPS; i++) {
                CHECK_OK(dpt_trainer_set_lr(w.trainer, 0.05f - 0.002f * (float)i));
                CHECK_OK(dpt_trainer_step(w.trainer, &m));
            }
            check_weights(t, &w, 0);
        }
        end(&w);
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
        if (CHECK_OK(begin(t, devices, &w))) {
            steps(t, &w, 9);
            if (n % 2 == 0)
                CHECK_OK(dpt_trainer_save(w.trainer, "rest.weights"));
            else
                CHECK_OK(dpt_trainer_save_state(w.trainer, "rest.state"));
            CHECK_SIZE(dpt_trainer_steps(w.trainer), 9);
            steps(t, &w, STEPS - 9);
            check_weights(t, &w, 1);
            if (n % 2 == 1) {
                CHECK_OK(dpt_trainer_load_state(w.trainer, "rest.state"));
                w.n_steps = 9;
                steps(t, &w, STEPS - 9);
                check_weights(t, &w, 1);
            }
        }
        end(&w);
    }
}

/* The one that rests has no memory to be written: it is lost, and neither the file nor the
 * training. */
static void starved_while_saved(test *t)
{
    for (size_t n = 1; n < 4; n++) {
        char devices[128];
        training w;
        dpt_evaluation e;
        snprintf(devices, sizeof devices,
                 "cpu:threads=1,@:threads=1:after=4:full=%zu:for=3:entry=upload", n);
        if (CHECK_OK(begin(t, devices, &w))) {
            steps(t, &w, 9);
            if (n == 2)
                CHECK_OK(dpt_trainer_evaluate(w.trainer, w.data, &e));
            else
                CHECK_OK(dpt_trainer_save_state(w.trainer, "rest.state"));
            steps(t, &w, STEPS - 9);
            check_weights(t, &w, 0);
        }
        end(&w);
    }
}

/* A call between steps finds out that a device is lost, and what the next one does first is to
   compare replicas. */
static void lost_before_it_is_compared(test *t)
{
    static float values[16384];
    training w;
    if (CHECK_OK(begin(t, "cpu:threads=1,@:threads=1:after=3:lost=4", &w))) {
        steps(t, &w, 3);
        (void)!get_first(&w, 1, values);
        steps(t, &w, STEPS - 3);
        CHECK_SIZE(w.n_lost, 1);
        check_weights(t, &w, 0);
    }
    end(&w);
}

/* Gradients of the last step are asked of one that rested in it. */
static void gradients_are_of_the_last_step(test *t)
{
    static float of_first[16384], of_second[16384];
    training w;
    if (CHECK_OK(begin(t, "cpu:threads=1,@:threads=1", &w))) {
        const dpti_parameter *p = &w.model->parameters[0];
        steps(t, &w, 9);
        CHECK_OK(dpt_trainer_get(w.trainer, 0, DPT_GRADIENT, p->name, of_first, p->size));
        CHECK_OK(dpt_trainer_get(w.trainer, 1, DPT_GRADIENT, p->name, of_second, p->size));
        CHECK(memcmp(of_first, of_second, p->size * sizeof(float)) == 0);
    }
    end(&w);
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
        if (CHECK_OK(begin(t, devices, &w))) {
            w.rests = 2;
            steps(t, &w, STEPS);
            both += w.n_lost == 2;
            check_weights(t, &w, 2);
        }
        end(&w);
    }
    CHECK(both > 60);
}

/* Of the data, behind nine steps of one healthy device. */
static double loss_of_nine(test *t)
{
    training w;
    dpt_step_metrics m;
    dpt_evaluation e = {.loss = 0};
    if (CHECK_OK(begin(t, "cpu:threads=1", &w))) {
        for (size_t i = 0; i < 9; i++) {
            CHECK_OK(dpt_trainer_set_lr(w.trainer, 0.05f - 0.002f * (float)i));
            CHECK_OK(dpt_trainer_step(w.trainer, &m));
        }
        CHECK_OK(dpt_trainer_evaluate(w.trainer, w.data, &e));
    }
    end(&w);
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
        dpt_evaluation e = {.loss = loss};
        snprintf(devices, sizeof devices, "@:threads=1:after=9:lost=%zu,cpu:threads=1", n);
        if (CHECK_OK(begin(t, devices, &w))) {
            steps(t, &w, 9);
            if (n % 2 == 0)
                CHECK_OK(dpt_trainer_evaluate(w.trainer, w.data, &e));
            else
                CHECK_OK(get_first(&w, 1, values));
            CHECK_NEAR(e.loss, loss, 1e-3);
            CHECK_SIZE(dpt_trainer_steps(w.trainer), 9);
            steps(t, &w, STEPS - 9);
            check_weights(t, &w, 1);
        }
        end(&w);
    }
}

/* Once it has gone back and on, an earlier state is loaded: nothing is done again but what is asked
   for. */
static void loaded_behind_it(test *t)
{
    training w;
    if (CHECK_OK(begin(t, "@:threads=1:after=9:lost=1,cpu:threads=1", &w))) {
        dpt_step_metrics m;
        steps(t, &w, REST - 1);
        CHECK_OK(dpt_trainer_save_state(w.trainer, "rest.state"));
        steps(t, &w, WAKE - REST);
        CHECK_SIZE(w.n_lost, 1);
        CHECK_OK(dpt_trainer_load_state(w.trainer, "rest.state"));
        for (size_t i = REST - 1; i < STEPS; i++) {
            CHECK_OK(dpt_trainer_set_lr(w.trainer, 0.05f - 0.002f * (float)i));
            CHECK_OK(dpt_trainer_step(w.trainer, &m));
            CHECK_SIZE(m.step, i + 1);
        }
        check_weights(t, &w, 1);
    }
    end(&w);
}

/* One whose replica has missed an update, or differs, does not rest before it is right. */
static void stale_ones_are_mended_first(test *t)
{
    training w;
    if (CHECK_OK(begin(t, "@:threads=1:after=9:lost=1,cpu:threads=1", &w))) {
        steps(t, &w, REST);
        w.trainer->workers[1].stale = true;
        steps(t, &w, STEPS - REST);
        CHECK_SIZE(w.n_lost, 1);
        check_weights(t, &w, 1);
    }
    end(&w);
}

/* The step in which it happens takes what was done once more, and nothing counts twice. */
static void what_is_told_of_it(test *t)
{
    for (size_t n = 1; n < 60; n += 4) {
        char devices[128];
        training w;
        dpt_step_metrics m;
        dpt_device_event event;
        snprintf(devices, sizeof devices, "@:threads=1:after=13:lost=%zu,cpu:threads=1", n);
        if (CHECK_OK(begin(t, devices, &w))) {
            for (; w.n_steps < STEPS; w.n_steps++) {
                plan(t, &w, w.n_steps);
                CHECK_OK(dpt_trainer_step(w.trainer, &m));
                CHECK(m.seconds > 0);
                if (!dpt_trainer_next_event(w.trainer, &event)) continue;
                CHECK(event.step == m.step || event.step == m.step + 1);
                w.n_lost++;
            }
            CHECK_SIZE(w.n_lost, 1);
            CHECK(w.trainer->account.steps <= STEPS);
        }
        end(&w);
    }
}

/* What a device was found not to hold stays so. */
static void bounds_outlast_it(test *t)
{
    training w;
    if (CHECK_OK(begin(t, "cpu:threads=1,@:threads=1:room=3:from=2", &w))) {
        w.wakes = true;
        steps(t, &w, STEPS);
        CHECK_SIZE(plant_count("fired"), 1);
    }
    end(&w);
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
        if (CHECK_OK(begin(t, lists[i], &w))) {
            w.rests = 2;
            w.wakes = true;
            steps(t, &w, STEPS);
            CHECK_SIZE(w.n_lost, i);
            CHECK_SIZE(plant_count("order"), 0);
            CHECK_SIZE(plant_count("joined"), 1);
            check_weights(t, &w, 2);
        }
        end(&w);
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"rests and wakes", rests_and_wakes},
        {"nobody asks", nobody_asks},
        {"whole while alone", whole_while_alone},
        {"rests in fit", rests_in_fit},
        {"the last one is lost", the_last_one_is_lost},
        {"lost in fit", lost_in_fit},
        {"fails in fit", fails_in_fit},
        {"hangs in fit", hangs_in_fit},
        {"short of memory in fit", short_of_memory_in_fit},
        {"ends while it does steps again", ends_while_it_does_steps_again},
        {"time holds while it does steps again", time_holds_while_it_does_steps_again},
        {"epochs go back, too", epochs_go_back_too},
        {"what is kept is not lost", what_is_kept_is_not_lost},
        {"what is not kept is told", what_is_not_kept_is_told},
        {"ends again at its end", ends_again_at_its_end},
        {"goes on from its last weights", goes_on_from_its_last_weights},
        {"lost while it rests", lost_while_it_rests},
        {"memory wakes", memory_wakes},
        {"memory is short", memory_is_short},
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
        fputs("usage: test-fault-rest fault|faultstaged [CASE...]\n", stderr);
        return 2;
    }
    plant p = {.backend = argv[1]};
    return test_run((size_t)argc - 2, argv + 2, cases, sizeof cases / sizeof *cases, &p);
}
