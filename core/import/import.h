/* Makes a model that can be trained of an ONNX graph.

   The reader (core/onnx) has proved that the samples of a batch are independent.  The network of
   one sample is therefore the graph with a batch of 1, and every value keeps the axes that it has
   in the file, with 1 in place of N. */
#ifndef DPTI_IMPORT_H
#define DPTI_IMPORT_H

#include "dptrain.h"
#include "onnx/facts.h"

/* Makes a model of a proved graph, which must stay valid during the call.  The weights are those of
   the file.  Errors, each one line that names the file, the node and its operator:
   DPT_E_UNSUPPORTED for a node that cannot be trained; DPT_E_INVALID; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_import(dpt_context *context, const dpti_onnx_graph *graph,
                                        dpt_model **out, dpt_error *error);

#endif
