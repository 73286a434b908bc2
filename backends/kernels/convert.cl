/* Numbers from one type into another. */
#include "convert_params.h"
#include "span.h"

/* x, float32 -> y, bfloat16 */
KERNEL void dpt_narrow(OUT(u16, y), IN(float, x), const convert_params p)
{
    TENSOR_OUT(u16, y);
    TENSOR_IN(float, x);
    FOR_ELEMENTS (i, p.count)
        y[i] = narrow(x[i]);
}

/* x, bfloat16 -> y, float32 */
KERNEL void dpt_widen(OUT(float, y), IN(u16, x), const convert_params p)
{
    TENSOR_OUT(float, y);
    TENSOR_IN(u16, x);
    FOR_ELEMENTS (i, p.count)
        y[i] = widen(x[i]);
}
