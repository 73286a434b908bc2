/* Tests wide islands, which contain the devices of several processes; processes are threads here
   (train/processes.h).  Every rank ends with the weights of the same devices in one process, to
   the bit.  An island that must not be used is not used by any process.  Whichever call fails, all
   processes end.

   test-fault-wide fault|faultstaged [CASE...] */
#include "fault/plant.h"
#include "train/processes.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SIDE = 8, COUNT = 40, CLASSES = 3, BATCH = 12, STEPS = 6, MOST = 4 };

/* One training, and what comes of it at every process. */
typedef struct job {
    char devices[512];
    dpt_trainer_options options;
    dpt_compression compress;
    float *states[MOST]; /* of its first device; NULL: it did not get there */
    size_t n_bytes;
    size_t islands[MOST]; /* the number of the last device's */
    size_t n_told[MOST];
    char told[256];
} job;

/* What lasts of the first device of this process. */
static dpt_status read_state(const dpt_model *model, dpt_trainer *trainer, job *j, size_t rank)
{
    dpt_parameter_info info = {.size = sizeof info};
    size_t total = 0, device = 0;
    dpt_device_info d = {.size = sizeof d};
    for (; dpt_trainer_device(trainer, device, &d) == DPT_OK && d.process != rank;)
        device++;
    for (size_t i = 0; i < dpt_model_tensor_count(model); i++) {
        dpt_model_tensor(model, i, &info);
        total += info.elements;
    }
    float *at = calloc(total, sizeof *at);
    if (!at) return DPT_E_NO_MEMORY;
    if (rank == 0) j->n_bytes = total * sizeof *at; /* the same everywhere */
    j->states[rank] = at;
    for (size_t i = 0; i < dpt_model_tensor_count(model); i++) {
        dpt_model_tensor(model, i, &info);
        DPT_TRY(dpt_trainer_get(trainer, device, DPT_PARAMETER, info.name, at, info.elements));
        at += info.elements;
    }
    return DPT_OK;
}

static dpt_status train(const dpt_model *model, dpt_trainer *trainer, job *j, size_t rank)
{
    dpt_step_metrics m = {.size = sizeof m};
    dpt_device_event event = {.size = sizeof event};
    dpt_device_info d = {.size = sizeof d};
    for (size_t i = 0; i < STEPS; i++) {
        DPT_TRY(dpt_trainer_step(trainer, &m));
        while (dpt_trainer_next_event(trainer, &event)) {
            if (event.kind == DPT_ISLAND_LOST) j->n_told[rank]++;
            if (rank == 0) snprintf(j->told, sizeof j->told, "%s", event.message);
        }
    }
    DPT_TRY(dpt_trainer_device(trainer, dpt_trainer_device_count(trainer) - 1, &d));
    j->islands[rank] = d.island;
    return read_state(model, trainer, j, rank);
}

static dpt_status part(dpt_context *context, size_t rank, void *user)
{
    job *j = user;
    char list[256];
    dpt_device_set *set = NULL;
    dpt_model *model = NULL;
    dpt_dataset *data = NULL;
    dpt_trainer *trainer = NULL;
    dpt_trainer_options options = j->options;
    options.batch_size = BATCH;
    options.bucket_bytes = 1; /* as many buckets as can be */
    options.lr = 0.05f;
    options.size = sizeof options;
    options.momentum = 0.9f;
    options.seed = 3;
    if (options.split.kind == DPT_SPLIT_MEASURED) options.split = dpt_split_from("equal");
    stand_ins_devices(j->devices, rank, list);
    dpt_status status = dpt_device_set_open(context, list, &set);
    if (status == DPT_OK) status = plant_data(context, COUNT, SIDE, CLASSES, &data);
    if (status == DPT_OK) status = plant_network(context, SIDE, CLASSES, &model);
    if (status == DPT_OK) status = dpt_trainer_create(set, model, data, &options, &trainer);
    if (status == DPT_OK) status = train(model, trainer, j, rank);
    dpt_trainer_destroy(trainer);
    dpt_model_destroy(model);
    dpt_dataset_destroy(data);
    dpt_device_set_close(set);
    return status;
}

static dpt_status run_job(test *t, const char *devices, dpt_trainer_options options, job *j,
                          char message[512])
{
    *j = (job){.options = options};
    plant_devices(devices, ((plant *)t->user)->backend, j->devices, sizeof j->devices);
    (void)remove("fault-report.txt");
    (void)alarm(120); /* nothing may hang */
    const dpt_status status = stand_ins_run(stand_ins_count(devices), part, j, message);
    (void)alarm(0);
    return status;
}

static void free_job(job *j)
{
    for (size_t r = 0; r < MOST; r++)
        free(j->states[r]);
}

static void rules_were_kept(test *t, const job *j)
{
    if (plant_count("order") > 0) FAIL("%s: rules were broken", j->devices);
    CHECK_SIZE(plant_count("parted"), plant_count("joined"));
}

typedef struct expected {
    const char *devices, *plain;
    dpt_trainer_options options;
    bool forms;
    const char *told; /* NULL: nothing */
} expected;

static void trains(test *t, const expected *e)
{
    job j, plain;
    char message[512] = "";
    const size_t n = stand_ins_count(e->devices);
    if (!CHECK_OK(run_job(t, e->devices, e->options, &j, message)))
        FAIL("%s: %s", j.devices, message);
    rules_were_kept(t, &j);
    for (size_t r = 0; r < n; r++) {
        CHECK_SIZE(j.n_told[r], r == 0 && e->told != NULL);
        if (e->forms) CHECK_SIZE(j.islands[r], 1);
    }
    CHECK((plant_count("joined") == n) >= e->forms);
    if (e->told) CHECK_CONTAINS(j.told, e->told);
    if (!CHECK_OK(run_job(t, e->plain, e->options, &plain, message)))
        FAIL("%s: %s", e->plain, message);
    for (size_t r = 0; r < n; r++)
        if (!CHECK(j.states[r] && plain.states[0] &&
                   memcmp(j.states[r], plain.states[0], j.n_bytes) == 0))
            FAIL("%s: process %zu has other weights than %s", j.devices, r, e->plain);
    free_job(&j);
    free_job(&plain);
}

static const char two[] = "cpu:threads=1,cpu:threads=1";
static const char three[] = "cpu:threads=1,cpu:threads=1,cpu:threads=1";
static const char pair[] = "@:threads=1:island=1|@:threads=1:island=1";
static const char uneven[] = "@:threads=1:island=1|@:threads=1:island=1,@:threads=1:island=1";

/* ---- Cases ----------------------------------------------------------------------------------- */

static void the_same_bits(test *t)
{
    trains(t, &(expected){pair, two, {.seed = 0}, true, NULL});
    trains(t, &(expected){uneven, three, {.seed = 0}, true, NULL});
    trains(t, &(expected){uneven, three, {.split = {DPT_SPLIT_PROPORTIONS, "1:0:2"}}, true, NULL});
    trains(t, &(expected){uneven, three, {.split = {DPT_SPLIT_PROPORTIONS, "0:0:1"}}, true, NULL});
    trains(t, &(expected){uneven,
                          three,
                          {.split = {DPT_SPLIT_PROPORTIONS, "3:2:1"}, .accumulate = 2},
                          true,
                          NULL});
    trains(t, &(expected){uneven, three, {.clip_norm = 0.5f, .no_overlap = true}, true, NULL});
}

/* Other numbers, or none, or another backend in one of them, or one that does not span: through the
   transport, without a word. */
static void unsupported(test *t)
{
    const char *const lists[] = {
        "@:threads=1:island=1|@:threads=1:island=2", "@:threads=1:island=1|@:threads=1",
        "@:threads=1|@:threads=1:island=1", "@:threads=1:island=1|cpu:threads=1",
        "@:threads=1:island=1|@:threads=1:island=1:narrow=1"};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
        trains(t, &(expected){lists[i], two, {.seed = 0}, false, NULL});
}

/* At one rank; all hear of it. */
static void wrong_sums(test *t)
{
    const char *const bugs[] = {"sum", "apart", "shaky"};
    for (size_t i = 0; i < 6; i++) {
        char list[128];
        snprintf(list, sizeof list, "@:threads=1:island=1%s%s|@:threads=1:island=1%s%s",
                 i < 3 ? "" : ":bug=", i < 3 ? "" : bugs[i % 3], i < 3 ? ":bug=" : "",
                 i < 3 ? bugs[i % 3] : "");
        trains(t, &(expected){list, two, {.seed = 0}, false, "sums that were tried"});
    }
}

/* In the trial it is not used. */
static void does_not_end_when_tried(test *t)
{
    for (size_t n = 2; n <= 7; n += 5) {
        char list[128];
        snprintf(list, sizeof list, "@:threads=1:island=1|@:threads=1:island=1:stick=%zu", n);
        trains(t, &(expected){list, two, {.device_timeout = 0.3}, false, "did not end"});
    }
}

/* In a step the job ends, and tells where. */
static void does_not_end(test *t)
{
    for (size_t n = 8; n < 30; n += 5) {
        char list[128], message[512] = "";
        job j;
        snprintf(list, sizeof list, "@:threads=1:island=1|@:threads=1:island=1:stick=%zu", n);
        const dpt_status status = run_job(
            t, list,
            (dpt_trainer_options){.size = sizeof(dpt_trainer_options), .device_timeout = 0.3}, &j,
            message);
        CHECK_STATUS(status, DPT_E_DEVICE);
        CHECK_CONTAINS(message, "process 1 (");
        CHECK_CONTAINS(message, "did not end within 0.3 s");
        rules_were_kept(t, &j);
        free_job(&j);
    }
}

/* Whichever of its calls fails, at either rank: all end, and what they end with is the same. */
static void from_the_start(test *t)
{
    size_t n_failed = 0, n_trained = 0;
    for (size_t n = 1; t->n_failures == 0; n += 7) {
        char list[128], message[512] = "";
        const char *how = n % 2 ? "fail" : "lost";
        job j;
        snprintf(list, sizeof list,
                 n / 2 % 2 ? "@:threads=1:island=1:%s=%zu|@:threads=1:island=1"
                           : "@:threads=1:island=1|@:threads=1:island=1:%s=%zu",
                 how, n);
        const dpt_status status =
            run_job(t, list,
                    (dpt_trainer_options){.size = sizeof(dpt_trainer_options), .device_timeout = 5},
                    &j, message);
        const bool fired = plant_fired();
        if (status == DPT_OK) {
            CHECK(memcmp(j.states[0], j.states[1], j.n_bytes) == 0);
            n_trained += fired;
        } else {
            if (!CHECK(fired)) FAIL("%s: %s", j.devices, message);
            const bool trained = j.states[0] || j.states[1]; /* what is read behind is its own */
            if (!trained && !strstr(message, "process "))
                FAIL("%s: names no process: %s", j.devices, message);
            n_failed++;
        }
        if (plant_count("order") > 0) FAIL("%s: rules were broken", j.devices);
        if (plant_count("touched") > 0) FAIL("%s: a lost device was touched", j.devices);
        free_job(&j);
        if (!fired) {
            printf("  %zu failures ended the job, %zu did not\n", n_failed, n_trained);
            CHECK(n_failed > 50 && n_trained > 0);
            return;
        }
    }
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"the same bits", the_same_bits}, {"unsupported", unsupported},
        {"wrong sums", wrong_sums},       {"does not end when tried", does_not_end_when_tried},
        {"does not end", does_not_end},   {"from the start", from_the_start},
    };
    if (argc < 2 || !plant_setup()) {
        fputs("usage: test-fault-wide fault|faultstaged [CASE...]\n", stderr);
        return 2;
    }
    plant p = {.backend = argv[1]};
    return test_run((size_t)argc - 2, argv + 2, cases, sizeof cases / sizeof *cases, &p);
}
