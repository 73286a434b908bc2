/* Linear layers: products by cuBLASLt, and what follows them; where there is no cuBLASLt,
   convolutions of images of one pixel with kernels of one tap. */
#include "blas.h"
#include "nested.h"

#include <stdlib.h>
#include <string.h>

typedef struct linear {
    dpt_cuda_products *products; /* cuBLASLt, and */
    dpt_kernel *finish;          /* what follows, where it does not do that itself; */
    dpt_bias_gradient bias;      /* backward weights with a bias; or */
    dpt_op conv2d;               /* our own */
} linear;

static void destroy(void *state)
{
    linear *s = state;
    dpt_cuda_products_destroy(s->products);
    dpt_op_plan_clear(&s->conv2d.plan);
    free(s);
}

static linear *create_state(dpt_op *op)
{
    linear *s = dpt_op_state(op, sizeof *s);
    if (s) op->plan.destroy = destroy;
    return s;
}

/* ---- By cuBLASLt ----------------------------------------------------------------------------- */

/* A product without terms is zero. */
static dpt_status multiply(const dpt_call *call, const dpt_product *p)
{
    const linear *s = call->op->plan.state;
    if (p->k > 0) return dpt_cuda_product_run(s->products, call->stream, p, call->args->workspace);
    return p->accumulate
               ? DPT_OK
               : dpt_cuda_memory_ops.fill(call->stream, p->c, 0, p->m * p->n * sizeof(float));
}

static dpt_status run_blas(const dpt_call *call)
{
    const linear *s = call->op->plan.state;
    const dpt_product p = dpt_linear_product(&call->op->desc, call->n_samples, call->args);
    if (p.m > 0) DPT_TRY(multiply(call, &p));
    if (p.m > 0 && s->finish) DPT_TRY(dpt_product_finish(s->finish, call->stream, &p, p.c));
    return dpt_bias_gradient_run(call, &s->bias);
}

static dpt_status prepare_blas(dpt_op *op)
{
    const dpt_op_args none = {.flags = 0};
    const dpt_product p = dpt_linear_product(&op->desc, op->max_samples, &none);
    if (!dpt_cuda_device_of(op->device)->blas)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED, "there is no cuBLASLt here");
    linear *s = create_state(op);
    if (!s) return DPT_E_NO_MEMORY;
    DPT_TRY(dpt_cuda_products_create(op->device, &s->products));
    if (p.m > 0 && p.k > 0) DPT_TRY(dpt_cuda_product_plan(s->products, &p));
    if (!dpt_cuda_product_is_whole(&p))
        DPT_TRY(dpt_finish_prepare(op->device, DPT_F32, &s->finish));
    op->plan.workspace_bytes = dpt_cuda_products_workspace(op->device);
    DPT_TRY(dpt_linear_bias_prepare(op, &s->bias));
    op->plan.run = run_blas;
    op->plan.input_rounding = dpt_cuda_input_rounding(op->device);
    op->plan.exact = dpt_linear_is_exact(&op->desc) && op->plan.input_rounding == 0.0;
    return DPT_OK;
}

/* ---- By our own kernels ---------------------------------------------------------------------- */

/* A slice's columns of dy (n,out), as a matrix of their own in the workspace behind the
   convolution's. */
static dpt_status take_columns(const dpt_call *call, dpt_location to)
{
    const dpt_linear_desc *d = &call->op->desc.u.linear;
    const size_t width = d->rows * sizeof(float);
    const dpt_location from = dpt_at(call->args->in[0], d->first * sizeof(float));
    if (call->n_samples == 0) return DPT_OK;
    DPT_CUDA_TRY(call->stream->device,
                 cudaMemcpy2DAsync(dpt_cuda_pointer(to), width, dpt_cuda_pointer(from),
                                   d->out * sizeof(float), width, call->n_samples,
                                   cudaMemcpyDeviceToDevice, call->stream->queue));
    return DPT_OK;
}

static dpt_status run_own(const dpt_call *call)
{
    const linear *s = call->op->plan.state;
    return dpt_cuda_nested_run(&s->conv2d, call);
}

static dpt_status run_own_slice(const dpt_call *call)
{
    const linear *s = call->op->plan.state;
    dpt_op_args args = *call->args;
    dpt_call dense = *call;
    args.in[0] = dpt_at(args.workspace, dpt_size_align(s->conv2d.plan.workspace_bytes));
    dense.args = &args;
    DPT_TRY(take_columns(call, args.in[0]));
    return dpt_cuda_nested_run(&s->conv2d, &dense);
}

static dpt_op_desc as_conv2d(const dpt_op_desc *desc)
{
    const dpt_linear_desc *d = &desc->u.linear;
    return (dpt_op_desc){
        .kind = desc->kind == DPT_OP_LINEAR_FORWARD         ? DPT_OP_CONV2D_FORWARD
                : desc->kind == DPT_OP_LINEAR_BACKWARD_DATA ? DPT_OP_CONV2D_BACKWARD_DATA
                                                            : DPT_OP_CONV2D_BACKWARD_WEIGHTS,
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

static dpt_status prepare_own(dpt_op *op)
{
    const dpt_linear_desc *d = &op->desc.u.linear;
    const dpt_op_desc conv2d = as_conv2d(&op->desc);
    linear *s = create_state(op);
    if (!s) return DPT_E_NO_MEMORY;
    DPT_TRY(dpt_cuda_nested_prepare(op, &conv2d, &s->conv2d));
    op->plan.run = d->rows > 0 ? run_own_slice : run_own;
    op->plan.workspace_bytes = s->conv2d.plan.workspace_bytes;
    if (d->rows > 0)
        op->plan.workspace_bytes =
            dpt_size_add(dpt_size_align(op->plan.workspace_bytes),
                         dpt_size_mul(op->max_samples, d->rows * sizeof(float)));
    op->plan.exact = dpt_linear_is_exact(&op->desc);
    return DPT_OK;
}

/* ---- Preparing ------------------------------------------------------------------------------- */

static dpt_status prepare_any(dpt_op *op)
{
    const char *asked = dpt_cuda_device_of(op->device)->algorithm;
    const char *wanted = op->wanted ? op->wanted : asked;
    if (!wanted || strncmp(wanted, "local", strlen("local")) != 0) {
        const dpt_status status = prepare_blas(op);
        op->plan.algorithm = "cublaslt";
        if (status != DPT_E_UNSUPPORTED) return status;
        dpt_op_plan_clear(&op->plan);
    }
    op->plan.algorithm = "local";
    return prepare_own(op);
}

dpt_status dpt_prepare_linear(dpt_op *op)
{
    const dpt_linear_desc *d = &op->desc.u.linear;
    if (d->in > INT32_MAX || d->out > INT32_MAX || op->max_samples > INT32_MAX ||
        dpt_size_mul(d->in, d->out) > INT32_MAX)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "a linear layer of %zu to %zu for %zu samples: weights and samples must "
                        "count less than 2^31",
                        d->in, d->out, op->max_samples);
    DPT_TRY(prepare_any(op));
    op->plan.flops = 2.0 * (double)d->in * (double)dpt_linear_rows(d);
    return DPT_OK;
}
