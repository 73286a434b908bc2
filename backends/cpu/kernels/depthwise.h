/* Depthwise convolutions: every channel has one filter of its own, and the output has the channels
   of the input.  A product of matrices would have one column, so the lanes of a vector are channels
   here, and the input is read in place, without a frame of zeros. */
#ifndef DPT_CPU_DEPTHWISE_H
#define DPT_CPU_DEPTHWISE_H

#include "kinds.h"

/* Whether these preparations serve the description better than tiles of products do: it is
   depthwise, and its channels fill a vector. */
bool KERNEL(is_depthwise)(const dpt_conv2d_desc *desc);

dpt_cpu_prepare KERNEL(prepare_depthwise_forward);
dpt_cpu_prepare KERNEL(prepare_depthwise_backward_data);
dpt_cpu_prepare KERNEL(prepare_depthwise_backward_weights);

#endif
