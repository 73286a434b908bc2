/* Reads all images of a part of a data set and reports those that cannot be read. */
#include "context/context.h"
#include "context/sized.h"
#include "data/statistics.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    RUNS = 2, /* one run is visited while the other one is read */
    RUN_IMAGES = 256,
    RUN_BYTES = 1 << 26, /* largest size of a run */
};

struct dpt_survey {
    dpt_dataset *data;
    dpt_dataset_info about; /* of the data */
    size_t *class_counts;   /* (classes) */
    size_t n_unreadable;
    dpti_histogram histogram;
    float mean[4], deviation[4];
    dpt_survey_options options;
    size_t n_seen;
};

/* Counts the labels of a sample that are read with it. */
static void count_read_labels(dpt_survey *s, const uint8_t *labels)
{
    for (size_t i = 0; i < dpti_dataset_labels(s->data); i++) {
        int32_t label;
        memcpy(&label, labels + i * sizeof label, sizeof label);
        s->class_counts[label]++;
    }
}

static void see(dpt_survey *s, const uint8_t *images, size_t n)
{
    const size_t image_bytes = dpti_dataset_image_bytes(s->data);
    const size_t read_bytes = dpti_dataset_read_bytes(s->data);
    for (size_t i = 0; i < n && s->data->reads_labels; i++)
        count_read_labels(s, images + i * read_bytes + image_bytes);
    const bool counts = s->data->channels <= DPTI_MAX_STAT_CHANNELS && s->data->dtype == DPT_U8;
    for (size_t i = 0; i < n && counts; i++)
        dpti_histogram_add(&s->histogram, s->data, images + i * image_bytes);
    s->n_seen += n;
}

static void tell_progress(const dpt_survey *s)
{
    if (s->options.progress) s->options.progress(s->options.user, s->n_seen);
}

static void see_memory(dpt_survey *s)
{
    const size_t image_bytes = dpti_dataset_image_bytes(s->data);
    for (size_t i = 0; i < s->data->count; i += RUN_IMAGES) {
        const size_t left = s->data->count - i;
        see(s, (const uint8_t *)s->data->images + i * image_bytes,
            left < RUN_IMAGES ? left : RUN_IMAGES);
        tell_progress(s);
    }
}

/* ---- Images that are read -------------------------------------------------------------------- */

/* A run of records from `first` on: those of the request that are not visited yet. */
typedef struct run {
    size_t first;
    dpti_request request;
    uint32_t records[RUN_IMAGES];
    uint8_t *images;
} run;

static void begin(dpt_survey *s, run *r, size_t most, size_t *next)
{
    const size_t left = s->data->count - *next, n = left < most ? left : most;
    for (size_t i = 0; i < n; i++)
        r->records[i] = (uint32_t)(*next + i);
    r->first = *next;
    r->request = (dpti_request){.records = r->records, .n = n, .images = r->images};
    dpti_reader_post(s->data->reader, &r->request);
    *next += n;
}

/* Returns whether the picture itself cannot be read, and not just by this process at this time. */
static bool is_its_own(const dpt_error *error)
{
    switch (error->status) {
    case DPT_E_FORMAT:
    case DPT_E_NOT_FOUND:
    case DPT_E_INVALID: return true;
    case DPT_E_IO:
        return error->native != EMFILE && error->native != ENFILE && error->native != ENOMEM;
    default: return false;
    }
}

/* Skips the first n images, the last of which cannot be read, and continues with the others. */
static void go_on(dpt_survey *s, run *r, size_t n)
{
    const dpti_request before = r->request;
    s->n_unreadable++;
    s->n_seen++;
    if (s->options.unreadable)
        s->options.unreadable(s->options.user, r->first + n - 1, before.error.message);
    r->first += n;
    r->request = (dpti_request){.records = before.records + n,
                                .n = before.n - n,
                                .images = before.images + n * dpti_dataset_read_bytes(s->data)};
    dpti_reader_post(s->data->reader, &r->request);
}

static dpt_status finish(dpt_survey *s, run *r, dpt_error *error)
{
    while (r->request.n > 0) {
        const dpt_status status = dpti_reader_wait(s->data->reader, &r->request, error);
        const bool all = status == DPT_OK;
        if (!all && !is_its_own(error)) return status;
        see(s, r->request.images, all ? r->request.n : r->request.failed);
        if (all) break;
        go_on(s, r, r->request.failed + 1);
    }
    tell_progress(s);
    return DPT_OK;
}

static dpt_status see_read(dpt_survey *s, dpt_error *error)
{
    const size_t read_bytes = dpti_dataset_read_bytes(s->data);
    const size_t fit = RUN_BYTES / read_bytes > 0 ? RUN_BYTES / read_bytes : 1;
    const size_t most = fit < RUN_IMAGES ? fit : RUN_IMAGES;
    run *runs = calloc(RUNS, sizeof *runs);
    uint8_t *images = malloc(RUNS * most * read_bytes);
    size_t next = 0;
    dpt_status status = DPT_OK;
    if (!runs || !images)
        status = DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to read images of %s", s->data->name);
    for (size_t i = 0; status == DPT_OK && i < RUNS; i++) {
        runs[i].images = images + i * most * read_bytes;
        begin(s, &runs[i], most, &next);
    }
    for (size_t i = 0; status == DPT_OK && s->n_seen < s->data->count; i++) {
        status = finish(s, &runs[i % RUNS], error);
        if (status == DPT_OK) begin(s, &runs[i % RUNS], most, &next);
    }
    for (size_t i = 0; runs && i < RUNS; i++)
        dpti_reader_drop(s->data->reader, &runs[i].request);
    free(images);
    free(runs);
    return status;
}

dpt_status dpti_survey_unreadable(dpt_dataset *data, const dpti_survey_visit *visit,
                                  dpt_error *error)
{
    dpt_survey s = {.data = data,
                    .options = {.unreadable = visit->unreadable, .user = visit->user}};
    return see_read(&s, error);
}

/* ---- A survey -------------------------------------------------------------------------------- */

static dpt_status survey(dpt_survey *s, dpt_error *error)
{
    double mean[DPTI_MAX_STAT_CHANNELS], variance[DPTI_MAX_STAT_CHANNELS];
    s->class_counts = calloc(s->data->classes, sizeof *s->class_counts);
    if (!s->class_counts)
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to look at %s", s->data->name);
    const size_t n_labels = s->data->labels ? s->data->count * dpti_dataset_labels(s->data) : 0;
    for (size_t i = 0; i < n_labels; i++)
        if (s->data->labels[i] >= 0) s->class_counts[s->data->labels[i]]++;
    if (s->data->reader)
        DPT_TRY(see_read(s, error));
    else
        see_memory(s);
    dpti_reader_destroy(
        s->data->reader); /* the reader's threads and names are not needed any more */
    s->data->reader = NULL;
    dpti_histogram_moments(&s->histogram, mean, variance);
    for (size_t c = 0; c < DPTI_MAX_STAT_CHANNELS; c++) {
        s->mean[c] = (float)mean[c];
        s->deviation[c] = (float)sqrt(variance[c]);
    }
    return DPT_OK;
}

void dpt_survey_destroy(dpt_survey *survey)
{
    if (!survey) return;
    dpt_dataset_destroy(survey->data);
    free(survey->class_counts);
    free(survey);
}

dpt_status dpt_dataset_survey(dpt_context *context, const char *name, const char *directory,
                              dpt_part part, const dpt_survey_options *options, dpt_survey **out)
{
    dpt_error error = {.status = DPT_OK};
    dpt_survey_options o;
    DPT_TRY(dpti_take_sized(context, &(dpti_sized){"dpt_survey_options", options, sizeof o}, &o));
    dpt_survey *s = calloc(1, sizeof *s);
    if (!s) return dpt_fail(context, DPT_E_NO_MEMORY, "no memory to look at a data set");
    s->options = o;
    const dpti_data_request request = {
        .name = name, .directory = directory, .part = part, .context = context};
    dpt_status status = dpti_dataset_open_unread(context, &request, &s->data, &error);
    if (status == DPT_OK) status = survey(s, &error);
    if (status != DPT_OK) {
        dpt_survey_destroy(s);
        return dpti_context_fail(context, NULL, &error);
    }
    s->about.size = sizeof s->about;
    dpt_dataset_describe(s->data, &s->about);
    *out = s;
    return DPT_OK;
}

void dpt_survey_describe(const dpt_survey *survey, dpt_survey_info *out)
{
    dpt_survey_info info = {.size = sizeof info,
                            .data = &survey->about,
                            .class_counts = survey->class_counts,
                            .n_unreadable = survey->n_unreadable,
                            .has_statistics = survey->data->channels <= DPTI_MAX_STAT_CHANNELS &&
                                              survey->data->dtype == DPT_U8 &&
                                              survey->n_unreadable < survey->data->count};
    for (size_t c = 0; c < DPTI_MAX_STAT_CHANNELS && info.has_statistics; c++) {
        info.mean[c] = survey->mean[c];
        info.deviation[c] = survey->deviation[c];
    }
    (void)dpti_give_sized(&info, sizeof info,
                          out); /* without a size the program's struct stays as it is */
}
