/* Pooling by its definition.  The maximum is over the elements inside the image.  The average is
   over the whole window, and padding counts as zeros. */
#include "reference.h"

#include <math.h>

/* The input index of tap (r, s) of the window of output (p, q); false if it lies in the padding. */
static bool tap_index(const dpt_pool2d_desc *d, size_t sample, size_t p, size_t q, size_t r,
                      size_t s, size_t channel, size_t *out)
{
    const size_t h = p * d->stride_h + r, w = q * d->stride_w + s;
    if (h < d->pad_h || h - d->pad_h >= d->in_h || w < d->pad_w || w - d->pad_w >= d->in_w) {
        return false;
    }
    *out = ((sample * d->in_h + h - d->pad_h) * d->in_w + w - d->pad_w) * d->channels + channel;
    return true;
}

static void pool_window(const dpt_pool2d_desc *d, const double *x, size_t sample, size_t p,
                        size_t q, size_t channel, double *value, size_t *first_maximum)
{
    double sum = 0.0, maximum = -INFINITY;
    for (size_t r = 0; r < d->kernel_h; r++) {
        for (size_t s = 0; s < d->kernel_w; s++) {
            size_t i;
            if (!tap_index(d, sample, p, q, r, s, channel, &i)) continue;
            sum += x[i];
            if (x[i] > maximum) {
                maximum = x[i];
                *first_maximum = i;
            }
        }
    }
    *value = d->kind == DPT_POOL_MAX ? maximum : sum / ((double)d->kernel_h * (double)d->kernel_w);
}

void reference_pool2d_forward(const dpt_pool2d_desc *d, size_t n, const reference_args *args)
{
    const size_t count = n * d->out_h * d->out_w * d->channels;
    for (size_t i = 0; i < count; i++) {
        const size_t channel = i % d->channels, pixel = i / d->channels;
        const size_t q = pixel % d->out_w, p = pixel / d->out_w % d->out_h;
        size_t unused = 0;
        pool_window(d, args->in[0], pixel / d->out_w / d->out_h, p, q, channel, &args->out[0][i],
                    &unused);
    }
}

static void spread_window(const dpt_pool2d_desc *d, double dy, size_t sample, size_t p, size_t q,
                          size_t channel, double *dx)
{
    for (size_t r = 0; r < d->kernel_h; r++) {
        for (size_t s = 0; s < d->kernel_w; s++) {
            size_t i;
            if (!tap_index(d, sample, p, q, r, s, channel, &i)) continue;
            dx[i] += dy / ((double)d->kernel_h * (double)d->kernel_w);
        }
    }
}

void reference_pool2d_backward(const dpt_pool2d_desc *d, size_t n, const reference_args *args)
{
    const double *dy = args->in[0], *x = args->in[1];
    double *dx = args->out[0];
    const size_t n_in = n * d->in_h * d->in_w * d->channels;
    for (size_t i = 0; i < n_in && !args->accumulate; i++)
        dx[i] = 0.0;
    for (size_t i = 0; i < n * d->out_h * d->out_w * d->channels; i++) {
        const size_t channel = i % d->channels, pixel = i / d->channels;
        const size_t q = pixel % d->out_w, p = pixel / d->out_w % d->out_h;
        const size_t sample = pixel / d->out_w / d->out_h;
        if (d->kind == DPT_POOL_MAX) {
            double value;
            size_t first_maximum = 0;
            pool_window(d, x, sample, p, q, channel, &value, &first_maximum);
            dx[first_maximum] += dy[i];
        } else {
            spread_window(d, dy[i], sample, p, q, channel, dx);
        }
    }
    for (size_t i = 0; i < n_in && d->input_activation != DPT_ACT_NONE; i++)
        dx[i] *= reference_slope(d->input_activation, x[i]);
}
