/* Batch-norm and layer-norm. */
#include "reference.h"

#include <math.h>

/* ---- Statistics ------------------------------------------------------------------------------ */

void reference_batch_norm_partial(const dpt_batch_norm_desc *d, size_t n,
                                  const reference_args *args)
{
    const size_t rows = n * d->area, channels = d->channels;
    for (size_t c = 0; c < channels; c++) {
        double sum = 0.0, m2 = 0.0;
        for (size_t i = 0; i < rows; i++)
            sum += args->in[0][i * channels + c];
        const double mean = rows > 0 ? sum / (double)rows : 0.0;
        for (size_t i = 0; i < rows; i++)
            m2 += pow(args->in[0][i * channels + c] - mean, 2.0);
        args->out[0][c] = (double)rows;
        args->out[0][channels + c] = mean;
        args->out[0][2 * channels + c] = m2;
    }
}

/* Count, mean and M2 of all parts of a channel, by their definition. */
static void merge_channel(const dpt_batch_norm_desc *d, const double *parts, size_t c,
                          double merged[3])
{
    double count = 0.0, sum = 0.0, m2 = 0.0;
    for (size_t i = 0; i < d->n_parts; i++) {
        const double *part = parts + 3 * i * d->channels + c;
        count += part[0];
        sum += part[0] * part[d->channels];
    }
    const double mean = count > 0.0 ? sum / count : 0.0;
    for (size_t i = 0; i < d->n_parts; i++) {
        const double *part = parts + 3 * i * d->channels + c;
        m2 += part[2 * d->channels] + part[0] * pow(part[d->channels] - mean, 2.0);
    }
    merged[0] = count;
    merged[1] = mean;
    merged[2] = m2;
}

void reference_batch_norm_merge(const dpt_batch_norm_desc *d, size_t n, const reference_args *args)
{
    const double shard = (double)n * args->inv_batch;
    for (size_t c = 0; c < d->channels; c++) {
        double merged[3];
        merge_channel(d, args->in[0], c, merged);
        const double count = merged[0];
        const double variance = count > 0.0 ? merged[2] / count : 0.0;
        const double unbiased = count > 1.0 ? merged[2] / (count - 1.0) : 0.0;
        args->out[0][c] = merged[1];
        args->out[0][d->channels + c] = 1.0 / sqrt(variance + (double)d->epsilon);
        args->out[0][2 * d->channels + c] = count > 0.0 ? 1.0 / count : 0.0;
        args->out[1][c] = (args->accumulate ? args->out[1][c] : 0.0) + shard * merged[1];
        args->out[2][c] = (args->accumulate ? args->out[2][c] : 0.0) + shard * unbiased;
    }
}

void reference_batch_norm_freeze(const dpt_batch_norm_desc *d, const reference_args *args)
{
    for (size_t c = 0; c < d->channels; c++) {
        args->out[0][c] = args->in[0][c];
        args->out[0][d->channels + c] = 1.0 / sqrt(args->in[1][c] + (double)d->epsilon);
        args->out[0][2 * d->channels + c] = 0.0;
    }
}

/* ---- Batch-norm ------------------------------------------------------------------------------ */

void reference_batch_norm_forward(const dpt_batch_norm_desc *d, size_t n,
                                  const reference_args *args)
{
    const double *moments = args->in[1];
    for (size_t i = 0; i < n * d->area * d->channels; i++) {
        const size_t c = i % d->channels;
        const double xhat = (args->in[0][i] - moments[c]) * moments[d->channels + c];
        const double sum = args->in[2][c] * xhat + args->in[3][c];
        args->out[0][i] =
            reference_activate(d->activation, d->has_residual ? sum + args->in[4][i] : sum);
    }
}

double reference_batch_norm_slope(const dpt_batch_norm_desc *d, double x, size_t c,
                                  const reference_args *args, size_t w, size_t b)
{
    if (d->output_activation == DPT_ACT_NONE) return 1.0;
    const double *moments = args->in[2];
    const float scale = (float)moments[d->channels + c] * (float)args->in[w][c];
    const float y = fmaf((float)x - (float)moments[c], scale, (float)args->in[b][c]);
    return reference_slope(d->output_activation, (double)y);
}

void reference_batch_norm_backward_partial(const dpt_batch_norm_desc *d, size_t n,
                                           const reference_args *args)
{
    const size_t channels = d->channels;
    const double *moments = args->in[2];
    for (size_t c = 0; c < channels; c++) {
        double sum = 0.0, product = 0.0;
        for (size_t i = 0; i < n * d->area; i++) {
            const double x = args->in[1][i * channels + c];
            const double dy =
                args->in[0][i * channels + c] * reference_batch_norm_slope(d, x, c, args, 3, 4);
            sum += dy;
            product += dy * (x - moments[c]) * moments[channels + c];
        }
        args->out[0][c] = sum;
        args->out[0][channels + c] = product;
        args->out[1][c] = (args->accumulate ? args->out[1][c] : 0.0) + product;
        args->out[2][c] = (args->accumulate ? args->out[2][c] : 0.0) + sum;
    }
}

/* The sum over parts of row `row` of (2,c). */
static double part_sum(const dpt_batch_norm_desc *d, const double *parts, size_t row, size_t c)
{
    double sum = 0.0;
    for (size_t i = 0; i < d->n_parts; i++)
        sum += parts[(2 * i + row) * d->channels + c];
    return sum;
}

void reference_batch_norm_backward_data(const dpt_batch_norm_desc *d, size_t n,
                                        const reference_args *args)
{
    const double *moments = args->in[2];
    for (size_t i = 0; i < n * d->area * d->channels; i++) {
        const size_t c = i % d->channels;
        const double x = args->in[1][i], inverse = moments[d->channels + c];
        const double common = part_sum(d, args->in[4], 0, c) +
                              (x - moments[c]) * inverse * part_sum(d, args->in[4], 1, c);
        const double dy = args->in[0][i] * reference_batch_norm_slope(d, x, c, args, 3, 5);
        const double dx = args->in[3][c] * inverse * (dy - common * moments[2 * d->channels + c]);
        args->out[0][i] = ((args->accumulate ? args->out[0][i] : 0.0) + dx) *
                          reference_slope(d->input_activation, x);
    }
}

/* ---- Layer-norm ------------------------------------------------------------------------------ */

void reference_layer_norm_forward(const dpt_layer_norm_desc *d, size_t n,
                                  const reference_args *args)
{
    const double channels = (double)d->channels;
    for (size_t row = 0; row < n * d->rows; row++) {
        const double *x = args->in[0] + row * d->channels;
        double sum = 0.0, m2 = 0.0;
        for (size_t c = 0; c < d->channels; c++)
            sum += x[c];
        for (size_t c = 0; c < d->channels; c++)
            m2 += pow(x[c] - sum / channels, 2.0);
        const double inverse = 1.0 / sqrt(m2 / channels + (double)d->epsilon);
        for (size_t c = 0; c < d->channels; c++) {
            args->out[0][row * d->channels + c] =
                args->in[1][c] * (x[c] - sum / channels) * inverse + args->in[2][c];
        }
        args->out[1][2 * row] = sum / channels;
        args->out[1][2 * row + 1] = inverse;
    }
}

void reference_layer_norm_backward_data(const dpt_layer_norm_desc *d, size_t n,
                                        const reference_args *args)
{
    const double channels = (double)d->channels;
    for (size_t row = 0; row < n * d->rows; row++) {
        const double *dy = args->in[0] + row * d->channels, *x = args->in[1] + row * d->channels;
        const double mean = args->in[2][2 * row], inverse = args->in[2][2 * row + 1];
        double sum = 0.0, product = 0.0;
        for (size_t c = 0; c < d->channels; c++) {
            sum += dy[c] * args->in[3][c];
            product += dy[c] * args->in[3][c] * (x[c] - mean) * inverse;
        }
        for (size_t c = 0; c < d->channels; c++) {
            double *out = &args->out[0][row * d->channels + c];
            const double xhat = (x[c] - mean) * inverse;
            const double dx =
                inverse * (dy[c] * args->in[3][c] - (sum + xhat * product) / channels);
            *out =
                ((args->accumulate ? *out : 0.0) + dx) * reference_slope(d->input_activation, x[c]);
        }
    }
}

void reference_layer_norm_backward_weights(const dpt_layer_norm_desc *d, size_t n,
                                           const reference_args *args)
{
    for (size_t c = 0; c < d->channels; c++) {
        double dw = args->accumulate ? args->out[0][c] : 0.0;
        double db = args->accumulate ? args->out[1][c] : 0.0;
        for (size_t row = 0; row < n * d->rows; row++) {
            const double *moments = args->in[2] + 2 * row;
            const double dy = args->in[0][row * d->channels + c];
            dw += dy * (args->in[1][row * d->channels + c] - moments[0]) * moments[1];
            db += dy;
        }
        args->out[0][c] = dw;
        args->out[1][c] = db;
    }
}
