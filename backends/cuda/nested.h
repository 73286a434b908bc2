/* An operator inside another one: our own convolution, for calls that a library does not support.
 */
#ifndef DPT_CUDA_NESTED_H
#define DPT_CUDA_NESTED_H

#include "conv2d.h"

/* Prepares *out: our own convolution (dpt_conv2d_local) of the tile that is compiled in.  The
   device and max_samples are those of the outer operator.  Fails as dpt_alternative.prepare does.
 */
DPT_CHECK_RESULT dpt_status dpt_cuda_nested_prepare(const dpt_op *outer, const dpt_op_desc *conv2d,
                                                    dpt_op *out);
/* Enqueues the nested operator with the arguments of the outer call. */
DPT_CHECK_RESULT dpt_status dpt_cuda_nested_run(const dpt_op *nested, const dpt_call *outer);

#endif
