/* The operators that are not convolution or pooling, and the dispatch by kind. */
#include "reference.h"

#include <math.h>

static void gather(const dpt_gather_desc *d, size_t n, const reference_args *args)
{
    if (dpt_augments(&d->augment)) {
        reference_gather_augmented(d, n, args);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        const size_t record = (size_t)args->in[1][i];
        for (size_t e = 0; e < d->count; e++) {
            const double value = args->in[0][record * d->count + e];
            const size_t channel = e % d->channels;
            args->out[0][i * d->count + e] =
                (value - (double)d->mean[channel]) * (double)d->scale[channel];
        }
    }
}

static void gather_labels(const dpt_gather_desc *d, size_t n, const reference_args *args)
{
    for (size_t i = 0; i < n * d->count; i++)
        args->out[0][i] = args->in[0][(size_t)args->in[1][i / d->count] * d->count + i % d->count];
}

static void linear_forward(const dpt_linear_desc *d, size_t n, const reference_args *args)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t o = 0; o < d->out; o++) {
            double sum = d->has_bias ? args->in[2][o] : 0.0;
            for (size_t k = 0; k < d->in; k++)
                sum += args->in[0][i * d->in + k] * args->in[1][o * d->in + k];
            args->out[0][i * d->out + o] = reference_activate(d->activation, sum);
        }
    }
}

static void linear_backward_data(const dpt_linear_desc *d, size_t n, const reference_args *args)
{
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < d->in; k++) {
            const size_t at = i * d->in + k;
            double sum = args->accumulate ? args->out[0][at] : 0.0;
            for (size_t o = 0; o < d->out; o++)
                sum += args->in[0][i * d->out + o] * args->in[1][o * d->in + k];
            if (d->input_activation != DPT_ACT_NONE) {
                sum *= reference_slope(d->input_activation, args->in[2][at]);
            }
            args->out[0][at] = sum;
        }
    }
}

static void linear_backward_weights(const dpt_linear_desc *d, size_t n, const reference_args *args)
{
    const size_t n_rows = d->rows > 0 ? d->rows : d->out;
    for (size_t row = 0; row < n_rows; row++) {
        const size_t o = d->first + row;
        for (size_t k = 0; k < d->in; k++) {
            double sum = args->accumulate ? args->out[0][row * d->in + k] : 0.0;
            for (size_t i = 0; i < n; i++)
                sum += args->in[0][i * d->out + o] * args->in[1][i * d->in + k];
            args->out[0][row * d->in + k] = sum;
        }
        if (!d->has_bias) continue;
        double sum = args->accumulate ? args->out[1][row] : 0.0;
        for (size_t i = 0; i < n; i++)
            sum += args->in[0][i * d->out + o];
        args->out[1][row] = sum;
    }
}

static void activation_forward(const dpt_activation_desc *d, size_t n, const reference_args *args)
{
    for (size_t i = 0; i < n * d->count; i++)
        args->out[0][i] = reference_activate(d->kind, args->in[0][i]);
}

static void activation_backward(const dpt_activation_desc *d, size_t n, const reference_args *args)
{
    for (size_t i = 0; i < n * d->count; i++) {
        const double dx = args->in[0][i] * reference_slope(d->kind, args->in[1][i]);
        args->out[0][i] = args->accumulate ? args->out[0][i] + dx : dx;
    }
}

/* One row: loss and hit to result, and the gradient to dlogits if it is not NULL. */
static void softmax_row(const dpt_softmax_desc *d, const double *logits, size_t label,
                        double inv_labels, double *result, double *dlogits)
{
    const size_t classes = d->classes;
    const double smoothing = (double)d->smoothing;
    double maximum = logits[0], sum = 0.0;
    size_t best = 0;
    for (size_t c = 1; c < classes; c++) {
        if (logits[c] > maximum) {
            maximum = logits[c];
            best = c;
        }
    }
    for (size_t c = 0; c < classes; c++)
        sum += exp(logits[c] - maximum);
    result[0] = 0.0;
    result[1] = best == label ? 1.0 : 0.0;
    for (size_t c = 0; c < classes; c++) {
        const double target = (c == label ? 1.0 - smoothing : 0.0) + smoothing / (double)classes;
        const double log_p = logits[c] - maximum - log(sum);
        if (target > 0.0) result[0] -= target * log_p;
        if (dlogits) dlogits[c] = (exp(log_p) - target) * inv_labels;
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

static void squared_error(size_t count, size_t n, bool gradient, const reference_args *args)
{
    for (size_t i = 0; i < n; i++) {
        double sum = 0.0;
        for (size_t e = i * count; e < (i + 1) * count; e++) {
            const double difference = args->in[0][e] - args->in[1][e];
            sum += difference * difference;
            if (gradient) args->out[1][e] = 2.0 / (double)count * difference * args->inv_batch;
        }
        args->out[0][2 * i] = sum / (double)count;
        args->out[0][2 * i + 1] = 0.0;
    }
}

static void sgd(const dpt_sgd_desc *d, const reference_args *args)
{
    const double momentum = (double)d->momentum;
    for (size_t i = 0; i < d->count; i++) {
        double g = args->in[0][i];
        if (i < d->decay_count) g += (double)d->weight_decay * args->out[0][i];
        if (momentum != 0.0) {
            double *velocity = &args->out[1][i];
            *velocity = momentum * *velocity + g;
            g = d->nesterov ? g + momentum * *velocity : *velocity;
        }
        args->out[0][i] -= args->lr * g;
    }
}

static void adamw(const dpt_adamw_desc *d, const reference_args *args)
{
    const double beta1 = (double)d->beta1, beta2 = (double)d->beta2;
    for (size_t i = 0; i < d->count; i++) {
        const double g = args->in[0][i];
        double *w = &args->out[0][i], *m = &args->out[1][i], *v = &args->out[2][i];
        if (i < d->decay_count) *w -= args->lr * (double)d->weight_decay * *w;
        *m = beta1 * *m + (1.0 - beta1) * g;
        *v = beta2 * *v + (1.0 - beta2) * g * g;
        *w -= args->lr * args->adam_scale_m * *m /
              (sqrt(*v) * args->adam_scale_v + (double)d->epsilon);
    }
}

static void clip_norm(const dpt_clip_norm_desc *d, const reference_args *args)
{
    double sum = 0.0;
    for (size_t i = 0; i < d->count; i++)
        sum += args->out[0][i] * args->out[0][i];
    const double factor = fmin(1.0, (double)d->max_norm / (sqrt(sum) + 1e-6));
    for (size_t i = 0; i < d->count; i++)
        args->out[0][i] *= factor;
}

static void check_finite(const dpt_check_finite_desc *d, size_t n, const reference_args *args)
{
    for (size_t i = 0; i < n * d->count; i++)
        if (!isfinite(args->in[0][i])) args->out[0][0] = 1.0;
}

/* Batch-norm and layer-norm. */
static void run_norm(const dpt_op_desc *desc, size_t n, const reference_args *args)
{
    switch (desc->kind) {
    case DPT_OP_BATCH_NORM_PARTIAL:
        reference_batch_norm_partial(&desc->u.batch_norm, n, args);
        break;
    case DPT_OP_BATCH_NORM_MERGE: reference_batch_norm_merge(&desc->u.batch_norm, n, args); break;
    case DPT_OP_BATCH_NORM_FREEZE: reference_batch_norm_freeze(&desc->u.batch_norm, args); break;
    case DPT_OP_BATCH_NORM_FORWARD:
        reference_batch_norm_forward(&desc->u.batch_norm, n, args);
        break;
    case DPT_OP_BATCH_NORM_BACKWARD_PARTIAL:
        reference_batch_norm_backward_partial(&desc->u.batch_norm, n, args);
        break;
    case DPT_OP_BATCH_NORM_BACKWARD_DATA:
        reference_batch_norm_backward_data(&desc->u.batch_norm, n, args);
        break;
    case DPT_OP_LAYER_NORM_FORWARD:
        reference_layer_norm_forward(&desc->u.layer_norm, n, args);
        break;
    case DPT_OP_LAYER_NORM_BACKWARD_DATA:
        reference_layer_norm_backward_data(&desc->u.layer_norm, n, args);
        break;
    case DPT_OP_LAYER_NORM_BACKWARD_WEIGHTS:
        reference_layer_norm_backward_weights(&desc->u.layer_norm, n, args);
        break;
    default: break;
    }
}

void reference_run(const dpt_op_desc *desc, size_t n, const reference_args *args)
{
    switch (desc->kind) {
    case DPT_OP_GATHER: gather(&desc->u.gather, n, args); break;
    case DPT_OP_GATHER_LABELS: gather_labels(&desc->u.gather, n, args); break;
    case DPT_OP_CONV2D_FORWARD: reference_conv2d_forward(&desc->u.conv2d, n, args); break;
    case DPT_OP_CONV2D_BACKWARD_DATA:
        reference_conv2d_backward_data(&desc->u.conv2d, n, args);
        break;
    case DPT_OP_CONV2D_BACKWARD_WEIGHTS:
        reference_conv2d_backward_weights(&desc->u.conv2d, n, args);
        break;
    case DPT_OP_LINEAR_FORWARD: linear_forward(&desc->u.linear, n, args); break;
    case DPT_OP_LINEAR_BACKWARD_DATA: linear_backward_data(&desc->u.linear, n, args); break;
    case DPT_OP_LINEAR_BACKWARD_WEIGHTS: linear_backward_weights(&desc->u.linear, n, args); break;
    case DPT_OP_POOL2D_FORWARD: reference_pool2d_forward(&desc->u.pool2d, n, args); break;
    case DPT_OP_POOL2D_BACKWARD: reference_pool2d_backward(&desc->u.pool2d, n, args); break;
    case DPT_OP_ACTIVATION_FORWARD: activation_forward(&desc->u.activation, n, args); break;
    case DPT_OP_ACTIVATION_BACKWARD: activation_backward(&desc->u.activation, n, args); break;
    case DPT_OP_BATCH_NORM_PARTIAL:
    case DPT_OP_BATCH_NORM_MERGE:
    case DPT_OP_BATCH_NORM_FREEZE:
    case DPT_OP_BATCH_NORM_FORWARD:
    case DPT_OP_BATCH_NORM_BACKWARD_PARTIAL:
    case DPT_OP_BATCH_NORM_BACKWARD_DATA:
    case DPT_OP_LAYER_NORM_FORWARD:
    case DPT_OP_LAYER_NORM_BACKWARD_DATA:
    case DPT_OP_LAYER_NORM_BACKWARD_WEIGHTS: run_norm(desc, n, args); break;
    case DPT_OP_ROW_SOFTMAX_FORWARD: reference_row_softmax(&desc->u.row_softmax, n, args); break;
    case DPT_OP_ROW_SOFTMAX_BACKWARD:
        reference_row_softmax_backward(&desc->u.row_softmax, n, args);
        break;
    case DPT_OP_TAKE_FORWARD: reference_take(&desc->u.take, n, args); break;
    case DPT_OP_TAKE_BACKWARD: reference_take_backward(&desc->u.take, n, args); break;
    case DPT_OP_SOFTMAX_XENT: softmax(&desc->u.softmax, n, false, args); break;
    case DPT_OP_SOFTMAX_XENT_GRADIENT: softmax(&desc->u.softmax, n, true, args); break;
    case DPT_OP_DROPOUT: reference_dropout(&desc->u.dropout, n, args); break;
    case DPT_OP_SQUARED_ERROR: squared_error(desc->u.squared_error.count, n, false, args); break;
    case DPT_OP_SQUARED_ERROR_GRADIENT:
        squared_error(desc->u.squared_error.count, n, true, args);
        break;
    case DPT_OP_ADAMW: adamw(&desc->u.adamw, args); break;
    case DPT_OP_CLIP_NORM: clip_norm(&desc->u.clip_norm, args); break;
#define ELEMENTWISE(KIND, ...) case DPT_OP_##KIND:
        DPT_ELEMENTWISE_LIST(ELEMENTWISE)
#undef ELEMENTWISE
        reference_elementwise(desc, n, args);
        break;
    case DPT_OP_MAP:
    case DPT_OP_MAP_REDUCE: reference_map(desc, n, args); break;
    case DPT_OP_MATMUL: reference_matmul(&desc->u.matmul, n, args); break;
    case DPT_OP_RECURRENT_FORWARD:
    case DPT_OP_RECURRENT_BACKWARD: reference_recurrent(desc, n, args); break;
    case DPT_OP_ATTENTION_FORWARD:
    case DPT_OP_ATTENTION_BACKWARD: reference_attention(desc, n, args); break;
    case DPT_OP_SGD: sgd(&desc->u.sgd, args); break;
    case DPT_OP_CHECK_FINITE: check_finite(&desc->u.check_finite, n, args); break;
    case DPT_OP_COUNT: break;
    }
}
