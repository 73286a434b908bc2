/* Element by element.  The result may lie where an argument lies. */
#include "elementwise.h"

/* c = a * b */
KERNEL void dpt_multiply(OUT(float, c), IN(float, a), IN(float, b), const elementwise_params p)
{
    TENSOR_OUT(float, c);
    TENSOR_IN(float, a);
    TENSOR_IN(float, b);
    const u64 i = GLOBAL_ID;
    if (i < p.count) c[i] = a[i] * b[i];
}

/* c = alpha * a + beta * b */
KERNEL void dpt_add(OUT(float, c), IN(float, a), IN(float, b), const elementwise_params p)
{
    TENSOR_OUT(float, c);
    TENSOR_IN(float, a);
    TENSOR_IN(float, b);
    const u64 i = GLOBAL_ID;
    if (i < p.count) c[i] = p.alpha * a[i] + p.beta * b[i];
}

/* c = alpha * a + beta */
KERNEL void dpt_affine(OUT(float, c), IN(float, a), const elementwise_params p)
{
    TENSOR_OUT(float, c);
    TENSOR_IN(float, a);
    const u64 i = GLOBAL_ID;
    if (i < p.count) c[i] = p.alpha * a[i] + p.beta;
}
