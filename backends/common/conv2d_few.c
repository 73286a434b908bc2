/* Convolutions of images with few channels, on GPUs (kernels/conv2d_few.cl): forward and
   backward-weights.  Such images are the input of a network's first layer, which needs no
   backward-data. */
#include "conv2d_few.h"
#include "conv2d.h"
#include "conv2d_parts.h"

#include <stdio.h>

enum {
    FORWARD_GROUPS_PER_UNIT = 8, /* several times what runs at once, so that units end together */
    WEIGHTS_GROUPS_PER_UNIT = 3, /* what runs at once, since each leaves sums to be added up */
    LEAST_ROWS = 2,              /* of a band, which also reads some input of the next bands */
    MAX_EXTENT = 1 << 28,        /* of an image with its padding */
};

typedef struct state {
    dpt_kernel *kernel;
    conv2d_few_params params;
    size_t most_groups;
    dpt_conv2d_parts parts; /* of backward-weights: one for each group */
} state;

/* ---- Running --------------------------------------------------------------------------------- */

static size_t divide_bands(const state *s, size_t n_samples, conv2d_few_params *params)
{
    params->n_bands = n_samples * params->bands;
    params->each = dpt_ceil_div(params->n_bands, s->most_groups);
    return params->each > 0 ? dpt_ceil_div(params->n_bands, params->each) : 1;
}

static dpt_status launch(dpt_launch *l, const dpt_call *call, const conv2d_few_params *params,
                         size_t n_groups)
{
    const size_t group = dpt_traits_of(call->op->device)->group_size;
    dpt_launch_value(l, params, sizeof *params);
    return dpt_launch_groups(l, (const size_t[3]){n_groups, 1, 1}, (const size_t[3]){group, 1, 1});
}

static dpt_status forward(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    const dpt_op_args *args = call->args;
    conv2d_few_params params = s->params;
    const size_t n_groups = divide_bands(s, call->n_samples, &params);
    if (call->n_samples == 0) return DPT_OK;
    dpt_launch l = dpt_launch_begin(call->stream, s->kernel);
    dpt_launch_tensor(&l, args->out[0], call->op->desc.type);
    dpt_launch_tensor(&l, args->in[0], call->op->desc.type);
    dpt_launch_tensor(&l, args->in[1], DPT_F32);
    dpt_launch_tensor(&l, args->in[2], DPT_F32);
    return launch(&l, call, &params, n_groups);
}

/* A call of 0 samples launches one group without bands, which leaves zeros. */
static dpt_status backward_weights(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    const dpt_op_args *args = call->args;
    conv2d_few_params params = s->params;
    const size_t n_groups = divide_bands(s, call->n_samples, &params);
    dpt_launch l = dpt_launch_begin(call->stream, s->kernel);
    dpt_launch_tensor(&l, args->workspace, DPT_F32);
    dpt_launch_tensor(&l, args->in[0], call->op->desc.type);
    dpt_launch_tensor(&l, args->in[1], call->op->desc.type);
    DPT_TRY(launch(&l, call, &params, n_groups));
    return dpt_conv2d_parts_add(&s->parts, call, n_groups, call->accumulate);
}

/* ---- Preparing ------------------------------------------------------------------------------- */

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

static size_t larger(size_t a, size_t b)
{
    return a > b ? a : b;
}

static bool is_suited(const dpt_op *op)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    const size_t group = dpt_traits_of(op->device)->group_size;
    return op->desc.kind != DPT_OP_CONV2D_BACKWARD_DATA && d->groups == 1 && d->dilation_h == 1 &&
           d->dilation_w == 1 && d->kernel_h == d->kernel_w && d->out_channels % FEW_FILTER == 0 &&
           d->out_channels / FEW_FILTER <= group && !dpt_traits_of(op->device)->is_cpu &&
           dpt_size_add(d->in_h, dpt_size_mul(2, d->pad_h)) <= MAX_EXTENT &&
           dpt_size_add(d->in_w, dpt_size_mul(2, d->pad_w)) <= MAX_EXTENT &&
           dpt_size_mul(d->out_w, d->out_h) <= MAX_EXTENT && d->stride_h <= MAX_EXTENT &&
           d->stride_w <= MAX_EXTENT;
}

/* Sets the output rows of a band: as many as the input of a band has room for, but so few that all
   units of the device have work. */
static dpt_status divide_sample(dpt_op *op, state *s)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    const size_t line = dpt_size_mul((d->out_w - 1) * d->stride_w + d->kernel_w, d->in_channels);
    const size_t lines = line > 0 ? FEW_BAND / line : 0;
    if (lines < d->kernel_h)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "rows of an image are too long for this way to convolve");
    const size_t most_rows = (lines - d->kernel_h) / d->stride_h + 1;
    const size_t wanted = dpt_ceil_div(s->most_groups, larger(op->max_samples, 1));
    const size_t even = larger(dpt_ceil_div(d->out_h, wanted), LEAST_ROWS);
    const size_t rows = smaller(smaller(even, most_rows), d->out_h);
    s->params.line = (u32)line;
    s->params.rows = (u32)rows;
    s->params.bands = (u32)dpt_ceil_div(d->out_h, rows);
    return DPT_OK;
}

static dpt_status get_kernel(const dpt_op *op, const char *name, dpt_kernel **out)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    dpt_program_key key = {.file = "conv2d_few.cl"};
    snprintf(key.options, sizeof key.options, "-DKERNEL_SIZE=%zu -DCHANNELS=%zu", d->kernel_h,
             d->in_channels);
    dpt_program_key_store(&key, op->desc.type);
    return dpt_kernel_get(op->device, &key, name, out);
}

static dpt_status prepare(dpt_op *op, const void *nothing)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    const bool is_forward = op->desc.kind == DPT_OP_CONV2D_FORWARD;
    (void)nothing;
    if (!is_suited(op))
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "not a convolution of few channels to a multiple of four");
    state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    s->most_groups = (size_t)dpt_traits_of(op->device)->n_units *
                     (is_forward ? FORWARD_GROUPS_PER_UNIT : WEIGHTS_GROUPS_PER_UNIT);
    s->params = (conv2d_few_params){
        .in_h = (u32)d->in_h,
        .in_w = (u32)d->in_w,
        .out_h = (u32)d->out_h,
        .out_w = (u32)d->out_w,
        .out_channels = (u32)d->out_channels,
        .stride_h = (u32)d->stride_h,
        .stride_w = (u32)d->stride_w,
        .pad_h = (u32)d->pad_h,
        .pad_w = (u32)d->pad_w,
        .has_bias = d->has_bias,
        .activation = is_forward ? (u32)d->activation : 0,
    };
    DPT_TRY(divide_sample(op, s));
    DPT_TRY(get_kernel(op, is_forward ? "dpt_conv2d_few_forward" : "dpt_conv2d_few_weights",
                       &s->kernel));
    if (!is_forward) {
        s->parts = dpt_conv2d_parts_of(d);
        s->params.part_size = s->parts.size;
        DPT_TRY(dpt_conv2d_parts_prepare(op, s->most_groups, &s->parts));
    }
    op->plan.run = is_forward ? forward : backward_weights;
    op->plan.flops = 2.0 * (double)d->out_h * (double)d->out_w * (double)d->out_channels *
                     (double)d->kernel_h * (double)d->kernel_w * (double)d->in_channels;
    op->plan.exact = true;
    return DPT_OK;
}

const dpt_alternative dpt_conv2d_few[] = {{.name = "few", .prepare = prepare}, {.name = NULL}};
