/* Tests surveys (dpt_dataset_survey): classes, means and deviations are those of the data set, and
   files that cannot be opened are reported.  Unreadable pictures are tested through the command
   (cli/data.sh). */
#include "data_files.h"

#include <sys/resource.h>

typedef struct seen {
    size_t n_calls, n_images, n_unreadable;
} seen;

static void progress(void *user, size_t n_images)
{
    seen *s = user;
    s->n_calls++;
    s->n_images = n_images;
}

static void unreadable(void *user, size_t sample, const char *why)
{
    seen *s = user;
    (void)sample;
    (void)why;
    s->n_unreadable++;
}

static dpt_status look(dpt_context *context, const char *name, seen *s, dpt_survey **out)
{
    const dpt_survey_options options = {
        .size = sizeof options, .unreadable = unreadable, .progress = progress, .user = s};
    return dpt_dataset_survey(context, name, NULL, DPT_TRAIN, &options, out);
}

static void same_as_the_data_set(test *t)
{
    static const char name[] = "synthetic:5x4x3:7:1000";
    dpt_context *context = context_of(t);
    dpt_survey *survey = NULL;
    dpt_dataset *data = NULL;
    dpt_survey_info info = {.size = sizeof info};
    seen s = {0};
    float mean[4], deviation[4];
    size_t n = 0;
    REQUIRE_OK(look(context, name, &s, &survey));
    REQUIRE_OK(dpt_dataset_open(context, name, NULL, DPT_TRAIN, &data));
    REQUIRE_OK(dpt_dataset_statistics(data, mean, deviation));
    dpt_survey_describe(survey, &info);
    CHECK_TEXT(info.data->name, name);
    CHECK(info.data->count == 1000 && info.data->height == 5 && info.data->width == 4);
    CHECK(info.data->channels == 3 && info.data->outputs == 7);
    for (size_t i = 0; i < info.data->outputs; i++) {
        CHECK(info.class_counts[i] == 142 || info.class_counts[i] == 143);
        n += info.class_counts[i];
    }
    CHECK_SIZE(n, 1000);
    CHECK(info.has_statistics && info.n_unreadable == 0 && s.n_unreadable == 0);
    for (size_t c = 0; c < 4; c++) {
        CHECK_NEAR(info.mean[c], mean[c], 0);
        CHECK_NEAR(info.deviation[c], deviation[c], 0);
    }
    CHECK(mean[0] > 0 && deviation[0] > 0);
    CHECK(s.n_calls > 1 && s.n_images == 1000);
    dpt_dataset_destroy(data);
    dpt_survey_destroy(survey);
}

/* Of these none is a picture. */
typedef struct listed {
    size_t n, samples[600];
    char last[128];
} listed;

static void list_unreadable(void *user, size_t sample, const char *why)
{
    listed *l = user;
    if (l->n < 600) l->samples[l->n] = sample;
    l->n++;
    snprintf(l->last, sizeof l->last, "%s", why);
}

enum { EACH = 300 }; /* of each of two classes: more than are read at once */

static void write_words(test *t)
{
    for (int i = 0; i < EACH; i++) {
        char name[16];
        snprintf(name, sizeof name, "%03d.jpg", i);
        write_file(t, "words/train/a", name, (const uint8_t *)"word", 4);
        write_file(t, "words/train/b", name, (const uint8_t *)"word", 4);
    }
}

static void what_cannot_be_read(test *t)
{
    dpt_survey *survey = NULL;
    dpt_survey_info info = {.size = sizeof info};
    listed l = {.n = 0};
    const dpt_survey_options options = {
        .size = sizeof options, .unreadable = list_unreadable, .user = &l};
    write_words(t);
    REQUIRE_OK(
        dpt_dataset_survey(context_of(t), "folder:3x3", "words", DPT_TRAIN, &options, &survey));
    dpt_survey_describe(survey, &info);
    CHECK(info.data->count == 2 * EACH && info.n_unreadable == 2 * EACH && l.n == 2 * EACH);
    for (size_t i = 0; i < 2 * EACH; i++)
        if (!CHECK(l.samples[i] == i)) break;
    CHECK_TEXT(l.last,
               "words/train/b/299.jpg: neither PNG, JPEG, WebP, BMP, GIF, TIFF, PPM nor PGM");
    CHECK(info.class_counts[0] == EACH && info.class_counts[1] == EACH);
    CHECK(!info.has_statistics && info.deviation[2] == 0);
    dpt_survey_destroy(survey);
}

/* From now on no file can be opened. */
static void close_the_door(void *user, size_t n_images)
{
    struct rlimit limit;
    (void)user;
    (void)n_images;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
    limit.rlim_cur = 0;
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

/* That is no picture's fault. */
static void what_the_process_lacks(test *t)
{
    dpt_survey *survey = NULL;
    struct rlimit before;
    const dpt_survey_options options = {.size = sizeof options, .progress = close_the_door};
    write_words(t);
    REQUIRE(getrlimit(RLIMIT_NOFILE, &before) == 0);
    const dpt_status status =
        dpt_dataset_survey(context_of(t), "folder:3x3", "words", DPT_TRAIN, &options, &survey);
    REQUIRE(setrlimit(RLIMIT_NOFILE, &before) == 0);
    CHECK_STATUS(status, DPT_E_IO);
    CHECK_CONTAINS(dpt_error_message(context_of(t)), "Too many open files");
    CHECK(!survey);
}

static void without_statistics(test *t)
{
    dpt_context *context = context_of(t);
    dpt_survey *survey = NULL;
    dpt_survey_info info = {.size = sizeof info};
    REQUIRE_OK(dpt_dataset_survey(context, "synthetic:2x2x5:2:10", NULL, DPT_TEST, NULL, &survey));
    dpt_survey_describe(survey, &info);
    CHECK(!info.has_statistics && info.mean[0] == 0 && info.deviation[0] == 0);
    CHECK(info.data->channels == 5 && info.class_counts[0] > 0);
    dpt_survey_destroy(survey);
    dpt_survey_destroy(NULL);
}

static void what_is_none(test *t)
{
    dpt_context *context = context_of(t);
    dpt_survey *survey = NULL;
    seen s = {0};
    make_folder(t, "empty");
    CHECK_STATUS(look(context, "nothing", &s, &survey), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(context), "unknown data set 'nothing'");
    CHECK_STATUS(look(context, NULL, &s, &survey), DPT_E_INVALID);
    CHECK_STATUS(dpt_dataset_survey(context, "mnist", "empty", DPT_TRAIN, NULL, &survey),
                 DPT_E_NOT_FOUND);
    CHECK(!survey && s.n_calls == 0);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"the same as the data set", same_as_the_data_set},
        {"what cannot be read", what_cannot_be_read},
        {"what the process lacks", what_the_process_lacks},
        {"without statistics", without_statistics},
        {"what is none", what_is_none},
    };
    return run_in_new_folder(argc, argv, cases, sizeof cases / sizeof *cases);
}
