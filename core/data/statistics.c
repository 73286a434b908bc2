/* Means and deviations of the channels: measuring and setting them. */
#include "data/statistics.h"
#include "context/context.h"

#include "data/visit.h"

#include <math.h>
#include <string.h>

/* ---- Setting --------------------------------------------------------------------------------- */

/* (value / 255 - mean) / deviation as (value - mean * 255) * (1 / (255 * deviation)). */
dpt_status dpti_set_statistics(dpt_dataset *data, const float mean[4], const float deviation[4],
                               dpt_error *error)
{
    const double unit = data->dtype == DPT_U8 ? 255.0 : 1.0;
    float scaled_mean[DPTI_MAX_STAT_CHANNELS], scale[DPTI_MAX_STAT_CHANNELS];
    for (size_t c = 0; c < DPTI_MAX_STAT_CHANNELS; c++) {
        if (data->channels > DPTI_MAX_STAT_CHANNELS && (mean[c] != 0 || deviation[c] != 0))
            return DPT_FAIL(error, DPT_E_INVALID,
                            "mean and deviation are for up to %d channels, the images have %zu: "
                            "leave them zero and normalise the images",
                            DPTI_MAX_STAT_CHANNELS, data->channels);
        const double divisor = deviation[c] != 0 ? (double)deviation[c] : 1.0;
        scaled_mean[c] = (float)((double)mean[c] * unit);
        scale[c] = (float)(1.0 / (unit * divisor));
        if (!(divisor > 0) || !isfinite(divisor) || !isfinite(scaled_mean[c]) ||
            !isfinite(scale[c]))
            return DPT_FAIL(error, DPT_E_INVALID,
                            "mean %g and deviation %g of channel %zu: they must be finite, and the "
                            "deviation not negative (0 leaves the channel undivided)",
                            (double)mean[c], (double)deviation[c], c);
    }
    data->stat_channels = data->channels <= DPTI_MAX_STAT_CHANNELS ? data->channels : 1;
    memcpy(data->mean, scaled_mean, sizeof data->mean);
    memcpy(data->scale, scale, sizeof data->scale);
    memcpy(data->channel_mean, mean, sizeof data->channel_mean);
    memcpy(data->channel_deviation, deviation, sizeof data->channel_deviation);
    return DPT_OK;
}

static dpt_status check_channels(const dpt_dataset *data)
{
    if (data->dtype == DPT_I32 || data->mixed)
        return dpt_fail(data->context, DPT_E_UNSUPPORTED,
                        "%s holds ids, which have no mean and are not normalised", data->name);
    if (data->channels <= DPTI_MAX_STAT_CHANNELS) return DPT_OK;
    return dpt_fail(
        data->context, DPT_E_UNSUPPORTED,
        "mean and deviation are for up to %d channels, the images of %s have %zu: scale the "
        "values before, and train without normalizing",
        DPTI_MAX_STAT_CHANNELS, data->name, data->channels);
}

dpt_status dpt_dataset_normalize(dpt_dataset *dataset, const float mean[4],
                                 const float deviation[4])
{
    dpt_error error = {0};
    DPT_TRY(check_channels(dataset));
    if (dpti_set_statistics(dataset, mean, deviation, &error) != DPT_OK)
        return dpti_context_fail(dataset->context, NULL, &error);
    return DPT_OK;
}

/* ---- Measuring ------------------------------------------------------------------------------- */

/* A sum over floats: of the values or, if the means are known, of the squared distances from
   them. */
typedef struct tally {
    const dpt_dataset *data;
    dpti_histogram histogram;
    const double *mean; /* or NULL */
    double sums[DPTI_MAX_STAT_CHANNELS];
} tally;

static double square(double x)
{
    return x * x;
}

void dpti_histogram_add(dpti_histogram *histogram, const dpt_dataset *data, const uint8_t *image)
{
    const size_t n_pixels = data->height * data->width;
    for (size_t i = 0; i < n_pixels; i++)
        for (size_t c = 0; c < data->channels; c++)
            histogram->counts[c][*image++]++;
}

static void count_bytes(void *user, size_t sample, const uint8_t *image)
{
    tally *t = user;
    (void)sample;
    dpti_histogram_add(&t->histogram, t->data, image);
}

static void add_floats(void *user, size_t sample, const uint8_t *image)
{
    tally *t = user;
    const dpt_dataset *d = t->data;
    const size_t n = d->height * d->width * d->channels;
    (void)sample;
    for (size_t i = 0; i < n; i++) {
        const size_t c = i % d->channels;
        float value;
        memcpy(&value, image + i * sizeof value, sizeof value);
        t->sums[c] += t->mean ? square((double)value - t->mean[c]) : (double)value;
    }
}

static double pixels_of(const uint64_t counts[DPTI_BYTES])
{
    uint64_t n = 0;
    for (size_t v = 0; v < DPTI_BYTES; v++)
        n += counts[v];
    return n > 0 ? (double)n : 1.0;
}

/* Computing the variance as E[x^2] - E[x]^2 would lose precision. */
void dpti_histogram_moments(const dpti_histogram *histogram, double mean[4], double variance[4])
{
    for (size_t c = 0; c < DPTI_MAX_STAT_CHANNELS; c++) {
        const uint64_t *counts = histogram->counts[c];
        const double n = pixels_of(counts);
        mean[c] = variance[c] = 0;
        for (size_t v = 0; v < DPTI_BYTES; v++)
            mean[c] += (double)counts[v] * (double)v;
        mean[c] /= 255.0 * n;
        for (size_t v = 0; v < DPTI_BYTES; v++)
            variance[c] += (double)counts[v] * square((double)v / 255.0 - mean[c]);
        variance[c] /= n;
    }
}

static dpt_status average_floats(tally *t, const double *mean, double out[4], dpt_error *error)
{
    const dpt_dataset *data = t->data;
    const double n = (double)data->count * (double)(data->height * data->width);
    t->mean = mean;
    memset(t->sums, 0, sizeof t->sums);
    DPT_TRY(dpti_dataset_visit(data, &(dpti_visit){1, add_floats, t}, error));
    for (size_t c = 0; c < DPTI_MAX_STAT_CHANNELS; c++)
        out[c] = t->sums[c] / n;
    return DPT_OK;
}

static dpt_status measure(const dpt_dataset *data, double mean[4], double variance[4],
                          dpt_error *error)
{
    tally t = {.data = data};
    if (data->dtype == DPT_U8) {
        DPT_TRY(dpti_dataset_visit(data, &(dpti_visit){1, count_bytes, &t}, error));
        dpti_histogram_moments(&t.histogram, mean, variance);
        return DPT_OK;
    }
    DPT_TRY(average_floats(&t, NULL, mean, error));
    return average_floats(&t, mean, variance, error);
}

dpt_status dpt_dataset_statistics(const dpt_dataset *dataset, float mean[4], float deviation[4])
{
    double means[DPTI_MAX_STAT_CHANNELS], variances[DPTI_MAX_STAT_CHANNELS];
    dpt_error error = {.status = DPT_OK};
    DPT_TRY(check_channels(dataset));
    if (measure(dataset, means, variances, &error) != DPT_OK)
        return dpti_context_fail(dataset->context, NULL, &error);
    for (size_t c = 0; c < dataset->channels; c++)
        if (!isfinite(means[c]) || !isfinite(variances[c]))
            return dpt_fail(dataset->context, DPT_E_INVALID,
                            "%s has pixels in channel %zu that are not finite", dataset->name, c);
    for (size_t c = 0; c < DPTI_MAX_STAT_CHANNELS; c++) {
        mean[c] = (float)means[c];
        deviation[c] = (float)sqrt(variances[c]);
    }
    return DPT_OK;
}
