/* Families of convolution algorithms.  A family lists its alternatives (alternatives.h), and
   operators/conv2d.c chooses among the alternatives of all families.  Every family takes
   activations NHWC and filters OHWI (I = in_channels / groups), and applies bias, activation, mask
   (input_activation) and accumulation as DPT_OP_LIST (backend/op_list.h) says. */
#ifndef DPT_COMMON_CONV2D_H
#define DPT_COMMON_CONV2D_H

#include "alternatives.h"

/* The backend defines this.  It returns the families of the device, the probably fastest
   first, ended by NULL.  A family ends with an alternative whose name is NULL.  It serves
   CONV2D_FORWARD, _BACKWARD_DATA and _BACKWARD_WEIGHTS: its prepare reads op->desc.kind. */
const dpt_alternative *const *dpt_conv2d_families(const dpt_device *device);

/* Families for GPUs. */
extern const dpt_alternative dpt_conv2d_local[];  /* tiles in local memory */
extern const dpt_alternative dpt_conv2d_tensor[]; /* the same on tensor cores, for CUDA */
extern const dpt_alternative dpt_conv2d_few[];    /* few input channels; no BACKWARD_DATA */

#endif
