/* Element by element.  The result may lie where an argument lies. */
#include "elementwise.h"
#include "span.h"

/* Running statistics are updated here, alike to the bit on every backend. */
SEPARATE_ROUNDING

/* c = a * b */
KERNEL void dpt_multiply(OUT(float, c), IN(float, a), IN(float, b), const elementwise_params p)
{
    TENSOR_OUT(float, c);
    TENSOR_IN(float, a);
    TENSOR_IN(float, b);
    FOR_ELEMENTS (i, p.count)
        c[i] = a[i] * b[i];
}

/* c = alpha * a + beta * b */
KERNEL void dpt_add(OUT(float, c), IN(float, a), IN(float, b), const elementwise_params p)
{
    TENSOR_OUT(float, c);
    TENSOR_IN(float, a);
    TENSOR_IN(float, b);
    FOR_ELEMENTS (i, p.count)
        c[i] = p.alpha * a[i] + p.beta * b[i];
}

/* c = alpha * a + beta */
KERNEL void dpt_affine(OUT(float, c), IN(float, a), const elementwise_params p)
{
    TENSOR_OUT(float, c);
    TENSOR_IN(float, a);
    FOR_ELEMENTS (i, p.count)
        c[i] = p.alpha * a[i] + p.beta;
}
