/* What the parts of the reader share while one file is read.  Not for others. */
#ifndef DPTI_ONNX_READ_STATE_H
#define DPTI_ONNX_READ_STATE_H

#include "base/bytes.h"
#include "onnx/model.h"
#include "onnx/names.h"
#include "onnx/wire.h"

#include "schema.pb-c.h"

/* An attribute of a node, after references to a caller's attributes were followed. */
typedef struct dpti_onnx_flat_attribute {
    const char *name;
    const Dpti__Onnx__Attribute *value;
} dpti_onnx_flat_attribute;

/* A node with the names of its values, after functions were put in place. */
typedef struct dpti_onnx_flat_node {
    const char *op, *label, *origin;
    bool in_branch;
    size_t n_inputs, n_outputs, n_attributes;
    const char **inputs, **outputs; /* "": left out */
    dpti_onnx_flat_attribute *attributes;
} dpti_onnx_flat_node;

typedef struct dpti_onnx_reading {
    dpti_onnx_model *model;
    dpti_onnx_arena *arena; /* the model's */
    const Dpti__Onnx__Model *proto;
    const dpti_file_bytes *bytes; /* the model's own file */
    dpti_onnx_raw *raw;           /* [initialiser] its raw bytes in the file */
    size_t least_part;            /* of the limits */
    const char *folder;           /* of external tensors, resolved; NULL: there may be none */
    size_t max_nodes;
    size_t n_nodes_seen; /* calls of functions included */
    size_t n_flat, capacity;
    dpti_onnx_flat_node *flat;
} dpti_onnx_reading;

/* Decodes a subgraph.  Errors: DPT_E_FORMAT, DPT_E_UNSUPPORTED for too many nodes,
   DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_onnx_decode_graph(dpti_onnx_reading *reading,
                                                   const ProtobufCBinaryData *bytes,
                                                   const Dpti__Onnx__Graph **out, dpt_error *error);
/* Fills `flat` with the nodes of the graph, and with those of both branches of each If.  Errors:
   DPT_E_UNSUPPORTED for another domain; DPT_E_FORMAT; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_onnx_flatten(dpti_onnx_reading *reading, dpt_error *error);
/* Makes values and nodes of the model from `flat`, initialisers, inputs and outputs.  Errors:
   DPT_E_FORMAT, DPT_E_UNSUPPORTED, DPT_E_IO, DPT_E_NOT_FOUND, DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_onnx_link(dpti_onnx_reading *reading, dpt_error *error);
/* Puts the nodes of the model in an order in which each is behind the producers of its inputs.
   Errors: DPT_E_FORMAT if there is a circle; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_onnx_sort(dpti_onnx_model *model, dpt_error *error);
/* Gives each layer a tensor of its own where the exporter had merged equal ones, and marks buffers
   (merged.c).  Before dpti_onnx_sort.  Errors: DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_onnx_split_merged(dpti_onnx_reading *reading, dpt_error *error);
/* The attributes of a node.  Errors: DPT_E_UNSUPPORTED for a subgraph and other kinds that are not
   taken; DPT_E_FORMAT; DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_onnx_read_attributes(dpti_onnx_reading *reading,
                                                      const dpti_onnx_flat_node *flat,
                                                      dpti_onnx_node *node, dpt_error *error);
/* A tensor, which is for messages the one called `out->name`, set by the caller.  Errors: as
   dpti_onnx_link. */
DPT_CHECK_RESULT dpt_status dpti_onnx_read_tensor(dpti_onnx_reading *reading,
                                                  const Dpti__Onnx__Tensor *proto,
                                                  dpti_onnx_tensor *out, dpt_error *error);
/* The content of a tensor in another file; type and extents of `out` are set.  Errors: as
   dpti_onnx_link. */
DPT_CHECK_RESULT dpt_status dpti_onnx_read_external(dpti_onnx_reading *reading,
                                                    const Dpti__Onnx__Tensor *proto,
                                                    dpti_onnx_tensor *out, dpt_error *error);

/* The value of an entry of this key; NULL if there is none. */
const char *dpti_onnx_entry(Dpti__Onnx__Entry *const *entries, size_t n, const char *key);

/* A text of the file; "" if it is absent. */
static inline const char *dpti_onnx_text(const char *text)
{
    return text ? text : "";
}

#endif
