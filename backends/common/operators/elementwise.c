/* The element-wise operators, DPT_ELEMENTWISE_LIST.  The operator NAME has the kernel dpt_NAME of
   elementwise.cl. */
#include "elementwise.h"
#include "operators.h"

typedef struct state {
    dpt_kernel *kernel;
    unsigned n_inputs;
} state;

/* The kernel takes the output, the inputs, and a halt word if the operator honours one. */
static dpt_status run(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    const dpt_elementwise_desc *d = &call->op->desc.u.elementwise;
    const dpt_dtype type = call->op->desc.type;
    const size_t count = call->n_samples * d->count;
    const elementwise_params p = {.count = count,
                                  .alpha = d->alpha,
                                  .beta = d->beta,
                                  .halts = call->args->halt.buffer != NULL,
                                  .accumulate = call->accumulate};
    dpt_launch l = dpt_launch_begin(call->stream, s->kernel);
    dpt_launch_tensor(&l, call->args->out[0], type);
    for (unsigned i = 0; i < s->n_inputs; i++)
        dpt_launch_tensor(&l, call->args->in[i], type);
    if (dpt_op_traits_of(call->op->desc.kind).marks & DPT_MARK_HALT)
        dpt_launch_tensor(&l, call->args->halt, DPT_F32);
    dpt_launch_value(&l, &p, sizeof p);
    return dpt_launch_elements(&l, count, 1);
}

/* Whether products with x keep small integers exact. */
static bool is_small_integer(float x)
{
    return x > -65536.0f && x < 65536.0f && (float)(int)x == x;
}

/* Whether small integers give exact results. */
static bool is_exact(const dpt_op_desc *desc)
{
    const dpt_elementwise_desc *d = &desc->u.elementwise;
    const uint32_t marks = dpt_op_traits_of(desc->kind).marks;
    return (marks & DPT_MARK_EXACT) != 0 ||
           ((marks & DPT_MARK_EXACT_FACTORS) != 0 && is_small_integer(d->alpha) &&
            is_small_integer(d->beta));
}

/* The kernel of a kind, and the number of its inputs. */
static const char *find_kernel(dpt_op_kind kind, unsigned *n_inputs)
{
    switch (kind) {
#define DPT_IN(...) +1
#define DPT_OUT(...)
#define DPT_SUM(...)
#define FIND(KIND, name, FAMILY, in_place, marks, slots)                                           \
    case DPT_OP_##KIND: *n_inputs = 0 slots; return "dpt_" #name;
        DPT_ELEMENTWISE_LIST(FIND)
#undef FIND
#undef DPT_SUM
#undef DPT_OUT
#undef DPT_IN
    default: return NULL;
    }
}

dpt_status dpt_prepare_elementwise(dpt_op *op)
{
    state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    op->plan.run = run;
    op->plan.exact = is_exact(&op->desc);
    op->plan.algorithm = "an item an element";
    return dpt_op_kernel(op, "elementwise.cl", find_kernel(op->desc.kind, &s->n_inputs),
                         &s->kernel);
}
