/* The squared error: loss and, if asked for, the gradient of each sample, in one pass. */
#include "kinds.h"

/* The sum of (y - target)^2, in independent sums, so that additions do not wait for each other. */
static double sum_of_squares(const float *y, const float *target, size_t count)
{
    enum { SUMS = 16 };
    double sums[SUMS] = {0.0}, total = 0.0;
    size_t i = 0;
    for (; i + SUMS <= count; i += SUMS) {
        for (size_t k = 0; k < SUMS; k++) {
            const double difference = (double)(y[i + k] - target[i + k]);
            sums[k] += difference * difference;
        }
    }
    for (; i < count; i++) {
        const double difference = (double)(y[i] - target[i]);
        total += difference * difference;
    }
    for (size_t k = 0; k < SUMS; k++)
        total += sums[k];
    return total;
}

/* y, target (n,count) -> result (n,2), dy (n,count) */
static void squared_error(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const size_t count = call->op->desc.u.squared_error.count;
    const bool with_gradient = call->op->desc.kind == DPT_OP_SQUARED_ERROR_GRADIENT;
    const float slope =
        with_gradient ? (float)(2.0 / (double)count * (double)call->step->inv_batch) : 0.0f;
    float *result = call->out[0];
    const dpt_cpu_range part = dpt_cpu_split(call->n_samples, 8, thread, n_threads);
    for (size_t s = part.begin; s < part.end; s++) {
        const float *y = (const float *)call->in[0] + s * count;
        const float *target = (const float *)call->in[1] + s * count;
        result[2 * s] = (float)(sum_of_squares(y, target, count) / (double)count);
        result[2 * s + 1] = 0.0f;
        if (!with_gradient) continue;
        float *dy = (float *)call->out[1] + s * count;
        for (size_t i = 0; i < count; i++)
            dy[i] = (y[i] - target[i]) * slope;
    }
}

static dpt_status prepare(dpt_op *op)
{
    op->plan.kernel = squared_error;
    op->plan.work = 1.5 * (double)op->desc.u.squared_error.count + 5.0;
    op->plan.algorithm = "loop";
    return DPT_OK;
}

dpt_status KERNEL(prepare_squared_error)(dpt_op *op, dpt_error *error)
{
    (void)error;
    return prepare(op);
}

dpt_status KERNEL(prepare_squared_error_gradient)(dpt_op *op, dpt_error *error)
{
    (void)error;
    return prepare(op);
}
