/* The softmax of rows: launches of backends/kernels/row_softmax.cl. */
#include "row_softmax.h"
#include "operators.h"

enum { LANES = 8 }; /* of a deterministic sum: that of row_softmax_fixed.cl */

/* Up to this number of columns, a work item computes a whole row. */
enum { FEW_COLUMNS = 32 };

typedef struct state {
    dpt_kernel *kernel;
    size_t n_in; /* tensors that are read: 1 forward, 2 backward */
} state;

/* x -> y, or dy, y -> dx */
static dpt_status run(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    const dpt_row_softmax_desc *d = &call->op->desc.u.row_softmax;
    const size_t group = dpt_traits_of(call->op->device)->group_size;
    const row_softmax_params p = {.n_rows = call->n_samples * d->rows,
                                  .columns = (u32)d->columns,
                                  .log_of = d->log,
                                  .accumulate = call->accumulate};
    dpt_launch l = dpt_launch_begin(call->stream, s->kernel);
    dpt_launch_tensor(&l, call->args->out[0], call->op->desc.type);
    for (size_t i = 0; i < s->n_in; i++)
        dpt_launch_tensor(&l, call->args->in[i], call->op->desc.type);
    dpt_launch_value(&l, &p, sizeof p);
    if (call->op->deterministic) return dpt_launch_rows(&l, p.n_rows, LANES);
    return dpt_launch_items(&l, p.n_rows * (d->columns <= FEW_COLUMNS ? 1 : group));
}

dpt_status dpt_prepare_row_softmax(dpt_op *op)
{
    const dpt_row_softmax_desc *d = &op->desc.u.row_softmax;
    const bool few = d->columns <= FEW_COLUMNS,
               is_forward = op->desc.kind == DPT_OP_ROW_SOFTMAX_FORWARD;
    const char *const name =
        is_forward ? (few ? "dpt_row_softmax_few" : "dpt_row_softmax_many")
                   : (few ? "dpt_row_softmax_backward_few" : "dpt_row_softmax_backward_many");
    DPT_TRY(dpt_check_sample(op, dpt_size_mul(d->rows, d->columns)));
    state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    s->n_in = is_forward ? 1 : 2;
    op->plan.run = run;
    if (op->deterministic) {
        op->plan.algorithm = "lanes";
        return dpt_kernel_deterministic(
            op->device, "row_softmax_fixed.cl",
            is_forward ? "dpt_row_softmax_fixed" : "dpt_row_softmax_backward_fixed", &s->kernel);
    }
    op->plan.algorithm = few ? "an item a row" : "a group a row";
    return dpt_kernel_storing(
        op->device, &(dpt_stored_kernel){"row_softmax.cl", op->desc.type, name}, &s->kernel);
}
