/* The families of convolution algorithms that only this backend has (backends/common/conv2d.h). */
#ifndef DPT_OPENCL_CONV2D_H
#define DPT_OPENCL_CONV2D_H

#include "alternatives.h"
#include "state.h"

extern const dpt_alternative dpt_cl_conv2d_registers[]; /* for CPUs: groups of one item, vectors */
extern const dpt_alternative dpt_cl_conv2d_winograd[];  /* 3x3, stride 1, dilation 1 */

#endif
