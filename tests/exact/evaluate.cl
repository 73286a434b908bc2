/* A kernel that evaluates one function of exact.h (functions.h) at many arguments. */
#include "dialect.h"
#include "exact.h"
#include "functions.h"

DEVICE float evaluate(u32 function, float a, float b)
{
    switch (function) {
#define EXACT_CASE(name)                                                                           \
    case FUNCTION_##name:                                                                          \
        return exact_##name(a);
        EXACT_UNARY(EXACT_CASE)
#undef EXACT_CASE
#define EXACT_CASE(name)                                                                           \
    case FUNCTION_##name:                                                                          \
        return exact_##name(a, b);
        EXACT_BINARY(EXACT_CASE)
#undef EXACT_CASE
    default:
        return 0.0f;
    }
}

/* Bits of a (count) and of b (count), which only functions of two numbers use -> bits of y (count) */
KERNEL void test_exact(OUT(u32, y), IN(u32, a), IN(u32, b), const u32 function, const u32 count)
{
    TENSOR_OUT(u32, y);
    TENSOR_IN(u32, a);
    TENSOR_IN(u32, b);
    const u64 i = GLOBAL_ID;
    if (i < count) y[i] = AS_UINT(evaluate(function, AS_FLOAT(a[i]), AS_FLOAT(b[i])));
}
