/* The matrix products of linear layers, and the gradients of their biases. */
#include "linear.h"

/* x (n,in), w (out,in), bias (out) -> y (n,out) */
static dpt_product forward(const dpt_linear_desc *d, size_t n, const dpt_op_args *args)
{
    return (dpt_product){
        .m = n,
        .n = d->out,
        .k = d->in,
        .b_transposed = true,
        .a = args->in[0],
        .lda = d->in,
        .b = args->in[1],
        .ldb = d->in,
        .c = args->out[0],
        .ldc = d->out,
        .has_bias = d->has_bias,
        .bias = args->in[2],
        .activation = d->activation,
    };
}

/* dy (n,out), w (out,in) -> dx (n,in), masked by x (n,in) */
static dpt_product backward_data(const dpt_linear_desc *d, size_t n, const dpt_op_args *args)
{
    return (dpt_product){
        .m = n,
        .n = d->in,
        .k = d->out,
        .a = args->in[0],
        .lda = d->out,
        .b = args->in[1],
        .ldb = d->in,
        .c = args->out[0],
        .ldc = d->in,
        .mask = args->in[2],
        .mask_activation = d->input_activation,
    };
}

/* dy (n,out), x (n,in) -> dw (rows,in) = dy^T x of columns first .. of dy */
static dpt_product backward_weights(const dpt_linear_desc *d, dpt_dtype type, size_t n,
                                    const dpt_op_args *args)
{
    return (dpt_product){
        .m = dpt_linear_rows(d),
        .n = d->in,
        .k = n,
        .a_transposed = true,
        .a = dpt_at(args->in[0], d->first * dpt_dtype_bytes(type)),
        .lda = d->out,
        .b = args->in[1],
        .ldb = d->in,
        .c = args->out[0],
        .ldc = d->in,
    };
}

dpt_product dpt_linear_product(const dpt_op_desc *desc, size_t n, const dpt_op_args *args)
{
    const dpt_linear_desc *d = &desc->u.linear;
    dpt_product product = desc->kind == DPT_OP_LINEAR_FORWARD ? forward(d, n, args)
                          : desc->kind == DPT_OP_LINEAR_BACKWARD_DATA
                              ? backward_data(d, n, args)
                              : backward_weights(d, desc->type, n, args);
    const bool is_weights = desc->kind == DPT_OP_LINEAR_BACKWARD_WEIGHTS;
    product.a_type = desc->type;
    product.b_type = is_weights ? desc->type : DPT_F32;
    product.c_type = is_weights ? DPT_F32 : desc->type;
    product.accumulate = (args->flags & DPT_RUN_ACCUMULATE) != 0;
    return product;
}

dpt_op_desc dpt_linear_as_conv2d(const dpt_op_desc *desc)
{
    const dpt_linear_desc *d = &desc->u.linear;
    return (dpt_op_desc){
        .kind = desc->kind == DPT_OP_LINEAR_FORWARD         ? DPT_OP_CONV2D_FORWARD
                : desc->kind == DPT_OP_LINEAR_BACKWARD_DATA ? DPT_OP_CONV2D_BACKWARD_DATA
                                                            : DPT_OP_CONV2D_BACKWARD_WEIGHTS,
        .type = desc->type,
        .u.conv2d =
            {
                .in_h = 1,
                .in_w = 1,
                .in_channels = d->in,
                .out_h = 1,
                .out_w = 1,
                .out_channels = dpt_linear_rows(d),
                .kernel_h = 1,
                .kernel_w = 1,
                .stride_h = 1,
                .stride_w = 1,
                .dilation_h = 1,
                .dilation_w = 1,
                .groups = 1,
                .has_bias = d->has_bias,
                .activation = d->activation,
                .input_activation = d->input_activation,
            },
    };
}

/* ---- Alternatives ---------------------------------------------------------------------------- */

static void describe_tensors(const dpt_op_desc *desc, dpt_alternatives *out)
{
    const dpt_linear_desc *d = &desc->u.linear;
    const size_t bytes = dpt_dtype_bytes(desc->type);
    const size_t in = d->in * bytes, of_out = d->out * bytes;
    const size_t all = dpt_size_mul(d->in * sizeof(float), dpt_linear_rows(d));
    const size_t bias = d->has_bias ? d->out * sizeof(float) : 0;
    switch (desc->kind) {
    case DPT_OP_LINEAR_FORWARD:
        out->in[0].sample_bytes = in;
        out->in[1].fixed_bytes = all;
        out->in[2].fixed_bytes = bias;
        out->out[0].sample_bytes = of_out;
        return;
    case DPT_OP_LINEAR_BACKWARD_DATA:
        out->in[0].sample_bytes = of_out;
        out->in[1].fixed_bytes = all;
        out->in[2].sample_bytes = d->input_activation != DPT_ACT_NONE ? in : 0;
        out->out[0].sample_bytes = in;
        return;
    default:
        out->in[0].sample_bytes = of_out;
        out->in[1].sample_bytes = in;
        out->out[0].fixed_bytes = all;
        out->out[1].fixed_bytes = bias;
    }
}

void dpt_linear_describe(const dpt_op_desc *desc, char key[DPT_LINEAR_KEY_BYTES],
                         dpt_alternatives *out)
{
    static const char *const names[] = {"forward", "backward-data", "backward-weights"};
    const dpt_linear_desc *d = &desc->u.linear;
    const bool finished = desc->type == DPT_F32 && dpt_linear_is_finished(desc);
    char slice[64] = "";
    if (d->rows > 0) /* times also depend on the alignment of a slice */
        snprintf(slice, sizeof slice, ", %zu rows%s", d->rows, d->first % 4 == 0 ? "" : " aside");
    snprintf(key, DPT_LINEAR_KEY_BYTES, "linear %s %zu to %zu%s%s%s",
             names[desc->kind - DPT_OP_LINEAR_FORWARD], d->in, d->out, slice,
             finished ? " finished" : "", desc->type == DPT_BF16 ? ", bfloat16" : "");
    out->key = key;
    out->work = 2.0 * (double)d->in * (double)dpt_linear_rows(d);
    describe_tensors(desc, out);
}

/* ---- Bias, activation, mask ------------------------------------------------------------------ */

static dpt_activation fused_activation(const dpt_op_desc *desc)
{
    switch (desc->kind) {
    case DPT_OP_LINEAR_FORWARD: return desc->u.linear.activation;
    case DPT_OP_LINEAR_BACKWARD_DATA: return desc->u.linear.input_activation;
    default: return DPT_ACT_NONE;
    }
}

bool dpt_linear_is_finished(const dpt_op_desc *desc)
{
    const bool has_bias = desc->kind == DPT_OP_LINEAR_FORWARD && desc->u.linear.has_bias;
    return has_bias || fused_activation(desc) != DPT_ACT_NONE;
}

bool dpt_linear_is_exact(const dpt_op_desc *desc)
{
    const dpt_activation fused = fused_activation(desc);
    return fused == DPT_ACT_NONE || fused == DPT_ACT_RELU;
}

dpt_status dpt_product_finish(dpt_kernel *kernel, dpt_stream *stream, const dpt_product *product,
                              dpt_location computed)
{
    const bool in_place =
        computed.buffer == product->c.buffer && computed.offset_bytes == product->c.offset_bytes;
    const dpt_finish_args args = {
        .rows = product->m,
        .columns = product->n,
        .type = product->c_type,
        .product = computed,
        .y = product->c,
        .accumulate = product->accumulate && !in_place,
        .bias = product->bias,
        .activation = product->activation,
        .mask = product->mask,
        .mask_activation = product->mask_activation,
    };
    return dpt_finish_run(kernel, stream, &args);
}

/* ---- Biases ---------------------------------------------------------------------------------- */

static dpt_status prepare_bias(dpt_op *op, dpt_bias_gradient gradient, dpt_bias_gradient *out)
{
    const size_t most_rows = dpt_size_mul(op->max_samples, gradient.rows);
    DPT_TRY(dpt_column_sums_prepare(op->device, op->desc.type, &gradient.sums));
    gradient.offset_bytes = dpt_size_align(op->plan.workspace_bytes);
    op->plan.workspace_bytes =
        dpt_size_add(gradient.offset_bytes,
                     dpt_column_sums_workspace(op->device, most_rows, gradient.slice_columns));
    *out = gradient;
    return DPT_OK;
}

dpt_status dpt_bias_gradient_prepare(dpt_op *op, size_t rows, size_t columns,
                                     dpt_bias_gradient *out)
{
    const dpt_bias_gradient all = {.rows = rows, .columns = columns, .slice_columns = columns};
    return prepare_bias(op, all, out);
}

dpt_status dpt_linear_bias_prepare(dpt_op *op, dpt_bias_gradient *out)
{
    const dpt_linear_desc *d = &op->desc.u.linear;
    if (op->desc.kind != DPT_OP_LINEAR_BACKWARD_WEIGHTS || !d->has_bias) return DPT_OK;
    const dpt_bias_gradient slice = {
        .rows = 1, .columns = d->out, .first = d->first, .slice_columns = dpt_linear_rows(d)};
    return prepare_bias(op, slice, out);
}

dpt_status dpt_bias_gradient_run(const dpt_call *call, const dpt_bias_gradient *gradient)
{
    const dpt_column_sums_args sums = {
        .rows = call->n_samples * gradient->rows,
        .columns = gradient->slice_columns,
        .x = dpt_at(call->args->in[0], gradient->first * dpt_dtype_bytes(call->op->desc.type)),
        .row = gradient->columns,
        .y = call->args->out[1],
        .accumulate = call->accumulate,
        .workspace = dpt_at(call->args->workspace, gradient->offset_bytes),
    };
    return gradient->sums.kernel ? dpt_column_sums_run(&gradient->sums, call->stream, &sums)
                                 : DPT_OK;
}
