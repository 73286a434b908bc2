/* Input values (inputs.h). */
#include "inputs.h"

#include <math.h>

void inputs_fill_state(bool integers, test_random *random, float *out, size_t n)
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
    inputs_fill_state(integers, random, out, n);
    for (size_t i = 0; i < n; i++) {
        if (kind == DPT_ACT_RELU) out[i] = out[i] > 0.0f ? out[i] : 0.0f;
        if (integers) continue;
        if (kind == DPT_ACT_TANH) out[i] = tanhf(out[i]);
        if (kind == DPT_ACT_SIGMOID) out[i] = 1.0f / (1.0f + expf(-out[i]));
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
    inputs_fill_state(integers, random, out, n);
    for (size_t i = 0; i < n && !integers; i++)
        out[i] *= spreads[i / classes % 4];
}

static void fill_below(test_random *random, uint32_t *out, size_t n, size_t bound)
{
    for (size_t i = 0; i < n; i++)
        out[i] = (uint32_t)test_random_below(random, bound);
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
    case DPT_F32: inputs_fill_state(integers, random, out, n); break;
    }
}

void inputs_fill(const dpt_op_desc *desc, size_t slot, bool integers, test_random *random,
                 void *out, size_t n)
{
    switch (desc->kind) {
    case DPT_OP_GATHER:
    case DPT_OP_GATHER_LABELS:
        if (slot == 0) {
            fill_data(&desc->u.gather, integers, random, out, n);
        } else {
            fill_below(random, out, n, desc->u.gather.n_records);
        }
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
    case DPT_OP_SOFTMAX_XENT:
    case DPT_OP_SOFTMAX_XENT_GRADIENT:
        if (slot == 0) {
            fill_logits(desc->u.softmax.classes, integers, random, out, n);
        } else {
            fill_below(random, out, n, desc->u.softmax.classes);
        }
        return;
    default: break;
    }
    inputs_fill_state(integers, random, out, n);
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
    case DPT_OP_SOFTMAX_XENT:
    case DPT_OP_SOFTMAX_XENT_GRADIENT: return false;
    case DPT_OP_ADD:
    case DPT_OP_AFFINE:
        return is_simple(desc->u.elementwise.alpha) && is_simple(desc->u.elementwise.beta);
    case DPT_OP_SGD: return is_simple(desc->u.sgd.momentum) && is_simple(desc->u.sgd.weight_decay);
    default: return true;
    }
}
