/* Element by element: c = a * b, c = alpha a + beta b, c = alpha a + beta.  The result may lie
   where an argument lies, and only there, so the loops promise the compiler nothing about aliases.
 */
#include "kinds.h"

typedef struct part {
    const float *a, *b;
    float *c;
    dpt_cpu_range range;
    float alpha, beta;
} part;

static part part_of(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_elementwise_desc *d = &call->op->desc.u.elementwise;
    return (part){.a = call->in[0],
                  .b = call->in[1],
                  .c = call->out[0],
                  .range = dpt_cpu_split(call->n_samples * d->count, 16, thread, n_threads),
                  .alpha = d->alpha,
                  .beta = d->beta};
}

static void multiply(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const part p = part_of(call, thread, n_threads);
    for (size_t i = p.range.begin; i < p.range.end; i++)
        p.c[i] = p.a[i] * p.b[i];
}

static void add(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const part p = part_of(call, thread, n_threads);
    for (size_t i = p.range.begin; i < p.range.end; i++)
        p.c[i] = p.alpha * p.a[i] + p.beta * p.b[i];
}

static void affine(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const part p = part_of(call, thread, n_threads);
    for (size_t i = p.range.begin; i < p.range.end; i++)
        p.c[i] = p.alpha * p.a[i] + p.beta;
}

static dpt_status prepare(dpt_op *op, dpt_cpu_kernel *kernel)
{
    const dpt_elementwise_desc *d = &op->desc.u.elementwise;
    op->plan.kernel = kernel;
    op->plan.work = (double)d->count * 0.25;
    op->plan.exact = dpt_cpu_small_integer(d->alpha) && dpt_cpu_small_integer(d->beta);
    op->plan.algorithm = "loop";
    return DPT_OK;
}

dpt_status KERNEL(prepare_multiply)(dpt_op *op, dpt_error *error)
{
    (void)error;
    DPT_TRY(prepare(op, multiply));
    op->plan.exact = true; /* it has no constants */
    return DPT_OK;
}

dpt_status KERNEL(prepare_add)(dpt_op *op, dpt_error *error)
{
    (void)error;
    return prepare(op, add);
}

dpt_status KERNEL(prepare_affine)(dpt_op *op, dpt_error *error)
{
    (void)error;
    return prepare(op, affine);
}
