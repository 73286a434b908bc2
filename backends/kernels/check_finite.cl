/* Whether numbers are finite. */
#include "check_finite.h"
#include "span.h"

/* x (count) -> halt (1): 1 if any of x is infinite or not a number, else as it was.  Whoever finds
   one writes the same. */
KERNEL void dpt_check_finite(OUT(float, halt), IN(float, x), const check_finite_params p)
{
    TENSOR_OUT(float, halt);
    TENSOR_IN(float, x);
    const u32 exponent = 0x7f800000u;
    u32 found = 0;
    FOR_ELEMENTS (i, p.count)
        found |= (u32)((AS_UINT(x[i]) & exponent) == exponent);
    if (found) halt[0] = 1.0f;
}
