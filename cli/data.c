/* dptrain data: the parts and classes of a data set, and the pictures that cannot be read. */
#include "session.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { N_PARTS = 2 };

static const char *const part_names[N_PARTS] = {"training", "test"};

typedef struct look {
    dpt_context *context;
    bool draws; /* whether progress is shown, on a terminal */
    size_t part;
    dpt_survey *surveys[N_PARTS];
    dpt_survey_info parts[N_PARTS]; /* with their sizes */
} look;

/* ---- Looking --------------------------------------------------------------------------------- */

static void take_off(const look *l)
{
    if (l->draws) fprintf(stderr, "\r\033[K");
}

static void tell_unreadable(void *user, size_t sample, const char *why)
{
    (void)sample; /* the reason names its file */
    take_off(user);
    (void)cli_error(CLI_FAILURE, "%s", why);
}

static void show_progress(void *user, size_t n_images)
{
    const look *l = user;
    if (!l->draws) return;
    fprintf(stderr, "\r\033[Klooking at %s images ... %zu", part_names[l->part], n_images);
    fflush(stderr);
}

/* The smaller part first, as in training: errors in both parts appear sooner. */
static dpt_status survey(look *l, const cli_options *options)
{
    char name[CLI_DATA_NAME];
    const char *why;
    const cli_data_name from = {options, options->dataset ? options->dataset : "fashion-mnist", ""};
    if (!cli_data_words(&from, name, sizeof name, &why))
        return dpt_fail(l->context, DPT_E_INVALID, "%s, and not for %.100s", why, from.name);
    const dpt_survey_options how = {
        .size = sizeof how, .unreadable = tell_unreadable, .progress = show_progress, .user = l};
    for (size_t i = N_PARTS; i-- > 0;) {
        l->part = i;
        const char *data = i == 1 && options->test_data ? options->test_data : options->data;
        const dpt_status status = dpt_dataset_survey(
            l->context, name, data, i == 0 ? DPT_TRAIN : DPT_TEST, &how, &l->surveys[i]);
        take_off(l);
        DPT_TRY(status);
        l->parts[i].size = sizeof l->parts[i];
        dpt_survey_describe(l->surveys[i], &l->parts[i]);
    }
    return DPT_OK;
}

/* ---- Printing -------------------------------------------------------------------------------- */

enum { MOST_CHANNELS = 4, NUMBERS_BYTES = 64 };

/* Formats one number for each channel, as in "0.4914 0.4822 0.4465"; "-" if they are not known. */
static void format_numbers(const dpt_survey_info *part, const float *numbers,
                           char out[NUMBERS_BYTES])
{
    size_t used = 0;
    snprintf(out, NUMBERS_BYTES, "-");
    for (size_t c = 0; part->has_statistics && c < part->data->channels && c < MOST_CHANNELS; c++)
        used += (size_t)snprintf(out + used, NUMBERS_BYTES - used, "%s%.4f", c > 0 ? " " : "",
                                 (double)numbers[c]);
}

static double mebibytes(const dpt_dataset_info *data)
{
    return (double)data->count * (double)data->height * (double)data->width *
           (double)data->channels / (1024.0 * 1024.0);
}

static void print_parts(const look *l)
{
    char mean[N_PARTS][NUMBERS_BYTES], deviation[N_PARTS][NUMBERS_BYTES];
    int width = (int)strlen("MEAN");
    for (size_t i = 0; i < N_PARTS; i++) {
        format_numbers(&l->parts[i], l->parts[i].mean, mean[i]);
        format_numbers(&l->parts[i], l->parts[i].deviation, deviation[i]);
        if ((int)strlen(mean[i]) > width) width = (int)strlen(mean[i]);
    }
    printf("%-8s  %10s  %10s  %10s  %-*s  %s\n", "PART", "IMAGES", "UNREADABLE", "MiB", width,
           "MEAN", "DEVIATION");
    for (size_t i = 0; i < N_PARTS; i++)
        printf("%-8s  %10zu  %10zu  %10.1f  %-*s  %s\n", part_names[i], l->parts[i].data->count,
               l->parts[i].n_unreadable, mebibytes(l->parts[i].data), width, mean[i], deviation[i]);
}

static void print_classes(const look *l)
{
    const dpt_dataset_info *data = l->parts[0].data;
    char number[24];
    int width = (int)strlen("CLASS");
    for (size_t i = 0; i < data->outputs; i++)
        if (cli_columns(cli_class_name(data, i, number)) > width)
            width = cli_columns(cli_class_name(data, i, number));
    printf("\n%-*s  %10s  %10s\n", width, "CLASS", "TRAINING", "TEST");
    for (size_t i = 0; i < data->outputs; i++) {
        const char *name = cli_class_name(data, i, number);
        printf("%s%*s  %10zu  %10zu\n", name, width - cli_columns(name), "",
               l->parts[0].class_counts[i], l->parts[1].class_counts[i]);
    }
}

/* The parts are read one after the other, and a folder may have changed in between. */
static bool same_classes(const dpt_dataset_info *a, const dpt_dataset_info *b)
{
    if (a->outputs != b->outputs || !a->class_names != !b->class_names) return false;
    for (size_t i = 0; a->class_names && i < a->outputs; i++)
        if (strcmp(a->class_names[i], b->class_names[i]) != 0) return false;
    return true;
}

static int print(const look *l)
{
    const dpt_dataset_info *data = l->parts[0].data, *test = l->parts[1].data;
    if (!same_classes(data, test))
        return cli_error(
            CLI_FAILURE,
            "the classes in %s have changed while they were read: run the command again",
            data->source);
    const size_t n_unreadable = l->parts[0].n_unreadable + l->parts[1].n_unreadable;
    if (cli_is_text(data->name))
        printf("%s, windows of %zu ids of %zu (%s)\n\n", data->name, data->channels, data->outputs,
               data->source);
    else
        printf("%s, images of %zux%zux%zu, %zu classes (%s)\n\n", data->name, data->height,
               data->width, data->channels, data->outputs, data->source);
    print_parts(l);
    print_classes(l);
    const int code = cli_flush(CLI_OK);
    if (data->height != test->height || data->width != test->width ||
        data->channels != test->channels)
        return cli_error(CLI_FAILURE,
                         "the test images are %zux%zux%zu and the training images %zux%zux%zu: "
                         "no network takes both",
                         test->height, test->width, test->channels, data->height, data->width,
                         data->channels);
    if (n_unreadable == 0) return code;
    return cli_error(
        CLI_FAILURE,
        "%zu of %zu images cannot be read: repair them, or remove them from the folder",
        n_unreadable, data->count + test->count);
}

int cli_data(const cli_options *options)
{
    look l = {.draws = cli_can_redraw(STDERR_FILENO)};
    /* The command uses no device.  Naming "cpu" keeps other backends from being loaded. */
    const dpt_context_options how = {.size = sizeof how, .devices = "cpu"};
    dpt_status status = dpt_context_create_with(&how, &l.context);
    if (status == DPT_OK) cli_tell_notices(l.context);
    if (status == DPT_OK) status = survey(&l, options);
    const int code = status == DPT_OK ? print(&l) : cli_fail(l.context, status);
    for (size_t i = 0; i < N_PARTS; i++)
        dpt_survey_destroy(l.surveys[i]);
    dpt_context_destroy(l.context);
    return code;
}
