/* Convolutions for CPUs: the list of tiles, and the code that the passes share. */
#include "registers.h"

#include <stdio.h>
#include <string.h>

enum { CHUNK_BYTES = 8 << 20 };

/* Whether the device takes vectors of this width.  A device with wide vectors takes narrow ones
   only if a test asks for them by name. */
static bool has_width(const dpt_cl_device *d, unsigned width)
{
    static const char narrow[] = "registers8";
    const char *asked = d->params.algorithm;
    const bool wants_narrow = asked && strncmp(asked, narrow, sizeof narrow - 1) == 0;
    const bool wide = d->found->vector_width >= 16 && !wants_narrow;
    return width == (wide ? 16 : 8);
}

static dpt_status prepare_layer(dpt_op *op, const dpt_cl_conv_tile *tile,
                                const dpt_conv2d_linear *layer)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    if (!has_width(dpt_cl_device_of(op->device), tile->width))
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "the device's vectors are not %u floats wide", tile->width);
    const bool exact = op->desc.kind == DPT_OP_CONV2D_FORWARD
                           ? d->activation <= DPT_ACT_RELU
                           : op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS ||
                                 d->input_activation <= DPT_ACT_RELU;
    op->plan.exact = exact;
    op->plan.flops = 2.0 * (double)(d->out_h * d->out_w) * (double)d->out_channels *
                     (double)(d->kernel_h * d->kernel_w * (d->in_channels / d->groups));
    return op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS
               ? dpt_cl_conv_prepare_weights(op, tile, layer)
               : dpt_cl_conv_prepare_gather(op, tile, layer);
}

static dpt_status prepare(dpt_op *op, const void *parameters)
{
    return prepare_layer(op, parameters, NULL);
}

/* The tiles for 32 vector registers, then those for 16.  The sums, a row of filters and an input
   fit into the registers. */
#define TILE(width, rows, units)                                                                   \
    &(const dpt_cl_conv_tile)                                                                      \
    {                                                                                              \
        (rows), (units), (width)                                                                   \
    }
const dpt_alternative dpt_cl_conv2d_registers[] = {
    {.name = "registers16-13x32", .parameters = TILE(16, 13, 2), .prepare = prepare},
    {.name = "registers16-6x64", .parameters = TILE(16, 6, 4), .prepare = prepare},
    {.name = "registers16-8x48", .parameters = TILE(16, 8, 3), .prepare = prepare},
    {.name = "registers16-13x16", .parameters = TILE(16, 13, 1), .prepare = prepare},
    {.name = "registers8-6x16", .parameters = TILE(8, 6, 2), .prepare = prepare},
    {.name = "registers8-4x24", .parameters = TILE(8, 4, 3), .prepare = prepare},
    {.name = "registers8-11x8", .parameters = TILE(8, 11, 1), .prepare = prepare},
    {.name = NULL},
};

/* ---- Deterministic operators ----------------------------------------------------------------- */

/* A tile whose lanes are nearly full.  The bits do not depend on it. */
static const dpt_cl_conv_tile *choose_tile(const dpt_op *op)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    const bool is_data = op->desc.kind == DPT_OP_CONV2D_BACKWARD_DATA;
    const size_t channels = (is_data ? d->in_channels : d->out_channels) / d->groups;
    static const dpt_cl_conv_tile wide[] = {{13, 1, 16}, {13, 2, 16}};
    static const dpt_cl_conv_tile narrow[] = {{11, 1, 8}, {6, 2, 8}};
    if (has_width(dpt_cl_device_of(op->device), 16)) return &wide[channels > 16];
    return &narrow[channels > 8];
}

dpt_status dpt_conv2d_chains(dpt_op *op, const dpt_conv2d_linear *layer)
{
    const dpt_cl_device *cl = dpt_cl_device_of(op->device);
    if (!cl->found->is_cpu || cl->params.path == DPT_CL_PATH_LOCAL)
        return dpt_conv2d_local_chains(op, layer);
    const dpt_status status = prepare_layer(op, choose_tile(op), layer);
    op->plan.algorithm = "register chains";
    return status;
}

/* ---- What the passes share ------------------------------------------------------------------- */

dpt_status dpt_cl_conv_kernel_get(dpt_op *op, const dpt_cl_conv_tile *tile,
                                  const dpt_cl_conv_kernel *kernel, dpt_kernel **out)
{
    dpt_program_key key = {.file = kernel->file};
    snprintf(key.options, sizeof key.options, "-DROWS=%u -DUNITS=%u -DV=%u %s", tile->rows,
             tile->units, tile->width, kernel->option);
    if (op->deterministic) dpt_program_key_deterministic(&key);
    return dpt_kernel_get(op->device, &key, kernel->name, out);
}

dpt_status dpt_cl_conv_launch(dpt_launch *launch, size_t n0, size_t n1, size_t n2)
{
    return dpt_launch_groups(launch, (const size_t[3]){n0, n1, n2}, (const size_t[3]){1, 1, 1});
}

/* ---- Frames ---------------------------------------------------------------------------------- */

size_t dpt_cl_conv_frame_size(const dpt_cl_conv_frame *f)
{
    return dpt_size_mul(dpt_size_mul(f->above + f->h + f->below, f->left + f->w + f->right),
                        f->channels);
}

size_t dpt_cl_conv_chunk(const dpt_op *op, size_t floats)
{
    const size_t n_bytes = dpt_cl_max(dpt_size_mul(floats, sizeof(float)), 1);
    const size_t units = dpt_cl_device_of(op->device)->found->compute_units;
    return dpt_cl_min(dpt_cl_max(CHUNK_BYTES / n_bytes, 4 * dpt_cl_max(units, 1)),
                      dpt_cl_max(op->max_samples, 1));
}

dpt_status dpt_cl_conv_frame_run(dpt_stream *stream, dpt_kernel *kernel,
                                 const dpt_cl_conv_copy *copy)
{
    const dpt_cl_conv_frame *f = copy->frame;
    const conv_frame_params p = {
        .in_h = (u32)f->h,
        .in_row = (u32)(f->w * f->channels),
        .out_h = (u32)(f->above + f->h + f->below),
        .out_row = (u32)((f->left + f->w + f->right) * f->channels),
        .first_h = (u32)f->above,
        .first = (u32)(f->left * f->channels),
    };
    dpt_launch l = dpt_launch_begin(stream, kernel);
    dpt_launch_tensor(&l, copy->to, DPT_F32);
    dpt_launch_tensor(&l, copy->from, DPT_F32);
    dpt_launch_value(&l, &p, sizeof p);
    return dpt_cl_conv_launch(&l, p.out_h, copy->n_samples, 1);
}
