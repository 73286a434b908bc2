/* Tests the report of a training and the PNG pictures in it: names from outside do not become
   elements, every element is closed, figures are the right ones, and the size is bounded. */
#include "dptrain.h"
#include "harness.h"
#include "io/png.h"
#include "io/report.h"

#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    const size_t capacity = 8u << 20;
    char *text = malloc(capacity);
    if (text) text[fread(text, 1, capacity - 1, file)] = '\0';
    fclose(file);
    return text;
}

/* ---- A training ------------------------------------------------------------------------------ */

enum { DEVICES = 2, CLASSES = 3, EPOCHS = 2 };

typedef struct training {
    dpti_report report;
    dpti_report_classes classes;
    dpti_report_device devices[DEVICES];
    dpti_report_event event;
    dpti_report_sample worst;
    double *values;
    size_t *shards;
    bool *rebalanced;
} training;

static const char hostile[] = "<script>alert('\"&')</script>\x01\xff";
static const double losses[EPOCHS] = {1.5, 0.25}, none[EPOCHS] = {NAN, NAN};
static const char *const names[CLASSES] = {"cat", hostile, "\xc3\xa9"};
static size_t counts[3 * CLASSES] = {10, 5, 0, 9, 5, 1, 8, 4, 0},
                         confusion[CLASSES * CLASSES] = {8, 1, 1, 1, 4, 0, 0, 0, 0};

static bool make(training *t, size_t n_steps)
{
    static const dpti_report_fact facts[] = {{"test loss", "0.5"}, {hostile, hostile}};
    static char kind[] = "device lost", id[] = "<b>", message[] = "x</li>";
    *t = (training){.values = calloc(n_steps + 1, sizeof *t->values),
                    .shards = calloc(DEVICES * n_steps + 1, sizeof *t->shards),
                    .rebalanced = calloc(n_steps + 1, sizeof *t->rebalanced)};
    if (!t->values || !t->shards || !t->rebalanced) return false;
    for (size_t i = 0; i < n_steps; i++) {
        t->values[i] = 2.0 / (1.0 + (double)i);
        t->shards[DEVICES * i] = 3;
        t->shards[DEVICES * i + 1] = 1;
    }
    for (size_t i = 0; i < DEVICES; i++)
        t->devices[i] = (dpti_report_device){.id = i ? hostile : "cpu",
                                             .backend = "cpu",
                                             .name = hostile,
                                             .detail = hostile,
                                             .host = hostile,
                                             .share = 0.75,
                                             .busy = 1.25,
                                             .lost = i > 0};
    t->event = (dpti_report_event){7, kind, id, message};
    t->worst = (dpti_report_sample){
        .index = 42, .label = 1, .predicted = 0, .right = 0.125, .guess = 0.5, .loss = INFINITY};
    t->classes = (dpti_report_classes){.part = "test",
                                       .names = names,
                                       .n_names = CLASSES,
                                       .counts = {.n_samples = 15,
                                                  .n_classes = CLASSES,
                                                  .hits = 12,
                                                  .samples = counts,
                                                  .predicted = counts + CLASSES,
                                                  .own = counts + 2 * CLASSES,
                                                  .confusion = confusion},
                                       .worst = &t->worst,
                                       .n_worst = 1};
    t->report = (dpti_report){.title = hostile,
                              .version = "1",
                              .command = hostile,
                              .ending = hostile,
                              .facts = facts,
                              .settings = facts,
                              .n_facts = 2,
                              .n_settings = 2,
                              .course = {.n_steps = n_steps,
                                         .n_epochs = EPOCHS,
                                         .loss = t->values,
                                         .lr = t->values,
                                         .shards = t->shards,
                                         .rebalanced = t->rebalanced,
                                         .train_loss = losses,
                                         .validation_loss = none,
                                         .test_loss = losses,
                                         .train_accuracy = losses,
                                         .validation_accuracy = none,
                                         .test_accuracy = losses,
                                         .has_accuracy = true},
                              .devices = t->devices,
                              .n_devices = DEVICES,
                              .events = &t->event,
                              .n_events = 1,
                              .n_events_left_out = 4,
                              .classes = &t->classes};
    return true;
}

static void release(training *t)
{
    free(t->rebalanced);
    free(t->shards);
    free(t->values);
}

static char *written(test *t, const dpti_report *report)
{
    dpt_error error = {0};
    if (!CHECK_OK(dpti_report_write("report.html", report, &error))) return NULL;
    char *text = read_text("report.html");
    CHECK(text != NULL);
    return text;
}

/* ---- Well-formedness ------------------------------------------------------------------------- */

enum { MOST_OPEN = 32, NAME = 16 };

static bool is_void(const char *name)
{
    return strcmp(name, "meta") == 0 || strcmp(name, "img") == 0 || strcmp(name, "!DOCTYPE") == 0;
}

/* Skips a tag, whose attributes may hold '>' in quotes; NULL: it does not end. */
static const char *skip_tag(const char *at)
{
    bool quoted = false;
    for (; *at && (quoted || *at != '>'); at++)
        if (*at == '"') quoted = !quoted;
    return *at ? at + 1 : NULL;
}

/* Returns NULL if every element is closed in its turn, else the place of the fault. */
static const char *fault(const char *text)
{
    char open[MOST_OPEN][NAME];
    size_t depth = 0;
    for (const char *at = text; (at = strchr(at, '<'));) {
        char name[NAME] = "";
        const bool closing = at[1] == '/';
        const size_t n = strcspn(at + 1 + closing, " />\n");
        const char *end = skip_tag(at);
        if (!end || n == 0 || n >= NAME) return at;
        memcpy(name, at + 1 + closing, n);
        if (closing) {
            if (depth == 0 || strcmp(open[--depth], name) != 0) return at;
        } else if (!is_void(name) && end[-2] != '/') {
            if (depth == MOST_OPEN) return at;
            memcpy(open[depth++], name, NAME);
        }
        at = strcmp(name, "style") == 0 && !closing ? strstr(end, "</style>") : end;
        if (!at) return end;
    }
    return depth == 0 ? NULL : text + strlen(text);
}

static size_t count(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, part)); at += strlen(part))
        n++;
    return n;
}

static void check_sound(test *t, const char *text)
{
    const char *at = fault(text);
    if (at) FAIL("not closed: %.80s", at);
    CHECK(strncmp(text, "<!DOCTYPE html>", 15) == 0);
    CHECK_SIZE(count(text, "<script"), 0);
    CHECK_SIZE(count(text, "http:"), 0);
    CHECK_SIZE(count(text, "https:"), 0);
    CHECK_SIZE(count(text, "url("), 0);
    CHECK_SIZE(count(text, "nan"), 0);
    CHECK_SIZE(count(text, "\xff"), 0);
}

/* ---- Cases ----------------------------------------------------------------------------------- */

static void hostile_names(test *t)
{
    training run;
    REQUIRE(make(&run, 5));
    char *text = written(t, &run.report);
    REQUIRE(text != NULL);
    check_sound(t, text);
    CHECK_SIZE(
        count(text, "<title>&lt;script&gt;alert(&#39;&quot;&amp;&#39;)&lt;/script&gt;?\?</title>"),
        1);
    CHECK(count(text, "&lt;script&gt;") >= 20);
    CHECK_CONTAINS(text, "<code>&lt;script&gt;");
    CHECK_CONTAINS(
        text, "aria-label=\"&lt;script&gt;alert(&#39;&quot;&amp;&#39;)&lt;/script&gt;?\?: 25.0 %");
    CHECK_CONTAINS(text, "step 7: device lost</b>, &lt;b&gt;: x&lt;/li&gt;</li>");
    CHECK_CONTAINS(text, "And 4 more.");
    free(text);
    release(&run);
}

static void figures(test *t)
{
    training run;
    const bool comma = test_set_comma_locale();
    REQUIRE(make(&run, 5));
    char *text = written(t, &run.report);
    if (comma) setlocale(LC_ALL, "C");
    REQUIRE(text != NULL);
    CHECK_CONTAINS(text, "Of 15 samples of the test data 12 are taken for their class: 80.00 %.");
    CHECK_CONTAINS(text, "title=\"cat taken for cat: 8, 80.0 %\">8</td>");
    CHECK_CONTAINS(text, "taken for cat: 1, 20.0 %\">1</td>");
    /* cat: precision 8 of 9, recall 8 of 10, F1 16 of 19 */
    CHECK_CONTAINS(text, "0.889</td>");
    CHECK_CONTAINS(text, "0.800</td>");
    CHECK_CONTAINS(text, "0.842</td>");
    /* no sample is of the third class, and one is taken for it */
    CHECK_CONTAINS(text, "0.000</td><td data-label=\"recall\">–</td>");
    CHECK_CONTAINS(text, "cat 50.0 %</span>");
    CHECK_CONTAINS(text, "its class 12.5 %, loss ∞, sample 42");
    CHECK_CONTAINS(text, "Loss of each step: 2.0000 at step 1, 0.4000 at step 5");
    CHECK_CONTAINS(text, "Loss after each epoch. Last values: training 0.2500 test 0.2500");
    CHECK_CONTAINS(text, "125.0 %"); /* busy beyond the time of the steps; its bar is full */
    CHECK_CONTAINS(text, "cpu <b>75.0 %</b>");
    free(text);
    release(&run);
}

static void little(test *t)
{
    training run;
    REQUIRE(make(&run, 1));
    run.report.course.n_epochs = 0;
    run.report.classes = NULL;
    run.report.no_classes = "not <looked> at";
    run.report.command = NULL;
    run.values[0] = NAN;
    char *text = written(t, &run.report);
    REQUIRE(text != NULL);
    check_sound(t, text);
    CHECK_CONTAINS(text, "No step with a finite value.");
    CHECK_CONTAINS(text, "No epoch was completed.");
    CHECK_CONTAINS(text, "not &lt;looked&gt; at");
    CHECK_SIZE(count(text, "<code>"), 0);
    free(text);
    run.report.course.n_steps = 0;
    run.report.n_devices = 0;
    run.report.no_classes = NULL;
    text = written(t, &run.report);
    REQUIRE(text != NULL);
    check_sound(t, text);
    CHECK_SIZE(count(text, "<h2>Classes</h2>"), 0);
    free(text);
    release(&run);
}

/* A long run with gaps is thinned, and its size is bounded. */
static void long_run(test *t)
{
    enum { STEPS = 200000 };
    training run;
    REQUIRE(make(&run, STEPS));
    for (size_t i = STEPS / 3; i < STEPS / 2; i++)
        run.values[i] = i % 2 ? NAN : INFINITY;
    run.values[5] = 1e300;
    for (size_t i = 0; i < STEPS; i++)
        run.rebalanced[i] = i % 3 == 0;
    char *text = written(t, &run.report);
    REQUIRE(text != NULL);
    check_sound(t, text);
    CHECK(strlen(text) < 200000);
    CHECK_CONTAINS(text, "The line is the mean of neighbouring steps");
    CHECK_CONTAINS(text, "Shares changed 66667 times.");
    free(text);
    release(&run);
}

/* More classes than a table can show: the most confused pairs, and the classes with the lowest F1.
 */
static void many_classes(test *t)
{
    enum { MANY = 60 };
    static size_t many[3 * MANY], pairs[MANY * MANY];
    training run;
    REQUIRE(make(&run, 5));
    for (size_t i = 0; i < MANY; i++) { /* of class i, i samples are taken for the next class */
        many[i] = 100;
        many[2 * MANY + i] = 100 - i;
        many[MANY + i] = 100 - i + (i > 0 ? i - 1 : MANY - 1);
        pairs[i * MANY + i] = 100 - i;
        pairs[i * MANY + (i + 1) % MANY] = i;
    }
    run.classes.counts.n_classes = MANY;
    run.classes.counts.samples = many;
    run.classes.counts.predicted = many + MANY;
    run.classes.counts.own = many + 2 * MANY;
    run.classes.counts.confusion = pairs;
    char *text = written(t, &run.report);
    REQUIRE(text != NULL);
    check_sound(t, text);
    CHECK_CONTAINS(text, "<tr><th scope=\"row\">59</th><td data-label=\"taken for\">cat</td>"
                         "<td data-label=\"samples\">59</td>");
    CHECK_CONTAINS(text, "The classes with the lowest F1.");
    CHECK_SIZE(count(text, "data-label=\"taken for\""), 25);
    CHECK_SIZE(count(text, "data-label=\"recall\""), 50);
    CHECK_SIZE(count(text, "<table class=\"confusion\""), 0);
    /* The lowest F1 of all comes first; class 0 is not among the fifty. */
    CHECK(strstr(text, "data-label=\"samples\">35</td>") != NULL);
    CHECK(strstr(text, "data-label=\"samples\">34</td>") == NULL);
    run.classes.counts.confusion = NULL;
    free(text);
    text = written(t, &run.report);
    REQUIRE(text != NULL);
    CHECK_SIZE(count(text, "data-label=\"taken for\""), 0);
    free(text);
    release(&run);
}

static void no_place(test *t)
{
    training run;
    dpt_error error = {0};
    REQUIRE(make(&run, 1));
    CHECK_STATUS(dpti_report_write("nowhere/report.html", &run.report, &error), DPT_E_IO);
    CHECK_CONTAINS(error.message, "nowhere/report.html");
    release(&run);
}

static void base64(test *t)
{
    static const char *const pairs[][2] = {/* RFC 4648, section 10 */
                                           {"", ""},
                                           {"f", "Zg=="},
                                           {"fo", "Zm8="},
                                           {"foo", "Zm9v"},
                                           {"foob", "Zm9vYg=="},
                                           {"fooba", "Zm9vYmE="},
                                           {"foobar", "Zm9vYmFy"}};
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        char *text = dpti_base64((const uint8_t *)pairs[i][0], strlen(pairs[i][0]));
        CHECK_TEXT(text, pairs[i][1]);
        free(text);
    }
    char *text = dpti_base64((const uint8_t *)"\xfb\xef\xbe\xff", 4);
    CHECK_TEXT(text, "++++/w==");
    free(text);
}

/* Pictures are read back by libpng. */
static void png(test *t)
{
    static const size_t shapes[][3] = {{1, 1, 1}, {3, 5, 1}, {7, 2, 3}, {96, 96, 3}};
    dpt_context *context = NULL;
    test_random random = {1};
    static uint8_t pixels[96 * 96 * 3], back[96 * 96 * 3];
    REQUIRE_OK(dpt_context_create(&context));
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const size_t n = shapes[i][0] * shapes[i][1] * shapes[i][2];
        dpti_content out = {.bytes = NULL};
        for (size_t k = 0; k < n; k++)
            pixels[k] = (uint8_t)test_random_below(&random, 256);
        if (!CHECK(dpti_png_encode(
                &(dpti_picture_bytes){shapes[i][0], shapes[i][1], shapes[i][2], pixels}, &out)))
            break;
        FILE *file = fopen("picture.png", "wb");
        CHECK(file && fwrite(out.bytes, 1, out.n_bytes, file) == out.n_bytes);
        if (file) fclose(file);
        free(out.bytes);
        const dpt_picture_shape shape = {
            .height = shapes[i][0], .width = shapes[i][1], .channels = shapes[i][2]};
        memset(back, 0xaa, sizeof back);
        const dpt_status status = dpt_picture_read(context, "picture.png", &shape, back);
        if (status == DPT_E_UNSUPPORTED) break;
        CHECK_STATUS(status, DPT_OK);
        CHECK(memcmp(pixels, back, n) == 0);
    }
    dpt_context_destroy(context);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"hostile names", hostile_names},
        {"figures", figures},
        {"little to tell", little},
        {"a long run", long_run},
        {"many classes", many_classes},
        {"no place", no_place},
        {"base64", base64},
        {"png", png},
    };
    char folder[TEST_FOLDER_BYTES];
    if (!test_enter_folder(folder)) return 1;
    const int code = test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
    test_remove_folder(folder);
    return code;
}
