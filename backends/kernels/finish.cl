/* What follows a product that a library has computed: bias, activation, mask. */
#include "activation.h"
#include "finish_params.h"
#include "span.h"

/* product (rows,columns), bias (columns), mask as y -> y (rows,columns), which may be product where
   both are of one type.  The product is float32, or stored as y is. */
#define FINISH(name, type, READ)                                                                   \
    KERNEL void name(OUT(act, y), IN(type, product), IN(float, bias), IN(act, mask),               \
                     const finish_params p)                                                        \
    {                                                                                              \
        TENSOR_OUT(act, y);                                                                        \
        TENSOR_IN(type, product);                                                                  \
        TENSOR_IN(float, bias);                                                                    \
        TENSOR_IN(act, mask);                                                                      \
        FOR_ELEMENTS (i, p.count) {                                                                \
            float value = READ(product, i);                                                        \
            if (p.accumulate) value += GET(y, i);                                                  \
            if (p.has_bias) value += bias[rest((u32)i, quotient((u32)i, p.columns), p.columns)];   \
            value = activate(p.activation, value);                                                 \
            if (p.mask_activation != ACTIVATION_NONE)                                              \
                value *= activation_slope(p.mask_activation, GET(mask, i));                        \
            PUT(y, i, value);                                                                      \
        }                                                                                          \
    }
#define READ_FLOAT(tensor, i) ((tensor)[i])

FINISH(dpt_finish, float, READ_FLOAT)
FINISH(dpt_finish_stored, act, GET)
