/* The checks and the tensors of MAP and MAP_REDUCE, for signature.c. */
#ifndef DPTI_MAP_SIGNATURE_H
#define DPTI_MAP_SIGNATURE_H

#include "device/slots.h"

/* Validates the description of a MAP or a MAP_REDUCE.  DPT_E_INVALID with the reason: the program
   reads a value that is not computed yet, an operand leaves its tensor, two indices write the same
   element, or the samples of an output do not fit those of the inputs.  `error` may be NULL. */
DPT_CHECK_RESULT dpt_status dpti_map_check(const dpt_op_desc *desc, dpt_error *error);

/* Fills in the tensors of a description that dpti_map_check has accepted.  Cannot fail. */
void dpti_map_slots(const dpt_op_desc *desc, dpti_signature *out);

#endif
