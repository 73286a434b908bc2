/* The element-wise operators: one kernel, dpt_NAME, for each line of DPT_ELEMENTWISE_LIST
   (core/backend/op_list.h).  A kernel takes the output, the inputs in order, a halt word if the
   operator honours one, and the parameters.  The result may be an input. */
#include "elementwise.h"
#include "span.h"

/* These kernels also update running statistics, which must be equal to the bit on every backend. */
SEPARATE_ROUNDING

/* c = a * b */
KERNEL void dpt_multiply(OUT(act, c), IN(act, a), IN(act, b), const elementwise_params p)
{
    TENSOR_OUT(act, c);
    TENSOR_IN(act, a);
    TENSOR_IN(act, b);
    FOR_ELEMENTS(i, p.count)
    PUT(c, i, GET(a, i) * GET(b, i));
}

/* c = alpha * a + beta * b */
KERNEL void dpt_add(OUT(act, c), IN(act, a), IN(act, b), IN(float, halt),
                    const elementwise_params p)
{
    TENSOR_OUT(act, c);
    TENSOR_IN(act, a);
    TENSOR_IN(act, b);
    if (HALTED(p)) return;
    FOR_ELEMENTS(i, p.count)
    PUT(c, i, p.alpha * GET(a, i) + p.beta * GET(b, i));
}

/* c = alpha * a + beta */
KERNEL void dpt_affine(OUT(act, c), IN(act, a), const elementwise_params p)
{
    TENSOR_OUT(act, c);
    TENSOR_IN(act, a);
    FOR_ELEMENTS(i, p.count)
    PUT(c, i, p.alpha * GET(a, i) + p.beta);
}
