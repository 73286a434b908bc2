/* Counts predictions, and keeps the samples with the largest losses. */
#include "fit/samples.h"

#include "context/context.h"
#include "io/png.h"
#include "train/evaluation/classify.h"
#include "train/peers/peers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORST = 24,           /* samples that are kept */
    MOST_SIDE = 96,       /* of a thumbnail, in pixels */
    MOST_IMAGE = 1 << 26, /* bytes of an image that becomes a thumbnail */
};

/* ---- Counting -------------------------------------------------------------------------------- */

/* Keeps a sample if its loss is among the largest.  Of equal losses the first sample is kept. */
static void keep_worst(dpti_samples *s, const dpti_report_sample *sample)
{
    dpti_report_classes *c = &s->classes;
    size_t at = c->n_worst < WORST ? c->n_worst++ : WORST;
    for (; at > 0 && s->worst[at - 1].loss < sample->loss; at--)
        if (at < WORST) s->worst[at] = s->worst[at - 1];
    if (at < WORST) s->worst[at] = *sample;
}

/* What is counted, and where. */
typedef struct counting {
    const dpt_dataset *data;
    dpti_samples *samples;
} counting;

static void count_sample(void *user, size_t index, size_t label, const float *p)
{
    const counting *c = user;
    const size_t guess = dpti_class_counts_add(&c->samples->classes.counts, label, p);
    const double right = (double)p[label];
    const double loss = right > 0 ? -log(right) : INFINITY; /* also for NaN */
    keep_worst(c->samples, &(dpti_report_sample){.index = index,
                                                 .label = label,
                                                 .predicted = guess,
                                                 .right = right > 0 ? right : 0,
                                                 .guess = p[guess] > 0 ? (double)p[guess] : 0,
                                                 .loss = loss,
                                                 .height = c->data->height,
                                                 .width = c->data->width});
}

/* ---- Thumbnails ------------------------------------------------------------------------------ */

static bool is_picture(const dpt_dataset *data)
{
    return (data->channels == 1 || data->channels == 3) && data->height > 1 && data->width > 1 &&
           data->vocabulary == 0 && data->n_inputs <= 1 && !data->mixed && !data->conversion &&
           (data->dtype == DPT_U8 || data->dtype == DPT_F32) &&
           dpti_dataset_image_bytes(data) <= MOST_IMAGE;
}

/* The value of element i of an image, in units of a byte. */
typedef struct brightness {
    const uint8_t *bytes; /* NULL: floats, from low to high */
    const float *floats;
    double low, scale;
} brightness;

static brightness measure(const dpt_dataset *data, const void *image)
{
    const size_t n = data->height * data->width * data->channels;
    if (data->dtype == DPT_U8) return (brightness){.bytes = image};
    const float *values = image;
    double low = INFINITY, high = -INFINITY;
    for (size_t i = 0; i < n; i++) { /* as in softmax.c not by fmin and fmax */
        const double value = (double)values[i];
        if (value < low) low = value;
        if (value > high) high = value;
    }
    return (brightness){.floats = values, .low = low, .scale = high > low ? 255 / (high - low) : 0};
}

static double bright(const brightness *b, size_t i)
{
    if (b->bytes) return b->bytes[i];
    const double value = ((double)b->floats[i] - b->low) * b->scale;
    return value >= 0 && value <= 255 ? value : 0;
}

/* The mean of a square of pixels, which ends at the edges of the image. */
static uint8_t mean_of(const dpt_dataset *data, const brightness *b, const size_t at[3],
                       size_t side)
{
    double sum = 0;
    size_t n = 0;
    for (size_t y = at[0]; y < at[0] + side && y < data->height; y++)
        for (size_t x = at[1]; x < at[1] + side && x < data->width; x++, n++)
            sum += bright(b, (y * data->width + x) * data->channels + at[2]);
    return (uint8_t)(sum / (double)n + 0.5);
}

/* Makes a picture of at most MOST_SIDE pixels by MOST_SIDE.  Returns false if there is no memory.
 */
static bool make_thumbnail(const dpt_dataset *data, const void *image, dpti_content *out)
{
    const size_t larger = data->height > data->width ? data->height : data->width;
    const size_t side = (larger + MOST_SIDE - 1) / MOST_SIDE, channels = data->channels;
    const size_t height = (data->height + side - 1) / side, width = (data->width + side - 1) / side;
    const brightness b = measure(data, image);
    uint8_t *pixels = malloc(height * width * channels);
    for (size_t y = 0; pixels && y < height; y++)
        for (size_t x = 0; x < width; x++)
            for (size_t k = 0; k < channels; k++)
                pixels[(y * width + x) * channels + k] =
                    mean_of(data, &b, (const size_t[3]){y * side, x * side, k}, side);
    const bool well =
        pixels && dpti_png_encode(&(dpti_picture_bytes){height, width, channels, pixels}, out);
    free(pixels);
    return well;
}

/* Reads the images of the kept samples, one behind the other.  The caller frees *out. */
static dpt_status read_images(const dpti_samples *s, const dpt_dataset *data, uint8_t **out,
                              dpt_error *error)
{
    const size_t n_bytes = dpti_dataset_image_bytes(data), n = s->classes.n_worst;
    uint32_t records[WORST];
    *out = malloc(n * n_bytes);
    if (!*out) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for pictures of the report");
    for (size_t i = 0; i < n; i++)
        records[i] = (uint32_t)dpti_dataset_record(data, s->worst[i].index);
    if (data->reader) {
        dpti_request request = {.records = records, .n = n, .images = *out};
        dpti_reader_post(data->reader, &request);
        return dpti_reader_wait(data->reader, &request, error);
    }
    for (size_t i = 0; i < n; i++)
        memcpy(*out + i * n_bytes, (const uint8_t *)data->images + records[i] * n_bytes, n_bytes);
    return DPT_OK;
}

static dpt_status make_thumbnails(dpti_samples *s, const dpt_dataset *data, dpt_error *error)
{
    uint8_t *images = NULL;
    if (!is_picture(data) || s->classes.n_worst == 0) return DPT_OK;
    dpt_status status = read_images(s, data, &images, error);
    for (size_t i = 0; status == DPT_OK && i < s->classes.n_worst; i++)
        if (!make_thumbnail(data, images + i * dpti_dataset_image_bytes(data), &s->worst[i].png))
            status = DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for pictures of the report");
    free(images);
    return status;
}

/* ---- Looking --------------------------------------------------------------------------------- */

static bool prepare(dpti_samples *s, const dpt_dataset *data, size_t n_classes)
{
    dpti_report_classes *c = &s->classes;
    s->worst = calloc(WORST, sizeof *s->worst);
    c->names = data->class_names;
    c->n_names = data->class_names ? data->classes : 0;
    c->worst = s->worst;
    return s->worst && dpti_class_counts_create(n_classes, &c->counts);
}

dpt_status dpti_samples_look(dpt_trainer *trainer, const dpt_dataset *data, const char *part,
                             dpti_samples *out)
{
    const size_t n = dpt_model_outputs(trainer->model);
    dpt_error error = {0};
    *out = (dpti_samples){.classes = {.part = part}};
    dpt_status status = prepare(out, data, n)
                            ? DPT_OK
                            : dpt_fail(trainer->context, DPT_E_NO_MEMORY,
                                       "no memory for the counts of %zu classes", n);
    status = dpti_peers_agree(trainer, status);
    if (status == DPT_OK)
        status = dpti_trainer_visit(trainer, data, count_sample, &(counting){data, out});
    if (status == DPT_OK) {
        if (dpt_process_rank(trainer->context) == 0 &&
            (status = make_thumbnails(out, data, &error)) != DPT_OK)
            status = dpti_context_fail(trainer->context, NULL, &error);
        status = dpti_peers_agree(trainer, status);
    }
    if (status != DPT_OK) dpti_samples_free(out);
    return status;
}

void dpti_samples_free(dpti_samples *samples)
{
    for (size_t i = 0; i < samples->classes.n_worst; i++)
        free(samples->worst[i].png.bytes);
    free(samples->worst);
    dpti_class_counts_free(&samples->classes.counts);
    *samples = (dpti_samples){.worst = NULL};
}
