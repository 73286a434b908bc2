/* Writes a model as an ONNX graph for inference.

   The nodes of the model become operators of ONNX: those of graph.c's table, one rule for each kind
   of node.  Values have the axes that users of ONNX expect: the batch, whose extent is the symbol
   N, in front, and images as (N, channels, height, width).  Batch-norm uses the running statistics,
   and dropout is left out.  The parameters are initialisers with the names, the shapes and the
   layout of a checkpoint, which are PyTorch's, or those of the file that the model was made of. */
#ifndef DPTI_EXPORT_H
#define DPTI_EXPORT_H

#include "export/draft.h"
#include "graph/model.h"

enum { DPTI_EXPORT_OLDEST_OPSET = 13, DPTI_EXPORT_NEWEST_OPSET = 25, DPTI_EXPORT_OPSET = 18 };

/* What a file says beside its graph: a NULL-terminated list of key, value, ...; or NULL. */
typedef const char *const *dpti_export_metadata;

/* Makes the graph of a finished model.  `weights` (n_parameters) are float32 in the checkpoint's
   layout, at any alignment; they and the model must stay valid as long as the draft.  The draft was
   begun, and is the caller's after a failure, too.  Errors: DPT_E_UNSUPPORTED with the layer's
   name; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_export_graph(const dpt_model *model, const void *const *weights,
                                              dpti_draft *draft, dpt_error *error);

/* Where and how a draft is written. */
typedef struct dpti_export_file {
    const char *path;
    const char *graph_name;
    dpti_export_metadata metadata;
    /* If the initialisers have more bytes than this, those of at least 1 KiB go to the file
       PATH.data. */
    size_t most_bytes;
} dpti_export_file;

/* Writes a draft as a file of ONNX, and the file of its tensors if there is one.  Temporary files
   are renamed at the end, the file of tensors first.  So a failure leaves old files as they are.
   Errors: DPT_E_IO; DPT_E_NO_MEMORY; DPT_E_UNSUPPORTED if this build has no protobuf-c. */
DPT_CHECK_RESULT dpt_status dpti_export_write(const dpti_draft *draft, const dpti_export_file *file,
                                              dpt_error *error);

#endif
