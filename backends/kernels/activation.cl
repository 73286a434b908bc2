/* Activation functions as separate operators.  In a program with the constant ACTIVATION the code has
   no branches. */
#include "activation.h"
#include "activation_params.h"
#include "span.h"

#ifndef ACTIVATION
#define ACTIVATION p.kind
#endif

/* x -> y */
KERNEL void dpt_activation_forward(OUT(act, y), IN(act, x), const activation_params p)
{
    TENSOR_OUT(act, y);
    TENSOR_IN(act, x);
    FOR_ELEMENTS(i, p.count)
    PUT(y, i, activate(ACTIVATION, GET(x, i)));
}

/* dy, y (x for a function that is never fused) -> dx, which may be dy */
KERNEL void dpt_activation_backward(OUT(act, dx), IN(act, dy), IN(act, y),
                                    const activation_params p)
{
    TENSOR_OUT(act, dx);
    TENSOR_IN(act, dy);
    TENSOR_IN(act, y);
    FOR_ELEMENTS(i, p.count)
    {
        const float own = with_own_slope(ACTIVATION, GET(y, i), GET(dy, i));
        PUT(dx, i, p.accumulate ? GET(dx, i) + own : own);
    }
}
