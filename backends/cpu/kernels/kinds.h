/* The preparations of all kinds of operators, which the kernel set's table lists. */
#ifndef DPT_CPU_KINDS_H
#define DPT_CPU_KINDS_H

#include "../operators.h"
#include "namespace.h"

dpt_cpu_prepare KERNEL(prepare_gather);
dpt_cpu_prepare KERNEL(prepare_gather_labels);
dpt_cpu_prepare KERNEL(prepare_conv2d_forward);
dpt_cpu_prepare KERNEL(prepare_conv2d_backward_data);
dpt_cpu_prepare KERNEL(prepare_conv2d_backward_weights);
dpt_cpu_prepare KERNEL(prepare_winograd4_forward);
dpt_cpu_prepare KERNEL(prepare_winograd3_forward);
dpt_cpu_prepare KERNEL(prepare_winograd2_forward);
dpt_cpu_prepare KERNEL(prepare_winograd4_backward_data);
dpt_cpu_prepare KERNEL(prepare_winograd3_backward_data);
dpt_cpu_prepare KERNEL(prepare_winograd2_backward_data);
dpt_cpu_prepare KERNEL(prepare_winograd4_backward_weights);
dpt_cpu_prepare KERNEL(prepare_winograd3_backward_weights);
dpt_cpu_prepare KERNEL(prepare_winograd2_backward_weights);
dpt_cpu_prepare KERNEL(prepare_columns_backward_weights);
dpt_cpu_prepare KERNEL(prepare_linear_blas); /* all three kinds */
dpt_cpu_prepare KERNEL(prepare_linear_packed);
dpt_cpu_prepare KERNEL(prepare_pool2d_forward);
dpt_cpu_prepare KERNEL(prepare_pool2d_backward);
dpt_cpu_prepare KERNEL(prepare_activation_forward);
dpt_cpu_prepare KERNEL(prepare_activation_backward);
dpt_cpu_prepare KERNEL(prepare_batch_norm_partial);
dpt_cpu_prepare KERNEL(prepare_batch_norm_merge);
dpt_cpu_prepare KERNEL(prepare_batch_norm_freeze);
dpt_cpu_prepare KERNEL(prepare_batch_norm_forward);
dpt_cpu_prepare KERNEL(prepare_batch_norm_backward_partial);
dpt_cpu_prepare KERNEL(prepare_batch_norm_backward_data);
dpt_cpu_prepare KERNEL(prepare_layer_norm_forward);
dpt_cpu_prepare KERNEL(prepare_layer_norm_backward_data);
dpt_cpu_prepare KERNEL(prepare_layer_norm_backward_weights);
dpt_cpu_prepare KERNEL(prepare_dropout);
dpt_cpu_prepare KERNEL(prepare_softmax_xent);
dpt_cpu_prepare KERNEL(prepare_softmax_xent_gradient);
dpt_cpu_prepare KERNEL(prepare_squared_error);
dpt_cpu_prepare KERNEL(prepare_squared_error_gradient);
dpt_cpu_prepare KERNEL(prepare_multiply);
dpt_cpu_prepare KERNEL(prepare_add);
dpt_cpu_prepare KERNEL(prepare_affine);
dpt_cpu_prepare KERNEL(prepare_sgd);
dpt_cpu_prepare KERNEL(prepare_adamw);
dpt_cpu_prepare KERNEL(prepare_clip_norm);
dpt_cpu_prepare KERNEL(prepare_check_finite);

#endif
