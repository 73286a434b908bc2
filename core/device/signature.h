/* The tensors of every operator. */
#ifndef DPTI_SIGNATURE_H
#define DPTI_SIGNATURE_H

#include "device/slots.h"

const char *dpti_op_name(dpt_op_kind kind); /* "CONV2D_FORWARD" */
/* Validates a description (extents, the output size of a convolution, overflow) and tells its
   tensors.  DPT_E_INVALID with the reason.  `error` may be NULL. */
DPT_CHECK_RESULT dpt_status dpti_op_signature(const dpt_op_desc *desc, dpti_signature *out,
                                              dpt_error *error);

#endif
