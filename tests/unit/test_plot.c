/* Tests the picture of a run: well-formed SVG for any numbers and names, the expected elements, a
   bounded size, and atomic replacement of an older file. */
#include "harness.h"
#include "io/file.h"
#include "io/plot.h"
#include "io/svg.h"

#include <dirent.h>
#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- A run to draw --------------------------------------------------------------------------- */

typedef struct sample_run {
    dpti_plot plot;
    double *loss;
    size_t *epoch, *shards;
    bool *rebalanced;
    double train[64], validation[64], held_out[64];
    const char *devices[64];
} sample_run;

static bool make_run(sample_run *run, size_t n_steps, size_t n_epochs, size_t n_devices)
{
    *run = (sample_run){0};
    run->loss = calloc(n_steps + 1, sizeof *run->loss);
    run->epoch = calloc(n_steps + 1, sizeof *run->epoch);
    run->shards = calloc(n_steps * n_devices + 1, sizeof *run->shards);
    run->rebalanced = calloc(n_steps + 1, sizeof *run->rebalanced);
    if (!run->loss || !run->epoch || !run->shards || !run->rebalanced) return false;
    for (size_t i = 0; i < n_steps; i++) {
        run->loss[i] = 2.5 / (1 + (double)i / 50) + 0.1 * (double)(i % 7);
        run->epoch[i] = 1 + (n_epochs ? i * n_epochs / n_steps : 0);
        for (size_t d = 0; d < n_devices; d++)
            run->shards[i * n_devices + d] = 10 + (i * d) % 5;
    }
    for (size_t i = 0; i < n_epochs; i++) {
        run->train[i] = 0.9 - 0.3 / (1 + (double)i);
        run->validation[i] = 0.87 - 0.25 / (1 + (double)i);
        run->held_out[i] = 0.85 - 0.25 / (1 + (double)i);
    }
    for (size_t d = 0; d < n_devices; d++)
        run->devices[d] = "cpu:threads=1";
    run->plot = (dpti_plot){
        .title = "lenet on mnist",
        .subtitle = "batch 256",
        .n_steps = n_steps,
        .loss = run->loss,
        .epoch = run->epoch,
        .n_epochs = n_epochs,
        .train_accuracy = run->train,
        .validation_accuracy = run->validation,
        .test_accuracy = run->held_out,
        .n_devices = n_devices,
        .devices = run->devices,
        .shards = run->shards,
        .rebalanced = run->rebalanced,
    };
    return true;
}

static void free_run(sample_run *run)
{
    free(run->rebalanced);
    free(run->shards);
    free(run->epoch);
    free(run->loss);
}

static char *read_text(const char *path)
{
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    const size_t capacity = 4u << 20;
    char *text = malloc(capacity);
    if (text) text[fread(text, 1, capacity - 1, file)] = '\0';
    fclose(file);
    return text;
}

/* ---- Well-formedness ------------------------------------------------------------------------- */

/* The end of a tag or reference that begins at `at`, or NULL. */
static const char *skip_reference(const char *at)
{
    static const char *const known[] = {"&amp;", "&lt;", "&gt;", "&quot;", "&#39;"};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strncmp(at, known[i], strlen(known[i])) == 0) return at + strlen(known[i]);
    return NULL;
}

/* One tag: updates the stack of open elements. */
static const char *skip_tag(const char *at, char open[16][16], size_t *depth)
{
    const char *end = strchr(at, '>');
    if (!end) return NULL;
    if (at[1] == '?') return end[-1] == '?' ? end + 1 : NULL;
    const bool closing = at[1] == '/', empty = end[-1] == '/';
    const char *name = at + 1 + closing;
    const size_t n = strcspn(name, " />");
    if (n == 0 || n > 15 || memchr(at + 1, '<', (size_t)(end - at - 1))) return NULL;
    size_t quotes = 0;
    for (const char *c = at; c < end; c++)
        quotes += *c == '"';
    if (quotes % 2) return NULL;
    if (closing) {
        if (*depth == 0) return NULL;
        (*depth)--;
        return strncmp(open[*depth], name, n) == 0 && open[*depth][n] == '\0' ? end + 1 : NULL;
    }
    if (!empty) {
        if (*depth == 16) return NULL;
        memcpy(open[*depth], name, n);
        open[(*depth)++][n] = '\0';
    }
    return end + 1;
}

/* Tags nest, references are known, text has no other special character: what an XML reader asks of
   the subset that is used here. */
static bool is_well_formed(const char *text)
{
    char open[16][16];
    size_t depth = 0, n_roots = 0;
    while (*text) {
        const size_t before = depth;
        if (*text == '<')
            text = skip_tag(text, open, &depth);
        else if (*text == '&')
            text = skip_reference(text);
        else if ((unsigned char)*text < 0x20 && *text != '\n' && *text != '\t')
            return false;
        else
            text++;
        if (!text) return false;
        n_roots += before == 0 && depth == 1;
    }
    return depth == 0 && n_roots == 1;
}

static size_t occurrences(const char *text, const char *part)
{
    size_t n = 0;
    for (const char *at = strstr(text, part); at; at = strstr(at + 1, part))
        n++;
    return n;
}

/* Draws, checks what holds for every picture, and returns it; the caller frees. */
static char *draw(test *t, const dpti_plot *plot)
{
    dpt_error error = {0};
    if (!CHECK_OK(dpti_plot_write("plot.svg", plot, &error))) return NULL;
    char *text = read_text("plot.svg");
    if (!CHECK(text != NULL)) return NULL;
    CHECK(is_well_formed(text));
    CHECK(strstr(text, "nan") == NULL && strstr(text, "inf") == NULL);
    CHECK_CONTAINS(text, "<svg xmlns=\"http://www.w3.org/2000/svg\"");
    CHECK_CONTAINS(text, "Loss per step");
    CHECK_CONTAINS(text, "Accuracy per epoch");
    CHECK_CONTAINS(text, "Shard of each device");
    return text;
}

static void checker_sees_mistakes(test *t)
{
    CHECK(is_well_formed("<?xml?>\n<a b=\"c\"><d/>x &amp; y</a>\n"));
    CHECK(!is_well_formed("<a><b></a></b>"));
    CHECK(!is_well_formed("<a>"));
    CHECK(!is_well_formed("<a/></a>"));
    CHECK(!is_well_formed("<a>x & y</a>"));
    CHECK(!is_well_formed("<a>x < y</a>"));
    CHECK(!is_well_formed("<a b=\"c>x</a>"));
    CHECK(!is_well_formed("<a>\x01</a>"));
    CHECK(!is_well_formed(""));
}

/* ---- Pictures -------------------------------------------------------------------------------- */

static void draws_runs_of_every_length(test *t)
{
    static const struct {
        size_t n_steps, n_epochs, n_devices;
    } cases[] = {{0, 0, 1},   {1, 0, 1},   {1, 1, 2},    {2, 1, 3},     {499, 3, 2},
                 {500, 5, 2}, {501, 5, 2}, {1175, 5, 2}, {3000, 64, 40}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        sample_run run;
        REQUIRE(make_run(&run, cases[i].n_steps, cases[i].n_epochs, cases[i].n_devices));
        char *text = draw(t, &run.plot);
        REQUIRE(text != NULL);
        CHECK((strstr(text, "no epoch completed") != NULL) == (cases[i].n_epochs == 0));
        CHECK((strstr(text, "no step") != NULL) == (cases[i].n_steps == 0));
        if (cases[i].n_steps > 0) CHECK_CONTAINS(text, "cpu:threads=1");
        if (cases[i].n_devices > 10) CHECK_CONTAINS(text, ">and 25 more</text>");
        free(text);
        free_run(&run);
    }
}

/* With several devices their shares have the whole width, and what changed them is marked. */
static void shows_shards_of_several_devices(test *t)
{
    sample_run run;
    REQUIRE(make_run(&run, 400, 2, 2));
    char *text = draw(t, &run.plot);
    REQUIRE(text != NULL);
    CHECK_SIZE(occurrences(text, "class=\"epoch\""), 2); /* one change of epoch, in two panels */
    CHECK_SIZE(occurrences(text, "class=\"rebalance\""), 0);
    CHECK(strstr(text, "rebalance") == strstr(text, "rebalance{")); /* in the style alone */
    free(text);

    run.rebalanced[100] = run.rebalanced[101] = run.rebalanced[399] = true;
    text = draw(t, &run.plot);
    REQUIRE(text != NULL);
    CHECK_SIZE(occurrences(text, "class=\"rebalance\""), 3);
    CHECK_CONTAINS(text, ">marks: 3 rebalances<");
    /* Step 101 of 400 lies at a quarter of the panel, which is 852 wide and begins at 76. */
    CHECK_CONTAINS(text, "class=\"rebalance\" d=\"M289.00 ");
    free(text);
    run.plot.rebalanced = NULL;
    text = draw(t, &run.plot);
    REQUIRE(text != NULL);
    CHECK_SIZE(occurrences(text, "class=\"rebalance\""), 0);
    free(text);
    free_run(&run);

    REQUIRE(make_run(&run, 5000, 2, 2));
    for (size_t i = 1; i < 5000; i++)
        run.rebalanced[i] = true;
    text = draw(t, &run.plot);
    REQUIRE(text != NULL);
    CHECK_SIZE(occurrences(text, "class=\"rebalance\""), 500);
    CHECK_CONTAINS(text, ">marks: 4999 rebalances<");
    free(text);
    run.plot.n_devices = 1;
    text = draw(t, &run.plot);
    REQUIRE(text != NULL);
    CHECK_SIZE(occurrences(text, "class=\"rebalance\""), 0);
    CHECK_CONTAINS(text, "height=\"660\"");
    free(text);
    free_run(&run);
}

static void one_epoch_shows_markers(test *t)
{
    sample_run run;
    REQUIRE(make_run(&run, 10, 1, 1));
    char *text = draw(t, &run.plot);
    REQUIRE(text != NULL);
    CHECK_SIZE(occurrences(text, "<circle"), 3);
    CHECK_CONTAINS(text, "training 0.6000");
    CHECK_CONTAINS(text, "validation 0.6200");
    CHECK_CONTAINS(text, "test 0.6000");
    free(text);
    run.held_out[0] = run.validation[0] = NAN; /* not measured */
    text = draw(t, &run.plot);
    REQUIRE(text != NULL);
    CHECK_SIZE(occurrences(text, "<circle"), 1);
    CHECK(strstr(text, ">test ") == NULL && strstr(text, ">validation ") == NULL);
    free(text);
    free_run(&run);
}

/* Steps and epochs keep their numbers; nothing else of the picture changes. */
static void a_resumed_run_is_numbered_on(test *t)
{
    sample_run run;
    REQUIRE(make_run(&run, 400, 4, 1));
    char *from_start = draw(t, &run.plot);
    run.plot.steps_before = 1000;
    run.plot.epochs_before = 10;
    char *resumed = draw(t, &run.plot);
    REQUIRE(from_start && resumed);
    CHECK_CONTAINS(from_start, ">100</text>");
    CHECK(strstr(from_start, ">1100</text>") == NULL && strstr(from_start, ">12</text>") == NULL);
    CHECK_CONTAINS(resumed, ">1100</text>");
    CHECK_CONTAINS(resumed, ">1300</text>");
    CHECK_CONTAINS(resumed, ">12</text>");
    CHECK(strstr(resumed, ">100</text>") == NULL);
    static const char *const marks[] = {"class=\"line\"", "<circle", "class=\"epoch\""};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++)
        CHECK_SIZE(occurrences(resumed, marks[i]), occurrences(from_start, marks[i]));
    free(resumed);
    free(from_start);
    free_run(&run);
}

static void values_that_are_not_finite_leave_gaps(test *t)
{
    sample_run run;
    REQUIRE(make_run(&run, 100, 4, 1));
    char *whole = draw(t, &run.plot);
    REQUIRE(whole != NULL);
    const size_t n_lines = occurrences(whole, "class=\"line\"");
    free(whole);
    run.loss[20] = NAN;
    run.loss[50] = INFINITY;
    run.loss[51] = -INFINITY;
    run.loss[99] = 1e308;
    run.held_out[2] = NAN;
    char *text = draw(t, &run.plot);
    REQUIRE(text != NULL);
    CHECK_SIZE(occurrences(text, "class=\"line\""), n_lines + 2);
    free(text);
    for (size_t i = 0; i < 100; i++)
        run.loss[i] = i % 2 ? NAN : i % 4 ? 1e308 : -1e308; /* their difference is not finite */
    text = draw(t, &run.plot);
    REQUIRE(text != NULL);
    CHECK_CONTAINS(text, "no step with a finite loss");
    free(text);
    free_run(&run);
}

static void draws_losses_of_any_size(test *t)
{
    static const double ranges[][2] = {{0, 0},     {1, 1},        {1e-30, 2e-30}, {1e9, 3e12},
                                       {-5, -4.9}, {-1e99, 1e99}, {0, 1e-310},    {1, 1 + 1e-15}};
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
        sample_run run;
        REQUIRE(make_run(&run, 9, 1, 1));
        for (size_t k = 0; k < 9; k++)
            run.loss[k] = ranges[i][k % 2];
        char *text = draw(t, &run.plot);
        REQUIRE(text != NULL);
        CHECK(strlen(text) < 10000);
        free(text);
        free_run(&run);
    }
}

static void escapes_text(test *t)
{
    sample_run run;
    REQUIRE(make_run(&run, 3, 1, 2));
    run.plot.title = "a < b & \"c\" > 'd' \x01 \xff \xc3\xa9 \xed\xa0\x80 \xc0\x80";
    run.plot.subtitle = "</text><script>";
    run.devices[0] = "x\"/><b>";
    run.devices[1] = "\xc3";
    char *text = draw(t, &run.plot);
    REQUIRE(text != NULL);
    CHECK_CONTAINS(text, "a &lt; b &amp; &quot;c&quot; &gt; &#39;d&#39; ? ? \xc3\xa9 ??? ??");
    CHECK_CONTAINS(text, "&lt;/text&gt;&lt;script&gt;");
    CHECK_CONTAINS(text, "x&quot;/&gt;&lt;b&gt;");
    free(text);
    free_run(&run);
}

static void long_runs_stay_small(test *t)
{
    sample_run run;
    REQUIRE(make_run(&run, 300000, 64, 3));
    char *text = draw(t, &run.plot);
    REQUIRE(text != NULL);
    CHECK(strlen(text) < 200000);
    CHECK_CONTAINS(text, "class=\"band\"");
    free(text);
    free_run(&run);
}

static void numbers_know_no_locale(test *t)
{
    char out[DPTI_NUMBER_BYTES];
    CHECK_TEXT(dpti_svg_number(out, 3.14159, 2), "3.14");
    CHECK_TEXT(dpti_svg_number(out, -0.5, 2), "-0.50");
    CHECK_TEXT(dpti_svg_number(out, -0.001, 2), "0.00");
    CHECK_TEXT(dpti_svg_number(out, 0.05, 1), "0.1");
    CHECK_TEXT(dpti_svg_number(out, 12.999, 2), "13.00");
    CHECK_TEXT(dpti_svg_number(out, 1e6, 0), "1000000");
    CHECK_TEXT(dpti_svg_number(out, NAN, 2), "0");
    CHECK_TEXT(dpti_svg_number(out, -INFINITY, 2), "0");
    CHECK_TEXT(dpti_svg_number(out, 1e300, 2), "0");
    if (!test_set_comma_locale()) SKIP("no locale with a decimal comma, and no localedef");
    sample_run run;
    CHECK(make_run(&run, 30, 2, 2));
    char *text = draw(t, &run.plot);
    setlocale(LC_ALL, "C");
    char *again = draw(t, &run.plot);
    CHECK(text && again && strcmp(text, again) == 0);
    free(again);
    free(text);
    free_run(&run);
}

static void axes_have_round_ticks(test *t)
{
    static const struct {
        double low, high;
        int n_ticks;
        double step;
    } cases[] = {{0, 1, 5, 0.2}, {0, 2.3, 6, 0.5}, {0.61, 0.9, 6, 0.05}, {0, 3e6, 6, 5e5}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const dpti_axis axis = dpti_axis_make_round(cases[i].low, cases[i].high, cases[i].n_ticks);
        CHECK_NEAR(axis.step / cases[i].step, 1, 1e-9);
        CHECK(axis.low <= cases[i].low && axis.low > cases[i].low - axis.step);
        CHECK(axis.high >= cases[i].high && axis.high < cases[i].high + axis.step);
    }
    CHECK_NEAR(dpti_axis_make(1, 3, 8, true).step, 1, 0);
    const dpti_axis point = dpti_axis_make(4, 4, 8, true);
    CHECK(point.low < 4 && point.high > 4);
}

/* ---- Files ----------------------------------------------------------------------------------- */

static size_t entries_of(const char *directory)
{
    DIR *folder = opendir(directory);
    size_t n = 0;
    for (const struct dirent *e = folder ? readdir(folder) : NULL; e; e = readdir(folder))
        n += strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
    if (folder) closedir(folder);
    return n;
}

static void check_changes_nothing(test *t)
{
    dpt_error error = {0};
    REQUIRE(mkdir("check", 0777) == 0);
    CHECK_OK(dpti_new_file_check("check/new.svg", &error));
    CHECK_SIZE(entries_of("check"), 0);
    FILE *file = fopen("check/old.svg", "w");
    REQUIRE(file != NULL);
    CHECK(fputs("old", file) >= 0);
    CHECK(fclose(file) == 0);
    CHECK_OK(dpti_new_file_check("check/old.svg", &error));
    CHECK_SIZE(entries_of("check"), 1);
    char *text = read_text("check/old.svg");
    CHECK_TEXT(text, "old");
    free(text);
}

static void says_why_it_cannot_write(test *t)
{
    sample_run run;
    dpt_error error = {0};
    REQUIRE(make_run(&run, 3, 1, 1));
    static const char *const wrong[] = {"no/such/folder/p.svg", "/", ".", "plot.svg/p.svg"};
    char *text = draw(t, &run.plot); /* plot.svg is a file */
    free(text);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_STATUS(dpti_new_file_check(wrong[i], &error), DPT_E_IO);
        CHECK_CONTAINS(error.message, wrong[i]);
        CHECK_STATUS(dpti_plot_write(wrong[i], &run.plot, &error), DPT_E_IO);
    }
    if (access("/dev/full", W_OK) == 0) {
        CHECK_STATUS(dpti_plot_write("/dev/full", &run.plot, &error), DPT_E_IO);
        CHECK_CONTAINS(error.message, strerror(ENOSPC));
    }
    free_run(&run);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"checker_sees_mistakes", checker_sees_mistakes},
        {"draws_runs_of_every_length", draws_runs_of_every_length},
        {"shows_shares_of_several_devices", shows_shards_of_several_devices},
        {"one_epoch_shows_markers", one_epoch_shows_markers},
        {"a_resumed_run_is_numbered_on", a_resumed_run_is_numbered_on},
        {"values_that_are_not_finite_leave_gaps", values_that_are_not_finite_leave_gaps},
        {"draws_losses_of_any_size", draws_losses_of_any_size},
        {"escapes_text", escapes_text},
        {"long_runs_stay_small", long_runs_stay_small},
        {"numbers_know_no_locale", numbers_know_no_locale},
        {"axes_have_round_ticks", axes_have_round_ticks},
        {"check_changes_nothing", check_changes_nothing},
        {"says_why_it_cannot_write", says_why_it_cannot_write},
    };
    char folder[TEST_FOLDER_BYTES];
    if (!test_enter_folder(folder)) return 1;
    const int code = test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
    test_remove_folder(folder);
    return code;
}
