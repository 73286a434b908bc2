/* What the parts of the inference share.  Not for others. */
#ifndef DPTI_ONNX_INFER_STATE_H
#define DPTI_ONNX_INFER_STATE_H

#include "onnx/facts.h"

enum { DPTI_ONNX_MAX_CELLS = 1 << 16, DPTI_ONNX_MESSAGE_BYTES = 400 };

/* The inference of one node. */
typedef struct dpti_onnx_inference {
    dpti_onnx_graph *graph;
    const dpti_onnx_node *node;
} dpti_onnx_inference;

/* Finds types and shapes of the outputs of a node.  Errors: as dpti_onnx_infer. */
typedef dpt_status dpti_onnx_rule(dpti_onnx_inference *in, dpt_error *error);

/* An operator: its rule, and the first of its inputs that are not data but say what to do, such as
   the new shape of Reshape. */
typedef struct dpti_onnx_operator {
    const char *name;
    dpti_onnx_rule *rule;
    size_t operands_from;
} dpti_onnx_operator;

/* The operators of each part; ended by a NULL name. */
extern const dpti_onnx_operator dpti_onnx_elementwise[], dpti_onnx_layouts[],
    dpti_onnx_reductions[], dpti_onnx_windows[], dpti_onnx_products[], dpti_onnx_sequences[],
    dpti_onnx_branches[];

/* An input of the node; NULL if it is left out. */
const dpti_onnx_fact *dpti_onnx_input(const dpti_onnx_inference *in, size_t i);
/* Errors: DPT_E_FORMAT if one of the first n inputs is left out. */
DPT_CHECK_RESULT dpt_status dpti_onnx_need(const dpti_onnx_inference *in, size_t n,
                                           dpt_error *error);
/* Gives an output, if the node has it, its type and shape.  Errors: DPT_E_UNSUPPORTED if two
   extents contain N; DPT_E_FORMAT if an extent is negative or the number of elements overflows. */
DPT_CHECK_RESULT dpt_status dpti_onnx_give(dpti_onnx_inference *in, size_t i,
                                           const dpti_onnx_fact *fact, dpt_error *error);
/* Fails with the node in front of the message.  Returns `status`. */
DPT_PRINTF(4, 5)
dpt_status dpti_onnx_refuse(const dpti_onnx_inference *in, dpt_status status, dpt_error *error,
                            const char *format, ...);
/* An axis from -rank to rank-1 as one from 0; rank if it is none of these. */
size_t dpti_onnx_axis(int64_t axis, size_t rank);
/* Integers from an input, or from the attribute of this name where older opsets have it; none if
   neither is there.  Errors: DPT_E_UNSUPPORTED if they are not known. */
typedef struct dpti_onnx_list {
    bool given;
    size_t n;
    dpti_onnx_cell cells[2 * DPTI_ONNX_MAX_RANK];
} dpti_onnx_list;
DPT_CHECK_RESULT dpt_status dpti_onnx_read_list(const dpti_onnx_inference *in, size_t i,
                                                dpti_onnx_list *out, dpt_error *error);
/* As dpti_onnx_read_list, and each is an axis of `rank` axes: sets used[axis].  *given: there is a
   list. */
typedef struct dpti_onnx_axes {
    size_t rank;
    bool given, used[DPTI_ONNX_MAX_RANK];
} dpti_onnx_axes;
DPT_CHECK_RESULT dpt_status dpti_onnx_read_axes(const dpti_onnx_inference *in, size_t i,
                                                dpti_onnx_axes *axes, dpt_error *error);
/* The elements of a tensor, of at most DPTI_ONNX_MAX_CELLS; *out stays NULL for other tensors and
   for types that are not evaluated.  Errors: DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_onnx_tensor_cells(dpti_onnx_arena *arena,
                                                   const dpti_onnx_tensor *tensor,
                                                   const dpti_onnx_cell **out, dpt_error *error);
/* Evaluates a node whose outputs have their shapes, if its inputs are known.  Errors:
   DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_onnx_fold(dpti_onnx_inference *in, dpt_error *error);

/* Finds out whether the first output of a node, which has its shape, is a progression.  Errors:
   DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_onnx_progress(dpti_onnx_inference *in, dpt_error *error);
/* *node = a Reshape with the same output, if it is a Gather or a GatherND of all elements in their
   order, by indices that are progressions.  Errors: DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_onnx_replace_view(dpti_onnx_graph *graph,
                                                   const dpti_onnx_node **node, dpt_error *error);

/* *node = an Identity of the result of the branch that is taken, if it is an If whose condition is
   known.  Errors: DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_onnx_replace_branch(dpti_onnx_graph *graph,
                                                     const dpti_onnx_node **node, dpt_error *error);

/* What a slice keeps of each axis, every step-th element from `start` on, and the shape of that.
   Along the batch axis the start is a multiple of N. */
typedef struct dpti_onnx_slice {
    int64_t start[DPTI_ONNX_MAX_RANK], step[DPTI_ONNX_MAX_RANK];
    dpti_onnx_shape shape;
} dpti_onnx_slice;
DPT_CHECK_RESULT dpt_status dpti_onnx_read_slice(const dpti_onnx_inference *in,
                                                 dpti_onnx_slice *out, dpt_error *error);

#endif
