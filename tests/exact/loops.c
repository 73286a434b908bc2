/* One variant (loops.h).  The build defines EXACT_VARIANT, and chooses the compiler's options. */
#include "loops.h"

#include "exact.h"

#define JOIN_TOKENS(a, b) a##b
#define JOIN(a, b)        JOIN_TOKENS(a, b)
#define TABLE             JOIN(exact_loops_, EXACT_VARIANT)

#define UNARY_LOOP(name)                                                                           \
    static void loop_##name(const uint32_t *restrict a, const uint32_t *restrict b,                \
                            uint32_t *restrict y, size_t n)                                        \
    {                                                                                              \
        (void)b;                                                                                   \
        for (size_t i = 0; i < n; i++)                                                             \
            y[i] = AS_UINT(exact_##name(AS_FLOAT(a[i])));                                          \
    }
EXACT_UNARY(UNARY_LOOP)

#define BINARY_LOOP(name)                                                                          \
    static void loop_##name(const uint32_t *restrict a, const uint32_t *restrict b,                \
                            uint32_t *restrict y, size_t n)                                        \
    {                                                                                              \
        for (size_t i = 0; i < n; i++)                                                             \
            y[i] = AS_UINT(exact_##name(AS_FLOAT(a[i]), AS_FLOAT(b[i])));                          \
    }
EXACT_BINARY(BINARY_LOOP)

extern exact_loop *const TABLE[N_FUNCTIONS];

exact_loop *const TABLE[N_FUNCTIONS] = {
#define ROW(name) [FUNCTION_##name] = loop_##name,
    EXACT_UNARY(ROW) EXACT_BINARY(ROW)};
