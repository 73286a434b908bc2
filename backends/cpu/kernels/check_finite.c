/* Setting the halt word if a number is not finite. */
#include "kinds.h"

#include <string.h>

/* Compares bits, in a loop that compilers vectorise. */
static bool all_finite(const float *values, size_t n)
{
    const uint32_t exponent = 0x7f800000u;
    uint32_t found = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t bits;
        memcpy(&bits, &values[i], sizeof bits);
        found |= (uint32_t)((bits & exponent) == exponent);
    }
    return found == 0;
}

/* x (n,count) -> halt (1).  All threads that find such a number write the same value. */
static void check_finite(const dpt_cpu_call *call, unsigned thread, unsigned n_threads)
{
    const size_t count = call->n_samples * call->op->desc.u.check_finite.count;
    const dpt_cpu_range own = dpt_cpu_split(count, 16, thread, n_threads);
    float found = 1.0f;
    if (all_finite((const float *)call->in[0] + own.begin, own.end - own.begin)) return;
    __atomic_store((float *)call->out[0], &found, __ATOMIC_RELAXED);
}

dpt_status KERNEL(prepare_check_finite)(dpt_op *op, dpt_error *error)
{
    (void)error;
    op->plan.kernel = check_finite;
    op->plan.work = (double)op->desc.u.check_finite.count * 0.1;
    op->plan.exact = true;
    op->plan.algorithm = "loop";
    return DPT_OK;
}
