/* Batched matrix products (MATMUL): launches of backends/kernels/matmul.cl. */
#include "matmul_kernel.h"
#include "operators.h"

typedef struct state {
    dpt_matmul_kernel kernel;
    bool exchanged;       /* the kernel's a is the operator's b, and y is transposed */
    matmul_params params; /* complete except for what depends on the call */
} state;

/* ---- Running --------------------------------------------------------------------------------- */

static dpt_status run(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    const dpt_op_args *args = call->args;
    matmul_params p = s->params;
    p.n_pairs = call->n_samples * p.n_batch;
    p.accumulate = call->accumulate;
    dpt_launch l = dpt_launch_begin(call->stream, s->kernel.kernel);
    dpt_launch_tensor(&l, args->out[0], call->op->desc.type);
    dpt_launch_tensor(&l, args->in[s->exchanged ? 1 : 0], DPT_U8);
    dpt_launch_tensor(&l, args->in[s->exchanged ? 0 : 1], DPT_U8);
    return dpt_matmul_launch(&s->kernel, &l, p);
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
    DPT_TRY(dpt_matmul_kernel_get(op, s->params.rows, s->params.columns, &s->kernel));
    if (dpt_size_mul(op->max_samples, s->params.n_batch) > INT32_MAX)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "%zu samples have 2^31 products or more", op->max_samples);
    op->plan.run = run;
    op->plan.flops =
        2.0 * (double)s->params.n_batch * (double)d->rows * (double)d->columns * (double)d->inner;
    op->plan.exact = is_small_integer(d->alpha);
    op->plan.algorithm = s->kernel.tile == 64 ? "tiles of 64" : "tiles of 32";
    return DPT_OK;
}
