/* Hours of training in minutes: a long training with tiny batches whose devices change their speed,
   one of which is lost and taken in again time after time, whose replicas are compared, which is
   evaluated and writes checkpoints in the background; and beside it short trainings whose
   devices fail at random, which are interrupted, and resumed on other devices.  In all of them
   devices go to rest and wake up at random.  Nothing may grow: memory, file descriptors, threads;
   and replicas never differ.

       soak [SECONDS]

   Environment: DPTRAIN_SOAK_SECONDS (default 10, and at least 36 short trainings),
   DPTRAIN_SOAK_SEED (default 1), DPTRAIN_SOAK_PLANT (memory, files, threads: something that grows
   and must be noticed).

   Samples are taken between two short trainings, while all devices take part.  The first third is
   the warm-up.  What comes behind it is divided into windows, and of each window the least value
   counts, since what is measured in the middle of a write has a file more.  In the last window it
   may not be above that of the first by more than the bounds below. */
#include "device/device.h"
#include "device/throttle.h"
#include "dptrain.h"
#include "dptrain_models.h"
#include "fault/plant.h"
#include "train/membership/presence.h"
#include "train/state/trainer.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SIDE = 16, CLASSES = 4, COUNT = 96, BATCH = 12, LIFE_STEPS = 9, MAX_LIVES = 1 << 16 };
enum { STEPS_A_LIFE = 12, STEPS_A_THROTTLE = 16, WINDOWS = 4, MIN_SAMPLES = 9 * WINDOWS };
enum { PLANTED_BYTES = 64 << 10 };

/* ---- What may grow --------------------------------------------------------------------------- */

typedef enum series { HEAP, RESIDENT, FILES, THREADS, N_SERIES } series;

static const struct {
    const char *name, *unit;
    double scale;
    size_t bound; /* the growth from the first window to the last that is none */
} about[N_SERIES] = {
    /* A copy of the training state for a checkpoint or for a device that comes back is there in
       some samples, and may be there in all samples of a window: 240 KiB. */
    [HEAP] = {.name = "heap", .unit = "KiB", .scale = 1024, .bound = 320 << 10},
    /* The allocator's arenas fill up as threads come and go. */
    [RESIDENT] = {.name = "resident", .unit = "KiB", .scale = 1024, .bound = 4 << 20},
    [FILES] = {.name = "files", .unit = "", .scale = 1},
    [THREADS] = {.name = "threads", .unit = "", .scale = 1},
};

typedef struct soak {
    test *t;
    double seconds;
    uint64_t random;
    const char *planted;
    dpt_context *context;
    dpt_device_set *devices;
    dpt_dataset *data;
    dpt_trainer *trainer;
    size_t n_steps, n_lives, n_resumed, n_lost, n_readmitted, n_failed, n_rebalanced, n_checkpoints;
    size_t n_rests;
    size_t n_samples;
    size_t samples[MAX_LIVES][N_SERIES];
} soak;

/* xorshift64*: Vigna 2016. */
static size_t below(soak *s, size_t bound)
{
    s->random ^= s->random >> 12;
    s->random ^= s->random << 25;
    s->random ^= s->random >> 27;
    return (size_t)((s->random * UINT64_C(2685821657736338717)) >> 33) % bound;
}

static size_t count_entries(const char *path)
{
    size_t n = 0;
    DIR *folder = opendir(path);
    while (folder && readdir(folder))
        n++;
    if (folder) closedir(folder);
    return n;
}

static size_t resident_bytes(void)
{
    unsigned long pages = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (file && fscanf(file, "%*u %lu", &pages) != 1) pages = 0;
    if (file) fclose(file);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void take_sample(soak *s)
{
    if (s->n_samples == MAX_LIVES) return;
    size_t *sample = s->samples[s->n_samples++];
    const struct mallinfo2 info = mallinfo2();
    sample[HEAP] = info.uordblks + info.hblkhd;
    sample[RESIDENT] = resident_bytes();
    sample[FILES] = count_entries("/proc/self/fd");
    sample[THREADS] = count_entries("/proc/self/task");
}

static void *sleep_long(void *argument)
{
    pause();
    return argument;
}

/* What a careless program would do in each short training.  The few short trainings of a day's run
   leave more memory than the bound. */
static void leak(const char *what)
{
    pthread_t thread;
    if (strcmp(what, "memory") == 0) {
        char *lost = malloc(PLANTED_BYTES);
        if (lost) memset(lost, 1, PLANTED_BYTES);
        __asm__ volatile("" : : "r"(lost)); /* else the compiler leaves the call out */
    }
    if (strcmp(what, "files") == 0) (void)!open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (strcmp(what, "threads") == 0 && pthread_create(&thread, NULL, sleep_long, NULL) == 0)
        pthread_detach(thread);
}

/* ---- Devices that rest ----------------------------------------------------------------------- */

/* As if it had been measured that steps are faster without some of the devices, or with all. */
static void change_rest(soak *s, dpt_trainer *t)
{
    dpti_standby *r = &t->standby;
    const size_t stays = below(s, t->n_workers);
    if (!r->allowed || !t->plan.balance || r->changes || r->retries ||
        dpti_is_lost(&t->workers[stays]))
        return;
    if (below(s, 3) > 0) return;
    for (size_t i = 0; i < t->n_workers; i++)
        r->chosen[i] = i != stays && !dpti_is_lost(&t->workers[i]) && below(s, 3) > 0;
    r->changes = true;
    s->n_rests++;
}

/* ---- Short trainings ------------------------------------------------------------------------- */

typedef struct life {
    soak *soak;
    dpt_context *context;
    dpt_device_set *devices;
    dpt_dataset *data;
    dpt_model *model;
    dpt_trainer *trainer;
    const char *network;
    dpt_optimizer optimizer;
    uint64_t seed;
} life;

/* One of the devices fails in one of several ways, or none does. */
static void choose_devices(soak *s, char *text, size_t n_bytes)
{
    const size_t n = 2 + below(s, 2), faulty = below(s, n + 1);
    size_t used = 0;
    for (size_t i = 0; i < n; i++) {
        const char *backend = below(s, 2) ? "fault" : "faultstaged";
        char fault[64] = "";
        const size_t call = 1 + below(s, 400), after = 1 + below(s, LIFE_STEPS);
        switch (i == faulty ? below(s, 4) : 4) {
        case 0: snprintf(fault, sizeof fault, ":lost=%zu", call); break;
        case 1: snprintf(fault, sizeof fault, ":fail=%zu", call); break;
        case 2: snprintf(fault, sizeof fault, ":lost=%zu:after=%zu", 1 + call % 40, after); break;
        case 3:
            snprintf(fault, sizeof fault, ":full=%zu:for=2:from=%zu", 1 + call % 9, after);
            break;
        default: break;
        }
        used += (size_t)snprintf(text + used, n_bytes - used, "%s%s:threads=1%s%s", i ? "," : "",
                                 backend, fault, below(s, 4) ? "" : ":throttle=2");
    }
}

static dpt_status open_life(life *l)
{
    static const char *const splits[] = {"measured", "measured", "equal"};
    soak *s = l->soak;
    char devices[512];
    const dpt_model_shape shape = {
        .height = SIDE, .width = SIDE, .channels = 1, .classes = CLASSES};
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = BATCH,
                                         .split = dpt_split_from(splits[below(s, 3)]),
                                         .optimizer = l->optimizer,
                                         .lr = 0.01f,
                                         .seed = l->seed,
                                         .augment = {.flip = l->seed % 2},
                                         .verify_replicas = 2,
                                         .readmit_after = below(s, 2) ? 0.001 : 0.0};
    choose_devices(s, devices, sizeof devices);
    DPT_TRY(dpt_context_create(&l->context));
    DPT_TRY(dpt_device_set_open(l->context, devices, &l->devices));
    DPT_TRY(plant_data(l->context, COUNT, SIDE, CLASSES, &l->data));
    DPT_TRY(dpt_model_by_name(l->context, l->network, &shape, &l->model));
    return dpt_trainer_create(l->devices, l->model, l->data, &options, &l->trainer);
}

static void close_life(life *l)
{
    dpt_trainer_destroy(l->trainer);
    dpt_model_destroy(l->model);
    dpt_dataset_destroy(l->data);
    dpt_device_set_close(l->devices);
    dpt_context_destroy(l->context);
}

static void check_event(soak *s, const dpt_device_event *event)
{
    test *t = s->t;
    if (event && event->kind == DPT_REPLICA_RESTORED && event->status != DPT_E_NO_MEMORY)
        FAIL("a replica differed: %s", event->message);
}

static int watch_life(const dpt_fit_progress *progress, void *user)
{
    const life *l = user;
    soak *s = l->soak;
    check_event(s, progress->event);
    if (progress->step) change_rest(s, l->trainer);
    if (progress->event) s->n_lost += progress->event->kind == DPT_DEVICE_LOST;
    if (progress->event) s->n_readmitted += progress->event->kind == DPT_DEVICE_READMITTED;
    if (progress->step) s->n_steps++;
    return 0;
}

static dpt_status fit_life(life *l, size_t max_steps, bool resume)
{
    soak *s = l->soak;
    dpt_fit_result result = {.size = sizeof result};
    const dpt_fit_options options = {.size = sizeof options,
                                     .max_steps = max_steps,
                                     .test = below(s, 2) ? l->data : NULL,
                                     .log = "life.jsonl",
                                     .plot = below(s, 4) ? NULL : "life.svg",
                                     .trace = below(s, 4) ? NULL : "life.trace",
                                     .checkpoint = "life",
                                     .checkpoint_every = {.steps = 1 + below(s, 4)},
                                     .resume = resume,
                                     .progress = watch_life,
                                     .user = l};
    return dpt_fit(l->trainer, &options, &result);
}

/* A training on devices of its own, closed whatever came of it. */
static void train_once(const life *kind, size_t max_steps, bool resume)
{
    test *t = kind->soak->t;
    life l = *kind;
    float outputs[COUNT * CLASSES];
    dpt_status status = open_life(&l);
    if (status == DPT_OK) status = fit_life(&l, max_steps, resume);
    if (status == DPT_OK) status = dpt_trainer_predict(l.trainer, l.data, 0, COUNT, outputs);
    if (status != DPT_OK) {
        l.soak->n_failed++;
        if (status != DPT_E_DEVICE && status != DPT_E_DEVICE_LOST && status != DPT_E_NO_MEMORY)
            FAIL("a training ends with %d: %s", (int)status, dpt_error_message(l.context));
    }
    close_life(&l);
}

static void empty_folder(const char *path)
{
    char name[512];
    DIR *folder = opendir(path);
    for (const struct dirent *e; folder && (e = readdir(folder));) {
        snprintf(name, sizeof name, "%.200s/%.255s", path, e->d_name);
        if (e->d_name[0] != '.') (void)unlink(name);
    }
    if (folder) closedir(folder);
}

/* Interrupted in the middle, and resumed on other devices. */
static void live(soak *s)
{
    static const char *const networks[] = {"linear", "lenet"};
    const life kind = {.soak = s,
                       .network = networks[below(s, 2)],
                       .optimizer = below(s, 2) ? DPT_OPTIMIZER_ADAMW : DPT_OPTIMIZER_SGD,
                       .seed = below(s, 1000)};
    empty_folder("life");
    train_once(&kind, 1 + below(s, LIFE_STEPS - 1), false);
    train_once(&kind, LIFE_STEPS, true);
    s->n_resumed++;
    s->n_lives++;
    leak(s->planted);
}

/* ---- The long training
 * --------------------------------------------------------------------------- */

static void change_speed(soak *s)
{
    static const double factors[] = {1.0, 1.0, 2.0, 4.0};
    dpt_device *device = dpt_device_set_get(s->devices, below(s, dpt_device_set_count(s->devices)));
    dpti_device_set_throttle(dpti_device_of(device), factors[below(s, 4)]);
}

static int watch_long(const dpt_fit_progress *progress, void *user)
{
    soak *s = user;
    const dpt_step_metrics *m = progress->step;
    check_event(s, progress->event);
    if (progress->event && progress->event->kind == DPT_DEVICE_LOST) s->n_lost++;
    if (progress->event && progress->event->kind == DPT_DEVICE_READMITTED) s->n_readmitted++;
    if (!m) return 0;
    s->n_steps++;
    if (m->rebalance) s->n_rebalanced++;
    change_rest(s, s->trainer);
    if (m->step % STEPS_A_THROTTLE == 0) change_speed(s);
    if (m->step % STEPS_A_LIFE == 0) {
        live(s);
        if (m->n_lost == 0) take_sample(s); /* a device that is away has no replica */
    }
    return s->n_samples >= MIN_SAMPLES && progress->seconds >= s->seconds;
}

static void notice_long(dpt_notice kind, const char *text, void *user)
{
    test *t = ((soak *)user)->t;
    if (kind == DPT_NOTICE_WARNING) FAIL("%s", text);
}

static dpt_status train_long(soak *s)
{
    dpt_model *model = NULL;
    dpt_fit_result result = {.size = sizeof result};
    const dpt_model_shape shape = {
        .height = SIDE, .width = SIDE, .channels = 1, .classes = CLASSES};
    const dpt_trainer_options trainer = {.size = sizeof trainer,
                                         .batch_size = BATCH,
                                         .lr = 0.01f,
                                         .momentum = 0.9f,
                                         .augment = {.crop_padding = 1},
                                         .verify_replicas = 7,
                                         .readmit_after = 0.002};
    const dpt_fit_options fit = {.size = sizeof fit,
                                 .epochs = SIZE_MAX / COUNT,
                                 .test = s->data,
                                 .log = "/dev/null",
                                 .checkpoint = "long",
                                 .checkpoint_every = {.steps = 5},
                                 .progress = watch_long,
                                 .notice = notice_long,
                                 .user = s};
    dpt_status status = dpt_model_by_name(s->context, "lenet", &shape, &model);
    if (status == DPT_OK)
        status = dpt_trainer_create(s->devices, model, s->data, &trainer, &s->trainer);
    if (status == DPT_OK) status = dpt_fit(s->trainer, &fit, &result);
    dpt_trainer_destroy(s->trainer);
    dpt_model_destroy(model);
    return status;
}

/* ---- The verdict
 * --------------------------------------------------------------------------------- */

/* The least of window w of those behind the warm-up. */
static size_t least(const soak *s, series which, size_t w)
{
    const size_t warm = s->n_samples / 3, n = s->n_samples - warm;
    size_t result = SIZE_MAX;
    for (size_t i = warm + n * w / WINDOWS; i < warm + n * (w + 1) / WINDOWS; i++)
        if (s->samples[i][which] < result) result = s->samples[i][which];
    return result;
}

/* Sanitizers have an allocator of their own, which keeps what was freed for a while. */
static bool is_measured(const soak *s, series which)
{
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
    const bool sanitized = true;
#elif defined __has_feature
    const bool sanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
    const bool sanitized = false;
#endif
    return which >= FILES || (!sanitized && s->samples[0][HEAP] > 0);
}

static void check_series(const soak *s, series which)
{
    test *t = s->t;
    printf("  %-9s", about[which].name);
    for (size_t w = 0; w < WINDOWS; w++)
        printf(" %10.0f", (double)least(s, which, w) / about[which].scale);
    printf(" %s%s\n", about[which].unit, is_measured(s, which) ? "" : " (not judged here)");
    const size_t first = least(s, which, 0), last = least(s, which, WINDOWS - 1);
    if (!is_measured(s, which) || last <= first + about[which].bound)
        CHECK(first < SIZE_MAX);
    else
        FAIL("%s grows: from %zu to %zu in %zu lives", about[which].name, first, last, s->n_lives);
}

static void nothing_grows(test *t)
{
    soak *s = t->user;
    s->t = t;
    (void)mkdir("life", 0777);
    empty_folder("long");
    REQUIRE(plant_setup() && unsetenv("DPTRAIN_FAULT_REPORT") == 0);
    REQUIRE_OK(dpt_context_create(&s->context));
    /* The last one fails 600 calls behind its first step, whenever it has been opened. */
    REQUIRE_OK(dpt_device_set_open(s->context,
                                   "cpu:threads=1,cpu:threads=1,"
                                   "faultstaged:threads=1:after=1:lost=600",
                                   &s->devices));
    REQUIRE_OK(plant_data(s->context, COUNT, SIDE, CLASSES, &s->data));
    const dpt_status status = train_long(s);
    if (status != DPT_OK) FAIL("the long training: %s", dpt_error_message(s->context));
    dpt_dataset_destroy(s->data);
    dpt_device_set_close(s->devices);
    dpt_context_destroy(s->context);

    printf("  %zu steps, %zu lives, %zu devices lost, %zu taken in again, %zu trainings ended by "
           "failures, %zu rebalancings, %zu times rested or woken\n",
           s->n_steps, s->n_lives, s->n_lost, s->n_readmitted, s->n_failed, s->n_rebalanced,
           s->n_rests);
    CHECK(s->n_lost > 0 && s->n_readmitted > 0 && s->n_rebalanced > 0);
    if (!CHECK(s->n_samples >= MIN_SAMPLES)) return;
    for (series which = 0; which < N_SERIES; which++)
        check_series(s, which);
}

static const char *setting(const char *name, const char *otherwise)
{
    const char *value = getenv(name);
    return value && *value ? value : otherwise;
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {{"nothing grows", nothing_grows}};
    static soak s;
    s.seconds = strtod(setting("DPTRAIN_SOAK_SECONDS", "10"), NULL);
    s.random = strtoull(setting("DPTRAIN_SOAK_SEED", "1"), NULL, 10) * 2654435761u + 1;
    s.planted = setting("DPTRAIN_SOAK_PLANT", "nothing");
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, &s);
}
