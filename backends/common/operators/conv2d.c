/* Convolutions: the choice among the alternatives of all families (conv2d.h). */
#include "conv2d.h"
#include "conv2d_winograd.h"
#include "winograd_rule.h"

#include <stdio.h>

enum { MAX_ITEMS = 48, KEY_BYTES = 224 };

/* Lists the alternatives of all families, in the order of the families.  alternatives.c leaves out
   those that do not suit the device. */
static size_t list_items(const dpt_device *device, dpt_alternative items[MAX_ITEMS])
{
    size_t n = 0;
    for (const dpt_alternative *const *family = dpt_conv2d_families(device); *family; family++) {
        for (const dpt_alternative *item = *family; item->name && n < MAX_ITEMS; item++)
            items[n++] = *item;
    }
    return n;
}

static const char *pass_name(dpt_op_kind kind)
{
    switch (kind) {
    case DPT_OP_CONV2D_FORWARD: return "forward";
    case DPT_OP_CONV2D_BACKWARD_DATA: return "backward-data";
    default: return "backward-weights";
    }
}

/* Bias, activation and mask cost all alternatives about the same.  They are part of the key because
   a library numbers its algorithms anew for each combination that it fuses: bias, ReLU, and in
   bfloat16 the mask. */
static void write_key(const dpt_op *op, char key[KEY_BYTES])
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    const bool forward = op->desc.kind == DPT_OP_CONV2D_FORWARD;
    const dpt_activation activation = forward ? d->activation : d->input_activation;
    char type[40] = "";
    if (op->desc.type == DPT_BF16 || (forward && d->has_bias))
        snprintf(type, sizeof type, "%s, activation %d%s",
                 op->desc.type == DPT_BF16 ? ", bfloat16" : "", (int)activation,
                 forward && d->has_bias ? ", bias" : "");
    snprintf(key, KEY_BYTES,
             "conv2d %s %zux%zux%zu to %zu, %zux%zu, stride %zux%zu, pad %zux%zu, "
             "dilation %zux%zu, groups %zu%s",
             pass_name(op->desc.kind), d->in_h, d->in_w, d->in_channels, d->out_channels,
             d->kernel_h, d->kernel_w, d->stride_h, d->stride_w, d->pad_h, d->pad_w, d->dilation_h,
             d->dilation_w, d->groups, type);
}

/* Elements of one sample of x and of y, and of all filters. */
typedef struct sizes {
    size_t x, y, w;
} sizes;

static sizes sizes_of(const dpt_conv2d_desc *d)
{
    const size_t taps =
        dpt_size_mul(dpt_size_mul(d->kernel_h, d->kernel_w), d->in_channels / d->groups);
    return (sizes){
        .x = dpt_size_mul(dpt_size_mul(d->in_h, d->in_w), d->in_channels),
        .y = dpt_size_mul(dpt_size_mul(d->out_h, d->out_w), d->out_channels),
        .w = dpt_size_mul(taps, d->out_channels),
    };
}

/* The sizes of the tensors, in the slots of DPT_OP_LIST (backend/op_list.h). */
static void set_extents(const dpt_op *op, sizes s, dpt_alternatives *choice)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    const size_t bytes = dpt_dtype_bytes(op->desc.type);
    const dpt_extent x = {.sample_bytes = s.x * bytes}, y = {.sample_bytes = s.y * bytes};
    const dpt_extent w = {.fixed_bytes = s.w * sizeof(float)};
    const dpt_extent bias = {.fixed_bytes = d->has_bias ? d->out_channels * sizeof(float) : 0};
    switch (op->desc.kind) {
    case DPT_OP_CONV2D_FORWARD:
        choice->in[0] = x;
        choice->in[1] = w;
        choice->in[2] = bias;
        choice->out[0] = y;
        break;
    case DPT_OP_CONV2D_BACKWARD_DATA:
        choice->in[0] = y;
        choice->in[1] = w;
        if (d->input_activation != DPT_ACT_NONE) choice->in[2] = x;
        choice->out[0] = x;
        break;
    default:
        choice->in[0] = y;
        choice->in[1] = x;
        choice->out[0] = w;
        choice->out[1] = bias;
    }
}

static dpt_status prepare_deterministic(dpt_op *op)
{
    const size_t tile = dpt_winograd_edge(op->desc.kind, &op->desc.u.conv2d);
    return tile > 0 ? dpt_winograd_chains(op, tile) : dpt_conv2d_chains(op, NULL);
}

dpt_status dpt_prepare_conv2d(dpt_op *op)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    const size_t limit = (size_t)1 << 31;
    const sizes s = sizes_of(d);
    if (s.x >= limit || s.y >= limit || s.w >= limit)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "a sample or the filters of a convolution have 2^31 elements or more");
    if (op->deterministic) return prepare_deterministic(op);
    char key[KEY_BYTES];
    dpt_alternative items[MAX_ITEMS];
    write_key(op, key);
    dpt_alternatives choice = {
        .items = items,
        .n_items = list_items(op->device, items),
        .key = key,
        .work = 2.0 * (double)s.y * (double)s.w / (double)d->out_channels,
    };
    set_extents(op, s, &choice);
    return dpt_prepare_best(op, &choice);
}
