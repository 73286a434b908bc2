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
extern const dpt_alternative dpt_conv2d_local[];    /* tiles in local memory */
extern const dpt_alternative dpt_conv2d_tensor[];   /* the same on tensor cores, for CUDA */
extern const dpt_alternative dpt_conv2d_few[];      /* few input channels; no BACKWARD_DATA */
extern const dpt_alternative dpt_conv2d_winograd[]; /* in float32 */

/* ---- Deterministic operators ----------------------------------------------------------------- */

/* The linear layer in whose place a convolution of images of one pixel is computed.  Its sums keep
   the sign of a zero.  Of backward-weights dy has dy_row columns, of which those from dy_first on
   are the outputs. */
typedef struct dpt_conv2d_linear {
    size_t dy_first, dy_row;
} dpt_conv2d_linear;

/* The backend defines this.  It fills in op->plan with a convolution whose sums are chains in the
   order of docs/reproducibility.md.  layer: NULL if it is no linear layer.  Nothing is measured.
   Fails as dpt_op_prepare does. */
DPT_CHECK_RESULT dpt_status dpt_conv2d_chains(dpt_op *op, const dpt_conv2d_linear *layer);
/* The same by the kernels of dpt_conv2d_local[]. */
DPT_CHECK_RESULT dpt_status dpt_conv2d_local_chains(dpt_op *op, const dpt_conv2d_linear *layer);

#endif
