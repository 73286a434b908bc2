/* The softmax of each row of a matrix, or its logarithm, and the gradient.  Threads share the rows.
   Sums are double, in an order that does not depend on the threads. */
#include "exact_loops.h"
#include "functions.h"
#include "kernels/exact.h"
#include "kinds.h"
#include "row_sums.h"

#include <math.h>

static dpt_cpu_range own_rows(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const size_t n_rows = call->n_samples * call->op->desc.u.row_softmax.rows;
    return dpt_cpu_split(n_rows, 1, thread, n_threads);
}

/* y[i] = exp(x[i] - most).  exact: by the function of kernels/exact.h. */
static void exponentials(const float *restrict x, float most, float *restrict y, size_t n,
                         bool exact)
{
    if (!exact) {
        for (size_t i = 0; i < n; i++)
            y[i] = function_exp(x[i] - most);
        return;
    }
    for (size_t i = 0; i < n; i++)
        y[i] = x[i] - most;
    (void)KERNEL(exact_apply)(DPT_MAP_EXP, y, y, NULL, n);
}

static void forward_row(const dpt_op *op, const float *restrict x, float *restrict y)
{
    const size_t n = op->desc.u.row_softmax.columns;
    const bool log_of = op->desc.u.row_softmax.log;
    const float most = row_greatest(x, n);
    exponentials(x, most, y, n, op->deterministic);
    const double sum = row_sum(y, n);
    if (log_of) {
        const float log_sum = op->deterministic ? exact_log((float)sum) : (float)log(sum);
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
        forward_row(call->op, (const float *)call->in[0] + row * d->columns,
                    (float *)call->out[0] + row * d->columns);
}

/* The gradient of a logarithm of the softmax, by the function of kernels/exact.h. */
static void exact_log_backward(const float *dy, const float *y, float sum, bool accumulate,
                               float *dx, size_t n)
{
    enum { MOST = 64 };
    float power[MOST];
    for (size_t at = 0; at < n; at += MOST) {
        const size_t m = n - at < MOST ? n - at : MOST;
        (void)KERNEL(exact_apply)(DPT_MAP_EXP, power, y + at, NULL, m);
        for (size_t i = 0; i < m; i++) {
            const float value = dy[at + i] - power[i] * sum;
            dx[at + i] = accumulate ? dx[at + i] + value : value;
        }
    }
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
        const float sum = (float)(d->log ? row_sum(dy, d->columns) : row_dot(dy, y, d->columns));
        if (d->log && call->op->deterministic) {
            exact_log_backward(dy, y, sum, call->accumulate, dx, d->columns);
            continue;
        }
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
