/* The preparations that the table of a kernel set (set.c) names: one for each kind of DPT_OP_LIST,
   prepare_NAME, the other ways to do convolutions, linear layers and products, and deterministic
   operators. */
#ifndef DPT_CPU_KINDS_H
#define DPT_CPU_KINDS_H

#include "../operators.h"
#include "namespace.h"

#define DPT_CPU_PREPARE_KIND(KIND, name, ...) dpt_cpu_prepare KERNEL(prepare_##name);
DPT_OP_LIST(DPT_CPU_PREPARE_KIND)
#undef DPT_CPU_PREPARE_KIND

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
dpt_cpu_prepare KERNEL(prepare_linear_packed); /* all three kinds of linear layers */
dpt_cpu_prepare KERNEL(prepare_matmul_packed);

/* Deterministic operators that have kernels of their own. */
dpt_cpu_prepare KERNEL(prepare_fixed_forward); /* of convolutions */
dpt_cpu_prepare KERNEL(prepare_fixed_backward_data);
dpt_cpu_prepare KERNEL(prepare_fixed_backward_weights);
dpt_cpu_prepare KERNEL(prepare_fixed_batch_norm_partial);
dpt_cpu_prepare KERNEL(prepare_fixed_batch_norm_backward_partial);
dpt_cpu_prepare KERNEL(prepare_fixed_layer_norm_backward_weights);

#endif
