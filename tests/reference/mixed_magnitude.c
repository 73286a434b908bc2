/* The size of the terms in a convolution that mixes inputs before it multiplies
   (dpt_op_info.mixes): in a tile all inputs are combined with all taps. */
#include "reference.h"

#include <math.h>
#include <stdlib.h>

static size_t taps_of(const dpt_conv2d_desc *d)
{
    return d->kernel_h * d->kernel_w;
}

/* peak (channels): the largest values of one sample (area, channels). */
static void find_peaks(const double *sample, size_t area, size_t channels, double *peak)
{
    for (size_t c = 0; c < channels; c++)
        peak[c] = 0.0;
    for (size_t i = 0; i < area * channels; i++)
        peak[i % channels] = fmax(peak[i % channels], fabs(sample[i]));
}

/* All taps between an output and an input channel. */
static double sum_taps(const dpt_conv2d_desc *d, const double *w, size_t o, size_t c)
{
    double sum = 0.0;
    for (size_t t = 0; t < taps_of(d); t++)
        sum += fabs(w[(o * taps_of(d) + t) * d->in_channels + c]);
    return sum;
}

static void mixed_forward(const dpt_conv2d_desc *d, size_t n, const reference_args *args,
                          double *peak)
{
    const size_t in_area = d->in_h * d->in_w, out_area = d->out_h * d->out_w;
    for (size_t i = 0; i < n; i++) {
        find_peaks(args->in[0] + i * in_area * d->in_channels, in_area, d->in_channels, peak);
        for (size_t o = 0; o < d->out_channels; o++) {
            double sum = d->has_bias ? fabs(args->in[2][o]) : 0.0;
            for (size_t c = 0; c < d->in_channels; c++)
                sum += peak[c] * sum_taps(d, args->in[1], o, c);
            for (size_t p = 0; p < out_area; p++)
                args->out[0][(i * out_area + p) * d->out_channels + o] =
                    magnitude_activated(d->activation, sum);
        }
    }
}

static void mixed_backward_data(const dpt_conv2d_desc *d, size_t n, const reference_args *args,
                                const double *before, double *peak)
{
    const size_t in_area = d->in_h * d->in_w, out_area = d->out_h * d->out_w;
    for (size_t i = 0; i < n; i++) {
        find_peaks(args->in[0] + i * out_area * d->out_channels, out_area, d->out_channels, peak);
        for (size_t c = 0; c < d->in_channels; c++) {
            double sum = 0.0;
            for (size_t o = 0; o < d->out_channels; o++)
                sum += peak[o] * sum_taps(d, args->in[1], o, c);
            for (size_t p = 0; p < in_area; p++) {
                const size_t at = (i * in_area + p) * d->in_channels + c;
                const double all = sum + (args->accumulate ? fabs(before[at]) : 0.0);
                args->out[0][at] =
                    d->input_activation == DPT_ACT_NONE
                        ? all
                        : all * magnitude_slope(d->input_activation, args->in[2][at]);
            }
        }
    }
}

/* total (out_channels, in_channels): sums over samples, the same for all taps. */
static void mixed_backward_weights(const dpt_conv2d_desc *d, size_t n, const reference_args *args,
                                   const double *before, double *peak, double *total)
{
    const size_t in_area = d->in_h * d->in_w, out_area = d->out_h * d->out_w;
    for (size_t i = 0; i < n; i++) {
        find_peaks(args->in[1] + i * in_area * d->in_channels, in_area, d->in_channels, peak);
        for (size_t o = 0; o < d->out_channels; o++) {
            double sum = 0.0;
            for (size_t p = 0; p < out_area; p++)
                sum += fabs(args->in[0][(i * out_area + p) * d->out_channels + o]);
            for (size_t c = 0; c < d->in_channels; c++)
                total[o * d->in_channels + c] += sum * peak[c];
        }
    }
    for (size_t e = 0; e < d->out_channels * taps_of(d) * d->in_channels; e++) {
        const size_t o = e / (taps_of(d) * d->in_channels), c = e % d->in_channels;
        args->out[0][e] =
            total[o * d->in_channels + c] + (args->accumulate ? fabs(before[e]) : 0.0);
    }
}

bool reference_mixed_magnitude(const dpt_op_desc *desc, size_t n, const reference_args *args,
                               const double *before)
{
    const dpt_conv2d_desc *d = &desc->u.conv2d;
    double *peak = calloc(d->in_channels + d->out_channels, sizeof *peak);
    double *total = calloc(d->in_channels * d->out_channels, sizeof *total);
    const bool enough = peak && total && d->groups == 1;
    if (enough) {
        switch (desc->kind) {
        case DPT_OP_CONV2D_FORWARD: mixed_forward(d, n, args, peak); break;
        case DPT_OP_CONV2D_BACKWARD_DATA: mixed_backward_data(d, n, args, before, peak); break;
        default: mixed_backward_weights(d, n, args, before, peak, total); break;
        }
    }
    free(total);
    free(peak);
    return enough;
}
