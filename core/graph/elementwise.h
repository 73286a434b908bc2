/* Element-wise layers as operators: the space of a layer, and what computes the layer and its
   gradients. */
#ifndef DPTI_ELEMENTWISE_H
#define DPTI_ELEMENTWISE_H

#include "graph/model.h"

/* The description that computes the gradient of input `input` of an element-wise node: a MAP, or a
   MAP_REDUCE if the input is broadcast.  tensors[k] says what input k of the description is: the
   number of an input of the node, or n_inputs for the gradient of the node's output.  Operands have
   the type float32.  Cannot fail: dpt_elementwise has checked that the derivative fits. */
dpt_op_desc dpti_elementwise_gradient(const dpt_model *model, const dpti_node *node, size_t input,
                                      uint8_t tensors[DPT_MAX_INPUTS]);

#endif
