/* Winograd convolutions whose products are those of kernels/matmul.cl: for GPUs. */
#include "conv2d.h"
#include "conv2d_winograd.h"
#include "matmul_kernel.h"

#include <stdio.h>

enum {
    FEW_TILES = 16, /* of a grain: with more, products with sums in memory are as fast */
};

typedef struct state {
    dpt_winograd w; /* comes first */
    dpt_matmul_kernel matmul;
    dpt_kernel *grains; /* winograd_grains.cl, or NULL */
} state;

/* A row-major matrix for each point, with the distance between rows and between points. */
static matmul_operand matrix(size_t row, size_t point_stride)
{
    return (matmul_operand){.sample = point_stride, .row = (u32)row, .column = 1};
}

static matmul_operand transposed(matmul_operand m)
{
    const u32 row = m.row;
    m.row = m.column;
    m.column = row;
    return m;
}

/* Forward and backward-data: (tile, source) * (source, results) is (tile, results). */
static dpt_status multiply(const dpt_winograd_block *b)
{
    const state *s = b->call->op->plan.state;
    const dpt_winograd *w = &s->w;
    const matmul_params p = {
        .n_pairs = w->points,
        .a = matrix(w->source_c, b->source.layout.point_stride),
        .b = matrix(w->result_c, w->matrix_stride),
        .y = matrix(w->result_c, b->results.layout.point_stride),
        .n_batch = 1,
        .batch1 = 1,
        .batch2 = 1,
        .rows = b->source.n_tiles,
        .columns = (u32)w->result_c,
        .inner = (u32)w->source_c,
        .alpha = 1.0f,
    };
    dpt_launch l = dpt_launch_begin(b->call->stream, s->matmul.kernel);
    dpt_launch_tensor(&l, dpt_winograd_results(b->call), DPT_F32);
    dpt_launch_tensor(&l, dpt_winograd_source(b->call), DPT_U8);
    dpt_launch_tensor(&l, dpt_winograd_matrices(b->call), DPT_U8);
    return dpt_matmul_launch(&s->matmul, &l, p);
}

/* The matrices of the points of grains: a point is an element of the batch, and a grain a
   sample. */
static matmul_operand of_grains(matmul_operand points, size_t grain_stride)
{
    points.batch[0] = (u32)points.sample;
    points.sample = grain_stride;
    return points;
}

/* Backward-weights: (tile, results)^T * (tile, source) is (results, source), for n grains of as
   many tiles from `first` on.  at: the first grain's place among the sums. */
static dpt_status multiply_alike(const dpt_winograd_block *b, const dpt_winograd_grains *alike,
                                 size_t at)
{
    const state *s = b->call->op->plan.state;
    const dpt_winograd *w = &s->w;
    const matmul_operand source = matrix(w->source_c, b->source.layout.point_stride);
    const matmul_operand results = matrix(w->result_c, b->results.layout.point_stride);
    const matmul_operand sums = matrix(w->source_c, w->matrix_stride);
    const matmul_params p = {
        .n_pairs = w->points * alike->n,
        .a = of_grains(transposed(results), alike->each * w->result_c),
        .b = of_grains(source, alike->each * w->source_c),
        .y = of_grains(sums, w->grains.grain_stride),
        .n_batch = (u32)w->points,
        .batch1 = 1,
        .batch2 = 1,
        .rows = (u32)w->result_c,
        .columns = (u32)w->source_c,
        .inner = (u32)alike->each,
        .alpha = 1.0f,
        .resume = alike->resumes,
    };
    const size_t size = sizeof(float);
    dpt_launch l = dpt_launch_begin(b->call->stream, s->matmul.kernel);
    dpt_launch_tensor(
        &l, dpt_at(dpt_winograd_matrices(b->call), at * w->grains.grain_stride * size), DPT_F32);
    dpt_launch_tensor(&l, dpt_at(dpt_winograd_results(b->call), alike->first * w->result_c * size),
                      DPT_U8);
    dpt_launch_tensor(&l, dpt_at(dpt_winograd_source(b->call), alike->first * w->source_c * size),
                      DPT_U8);
    return dpt_matmul_launch(&s->matmul, &l, p);
}

static dpt_status multiply_grains(const dpt_winograd_block *b, const dpt_winograd_grains *grains)
{
    dpt_winograd_grains alike = *grains;
    const bool odd = grains->last != grains->each; /* the last grain has a launch of its own */
    alike.n = odd ? grains->n - 1 : grains->n;
    if (alike.n > 0) DPT_TRY(multiply_alike(b, &alike, 0));
    if (!odd) return DPT_OK;
    alike.first += alike.n * grains->each;
    alike.each = grains->last;
    alike.n = 1;
    return multiply_alike(b, &alike, grains->n - 1);
}

/* Deterministic backward-weights by winograd_grains.cl. */
static dpt_status sum_grains(const dpt_winograd_block *b, const dpt_winograd_grains *grains,
                             const winograd_weights *w)
{
    const dpt_call *call = b->call;
    const state *s = call->op->plan.state;
    const size_t side = WINOGRAD_SIDE;
    const bool apart = !w->is_tree && w->n_grains > 1;
    const winograd_grains p = {
        .weights = *w,
        .x_stride = b->source.layout.point_stride,
        .dy_stride = b->results.layout.point_stride,
        .n_tiles = b->source.n_tiles,
        .each = (u32)grains->each,
        .columns = (u32)dpt_ceil_div(w->in_channels, side),
    };
    const size_t groups[3] = {dpt_ceil_div(w->out_channels, side) * p.columns,
                              apart ? w->n_grains : 1, 1};
    dpt_launch l = dpt_launch_begin(call->stream, s->grains);
    dpt_launch_tensor(&l, apart ? dpt_winograd_gradients(call) : call->args->out[0], DPT_F32);
    dpt_launch_tensor(&l, dpt_winograd_results(call), DPT_F32);
    dpt_launch_tensor(&l, dpt_winograd_source(call), DPT_F32);
    dpt_launch_value(&l, &p, sizeof p);
    return dpt_launch_groups(&l, groups, (const size_t[3]){side * side, 1, 1});
}

/* Whether winograd_grains.cl can sum up grains.  The points of 5x5 filters would not fit into
   registers. */
static bool can_sum_grains(const dpt_op *op, size_t tile)
{
    const dpt_traits *traits = dpt_traits_of(op->device);
    const size_t side = WINOGRAD_SIDE, points = (tile + 2) * (tile + 2);
    return op->deterministic && op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS && tile != 3 &&
           side * side <= traits->most_group_size &&
           8 * points * side * sizeof(float) <= traits->most_shared_bytes;
}

static dpt_status get_grains(const dpt_op *op, size_t tile, dpt_kernel **out)
{
    dpt_program_key key = {.file = "winograd_grains.cl"};
    snprintf(key.options, sizeof key.options, "-DTILE=%zu -DTAPS=3", tile);
    dpt_program_key_deterministic(&key);
    return dpt_kernel_get(op->device, &key, "winograd_grains_of", out);
}

static dpt_status prepare_tile(dpt_op *op, size_t tile)
{
    const bool grains = can_sum_grains(op, tile);
    const dpt_winograd_form form = {.tile = tile,
                                    .width = 1,
                                    .rows = 1,
                                    .panel = 1,
                                    .block_bytes = (size_t)512 << 20, /* enough work for a GPU */
                                    .adjoint = true,
                                    .multiply = multiply,
                                    .multiply_grains = multiply_grains,
                                    .sum_grains = grains ? sum_grains : NULL,
                                    .few_tiles = FEW_TILES};
    const bool weights = op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS;
    state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    DPT_TRY(dpt_winograd_prepare(op, &form, &s->w));
    const size_t rows = weights ? s->w.result_c : s->w.block_samples * s->w.tiles_h * s->w.tiles_w;
    DPT_TRY(dpt_matmul_kernel_get(op, rows, weights ? s->w.source_c : s->w.result_c, &s->matmul));
    if (grains) DPT_TRY(get_grains(op, tile, &s->grains));
    return dpt_winograd_complete(op, &s->w, 0, false);
}

dpt_status dpt_winograd_local_chains(dpt_op *op, size_t tile)
{
    op->plan.algorithm = "local winograd chains";
    return prepare_tile(op, tile);
}

/* ---- Alternatives ---------------------------------------------------------------------------- */

enum {
    LEAST_CHANNELS = 16, /* with fewer, transforms take longer than products */
};

static dpt_status prepare(dpt_op *op, const void *tile)
{
    const dpt_conv2d_desc *d = &op->desc.u.conv2d;
    const dpt_traits *traits = dpt_traits_of(op->device);
    if (op->desc.type != DPT_F32 || traits->input_rounding != 0.0)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "these Winograd convolutions are for true float32");
    if (d->in_channels < LEAST_CHANNELS || d->out_channels < LEAST_CHANNELS)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "too few channels for a Winograd convolution");
    return prepare_tile(op, *(const size_t *)tile);
}

#define TILE(edge)                                                                                 \
    &(const size_t)                                                                                \
    {                                                                                              \
        edge                                                                                       \
    }
const dpt_alternative dpt_conv2d_winograd[] = {
    {.name = "winograd4", .parameters = TILE(4), .prepare = prepare},
    {.name = "winograd2", .parameters = TILE(2), .prepare = prepare},
    {.name = "winograd3", .parameters = TILE(3), .prepare = prepare},
    {.name = NULL},
};
