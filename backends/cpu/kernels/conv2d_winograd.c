/* Winograd convolution forward, and backward to its input, which is the same with dy as the source
   and rotated filters. */
#include "activation.h"
#include "kinds.h"
#include "winograd.h"

#include <stdlib.h>

/* ---- Products -------------------------------------------------------------------------------- */

/* Products (tile, result channel) of each point: rows of data times packed filters. */
static void multiply(const winograd *v, const winograd_crew *crew, size_t n_tiles,
                     const float *data, const float *filters, float *products)
{
    const size_t n_panels = KERNEL(panel_count)(v->results.c);
    const dpt_cpu_range mine =
        dpt_cpu_split(v->points * n_panels, 1, crew->thread, crew->n_threads);
    for (size_t unit = mine.begin; unit < mine.end; unit++) {
        const size_t point = unit / n_panels;
        const panel p = KERNEL(panel_at)(v->results.c, unit % n_panels);
        const strip rows = {.n_rows = n_tiles,
                            .depth = v->source.c,
                            .a = data + point * v->data.point,
                            .a_row = v->data.row,
                            .a_step = 1,
                            .b = filters + point * v->filter_point + p.start * v->source.c,
                            .c = products + point * v->products.point + p.start,
                            .c_row = v->products.row};
        KERNEL(strip_run)(&p, &rows);
    }
}

/* ---- Blocks ---------------------------------------------------------------------------------- */

/* The part of a block that one of a crew transforms. */
static dpt_cpu_range part_of(const winograd_crew *crew, dpt_cpu_range block)
{
    const dpt_cpu_range part =
        dpt_cpu_split(block.end - block.begin, 1, crew->thread, crew->n_threads);
    return (dpt_cpu_range){block.begin + part.begin, block.begin + part.end};
}

static size_t scratch_size(const winograd *v)
{
    return dpt_cpu_mul(v->points, dpt_cpu_add(v->data.point, v->products.point));
}

static void do_tiles(const winograd *v, const winograd_crew *crew, const float *x,
                     const float *filters, const winograd_ending *ending, float *y)
{
    float *data = crew->scratch, *products = data + v->points * v->data.point;
    for (size_t first = crew->tiles.begin; first < crew->tiles.end; first += v->block) {
        const size_t end = first + v->block;
        const dpt_cpu_range block = {first, end < crew->tiles.end ? end : crew->tiles.end};
        const dpt_cpu_range part = part_of(crew, block);
        KERNEL(winograd_data)(v, crew, x, part, first, data);
        dpt_cpu_barrier(crew->team, crew->n_threads);
        multiply(v, crew, block.end - block.begin, data, filters, products);
        dpt_cpu_barrier(crew->team, crew->n_threads);
        KERNEL(winograd_results)(v, products, part, first, ending, y);
    }
}

/* ---- The operators --------------------------------------------------------------------------- */

/* Workspace: filters, zeros, then the scratch of each crew. */
static size_t filters_size(const winograd *v)
{
    return dpt_cpu_mul(v->points, v->filter_point);
}

static void convolve(const dpt_cpu_call *call, unsigned thread, unsigned n_threads,
                     const winograd_ending *ending)
{
    const winograd *v = call->op->plan.state;
    float *filters = call->workspace, *zeros = filters + filters_size(v);
    float *scratch = zeros + call->op->n_threads * KERNEL(winograd_zeros_size)(v);
    const bool rotated = call->op->desc.kind == DPT_OP_CONV2D_BACKWARD_DATA;
    const winograd_crew crew =
        KERNEL(winograd_crew_of)(v, call, thread, n_threads, zeros, scratch, scratch_size(v));
    KERNEL(winograd_filters)(v, rotated, call->in[1], thread, n_threads, filters);
    dpt_cpu_barrier(call->team, n_threads);
    do_tiles(v, &crew, call->in[0], filters, ending, call->out[0]);
}

/* This thread's part of the results, when all are there. */
static dpt_cpu_range finished_part(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const winograd *v = call->op->plan.state;
    dpt_cpu_barrier(call->team, n_threads);
    return dpt_cpu_split(call->n_samples * v->results.h * v->results.w * v->results.c, 16, thread,
                         n_threads);
}

/* x (n,in_h,in_w,C) * w (O,taps,taps,C) + bias (O) -> y (n,out_h,out_w,O) */
static void forward(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const winograd *v = call->op->plan.state;
    const dpt_activation activation = v->desc.activation;
    const winograd_ending ending = {.bias = v->desc.has_bias ? call->in[2] : NULL,
                                    .relu = activation == DPT_ACT_RELU};
    convolve(call, thread, n_threads, &ending);
    if (activation == DPT_ACT_NONE || activation == DPT_ACT_RELU) return;
    const dpt_cpu_range part = finished_part(call, thread, n_threads);
    float *y = call->out[0];
    KERNEL(activate)(activation, y + part.begin, y + part.begin, part.end - part.begin);
}

/* dy (n,out_h,out_w,O), w (O,taps,taps,C) -> dx (n,in_h,in_w,C) */
static void backward_data(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const winograd *v = call->op->plan.state;
    const dpt_activation mask = v->desc.input_activation;
    const winograd_ending ending = {.mask = mask == DPT_ACT_RELU ? call->in[2] : NULL,
                                    .accumulate = call->accumulate};
    convolve(call, thread, n_threads, &ending);
    if (mask == DPT_ACT_NONE || mask == DPT_ACT_RELU) return;
    const dpt_cpu_range part = finished_part(call, thread, n_threads);
    const float *x = call->in[2];
    float *dx = call->out[0];
    KERNEL(differentiate)
    (mask, dx + part.begin, x + part.begin, dx + part.begin, part.end - part.begin);
}

/* ---- Preparing ------------------------------------------------------------------------------- */

static dpt_status prepare(dpt_op *op, size_t edge, dpt_cpu_kernel *kernel, dpt_activation kind,
                          dpt_error *error)
{
    winograd *v;
    DPT_TRY(KERNEL(winograd_create)(op, edge, &v, error));
    op->plan.state = v;
    v->filter_point =
        KERNEL(winograd_stride)(dpt_cpu_mul(KERNEL(packed_width)(v->results.c), v->source.c));
    KERNEL(winograd_choose_blocks)(op, 1, v);
    v->data = KERNEL(winograd_row_layout)(v->source.c, v->block);
    v->products = KERNEL(winograd_row_layout)(v->results.c, v->block);
    KERNEL(winograd_describe)(op, v);
    op->plan.kernel = kernel;
    op->plan.exact = edge == 2 && KERNEL(activation_exact)(kind);
    const size_t n_crews = v->together ? 1 : op->n_threads;
    const size_t zeros = dpt_cpu_mul(op->n_threads, KERNEL(winograd_zeros_size)(v));
    const size_t size =
        dpt_cpu_add(dpt_cpu_add(filters_size(v), zeros), dpt_cpu_mul(n_crews, scratch_size(v)));
    op->plan.workspace_bytes = dpt_cpu_mul(size, sizeof(float));
    return DPT_OK;
}

dpt_status KERNEL(prepare_winograd4_forward)(dpt_op *op, dpt_error *error)
{
    return prepare(op, 4, forward, op->desc.u.conv2d.activation, error);
}

dpt_status KERNEL(prepare_winograd3_forward)(dpt_op *op, dpt_error *error)
{
    return prepare(op, 3, forward, op->desc.u.conv2d.activation, error);
}

dpt_status KERNEL(prepare_winograd2_forward)(dpt_op *op, dpt_error *error)
{
    return prepare(op, 2, forward, op->desc.u.conv2d.activation, error);
}

dpt_status KERNEL(prepare_winograd4_backward_data)(dpt_op *op, dpt_error *error)
{
    return prepare(op, 4, backward_data, op->desc.u.conv2d.input_activation, error);
}

dpt_status KERNEL(prepare_winograd3_backward_data)(dpt_op *op, dpt_error *error)
{
    return prepare(op, 3, backward_data, op->desc.u.conv2d.input_activation, error);
}

dpt_status KERNEL(prepare_winograd2_backward_data)(dpt_op *op, dpt_error *error)
{
    return prepare(op, 2, backward_data, op->desc.u.conv2d.input_activation, error);
}
