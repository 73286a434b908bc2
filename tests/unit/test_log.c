/* Tests the run log: every line is JSON with the documented fields, write failures are reported,
   and shards can be read back. */
#include "fit/history.h"
#include "harness.h"
#include "io/log.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const dpt_device_info devices[] = {
    {.id = "cpu:threads=1",
     .backend = "cpu",
     .name = "A \"CPU\" \xff",
     .memory_bytes = (size_t)5 << 30,
     .n_threads = 1},
    {.id = "card:0", .backend = "card", .name = "Card"},
};

static const dpti_log_run run = {
    .model = "lenet",
    .parameters = 128874,
    .batch_size = 8,
    .seed = 3,
    .dataset = "mnist",
    .split = "5:3",
    .n_settings = 2,
    .settings = (const dpti_log_setting[]){{.name = "lr", .value = "0.1"},
                                           {.name = "loss", .value = "\xff"}},
    .n_devices = 2,
    .devices = devices,
    .streamed = (const bool[]){false, true},
    .exchange = &(const dpti_log_exchange){.first_bucket = 65536,
                                           .bucket = 1 << 20,
                                           .measured = true,
                                           .alpha = 0.5,
                                           .beta = 0.25,
                                           .route = "ring",
                                           .window = 7},
};

/* ---- Writing --------------------------------------------------------------------------------- */

static dpt_status write_step(dpti_log *log, size_t step, size_t first, size_t second, double loss,
                             dpt_error *error)
{
    const size_t shards[2] = {first, second};
    const double seconds[2] = {0.125, 1e-5}, exchange[2] = {0.0625, 0.0}, waiting[2] = {0.0, 0.5};
    const dpt_step_metrics metrics = {
        .size = sizeof metrics,
        .step = step,
        .epoch = 1,
        .samples = first + second,
        .loss = loss,
        .lr = 0.25,
        .hits = 4,
        .seconds = 0.25,
        .n_devices = 2,
        .shards = shards,
        .device_seconds = seconds,
        .exchange_seconds = exchange,
        .waiting_seconds = waiting,
    };
    return dpti_log_write_step(log, &metrics, error);
}

static dpt_status write_log(const char *path, dpt_error *error)
{
    const dpt_epoch_metrics tested = {.size = sizeof tested,
                                      .epoch = 1,
                                      .train_loss = 0.5,
                                      .train_accuracy = 0.8,
                                      .tested = true,
                                      .test_loss = 0.625,
                                      .test_accuracy = 0.75,
                                      .validated = true,
                                      .validation_loss = 0.375,
                                      .validation_accuracy = 0.875,
                                      .seconds = 2,
                                      .images_per_second = 100,
                                      .weights_sha256 = "0123"};
    const dpt_epoch_metrics untested = {.size = sizeof untested, .epoch = 2, .train_loss = 0.5};
    const dpt_fit_result result = {.size = sizeof result,
                                   .steps = 2,
                                   .epochs = 2,
                                   .seconds = 3,
                                   .images_per_second = 5,
                                   .test_accuracy = NAN,
                                   .best_epoch = 2,
                                   .best_validation_loss = 0.375};
    const dpt_fit_result unvalidated = {
        .size = sizeof unvalidated, .test_accuracy = 0.5, .best_validation_loss = NAN};
    const dpt_device_report reports[2] = {{.samples = 11,
                                           .steps = 2,
                                           .busy_seconds = 2.5,
                                           .exchange_seconds = 0.5,
                                           .waiting_seconds = 0.25,
                                           .throughput = 4.5,
                                           .alone_throughput = 5.5},
                                          {.samples = 0, .waiting_seconds = 2.75}};
    const dpti_log_done done = {.result = &result,
                                .n_devices = 2,
                                .devices = reports,
                                .mix = {.balance = 0.875, .scaling = 0.75}};
    const dpti_log_done idle = {
        .result = &unvalidated, .n_devices = 1, .devices = &reports[1], .mix = {.balance = 0}};
    dpti_log *log = NULL;
    DPT_TRY(dpti_log_open(path, &log, error));
    dpt_status status = dpti_log_write_run(log, &run, error);
    if (status == DPT_OK) status = write_step(log, 1, 5, 3, 1.0 / 3, error);
    if (status == DPT_OK) status = write_step(log, 2, 0, 8, INFINITY, error);
    if (status == DPT_OK) status = dpti_log_write_epoch(log, &tested, error);
    if (status == DPT_OK) status = dpti_log_write_epoch(log, &untested, error);
    if (status == DPT_OK) status = dpti_log_write_done(log, &done, error);
    if (status == DPT_OK) status = dpti_log_write_done(log, &idle, error);
    const dpt_status closed = dpti_log_close(log, status == DPT_OK ? error : NULL);
    return status == DPT_OK ? closed : status;
}

enum { N_LINES = 7 };

/* The lines of the log as JSON; false if one is none.  Release with json_decref. */
static bool load_lines(const char *path, json_t *lines[N_LINES], char text[N_LINES][1024])
{
    FILE *file = fopen(path, "r");
    bool right = file != NULL;
    for (size_t i = 0; i < N_LINES; i++) {
        lines[i] = right && fgets(text[i], 1024, file) ? json_loads(text[i], 0, NULL) : NULL;
        right = right && lines[i] != NULL;
    }
    right = right && fgetc(file) == EOF;
    if (file) fclose(file);
    return right;
}

static const char *text_of(const json_t *object, const char *key)
{
    return json_string_value(json_object_get(object, key));
}

static double number_of(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    return json_is_number(value) ? json_number_value(value) : NAN;
}

static void check_run(test *t, const json_t *line)
{
    CHECK_TEXT(text_of(line, "event"), "run");
    CHECK_TEXT(text_of(line, "version"), DPT_VERSION);
    CHECK_TEXT(text_of(line, "model"), "lenet");
    CHECK_NEAR(number_of(line, "parameters"), 128874, 0);
    CHECK_NEAR(number_of(line, "batch_size"), 8, 0);
    CHECK_NEAR(number_of(line, "seed"), 3, 0);
    CHECK_TEXT(text_of(line, "dataset"), "mnist");
    CHECK_TEXT(text_of(line, "split"), "5:3");
    const json_t *settings = json_object_get(line, "settings");
    CHECK_SIZE(json_object_size(settings), 2);
    CHECK_TEXT(text_of(settings, "lr"), "0.1");
    CHECK(text_of(settings, "loss")); /* in words that JSON can have */
    const json_t *exchange = json_object_get(line, "exchange");
    CHECK_NEAR(number_of(exchange, "first_bucket_bytes"), 65536, 0);
    CHECK_NEAR(number_of(exchange, "bucket_bytes"), 1 << 20, 0);
    CHECK_NEAR(number_of(exchange, "alpha_seconds"), 0.5, 0);
    CHECK_NEAR(number_of(exchange, "beta_seconds"), 0.25, 0);
    CHECK_TEXT(text_of(exchange, "route"), "ring");
    CHECK_NEAR(number_of(exchange, "window"), 7, 0);
    const json_t *list = json_object_get(line, "devices");
    CHECK_SIZE(json_array_size(list), 2);
    const json_t *cpu = json_array_get(list, 0), *card = json_array_get(list, 1);
    CHECK(!json_object_get(cpu, "streamed"));
    CHECK(json_is_true(json_object_get(card, "streamed")));
    CHECK_TEXT(text_of(cpu, "id"), "cpu:threads=1");
    CHECK_TEXT(text_of(cpu, "backend"), "cpu");
    CHECK_TEXT(text_of(cpu, "name"), "A \"CPU\" ?");
    CHECK_NEAR(number_of(cpu, "threads"), 1, 0);
    CHECK_NEAR(number_of(cpu, "memory_bytes"), 5.0 * (1 << 30), 0);
    CHECK_TEXT(text_of(card, "id"), "card:0");
    CHECK(!json_object_get(card, "threads") && !json_object_get(card, "memory_bytes"));
}

static void check_steps(test *t, const json_t *first, const json_t *second, const char *text)
{
    CHECK_TEXT(text_of(first, "event"), "step");
    CHECK_NEAR(number_of(first, "step"), 1, 0);
    CHECK_NEAR(number_of(first, "epoch"), 1, 0);
    CHECK_NEAR(number_of(first, "samples"), 8, 0);
    CHECK_NEAR(number_of(first, "hits"), 4, 0);
    CHECK_NEAR(number_of(first, "seconds"), 0.25, 0);
    CHECK_CONTAINS(text, "\"loss\":0.333333333,"); /* 9 significant digits */
    CHECK_NEAR(number_of(first, "lr"), 0.25, 0);
    CHECK_CONTAINS(text, "\"shards\":[5,3]");
    CHECK_CONTAINS(text, "\"device_seconds\":[0.125,1e-5]");
    CHECK_CONTAINS(text, "\"exchange_seconds\":[0.0625,0.0]");
    CHECK_CONTAINS(text, "\"waiting_seconds\":[0.0,0.5]");
    CHECK_NEAR(number_of(second, "step"), 2, 0);
    CHECK(json_is_null(json_object_get(second, "loss")));
}

static void check_epochs(test *t, const json_t *tested, const json_t *untested)
{
    CHECK_TEXT(text_of(tested, "event"), "epoch");
    CHECK_NEAR(number_of(tested, "epoch"), 1, 0);
    CHECK_NEAR(number_of(tested, "train_loss"), 0.5, 0);
    CHECK_NEAR(number_of(tested, "train_accuracy"), 0.8, 1e-9);
    CHECK_NEAR(number_of(tested, "test_loss"), 0.625, 0);
    CHECK_NEAR(number_of(tested, "test_accuracy"), 0.75, 0);
    CHECK_NEAR(number_of(tested, "seconds"), 2, 0);
    CHECK_NEAR(number_of(tested, "images_per_second"), 100, 0);
    CHECK_TEXT(text_of(tested, "weights_sha256"), "0123");
    CHECK(!json_object_get(untested, "weights_sha256"));
    CHECK_NEAR(number_of(tested, "validation_loss"), 0.375, 0);
    CHECK_NEAR(number_of(tested, "validation_accuracy"), 0.875, 0);
    CHECK(json_is_null(json_object_get(untested, "validation_loss")));
    CHECK(json_is_null(json_object_get(untested, "validation_accuracy")));
    CHECK(json_is_null(json_object_get(untested, "test_loss")));
    CHECK(json_is_null(json_object_get(untested, "test_accuracy")));
}

static void check_done_devices(test *t, const char *text, const char *idle)
{
    CHECK_CONTAINS(text, "\"samples\":[11,0],\"device_seconds\":[2.5,0.0],"
                         "\"exchange_seconds\":[0.5,0.0],\"waiting_seconds\":[0.25,2.75],"
                         "\"throughput\":[4.5,null],\"alone_throughput\":[5.5,null],"
                         "\"balance\":0.875,\"scaling\":0.75,");
    CHECK_CONTAINS(idle, "\"samples\":[0],");
    CHECK_CONTAINS(idle, "\"balance\":null,\"scaling\":null,");
}

static void check_done(test *t, const json_t *line, const json_t *unvalidated)
{
    CHECK_TEXT(text_of(line, "event"), "done");
    CHECK_NEAR(number_of(line, "steps"), 2, 0);
    CHECK_NEAR(number_of(line, "seconds"), 3, 0);
    CHECK_NEAR(number_of(line, "images_per_second"), 5, 0);
    CHECK(json_is_null(json_object_get(line, "test_accuracy")));
    CHECK_NEAR(number_of(line, "best_epoch"), 2, 0);
    CHECK_NEAR(number_of(line, "best_validation_loss"), 0.375, 0);
    CHECK_NEAR(number_of(unvalidated, "test_accuracy"), 0.5, 0);
    CHECK(json_is_null(json_object_get(unvalidated, "best_epoch")));
    CHECK(json_is_null(json_object_get(unvalidated, "best_validation_loss")));
    CHECK(number_of(line, "peak_rss_bytes") > 100 * 1024);
    CHECK(number_of(line, "peak_rss_bytes") < 1e12);
}

static void writes_what_is_promised(test *t)
{
    json_t *lines[N_LINES];
    char text[N_LINES][1024];
    dpt_error error = {0};
    REQUIRE_OK(write_log("log", &error));
    if (CHECK(load_lines("log", lines, text))) {
        check_run(t, lines[0]);
        check_steps(t, lines[1], lines[2], text[1]);
        check_epochs(t, lines[3], lines[4]);
        check_done(t, lines[5], lines[6]);
        check_done_devices(t, text[5], text[6]);
    }
    for (size_t i = 0; i < N_LINES; i++)
        json_decref(lines[i]);
}

static void writes_every_seed(test *t)
{
    static const struct {
        uint64_t seed;
        const char *text;
    } cases[] = {
        {0, "\"seed\":0,"},
        {INT64_MAX, "\"seed\":9223372036854775807,"},
        {UINT64_MAX, "\"seed\":\"18446744073709551615\","},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dpti_log *log = NULL;
        dpti_log_run seeded = run;
        char line[1024] = "";
        seeded.seed = cases[i].seed;
        REQUIRE_OK(dpti_log_open("seeds", &log, NULL));
        CHECK_OK(dpti_log_write_run(log, &seeded, NULL));
        /* Before it is closed: a reader may follow a run. */
        FILE *file = fopen("seeds", "r");
        CHECK(file && fgets(line, sizeof line, file));
        CHECK_CONTAINS(line, cases[i].text);
        if (file) fclose(file);
        CHECK_OK(dpti_log_close(log, NULL));
    }
}

static void says_why_it_cannot_write(test *t)
{
    dpti_log *log = NULL;
    dpt_error error = {0};
    CHECK_OK(dpti_log_close(NULL, &error));
    CHECK_STATUS(dpti_log_open("no/such/folder/log", &log, &error), DPT_E_IO);
    CHECK_CONTAINS(error.message, "no/such/folder/log");
    CHECK_STATUS(dpti_log_open("/", &log, &error), DPT_E_IO);
    CHECK(log == NULL);
    if (access("/dev/full", W_OK) != 0) SKIP("no /dev/full");
    REQUIRE_OK(dpti_log_open("/dev/full", &log, &error));
    CHECK_STATUS(dpti_log_write_run(log, &run, &error), DPT_E_IO);
    CHECK_CONTAINS(error.message, "/dev/full");
    CHECK_CONTAINS(error.message, strerror(ENOSPC));
    CHECK_STATUS(write_step(log, 1, 5, 3, 1, &error), DPT_E_IO);
    const dpt_status closed = dpti_log_close(log, &error);
    CHECK(closed == DPT_OK || closed == DPT_E_IO);
}

/* ---- Reading back ---------------------------------------------------------------------------- */

static void replays_what_it_writes(test *t)
{
    dpti_replay replay = {0};
    dpt_error error = {0};
    REQUIRE_OK(write_log("replayed", &error));
    REQUIRE_OK(dpti_replay_read("replayed", &replay, &error));
    CHECK_SIZE(replay.n_devices, 2);
    CHECK_SIZE(replay.batch_size, 8);
    CHECK_SIZE(replay.n_steps, 2);
    CHECK(memcmp(replay.shards, (const size_t[]){5, 3, 0, 8}, 4 * sizeof(size_t)) == 0);
    dpti_replay_free(&replay);
    dpti_replay_free(&replay);
    CHECK_STATUS(dpti_replay_read("no-such-log", &replay, &error), DPT_E_NOT_FOUND);
    CHECK_CONTAINS(error.message, "no-such-log");
}

#define RUN "{\"event\":\"run\",\"batch_size\":8,\"devices\":[{},{}]}\n"
#define STEP(n, samples, shards)                                                                   \
    "{\"event\":\"step\",\"step\":" n ",\"samples\":" samples ",\"shards\":" shards "}"

static void passes_over_what_it_does_not_know(test *t)
{
    static const char *const texts[] = {
        RUN STEP("1", "8", "[8,0]") "\n",
        RUN STEP("1", "8", "[8,0]"), /* a last line without its end */
        "{\"event\":\"new\"}\n" RUN "{\"event\":\"epoch\"}\n" STEP("1", "8", "[8,0]") "\n",
        RUN STEP("1", "8", "[8,0],\"more\":[{\"x\":null}]") "\n",
        RUN STEP("1", "8", "[8,0]") "\n{\"event\":\"step\",\"st", /* killed while writing */
        RUN STEP("1", "8", "[8,0]") "\n{",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        dpti_replay replay = {0};
        dpt_error error = {0};
        if (!CHECK_OK(dpti_replay_parse(
                &(dpti_file_bytes){"log", (const uint8_t *)texts[i], strlen(texts[i])}, &replay,
                &error)))
            FAIL("case %zu: %s", i, error.message);
        CHECK_SIZE(replay.n_steps, 1);
        dpti_replay_free(&replay);
    }
}

/* By the event's older name, which is read too. */
#define CHOICES(device, list)                                                                      \
    "{\"event\":\"choices\",\"device\":" device ",\"operations\":" list "}\n"

static void refuses_other_logs(test *t)
{
    static const struct {
        const char *text, *reason;
    } cases[] = {
        {"", "no run event"},
        {"{\"event\":\"epoch\"}\n", "no run event"},
        {RUN, "no step"},
        {"hello\n", "log:1: the line is no JSON"},
        {"\n", "log:1: the line is no JSON"},
        {RUN "{\"event\":\"step\",\"st\n" STEP("1", "8", "[8,0]") "\n", "log:2: the line is no"},
        {RUN "{\"step\":1}\n", "log:2: no JSON object with an event"},
        {RUN "[1]\n", "log:2: no JSON object with an event"},
        {RUN "{\"event\":\"x\",\"event\":\"y\"}\n", "log:2"},
        {RUN RUN, "log:2: a second run event"},
        {STEP("1", "8", "[8,0]") "\n" RUN, "log:1: a step before the run event"},
        {"{\"event\":\"run\",\"batch_size\":0,\"devices\":[{}]}\n",
         "log:1: the run event has no b"},
        {"{\"event\":\"run\",\"devices\":[{}]}\n", "log:1: the run event has no batch_size"},
        {"{\"event\":\"run\",\"batch_size\":8,\"devices\":[]}\n",
         "log:1: the run event has no dev"},
        {"{\"event\":\"run\",\"batch_size\":8,\"devices\":[{},{\"micro_batch\":0}]}\n",
         "log:1: a device's micro_batch is no number"},
        {"{\"event\":\"run\",\"batch_size\":8,\"devices\":[{\"micro_batch\":\"8\"}]}\n",
         "log:1: a device's micro_batch is no number"},
        {RUN STEP("2", "8", "[8,0]") "\n", "log:2: a step is missing"},
        {RUN STEP("1", "8", "[8,0]") "\n" STEP("1", "8", "[8,0]") "\n", "log:3: a step is missing"},
        {RUN STEP("1", "8", "[8,0]") "\n" STEP("3", "8", "[8,0]") "\n", "log:3: a step is missing"},
        {RUN STEP("1", "8", "[7,0]") "\n", "log:2: the shards do not add up"},
        {RUN STEP("1", "8", "[8]") "\n", "log:2: the step's shards are not one for each device"},
        {RUN STEP("1", "8", "8") "\n", "log:2: the step's shards"},
        {RUN STEP("1", "8", "[9,-1]") "\n", "log:2: a shard is no number"},
        {RUN STEP("1", "8", "[4.0,4]") "\n", "log:2: a shard is no number"},
        {RUN STEP("1", "9", "[9,0]") "\n", "log:2: the step's samples"},
        {RUN STEP("1", "0", "[0,0]") "\n", "log:2: the step's samples"},
        {RUN CHOICES("2", "[]"), "log:2: the choices' device is none"},
        {CHOICES("0", "[]"), "log:1: the choices' device is none"},
        {RUN CHOICES("0", "[[\"a\",\"b\",\"c\"],[\"a\",\"b\"]]"),
         "log:2: a choice is no three words"},
        {RUN CHOICES("0", "[[\"a\",\"b\",1]]"), "log:2: a choice is no three words"},
        {RUN CHOICES("0", "[[\"a\",\"b\",\"c\"]]") CHOICES("0", "[]"), "log:3: a device's choices"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        dpti_replay replay = {.n_steps = 99};
        dpt_error error = {0};
        CHECK_STATUS(dpti_replay_parse(&(dpti_file_bytes){"log", (const uint8_t *)cases[i].text,
                                                          strlen(cases[i].text)},
                                       &replay, &error),
                     DPT_E_FORMAT);
        CHECK_CONTAINS(error.message, cases[i].reason);
        CHECK_SIZE(replay.n_steps, 99);
    }
}

/* Of two devices one has a limit; older logs tell of none. */
static void replays_micro_batch_limits(test *t)
{
    static const size_t limits[] = {SIZE_MAX, 67};
    dpti_log_run limited = run;
    dpti_log *log = NULL;
    dpti_replay replay = {0};
    limited.micro_batch_limits = limits;
    REQUIRE_OK(dpti_log_open("limited", &log, NULL));
    CHECK_OK(dpti_log_write_run(log, &limited, NULL));
    CHECK_OK(write_step(log, 1, 5, 3, 1, NULL));
    CHECK_OK(dpti_log_close(log, NULL));
    REQUIRE_OK(dpti_replay_read("limited", &replay, NULL));
    CHECK(replay.at_once[0] == SIZE_MAX);
    CHECK_SIZE(replay.at_once[1], 67);
    dpti_replay_forget_choices(&replay, 1);
    CHECK_SIZE(replay.at_once[1], 0);
    dpti_replay_free(&replay);
    REQUIRE_OK(write_log("untold", NULL));
    REQUIRE_OK(dpti_replay_read("untold", &replay, NULL));
    CHECK(replay.at_once[0] == SIZE_MAX);
    dpti_replay_free(&replay);
}

/* Behind a resume, devices may compute otherwise than at first. */
static void tells_what_changed(test *t)
{
    static const char begin[] =
        "{\"event\":\"run\",\"batch_size\":8,\"devices\":[{\"backend\":\"cpu\",\"micro_batch\":4},"
        "{\"backend\":\"cpu\",\"micro_batch\":null}]}\n" CHOICES(
            "1", "[[\"a\",\"b\",\"c\"]]") "{\"event\":\"step\",\"step\":1,\"samples\":8,\"shards\":"
                                          "[5,3]}\n";
    static const struct {
        const char *devices, *choices;
        bool same;
        size_t device;
    } resumes[] = {
        {"{\"backend\":\"cpu\",\"micro_batch\":4},{\"backend\":\"cpu\"}", "", true, 0},
        /* Once more, before a step is done. */
        {"{\"backend\":\"cpu\",\"micro_batch\":2},{\"backend\":\"cpu\"}]}\n"
         "{\"event\":\"resume\",\"step\":1,\"devices\":[{\"backend\":\"cpu\",\"micro_batch\":4},"
         "{\"backend\":\"cpu\"}",
         "", true, 0},
        {"{\"backend\":\"cpu\",\"micro_batch\":2},{\"backend\":\"cpu\"}", "", false, 0},
        {"{\"backend\":\"cpu\",\"micro_batch\":4},{\"backend\":\"cpu\",\"micro_batch\":8}", "",
         false, 1},
        {"{\"backend\":\"cpu\",\"micro_batch\":4},{\"backend\":\"cuda\"}", "", false, 1},
        {"{\"backend\":\"cpu\",\"micro_batch\":4},{\"backend\":\"cpu\"}",
         CHOICES("0", "[[\"a\",\"b\",\"d\"]]") CHOICES("1", "[[\"a\",\"b\",\"c\"]]"), true, 0},
        {"{\"backend\":\"cpu\",\"micro_batch\":4},{\"backend\":\"cpu\"}",
         CHOICES("1", "[[\"a\",\"b\",\"d\"]]"), false, 1},
        {"{\"backend\":\"cpu\",\"micro_batch\":4},{\"backend\":\"cpu\"}",
         CHOICES("1", "[[\"a\",\"b\",\"c\"],[\"a\",\"e\",\"\"]]"), false, 1},
    };
    for (size_t i = 0; i < sizeof resumes / sizeof *resumes; i++) {
        char text[1024];
        dpti_replay replay = {0};
        snprintf(text, sizeof text,
                 "%s{\"event\":\"resume\",\"step\":1,\"devices\":[%s]}\n%s"
                 "{\"event\":\"step\",\"step\":2,\"samples\":8,\"shards\":[5,3]}\n",
                 begin, resumes[i].devices, resumes[i].choices);
        if (!CHECK_OK(dpti_replay_parse(
                &(dpti_file_bytes){"log", (const uint8_t *)text, strlen(text)}, &replay, NULL)))
            continue;
        CHECK_SIZE(replay.changed_step, resumes[i].same ? 0 : 2);
        CHECK_SIZE(replay.changed_device, resumes[i].device);
        CHECK_TEXT(replay.choices[1].items[0].algorithm, "c");
        dpti_replay_free(&replay);
    }
}

/* Of two devices the second has choices; what is written is read. */
static void replays_choices(test *t)
{
    dpti_recorded_choices made;
    dpti_log *log = NULL;
    dpti_replay replay = {0};
    REQUIRE(dpti_recorded_choices_reserve(2, &made) &&
            dpti_recorded_choices_add(&made, "conv1", "CONV2D_FORWARD", "winograd4") &&
            dpti_recorded_choices_add(&made, "loss", "softmax", ""));
    REQUIRE_OK(dpti_log_open("chosen", &log, NULL));
    CHECK_OK(dpti_log_write_run(log, &run, NULL));
    CHECK_OK(dpti_log_write_choices(log, 1, &made, NULL));
    dpti_recorded_choices_free(&made);
    CHECK_OK(write_step(log, 1, 5, 3, 1, NULL));
    CHECK_OK(dpti_log_close(log, NULL));
    REQUIRE_OK(dpti_replay_read("chosen", &replay, NULL));
    CHECK_TEXT(replay.model, run.model);
    CHECK_TEXT(replay.backends[0], run.devices[0].backend);
    CHECK_SIZE(replay.choices[0].n, 0);
    if (CHECK_SIZE(replay.choices[1].n, 2)) {
        CHECK_TEXT(replay.choices[1].items[0].layer, "conv1");
        CHECK_TEXT(replay.choices[1].items[0].kind, "CONV2D_FORWARD");
        CHECK_TEXT(replay.choices[1].items[0].algorithm, "winograd4");
        CHECK_TEXT(replay.choices[1].items[1].algorithm, "");
    }
    dpti_replay_forget_choices(&replay, 1);
    CHECK_SIZE(replay.choices[1].n, 0);
    dpti_replay_free(&replay);
}

/* Where a resumed run goes on in its file. */
static void finds_where_to_go_on(test *t)
{
    static const dpti_log_position at = {
        .step = 2, .epoch = 2, .batch_size = 8, .seed = UINT64_MAX};
    static const char whole[] =
        "{\"event\":\"run\",\"batch_size\":8,\"seed\":\"18446744073709551615\"}\n"
        "{\"event\":\"step\",\"step\":1}\n{\"event\":\"epoch\",\"epoch\":1}\n"
        "{\"event\":\"step\",\"step\":2}\n";
    static const char behind[] = "{\"event\":\"epoch\",\"epoch\":2}\n";
    dpti_log_cut cut = {.n_kept = 9, .last_step = 9};
    dpt_error error = {0};
    (void)remove("found");
    REQUIRE_OK(dpti_log_find("found", &at, &cut, &error));
    CHECK(cut.n_kept == 0 && cut.last_step == 0); /* it is not there yet */
    REQUIRE_OK(dpti_log_find("/dev/null", &at, &cut, &error));
    CHECK(cut.n_kept == 0 && cut.last_step == 0); /* it is no file */
    FILE *file = fopen("found", "w");
    REQUIRE(file && fputs(whole, file) >= 0 && fputs(behind, file) >= 0 && fclose(file) == 0);
    REQUIRE_OK(dpti_log_find("found", &at, &cut, &error));
    CHECK_SIZE(cut.n_kept, sizeof whole - 1);
    CHECK_SIZE(cut.last_step, 2);
    const dpti_log_position other = {.step = 2, .epoch = 2, .batch_size = 9, .seed = UINT64_MAX};
    CHECK_STATUS(dpti_log_find("found", &other, &cut, &error), DPT_E_INVALID);
    CHECK_CONTAINS(error.message, "found");
    CHECK_STATUS(dpti_log_find_in(&(dpti_file_bytes){"text", (const uint8_t *)"no line", 7}, &at,
                                  &cut, &error),
                 DPT_E_INVALID);
    CHECK_STATUS(dpti_log_find_in(&(dpti_file_bytes){"text", (const uint8_t *)"no JSON\n", 8}, &at,
                                  &cut, &error),
                 DPT_E_INVALID);
}

static void replays_long_logs(test *t)
{
    enum { N = 1000 };
    dpti_log *log = NULL;
    dpti_replay replay = {0};
    REQUIRE_OK(dpti_log_open("long", &log, NULL));
    CHECK_OK(dpti_log_write_run(log, &run, NULL));
    for (size_t i = 0; i < N; i++)
        CHECK_OK(write_step(log, i + 1, i % 9, 8 - i % 9, 1, NULL));
    CHECK_OK(dpti_log_close(log, NULL));
    REQUIRE_OK(dpti_replay_read("long", &replay, NULL));
    CHECK_SIZE(replay.n_steps, N);
    for (size_t i = 0; i < N; i++)
        CHECK_SIZE(replay.shards[2 * i], i % 9);
    dpti_replay_free(&replay);
}

/* What the picture of a run that goes on is drawn from. */
static void recalls_steps_and_epochs(test *t)
{
    static const char text[] =
        "{\"event\":\"run\",\"batch_size\":8}\n"
        "{\"event\":\"step\",\"step\":1,\"epoch\":1,\"loss\":9.0,\"shards\":[4,4]}\n"
        "{\"event\":\"step\",\"step\":3,\"epoch\":1,\"loss\":2.5,\"shards\":[4,4]}\n"
        "{\"event\":\"rebalance\",\"step\":4,\"shards\":[5,3]}\n"
        "{\"event\":\"step\",\"step\":4,\"epoch\":1,\"loss\":null,\"shards\":[5,3]}\n"
        "{\"event\":\"epoch\",\"epoch\":1,\"train_accuracy\":0.5,\"test_accuracy\":null}\n"
        "no JSON\n[]\n{\"event\":\"step\"}\n"
        "{\"event\":\"step\",\"step\":5,\"epoch\":2,\"loss\":1,\"shards\":[8]}\n"
        "{\"event\":\"step\",\"step\":5,\"epoch\":2,\"loss\":1.5,\"shards\":[0,8]}\n"
        "{\"event\":\"step\",\"step\":6,\"epo";
    dpt_error error = {0};
    dpti_history h = {0};
    FILE *file = fopen("recalled.jsonl", "w");
    if (!CHECK(file) || !CHECK(fputs(text, file) >= 0) || !CHECK(fclose(file) == 0)) return;
    CHECK_OK(dpti_history_recall(&h, "recalled.jsonl", 2, &error));
    CHECK_SIZE(h.steps_before, 2); /* step 2 is missing, and 1 before it is forgotten */
    if (CHECK_SIZE(h.n_steps, 3)) {
        CHECK(h.loss[0] == 2.5 && isnan(h.loss[1]) && h.loss[2] == 1.5);
        CHECK(!h.rebalanced[0] && h.rebalanced[1] && !h.rebalanced[2]);
        CHECK(h.epoch[1] == 1 && h.epoch[2] == 2);
        CHECK(h.shards[2] == 5 && h.shards[3] == 3 && h.shards[5] == 8);
    }
    CHECK_SIZE(h.epochs_before, 0);
    if (CHECK_SIZE(h.n_epochs, 1)) CHECK(h.train_accuracy[0] == 0.5 && isnan(h.test_accuracy[0]));
    dpti_history_free(&h);
    CHECK_STATUS(dpti_history_recall(&h, "no-such.jsonl", 2, &error), DPT_E_NOT_FOUND);
}

/* Training has gone back and ended there. */
static void forgets_what_is_undone(test *t)
{
    static const struct cut {
        size_t step, epoch, n_steps, n_epochs;
    } cuts[] = {{30, 9, 12, 3}, {22, 6, 12, 3}, {21, 6, 11, 3}, {21, 5, 11, 2},
                {11, 4, 1, 1},  {10, 3, 0, 0},  {3, 1, 0, 0},   {0, 1, 0, 0}};
    size_t shards = 8;
    dpti_history h = {0};
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        dpti_history_free(&h);
        for (size_t step = 11; step <= 22; step++) /* it goes on from step 10, in epoch 3 */
            CHECK(dpti_history_add_step(&h, &(dpt_step_metrics){.size = sizeof(dpt_step_metrics),
                                                                .step = step,
                                                                .n_devices = 1,
                                                                .shards = &shards}));
        for (size_t epoch = 3; epoch <= 5; epoch++)
            CHECK(dpti_history_add_epoch(
                &h, &(dpt_epoch_metrics){.size = sizeof(dpt_epoch_metrics), .epoch = epoch}));
        dpti_history_cut(&h, cuts[i].step, cuts[i].epoch);
        CHECK_SIZE(h.n_steps, cuts[i].n_steps);
        CHECK_SIZE(h.n_epochs, cuts[i].n_epochs);
    }
    dpti_history_free(&h);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"writes_what_is_promised", writes_what_is_promised},
        {"writes_every_seed", writes_every_seed},
        {"says_why_it_cannot_write", says_why_it_cannot_write},
        {"replays_what_it_writes", replays_what_it_writes},
        {"passes_over_what_it_does_not_know", passes_over_what_it_does_not_know},
        {"refuses_other_logs", refuses_other_logs},
        {"replays micro-batch limits", replays_micro_batch_limits},
        {"tells what changed", tells_what_changed},
        {"replays_choices", replays_choices},
        {"finds_where_to_go_on", finds_where_to_go_on},
        {"replays_long_logs", replays_long_logs},
        {"recalls_steps_and_epochs", recalls_steps_and_epochs},
        {"forgets_what_is_undone", forgets_what_is_undone},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
