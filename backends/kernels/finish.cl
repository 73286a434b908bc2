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
        FOR_RUNS (first, p.count) {                                                                \
            type own[RUN];                                                                         \
            act before[RUN], masking[RUN];                                                         \
            UNROLL for (u32 k = 0; k < RUN; k++) {                                                 \
                const u64 at = first + k * GROUP, i = at < p.count ? at : first;                   \
                own[k] = product[i];                                                               \
                before[k] = masking[k] = 0;                                                        \
                if (p.accumulate) before[k] = y[i];                                                \
                if (HAS_MASK) masking[k] = mask[i];                                                \
            }                                                                                      \
            UNROLL for (u32 k = 0; k < RUN; k++) {                                                 \
                const u64 i = first + k * GROUP;                                                   \
                float value = READ(own[k]);                                                        \
                if (i >= p.count) break;                                                           \
                if (p.accumulate) value += VALUE(before[k]);                                       \
                if (p.has_bias)                                                                    \
                    value += bias[rest((u32)i, quotient((u32)i, p.columns), p.columns)];           \
                value = activate(p.activation, value);                                             \
                if (HAS_MASK) value *= activation_slope(p.mask_activation, VALUE(masking[k]));     \
                PUT(y, i, value);                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
#define AS_IT_IS(x) (x)
#define HAS_MASK    (p.mask_activation != ACTIVATION_NONE)

FINISH(dpt_finish, float, AS_IT_IS)
FINISH(dpt_finish_stored, act, VALUE)
