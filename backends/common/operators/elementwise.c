/* MULTIPLY, ADD and AFFINE. */
#include "elementwise.h"
#include "operators.h"

typedef struct state {
    dpt_kernel *kernel;
    bool has_b, may_halt;
} state;

/* a, b -> c */
static dpt_status run(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    const dpt_elementwise_desc *d = &call->op->desc.u.elementwise;
    const dpt_dtype type = call->op->desc.type;
    const size_t count = call->n_samples * d->count;
    const elementwise_params p = {.count = count,
                                  .alpha = d->alpha,
                                  .beta = d->beta,
                                  .halts = call->args->halt.buffer != NULL};
    dpt_launch l = dpt_launch_begin(call->stream, s->kernel);
    dpt_launch_tensor(&l, call->args->out[0], type);
    dpt_launch_tensor(&l, call->args->in[0], type);
    if (s->has_b) dpt_launch_tensor(&l, call->args->in[1], type);
    if (s->may_halt) dpt_launch_tensor(&l, call->args->halt, DPT_F32);
    dpt_launch_value(&l, &p, sizeof p);
    return dpt_launch_elements(&l, count, 1);
}

/* Products with it keep small integers exact. */
static bool is_small_integer(float x)
{
    return x > -65536.0f && x < 65536.0f && (float)(int)x == x;
}

dpt_status dpt_prepare_elementwise(dpt_op *op)
{
    const dpt_elementwise_desc *d = &op->desc.u.elementwise;
    const dpt_op_kind kind = op->desc.kind;
    state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    s->has_b = kind != DPT_OP_AFFINE;
    s->may_halt = kind == DPT_OP_ADD;
    op->plan.run = run;
    op->plan.exact =
        kind == DPT_OP_MULTIPLY || (is_small_integer(d->alpha) && is_small_integer(d->beta));
    op->plan.algorithm = "an item an element";
    return dpt_kernel_storing(op->device, "elementwise.cl", op->desc.type,
                              kind == DPT_OP_MULTIPLY ? "dpt_multiply"
                              : kind == DPT_OP_ADD    ? "dpt_add"
                                                      : "dpt_affine",
                              &s->kernel);
}
