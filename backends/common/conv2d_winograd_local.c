/* Deterministic Winograd convolutions whose products are those of kernels/matmul.cl: for GPUs. */
#include "conv2d_winograd.h"
#include "matmul_kernel.h"

typedef struct state {
    dpt_winograd w; /* comes first */
    dpt_matmul_kernel matmul;
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

/* Forward and backward-data: (tile, source) * (source, results) is (tile, results).
   Backward-weights: (tile, results)^T * (tile, source) is (results, source). */
static dpt_status multiply(const dpt_winograd_block *b)
{
    const state *s = b->call->op->plan.state;
    const dpt_winograd *w = &s->w;
    const bool weights = b->call->op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS;
    const matmul_operand source = matrix(w->source_c, b->source.layout.point_stride);
    const matmul_operand results = matrix(w->result_c, b->results.layout.point_stride);
    const matmul_operand matrices = matrix(weights ? w->source_c : w->result_c, w->matrix_stride);
    const matmul_params p = {
        .n_pairs = w->points,
        .a = weights ? transposed(results) : source,
        .b = weights ? source : matrices,
        .y = weights ? matrices : results,
        .n_batch = 1,
        .batch1 = 1,
        .batch2 = 1,
        .rows = weights ? (u32)w->result_c : b->source.n_tiles,
        .columns = (u32)(weights ? w->source_c : w->result_c),
        .inner = weights ? b->source.n_tiles : (u32)w->source_c,
        .alpha = 1.0f,
        .resume = weights && b->first > 0,
    };
    const dpt_location of_source = dpt_winograd_source(b->call);
    const dpt_location of_results = dpt_winograd_results(b->call);
    const dpt_location of_matrices = dpt_winograd_matrices(b->call);
    dpt_launch l = dpt_launch_begin(b->call->stream, s->matmul.kernel);
    dpt_launch_tensor(&l, weights ? of_matrices : of_results, DPT_F32);
    dpt_launch_tensor(&l, weights ? of_results : of_source, DPT_U8);
    dpt_launch_tensor(&l, weights ? of_source : of_matrices, DPT_U8);
    return dpt_matmul_launch(&s->matmul, &l, p);
}

dpt_status dpt_winograd_local_chains(dpt_op *op, size_t tile)
{
    const dpt_winograd_form form = {.tile = tile,
                                    .width = 1,
                                    .rows = 1,
                                    .panel = 1,
                                    .block_bytes = (size_t)256 << 20, /* enough work for a GPU */
                                    .adjoint = true,
                                    .multiply = multiply};
    const bool weights = op->desc.kind == DPT_OP_CONV2D_BACKWARD_WEIGHTS;
    state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    DPT_TRY(dpt_winograd_prepare(op, &form, &s->w));
    const size_t rows = weights ? s->w.result_c : s->w.block_samples * s->w.tiles_h * s->w.tiles_w;
    DPT_TRY(dpt_matmul_kernel_get(op, rows, weights ? s->w.source_c : s->w.result_c, &s->matmul));
    op->plan.algorithm = "local winograd chains";
    return dpt_winograd_complete(op, &s->w, 0, false);
}
