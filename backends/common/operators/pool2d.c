/* Pooling.  Each common window has a program in which its size is a constant.  All other windows,
   and those that a backend has not compiled beforehand, share one slower program. */
#include "pool2d.h"
#include "operators.h"

typedef struct state {
    dpt_kernel *kernel;
    pool2d_params params; /* complete except for what depends on a call */
    bool by_quads;
} state;

static pool2d_params params_of_call(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    pool2d_params p = s->params;
    p.accumulate = call->accumulate;
    p.n_samples = (u32)call->n_samples;
    return p;
}

/* x -> y */
static dpt_status forward(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    const pool2d_params p = params_of_call(call);
    dpt_launch l = dpt_launch_begin(call->stream, s->kernel);
    dpt_launch_tensor(&l, call->args->out[0], call->op->desc.type);
    dpt_launch_tensor(&l, call->args->in[0], call->op->desc.type);
    dpt_launch_value(&l, &p, sizeof p);
    return dpt_launch_elements(&l, p.out_size, call->n_samples);
}

/* dy, x -> dx */
static dpt_status backward(const dpt_call *call)
{
    const state *s = call->op->plan.state;
    const pool2d_params p = params_of_call(call);
    dpt_launch l = dpt_launch_begin(call->stream, s->kernel);
    dpt_launch_tensor(&l, call->args->out[0], call->op->desc.type);
    dpt_launch_tensor(&l, call->args->in[0], call->op->desc.type);
    dpt_launch_tensor(&l, call->args->in[1], call->op->desc.type);
    dpt_launch_value(&l, &p, sizeof p);
    return s->by_quads ? dpt_launch_quads(&l, p.in_size / 4, call->n_samples)
                       : dpt_launch_elements(&l, p.in_size, call->n_samples);
}

/* ---- Preparation ----------------------------------------------------------------------------- */

/* Common windows: kernel, stride and padding, equal in both directions.  They halve an image,
   follow the first convolution of a residual network, or average a whole small image. */
static const size_t common[][3] = {{2, 2, 0}, {3, 2, 1}, {3, 2, 0}, {4, 4, 0}, {7, 7, 0}};

static bool is_common(const dpt_pool2d_desc *d)
{
    if (d->kernel_h != d->kernel_w || d->stride_h != d->stride_w || d->pad_h != d->pad_w)
        return false;
    for (size_t i = 0; i < sizeof common / sizeof *common; i++) {
        const size_t *window = common[i];
        if (d->kernel_h == window[0] && d->stride_h == window[1] && d->pad_h == window[2])
            return true;
    }
    return false;
}

/* The kernel of the program in which the window is a constant. */
static dpt_status get_constant(const dpt_op *op, const dpt_pool2d_desc *d, const char *name,
                               dpt_kernel **out)
{
    dpt_program_key key = {.file = "pool2d.cl"};
    snprintf(key.options, sizeof key.options,
             "-DPOOL_KERNEL=%zuu -DPOOL_STRIDE=%zuu -DPOOL_PAD=%zuu", d->kernel_h, d->stride_h,
             d->pad_h);
    dpt_op_key(op, &key);
    return dpt_kernel_get(op->device, &key, name, out);
}

static dpt_status get_kernel(dpt_op *op, const dpt_pool2d_desc *d, const char *name,
                             dpt_kernel **out)
{
    if (is_common(d)) {
        const dpt_status status = get_constant(op, d, name, out);
        op->plan.algorithm = "a constant window";
        if (status != DPT_E_UNSUPPORTED) return status;
    }
    op->plan.algorithm = "any window";
    return dpt_op_kernel(op, "pool2d.cl", name, out);
}

static pool2d_params params_of(const dpt_pool2d_desc *d)
{
    return (pool2d_params){
        .in_h = (u32)d->in_h,
        .in_w = (u32)d->in_w,
        .out_h = (u32)d->out_h,
        .out_w = (u32)d->out_w,
        .channels = divisor_of((u32)d->channels),
        .out_columns = divisor_of((u32)d->out_w),
        .in_columns = divisor_of((u32)d->in_w),
        .in_size = (u32)(d->in_h * d->in_w * d->channels),
        .out_size = (u32)(d->out_h * d->out_w * d->channels),
        .kernel_h = (u32)d->kernel_h,
        .kernel_w = (u32)d->kernel_w,
        .stride_h = (u32)d->stride_h,
        .stride_w = (u32)d->stride_w,
        .pad_h = (u32)d->pad_h,
        .pad_w = (u32)d->pad_w,
        .inverse = (float)(1.0 / ((double)d->kernel_h * (double)d->kernel_w)),
        .mask = (u32)d->input_activation,
    };
}

/* DPT_E_UNSUPPORTED if rows or columns with their padding, or elements, exceed 32 bits. */
static dpt_status check(const dpt_op *op)
{
    const dpt_pool2d_desc *d = &op->desc.u.pool2d;
    const size_t rows = dpt_size_add(d->in_h, dpt_size_mul(2, d->pad_h));
    const size_t columns = dpt_size_add(d->in_w, dpt_size_mul(2, d->pad_w));
    DPT_TRY(dpt_check_sample(op, dpt_size_mul(dpt_size_mul(d->out_h, d->out_w), d->channels)));
    return dpt_check_sample(op, dpt_size_mul(dpt_size_mul(rows, columns), d->channels));
}

/* A mean of small integers is exact if the sum is divided by a power of two. */
static bool is_exact(const dpt_op *op)
{
    const dpt_pool2d_desc *d = &op->desc.u.pool2d;
    const size_t window = d->kernel_h * d->kernel_w;
    const bool masked = op->desc.kind == DPT_OP_POOL2D_BACKWARD;
    if (masked && d->input_activation != DPT_ACT_NONE && d->input_activation != DPT_ACT_RELU)
        return false;
    return d->kind == DPT_POOL_MAX || (window & (window - 1)) == 0;
}

/* The description with other strides where there is a single window: the stride has no effect
   there, and with the kernel's size as the stride more windows are common ones. */
static dpt_pool2d_desc simplified(dpt_pool2d_desc d)
{
    if (d.out_h == 1) d.stride_h = d.kernel_h;
    if (d.out_w == 1) d.stride_w = d.kernel_w;
    return d;
}

dpt_status dpt_prepare_pool2d(dpt_op *op)
{
    enum { FORWARD, BACKWARD, BACKWARD_QUADS, N_WAYS };
    static const char *const names[2][N_WAYS] = {
        [DPT_POOL_MAX] = {"dpt_max_pool2d_forward", "dpt_max_pool2d_backward",
                          "dpt_max_pool2d_backward_quads"},
        [DPT_POOL_AVERAGE] = {"dpt_average_pool2d_forward", "dpt_average_pool2d_backward",
                              "dpt_average_pool2d_backward_quads"},
    };
    const dpt_pool2d_desc simple = simplified(op->desc.u.pool2d), *d = &simple;
    const bool is_forward = op->desc.kind == DPT_OP_POOL2D_FORWARD;
    DPT_TRY(check(op));
    state *s = dpt_op_state(op, sizeof *s);
    if (!s) return DPT_E_NO_MEMORY;
    s->params = params_of(d);
    s->by_quads =
        !is_forward &&
        dpt_takes_quads(op->device, d->kind == DPT_POOL_AVERAGE ? s->params.in_size : d->channels);
    op->plan.run = is_forward ? forward : backward;
    op->plan.exact = is_exact(op);
    const int way = is_forward ? FORWARD : s->by_quads ? BACKWARD_QUADS : BACKWARD;
    return get_kernel(op, d, names[d->kind][way], &s->kernel);
}
