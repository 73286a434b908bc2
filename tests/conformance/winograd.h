/* The results of deterministic Winograd convolutions to the bit, in plain loops over the order of
   docs/reproducibility.md. */
#ifndef DPT_TEST_CONFORMANCE_WINOGRAD_H
#define DPT_TEST_CONFORMANCE_WINOGRAD_H

#include "conformance.h"

/* Whether a deterministic operator is a Winograd convolution. */
bool winograd_suits(const dpt_op_desc *desc);
/* Element i of the first output of such an operator, before bias, activation and mask.  Of
   backward-data the sum begins with what was there, if the call accumulates. */
float winograd_element(const dpt_op_desc *desc, const conformance_tensors *t, size_t i);

#endif
