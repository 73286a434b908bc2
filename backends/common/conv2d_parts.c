/* Planning and adding up the parts of filter gradients. */
#include "conv2d_parts.h"

dpt_conv2d_parts dpt_conv2d_parts_of(const dpt_conv2d_desc *d)
{
    dpt_conv2d_parts parts = {.n_weights = d->out_channels * d->kernel_h * d->kernel_w *
                                           (d->in_channels / d->groups),
                              .n_biases = d->has_bias ? d->out_channels : 0};
    parts.size = (parts.n_weights + parts.n_biases + 3) / 4 * 4;
    return parts;
}

dpt_status dpt_conv2d_parts_prepare(dpt_op *op, size_t most, dpt_conv2d_parts *parts)
{
    parts->sums_at = dpt_size_align(dpt_size_mul(most, parts->size * sizeof(float)));
    op->plan.workspace_bytes =
        dpt_size_add(parts->sums_at, dpt_column_sums_workspace(op->device, most, parts->n_weights));
    return dpt_column_sums_prepare(op->device, DPT_F32, &parts->sums);
}

dpt_status dpt_conv2d_parts_add(const dpt_conv2d_parts *parts, const dpt_call *call, size_t n,
                                bool accumulate)
{
    const dpt_op_args *args = call->args;
    dpt_column_sums_args sums = {
        .rows = n,
        .columns = parts->n_weights,
        .x = args->workspace,
        .row = parts->size,
        .y = args->out[0],
        .accumulate = accumulate,
        .workspace = dpt_at(args->workspace, parts->sums_at),
    };
    DPT_TRY(dpt_column_sums_run(&parts->sums, call->stream, &sums));
    if (parts->n_biases == 0) return DPT_OK;
    sums.columns = parts->n_biases;
    sums.x = dpt_at(args->workspace, parts->n_weights * sizeof(float));
    sums.y = args->out[1];
    return dpt_column_sums_run(&parts->sums, call->stream, &sums);
}
