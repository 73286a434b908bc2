/* Converting numbers from one type to another. */
#include "convert_params.h"
#include "quad.h"
#include "span.h"

#define CONVERT(name, from, to, f)                                                                 \
    KERNEL void name(OUT(to, y), IN(from, x), const convert_params p)                              \
    {                                                                                              \
        TENSOR_OUT(to, y);                                                                         \
        TENSOR_IN(from, x);                                                                        \
        if (BY_QUADS(p)) {                                                                         \
            const u64 n = p.count / 4;                                                             \
            FOR_QUADS (first, n) {                                                                 \
                quad_##from own[QUADS];                                                            \
                UNROLL for (u32 k = 0; k < QUADS; k++)                                             \
                    own[k] = QUAD(from, x, QUAD_AT(first, k, n));                                  \
                UNROLL for (u32 k = 0; k < QUADS; k++)                                             \
                    if (HAS_QUAD(first, k, n))                                                     \
                        QUAD_OUT(to, y, QUAD_AT(first, k, n)) = f##_quad(own[k]);                  \
            }                                                                                      \
            return;                                                                                \
        }                                                                                          \
        FOR_RUNS (first, p.count) {                                                                \
            from own[RUN];                                                                         \
            UNROLL for (u32 k = 0; k < RUN; k++)                                                   \
                own[k] = first + k * GROUP < p.count ? x[first + k * GROUP] : 0;                   \
            UNROLL for (u32 k = 0; k < RUN; k++)                                                   \
                if (first + k * GROUP < p.count) y[first + k * GROUP] = f(own[k]);                 \
        }                                                                                          \
    }

/* dpt_narrow: x, float32 -> y, bfloat16.  dpt_widen: x, bfloat16 -> y, float32. */
CONVERT(dpt_narrow, float, u16, narrow)
CONVERT(dpt_widen, u16, float, widen)
