/* Ways to convolve: each pass of conv2d is prepared by one of these families, which list their
   alternatives (alternatives.h) for operators/conv2d.c to choose from.  All take activations NHWC,
   filters OHWI (I = in_channels / groups), and honour bias, activation, mask (input_activation) and
   accumulation as the operator table in backend.h says. */
#ifndef DPT_OPENCL_CONV2D_H
#define DPT_OPENCL_CONV2D_H

#include "alternatives.h"

/* Each ends with a NULL name.  For CONV2D_FORWARD, _BACKWARD_DATA and _BACKWARD_WEIGHTS alike:
   prepare looks at op->desc.kind. */
extern const dpt_cl_alternative dpt_cl_conv2d_registers[]; /* for CPUs: one item a group, vectors */
extern const dpt_cl_alternative dpt_cl_conv2d_local[];     /* for GPUs: tiles in local memory */
extern const dpt_cl_alternative dpt_cl_conv2d_winograd[];  /* 3x3, stride 1, dilation 1 */

#endif
