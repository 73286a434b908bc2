/* Adds layers to a model that is being built.  The first failure is stored in the model, and all
   later calls do nothing. */
#ifndef DPTI_BUILDER_H
#define DPTI_BUILDER_H

#include "graph/model.h"

enum { DPTI_MAX_EXTENT = 1 << 24, DPTI_MAX_NODES = 4096, DPTI_MAX_LAYER_NAME = 120 };

/* Records the model's failure and yields no value. */
#define DPTI_MODEL_FAIL(model, status_, ...)                                                       \
    ((model)->status = DPT_FAIL(&(model)->error, (status_), __VA_ARGS__), (dpt_value){0})

/* Whether building may go on with this input; a NULL model is the caller's unchecked create. */
bool dpti_usable(dpt_model *model, dpt_value x, const char *layer);
/* Appends a node; extents are validated here, for every kind. */
dpt_value dpti_add_node(dpt_model *model, dpti_node node);
/* A node that reads x, without parameters, for add_node. */
dpti_node dpti_node_over(dpti_node_kind kind, const char *name, dpt_value x);
/* Adds the parameter LAYER.SUFFIX; its rank, shape, role and layout are given.  Returns its index,
   SIZE_MAX after a failure. */
size_t dpti_build_parameter(dpt_model *model, const char *layer, const char *suffix,
                            dpti_parameter parameter);
/* Each of these four is false after a failure, which names the layer.  A new name is no other
   layer's, and one that a checkpoint can hold. */
bool dpti_name_is_new(dpt_model *model, const char *name);
bool dpti_has_options(dpt_model *model, const char *layer, const void *options);
/* Validates the layer's operator as dispatch will, so that a mistake names the layer. */
bool dpti_describes(dpt_model *model, const char *layer, const dpt_op_desc *desc);
bool dpti_known_activation(dpt_model *model, const char *layer, dpt_activation kind);
/* An activation that a layer's own operator can apply; GELU needs one of its own. */
dpt_activation dpti_fusable(dpt_activation kind);
/* Appends a layer, and the activation that its operator cannot apply. */
dpt_value dpti_add_layer(dpt_model *model, dpti_node node, dpt_activation activation);
/* Layers without parameters are called by their kind and place. */
dpt_value dpti_add_unnamed(dpt_model *model, const char *kind, dpti_node node);

#endif
