/* Tests standby in dpt_fit: with steps in flight, with epochs and evaluations; and a training that
   ends while standby devices retry steps.

   test-fault-standby_fit fault|faultstaged [CASE...] */
#include "fault/standby_support.h"
#include "io/log.h"
#include "train/membership/presence.h"

#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* ---- Trainings ------------------------------------------------------------------------------- */

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
    if (w->n_steps == REST || (w->wakes && w->n_steps == WAKE && w->n_lost == 0)) standby_change(w);
    return 0;
}

/* What dpt_fit comes to with one healthy device. */
static double find_course(test *t, size_t count, plant_weights *out)
{
    training w;
    dpt_fit_result result = {.size = sizeof result, .train_loss = NAN};
    if (CHECK_OK(standby_begin_on(t, "cpu:threads=1", count, &w))) {
        CHECK_OK(dpt_fit(w.trainer,
                         &(dpt_fit_options){.size = sizeof(dpt_fit_options), .max_steps = STEPS},
                         &result));
        CHECK_OK(plant_read_weights(w.model, w.trainer, 0, out));
    }
    standby_end(&w);
    return result.train_loss;
}

/* With steps in flight, epochs and what is measured behind them; as many are told as are done. */
static void in_fit(test *t, const char *devices, bool wakes, size_t n_lost)
{
    static plant_weights found, wanted;
    training w;
    if (wanted.n == 0) (void)find_course(t, COUNT, &wanted);
    dpt_fit_result result = {.size = sizeof result};
    if (CHECK_OK(standby_begin(t, devices, &w))) {
        const dpt_fit_options options = {.size = sizeof options,
                                         .max_steps = STEPS,
                                         .test = w.data,
                                         .progress = follow,
                                         .user = &w};
        w.wakes = wakes;
        if (!CHECK_OK(dpt_fit(w.trainer, &options, &result)))
            FAIL("%s: %s", w.devices, dpt_error_message(w.context));
        CHECK_SIZE(w.n_told, STEPS);
        CHECK(w.n_lost == n_lost || n_lost == ANY);
        CHECK_SIZE(result.steps, STEPS);
        CHECK_SIZE(dpt_trainer_steps(w.trainer), STEPS);
        for (size_t i = 0; i < w.trainer->n_workers; i++)
            if (!dpti_is_lost(&w.trainer->workers[i]) &&
                (!CHECK_OK(plant_read_weights(w.model, w.trainer, i, &found)) ||
                 !CHECK(plant_near_weights(&found, &wanted))))
                FAIL("%s: device %zu has other weights", w.devices, i);
    }
    standby_end(&w);
}

static void rests_in_fit(test *t)
{
    in_fit(t, "@:threads=1,cpu:threads=1", true, 0);
    in_fit(t, "cpu:threads=1,@:threads=1", true, 0);
    in_fit(t, "cpu:threads=1,@:threads=1", false, 0);
}

/* ---- Losses ---------------------------------------------------------------------------------- */

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

/* ---- Ending while steps are done again ------------------------------------------------------- */

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
    (void)remove("rest.svg");
}

static dpt_fit_options files_of(training *w, const ending *e)
{
    return (dpt_fit_options){.size = sizeof(dpt_fit_options),
                             .max_steps = STEPS,
                             .log = "rest.log",
                             .plot = "rest.svg",
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

/* The steps that the plot says it has; 0: there is none. */
static size_t count_plotted(void)
{
    char line[4096];
    size_t n = 0;
    FILE *file = fopen("rest.svg", "r");
    while (file && fgets(line, sizeof line, file)) {
        const char *rate = strstr(line, ", learning rate ");
        if (rate) (void)sscanf(rate, ", learning rate %*[^,], %zu steps,", &n);
    }
    if (file) fclose(file);
    return n;
}

/* Ends at the stop_at-th question, and returns the step behind which it has; what the training has
   come to is that of so many steps.  *more: there would have been another question. */
static size_t end_again(test *t, const ending *e, size_t stop_at, bool *more)
{
    training w;
    dpt_fit_result result = {.size = sizeof result};
    size_t step = 0, until = 0;
    *more = false;
    if (CHECK_OK(standby_begin_on(t, e->devices, e->count, &w))) {
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
        CHECK_SIZE(count_plotted(), done);
    }
    standby_end(&w);
    return result.steps;
}

/* Goes on from the newest checkpoint, on healthy devices. */
static void resume(test *t, const ending *e)
{
    const size_t from = find_newest();
    static plant_weights found, wanted;
    training w;
    dpt_fit_result result = {.size = sizeof result};
    dpti_replay replay = {.n_steps = 0};
    dpt_error error;
    size_t step, until;
    const char *healthy =
        e->rests > 0 ? "cpu:threads=1,cpu:threads=1,cpu:threads=1" : "cpu:threads=1,cpu:threads=1";
    const double loss = find_course(t, e->count, &wanted);
    if (CHECK_OK(standby_begin_on(t, healthy, e->count, &w))) {
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
            CHECK(plant_near_weights(&found, &wanted));
        if (CHECK_OK(dpti_replay_read("rest.log", &replay, &error)))
            CHECK_SIZE(replay.n_steps, STEPS);
        dpti_replay_free(&replay);
    }
    standby_end(&w);
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
    dpt_fit_result result = {.size = sizeof result};
    e.every = STEPS;
    e.copied = 10;
    clear_files();
    if (CHECK_OK(standby_begin_on(t, e.devices, e.count, &w))) {
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
    standby_end(&w);
}

/* At the end, when a checkpoint and weights are written, or an epoch is evaluated. */
static void ends_again_at_its_end(test *t)
{
    size_t n_rewound = 0;
    for (size_t n = 1; n < 40; n++) {
        char devices[64];
        training w;
        dpt_fit_result result = {.size = sizeof result};
        size_t step, until;
        snprintf(devices, sizeof devices, "@:threads=1:after=18:lost=%zu,cpu:threads=1", n);
        /* A checkpoint is due behind the last step, or is written for its being the last. */
        const size_t every = n % 2 == 0 ? STEPS : 2 * STEPS;
        const ending e = {.devices = devices, .count = 2 * STEPS * BATCH, .every = every};
        clear_files();
        if (CHECK_OK(standby_begin_on(t, e.devices, e.count, &w))) {
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
            CHECK_SIZE(count_plotted(), result.steps);
        }
        standby_end(&w);
        if (result.stopped) resume(t, &e);
    }
    CHECK(n_rewound > 0);
}

/* In the evaluation behind an epoch a device is lost, steps are done again for it, and training is
   ended meanwhile: where it stands then, as it would be anywhere else, and it is gone on with. */
static void cut_in_an_evaluation(test *t)
{
    size_t n_cut = 0;
    for (size_t n = 1; n < 24; n++) {
        char devices[64];
        training w;
        dpt_fit_result result = {.size = sizeof result};
        snprintf(devices, sizeof devices, "@:threads=1:after=13:lost=%zu,cpu:threads=1", n);
        const ending e = {.devices = devices, .count = 13 * BATCH, .every = 1000};
        clear_files();
        if (CHECK_OK(standby_begin_on(t, e.devices, e.count, &w))) {
            dpt_fit_options options = files_of(&w, &e);
            size_t step = 0, until = 0;
            options.test = w.data;
            w.stop_at = 2;
            CHECK_OK(dpt_fit(w.trainer, &options, &result));
            const bool cut = find_rewind(&step, &until) && dpt_trainer_steps(w.trainer) < until;
            CHECK_SIZE(result.steps, dpt_trainer_steps(w.trainer));
            CHECK(!cut || (result.stopped && find_newest() == result.steps));
            n_cut += cut;
            standby_end(&w);
            if (!cut || !CHECK_OK(standby_begin_on(t, "cpu:threads=1,cpu:threads=1", e.count, &w)))
                continue;
            options = files_of(&w, &e);
            options.test = w.data;
            options.resume = true;
            w.n_steps = find_newest();
            if (!CHECK_OK(dpt_fit(w.trainer, &options, &result)))
                FAIL("%s: %s", e.devices, dpt_error_message(w.context));
        }
        standby_end(&w);
    }
    CHECK(n_cut > 1);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"cut in an evaluation", cut_in_an_evaluation},
        {"rests in fit", rests_in_fit},
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
    };
    if (argc < 2 || !plant_setup()) {
        fputs("usage: test-fault-standby_fit fault|faultstaged [CASE...]\n", stderr);
        return 2;
    }
    plant p = {.backend = argv[1]};
    return test_run((size_t)argc - 2, argv + 2, cases, sizeof cases / sizeof *cases, &p);
}
