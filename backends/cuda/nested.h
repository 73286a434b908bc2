/* An operator inside another: our own convolution, where a library has no way or is missing. */
#ifndef DPT_CUDA_NESTED_H
#define DPT_CUDA_NESTED_H

#include "conv2d.h"

/* Prepares the convolution of dpt_conv2d_local that is compiled in as *out, zeroed before.
   max_samples and the device are the outer operator's. */
DPT_CHECK_RESULT dpt_status dpt_cuda_nested_prepare(const dpt_op *outer, const dpt_op_desc *conv2d,
                                                    dpt_op *out);
/* Enqueues it with the outer call's arguments, which are the same for both. */
DPT_CHECK_RESULT dpt_status dpt_cuda_nested_run(const dpt_op *nested, const dpt_call *outer);

#endif
