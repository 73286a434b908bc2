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
            float own[RUN], before[RUN], masking[RUN];                                             \
            UNROLL for (u32 k = 0; k < RUN; k++) {                                                 \
                const u64 i = first + k * GROUP;                                                   \
                own[k] = i < p.count ? READ(product, i) : 0.0f;                                    \
                before[k] = p.accumulate && i < p.count ? GET(y, i) : 0.0f;                        \
                masking[k] = HAS_MASK && i < p.count ? GET(mask, i) : 0.0f;                        \
            }                                                                                      \
            UNROLL for (u32 k = 0; k < RUN; k++) {                                                 \
                const u64 i = first + k * GROUP;                                                   \
                float value = p.accumulate ? own[k] + before[k] : own[k];                          \
                if (i >= p.count) break;                                                           \
                if (p.has_bias)                                                                    \
                    value += bias[rest((u32)i, quotient((u32)i, p.columns), p.columns)];           \
                value = activate(p.activation, value);                                             \
                if (HAS_MASK) value *= activation_slope(p.mask_activation, masking[k]);            \
                PUT(y, i, value);                                                                  \
            }                                                                                      \
        }                                                                                          \
    }
#define READ_FLOAT(tensor, i) ((tensor)[i])
#define HAS_MASK              (p.mask_activation != ACTIVATION_NONE)

FINISH(dpt_finish, float, READ_FLOAT)
FINISH(dpt_finish_stored, act, GET)
