/* Is the description of an operator sound, and which tensors does the operator take?  The slots of
   every kind stand in DPT_OP_LIST (backend/op_list.h).  One function for each family checks the
   description and finds the sizes and conditions that the list names. */
#include "device/signature.h"

#include "base/size.h"
#include "device/map_signature.h"
#include "device/matmul_signature.h"
#include "device/recurrent_signature.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>

/* ---- Slots ----------------------------------------------------------------------------------- */

/* The sizes, in elements, and the conditions that the slots of DPT_OP_LIST name.  A family fills in
   those that its kinds use. */
typedef struct op_shape {
    size_t one, two, data, x, y, w, bias, dw, dbias, moments, parts, sums, all_sums;
    size_t w_new, state, gates, cells, q, k, lse;
    bool always, has_bias, has_residual, mask, output_mask, augmented, from_input, from_output,
        has_velocity;
    bool resets_before, resets_behind, has_initial, has_initial_cell, saves_gates, saves_cells,
        reads_output, reads_initial;
    bool is_packed, is_apart, saves_lse;
} op_shape;

typedef enum slot_type { TYPE_F32, TYPE_I32, TYPE_U32, TYPE_T, TYPE_DATA } slot_type;
typedef enum slot_axis { AXIS_N, AXIS_ALL } slot_axis;

/* One slot of DPT_OP_LIST. */
typedef struct slot_row {
    const char *name; /* NULL ends the rows of a kind */
    dpti_slot_role role;
    bool accumulates, per_grain;
    slot_type type;
    slot_axis axis;
    size_t size, condition; /* offsets in op_shape */
} slot_row;

#define SLOT(role_, sums_, rows_, condition_, name_, type_, axis_, size_)                          \
    {.name = #name_,                                                                               \
     .role = DPTI_SLOT_##role_,                                                                    \
     .accumulates = sums_,                                                                         \
     .per_grain = rows_,                                                                           \
     .type = TYPE_##type_,                                                                         \
     .axis = AXIS_##axis_,                                                                         \
     .size = offsetof(op_shape, size_),                                                            \
     .condition = offsetof(op_shape, condition_)},
#define DPT_IN(...)     SLOT(IN, false, false, always, __VA_ARGS__)
#define DPT_OUT(...)    SLOT(OUT, false, false, always, __VA_ARGS__)
#define DPT_SUM(...)    SLOT(OUT, true, false, always, __VA_ARGS__)
#define DPT_PART(...)   SLOT(OUT, false, true, always, __VA_ARGS__)
#define DPT_IN_IF(...)  SLOT(IN, false, false, __VA_ARGS__)
#define DPT_OUT_IF(...) SLOT(OUT, false, false, __VA_ARGS__)
#define DPT_SUM_IF(...) SLOT(OUT, true, false, __VA_ARGS__)

#define SLOT_ROWS(kind, name_, family, in_place, marks, slots)                                     \
    static const slot_row name_##_slots[] = {slots{.name = NULL}};
DPT_OP_LIST(SLOT_ROWS)
#undef SLOT_ROWS

static const slot_row *const slot_rows[DPT_OP_COUNT] = {
#define SLOTS_OF(kind, name, ...) [DPT_OP_##kind] = name##_slots,
    DPT_OP_LIST(SLOTS_OF)
#undef SLOTS_OF
};

static dpt_dtype type_of(slot_type type, const dpt_op_desc *desc)
{
    switch (type) {
    case TYPE_I32: return DPT_I32;
    case TYPE_U32: return DPT_U32;
    case TYPE_T: return desc->type;
    case TYPE_DATA: return desc->u.gather.dtype;
    default: return DPT_F32;
    }
}

static void add_slot(const slot_row *row, const dpt_op_desc *desc, const op_shape *shape,
                     dpti_signature *out)
{
    const size_t elements = *(const size_t *)((const char *)shape + row->size);
    const dpti_slot slot = {
        .name = row->name,
        .dtype = type_of(row->type, desc),
        .per_sample = row->axis == AXIS_N ? elements : 0,
        .fixed = row->axis == AXIS_ALL ? elements : 0,
        .accumulates = row->accumulates,
        .per_grain = row->per_grain,
    };
    if (!*(const bool *)((const char *)shape + row->condition)) return;
    if (row->role == DPTI_SLOT_IN)
        out->in[out->n_in++] = slot;
    else
        out->out[out->n_out++] = slot;
    out->may_accumulate = out->may_accumulate || slot.accumulates;
}

/* ---- Checks ---------------------------------------------------------------------------------- */

/* *out is the product of n extents.  DPT_E_INVALID if an extent is 0, or if so many elements of 4
   bytes fit in no memory. */
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
    if (!dpt_activation_name(kind))
        return DPT_FAIL(error, DPT_E_INVALID, "there is no activation %d", (int)kind);
    return DPT_OK;
}

/* For activations inside another operator: their derivative must be a function of their output. */
static dpt_status check_fused(dpt_activation kind, dpt_error *error)
{
    DPT_TRY(check_activation(kind, error));
    if (!dpt_activation_fuses(kind))
        return DPT_FAIL(error, DPT_E_INVALID, "%s is an operator of its own",
                        dpt_activation_name(kind));
    return DPT_OK;
}

/* The numbers from `min` on, below `max`. */
typedef struct limits {
    float min, max;
} limits;

/* DPT_E_INVALID unless the value is within the limits. */
static dpt_status check_number(const char *name, float value, limits of, dpt_error *error)
{
    if (value >= of.min && value < of.max) return DPT_OK;
    return DPT_FAIL(error, DPT_E_INVALID, "%s of %g is not in [%g, %g)", name, (double)value,
                    (double)of.min, (double)of.max);
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

static dpt_status check_distortion(const dpt_gather_desc *d, size_t channels, dpt_error *error)
{
    const dpt_augment *a = &d->augment;
    DPT_TRY(check_number("an angle", a->rotate, (limits){0.0f, 180.5f}, error));
    DPT_TRY(check_number("a jitter of brightness", a->brightness, (limits){0.0f, 1.01f}, error));
    DPT_TRY(check_number("a jitter of contrast", a->contrast, (limits){0.0f, 1.01f}, error));
    DPT_TRY(check_number("a jitter of saturation", a->saturation, (limits){0.0f, 1.01f}, error));
    DPT_TRY(check_number("a jitter of hue", a->hue, (limits){0.0f, 0.51f}, error));
    if (a->ops > 6 || a->magnitude > 30)
        return DPT_FAIL(error, DPT_E_INVALID, "%zu operations of magnitude %zu: at most 6, and 30",
                        a->ops, a->magnitude);
    if ((dpt_jitters(a) || a->ops > 0) && (d->dtype != DPT_U8 || (channels != 1 && channels != 3)))
        return DPT_FAIL(error, DPT_E_INVALID,
                        "colours change in bytes of 1 or 3 channels only; these have %zu",
                        channels);
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
    DPT_TRY(check_number("an erasing probability", a->erase, (limits){0.0f, 1.5f}, error));
    return check_distortion(d, d->count / area, error);
}

static dpt_status gather(const dpt_op_desc *desc, op_shape *out, dpt_error *error)
{
    const dpt_gather_desc *d = &desc->u.gather;
    const bool labels = desc->kind == DPT_OP_GATHER_LABELS;
    const dpt_dtype wide = labels ? DPT_I32 : DPT_F32;
    DPT_TRY(EXTENT(&out->data, error, d->n_records, d->count));
    if (d->dtype != DPT_U8 && d->dtype != wide)
        return DPT_FAIL(error, DPT_E_INVALID, "data of element type %d", (int)d->dtype);
    if (d->n_records > UINT32_MAX)
        return DPT_FAIL(error, DPT_E_INVALID, "%zu records: an index has 32 bits", d->n_records);
    if (!labels) DPT_TRY(gather_statistics(d, error));
    DPT_TRY(check_augment(d, labels, error));
    out->x = d->count;
    out->augmented = dpt_augments(&d->augment);
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

static dpt_status conv2d(const dpt_op_desc *desc, op_shape *out, dpt_error *error)
{
    const dpt_conv2d_desc *d = &desc->u.conv2d;
    DPT_TRY(EXTENT(&out->x, error, d->in_h, d->in_w, d->in_channels));
    DPT_TRY(EXTENT(&out->y, error, d->out_h, d->out_w, d->out_channels));
    DPT_TRY(check_conv2d(d, error));
    DPT_TRY(EXTENT(&out->w, error, d->out_channels, d->kernel_h, d->kernel_w,
                   d->in_channels / d->groups));
    out->dw = out->w;
    out->bias = out->dbias = d->out_channels;
    out->has_bias = d->has_bias;
    out->mask = d->input_activation != DPT_ACT_NONE;
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

static dpt_status linear(const dpt_op_desc *desc, op_shape *out, dpt_error *error)
{
    const dpt_linear_desc *d = &desc->u.linear;
    const size_t rows = dpt_linear_rows(d);
    DPT_TRY(EXTENT(&out->w, error, d->out, d->in));
    DPT_TRY(check_fused(d->activation, error));
    DPT_TRY(check_fused(d->input_activation, error));
    DPT_TRY(check_slice(desc, error));
    out->x = d->in;
    out->y = out->bias = d->out;
    out->dw = rows * d->in;
    out->dbias = rows;
    out->has_bias = d->has_bias;
    out->mask = d->input_activation != DPT_ACT_NONE;
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

static dpt_status pool2d(const dpt_op_desc *desc, op_shape *out, dpt_error *error)
{
    const dpt_pool2d_desc *d = &desc->u.pool2d;
    DPT_TRY(EXTENT(&out->x, error, d->in_h, d->in_w, d->channels));
    DPT_TRY(EXTENT(&out->y, error, d->out_h, d->out_w, d->channels));
    return check_pool2d(d, error);
}

/* `count` elements a sample, in and out. */
static dpt_status counted(size_t count, op_shape *out, dpt_error *error)
{
    DPT_TRY(EXTENT(&out->x, error, count));
    out->y = count;
    return DPT_OK;
}

static dpt_status activation(const dpt_op_desc *desc, op_shape *out, dpt_error *error)
{
    const dpt_activation_desc *d = &desc->u.activation;
    DPT_TRY(counted(d->count, out, error));
    DPT_TRY(check_activation(d->kind, error));
    out->from_output = dpt_activation_fuses(d->kind);
    out->from_input = !out->from_output;
    return DPT_OK;
}

static dpt_status dropout(const dpt_op_desc *desc, op_shape *out, dpt_error *error)
{
    const dpt_dropout_desc *d = &desc->u.dropout;
    DPT_TRY(counted(d->count, out, error));
    DPT_TRY(check_number("a dropout probability", d->p, (limits){0.0f, 1.0f}, error));
    if (d->stream == 0)
        return DPT_FAIL(error, DPT_E_INVALID, "stream 0 of random numbers is for augmentation");
    return DPT_OK;
}

static dpt_status batch_norm(const dpt_op_desc *desc, op_shape *out, dpt_error *error)
{
    const dpt_batch_norm_desc *d = &desc->u.batch_norm;
    const size_t c = d->channels;
    DPT_TRY(EXTENT(&out->x, error, d->area, c));
    DPT_TRY(EXTENT(&out->parts, error, d->n_parts, c, 3));
    DPT_TRY(check_fused(d->activation, error));
    DPT_TRY(check_fused(d->input_activation, error));
    if (d->output_activation != DPT_ACT_NONE && d->output_activation != DPT_ACT_RELU)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "a batch-norm applies no other derivative than ReLU's");
    DPT_TRY(check_number("an epsilon", d->epsilon, (limits){0x1p-100f, 1.0f}, error));
    out->y = out->x;
    out->w = out->bias = c;
    out->moments = 3 * c;
    out->sums = 2 * c;
    out->all_sums = out->parts / 3 * 2;
    out->has_residual = d->has_residual;
    out->output_mask = d->output_activation != DPT_ACT_NONE;
    return DPT_OK;
}

static dpt_status layer_norm(const dpt_op_desc *desc, op_shape *out, dpt_error *error)
{
    const dpt_layer_norm_desc *d = &desc->u.layer_norm;
    DPT_TRY(EXTENT(&out->x, error, d->rows, d->channels));
    DPT_TRY(EXTENT(&out->moments, error, d->rows, 2));
    DPT_TRY(check_fused(d->input_activation, error));
    DPT_TRY(check_number("an epsilon", d->epsilon, (limits){0x1p-100f, 1.0f}, error));
    out->y = out->x;
    out->w = out->bias = d->channels;
    return DPT_OK;
}

static dpt_status row_softmax(const dpt_op_desc *desc, op_shape *out, dpt_error *error)
{
    const dpt_row_softmax_desc *d = &desc->u.row_softmax;
    DPT_TRY(EXTENT(&out->x, error, d->rows, d->columns));
    out->y = out->x;
    return DPT_OK;
}

static dpt_status take(const dpt_op_desc *desc, op_shape *out, dpt_error *error)
{
    const dpt_take_desc *d = &desc->u.take;
    DPT_TRY(EXTENT(&out->x, error, d->count));
    DPT_TRY(EXTENT(&out->y, error, d->count, d->width));
    DPT_TRY(EXTENT(&out->w, error, d->rows, d->width));
    if (d->rows > INT32_MAX)
        return DPT_FAIL(error, DPT_E_INVALID, "%zu rows: an index has 31 bits", d->rows);
    out->dw = out->w;
    return DPT_OK;
}

static dpt_status softmax(const dpt_op_desc *desc, op_shape *out, dpt_error *error)
{
    const size_t classes = desc->u.softmax.classes;
    DPT_TRY(counted(classes, out, error));
    if (classes > INT32_MAX)
        return DPT_FAIL(error, DPT_E_INVALID, "%zu classes: a label has 32 bits", classes);
    return check_number("a label smoothing", desc->u.softmax.smoothing, (limits){0.0f, 1.0f},
                        error);
}

static dpt_status squared_error(const dpt_op_desc *desc, op_shape *out, dpt_error *error)
{
    return counted(desc->u.squared_error.count, out, error);
}

static dpt_status elementwise(const dpt_op_desc *desc, op_shape *out, dpt_error *error)
{
    return counted(desc->u.elementwise.count, out, error);
}

/* The slots of this family are found by dpti_map_slots. */
static dpt_status map(const dpt_op_desc *desc, op_shape *out, dpt_error *error)
{
    (void)out;
    return dpti_map_check(desc, error);
}

/* The slots of this family are found by dpti_matmul_slots. */
static dpt_status matmul(const dpt_op_desc *desc, op_shape *out, dpt_error *error)
{
    (void)out;
    return dpti_matmul_check(&desc->u.matmul, error);
}

static dpt_status recurrent(const dpt_op_desc *desc, op_shape *out, dpt_error *error)
{
    const dpt_recurrent_desc *d = &desc->u.recurrent;
    const bool lstm = d->cell == DPT_CELL_LSTM, saves = !d->no_gradient;
    DPT_TRY(dpti_recurrent_check(desc, error));
    const size_t gates = dpt_recurrent_gates(d->cell), saved = dpt_recurrent_saved(d->cell);
    DPT_TRY(EXTENT(&out->x, error, d->length + 1, gates, d->hidden));
    DPT_TRY(EXTENT(&out->w, error, gates, d->hidden, d->hidden));
    out->x = d->length * gates * d->hidden;
    out->y = (d->length + d->gives_cell) * d->hidden;
    out->w = dpt_recurrent_rows(d->cell) * d->hidden * d->hidden;
    out->w_new = d->hidden * d->hidden;
    out->bias = gates * d->hidden;
    out->state = d->hidden;
    out->gates = d->length * saved * d->hidden;
    out->cells = d->length * d->hidden;
    out->resets_before = d->cell == DPT_CELL_GRU_BEFORE;
    out->resets_behind = d->cell == DPT_CELL_GRU;
    out->has_bias = d->has_bias && desc->kind == DPT_OP_RECURRENT_FORWARD;
    out->has_initial = d->has_initial;
    out->has_initial_cell = d->has_initial && lstm;
    out->saves_gates = saves && d->cell != DPT_CELL_RNN;
    out->saves_cells = saves && lstm;
    out->reads_output = !lstm;
    out->reads_initial = d->has_initial && !lstm && d->cell != DPT_CELL_RNN;
    return DPT_OK;
}

static dpt_status check_attention(const dpt_op_desc *desc, dpt_error *error)
{
    const dpt_attention_desc *d = &desc->u.attention;
    if (d->key_heads == 0 || d->heads % d->key_heads != 0)
        return DPT_FAIL(error, DPT_E_INVALID, "%zu heads of keys do not divide %zu heads",
                        d->key_heads, d->heads);
    if (d->packed && d->queries != d->keys)
        return DPT_FAIL(error, DPT_E_INVALID, "%zu queries and %zu keys in one tensor", d->queries,
                        d->keys);
    if (d->causal && d->keys < d->queries)
        return DPT_FAIL(error, DPT_E_INVALID, "%zu queries in order that read only %zu keys",
                        d->queries, d->keys);
    if (d->no_gradient && desc->kind == DPT_OP_ATTENTION_BACKWARD)
        return DPT_FAIL(error, DPT_E_INVALID, "a gradient that is not wanted");
    return check_number("a scale", d->scale, (limits){-FLT_MAX, INFINITY}, error);
}

static dpt_status attention(const dpt_op_desc *desc, op_shape *out, dpt_error *error)
{
    const dpt_attention_desc *d = &desc->u.attention;
    DPT_TRY(EXTENT(&out->q, error, d->queries, d->heads, d->width));
    DPT_TRY(EXTENT(&out->k, error, d->keys, d->key_heads, d->width));
    DPT_TRY(EXTENT(&out->x, error, d->queries, 3, d->heads, d->width));
    DPT_TRY(check_attention(desc, error));
    out->x = d->queries * dpt_attention_pitch(d);
    out->lse = d->queries * d->heads;
    out->is_packed = d->packed;
    out->is_apart = !d->packed;
    out->saves_lse = !d->no_gradient;
    return DPT_OK;
}

static dpt_status check_decay(float weight_decay, size_t decay_count, size_t count,
                              dpt_error *error)
{
    if (decay_count > count)
        return DPT_FAIL(error, DPT_E_INVALID, "weight decay for %zu of %zu parameters", decay_count,
                        count);
    return check_number("a weight decay", weight_decay, (limits){0.0f, INFINITY}, error);
}

static dpt_status sgd(const dpt_op_desc *desc, op_shape *out, dpt_error *error)
{
    const dpt_sgd_desc *d = &desc->u.sgd;
    DPT_TRY(EXTENT(&out->w, error, d->count));
    DPT_TRY(check_decay(d->weight_decay, d->decay_count, d->count, error));
    DPT_TRY(check_number("a momentum", d->momentum, (limits){0.0f, INFINITY}, error));
    out->has_velocity = d->momentum > 0.0f;
    return DPT_OK;
}

static dpt_status adamw(const dpt_op_desc *desc, op_shape *out, dpt_error *error)
{
    const dpt_adamw_desc *d = &desc->u.adamw;
    DPT_TRY(EXTENT(&out->w, error, d->count));
    DPT_TRY(check_decay(d->weight_decay, d->decay_count, d->count, error));
    DPT_TRY(check_number("beta1", d->beta1, (limits){0.0f, 1.0f}, error));
    DPT_TRY(check_number("beta2", d->beta2, (limits){0.0f, 1.0f}, error));
    return check_number("an epsilon", d->epsilon, (limits){0x1p-100f, 1.0f}, error);
}

static dpt_status clip_norm(const dpt_op_desc *desc, op_shape *out, dpt_error *error)
{
    const dpt_clip_norm_desc *d = &desc->u.clip_norm;
    DPT_TRY(EXTENT(&out->w, error, d->count));
    return check_number("a largest norm", d->max_norm, (limits){0x1p-100f, INFINITY}, error);
}

static dpt_status check_finite(const dpt_op_desc *desc, op_shape *out, dpt_error *error)
{
    return counted(desc->u.check_finite.count, out, error);
}

/* Checks a description and finds its sizes and conditions. */
typedef dpt_status describe_fn(const dpt_op_desc *desc, op_shape *out, dpt_error *error);

static describe_fn *const describe_family[DPT_FAMILY_COUNT] = {
#define DESCRIBE(FAMILY, name) [DPT_FAMILY_##FAMILY] = name,
    DPT_OP_FAMILY_LIST(DESCRIBE)
#undef DESCRIBE
};

/* ---- Signatures ------------------------------------------------------------------------------ */

const char *dpti_op_name(dpt_op_kind kind)
{
    return dpt_op_name(kind);
}

dpt_status dpti_op_signature(const dpt_op_desc *desc, dpti_signature *out, dpt_error *error)
{
    const char *const name = dpt_op_name(desc->kind);
    const dpt_op_traits traits = dpt_op_traits_of(desc->kind);
    if ((unsigned)desc->kind >= DPT_OP_COUNT)
        return DPT_FAIL(error, DPT_E_INVALID, "unknown operator %d", (int)desc->kind);
    if (desc->type != DPT_F32 && desc->type != DPT_BF16)
        return DPT_FAIL(error, DPT_E_INVALID, "%s: activations of element type %d", name,
                        (int)desc->type);
    op_shape shape = {.one = 1, .two = 2, .always = true};
    dpt_error reason = {.status = DPT_OK};
    const dpt_status status = describe_family[traits.family](desc, &shape, &reason);
    if (status != DPT_OK) return DPT_FAIL(error, status, "%s: %.480s", name, reason.message);
    dpti_signature signature = {
        .reads_step = (traits.marks & DPT_MARK_STEP) != 0 &&
                      (traits.family != DPT_FAMILY_GATHER || shape.augmented),
        .may_halt = (traits.marks & DPT_MARK_HALT) != 0,
        .per_step = (traits.marks & DPT_MARK_PER_STEP) != 0,
    };
    for (const slot_row *row = slot_rows[desc->kind]; row->name; row++)
        add_slot(row, desc, &shape, &signature);
    if (traits.family == DPT_FAMILY_MAP) dpti_map_slots(desc, &signature);
    if (traits.family == DPT_FAMILY_MATMUL) dpti_matmul_slots(desc, &signature);
    *out = signature;
    return DPT_OK;
}
