/* Adds layers to a model that is being built.  The first failure is stored in the model, and all
   later calls do nothing. */
#ifndef DPTI_BUILDER_H
#define DPTI_BUILDER_H

#include "context/sized.h"
#include "graph/model.h"

enum {
    DPTI_MAX_EXTENT = 1 << 27, /* elements of a value, for a sample */
    DPTI_MAX_RECORD = 1 << 24, /* of an input; also the most classes that a file of weights names */
    DPTI_MAX_NODES = 1 << 16,
    DPTI_MAX_LAYER_NAME = 120
};

/* Records the model's failure and returns the value 0. */
#define DPTI_MODEL_FAIL(model, status_, ...)                                                       \
    ((model)->status = DPT_FAIL(&(model)->error, (status_), __VA_ARGS__), (dpt_value){0})

/* Returns whether building may continue with this input.  A NULL model comes from a
   dpt_model_create whose result was not checked. */
bool dpti_usable(dpt_model *model, dpt_value x, const char *layer);
/* Appends a node.  Extents are validated here, for every kind of node. */
dpt_value dpti_add_node(dpt_model *model, dpti_node node);
/* Returns a node that reads x and has no parameters, for dpti_add_node. */
dpti_node dpti_node_over(dpti_node_kind kind, const char *name, dpt_value x);
/* Adds the parameter LAYER.SUFFIX; `parameter` has its rank, shape, role and layout.  Returns the
   parameter's index, or SIZE_MAX after a failure. */
size_t dpti_build_parameter(dpt_model *model, const char *layer, const char *suffix,
                            dpti_parameter parameter);
/* The same with a full name, which the function takes over and frees; `layer` is for messages. */
size_t dpti_append_parameter(dpt_model *model, char *name, const char *layer,
                             dpti_parameter parameter);
/* Each of the next five functions returns false after a failure, whose message names the layer.  A
   new name must differ from all other layers' names and must be storable in a checkpoint. */
bool dpti_name_is_new(dpt_model *model, const char *name);
bool dpti_has_options(dpt_model *model, const char *layer, const void *options);
/* Copies the options that a program has passed (dpti_read_sized); NULL gives zeros. */
bool dpti_take_options(dpt_model *model, const char *layer, const dpti_sized *what, void *out);
/* Validates the layer's operator as the dispatch will, so that the message of a failure names the
   layer. */
bool dpti_describes(dpt_model *model, const char *layer, const dpt_op_desc *desc);
bool dpti_known_activation(dpt_model *model, const char *layer, dpt_activation kind);
/* Returns the activation if a layer's own operator can apply it, else DPT_ACT_NONE
   (dpt_activation_fuses). */
dpt_activation dpti_fusable(dpt_activation kind);
/* The description of a convolution of an image of this extent.  out_h or out_w is 0 if the kernel
   does not fit. */
dpt_conv2d_desc dpti_describe_conv2d(dpti_extent in, const dpt_conv2d_options *options);
/* The pooling of each of so many images that lie below one another in x (given.h). */
dpt_value dpti_pool2d(dpt_model *model, dpt_value x, size_t images,
                      const dpt_pool2d_options *options);
/* The extent of each of so many images that lie below one another. */
dpti_extent dpti_each_image(dpti_extent all, size_t images);
/* Gives a node the extent of so many images `each` below one another.  Its operator takes each as a
   sample. */
void dpti_set_images(dpti_node *node, dpti_extent each, size_t images);
/* Appends a layer and, if the layer's operator cannot apply the activation, the activation. */
dpt_value dpti_add_layer(dpt_model *model, dpti_node node, dpt_activation activation);
/* Says that this value is the output as the network gives it.  Only the first call has an effect.
 */
void dpti_name_output(dpt_model *model, dpt_value output);
/* Finishes a model whose logits have n_rows rows with a label each: the axes of `logits` are those
   of the rows, then one of classes. */
DPT_CHECK_RESULT dpt_status dpti_model_finish_rows(dpt_model *model, dpt_value logits,
                                                   size_t n_rows);
/* Appends a layer without parameters.  Its name is made of its kind and its place. */
dpt_value dpti_add_unnamed(dpt_model *model, const char *kind, dpti_node node);

#endif
