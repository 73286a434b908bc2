/* The size of the terms of batch-norm and layer-norm.  Differences from the mean count with their
   own size.  A computation that multiplies before it subtracts the mean, or computes a variance as
   the difference of two sums, exceeds the bound. */
#include "reference.h"

#include <float.h>
#include <math.h>

/* What is computed in double precision and rounded once: nearly nothing but that rounding, which
   the tolerance has already. */
static const double in_double = 0x1p-20;

/* M2 of values whose mean is rounded to float32: it cannot be known better than this. */
static double rounded_mean(double count, double mean)
{
    return count * mean * mean * (double)FLT_EPSILON;
}

void magnitude_batch_norm_partial(const dpt_batch_norm_desc *d, size_t n,
                                  const reference_args *args)
{
    const size_t rows = n * d->area, channels = d->channels;
    double *part = args->out[0];
    reference_batch_norm_partial(d, n, args);
    for (size_t c = 0; c < channels; c++) {
        double sum = 0.0;
        for (size_t i = 0; i < rows; i++)
            sum += fabs(args->in[0][i * channels + c]);
        part[2 * channels + c] += rounded_mean((double)rows, part[channels + c]);
        part[channels + c] = rows > 0 ? sum / (double)rows : 0.0;
        part[c] = 0.0;
    }
}

/* The largest |mean| of a channel's parts. */
static double greatest_mean(const dpt_batch_norm_desc *d, const double *parts, size_t c)
{
    double most = 0.0;
    for (size_t i = 0; i < d->n_parts; i++)
        most = fmax(most, fabs(parts[(3 * i + 1) * d->channels + c]));
    return most;
}

void magnitude_batch_norm_merge(const dpt_batch_norm_desc *d, size_t n, const reference_args *args)
{
    const double shard = (double)n * args->inv_batch;
    reference_args fresh = *args;
    double *const *out = args->out;
    for (size_t c = 0; c < d->channels; c++) { /* what accumulating starts from is a term */
        out[1][c] = args->accumulate ? fabs(out[1][c]) : 0.0;
        out[2][c] = args->accumulate ? fabs(out[2][c]) : 0.0;
    }
    fresh.accumulate = true;
    reference_batch_norm_merge(d, n, &fresh);
    for (size_t c = 0; c < d->channels; c++) {
        const double mean = greatest_mean(d, args->in[0], c);
        out[1][c] += shard * mean;
        out[0][c] = mean * in_double;
        out[0][d->channels + c] *= in_double;
        out[0][2 * d->channels + c] *= in_double;
    }
}

void magnitude_batch_norm_freeze(const dpt_batch_norm_desc *d, const reference_args *args)
{
    reference_batch_norm_freeze(d, args);
    for (size_t c = 0; c < d->channels; c++)
        args->out[0][c] = 0.0; /* the same number */
}

void magnitude_batch_norm_forward(const dpt_batch_norm_desc *d, size_t n,
                                  const reference_args *args)
{
    const double *moments = args->in[1];
    for (size_t i = 0; i < n * d->area * d->channels; i++) {
        const size_t c = i % d->channels;
        const double xhat = fabs((args->in[0][i] - moments[c]) * moments[d->channels + c]);
        const double sum = fabs(args->in[2][c]) * xhat + fabs(args->in[3][c]);
        args->out[0][i] =
            magnitude_activated(d->activation, d->has_residual ? sum + fabs(args->in[4][i]) : sum);
    }
}

void magnitude_batch_norm_backward_partial(const dpt_batch_norm_desc *d, size_t n,
                                           const reference_args *args)
{
    const size_t channels = d->channels;
    const double *moments = args->in[2];
    for (size_t c = 0; c < channels; c++) {
        double sum = 0.0, product = 0.0;
        for (size_t i = 0; i < n * d->area; i++) {
            const double x = args->in[1][i * channels + c];
            const double dy = fabs(args->in[0][i * channels + c]) *
                              reference_batch_norm_slope(d, x, c, args, 3, 4);
            sum += dy;
            product += dy * fabs((x - moments[c]) * moments[channels + c]);
        }
        args->out[0][c] = sum;
        args->out[0][channels + c] = product;
        args->out[1][c] = (args->accumulate ? fabs(args->out[1][c]) : 0.0) + product;
        args->out[2][c] = (args->accumulate ? fabs(args->out[2][c]) : 0.0) + sum;
    }
}

void magnitude_batch_norm_backward_data(const dpt_batch_norm_desc *d, size_t n,
                                        const reference_args *args)
{
    const double *moments = args->in[2], *parts = args->in[4];
    for (size_t i = 0; i < n * d->area * d->channels; i++) {
        const size_t c = i % d->channels;
        const double x = args->in[1][i], inverse = moments[d->channels + c];
        double common = 0.0;
        for (size_t k = 0; k < d->n_parts; k++) {
            const double *part = parts + 2 * k * d->channels + c;
            common += fabs(part[0]) + fabs((x - moments[c]) * inverse * part[d->channels]);
        }
        const double dy = fabs(args->in[0][i]) * reference_batch_norm_slope(d, x, c, args, 3, 5);
        const double dx =
            fabs(args->in[3][c] * inverse) * (dy + common * moments[2 * d->channels + c]);
        args->out[0][i] = ((args->accumulate ? fabs(args->out[0][i]) : 0.0) + dx) *
                          magnitude_slope(d->input_activation, x);
    }
}

void magnitude_layer_norm_forward(const dpt_layer_norm_desc *d, size_t n,
                                  const reference_args *args)
{
    const double channels = (double)d->channels;
    reference_layer_norm_forward(d, n, args);
    for (size_t row = 0; row < n * d->rows; row++) {
        const double *x = args->in[0] + row * d->channels;
        const double mean = args->out[1][2 * row], inverse = args->out[1][2 * row + 1];
        double sum = 0.0;
        for (size_t c = 0; c < d->channels; c++)
            sum += fabs(x[c]) / channels;
        /* The share of the variance that the mean's rounding makes unknown. */
        const double factor = 1.0 + rounded_mean(inverse * inverse, mean);
        for (size_t c = 0; c < d->channels; c++) {
            args->out[0][row * d->channels + c] =
                fabs(args->in[1][c]) * inverse * (fabs(x[c] - mean) * factor + sum) +
                fabs(args->in[2][c]);
        }
        args->out[1][2 * row] = sum;
        args->out[1][2 * row + 1] = inverse * factor;
    }
}

void magnitude_layer_norm_backward_data(const dpt_layer_norm_desc *d, size_t n,
                                        const reference_args *args)
{
    const double channels = (double)d->channels;
    for (size_t row = 0; row < n * d->rows; row++) {
        const double *dy = args->in[0] + row * d->channels, *x = args->in[1] + row * d->channels;
        const double mean = args->in[2][2 * row], inverse = args->in[2][2 * row + 1];
        double sum = 0.0, product = 0.0;
        for (size_t c = 0; c < d->channels; c++) {
            sum += fabs(dy[c] * args->in[3][c]);
            product += fabs(dy[c] * args->in[3][c] * (x[c] - mean) * inverse);
        }
        for (size_t c = 0; c < d->channels; c++) {
            double *out = &args->out[0][row * d->channels + c];
            const double xhat = fabs(x[c] - mean) * inverse;
            const double dx =
                inverse * (fabs(dy[c] * args->in[3][c]) + (sum + xhat * product) / channels);
            *out = ((args->accumulate ? fabs(*out) : 0.0) + dx) *
                   magnitude_slope(d->input_activation, x[c]);
        }
    }
}

void magnitude_layer_norm_backward_weights(const dpt_layer_norm_desc *d, size_t n,
                                           const reference_args *args)
{
    for (size_t c = 0; c < d->channels; c++) {
        double dw = args->accumulate ? fabs(args->out[0][c]) : 0.0;
        double db = args->accumulate ? fabs(args->out[1][c]) : 0.0;
        for (size_t row = 0; row < n * d->rows; row++) {
            const double *moments = args->in[2] + 2 * row;
            const double dy = fabs(args->in[0][row * d->channels + c]);
            dw += dy * fabs((args->in[1][row * d->channels + c] - moments[0]) * moments[1]);
            db += dy;
        }
        args->out[0][c] = dw;
        args->out[1][c] = db;
    }
}
