/* The element-wise operators: one kernel, of the operator's name, for each line of
   DPT_ELEMENTWISE_LIST.  The result may be an input, so the pointers are not `restrict`.  The
   result does not overlap an input in part. */
#include "kinds.h"

#include <math.h>

/* The tensors of a call, and the range of elements that falls to a thread. */
typedef struct part {
    const float *a, *b; /* the inputs in order; b is NULL if there is one input */
    float *c;
    dpt_cpu_range range;
    float alpha, beta;
    bool accumulate; /* add to c */
} part;

static part part_of(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_elementwise_desc *d = &call->op->desc.u.elementwise;
    return (part){.a = call->in[0],
                  .b = call->in[1],
                  .c = call->out[0],
                  .range = dpt_cpu_split(call->n_samples * d->count, 16, thread, n_threads),
                  .alpha = d->alpha,
                  .beta = d->beta,
                  .accumulate = call->accumulate};
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

/* Whether small integers give exact results. */
static bool is_exact(const dpt_op *op)
{
    const dpt_elementwise_desc *d = &op->desc.u.elementwise;
    const uint32_t marks = dpt_op_traits_of(op->desc.kind).marks;
    return (marks & DPT_MARK_EXACT) != 0 ||
           ((marks & DPT_MARK_EXACT_FACTORS) != 0 && dpt_cpu_small_integer(d->alpha) &&
            dpt_cpu_small_integer(d->beta));
}

/* The cost of an element in about nanoseconds.  An operator whose results are rounded probably
   computes an exponential or a similar function. */
static double cost_of_element(const dpt_op *op)
{
    const uint32_t exact = DPT_MARK_EXACT | DPT_MARK_EXACT_FACTORS;
    return (dpt_op_traits_of(op->desc.kind).marks & exact) != 0 ? 0.25 : 5.0;
}

static dpt_status prepare(dpt_op *op, dpt_cpu_kernel *kernel)
{
    op->plan.kernel = kernel;
    op->plan.work = (double)op->desc.u.elementwise.count * cost_of_element(op);
    op->plan.exact = is_exact(op);
    op->plan.algorithm = "loop";
    return DPT_OK;
}

/* prepare_NAME takes the kernel NAME. */
#define PREPARE(KIND, name, ...)                                                                   \
    dpt_status KERNEL(prepare_##name)(dpt_op * op, dpt_error * error)                              \
    {                                                                                              \
        (void)error;                                                                               \
        return prepare(op, name);                                                                  \
    }
DPT_ELEMENTWISE_LIST(PREPARE)
#undef PREPARE
