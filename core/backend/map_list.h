/* The instructions of a MAP program (operators.h, dpt_map_desc).

   This header has macros only and includes no other header, so that device code can include it.  A
   backend includes backend.h, which includes this header. */
#ifndef DPT_BACKEND_MAP_LIST_H
#define DPT_BACKEND_MAP_LIST_H

/* X(NAME, n_operands, rounds, value)

   NAME        DPT_MAP_NAME in code.
   n_operands  the number of earlier instructions whose values this instruction reads: a, b, c.
   rounds      EXACT: small integers give a small integer.  ROUNDS: the value is rounded.
               STEPS: the value jumps where its operands change by a rounding error.
   value       the value, in C with doubles a, b and c.  Truth is 1, falsehood is 0; every value
               other than 0 is true.

   Without operands: LOAD reads an element of the input `index`, widened to float32; CONSTANT is
   `constant`.  MINIMUM, MAXIMUM and SIGN of a NaN are NaN; a comparison with a NaN is false.
   ROUND rounds halves to even.  SOFTPLUS is log(1 + exp(a)), without overflow.  */
/* clang-format off */
#define DPT_MAP_LIST(X) \
    X(LOAD, 0, EXACT, 0.0) \
    X(CONSTANT, 0, EXACT, 0.0) \
    X(ADD, 2, EXACT, a + b) \
    X(SUBTRACT, 2, EXACT, a - b) \
    X(MULTIPLY, 2, EXACT, a * b) \
    X(DIVIDE, 2, ROUNDS, a / b) \
    X(MINIMUM, 2, EXACT, isnan(a) || a < b ? a : b) \
    X(MAXIMUM, 2, EXACT, isnan(a) || a > b ? a : b) \
    X(POWER, 2, ROUNDS, pow(a, b)) \
    X(NEGATE, 1, EXACT, -a) \
    X(ABSOLUTE, 1, EXACT, fabs(a)) \
    X(SIGN, 1, STEPS, isnan(a) ? a : (double)((a > 0.0) - (a < 0.0))) \
    X(FLOOR, 1, STEPS, floor(a)) \
    X(CEILING, 1, STEPS, ceil(a)) \
    X(ROUND, 1, STEPS, rint(a)) \
    X(RECIPROCAL, 1, ROUNDS, 1.0 / a) \
    X(SQRT, 1, ROUNDS, sqrt(a)) \
    X(EXP, 1, ROUNDS, exp(a)) \
    X(LOG, 1, ROUNDS, log(a)) \
    X(SINE, 1, ROUNDS, sin(a)) \
    X(COSINE, 1, ROUNDS, cos(a)) \
    X(TANH, 1, ROUNDS, tanh(a)) \
    X(ERF, 1, ROUNDS, erf(a)) \
    X(SIGMOID, 1, ROUNDS, 1.0 / (1.0 + exp(-a))) \
    X(SOFTPLUS, 1, ROUNDS, (a > 0.0 ? a : 0.0) + log1p(exp(-fabs(a)))) \
    X(LESS, 2, STEPS, (double)(a < b)) \
    X(LESS_EQUAL, 2, STEPS, (double)(a <= b)) \
    X(EQUAL, 2, STEPS, (double)(a == b)) \
    X(AND, 2, STEPS, (double)(a != 0.0 && b != 0.0)) \
    X(OR, 2, STEPS, (double)(a != 0.0 || b != 0.0)) \
    X(NOT, 1, STEPS, (double)(a == 0.0)) \
    X(SELECT, 3, STEPS, a != 0.0 ? b : c)
/* clang-format on */

#endif
