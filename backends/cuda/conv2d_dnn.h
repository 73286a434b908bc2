/* What conv2d_dnn.c hands on: the type of activations makes two sorts of operators of its names. */
#ifndef DPT_CUDA_CONV2D_DNN_H
#define DPT_CUDA_CONV2D_DNN_H

#include "dnn.h"
#include "operators.h"

/* Prepares a convolution of bfloat16 activations by a way of cuDNN's, as
   dpt_alternative.prepare. */
DPT_CHECK_RESULT dpt_status dpt_cuda_conv2d_bf16_prepare(dpt_op *op, dpt_cuda_algorithm way);

#endif
