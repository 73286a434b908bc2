/* Input values within the domain of the slot that they are for: integers or reals. */
#ifndef DPT_TEST_INPUTS_H
#define DPT_TEST_INPUTS_H

#include "backend.h"
#include "harness.h"

/* Fills n elements of input `slot` of an operator. */
void inputs_fill(const dpt_op_desc *desc, size_t slot, bool integers, test_random *random,
                 void *out, size_t n);
/* An output that is read too: weights, an optimizer's state, or what is accumulated to. */
void inputs_fill_output(const dpt_op_desc *desc, size_t slot, bool integers, test_random *random,
                        float *out, size_t n);

/* The nearest of bfloat16, ties to even, of a number below the largest. */
uint16_t inputs_bfloat16(float value);

/* Whether integer inputs give results that float32 holds exactly, whatever the order of the sum:
   not behind a division or an exponential. */
bool inputs_exact(const dpt_op_desc *desc);

#endif
