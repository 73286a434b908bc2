/* Convolution by its definition: x NHWC, w OHWI with I = in_channels / groups, y NHWC.
   y[n,p,q,o] = sum over r,s,i of x[n, p*stride - pad + r*dilation, ..., g*I + i] * w[o,r,s,i],
   g being the group of o.  All three operators walk the same terms (visit_terms). */
#include "reference.h"

/* The indices of one product x * w that contributes to one y. */
typedef struct term {
    size_t x, w, y, out_channel;
} term;

typedef void visit(const term *term, void *user);

/* An input coordinate; false if it lies in the padding. */
static bool input_coordinate(size_t out, size_t stride, size_t tap, size_t dilation, size_t pad,
                             size_t extent, size_t *in)
{
    const size_t padded = out * stride + tap * dilation;
    if (padded < pad || padded - pad >= extent) return false;
    *in = padded - pad;
    return true;
}

static void visit_window(const dpt_conv2d_desc *d, size_t sample, size_t p, size_t q, size_t o,
                         visit *visitor, void *user)
{
    const size_t group_in = d->in_channels / d->groups;
    const size_t first_channel = o / (d->out_channels / d->groups) * group_in;
    for (size_t r = 0; r < d->kernel_h; r++) {
        for (size_t s = 0; s < d->kernel_w; s++) {
            size_t h, w;
            if (!input_coordinate(p, d->stride_h, r, d->dilation_h, d->pad_h, d->in_h, &h) ||
                !input_coordinate(q, d->stride_w, s, d->dilation_w, d->pad_w, d->in_w, &w)) {
                continue;
            }
            for (size_t i = 0; i < group_in; i++) {
                const term found = {
                    .x =
                        ((sample * d->in_h + h) * d->in_w + w) * d->in_channels + first_channel + i,
                    .w = ((o * d->kernel_h + r) * d->kernel_w + s) * group_in + i,
                    .y = ((sample * d->out_h + p) * d->out_w + q) * d->out_channels + o,
                    .out_channel = o,
                };
                visitor(&found, user);
            }
        }
    }
}

static void visit_terms(const dpt_conv2d_desc *d, size_t n, visit *visitor, void *user)
{
    for (size_t sample = 0; sample < n; sample++)
        for (size_t p = 0; p < d->out_h; p++)
            for (size_t q = 0; q < d->out_w; q++)
                for (size_t o = 0; o < d->out_channels; o++)
                    visit_window(d, sample, p, q, o, visitor, user);
}

static void forward_term(const term *i, void *user)
{
    const reference_args *args = user;
    args->out[0][i->y] += args->in[0][i->x] * args->in[1][i->w];
}

void reference_conv2d_forward(const dpt_conv2d_desc *d, size_t n, const reference_args *args)
{
    double *y = args->out[0];
    const size_t n_pixels = n * d->out_h * d->out_w;
    for (size_t i = 0; i < n_pixels * d->out_channels; i++)
        y[i] = d->has_bias ? args->in[2][i % d->out_channels] : 0.0;
    reference_args copy = *args;
    visit_terms(d, n, forward_term, &copy);
    for (size_t i = 0; i < n_pixels * d->out_channels; i++)
        y[i] = reference_activate(d->activation, y[i]);
}

static void data_term(const term *i, void *user)
{
    const reference_args *args = user;
    args->out[0][i->x] += args->in[0][i->y] * args->in[1][i->w];
}

void reference_conv2d_backward_data(const dpt_conv2d_desc *d, size_t n, const reference_args *args)
{
    double *dx = args->out[0];
    const size_t count = n * d->in_h * d->in_w * d->in_channels;
    for (size_t i = 0; i < count && !args->accumulate; i++)
        dx[i] = 0.0;
    reference_args copy = *args;
    visit_terms(d, n, data_term, &copy);
    for (size_t i = 0; i < count && d->input_activation != DPT_ACT_NONE; i++)
        dx[i] *= reference_slope(d->input_activation, args->in[2][i]);
}

static void weight_term(const term *i, void *user)
{
    const reference_args *args = user;
    args->out[0][i->w] += args->in[0][i->y] * args->in[1][i->x];
}

void reference_conv2d_backward_weights(const dpt_conv2d_desc *d, size_t n,
                                       const reference_args *args)
{
    const size_t n_weights =
        d->out_channels * d->kernel_h * d->kernel_w * (d->in_channels / d->groups);
    for (size_t i = 0; i < n_weights && !args->accumulate; i++)
        args->out[0][i] = 0.0;
    reference_args copy = *args;
    visit_terms(d, n, weight_term, &copy);
    if (!d->has_bias) return;
    double *dbias = args->out[1];
    for (size_t o = 0; o < d->out_channels; o++) {
        if (!args->accumulate) dbias[o] = 0.0;
        for (size_t i = 0; i < n * d->out_h * d->out_w; i++)
            dbias[o] += args->in[0][i * d->out_channels + o];
    }
}
