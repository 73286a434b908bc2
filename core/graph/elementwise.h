/* Element-wise layers as operators: the space of a layer, and what computes the layer and its
   gradients. */
#ifndef DPTI_ELEMENTWISE_H
#define DPTI_ELEMENTWISE_H

#include "graph/model.h"

/* DPT_OP_MAP_REDUCE if several indices, or several samples, contribute to one element of the
   output, else DPT_OP_MAP. */
dpt_op_kind dpti_sum_kind(const dpt_map_desc *desc);

/* The description that computes the gradient of input `input` of an element-wise node whose
   reduction, if it has one, is a sum: a MAP, or a MAP_REDUCE if elements of the input are repeated.
   tensors[k] says what input k of the description is: the number of an input of the node, or
   n_inputs for the gradient of the node's output.  Operands have the type float32.  Cannot fail:
   the derivative was checked when the node was added. */
dpt_op_desc dpti_elementwise_gradient(const dpti_node *node, size_t input,
                                      uint8_t tensors[DPT_MAX_INPUTS]);

/* For a node that is the maximum or the minimum of one input along axes.  The first counts the
   elements that are equal to it (inputs: the node's input, its output).  The second is the gradient
   of the input (inputs: the input, the output, the output's gradient, the counts). */
dpt_op_desc dpti_count_ties(const dpti_node *node);
dpt_op_desc dpti_share_gradient(const dpti_node *node);

#endif
