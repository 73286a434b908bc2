/* Proves that the samples of a batch do not depend on one another, so that each device can compute
   its shard of the batch alone.

   The proof follows the batch through every node.  A value has at most one axis whose extent
   contains N.  Along this axis of size * N elements, sample n has the elements (o * N + n) * inner
   + i for all o < outer and i < inner, where outer * inner = size.  A node may change axis, outer
   and inner, but each of its results must be computed from elements of one sample.  Batch-norm is
   the exception: its statistics are those of the whole batch, which the trainer sums over devices.

   A mean over the batch is accepted where it can only be a loss: one number, of which the nodes
   behind it compute a sum with, or a multiple by, what is the same for all samples.  The loss of a
   sample is what the graph computes for a batch of this sample alone, and the mean over the samples
   is the loss of the batch.  graph->gives_loss says that the output that is trained is
   such a number. */
#ifndef DPTI_ONNX_BATCH_PARALLEL_H
#define DPTI_ONNX_BATCH_PARALLEL_H

#include "onnx/infer.h"

/* Where the samples are in a value. */
typedef struct dpti_onnx_samples {
    size_t axis;   /* the rank if the value is the same for all samples */
    int64_t outer; /* 0: along the axis all elements are alike, so that any order is right */
    bool mean;     /* one number: the mean over the samples of what is computed of each alone */
} dpti_onnx_samples;

/* Proves it for every node of a graph.  If `out` is not NULL, *out becomes an array for all values
   of the model, which belongs to the graph.  Errors: DPT_E_UNSUPPORTED with one line that names the
   node that mixes samples, and says how; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_onnx_prove(dpti_onnx_graph *graph, const dpti_onnx_samples **out,
                                            dpt_error *error);

#endif
