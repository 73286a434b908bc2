/* Numbers from one type into another. */
#include "convert_params.h"
#include "span.h"

/* x, float32 -> y, bfloat16 */
KERNEL void dpt_narrow(OUT(u16, y), IN(float, x), const convert_params p)
{
    TENSOR_OUT(u16, y);
    TENSOR_IN(float, x);
    FOR_RUNS (first, p.count) {
        float own[RUN];
        UNROLL for (u32 k = 0; k < RUN; k++)
            own[k] = first + k * GROUP < p.count ? x[first + k * GROUP] : 0;
        UNROLL for (u32 k = 0; k < RUN; k++)
            if (first + k * GROUP < p.count) y[first + k * GROUP] = narrow(own[k]);
    }
}

/* x, bfloat16 -> y, float32 */
KERNEL void dpt_widen(OUT(float, y), IN(u16, x), const convert_params p)
{
    TENSOR_OUT(float, y);
    TENSOR_IN(u16, x);
    FOR_RUNS (first, p.count) {
        u16 own[RUN];
        UNROLL for (u32 k = 0; k < RUN; k++)
            own[k] = first + k * GROUP < p.count ? x[first + k * GROUP] : 0;
        UNROLL for (u32 k = 0; k < RUN; k++)
            if (first + k * GROUP < p.count) y[first + k * GROUP] = widen(own[k]);
    }
}
