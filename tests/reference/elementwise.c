/* The element-wise operators in double precision: for each line of DPT_ELEMENTWISE_LIST its value
   and the sum of the absolute values of its terms, which bounds the rounding of a float32
   computation. */
#include "reference.h"

#include <math.h>

/* One element of the result.  b is 0 where the operator has one input. */
static double value_of(const dpt_op_desc *desc, double a, double b)
{
    const double alpha = (double)desc->u.elementwise.alpha, beta = (double)desc->u.elementwise.beta;
    switch (desc->kind) {
    case DPT_OP_MULTIPLY: return a * b;
    case DPT_OP_ADD: return alpha * a + beta * b;
    case DPT_OP_AFFINE: return alpha * a + beta;
    default: return NAN;
    }
}

static double magnitude_of(const dpt_op_desc *desc, double a, double b)
{
    const double alpha = (double)desc->u.elementwise.alpha, beta = (double)desc->u.elementwise.beta;
    switch (desc->kind) {
    case DPT_OP_ADD: return fabs(alpha * a) + fabs(beta * b);
    case DPT_OP_AFFINE: return fabs(alpha * a) + fabs(beta);
    default: return fabs(value_of(desc, a, b)); /* one term */
    }
}

void reference_elementwise(const dpt_op_desc *desc, size_t n, const reference_args *args)
{
    const double *b = args->in[1];
    for (size_t i = 0; i < n * desc->u.elementwise.count; i++) {
        const double c = value_of(desc, args->in[0][i], b ? b[i] : 0.0);
        args->out[0][i] = args->accumulate ? args->out[0][i] + c : c;
    }
}

void magnitude_elementwise(const dpt_op_desc *desc, size_t n, const reference_args *args)
{
    const double *b = args->in[1];
    for (size_t i = 0; i < n * desc->u.elementwise.count; i++) {
        const double c = magnitude_of(desc, args->in[0][i], b ? b[i] : 0.0);
        args->out[0][i] = args->accumulate ? fabs(args->out[0][i]) + c : c;
    }
}
