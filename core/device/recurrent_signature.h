/* The checks of RECURRENT, for signature.c. */
#ifndef DPTI_RECURRENT_SIGNATURE_H
#define DPTI_RECURRENT_SIGNATURE_H

#include "backend.h"

/* Validates the description of a RECURRENT operator, except for its sizes.  DPT_E_INVALID with the
   reason: an unknown cell, places that are no permutation, an activation that the cell cannot
   apply, or a bias, a cell's state or a saved tensor that the cell does not have.  `error` may be
   NULL. */
DPT_CHECK_RESULT dpt_status dpti_recurrent_check(const dpt_op_desc *desc, dpt_error *error);

#endif
