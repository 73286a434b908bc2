/* The softmax of each row of a matrix, or its logarithm, and the gradient.  Threads share the rows.
   Sums are double, in the order of the columns, so that they do not depend on the threads. */
#include "functions.h"
#include "kinds.h"

#include <math.h>

static dpt_cpu_range own_rows(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const size_t n_rows = call->n_samples * call->op->desc.u.row_softmax.rows;
    return dpt_cpu_split(n_rows, 1, thread, n_threads);
}

static float greatest(const float *x, size_t n)
{
    float most = x[0];
    for (size_t i = 1; i < n; i++)
        most = x[i] > most ? x[i] : most;
    return most;
}

static void forward_row(const float *restrict x, float *restrict y, size_t n, bool log_of)
{
    const float most = greatest(x, n);
    double sum = 0.0;
    for (size_t i = 0; i < n; i++)
        y[i] = function_exp(x[i] - most);
    for (size_t i = 0; i < n; i++)
        sum += (double)y[i];
    if (log_of) {
        const float log_sum = (float)log(sum);
        for (size_t i = 0; i < n; i++)
            y[i] = x[i] - most - log_sum;
    } else {
        const float inverse = (float)(1.0 / sum);
        for (size_t i = 0; i < n; i++)
            y[i] *= inverse;
    }
}

/* x (n,rows,columns) -> y as x */
static void forward(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_row_softmax_desc *d = &call->op->desc.u.row_softmax;
    const dpt_cpu_range own = own_rows(call, thread, n_threads);
    for (size_t row = own.begin; row < own.end; row++)
        forward_row((const float *)call->in[0] + row * d->columns,
                    (float *)call->out[0] + row * d->columns, d->columns, d->log);
}

/* dy, y (n,rows,columns) -> dx as y */
static void backward(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const dpt_row_softmax_desc *d = &call->op->desc.u.row_softmax;
    const dpt_cpu_range own = own_rows(call, thread, n_threads);
    for (size_t row = own.begin; row < own.end; row++) {
        const float *restrict dy = (const float *)call->in[0] + row * d->columns;
        const float *restrict y = (const float *)call->in[1] + row * d->columns;
        float *restrict dx = (float *)call->out[0] + row * d->columns;
        double total = 0.0;
        for (size_t i = 0; i < d->columns; i++)
            total += d->log ? (double)dy[i] : (double)dy[i] * (double)y[i];
        const float sum = (float)total;
        for (size_t i = 0; i < d->columns; i++) {
            const float value = d->log ? dy[i] - function_exp(y[i]) * sum : y[i] * (dy[i] - sum);
            dx[i] = call->accumulate ? dx[i] + value : value;
        }
    }
}

static dpt_status prepare(dpt_op *op, dpt_cpu_kernel *kernel, double each)
{
    const dpt_row_softmax_desc *d = &op->desc.u.row_softmax;
    op->plan.kernel = kernel;
    op->plan.work = (double)d->rows * ((double)d->columns * each + 20.0);
    op->plan.algorithm = "loop";
    return DPT_OK;
}

dpt_status KERNEL(prepare_row_softmax_forward)(dpt_op *op, dpt_error *error)
{
    (void)error;
    return prepare(op, forward, 5.0);
}

dpt_status KERNEL(prepare_row_softmax_backward)(dpt_op *op, dpt_error *error)
{
    (void)error;
    return prepare(op, backward, op->desc.u.row_softmax.log ? 5.0 : 1.5);
}
