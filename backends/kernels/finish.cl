/* Applying bias, activation and mask to a product that a library has computed. */
#include "activation.h"
#include "finish_params.h"
#include "quad.h"
#include "span.h"

#define HAS_MASK (p.mask_activation != ACTIVATION_NONE)

/* The results of four elements, whose first column is a multiple of four. */
DEVICE float4 finished(float4 value, float4 before, float4 masking, GLOBAL const float *bias,
                       u32 quad, const finish_params p)
{
    float own[4] = {value.x, value.y, value.z, value.w};
    const float add[4] = {before.x, before.y, before.z, before.w};
    const float mask[4] = {masking.x, masking.y, masking.z, masking.w};
    if (p.accumulate) {
        UNROLL for (u32 j = 0; j < 4; j++)
            own[j] += add[j];
    }
    if (p.has_bias) {
        const u32 i = 4 * quad, column = rest(i, quotient(i, p.columns), p.columns);
        const float4 b = QUAD(float, bias, column / 4);
        own[0] += b.x;
        own[1] += b.y;
        own[2] += b.z;
        own[3] += b.w;
    }
    if (p.activation != ACTIVATION_NONE) {
        UNROLL for (u32 j = 0; j < 4; j++)
            own[j] = activate(p.activation, own[j]);
    }
    if (HAS_MASK) {
        UNROLL for (u32 j = 0; j < 4; j++)
            own[j] *= activation_slope(p.mask_activation, mask[j]);
    }
    return FLOAT4(own[0], own[1], own[2], own[3]);
}

/* product (rows,columns), bias (columns), mask as y -> y (rows,columns), which may be product if both
   have one type.  The product is float32, or has the type of y. */
#define FINISH(name, type, READ, READ_QUAD)                                                        \
    KERNEL void name(OUT(act, y), IN(type, product), IN(float, bias), IN(act, mask),               \
                     const finish_params p)                                                        \
    {                                                                                              \
        TENSOR_OUT(act, y);                                                                        \
        TENSOR_IN(type, product);                                                                  \
        TENSOR_IN(float, bias);                                                                    \
        TENSOR_IN(act, mask);                                                                      \
        if (BY_QUADS(p)) {                                                                         \
            const u32 n = p.count / 4;                                                             \
            FOR_QUADS (first, n) {                                                                 \
                quad_##type own[QUADS];                                                            \
                quad_act before[QUADS], masking[QUADS];                                            \
                UNROLL for (u32 k = 0; k < QUADS; k++) {                                           \
                    const u64 i = QUAD_AT(first, k, n);                                            \
                    own[k] = QUAD(type, product, i);                                               \
                    before[k] = masking[k] = quad_of_zeros();                                      \
                    if (p.accumulate) before[k] = QUAD(act, y, i);                                 \
                    if (HAS_MASK) masking[k] = QUAD(act, mask, i);                                 \
                }                                                                                  \
                UNROLL for (u32 k = 0; k < QUADS; k++) {                                           \
                    const u64 i = first + k * GROUP;                                               \
                    if (i >= n) break;                                                             \
                    QUAD_OUT(act, y, i) = QUAD_STORED(                                             \
                        finished(READ_QUAD(own[k]), QUAD_VALUES(before[k]),                        \
                                 QUAD_VALUES(masking[k]), bias, (u32)i, p));                       \
                }                                                                                  \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
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

FINISH(dpt_finish, float, AS_IT_IS, AS_IT_IS)
FINISH(dpt_finish_stored, act, VALUE, QUAD_VALUES)
