/* Input values (inputs.h). */
#include "inputs.h"
#include "map_cases.h"
#include "reference/reference.h"

#include <math.h>
#include <string.h>

static void fill_numbers(bool integers, test_random *random, float *out, size_t n)
{
    if (integers) {
        test_fill_integers(random, out, n, -3, 3);
    } else {
        test_fill_normal(random, out, n);
    }
}

/* What an activation puts out.  The derivatives of tanh and sigmoid are polynomials in it, which
   integers make exact. */
static void fill_activated(dpt_activation kind, bool integers, test_random *random, float *out,
                           size_t n)
{
    fill_numbers(integers, random, out, n);
    for (size_t i = 0; i < n; i++) {
        if (kind == DPT_ACT_RELU) out[i] = out[i] > 0.0f ? out[i] : 0.0f;
        if (!integers && dpt_activation_fuses(kind))
            out[i] = (float)reference_activate(kind, (double)out[i]);
    }
}

/* Half the time in steps, so that windows have several equal maxima. */
static void fill_pooled(const dpt_pool2d_desc *d, bool integers, test_random *random, float *out,
                        size_t n)
{
    fill_activated(d->input_activation, integers, random, out, n);
    if (integers || test_random_below(random, 2) == 0) return;
    for (size_t i = 0; i < n; i++)
        out[i] = roundf(out[i] * 4.0f) / 4.0f;
}

/* Rows of different spread: flat ones with ties, and ones where a class has all. */
static void fill_logits(size_t classes, bool integers, test_random *random, float *out, size_t n)
{
    static const float spreads[] = {1.0f, 4.0f, 30.0f, 0.01f};
    fill_numbers(integers, random, out, n);
    for (size_t i = 0; i < n && !integers; i++)
        out[i] *= spreads[i / classes % 4];
}

/* Entries of -infinity, which a mask makes, and every fifth row full of them.  The spread of a row
   is up to 1e4. */
static void fill_masked(const dpt_row_softmax_desc *d, test_random *random, float *out, size_t n)
{
    static const float spreads[] = {1.0f, 30.0f, 1e4f};
    for (size_t i = 0; i < n; i++) {
        const size_t row = i / d->columns;
        out[i] *= spreads[row % 3];
        if (row % 5 == 4 || test_random_below(random, 8) == 0) out[i] = -INFINITY;
    }
}

static void fill_row_softmax(const dpt_op_desc *desc, size_t slot, test_random *random, float *out,
                             size_t n)
{
    const dpt_row_softmax_desc *d = &desc->u.row_softmax;
    test_fill_normal(random, out, n);
    if (desc->kind == DPT_OP_ROW_SOFTMAX_FORWARD) {
        fill_masked(d, random, out, n);
        return;
    }
    for (size_t i = 0; i < n && slot == 1; i++) /* as a forward pass may give */
        out[i] = !d->log                             ? fabsf(out[i]) / (float)d->columns
                 : test_random_below(random, 8) == 0 ? -INFINITY
                                                     : -fabsf(out[i]);
}

/* Rows of a table.  Half the time some are out of range, and a quarter of the time all are the
   same. */
static void fill_taken(const dpt_take_desc *d, test_random *random, int32_t *out, size_t n)
{
    const int32_t outside[] = {-1, (int32_t)d->rows, INT32_MIN, INT32_MAX};
    const bool strays = test_random_below(random, 2) == 0, same = test_random_below(random, 4) == 0;
    const int32_t only = (int32_t)test_random_below(random, (uint32_t)d->rows);
    for (size_t i = 0; i < n; i++) {
        out[i] = same ? only : (int32_t)test_random_below(random, (uint32_t)d->rows);
        if (strays && test_random_below(random, 6) == 0)
            out[i] = outside[test_random_below(random, 4)];
    }
}

/* Weights whose products have a deviation of about 1, so that a long sequence stays moderate; gates
   and states as a forward pass may give them. */
static void fill_recurrent(const dpt_op_desc *desc, size_t slot, bool integers, test_random *random,
                           float *out, size_t n)
{
    const dpt_recurrent_desc *d = &desc->u.recurrent;
    const bool lstm = d->cell == DPT_CELL_LSTM, rnn = d->cell == DPT_CELL_RNN;
    const bool forward = desc->kind == DPT_OP_RECURRENT_FORWARD;
    const size_t weights = forward ? 1 : rnn ? 2 : 3;
    fill_numbers(integers, random, out, n);
    if (slot == weights || (slot == weights + 1 && d->cell == DPT_CELL_GRU_BEFORE)) {
        for (size_t i = 0; i < n; i++)
            out[i] /= sqrtf((float)d->hidden);
    } else if (!forward && rnn && slot == 1) {
        fill_activated(d->activation[0], false, random, out, n);
    } else if (!forward && !rnn && slot == (lstm ? 1 : 2)) {
        const size_t saved = dpt_recurrent_saved(d->cell);
        for (size_t i = 0; i < n; i += d->hidden) {
            const size_t gate = i / d->hidden % saved;
            if (gate < 3 || lstm)
                fill_activated(d->activation[gate == 2], false, random, out + i, d->hidden);
        }
    }
}

/* lse as a forward pass may give it: above most scores. */
static void fill_attention(const dpt_op_desc *desc, size_t slot, bool integers, test_random *random,
                           float *out, size_t n)
{
    const bool is_lse = desc->kind == DPT_OP_ATTENTION_BACKWARD && slot == 2;
    fill_numbers(integers, random, out, n);
    for (size_t i = 0; i < n && is_lse; i++)
        out[i] = 2.0f + fabsf(out[i]) + logf((float)desc->u.attention.keys);
}

/* ---- Normalisations -------------------------------------------------------------------------- */

/* What a channel's values lie around: some far from zero against their deviation of about 1. */
static float center(size_t channel, bool integers)
{
    static const float centers[] = {0.0f, -1000.0f, 0.25f, 10000.0f, 3.0f};
    return integers ? 0.0f : centers[channel % 5];
}

/* Row after row of channels; the last of the centers' cycle are all the same value. */
static void fill_rows(size_t channels, bool integers, test_random *random, float *out, size_t n)
{
    fill_numbers(integers, random, out, n);
    for (size_t i = 0; i < n; i++) {
        const size_t channel = i % channels;
        if (channel % 5 == 4 && !integers) out[i] = 0.0f;
        out[i] += center(channel, integers);
    }
}

/* Means near the centers, inverse deviations, inverse counts. */
static void fill_moments(size_t channels, bool integers, test_random *random, float *out)
{
    fill_numbers(integers, random, out, 3 * channels);
    for (size_t c = 0; c < channels; c++) {
        float *inverse = &out[channels + c];
        out[c] += center(c, integers);
        *inverse = integers ? 1.0f + fabsf(*inverse) : 0.3f + fabsf(*inverse);
        out[2 * channels + c] = integers ? (float)(c % 2) : 1.0f / (float)(1 + c % 300);
    }
}

/* One part (3,c) of uneven counts: none, one, a few, many. */
static void fill_part(size_t channels, test_random *random, float *out)
{
    static const size_t most[] = {1, 2, 40, 5000000};
    const size_t count = test_random_below(random, most[test_random_below(random, 4)]);
    const float values = (float)count;
    test_fill_normal(random, out, 3 * channels);
    for (size_t c = 0; c < channels; c++) {
        out[c] = values;
        out[channels + c] = count > 0 ? out[channels + c] + center(c, false) : 0.0f;
        out[2 * channels + c] = count > 1 ? values * fabsf(out[2 * channels + c]) : 0.0f;
    }
}

static void fill_variances(test_random *random, float *out, size_t n)
{
    test_fill_normal(random, out, n);
    for (size_t i = 0; i < n; i++)
        out[i] *= out[i] * (i % 3 == 0 ? 0.0f : 1.0f);
}

/* False: the slot wants what most slots want. */
static bool fill_batch_norm(const dpt_op_desc *desc, size_t slot, bool integers,
                            test_random *random, float *out, size_t n)
{
    const dpt_batch_norm_desc *d = &desc->u.batch_norm;
    const bool backward = desc->kind == DPT_OP_BATCH_NORM_BACKWARD_PARTIAL ||
                          desc->kind == DPT_OP_BATCH_NORM_BACKWARD_DATA;
    if (desc->kind == DPT_OP_BATCH_NORM_MERGE) {
        for (size_t i = 0; i < d->n_parts; i++)
            fill_part(d->channels, random, out + 3 * i * d->channels);
    } else if (desc->kind == DPT_OP_BATCH_NORM_FREEZE && slot == 1) {
        fill_variances(random, out, n);
    } else if (slot == (backward ? 1 : 0)) {
        if (desc->kind == DPT_OP_BATCH_NORM_BACKWARD_DATA && d->input_activation != DPT_ACT_NONE)
            fill_activated(d->input_activation, integers, random, out, n);
        else
            fill_rows(d->channels, integers, random, out, n);
    } else if (slot == (backward ? 2 : 1)) {
        fill_moments(d->channels, integers, random, out);
    } else {
        return false;
    }
    return true;
}

static bool fill_layer_norm(const dpt_op_desc *desc, size_t slot, bool integers,
                            test_random *random, float *out, size_t n)
{
    const dpt_layer_norm_desc *d = &desc->u.layer_norm;
    if (desc->kind == DPT_OP_LAYER_NORM_FORWARD) {
        if (slot != 0) return false;
        fill_numbers(integers, random, out, n);
        for (size_t i = 0; i < n; i++)
            out[i] += center(i / d->channels, integers);
        return true;
    }
    if (slot == 1 && d->input_activation != DPT_ACT_NONE) {
        fill_activated(d->input_activation, integers, random, out, n);
        return true;
    }
    if (slot != 2) return false;
    fill_numbers(integers, random, out, n);
    for (size_t i = 1; i < n; i += 2)
        out[i] = 1.0f + fabsf(out[i]);
    return true;
}

/* ---- Data ------------------------------------------------------------------------------------ */

static void fill_below(test_random *random, uint32_t *out, size_t n, size_t bound)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (uint32_t)test_random_below(random, bound);
}

/* Numbers of samples: anything that 32 bits hold. */
static void fill_samples(test_random *random, uint32_t *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (uint32_t)test_random_u64(random);
}

static void fill_data(const dpt_gather_desc *d, bool integers, test_random *random, void *out,
                      size_t n)
{
    uint8_t *bytes = out;
    int32_t *numbers = out;
    switch (d->dtype) {
    case DPT_U8:
        for (size_t i = 0; i < n; i++)
            bytes[i] = (uint8_t)test_random_below(random, 256);
        break;
    case DPT_I32:
    case DPT_U32:
        for (size_t i = 0; i < n; i++)
            numbers[i] = test_random_int(random, 0, 100000);
        break;
    case DPT_F32:
    case DPT_BF16: fill_numbers(integers, random, out, n); break; /* data are never BF16 */
    }
}

uint16_t inputs_bfloat16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const uint32_t below = bits & 0xffffu, odd = bits >> 16 & 1u;
    return (uint16_t)((bits >> 16) + (below > 0x8000u || (below == 0x8000u && odd) ? 1 : 0));
}

/* Half of all tensors have one element that is not finite. */
static void spoil(test_random *random, float *out, size_t n)
{
    static const float values[] = {INFINITY, -INFINITY, NAN, -NAN};
    if (n == 0 || test_random_below(random, 2) != 0) return;
    const size_t place = test_random_below(random, n);
    out[place] = values[test_random_below(random, 4)];
}

static void fill_operand(const dpt_map_operand *o, bool integers, test_random *random, void *out,
                         size_t n)
{
    if (o->type != DPT_U8 && o->type != DPT_I32) {
        fill_numbers(integers, random, out, n);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        if (o->type == DPT_U8)
            ((uint8_t *)out)[i] = (uint8_t)test_random_below(random, 3);
        else
            ((int32_t *)out)[i] = test_random_int(random, -3, 3);
    }
}

void inputs_fill(const dpt_op_desc *desc, size_t slot, bool integers, test_random *random,
                 void *out, size_t n)
{
    switch (desc->kind) {
    case DPT_OP_GATHER:
    case DPT_OP_GATHER_LABELS:
        if (slot == 0) fill_data(&desc->u.gather, integers, random, out, n);
        if (slot == 1) fill_below(random, out, n, desc->u.gather.n_records);
        if (slot == 2) fill_samples(random, out, n);
        return;
    case DPT_OP_MAP:
    case DPT_OP_MAP_REDUCE: fill_operand(&desc->u.map.in[slot], integers, random, out, n); return;
    case DPT_OP_CHECK_FINITE:
        fill_numbers(integers, random, out, n);
        spoil(random, out, n);
        return;
    case DPT_OP_DROPOUT:
        if (slot != 1) break;
        fill_samples(random, out, n);
        return;
    case DPT_OP_CONV2D_BACKWARD_DATA:
        if (slot != 2) break;
        fill_activated(desc->u.conv2d.input_activation, integers, random, out, n);
        return;
    case DPT_OP_LINEAR_BACKWARD_DATA:
        if (slot != 2) break;
        fill_activated(desc->u.linear.input_activation, integers, random, out, n);
        return;
    case DPT_OP_POOL2D_FORWARD: fill_pooled(&desc->u.pool2d, integers, random, out, n); return;
    case DPT_OP_POOL2D_BACKWARD:
        if (slot != 1) break;
        fill_pooled(&desc->u.pool2d, integers, random, out, n);
        return;
    case DPT_OP_ACTIVATION_BACKWARD:
        if (slot != 1) break;
        fill_activated(desc->u.activation.kind, integers, random, out, n);
        return;
    case DPT_OP_BATCH_NORM_PARTIAL:
    case DPT_OP_BATCH_NORM_MERGE:
    case DPT_OP_BATCH_NORM_FREEZE:
    case DPT_OP_BATCH_NORM_FORWARD:
    case DPT_OP_BATCH_NORM_BACKWARD_PARTIAL:
    case DPT_OP_BATCH_NORM_BACKWARD_DATA:
        if (!fill_batch_norm(desc, slot, integers, random, out, n)) break;
        return;
    case DPT_OP_LAYER_NORM_FORWARD:
    case DPT_OP_LAYER_NORM_BACKWARD_DATA:
    case DPT_OP_LAYER_NORM_BACKWARD_WEIGHTS:
        if (!fill_layer_norm(desc, slot, integers, random, out, n)) break;
        return;
    case DPT_OP_ROW_SOFTMAX_FORWARD:
    case DPT_OP_ROW_SOFTMAX_BACKWARD: fill_row_softmax(desc, slot, random, out, n); return;
    case DPT_OP_TAKE_FORWARD:
    case DPT_OP_TAKE_BACKWARD:
        if (slot != 1) break;
        fill_taken(&desc->u.take, random, out, n);
        return;
    case DPT_OP_RECURRENT_FORWARD:
    case DPT_OP_RECURRENT_BACKWARD: fill_recurrent(desc, slot, integers, random, out, n); return;
    case DPT_OP_ATTENTION_FORWARD:
    case DPT_OP_ATTENTION_BACKWARD: fill_attention(desc, slot, integers, random, out, n); return;
    case DPT_OP_SOFTMAX_XENT:
    case DPT_OP_SOFTMAX_XENT_GRADIENT:
        if (slot == 0) {
            fill_logits(desc->u.softmax.classes, integers, random, out, n);
        } else {
            fill_below(random, out, n, desc->u.softmax.classes);
            for (size_t i = 3; i < n; i += 7) /* ignored */
                ((int32_t *)out)[i] = -100;
        }
        return;
    default: break;
    }
    fill_numbers(integers, random, out, n);
}

void inputs_fill_output(const dpt_op_desc *desc, size_t slot, bool integers, test_random *random,
                        float *out, size_t n)
{
    fill_numbers(integers, random, out, n);
    if (desc->kind == DPT_OP_CHECK_FINITE) out[0] = test_random_below(random, 4) == 0 ? 1.0f : 0.0f;
    if (desc->kind != DPT_OP_ADAMW || slot != 2) return;
    for (size_t i = 0; i < n; i++) /* a mean of squares */
        out[i] *= out[i];
}

/* A multiple of 1/16 of moderate size. */
static bool is_simple(float value)
{
    return fabsf(value) <= 64.0f && value * 16.0f == roundf(value * 16.0f);
}

static bool is_piecewise_linear(dpt_activation kind)
{
    return kind == DPT_ACT_NONE || kind == DPT_ACT_RELU;
}

static bool is_power_of_two(size_t value)
{
    return value > 0 && (value & (value - 1)) == 0;
}

static bool elementwise_exact(const dpt_op_desc *desc)
{
    const dpt_elementwise_desc *d = &desc->u.elementwise;
    const uint32_t marks = dpt_op_traits_of(desc->kind).marks;
    return (marks & DPT_MARK_EXACT) != 0 ||
           ((marks & DPT_MARK_EXACT_FACTORS) != 0 && is_simple(d->alpha) && is_simple(d->beta));
}

bool inputs_exact(const dpt_op_desc *desc)
{
    switch (desc->kind) {
    case DPT_OP_GATHER:
        for (size_t i = 0; i < desc->u.gather.channels; i++) {
            if (!is_simple(desc->u.gather.mean[i]) || !is_simple(desc->u.gather.scale[i]))
                return false;
        }
        return true;
    case DPT_OP_CONV2D_FORWARD: return is_piecewise_linear(desc->u.conv2d.activation);
    case DPT_OP_LINEAR_FORWARD: return is_piecewise_linear(desc->u.linear.activation);
    case DPT_OP_ACTIVATION_FORWARD: return is_piecewise_linear(desc->u.activation.kind);
    case DPT_OP_POOL2D_FORWARD:
    case DPT_OP_POOL2D_BACKWARD:
        return desc->u.pool2d.kind == DPT_POOL_MAX ||
               is_power_of_two(desc->u.pool2d.kernel_h * desc->u.pool2d.kernel_w);
    case DPT_OP_ACTIVATION_BACKWARD: return dpt_activation_fuses(desc->u.activation.kind);
    case DPT_OP_BATCH_NORM_FORWARD: return is_piecewise_linear(desc->u.batch_norm.activation);
    case DPT_OP_BATCH_NORM_PARTIAL:
    case DPT_OP_BATCH_NORM_MERGE:
    case DPT_OP_BATCH_NORM_FREEZE:
    case DPT_OP_LAYER_NORM_FORWARD:
    case DPT_OP_LAYER_NORM_BACKWARD_DATA:
    case DPT_OP_ROW_SOFTMAX_FORWARD:
    case DPT_OP_ROW_SOFTMAX_BACKWARD:
    case DPT_OP_RECURRENT_FORWARD:
    case DPT_OP_RECURRENT_BACKWARD:
    case DPT_OP_ATTENTION_FORWARD:
    case DPT_OP_ATTENTION_BACKWARD: return false;
    case DPT_OP_SOFTMAX_XENT:
    case DPT_OP_SOFTMAX_XENT_GRADIENT:
    case DPT_OP_SQUARED_ERROR:
    case DPT_OP_SQUARED_ERROR_GRADIENT:
    case DPT_OP_ADAMW:
    case DPT_OP_CLIP_NORM: return false;
    case DPT_OP_DROPOUT: /* 1 / (1 - p), too, is a float */
        return is_simple(1.0f / (1.0f - desc->u.dropout.p)) &&
               (1.0 - (double)desc->u.dropout.p) * (double)(1.0f / (1.0f - desc->u.dropout.p)) ==
                   1.0;
#define ELEMENTWISE(KIND, ...) case DPT_OP_##KIND:
        DPT_ELEMENTWISE_LIST(ELEMENTWISE)
#undef ELEMENTWISE
        return elementwise_exact(desc);
    case DPT_OP_MAP:
    case DPT_OP_MAP_REDUCE: return map_cases_exact(desc);
    case DPT_OP_MATMUL: return is_simple(desc->u.matmul.alpha);
    case DPT_OP_SGD: return is_simple(desc->u.sgd.momentum) && is_simple(desc->u.sgd.weight_decay);
    default: return true;
    }
}
