/* Batched matrix products (MATMUL): launches of backends/kernels/matmul.cl. */
#include "matmul.h"
#include "operators.h"

#include <stdio.h>

enum {
    TILE = 64,
    SMALL_TILE = 32, /* for matrices that are no larger, and for devices with small groups */
    ITEM_SIZE = 32,  /* elements of a tile that a work item of a GPU computes */
};

typedef struct state {
    dpt_kernel *kernel;
    size_t tile, n_items, n_tiles; /* tiles of a product, work items of a group */
    bool exchanged;                /* the kernel's a is the operator's b, and y is transposed */
    matmul_params params;          /* complete except for what depends on the call */
} state;

/* ---- Running --------------------------------------------------------------------------------- */

static dpt_status run(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    const dpt_op_args *args = call->args;
    matmul_params p = s->params;
    p.n_pairs = call->n_samples * p.n_batch;
    p.accumulate = call->accumulate;
    dpt_launch l = dpt_launch_begin(call->stream, s->kernel);
    dpt_launch_tensor(&l, args->out[0], call->op->desc.type);
    dpt_launch_tensor(&l, args->in[s->exchanged ? 1 : 0], DPT_U8);
    dpt_launch_tensor(&l, args->in[s->exchanged ? 0 : 1], DPT_U8);
    dpt_launch_value(&l, &p, sizeof p);
    return dpt_launch_groups(&l, (const size_t[3]){s->n_tiles, p.n_pairs, 1},
                             (const size_t[3]){s->n_items, 1, 1});
}

/* ---- Preparing ------------------------------------------------------------------------------- */

/* Strides of axes with one index are not read, and may be anything. */
static matmul_operand operand_of(const dpt_matmul_operand *o, const size_t batch[3], bool exchanged)
{
    matmul_operand to = {.sample = o->per_sample ? o->elements : 0, .offset = (u32)o->offset};
    for (size_t i = 0; i < DPT_MATMUL_AXES; i++)
        to.batch[i] = batch[i] > 1 ? (u32)o->batch_stride[i] : 0;
    to.row = (u32)(exchanged ? o->column_stride : o->row_stride);
    to.column = (u32)(exchanged ? o->row_stride : o->column_stride);
    return to;
}

/* Whether the rows of y are nearer to each other than its columns. */
static bool exchanges(const dpt_matmul_desc *d)
{
    if (d->rows == 1 || d->columns == 1) return d->columns == 1;
    return d->y.column_stride > d->y.row_stride;
}

static matmul_params params_of(const dpt_matmul_desc *d, bool exchanged)
{
    const dpt_matmul_operand *a = exchanged ? &d->b : &d->a, *b = exchanged ? &d->a : &d->b;
    return (matmul_params){
        .a = operand_of(a, d->batch, exchanged),
        .b = operand_of(b, d->batch, exchanged),
        .y = operand_of(&d->y, d->batch, exchanged),
        .n_batch = (u32)(d->batch[0] * d->batch[1] * d->batch[2]),
        .batch1 = (u32)d->batch[1],
        .batch2 = (u32)d->batch[2],
        .rows = (u32)(exchanged ? d->columns : d->rows),
        .columns = (u32)(exchanged ? d->rows : d->columns),
        .inner = (u32)d->inner,
        .a_stored = a->per_sample,
        .b_stored = b->per_sample,
        .alpha = d->alpha,
    };
}

/* Chooses the tile, and gets the kernel for it. */
static dpt_status get_kernel(const dpt_op *op, state *s)
{
    enum { LEAST_LANES = 4, MOST_LANES = 16 };
    const dpt_traits *traits = dpt_traits_of(op->device);
    dpt_program_key key = {.file = "matmul.cl"};
    const bool is_small = s->params.rows <= SMALL_TILE || s->params.columns <= SMALL_TILE ||
                          traits->most_group_size < TILE * TILE / ITEM_SIZE;
    s->tile = is_small && !traits->is_cpu ? SMALL_TILE : TILE;
    s->n_items = traits->is_cpu ? 1 : s->tile * s->tile / ITEM_SIZE;
    if (traits->is_cpu) {
        unsigned lanes = LEAST_LANES;
        while (2 * lanes <= traits->vector_width && lanes < MOST_LANES)
            lanes *= 2;
        snprintf(key.options, sizeof key.options, "-DTILE=%zu -DLANES=%u", s->tile, lanes);
    } else {
        snprintf(key.options, sizeof key.options, "-DTILE=%zu", s->tile);
    }
    dpt_program_key_store(&key, op->desc.type);
    if (op->deterministic) dpt_program_key_deterministic(&key);
    return dpt_kernel_get(op->device, &key, "dpt_matmul", &s->kernel);
}

/* Whether products with x keep small integers exact. */
static bool is_small_integer(float x)
{
    return x > -4096.0f && x < 4096.0f && (float)(int)x == x;
}

dpt_status dpt_prepare_matmul(dpt_op *op)
{
    const dpt_matmul_desc *d = &op->desc.u.matmul;
    state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    s->exchanged = exchanges(d);
    s->params = params_of(d, s->exchanged);
    DPT_TRY(get_kernel(op, s));
    const size_t row_tiles = dpt_ceil_div(s->params.rows, s->tile);
    s->params.column_tiles = (u32)dpt_ceil_div(s->params.columns, s->tile);
    s->n_tiles = row_tiles * s->params.column_tiles;
    if (dpt_size_mul(op->max_samples, s->params.n_batch) > INT32_MAX)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "%zu samples have 2^31 products or more", op->max_samples);
    op->plan.run = run;
    op->plan.flops =
        2.0 * (double)s->params.n_batch * (double)d->rows * (double)d->columns * (double)d->inner;
    op->plan.exact = is_small_integer(d->alpha);
    op->plan.algorithm = s->tile == TILE ? "tiles of 64" : "tiles of 32";
    return DPT_OK;
}
