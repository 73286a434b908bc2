/* Convolutions of bfloat16 activations by cuDNN.  conv2d_dnn.c holds the alternatives, and prepares
   those of float32 activations itself. */
#ifndef DPT_CUDA_CONV2D_DNN_H
#define DPT_CUDA_CONV2D_DNN_H

#include "dnn.h"
#include "operators.h"

/* Prepares a convolution of bfloat16 activations, as dpt_alternative.prepare does. */
DPT_CHECK_RESULT dpt_status dpt_cuda_conv2d_bf16_prepare(dpt_op *op, dpt_cuda_algorithm algorithm);

#endif
