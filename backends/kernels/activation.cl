/* Activation functions as operators of their own.  A program in which ACTIVATION is a constant is
   straight code. */
#include "activation.h"
#include "activation_params.h"
#include "span.h"

#ifndef ACTIVATION
#define ACTIVATION p.kind
#endif

/* x -> y */
KERNEL void dpt_activation_forward(OUT(float, y), IN(float, x), const activation_params p)
{
    TENSOR_OUT(float, y);
    TENSOR_IN(float, x);
    FOR_ELEMENTS (i, p.count)
        y[i] = activate(ACTIVATION, x[i]);
}

/* dy, y (GELU: x) -> dx, which may be dy */
KERNEL void dpt_activation_backward(OUT(float, dx), IN(float, dy), IN(float, y),
                                    const activation_params p)
{
    TENSOR_OUT(float, dx);
    TENSOR_IN(float, dy);
    TENSOR_IN(float, y);
    FOR_ELEMENTS (i, p.count) {
        const float slope =
            ACTIVATION == ACTIVATION_GELU ? gelu_slope(y[i]) : activation_slope(ACTIVATION, y[i]);
        const float own = dy[i] * slope;
        dx[i] = p.accumulate ? dx[i] + own : own;
    }
}
