/* The table of operators in backend.h as code: for every kind, is its description sound, and which
   tensors does it take?  One function per family, one table that finds it. */
#include "device/signature.h"

#include "base/size.h"

#include <math.h>
#include <stdlib.h>

typedef dpt_status describe_fn(const dpt_op_desc *desc, dpti_signature *out, dpt_error *error);

/* ---- Slots ----------------------------------------------------------------------------------- */

static void add_in(dpti_signature *signature, dpti_slot slot)
{
    signature->in[signature->n_in++] = slot;
}

static void add_out(dpti_signature *signature, dpti_slot slot)
{
    signature->out[signature->n_out++] = slot;
}

/* `elements` a sample. */
static dpti_slot sampled(const char *name, dpt_dtype dtype, size_t elements)
{
    return (dpti_slot){.name = name, .dtype = dtype, .per_sample = elements};
}

/* `elements` of an activation or its gradient, a sample. */
static dpti_slot activations(const char *name, const dpt_op_desc *desc, size_t elements)
{
    return sampled(name, desc->type, elements);
}

/* `elements` in all. */
static dpti_slot whole(const char *name, dpt_dtype dtype, size_t elements)
{
    return (dpti_slot){.name = name, .dtype = dtype, .fixed = elements};
}

/* An output that is added to when the call accumulates. */
static dpti_slot summed(dpti_slot slot)
{
    slot.accumulates = true;
    return slot;
}

/* The output of a backward-data operator, and the forward input behind a mask. */
static void add_gradient(const dpt_op_desc *desc, dpti_signature *out, size_t elements, bool mask)
{
    if (mask) add_in(out, activations("x", desc, elements));
    add_out(out, summed(activations("dx", desc, elements)));
}

/* ---- Checks ---------------------------------------------------------------------------------- */

/* The product of n extents, each at least 1, as a number of 4-byte elements that memory can hold.
 */
static dpt_status extent(const size_t *extents, size_t n, size_t *out, dpt_error *error)
{
    size_t product = 1;
    for (size_t i = 0; i < n; i++) {
        if (extents[i] == 0) return DPT_FAIL(error, DPT_E_INVALID, "an extent is zero");
        if (!dpti_multiply(product, extents[i], &product) || product > PTRDIFF_MAX / 4)
            return DPT_FAIL(error, DPT_E_INVALID, "a tensor is larger than any memory");
    }
    *out = product;
    return DPT_OK;
}
#define EXTENT(out, error, ...)                                                                    \
    extent((const size_t[]){__VA_ARGS__}, sizeof((size_t[]){__VA_ARGS__}) / sizeof(size_t), (out), \
           (error))

static dpt_status check_activation(dpt_activation kind, dpt_error *error)
{
    if (kind < DPT_ACT_NONE || kind > DPT_ACT_GELU)
        return DPT_FAIL(error, DPT_E_INVALID, "there is no activation %d", (int)kind);
    return DPT_OK;
}

/* For activations inside another operator: those whose derivative the output tells. */
static dpt_status check_fused(dpt_activation kind, dpt_error *error)
{
    DPT_TRY(check_activation(kind, error));
    if (kind == DPT_ACT_GELU)
        return DPT_FAIL(error, DPT_E_INVALID, "GELU is an operator of its own");
    return DPT_OK;
}

/* A number from min on, below max. */
static dpt_status check_number(const char *name, float value, float min, float max,
                               dpt_error *error)
{
    if (value >= min && value < max) return DPT_OK;
    return DPT_FAIL(error, DPT_E_INVALID, "%s of %g is not in [%g, %g)", name, (double)value,
                    (double)min, (double)max);
}

/* One axis of a sliding window. */
typedef struct window {
    const char *axis;
    size_t in, out, kernel, stride, pad, dilation;
} window;

/* out = (in + 2 pad - dilation (kernel - 1) - 1) / stride + 1 */
static dpt_status check_window(const window *w, dpt_error *error)
{
    size_t padded, reach;
    if (w->kernel == 0 || w->stride == 0 || w->dilation == 0)
        return DPT_FAIL(error, DPT_E_INVALID, "%s: kernel, stride and dilation are at least 1",
                        w->axis);
    if (!dpti_multiply(w->pad, 2, &padded) || !dpti_add(padded, w->in, &padded) ||
        !dpti_multiply(w->dilation, w->kernel - 1, &reach) || !dpti_add(reach, 1, &reach))
        return DPT_FAIL(error, DPT_E_INVALID, "%s: padding or kernel is too large", w->axis);
    if (reach > padded)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "%s: a kernel that reaches over %zu does not fit the padded input of %zu",
                        w->axis, reach, padded);
    const size_t expected = (padded - reach) / w->stride + 1;
    if (w->out != expected)
        return DPT_FAIL(error, DPT_E_INVALID, "%s: the output is %zu, not %zu", w->axis, expected,
                        w->out);
    return DPT_OK;
}

/* ---- Families -------------------------------------------------------------------------------- */

static dpt_status gather_statistics(const dpt_gather_desc *d, dpt_error *error)
{
    if (d->channels < 1 || d->channels > DPT_MAX_CHANNEL_STATS || d->count % d->channels != 0)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "%zu channels: 1 to %d, and a divisor of the %zu elements", d->channels,
                        DPT_MAX_CHANNEL_STATS, d->count);
    for (size_t i = 0; i < d->channels; i++)
        if (!isfinite(d->mean[i]) || !isfinite(d->scale[i]))
            return DPT_FAIL(error, DPT_E_INVALID, "the mean or scale of channel %zu is not finite",
                            i);
    return DPT_OK;
}

static dpt_status check_augment(const dpt_gather_desc *d, bool labels, dpt_error *error)
{
    const dpt_augment *a = &d->augment;
    size_t area;
    if (!dpt_augments(a)) return DPT_OK;
    if (labels) return DPT_FAIL(error, DPT_E_INVALID, "labels cannot be augmented");
    DPT_TRY(EXTENT(&area, error, a->height, a->width));
    if (d->count % area != 0)
        return DPT_FAIL(error, DPT_E_INVALID, "%zu elements are no image of %zux%zu", d->count,
                        a->height, a->width);
    if (a->pad > a->height || a->pad > a->width)
        return DPT_FAIL(error, DPT_E_INVALID, "a crop with %zu pixels of padding from %zux%zu",
                        a->pad, a->height, a->width);
    return check_number("an erasing probability", a->erase, 0.0f, 1.5f, error);
}

static dpt_status gather(const dpt_op_desc *desc, dpti_signature *out, dpt_error *error)
{
    const dpt_gather_desc *d = &desc->u.gather;
    const bool labels = desc->kind == DPT_OP_GATHER_LABELS;
    const dpt_dtype wide = labels ? DPT_I32 : DPT_F32;
    size_t elements;
    DPT_TRY(EXTENT(&elements, error, d->n_records, d->count));
    if (d->dtype != DPT_U8 && d->dtype != wide)
        return DPT_FAIL(error, DPT_E_INVALID, "data of element type %d", (int)d->dtype);
    if (d->n_records > UINT32_MAX)
        return DPT_FAIL(error, DPT_E_INVALID, "%zu records: an index has 32 bits", d->n_records);
    if (labels && d->count != 1)
        return DPT_FAIL(error, DPT_E_INVALID, "%zu labels a sample, not 1", d->count);
    if (!labels) DPT_TRY(gather_statistics(d, error));
    DPT_TRY(check_augment(d, labels, error));
    add_in(out, whole(labels ? "labels" : "data", d->dtype, elements));
    add_in(out, sampled("index", DPT_U32, 1));
    if (dpt_augments(&d->augment)) {
        add_in(out, sampled("sample", DPT_U32, 1));
        out->reads_step = true; /* seed and epoch */
    }
    add_out(out, labels ? sampled("label", DPT_I32, 1) : activations("x", desc, d->count));
    return DPT_OK;
}

static dpt_status check_conv2d(const dpt_conv2d_desc *d, dpt_error *error)
{
    const window height = {
        .axis = "height",
        .in = d->in_h,
        .out = d->out_h,
        .kernel = d->kernel_h,
        .stride = d->stride_h,
        .pad = d->pad_h,
        .dilation = d->dilation_h,
    };
    const window width = {
        .axis = "width",
        .in = d->in_w,
        .out = d->out_w,
        .kernel = d->kernel_w,
        .stride = d->stride_w,
        .pad = d->pad_w,
        .dilation = d->dilation_w,
    };
    DPT_TRY(check_fused(d->activation, error));
    DPT_TRY(check_fused(d->input_activation, error));
    DPT_TRY(check_window(&height, error));
    DPT_TRY(check_window(&width, error));
    if (d->groups == 0 || d->in_channels % d->groups != 0 || d->out_channels % d->groups != 0)
        return DPT_FAIL(error, DPT_E_INVALID, "%zu groups do not divide %zu and %zu channels",
                        d->groups, d->in_channels, d->out_channels);
    return DPT_OK;
}

static dpt_status conv2d(const dpt_op_desc *desc, dpti_signature *out, dpt_error *error)
{
    const dpt_conv2d_desc *d = &desc->u.conv2d;
    size_t x = 0, y = 0, w = 0;
    DPT_TRY(EXTENT(&x, error, d->in_h, d->in_w, d->in_channels));
    DPT_TRY(EXTENT(&y, error, d->out_h, d->out_w, d->out_channels));
    DPT_TRY(check_conv2d(d, error));
    DPT_TRY(
        EXTENT(&w, error, d->out_channels, d->kernel_h, d->kernel_w, d->in_channels / d->groups));
    if (desc->kind == DPT_OP_CONV2D_FORWARD) {
        add_in(out, activations("x", desc, x));
        add_in(out, whole("w", DPT_F32, w));
        if (d->has_bias) add_in(out, whole("bias", DPT_F32, d->out_channels));
        add_out(out, activations("y", desc, y));
        return DPT_OK;
    }
    add_in(out, activations("dy", desc, y));
    if (desc->kind == DPT_OP_CONV2D_BACKWARD_DATA) {
        add_in(out, whole("w", DPT_F32, w));
        add_gradient(desc, out, x, d->input_activation != DPT_ACT_NONE);
        return DPT_OK;
    }
    add_in(out, activations("x", desc, x));
    add_out(out, summed(whole("dw", DPT_F32, w)));
    if (d->has_bias) add_out(out, summed(whole("dbias", DPT_F32, d->out_channels)));
    return DPT_OK;
}

static dpt_status check_slice(const dpt_op_desc *desc, dpt_error *error)
{
    const dpt_linear_desc *d = &desc->u.linear;
    if (d->rows == 0 && d->first == 0) return DPT_OK;
    if (desc->kind != DPT_OP_LINEAR_BACKWARD_WEIGHTS)
        return DPT_FAIL(error, DPT_E_INVALID, "a slice of what is not a gradient of weights");
    if (d->rows == 0 || d->rows > d->out || d->first > d->out - d->rows)
        return DPT_FAIL(error, DPT_E_INVALID, "%zu rows from row %zu on are no slice of %zu",
                        d->rows, d->first, d->out);
    return DPT_OK;
}

static dpt_status linear(const dpt_op_desc *desc, dpti_signature *out, dpt_error *error)
{
    const dpt_linear_desc *d = &desc->u.linear;
    size_t w;
    DPT_TRY(EXTENT(&w, error, d->out, d->in));
    DPT_TRY(check_fused(d->activation, error));
    DPT_TRY(check_fused(d->input_activation, error));
    DPT_TRY(check_slice(desc, error));
    if (desc->kind == DPT_OP_LINEAR_FORWARD) {
        add_in(out, activations("x", desc, d->in));
        add_in(out, whole("w", DPT_F32, w));
        if (d->has_bias) add_in(out, whole("bias", DPT_F32, d->out));
        add_out(out, activations("y", desc, d->out));
        return DPT_OK;
    }
    add_in(out, activations("dy", desc, d->out));
    if (desc->kind == DPT_OP_LINEAR_BACKWARD_DATA) {
        add_in(out, whole("w", DPT_F32, w));
        add_gradient(desc, out, d->in, d->input_activation != DPT_ACT_NONE);
        return DPT_OK;
    }
    const size_t rows = dpt_linear_rows(d);
    add_in(out, activations("x", desc, d->in));
    add_out(out, summed(whole("dw", DPT_F32, rows * d->in)));
    if (d->has_bias) add_out(out, summed(whole("dbias", DPT_F32, rows)));
    return DPT_OK;
}

static dpt_status check_pool2d(const dpt_pool2d_desc *d, dpt_error *error)
{
    const window height = {
        .axis = "height",
        .in = d->in_h,
        .out = d->out_h,
        .kernel = d->kernel_h,
        .stride = d->stride_h,
        .pad = d->pad_h,
        .dilation = 1,
    };
    const window width = {
        .axis = "width",
        .in = d->in_w,
        .out = d->out_w,
        .kernel = d->kernel_w,
        .stride = d->stride_w,
        .pad = d->pad_w,
        .dilation = 1,
    };
    if (d->kind != DPT_POOL_MAX && d->kind != DPT_POOL_AVERAGE)
        return DPT_FAIL(error, DPT_E_INVALID, "there is no pooling %d", (int)d->kind);
    DPT_TRY(check_fused(d->input_activation, error));
    DPT_TRY(check_window(&height, error));
    DPT_TRY(check_window(&width, error));
    /* A window of nothing but padding has no maximum. */
    if (d->pad_h >= d->kernel_h || d->pad_w >= d->kernel_w)
        return DPT_FAIL(error, DPT_E_INVALID, "padding %zux%zu is not less than the kernel %zux%zu",
                        d->pad_h, d->pad_w, d->kernel_h, d->kernel_w);
    return DPT_OK;
}

static dpt_status pool2d(const dpt_op_desc *desc, dpti_signature *out, dpt_error *error)
{
    const dpt_pool2d_desc *d = &desc->u.pool2d;
    size_t x, y;
    DPT_TRY(EXTENT(&x, error, d->in_h, d->in_w, d->channels));
    DPT_TRY(EXTENT(&y, error, d->out_h, d->out_w, d->channels));
    DPT_TRY(check_pool2d(d, error));
    if (desc->kind == DPT_OP_POOL2D_FORWARD) {
        add_in(out, activations("x", desc, x));
        add_out(out, activations("y", desc, y));
        return DPT_OK;
    }
    add_in(out, activations("dy", desc, y));
    add_gradient(desc, out, x, true); /* x also tells where the maxima are */
    return DPT_OK;
}

static dpt_status activation(const dpt_op_desc *desc, dpti_signature *out, dpt_error *error)
{
    const dpt_activation_desc *d = &desc->u.activation;
    size_t count;
    DPT_TRY(EXTENT(&count, error, d->count));
    DPT_TRY(check_activation(d->kind, error));
    if (desc->kind == DPT_OP_ACTIVATION_FORWARD) {
        add_in(out, activations("x", desc, count));
        add_out(out, activations("y", desc, count));
        return DPT_OK;
    }
    add_in(out, activations("dy", desc, count));
    add_in(out, activations(d->kind == DPT_ACT_GELU ? "x" : "y", desc, count));
    add_gradient(desc, out, count, false);
    return DPT_OK;
}

static dpt_status dropout(const dpt_op_desc *desc, dpti_signature *out, dpt_error *error)
{
    const dpt_dropout_desc *d = &desc->u.dropout;
    size_t count;
    DPT_TRY(EXTENT(&count, error, d->count));
    DPT_TRY(check_number("a dropout probability", d->p, 0.0f, 1.0f, error));
    if (d->stream == 0)
        return DPT_FAIL(error, DPT_E_INVALID, "stream 0 of random numbers is for augmentation");
    add_in(out, activations("x", desc, count));
    add_in(out, sampled("sample", DPT_U32, 1));
    add_out(out, summed(activations("y", desc, count)));
    out->reads_step = true; /* seed and epoch */
    return DPT_OK;
}

static dpt_status batch_norm_forward(const dpt_op_desc *desc, size_t elements, dpti_signature *out)
{
    const dpt_batch_norm_desc *d = &desc->u.batch_norm;
    add_in(out, activations("x", desc, elements));
    add_in(out, whole("moments", DPT_F32, 3 * d->channels));
    add_in(out, whole("w", DPT_F32, d->channels));
    add_in(out, whole("b", DPT_F32, d->channels));
    if (d->has_residual) add_in(out, activations("residual", desc, elements));
    add_out(out, activations("y", desc, elements));
    return DPT_OK;
}

static dpt_status batch_norm_backward(const dpt_op_desc *desc, size_t elements, size_t parts,
                                      dpti_signature *out)
{
    const dpt_batch_norm_desc *d = &desc->u.batch_norm;
    const size_t c = d->channels;
    add_in(out, activations("dy", desc, elements));
    add_in(out, activations("x", desc, elements));
    add_in(out, whole("moments", DPT_F32, 3 * c));
    const bool masks = d->output_activation != DPT_ACT_NONE;
    if (desc->kind == DPT_OP_BATCH_NORM_BACKWARD_PARTIAL) {
        if (masks) add_in(out, whole("w", DPT_F32, c));
        if (masks) add_in(out, whole("b", DPT_F32, c));
        add_out(out, whole("part", DPT_F32, 2 * c));
        add_out(out, summed(whole("dw", DPT_F32, c)));
        add_out(out, summed(whole("db", DPT_F32, c)));
        return DPT_OK;
    }
    add_in(out, whole("w", DPT_F32, c));
    add_in(out, whole("parts", DPT_F32, 2 * parts));
    if (masks) add_in(out, whole("b", DPT_F32, c));
    add_gradient(desc, out, elements, false); /* x is there already */
    return DPT_OK;
}

static dpt_status batch_norm(const dpt_op_desc *desc, dpti_signature *out, dpt_error *error)
{
    const dpt_batch_norm_desc *d = &desc->u.batch_norm;
    const size_t c = d->channels;
    size_t elements, parts;
    DPT_TRY(EXTENT(&elements, error, d->area, c));
    DPT_TRY(EXTENT(&parts, error, d->n_parts, c, 3));
    parts /= 3;
    DPT_TRY(check_fused(d->activation, error));
    DPT_TRY(check_fused(d->input_activation, error));
    if (d->output_activation != DPT_ACT_NONE && d->output_activation != DPT_ACT_RELU)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "a batch-norm applies no other derivative than ReLU's");
    DPT_TRY(check_number("an epsilon", d->epsilon, 0x1p-100f, 1.0f, error));
    switch (desc->kind) {
    case DPT_OP_BATCH_NORM_PARTIAL:
        add_in(out, activations("x", desc, elements));
        add_out(out, whole("part", DPT_F32, 3 * c));
        return DPT_OK;
    case DPT_OP_BATCH_NORM_MERGE:
        add_in(out, whole("parts", DPT_F32, 3 * parts));
        add_out(out, whole("moments", DPT_F32, 3 * c));
        add_out(out, summed(whole("mean", DPT_F32, c)));
        add_out(out, summed(whole("variance", DPT_F32, c)));
        out->reads_step = true; /* inv_batch */
        return DPT_OK;
    case DPT_OP_BATCH_NORM_FREEZE:
        add_in(out, whole("mean", DPT_F32, c));
        add_in(out, whole("variance", DPT_F32, c));
        add_out(out, whole("moments", DPT_F32, 3 * c));
        out->per_step = true;
        return DPT_OK;
    case DPT_OP_BATCH_NORM_FORWARD: return batch_norm_forward(desc, elements, out);
    default: return batch_norm_backward(desc, elements, parts, out);
    }
}

static dpt_status layer_norm(const dpt_op_desc *desc, dpti_signature *out, dpt_error *error)
{
    const dpt_layer_norm_desc *d = &desc->u.layer_norm;
    const size_t c = d->channels;
    size_t elements, moments;
    DPT_TRY(EXTENT(&elements, error, d->rows, c));
    DPT_TRY(EXTENT(&moments, error, d->rows, 2));
    DPT_TRY(check_fused(d->input_activation, error));
    DPT_TRY(check_number("an epsilon", d->epsilon, 0x1p-100f, 1.0f, error));
    if (desc->kind == DPT_OP_LAYER_NORM_FORWARD) {
        add_in(out, activations("x", desc, elements));
        add_in(out, whole("w", DPT_F32, c));
        add_in(out, whole("b", DPT_F32, c));
        add_out(out, activations("y", desc, elements));
        add_out(out, sampled("moments", DPT_F32, moments));
        return DPT_OK;
    }
    add_in(out, activations("dy", desc, elements));
    add_in(out, activations("x", desc, elements));
    add_in(out, sampled("moments", DPT_F32, moments));
    if (desc->kind == DPT_OP_LAYER_NORM_BACKWARD_DATA) {
        add_in(out, whole("w", DPT_F32, c));
        add_gradient(desc, out, elements, false); /* x is there already */
        return DPT_OK;
    }
    add_out(out, summed(whole("dw", DPT_F32, c)));
    add_out(out, summed(whole("db", DPT_F32, c)));
    return DPT_OK;
}

static dpt_status softmax(const dpt_op_desc *desc, dpti_signature *out, dpt_error *error)
{
    size_t classes;
    DPT_TRY(EXTENT(&classes, error, desc->u.softmax.classes));
    if (classes > INT32_MAX)
        return DPT_FAIL(error, DPT_E_INVALID, "%zu classes: a label has 32 bits", classes);
    DPT_TRY(check_number("a label smoothing", desc->u.softmax.smoothing, 0.0f, 1.0f, error));
    add_in(out, activations("logits", desc, classes));
    add_in(out, sampled("label", DPT_I32, 1));
    add_out(out, sampled("result", DPT_F32, 2));
    if (desc->kind == DPT_OP_SOFTMAX_XENT_GRADIENT) {
        add_out(out, activations("dlogits", desc, classes));
        out->reads_step = true; /* inv_batch */
    }
    return DPT_OK;
}

static dpt_status squared_error(const dpt_op_desc *desc, dpti_signature *out, dpt_error *error)
{
    size_t count;
    DPT_TRY(EXTENT(&count, error, desc->u.squared_error.count));
    add_in(out, activations("y", desc, count));
    add_in(out, sampled("target", DPT_F32, count));
    add_out(out, sampled("result", DPT_F32, 2));
    if (desc->kind == DPT_OP_SQUARED_ERROR_GRADIENT) {
        add_out(out, activations("dy", desc, count));
        out->reads_step = true; /* inv_batch */
    }
    return DPT_OK;
}

static dpt_status elementwise(const dpt_op_desc *desc, dpti_signature *out, dpt_error *error)
{
    size_t count;
    DPT_TRY(EXTENT(&count, error, desc->u.elementwise.count));
    add_in(out, activations("a", desc, count));
    if (desc->kind != DPT_OP_AFFINE) add_in(out, activations("b", desc, count));
    add_out(out, activations("c", desc, count));
    out->may_halt = desc->kind == DPT_OP_ADD;
    return DPT_OK;
}

static dpt_status check_decay(float weight_decay, size_t decay_count, size_t count,
                              dpt_error *error)
{
    if (decay_count > count)
        return DPT_FAIL(error, DPT_E_INVALID, "weight decay for %zu of %zu parameters", decay_count,
                        count);
    return check_number("a weight decay", weight_decay, 0.0f, INFINITY, error);
}

static dpt_status sgd(const dpt_op_desc *desc, dpti_signature *out, dpt_error *error)
{
    const dpt_sgd_desc *d = &desc->u.sgd;
    size_t count;
    DPT_TRY(EXTENT(&count, error, d->count));
    DPT_TRY(check_decay(d->weight_decay, d->decay_count, d->count, error));
    DPT_TRY(check_number("a momentum", d->momentum, 0.0f, INFINITY, error));
    add_in(out, whole("gradient", DPT_F32, count));
    add_out(out, whole("w", DPT_F32, count));
    if (d->momentum > 0.0f) add_out(out, whole("velocity", DPT_F32, count));
    out->reads_step = true; /* lr */
    out->per_step = out->may_halt = true;
    return DPT_OK;
}

static dpt_status adamw(const dpt_op_desc *desc, dpti_signature *out, dpt_error *error)
{
    const dpt_adamw_desc *d = &desc->u.adamw;
    size_t count;
    DPT_TRY(EXTENT(&count, error, d->count));
    DPT_TRY(check_decay(d->weight_decay, d->decay_count, d->count, error));
    DPT_TRY(check_number("beta1", d->beta1, 0.0f, 1.0f, error));
    DPT_TRY(check_number("beta2", d->beta2, 0.0f, 1.0f, error));
    DPT_TRY(check_number("an epsilon", d->epsilon, 0x1p-100f, 1.0f, error));
    add_in(out, whole("gradient", DPT_F32, count));
    add_out(out, whole("w", DPT_F32, count));
    add_out(out, whole("m", DPT_F32, count));
    add_out(out, whole("v", DPT_F32, count));
    out->reads_step = true; /* lr and Adam's scales */
    out->per_step = out->may_halt = true;
    return DPT_OK;
}

static dpt_status clip_norm(const dpt_op_desc *desc, dpti_signature *out, dpt_error *error)
{
    const dpt_clip_norm_desc *d = &desc->u.clip_norm;
    size_t count;
    DPT_TRY(EXTENT(&count, error, d->count));
    DPT_TRY(check_number("a largest norm", d->max_norm, 0x1p-100f, INFINITY, error));
    add_out(out, whole("gradient", DPT_F32, count));
    out->per_step = true;
    return DPT_OK;
}

static dpt_status check_finite(const dpt_op_desc *desc, dpti_signature *out, dpt_error *error)
{
    size_t count;
    DPT_TRY(EXTENT(&count, error, desc->u.check_finite.count));
    add_in(out, sampled("x", DPT_F32, count));
    add_out(out, whole("halt", DPT_F32, 1));
    return DPT_OK;
}

/* ---- The table ------------------------------------------------------------------------------- */

typedef struct op_family {
    const char *name;
    describe_fn *describe;
} op_family;

static const op_family families[DPT_OP_COUNT] = {
#define OP_FAMILY(kind, member) [DPT_OP_##kind] = {#kind, member},
    DPT_OP_LIST(OP_FAMILY)
#undef OP_FAMILY
};

static bool known(dpt_op_kind kind)
{
    return (unsigned)kind < DPT_OP_COUNT;
}

const char *dpti_op_name(dpt_op_kind kind)
{
    return known(kind) ? families[kind].name : "unknown operator";
}

dpt_status dpti_op_signature(const dpt_op_desc *desc, dpti_signature *out, dpt_error *error)
{
    if (!known(desc->kind))
        return DPT_FAIL(error, DPT_E_INVALID, "unknown operator %d", (int)desc->kind);
    if (desc->type != DPT_F32 && desc->type != DPT_BF16)
        return DPT_FAIL(error, DPT_E_INVALID, "%s: activations of element type %d",
                        families[desc->kind].name, (int)desc->type);
    dpti_signature signature = {.n_in = 0};
    dpt_error reason = {.status = DPT_OK};
    const dpt_status status = families[desc->kind].describe(desc, &signature, &reason);
    if (status != DPT_OK)
        return DPT_FAIL(error, status, "%s: %.480s", families[desc->kind].name, reason.message);
    for (size_t i = 0; i < signature.n_out; i++)
        signature.may_accumulate = signature.may_accumulate || signature.out[i].accumulates;
    *out = signature;
    return DPT_OK;
}
