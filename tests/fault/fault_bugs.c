/* The planted bugs: the result of a run is changed in place, in the wrapped device's memory. */
#include "fault.h"

#include <float.h>
#include <math.h>
#include <string.h>

static void *address(dpt_device *device, dpt_location at)
{
    fault_state *state = fault_of(device);
    const dpt_memory_ops *memory = state->inner.backend->memory;
    if (!at.buffer || !memory->host_pointer) return NULL;
    char *base = memory->host_pointer(&state->inner, at.buffer);
    return base ? base + at.offset_bytes : NULL;
}

/* Elements of the first output, all of which have four bytes. */
static size_t output_elements(const dpt_op_desc *desc, size_t n)
{
    const dpt_conv2d_desc *c = &desc->u.conv2d;
    const dpt_pool2d_desc *p = &desc->u.pool2d;
    const dpt_batch_norm_desc *b = &desc->u.batch_norm;
    const dpt_layer_norm_desc *l = &desc->u.layer_norm;
    switch (desc->kind) {
    case DPT_OP_GATHER: return n * desc->u.gather.count;
    case DPT_OP_GATHER_LABELS: return n * desc->u.gather.count;
    case DPT_OP_CONV2D_FORWARD: return n * c->out_h * c->out_w * c->out_channels;
    case DPT_OP_CONV2D_BACKWARD_DATA: return n * c->in_h * c->in_w * c->in_channels;
    case DPT_OP_CONV2D_BACKWARD_WEIGHTS:
        return c->out_channels * c->kernel_h * c->kernel_w * (c->in_channels / c->groups);
    case DPT_OP_LINEAR_FORWARD: return n * desc->u.linear.out;
    case DPT_OP_LINEAR_BACKWARD_DATA: return n * desc->u.linear.in;
    case DPT_OP_LINEAR_BACKWARD_WEIGHTS:
        return dpt_linear_rows(&desc->u.linear) * desc->u.linear.in;
    case DPT_OP_POOL2D_FORWARD: return n * p->out_h * p->out_w * p->channels;
    case DPT_OP_POOL2D_BACKWARD: return n * p->in_h * p->in_w * p->channels;
    case DPT_OP_ACTIVATION_FORWARD:
    case DPT_OP_ACTIVATION_BACKWARD: return n * desc->u.activation.count;
    case DPT_OP_BATCH_NORM_PARTIAL:
    case DPT_OP_BATCH_NORM_MERGE:
    case DPT_OP_BATCH_NORM_FREEZE: return 3 * b->channels;
    case DPT_OP_BATCH_NORM_FORWARD:
    case DPT_OP_BATCH_NORM_BACKWARD_DATA: return n * b->area * b->channels;
    case DPT_OP_BATCH_NORM_BACKWARD_PARTIAL: return 2 * b->channels;
    case DPT_OP_LAYER_NORM_FORWARD:
    case DPT_OP_LAYER_NORM_BACKWARD_DATA: return n * l->rows * l->channels;
    case DPT_OP_LAYER_NORM_BACKWARD_WEIGHTS: return l->channels;
    case DPT_OP_ROW_SOFTMAX_FORWARD:
    case DPT_OP_ROW_SOFTMAX_BACKWARD:
        return n * desc->u.row_softmax.rows * desc->u.row_softmax.columns;
    case DPT_OP_TAKE_FORWARD: return n * desc->u.take.count * desc->u.take.width;
    case DPT_OP_TAKE_BACKWARD: return desc->u.take.rows * desc->u.take.width;
    case DPT_OP_SOFTMAX_XENT:
    case DPT_OP_SOFTMAX_XENT_GRADIENT:
    case DPT_OP_SQUARED_ERROR:
    case DPT_OP_SQUARED_ERROR_GRADIENT: return n * 2;
    case DPT_OP_DROPOUT: return n * desc->u.dropout.count;
#define ELEMENTWISE(KIND, ...) case DPT_OP_##KIND:
        DPT_ELEMENTWISE_LIST(ELEMENTWISE)
#undef ELEMENTWISE
        return n * desc->u.elementwise.count;
    case DPT_OP_MAP:
    case DPT_OP_MAP_REDUCE: return (desc->u.map.out[0].sampled ? n : 1) * desc->u.map.out[0].size;
    case DPT_OP_MATMUL: return n * desc->u.matmul.y.elements;
    case DPT_OP_RECURRENT_FORWARD:
        return n * (desc->u.recurrent.length + desc->u.recurrent.gives_cell) *
               desc->u.recurrent.hidden;
    case DPT_OP_RECURRENT_BACKWARD:
        return n * desc->u.recurrent.length * dpt_recurrent_gates(desc->u.recurrent.cell) *
               desc->u.recurrent.hidden;
    case DPT_OP_ATTENTION_FORWARD:
        return n * desc->u.attention.queries * desc->u.attention.heads * desc->u.attention.width;
    case DPT_OP_ATTENTION_BACKWARD:
        return n * desc->u.attention.queries *
               (desc->u.attention.packed ? dpt_attention_pitch(&desc->u.attention)
                                         : desc->u.attention.heads * desc->u.attention.width);
    case DPT_OP_SGD: return desc->u.sgd.count;
    case DPT_OP_ADAMW: return desc->u.adamw.count;
    case DPT_OP_CLIP_NORM: return desc->u.clip_norm.count;
    case DPT_OP_CHECK_FINITE: return 1;
    case DPT_OP_COUNT: break;
    }
    return 0;
}

/* The largest element, so that a relative error is an error. */
static void disturb(float *values, size_t n)
{
    size_t largest = 0;
    for (size_t i = 1; i < n; i++) {
        if (fabsf(values[i]) > fabsf(values[largest])) largest = i;
    }
    if (n > 0) values[largest] *= 1.001f;
}

static void falsify_output(const dpt_op *op, fault_bug bug, void *output, size_t n)
{
    float *values = output;
    uint32_t *words = output;
    if (n == 0) return;
    switch (bug) {
    case FAULT_BUG_WRONG:
        if (op->desc.kind == DPT_OP_GATHER_LABELS) {
            words[0] += 1;
        } else {
            disturb(values, n);
        }
        break;
    case FAULT_BUG_LAZY: values[n - 1] = NAN; break;
    case FAULT_BUG_OVERRUN: words[n] = 0; break;
    case FAULT_BUG_FLUSH:
        for (size_t i = 0; i < n; i++)
            if (fabsf(values[i]) < FLT_MIN) values[i] = 0.0f;
        break;
    case FAULT_BUG_ROUND: words[0] ^= op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS; break;
    case FAULT_BUG_UNSTABLE: words[0] ^= (uint32_t)(op->n_runs & 1); break;
    default: break;
    }
}

/* The gradient that a loss put out, `each` elements a sample. */
static void falsify_loss(fault_bug bug, float *gradient, size_t n, size_t each,
                         const dpt_step_block *step)
{
    for (size_t i = 0; i < n * each && bug == FAULT_BUG_DROP; i++)
        gradient[i] = 0.0f;
    for (size_t i = 0; i < n * each && bug == FAULT_BUG_SCALE; i++)
        gradient[i] *= 1.0f / (step->inv_batch * (float)n);
    if (bug == FAULT_BUG_WRONG) disturb(gradient, n * each);
}

/* Runs once for every sample that is trained. */
static bool is_loss_gradient(dpt_op_kind kind)
{
    return kind == DPT_OP_SOFTMAX_XENT_GRADIENT || kind == DPT_OP_SQUARED_ERROR_GRADIENT;
}

static bool is_optimizer(dpt_op_kind kind)
{
    return kind == DPT_OP_SGD || kind == DPT_OP_ADAMW;
}

static void falsify_part(const dpt_op *op, fault_bug bug, float *part)
{
    const size_t channels = op->desc.u.batch_norm.channels;
    for (size_t i = 0; i < 3 * channels && bug == FAULT_BUG_PART; i++)
        part[i] = 0.0f;
    for (size_t i = 0; i < channels && bug == FAULT_BUG_TALLY; i++)
        part[i] *= 2.0f;
}

static void falsify(dpt_device *device, const dpt_op *op, size_t n, const dpt_op_args *args)
{
    const fault_bug bug = fault_of(device)->bug;
    void *output = address(device, args->out[0]);
    if (output) falsify_output(op, bug, output, output_elements(&op->desc, n));
    const bool softmax = op->desc.kind == DPT_OP_SOFTMAX_XENT_GRADIENT;
    if (is_loss_gradient(op->desc.kind)) {
        float *gradient = address(device, args->out[1]);
        const dpt_step_block *step = address(device, args->step);
        const size_t each = softmax ? op->desc.u.softmax.classes : op->desc.u.squared_error.count;
        if (gradient && step) falsify_loss(bug, gradient, n, each, step);
    }
    if (op->desc.kind == DPT_OP_BATCH_NORM_PARTIAL && output) falsify_part(op, bug, output);
    unsigned char *input = address(device, args->in[0]);
    if (!input && output &&
        args->out[0].offset_bytes > 0) /* none, as of CLIP_NORM: what lies before it */
        input = (unsigned char *)output - 1;
    if (bug == FAULT_BUG_INPUT && input && n > 0) *input ^= 1;
}

/* An update of running statistics; every other sum that training takes has both factors 1. */
static bool is_moving_average(const dpt_op_desc *desc)
{
    return desc->kind == DPT_OP_ADD && desc->u.elementwise.alpha != 1.0f;
}

static bool is_weights_gradient(dpt_op_kind kind)
{
    return kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS || kind == DPT_OP_LINEAR_BACKWARD_WEIGHTS;
}

static bool is_part(dpt_op_kind kind)
{
    return kind == DPT_OP_BATCH_NORM_PARTIAL || kind == DPT_OP_BATCH_NORM_BACKWARD_PARTIAL;
}

/* What is planted in one step alone, behind a run. */
static void falsify_step(dpt_device *device, const dpt_op *op, const dpt_op_args *args)
{
    const fault_state *state = fault_of(device);
    const size_t step = state->n_updates + 1;
    const size_t place = state->place - 1;
    const bool wrecks = state->n_updates == state->wreck;
    float *values = address(device, args->out[0]);
    if (values && ((is_weights_gradient(op->desc.kind) && step == state->poison) ||
                   (is_part(op->desc.kind) && step == state->smudge))) {
        fault_report("fired %zu poison\n", step);
        values[0] = INFINITY;
    }
    if (values && is_weights_gradient(op->desc.kind) && step == state->huge) values[0] = 3e38f;
    if (!is_optimizer(op->desc.kind) || (state->n_updates != state->flip && !wrecks)) return;
    uint32_t *words = place < DPT_MAX_OUTPUTS ? address(device, args->out[place]) : NULL;
    if (!words) return;
    fault_report("fired %zu flip\n", state->n_updates);
    words[0] = wrecks ? 0x7fc00000u : words[0] ^ 1u << 20;
}

/* The optimizer is about to run. */
static dpt_status starve(dpt_device *device)
{
    const fault_state *state = fault_of(device);
    if (state->starve == 0 || state->n_updates < state->starve ||
        state->n_updates - state->starve >= state->lasting)
        return DPT_OK;
    fault_report("fired %zu starve\n", state->n_updates);
    return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for update %zu (planted)",
                    state->n_updates);
}

dpt_status fault_run(dpt_stream *stream, dpt_op *op, size_t n_samples, const dpt_op_args *args)
{
    fault_state *state = fault_of(stream->device);
    const dpt_backend *inner = state->inner.backend;
    if (op->desc.kind != DPT_OP_CHECK_FINITE) DPT_TRY(fault_hold(stream->device, n_samples));
    op->n_runs++;
    state->n_updates += is_optimizer(op->desc.kind);
    if (is_optimizer(op->desc.kind)) DPT_TRY(starve(stream->device));
    if (is_loss_gradient(op->desc.kind))
        state->seconds += 1e-3 * (double)(state->clock * n_samples);
    if (state->bug == FAULT_BUG_STALE && is_optimizer(op->desc.kind) && op->n_runs % 2 == 0) {
        return DPT_OK;
    }
    if (state->bug == FAULT_BUG_FROZEN && is_moving_average(&op->desc)) return DPT_OK;
    DPT_TRY(fault_forwarded(stream->device,
                            inner->operators->run(stream->inner, op->inner, n_samples, args)));
    const size_t steps = state->poison + state->smudge + state->huge + state->flip + state->wreck;
    if (state->bug == FAULT_BUG_NONE && steps == 0) return DPT_OK;
    DPT_TRY(fault_forwarded(stream->device, inner->stream->sync(stream->inner)));
    falsify_step(stream->device, op, args);
    if (state->bug == FAULT_BUG_NONE) return DPT_OK;
    falsify(stream->device, op, n_samples, args);
    return DPT_OK;
}
