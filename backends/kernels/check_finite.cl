/* Setting the halt word if a number is not finite. */
#include "check_finite.h"
#include "span.h"

/* x (count) -> halt (1): becomes 1 if an element of x is infinite or NaN, else stays as it is.  All
   items that find such an element write the same value. */
KERNEL void dpt_check_finite(OUT(float, halt), IN(float, x), const check_finite_params p)
{
    TENSOR_OUT(float, halt);
    TENSOR_IN(float, x);
    const u32 exponent = 0x7f800000u;
    u32 found = 0;
    FOR_RUNS (first, p.count) {
        UNROLL for (u32 k = 0; k < RUN; k++) {
            const u64 at = first + k * GROUP, i = at < p.count ? at : first;
            found |= (u32)((AS_UINT(x[i]) & exponent) == exponent);
        }
    }
    if (found) halt[0] = 1.0f;
}
