/* Linear layers.  cuBLASLt computes the product, and a kernel applies bias, activation and mask. If
   there is no cuBLASLt, or no algorithm for a number of samples, our own convolution computes the
   layer: a convolution of images of one pixel with filters of one tap is the same product. */
#include "blas.h"
#include "convert.h"
#include "nested.h"
#include "tables.h"

#include <stdlib.h>
#include <string.h>

typedef struct linear {
    dpt_cuda_products *products; /* of cuBLASLt; NULL: our own convolution alone */
    bool is_whole;               /* cuBLASLt computes everything */
    dpt_kernel *finish;          /* applies bias, activation and mask; NULL if is_whole */
    dpt_bias_gradient bias;      /* of backward-weights with a bias */
    dpt_op conv2d;               /* our own; shares the beginning of the workspace */
    /* Used if activations are bfloat16: weights and bias rounded to bfloat16, and a product that
       `finish` reads, at these offsets in bytes behind the library's workspace. */
    dpt_convert convert;
    size_t w_at, bias_at, product_at;
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

/* ---- Our own convolution --------------------------------------------------------------------- */

/* Copies the columns of a slice of dy (n,out) to a matrix in the workspace, behind the workspace of
   the convolution. */
static dpt_status take_columns(const dpt_call *call, dpt_location to)
{
    const dpt_linear_desc *d = &call->op->desc.u.linear;
    const size_t element = dpt_dtype_bytes(call->op->desc.type), width = d->rows * element;
    const dpt_location from = dpt_at(call->args->in[0], d->first * element);
    if (call->n_samples == 0) return DPT_OK;
    DPT_CUDA_TRY(call->stream->device,
                 cudaMemcpy2DAsync(dpt_cuda_pointer(to), width, dpt_cuda_pointer(from),
                                   d->out * element, width, call->n_samples,
                                   cudaMemcpyDeviceToDevice, call->stream->queue));
    return DPT_OK;
}

static dpt_status run_own(const dpt_call *call)
{
    const linear *s = call->op->plan.state;
    dpt_op_args args = *call->args;
    dpt_call dense = *call;
    if (call->op->desc.u.linear.rows == 0) return dpt_cuda_nested_run(&s->conv2d, call);
    args.in[0] = dpt_at(args.workspace, dpt_size_align(s->conv2d.plan.workspace_bytes));
    dense.args = &args;
    DPT_TRY(take_columns(call, args.in[0]));
    return dpt_cuda_nested_run(&s->conv2d, &dense);
}

/* Prepares our own convolution and plans its workspace. */
static dpt_status prepare_conv2d(dpt_op *op, linear *s)
{
    const dpt_linear_desc *d = &op->desc.u.linear;
    const dpt_op_desc conv2d = dpt_linear_as_conv2d(&op->desc);
    DPT_TRY(dpt_cuda_nested_prepare(op, &conv2d, &s->conv2d));
    op->plan.workspace_bytes = s->conv2d.plan.workspace_bytes;
    if (d->rows > 0)
        op->plan.workspace_bytes =
            dpt_size_add(dpt_size_align(op->plan.workspace_bytes),
                         dpt_size_mul(op->max_samples, d->rows * dpt_dtype_bytes(op->desc.type)));
    return DPT_OK;
}

static dpt_status prepare_own(dpt_op *op, const void *nothing)
{
    (void)nothing;
    linear *s = create_state(op);
    if (!s) return DPT_E_NO_MEMORY;
    DPT_TRY(prepare_conv2d(op, s));
    op->plan.run = run_own;
    op->plan.exact = dpt_linear_is_exact(&op->desc);
    return DPT_OK;
}

/* ---- cuBLASLt -------------------------------------------------------------------------------- */

/* Enqueues the product.  A product without terms is zero; only gradients of weights can have none.
 */
static dpt_status multiply(const dpt_call *call, const dpt_product *p)
{
    const linear *s = call->op->plan.state;
    if (p->k > 0) return dpt_cuda_product_run(s->products, call->stream, p, call->args->workspace);
    return p->accumulate ? DPT_OK
                         : dpt_cuda_memory_ops.fill(call->stream, p->c, 0,
                                                    p->m * p->n * dpt_dtype_bytes(p->c_type));
}

/* The part of *p that the library computes.
   - Weights and bias have the type of the activations.
   - If the product is not whole, the library computes A times B alone, and its result is not
     rounded. */
static dpt_product given(const dpt_product *p, const linear *s, dpt_location workspace)
{
    dpt_product product = *p;
    product.b_type = p->a_type;
    if (p->b_type != product.b_type) product.b = dpt_at(workspace, s->w_at);
    if (p->c_type == DPT_BF16 && p->has_bias) product.bias = dpt_at(workspace, s->bias_at);
    if (s->is_whole) return product;
    product.has_bias = false;
    product.bias = (dpt_location){NULL, 0};
    product.activation = product.mask_activation = DPT_ACT_NONE;
    if (p->c_type == DPT_BF16) {
        product.c_type = DPT_F32;
        product.c = dpt_at(workspace, s->product_at);
        product.accumulate = false;
    }
    return product;
}

/* Rounds the weights and the bias (out) of *p to the places in the workspace that `given` names. */
static dpt_status round_parameters(const dpt_call *call, const dpt_product *p)
{
    const linear *s = call->op->plan.state;
    const dpt_linear_desc *d = &call->op->desc.u.linear;
    const dpt_location workspace = call->args->workspace;
    if (p->b_type == p->a_type) return DPT_OK;
    DPT_TRY(dpt_narrow_run(&s->convert, call->stream,
                           &(dpt_converted){p->b, dpt_at(workspace, s->w_at), d->in * d->out}));
    if (!p->has_bias || !s->is_whole) return DPT_OK;
    return dpt_narrow_run(&s->convert, call->stream,
                          &(dpt_converted){p->bias, dpt_at(workspace, s->bias_at), d->out});
}

static dpt_status run_blas(const dpt_call *call)
{
    const linear *s = call->op->plan.state;
    const dpt_product p = dpt_linear_product(&call->op->desc, call->n_samples, call->args);
    const dpt_product product = given(&p, s, call->args->workspace);
    if (p.m > 0) {
        DPT_TRY(round_parameters(call, &p));
        const dpt_status status = multiply(call, &product);
        /* The library has no algorithm for this number of samples and has enqueued nothing. */
        if (status == DPT_E_UNSUPPORTED) return run_own(call);
        DPT_TRY(status);
        if (s->finish) DPT_TRY(dpt_product_finish(s->finish, call->stream, &p, product.c));
    }
    return dpt_bias_gradient_run(call, &s->bias);
}

/* Plans the parts of the workspace.  The workspace only becomes larger. */
static void lay_out(dpt_op *op, const dpt_product *p, linear *s)
{
    const dpt_linear_desc *d = &op->desc.u.linear;
    const size_t bytes = dpt_dtype_bytes(DPT_BF16);
    size_t end = dpt_size_align(dpt_cuda_products_workspace(op->device));
    s->w_at = end;
    if (p->b_type != p->a_type) end = dpt_size_add(end, dpt_size_align(d->in * d->out * bytes));
    s->bias_at = end;
    if (p->b_type != p->a_type && p->has_bias)
        end = dpt_size_add(end, dpt_size_align(d->out * bytes));
    s->product_at = end;
    if (p->c_type == DPT_BF16 && s->finish)
        end = dpt_size_add(end,
                           dpt_size_align(dpt_size_mul(dpt_size_mul(p->m, p->n), sizeof(float))));
    if (op->plan.workspace_bytes < end) op->plan.workspace_bytes = end;
}

static dpt_status prepare_blas(dpt_op *op, const void *nothing)
{
    (void)nothing;
    const dpt_op_args none = {.flags = 0};
    const dpt_product p = dpt_linear_product(&op->desc, op->max_samples, &none);
    if (!dpt_cuda_device_of(op->device)->blas)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED, "there is no cuBLASLt here");
    linear *s = create_state(op);
    if (!s) return DPT_E_NO_MEMORY;
    s->is_whole = dpt_cuda_product_is_whole(&p);
    const dpt_product product = given(&p, s, (dpt_location){NULL, 0});
    DPT_TRY(dpt_cuda_products_create(op->device, &s->products));
    if (p.m > 0 && p.k > 0) DPT_TRY(dpt_cuda_product_plan(s->products, &product));
    if (!s->is_whole) DPT_TRY(dpt_finish_prepare(op->device, p.c_type, DPT_F32, &s->finish));
    if (p.b_type != p.a_type) DPT_TRY(dpt_convert_prepare(op->device, &s->convert));
    DPT_TRY(prepare_conv2d(op, s));
    lay_out(op, &p, s);
    DPT_TRY(dpt_linear_bias_prepare(op, &s->bias));
    op->plan.run = run_blas;
    op->plan.input_rounding = op->desc.type != DPT_BF16 ? dpt_cuda_input_rounding(op->device)
                              : p.b_type != p.a_type    ? DPT_CUDA_BF16_ROUNDING
                                                        : 0.0;
    op->plan.exact = dpt_linear_is_exact(&op->desc) && op->plan.input_rounding == 0.0;
    return DPT_OK;
}

/* ---- Preparing ------------------------------------------------------------------------------- */

/* For large layers the library's product is the fastest.  For small layers one kernel that also
   applies bias and mask is faster than two launches. */
static const dpt_alternative items[] = {
    {.name = "cublaslt", .prepare = prepare_blas},
    {.name = "local", .prepare = prepare_own},
};

dpt_status dpt_prepare_linear(dpt_op *op)
{
    const dpt_linear_desc *d = &op->desc.u.linear;
    const char *asked = dpt_cuda_device_of(op->device)->algorithm;
    char key[DPT_LINEAR_KEY_BYTES];
    dpt_alternatives choice = {.items = items, .n_items = sizeof items / sizeof *items};
    if (d->in > INT32_MAX || d->out > INT32_MAX || op->max_samples > INT32_MAX ||
        dpt_size_mul(d->in, d->out) > INT32_MAX)
        return DPT_FAIL(&op->device->error, DPT_E_UNSUPPORTED,
                        "a linear layer of %zu to %zu for %zu samples: weights and samples must "
                        "count less than 2^31",
                        d->in, d->out, op->max_samples);
    if (op->deterministic) return dpt_linear_chains_prepare(op);
    dpt_linear_describe(&op->desc, key, &choice);
    /* algorithm= may name a tile of a convolution, as "local-64x64x16".  There is one tile here. */
    if (asked && strncmp(asked, "local", strlen("local")) == 0 && !op->wanted) {
        choice.items = &items[1];
        choice.n_items = 1;
    }
    DPT_TRY(dpt_prepare_best(op, &choice));
    op->plan.flops = 2.0 * (double)d->in * (double)dpt_linear_rows(d);
    return DPT_OK;
}
