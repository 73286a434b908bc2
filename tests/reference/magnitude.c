/* The size of the terms of each output, which bounds the rounding of a float32 computation that
   may sum in any order.  Mostly this is the operator itself on absolute values. */
#include "reference.h"

#include <math.h>
#include <stdlib.h>

static void absolute(double *values, size_t n)
{
    for (size_t i = 0; i < n; i++)
        values[i] = fabs(values[i]);
}

/* A row of softmax.  exp(x - max) magnifies the rounding of x - max by its size. */
static void softmax_row(const dpt_softmax_desc *d, const double *logits, size_t label,
                        double inv_labels, double *result, double *dlogits)
{
    const size_t classes = d->classes;
    double low = logits[0], high = logits[0], sum = 0.0;
    for (size_t c = 1; c < classes; c++) {
        low = fmin(low, logits[c]);
        high = fmax(high, logits[c]);
    }
    for (size_t c = 0; c < classes; c++)
        sum += exp(logits[c] - high);
    result[0] = 1.0 + (high - low);
    result[1] = 0.0; /* a hit is exactly 0 or 1 */
    for (size_t c = 0; dlogits && c < classes; c++) {
        const double p = exp(logits[c] - high) / sum;
        const double target = (c == label ? 1.0 - (double)d->smoothing : 0.0) +
                              (double)d->smoothing / (double)classes;
        dlogits[c] = (p * (2.0 + (high - low)) + target) * inv_labels;
    }
}

static void softmax(const dpt_softmax_desc *d, size_t n, bool gradient, const reference_args *args)
{
    const double inv_labels = args->inv_labels != 0 ? args->inv_labels : args->inv_batch;
    for (size_t i = 0; i < n; i++) {
        double *result = args->out[0] + 2 * i;
        double *dlogits = gradient ? args->out[1] + i * d->classes : NULL;
        if (args->in[1][i] < 0) { /* ignored */
            result[0] = result[1] = 0;
            for (size_t c = 0; dlogits && c < d->classes; c++)
                dlogits[c] = 0;
            continue;
        }
        softmax_row(d, args->in[0] + i * d->classes, (size_t)args->in[1][i], inv_labels, result,
                    dlogits);
    }
}

static void sgd(const dpt_sgd_desc *d, const reference_args *args)
{
    const double momentum = fabs((double)d->momentum);
    for (size_t i = 0; i < d->count; i++) {
        double g = fabs(args->in[0][i]);
        if (i < d->decay_count) g += fabs((double)d->weight_decay * args->out[0][i]);
        if (momentum != 0.0) {
            double *velocity = &args->out[1][i];
            *velocity = momentum * fabs(*velocity) + g;
            g = d->nesterov ? g + momentum * *velocity : *velocity;
        }
        args->out[0][i] = fabs(args->out[0][i]) + fabs(args->lr) * g;
    }
}

static void adamw(const dpt_adamw_desc *d, const reference_args *args)
{
    const double beta1 = (double)d->beta1, beta2 = (double)d->beta2;
    for (size_t i = 0; i < d->count; i++) {
        const double g = fabs(args->in[0][i]);
        double *w = &args->out[0][i], *m = &args->out[1][i], *v = &args->out[2][i];
        *w = fabs(*w);
        if (i < d->decay_count) *w += args->lr * (double)d->weight_decay * *w;
        *m = beta1 * fabs(*m) + (1.0 - beta1) * g;
        *v = beta2 * *v + (1.0 - beta2) * g * g;
        *w += args->lr * args->adam_scale_m * *m /
              (sqrt(*v) * args->adam_scale_v + (double)d->epsilon);
    }
}

/* Multiplies by the slope of the mask, and counts it as one of the terms. */
static void mask(dpt_activation kind, const double *x, double *dx, size_t n)
{
    for (size_t i = 0; i < n && kind != DPT_ACT_NONE; i++) /* without one there may be no x */
        dx[i] *= magnitude_slope(kind, x[i]);
}

static void activation_backward(const dpt_activation_desc *d, size_t n, const reference_args *args)
{
    for (size_t i = 0; i < n * d->count; i++) {
        const double dx = args->in[0][i] * magnitude_slope(d->kind, args->in[1][i]);
        args->out[0][i] = args->accumulate ? args->out[0][i] + dx : dx;
    }
}

/* Runs the operator on inputs that are absolute already, without its activations. */
static void run_absolute(const dpt_op_desc *desc, size_t n, const reference_args *args)
{
    dpt_op_desc bare = *desc;
    double *out = args->out[0];
    switch (desc->kind) {
    case DPT_OP_CONV2D_FORWARD: {
        const dpt_conv2d_desc *d = &desc->u.conv2d;
        bare.u.conv2d.activation = DPT_ACT_NONE;
        reference_run(&bare, n, args);
        for (size_t i = 0; i < n * d->out_h * d->out_w * d->out_channels; i++)
            out[i] = magnitude_activated(d->activation, out[i]);
        return;
    }
    case DPT_OP_CONV2D_BACKWARD_DATA: {
        const dpt_conv2d_desc *d = &desc->u.conv2d;
        bare.u.conv2d.input_activation = DPT_ACT_NONE;
        reference_run(&bare, n, args);
        mask(d->input_activation, args->in[2], out, n * d->in_h * d->in_w * d->in_channels);
        return;
    }
    case DPT_OP_LINEAR_FORWARD: {
        const dpt_linear_desc *d = &desc->u.linear;
        bare.u.linear.activation = DPT_ACT_NONE;
        reference_run(&bare, n, args);
        for (size_t i = 0; i < n * d->out; i++)
            out[i] = magnitude_activated(d->activation, out[i]);
        return;
    }
    case DPT_OP_LINEAR_BACKWARD_DATA:
        bare.u.linear.input_activation = DPT_ACT_NONE;
        reference_run(&bare, n, args);
        mask(desc->u.linear.input_activation, args->in[2], out, n * desc->u.linear.in);
        return;
    case DPT_OP_POOL2D_BACKWARD: {
        const dpt_pool2d_desc *d = &desc->u.pool2d;
        bare.u.pool2d.input_activation = DPT_ACT_NONE;
        reference_run(&bare, n, args);
        mask(d->input_activation, args->in[1], out, n * d->in_h * d->in_w * d->channels);
        return;
    }
    case DPT_OP_ACTIVATION_FORWARD:
        for (size_t i = 0; i < n * desc->u.activation.count; i++)
            out[i] = magnitude_activate(desc->u.activation.kind, args->in[0][i]);
        return;
    case DPT_OP_ACTIVATION_BACKWARD: activation_backward(&desc->u.activation, n, args); return;
    case DPT_OP_GATHER: /* |value| + |mean| */
        for (size_t i = 0; i < DPT_MAX_CHANNEL_STATS; i++) {
            bare.u.gather.mean[i] = -fabsf(desc->u.gather.mean[i]);
            bare.u.gather.scale[i] = fabsf(desc->u.gather.scale[i]);
        }
        reference_run(&bare, n, args);
        return;
    case DPT_OP_MATMUL:
        bare.u.matmul.alpha = fabsf(desc->u.matmul.alpha);
        reference_run(&bare, n, args);
        return;
    default: reference_run(desc, n, args); return;
    }
}

/* Whether an input enters by its sign, and not as a factor or term: what a maximum or a mask is
   taken from. */
static bool keeps_sign(const dpt_op_desc *desc, size_t input)
{
    switch (desc->kind) {
    case DPT_OP_CONV2D_BACKWARD_DATA:
    case DPT_OP_LINEAR_BACKWARD_DATA: return input == 2;
    case DPT_OP_POOL2D_FORWARD: return desc->u.pool2d.kind == DPT_POOL_MAX;
    case DPT_OP_POOL2D_BACKWARD: return input == 1;
    case DPT_OP_ACTIVATION_FORWARD: return true;
    case DPT_OP_ACTIVATION_BACKWARD: return input == 1;
    /* Differences of float32 numbers are rounded like themselves. */
    case DPT_OP_SQUARED_ERROR:
    case DPT_OP_SQUARED_ERROR_GRADIENT: return true;
    case DPT_OP_TAKE_FORWARD:
    case DPT_OP_TAKE_BACKWARD: return input == 1;
    default: return false;
    }
}

/* The normalisations, whose terms have functions of their own.  False for other kinds. */
static bool run_norm(const dpt_op_desc *desc, size_t n, const reference_args *args)
{
    const dpt_batch_norm_desc *b = &desc->u.batch_norm;
    const dpt_layer_norm_desc *l = &desc->u.layer_norm;
    switch (desc->kind) {
    case DPT_OP_BATCH_NORM_PARTIAL: magnitude_batch_norm_partial(b, n, args); return true;
    case DPT_OP_BATCH_NORM_MERGE: magnitude_batch_norm_merge(b, n, args); return true;
    case DPT_OP_BATCH_NORM_FREEZE: magnitude_batch_norm_freeze(b, args); return true;
    case DPT_OP_BATCH_NORM_FORWARD: magnitude_batch_norm_forward(b, n, args); return true;
    case DPT_OP_BATCH_NORM_BACKWARD_PARTIAL:
        magnitude_batch_norm_backward_partial(b, n, args);
        return true;
    case DPT_OP_BATCH_NORM_BACKWARD_DATA:
        magnitude_batch_norm_backward_data(b, n, args);
        return true;
    case DPT_OP_LAYER_NORM_FORWARD: magnitude_layer_norm_forward(l, n, args); return true;
    case DPT_OP_LAYER_NORM_BACKWARD_DATA:
        magnitude_layer_norm_backward_data(l, n, args);
        return true;
    case DPT_OP_LAYER_NORM_BACKWARD_WEIGHTS:
        magnitude_layer_norm_backward_weights(l, n, args);
        return true;
    default: return false;
    }
}

bool reference_magnitude(const dpt_op_desc *desc, size_t n, const reference_args *args,
                         const size_t n_in[DPT_MAX_INPUTS], const size_t n_out[DPT_MAX_OUTPUTS])
{
    reference_args own = *args;
    double *copies[DPT_MAX_INPUTS] = {NULL};
    bool enough = true;
    if (run_norm(desc, n, args)) return true;
    if (dpt_op_family_of(desc->kind) == DPT_FAMILY_ELEMENTWISE) {
        magnitude_elementwise(desc, n, args);
        return true;
    }
    if (dpt_op_family_of(desc->kind) == DPT_FAMILY_MAP) {
        magnitude_map(desc, n, args);
        return true;
    }
    if (dpt_op_family_of(desc->kind) == DPT_FAMILY_RECURRENT) {
        magnitude_recurrent(desc, n, args);
        return true;
    }
    if (dpt_op_family_of(desc->kind) == DPT_FAMILY_ATTENTION) {
        magnitude_attention(desc, n, args);
        return true;
    }
    switch (desc->kind) {
    case DPT_OP_SOFTMAX_XENT: softmax(&desc->u.softmax, n, false, args); return true;
    case DPT_OP_SOFTMAX_XENT_GRADIENT: softmax(&desc->u.softmax, n, true, args); return true;
    case DPT_OP_ROW_SOFTMAX_FORWARD:
        magnitude_row_softmax(&desc->u.row_softmax, n, args);
        return true;
    case DPT_OP_ROW_SOFTMAX_BACKWARD:
        magnitude_row_softmax_backward(&desc->u.row_softmax, n, args);
        return true;
    case DPT_OP_SGD: sgd(&desc->u.sgd, args); return true;
    case DPT_OP_ADAMW: adamw(&desc->u.adamw, args); return true;
    default: break;
    }
    for (size_t i = 0; i < DPT_MAX_INPUTS; i++) {
        if (!args->in[i] || keeps_sign(desc, i)) continue;
        copies[i] = calloc(n_in[i] + 1, sizeof *copies[i]);
        if (!copies[i]) {
            enough = false;
            continue;
        }
        for (size_t e = 0; e < n_in[i]; e++)
            copies[i][e] = fabs(args->in[i][e]);
        own.in[i] = copies[i];
    }
    for (size_t i = 0; i < DPT_MAX_OUTPUTS && args->accumulate; i++)
        absolute(args->out[i], args->out[i] ? n_out[i] : 0);
    if (enough) run_absolute(desc, n, &own);
    for (size_t i = 0; i < DPT_MAX_OUTPUTS; i++)
        absolute(args->out[i], args->out[i] ? n_out[i] : 0);
    for (size_t i = 0; i < DPT_MAX_INPUTS; i++)
        free(copies[i]);
    return enough;
}

size_t reference_terms(const dpt_op_desc *desc, size_t n, size_t output)
{
    const dpt_conv2d_desc *c = &desc->u.conv2d;
    const dpt_pool2d_desc *p = &desc->u.pool2d;
    switch (desc->kind) {
    case DPT_OP_CONV2D_FORWARD: return c->kernel_h * c->kernel_w * c->in_channels / c->groups + 1;
    case DPT_OP_CONV2D_BACKWARD_DATA:
        return c->kernel_h * c->kernel_w * c->out_channels / c->groups + 2;
    case DPT_OP_CONV2D_BACKWARD_WEIGHTS: return n * c->out_h * c->out_w + 1;
    case DPT_OP_LINEAR_FORWARD: return desc->u.linear.in + 1;
    case DPT_OP_LINEAR_BACKWARD_DATA: return desc->u.linear.out + 2;
    case DPT_OP_LINEAR_BACKWARD_WEIGHTS: return n + 1;
    case DPT_OP_POOL2D_FORWARD:
    case DPT_OP_POOL2D_BACKWARD: return p->kernel_h * p->kernel_w + 2;
    case DPT_OP_BATCH_NORM_PARTIAL:
    case DPT_OP_BATCH_NORM_BACKWARD_PARTIAL: return n * desc->u.batch_norm.area + 2;
    case DPT_OP_BATCH_NORM_MERGE: return desc->u.batch_norm.n_parts + 2;
    case DPT_OP_BATCH_NORM_FREEZE:
    case DPT_OP_BATCH_NORM_FORWARD: return 4;
    case DPT_OP_BATCH_NORM_BACKWARD_DATA: return desc->u.batch_norm.n_parts + 6;
    case DPT_OP_LAYER_NORM_FORWARD:
    case DPT_OP_LAYER_NORM_BACKWARD_DATA: return desc->u.layer_norm.channels + 4;
    case DPT_OP_LAYER_NORM_BACKWARD_WEIGHTS: return n * desc->u.layer_norm.rows + 2;
    case DPT_OP_SOFTMAX_XENT:
    case DPT_OP_SOFTMAX_XENT_GRADIENT: return desc->u.softmax.classes;
    case DPT_OP_SQUARED_ERROR:
    case DPT_OP_SQUARED_ERROR_GRADIENT: return desc->u.squared_error.count;
    case DPT_OP_ROW_SOFTMAX_FORWARD:
    case DPT_OP_ROW_SOFTMAX_BACKWARD: return desc->u.row_softmax.columns + 2;
    case DPT_OP_TAKE_BACKWARD: return n * desc->u.take.count + 1;
    case DPT_OP_MAP_REDUCE: return reference_map_terms(&desc->u.map, n);
    case DPT_OP_MATMUL: return desc->u.matmul.inner + 2;
    case DPT_OP_RECURRENT_FORWARD:
    case DPT_OP_RECURRENT_BACKWARD:
        return dpt_recurrent_gates(desc->u.recurrent.cell) * desc->u.recurrent.hidden + 6;
    case DPT_OP_ATTENTION_FORWARD: return desc->u.attention.width + desc->u.attention.keys + 4;
    case DPT_OP_ATTENTION_BACKWARD:
        return 2 * desc->u.attention.width +
               (output == 0 && !desc->u.attention.packed
                    ? desc->u.attention.keys
                    : desc->u.attention.queries * desc->u.attention.heads) +
               4;
    case DPT_OP_SGD:
    case DPT_OP_ADAMW: return output == 0 ? 4 : 3;
    default: return 2;
    }
}
