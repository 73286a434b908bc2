/* Rows of a table by their indices, and the gradient of the table.  Threads share the indices in
   the forward pass.  In the backward pass they share the columns of the table, and each thread adds
   in the order of the indices, so that sums do not depend on the threads. */
#include "kinds.h"

#include <math.h>
#include <string.h>

static bool is_row(const dpt_take_desc *d, int32_t index)
{
    return index >= 0 && (size_t)index < d->rows;
}

/* table (rows,width), index (n,count) -> y (n,count,width) */
static void forward(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_take_desc *d = &call->op->desc.u.take;
    const float *table = call->in[0];
    const int32_t *index = call->in[1];
    const dpt_cpu_range own = dpt_cpu_split(call->n_samples * d->count, 1, thread, n_threads);
    for (size_t i = own.begin; i < own.end; i++) {
        float *y = (float *)call->out[0] + i * d->width;
        if (is_row(d, index[i])) {
            memcpy(y, table + (size_t)index[i] * d->width, d->width * sizeof *y);
            continue;
        }
        for (size_t c = 0; c < d->width; c++)
            y[c] = NAN;
    }
}

/* dy (n,count,width), index (n,count) -> dtable (rows,width) */
static void backward(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_take_desc *d = &call->op->desc.u.take;
    const int32_t *index = call->in[1];
    float *dtable = call->out[0];
    const dpt_cpu_range own = dpt_cpu_split(d->width, 16, thread, n_threads);
    const size_t n_own = own.end - own.begin;
    if (n_own == 0) return;
    for (size_t row = 0; row < d->rows && !call->accumulate; row++)
        memset(dtable + row * d->width + own.begin, 0, n_own * sizeof *dtable);
    for (size_t i = 0; i < call->n_samples * d->count; i++) {
        if (!is_row(d, index[i])) continue;
        const float *restrict dy = (const float *)call->in[0] + i * d->width + own.begin;
        float *restrict sum = dtable + (size_t)index[i] * d->width + own.begin;
        for (size_t c = 0; c < n_own; c++)
            sum[c] += dy[c];
    }
}

static dpt_status prepare(dpt_op *op, dpt_cpu_kernel *kernel)
{
    const dpt_take_desc *d = &op->desc.u.take;
    op->plan.kernel = kernel;
    op->plan.work = (double)d->count * ((double)d->width * 0.3 + 5.0);
    op->plan.exact = true;
    op->plan.algorithm = "loop";
    return DPT_OK;
}

dpt_status KERNEL(prepare_take_forward)(dpt_op *op, dpt_error *error)
{
    (void)error;
    return prepare(op, forward);
}

dpt_status KERNEL(prepare_take_backward)(dpt_op *op, dpt_error *error)
{
    (void)error;
    return prepare(op, backward);
}
