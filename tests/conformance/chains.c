/* The results of deterministic products to the bit: each element is one chain of fused
   multiply-adds in the order of docs/reproducibility.md, in loops that are as plain as possible. */
#include "winograd.h"

#include <math.h>

/* Behind the chain: what was there, the bias, the ReLU or the mask. */
static float finish(float sum, const float *before, const float *bias)
{
    if (before) sum = *before + sum;
    return bias ? sum + *bias : sum;
}

static float relu(float x)
{
    return x < 0.0f ? 0.0f : x;
}

/* ---- Convolutions ---------------------------------------------------------------------------- */

/* The input that tap k meets for output `at`, or SIZE_MAX. */
static size_t met(size_t at, size_t stride, size_t k, size_t dilation, size_t pad, size_t n)
{
    const size_t padded = at * stride + k * dilation;
    return padded >= pad && padded - pad < n ? padded - pad : SIZE_MAX;
}

/* A place of a sample of x, of one of y, and of a filter. */
typedef struct place {
    size_t h, w, c;
} place;

static size_t x_at(const dpt_conv2d_desc *d, size_t s, place p)
{
    return ((s * d->in_h + p.h) * d->in_w + p.w) * d->in_channels + p.c;
}

static size_t y_at(const dpt_conv2d_desc *d, size_t s, place p)
{
    return ((s * d->out_h + p.h) * d->out_w + p.w) * d->out_channels + p.c;
}

static size_t w_at(const dpt_conv2d_desc *d, size_t o, place tap)
{
    const size_t each = d->in_channels / d->groups;
    return ((o * d->kernel_h + tap.h) * d->kernel_w + tap.w) * each + tap.c;
}

static float forward_chain(const dpt_conv2d_desc *d, const conformance_tensors *t, size_t s,
                           place y)
{
    const size_t each = d->in_channels / d->groups, group = y.c / (d->out_channels / d->groups);
    float sum = 0.0f;
    for (size_t kh = 0; kh < d->kernel_h; kh++) {
        for (size_t kw = 0; kw < d->kernel_w; kw++) {
            const size_t h = met(y.h, d->stride_h, kh, d->dilation_h, d->pad_h, d->in_h);
            const size_t w = met(y.w, d->stride_w, kw, d->dilation_w, d->pad_w, d->in_w);
            if (h == SIZE_MAX || w == SIZE_MAX) continue;
            for (size_t c = 0; c < each; c++)
                sum = fmaf(t->in[0][x_at(d, s, (place){h, w, group * each + c})],
                           t->in[1][w_at(d, y.c, (place){kh, kw, c})], sum);
        }
    }
    return sum + 0.0f;
}

static float data_chain(const dpt_conv2d_desc *d, const conformance_tensors *t, size_t s, place x)
{
    const size_t each = d->in_channels / d->groups, filters = d->out_channels / d->groups;
    float sum = 0.0f;
    for (size_t h = 0; h < d->out_h; h++) {
        for (size_t w = 0; w < d->out_w; w++) {
            for (size_t tap = d->kernel_h * d->kernel_w; tap-- > 0;) {
                const size_t kh = tap / d->kernel_w, kw = tap % d->kernel_w;
                if (met(h, d->stride_h, kh, d->dilation_h, d->pad_h, d->in_h) != x.h ||
                    met(w, d->stride_w, kw, d->dilation_w, d->pad_w, d->in_w) != x.w)
                    continue;
                for (size_t i = 0; i < filters; i++) {
                    const size_t o = x.c / each * filters + i;
                    sum = fmaf(t->in[0][y_at(d, s, (place){h, w, o})],
                               t->in[1][w_at(d, o, (place){kh, kw, x.c % each})], sum);
                }
            }
        }
    }
    return sum + 0.0f;
}

static float weight_chain(const dpt_conv2d_desc *d, const conformance_tensors *t, size_t o,
                          place tap)
{
    const size_t each = d->in_channels / d->groups, group = o / (d->out_channels / d->groups);
    float sum = 0.0f;
    for (size_t s = 0; s < t->n; s++) {
        for (size_t pixel = 0; pixel < d->out_h * d->out_w; pixel++) {
            const size_t row = pixel / d->out_w, column = pixel % d->out_w;
            const size_t h = met(row, d->stride_h, tap.h, d->dilation_h, d->pad_h, d->in_h);
            const size_t w = met(column, d->stride_w, tap.w, d->dilation_w, d->pad_w, d->in_w);
            if (h == SIZE_MAX || w == SIZE_MAX) continue;
            sum = fmaf(t->in[0][y_at(d, s, (place){row, column, o})],
                       t->in[1][x_at(d, s, (place){h, w, group * each + tap.c})], sum);
        }
    }
    return sum + 0.0f;
}

/* An element before the bias and before what was there; of a Winograd convolution's backward-data
   behind it. */
static float conv2d_sum(const dpt_op_desc *desc, const conformance_tensors *t, size_t i)
{
    const dpt_conv2d_desc *d = &desc->u.conv2d;
    if (winograd_suits(desc)) return winograd_element(desc, t, i);
    if (desc->kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS) {
        const size_t each = d->in_channels / d->groups, tap = i / each;
        const place p = {tap / d->kernel_w % d->kernel_h, tap % d->kernel_w, i % each};
        return weight_chain(d, t, tap / d->kernel_w / d->kernel_h, p);
    }
    if (desc->kind == DPT_OP_CONV2D_BACKWARD_DATA) {
        const size_t pixel = i / d->in_channels, row = pixel / d->in_w;
        const place p = {row % d->in_h, pixel % d->in_w, i % d->in_channels};
        return data_chain(d, t, row / d->in_h, p);
    }
    const size_t pixel = i / d->out_channels, row = pixel / d->out_w;
    const place p = {row % d->out_h, pixel % d->out_w, i % d->out_channels};
    return forward_chain(d, t, row / d->out_h, p);
}

static float conv2d_chain(const dpt_op_desc *desc, const conformance_tensors *t, size_t i)
{
    const dpt_conv2d_desc *d = &desc->u.conv2d;
    const float *before = t->before ? t->before + i : NULL;
    const float sum = conv2d_sum(desc, t, i);
    if (desc->kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS) return finish(sum, before, NULL);
    if (desc->kind == DPT_OP_CONV2D_BACKWARD_DATA) {
        const float dx = finish(sum, winograd_suits(desc) ? NULL : before, NULL);
        return d->input_activation == DPT_ACT_RELU && !(t->in[2][i] > 0.0f) ? 0.0f : dx;
    }
    const float y = finish(sum, NULL, d->has_bias ? t->in[2] + i % d->out_channels : NULL);
    return d->activation == DPT_ACT_RELU ? relu(y) : y;
}

/* ---- Linear layers --------------------------------------------------------------------------- */

static float linear_chain(const dpt_op_desc *desc, const conformance_tensors *t, size_t i)
{
    const dpt_linear_desc *d = &desc->u.linear;
    const float *a = t->in[0], *b = t->in[1], *before = t->before ? t->before + i : NULL;
    float sum = 0.0f;
    switch (desc->kind) {
    case DPT_OP_LINEAR_FORWARD:
        for (size_t k = 0; k < d->in; k++)
            sum = fmaf(a[i / d->out * d->in + k], b[i % d->out * d->in + k], sum);
        sum = finish(sum, NULL, d->has_bias ? t->in[2] + i % d->out : NULL);
        return d->activation == DPT_ACT_RELU ? relu(sum) : sum;
    case DPT_OP_LINEAR_BACKWARD_DATA:
        for (size_t k = 0; k < d->out; k++)
            sum = fmaf(a[i / d->in * d->out + k], b[k * d->in + i % d->in], sum);
        sum = finish(sum, before, NULL);
        return d->input_activation == DPT_ACT_RELU && !(t->in[2][i] > 0.0f) ? 0.0f : sum;
    default:
        for (size_t s = 0; s < t->n; s++)
            sum = fmaf(a[s * d->out + d->first + i / d->in], b[s * d->in + i % d->in], sum);
        return finish(sum, before, NULL);
    }
}

/* ---- Either ---------------------------------------------------------------------------------- */

static bool is_plain(dpt_activation activation)
{
    return activation == DPT_ACT_NONE || activation == DPT_ACT_RELU;
}

bool conformance_has_chain(const dpt_op_desc *desc)
{
    const dpt_conv2d_desc *c = &desc->u.conv2d;
    const dpt_linear_desc *l = &desc->u.linear;
    switch (dpt_op_family_of(desc->kind)) {
    case DPT_FAMILY_CONV2D: return is_plain(c->activation) && is_plain(c->input_activation);
    case DPT_FAMILY_LINEAR: return is_plain(l->activation) && is_plain(l->input_activation);
    default: return false;
    }
}

float conformance_chain(const dpt_op_desc *desc, const conformance_tensors *t, size_t i)
{
    return dpt_op_family_of(desc->kind) == DPT_FAMILY_CONV2D ? conv2d_chain(desc, t, i)
                                                             : linear_chain(desc, t, i);
}
