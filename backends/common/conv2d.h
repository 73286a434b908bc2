/* Ways to convolve: each pass of conv2d is prepared by one of some families, which list their
   alternatives (alternatives.h) for operators/conv2d.c to choose from.  All take activations NHWC,
   filters OHWI (I = in_channels / groups), and honour bias, activation, mask (input_activation) and
   accumulation as DPT_OP_LIST (backend/op_list.h) says. */
#ifndef DPT_COMMON_CONV2D_H
#define DPT_COMMON_CONV2D_H

#include "alternatives.h"

/* The backend's.  Its families, best guess first, up to a NULL.  A family ends with a NULL name,
   and is for CONV2D_FORWARD, _BACKWARD_DATA and _BACKWARD_WEIGHTS alike: prepare looks at
   op->desc.kind. */
const dpt_alternative *const *dpt_conv2d_families(const dpt_device *device);

/* For GPUs: tiles in local memory; the same by tensor cores, for CUDA; and images that have few
   channels, without BACKWARD_DATA. */
extern const dpt_alternative dpt_conv2d_local[];
extern const dpt_alternative dpt_conv2d_tensor[];
extern const dpt_alternative dpt_conv2d_few[];

#endif
