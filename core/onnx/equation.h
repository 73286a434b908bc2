/* The equation of an Einsum: which axes of its operands are the same, and which the result has. */
#ifndef DPTI_ONNX_EQUATION_H
#define DPTI_ONNX_EQUATION_H

#include "onnx/model.h"

enum { DPTI_ONNX_MAX_OPERANDS = 8 };

/* A letter for each axis of the operands, and of the result, which stands behind them.  The axes
   that dots stand for are digits: 7 is the last of them, 6 the one before, and so on.  Each letter
   of the result is one of an operand, and the result has none twice. */
typedef struct dpti_onnx_equation {
    size_t n; /* operands */
    char term[DPTI_ONNX_MAX_OPERANDS + 1][DPTI_ONNX_MAX_RANK + 1];
} dpti_onnx_equation;

/* Reads the equation for n operands with ranks[i] axes.  A result that is not written has the axes
   of dots, and then the letters that occur once, in alphabetical order.  false if the equation does
   not fit, or has too many operands or axes. */
DPT_CHECK_RESULT bool dpti_onnx_read_equation(const char *text, size_t n, const size_t *ranks,
                                              dpti_onnx_equation *out);

#endif
