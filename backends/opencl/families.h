/* This backend's families of convolutions, beside dpt_conv2d_local (backends/common/conv2d.h). */
#ifndef DPT_OPENCL_CONV2D_H
#define DPT_OPENCL_CONV2D_H

#include "alternatives.h"
#include "device.h"

extern const dpt_alternative dpt_cl_conv2d_registers[]; /* for CPUs: one item a group, vectors */
extern const dpt_alternative dpt_cl_conv2d_winograd[];  /* 3x3, stride 1, dilation 1 */

#endif
