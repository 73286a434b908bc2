/* The functions of backends/kernels/exact.h by name, for loops on CPUs and for a kernel.  `bell`
   and the functions `built_` are parts of others. */
#ifndef DPT_TEST_EXACT_FUNCTIONS_H
#define DPT_TEST_EXACT_FUNCTIONS_H

#define EXACT_UNARY(F)                                                                             \
    F(reciprocal)                                                                                  \
    F(sqrt)                                                                                        \
    F(built_sqrt)                                                                                  \
    F(rsqrt)                                                                                       \
    F(exp)                                                                                         \
    F(log)                                                                                         \
    F(sin)                                                                                         \
    F(cos)                                                                                         \
    F(tanh)                                                                                        \
    F(erf)                                                                                         \
    F(sigmoid)                                                                                     \
    F(softplus)                                                                                    \
    F(bell)                                                                                        \
    F(normal)
#define EXACT_BINARY(F)                                                                            \
    F(divide)                                                                                      \
    F(built_divide)                                                                                \
    F(power)

enum {
#define EXACT_NUMBER(name) FUNCTION_##name,
    EXACT_UNARY(EXACT_NUMBER) EXACT_BINARY(EXACT_NUMBER)
#undef EXACT_NUMBER
        N_FUNCTIONS,
    FIRST_BINARY = FUNCTION_divide
};

#endif
