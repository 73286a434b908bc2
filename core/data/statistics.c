/* Means and deviations of the channels: measured, and set. */
#include "data/data.h"

#include "device/device.h" /* dpti_context_fail */

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
    if (data->channels <= DPTI_MAX_STAT_CHANNELS) return DPT_OK;
    return dpt_fail(data->context, DPT_E_UNSUPPORTED,
                    "mean and deviation are for up to %d channels, the images of %s have %zu",
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

/* Adds an image up, channel by channel: its values or, with a mean, their squared distances from
   it. */
static void add_image(const dpt_dataset *data, size_t sample, const double *mean, double sum[4])
{
    const size_t first = dpti_dataset_record(data, sample) * dpti_dataset_image_bytes(data);
    const uint8_t *bytes = (const uint8_t *)data->images + first;
    const size_t n = data->height * data->width * data->channels;
    for (size_t i = 0; i < n; i++) {
        const size_t c = i % data->channels;
        float real = 0;
        if (data->dtype == DPT_F32) memcpy(&real, bytes + i * sizeof real, sizeof real);
        const double value = data->dtype == DPT_U8 ? bytes[i] / 255.0 : (double)real;
        sum[c] += mean ? (value - mean[c]) * (value - mean[c]) : value;
    }
}

/* sum / n over the data set. */
static void average(const dpt_dataset *data, const double *mean, double out[4])
{
    double sum[DPTI_MAX_STAT_CHANNELS] = {0};
    const double n = (double)data->count * (double)(data->height * data->width);
    for (size_t i = 0; i < data->count; i++)
        add_image(data, i, mean, sum);
    for (size_t c = 0; c < DPTI_MAX_STAT_CHANNELS; c++)
        out[c] = sum[c] / n;
}

dpt_status dpt_dataset_statistics(const dpt_dataset *dataset, float mean[4], float deviation[4])
{
    double first[DPTI_MAX_STAT_CHANNELS], second[DPTI_MAX_STAT_CHANNELS];
    DPT_TRY(check_channels(dataset));
    /* Two passes: E[x^2] - E[x]^2 cancels. */
    average(dataset, NULL, first);
    average(dataset, first, second);
    for (size_t c = 0; c < dataset->channels; c++)
        if (!isfinite(first[c]) || !isfinite(second[c]))
            return dpt_fail(dataset->context, DPT_E_INVALID,
                            "%s has pixels in channel %zu that are not finite", dataset->name, c);
    for (size_t c = 0; c < DPTI_MAX_STAT_CHANNELS; c++) {
        mean[c] = (float)first[c];
        deviation[c] = (float)sqrt(second[c]);
    }
    return DPT_OK;
}
