/* Finds the type, the shape and, where it is known, the content of every value of a model.

   The batch has N samples, and N is not fixed: an extent is an integer, or an integer times N.  N
   is the one extent of each input that is not fixed, and is at least 1.  What computes shapes
   (Shape, Gather, Concat, arithmetic and so on) is evaluated here with N as a symbol, as is
   everything else that depends on constants alone.  What is left is a graph without shape
   computations. */
#ifndef DPTI_ONNX_INFER_H
#define DPTI_ONNX_INFER_H

#include "onnx/facts.h"

/* Makes the graph of a model; the caller frees *out.  Errors, each one line that names node and
   operator: DPT_E_UNSUPPORTED for an operator or a use of it that is not taken, for an input with
   no free extent or several, and for a shape that depends on more than N; DPT_E_FORMAT for shapes
   or types that do not fit together; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_onnx_infer(const dpti_onnx_model *model, dpti_onnx_graph **out,
                                            dpt_error *error);
/* Releases a graph, not its model; NULL is allowed. */
void dpti_onnx_graph_free(dpti_onnx_graph *graph);

/* What a SequenceAt takes of the value that was split: `size` elements of an axis from `begin` on.
 */
typedef struct dpti_onnx_part {
    size_t axis;
    int64_t begin, size;
} dpti_onnx_part;
/* Finds the part that a SequenceAt takes.  Errors: DPT_E_UNSUPPORTED, DPT_E_FORMAT, with the node.
 */
DPT_CHECK_RESULT dpt_status dpti_onnx_find_part(const dpti_onnx_graph *graph,
                                                const dpti_onnx_node *at, dpti_onnx_part *out,
                                                dpt_error *error);

/* Whether a Resize of x to `sizes` keeps the proportions of its axes; *scale = by which it then
   multiplies all of them. */
bool dpti_onnx_keeps_proportions(const dpti_onnx_node *node, const dpti_onnx_shape *x,
                                 const dpti_onnx_fact *sizes, double *scale);

#endif
