/* The checks and the tensors of MATMUL, for signature.c. */
#ifndef DPTI_MATMUL_SIGNATURE_H
#define DPTI_MATMUL_SIGNATURE_H

#include "device/slots.h"

/* Validates the description of a MATMUL.  DPT_E_INVALID with the reason: an extent is 0, an operand
   leaves its tensor, y is not per sample, or two indices write the same element.  `error` may be
   NULL. */
DPT_CHECK_RESULT dpt_status dpti_matmul_check(const dpt_matmul_desc *desc, dpt_error *error);

/* Fills in the tensors of a description that dpti_matmul_check has accepted.  Cannot fail. */
void dpti_matmul_slots(const dpt_op_desc *desc, dpti_signature *out);

#endif
