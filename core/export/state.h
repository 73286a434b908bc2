/* What the parts of the export share. */
#ifndef DPTI_EXPORT_STATE_H
#define DPTI_EXPORT_STATE_H

#include "export/draft.h"
#include "graph/model.h"

/* A value of the draft that holds a value of the model.

   A value of the model is a view of the memory of its *root*, the node that computes it.  `shape`
   says which element of a sample's memory each element of the draft's value is.  So two of these
   with the same root and the same shape are the same value, in whatever way they were made. */
typedef struct dpti_exported {
    dpti_draft_value *value;
    dpti_shape shape; /* without the batch, which is the first axis of the draft's value */
    bool batched;     /* false: there is no batch axis; the value is the same for all samples */
    struct dpti_exported *next;
} dpti_exported;

typedef struct dpti_exporter {
    const dpt_model *model;
    const void *const *weights; /* (n_parameters) float32 in the checkpoint's layout */
    dpti_draft *draft;
    size_t *root;                  /* (n_nodes) */
    bool *common;                  /* (n_nodes) dpti_export_is_common */
    dpti_exported **held;          /* (n_nodes) of a root: what holds parts of its memory */
    dpti_draft_value **parameters; /* (n_parameters) NULL: not used yet */
    dpti_draft_value *mask;        /* of causal attention, (queries, keys); NULL: not used yet */
    size_t mask_extents[2];
    dpti_draft_value *batch; /* the number of samples, as a list of one; NULL: not used yet */
    dpt_error *error;
} dpti_exporter;

/* Writes one node.  Errors: DPT_E_UNSUPPORTED with the node's name. */
typedef dpt_status dpti_export_rule(dpti_exporter *e, size_t node);

dpti_export_rule dpti_export_input, dpti_export_leaf, dpti_export_conv2d, dpti_export_linear,
    dpti_export_pool2d, dpti_export_activate, dpti_export_add, dpti_export_batch_norm,
    dpti_export_layer_norm, dpti_export_elementwise, dpti_export_join, dpti_export_embedding,
    dpti_export_product, dpti_export_softmax, dpti_export_conv2d_transpose, dpti_export_projection,
    dpti_export_recurrent, dpti_export_attention;

/* ---- Shapes (reach.c) ------------------------------------------------------------------------ */

/* The shape without one axis. */
dpti_shape dpti_export_drop(const dpti_shape *shape, size_t axis);
/* The axis of the batch in an imported value, which has the extent 1 for one sample: the first such
   axis that is not the last one.  The rank if there is none. */
size_t dpti_export_spare_axis(const dpti_shape *shape);
/* The shape in which the draft holds a node's value by preference: that of the node, but for the
   axis of the batch.  A flattened image keeps the axes (channels, height, width). */
dpti_shape dpti_export_shape(const dpti_exporter *e, size_t node);
/* The shape of an image of this extent: (channels, height, width). */
dpti_shape dpti_export_image(const dpti_extent *extent);

/* The draft's value with this shape over the memory of the node's root.  Transposes, reshapes,
   slices and so on are added if it is not there yet. */
const dpti_exported *dpti_export_reach(dpti_exporter *e, size_t node, const dpti_shape *wanted);
/* The same as a value of this type, with a batch axis. */
typedef struct dpti_export_want {
    const dpti_shape *shape;
    dpti_onnx_type type;
} dpti_export_want;
dpti_draft_value *dpti_export_take(dpti_exporter *e, size_t node, dpti_export_want want);
/* A value that samples have in common, such as weights, as float32 without a batch. */
dpti_draft_value *dpti_export_shared(dpti_exporter *e, size_t node, const dpti_shape *shape);
/* What a node reads: its input of this number, in the preferred shape, as float32 with a batch. */
dpti_draft_value *dpti_export_operand(dpti_exporter *e, size_t node, size_t input);
/* A value as this type. */
dpti_draft_value *dpti_export_cast(dpti_exporter *e, dpti_draft_value *x, dpti_onnx_type type);
/* Whether samples have a node's value in common: it says so, or it is a view or a formula of copies
   for each sample of what they have in common. */
bool dpti_export_is_common(const dpti_exporter *e, size_t node);
/* The node's value, with this shape over its memory.  It has a batch unless samples have it in
   common. */
void dpti_export_hold(dpti_exporter *e, size_t node, dpti_draft_value *value,
                      const dpti_shape *shape);
/* A value with other extents behind the batch, or without a batch. */
dpti_draft_value *dpti_export_reshape(dpti_exporter *e, dpti_draft_value *x, bool batched,
                                      const dpti_extents *extents);
/* The same, where the first axis has what the others leave: several parts of a sample become
   samples, or are put together again. */
dpti_draft_value *dpti_export_fold(dpti_exporter *e, dpti_draft_value *x,
                                   const dpti_extents *extents);
dpti_draft_value *dpti_export_permute(dpti_exporter *e, dpti_draft_value *x,
                                      const dpti_draft_integers *order);

/* ---- Parts of layers (layers.c) -------------------------------------------------------------- */

/* A parameter as an initialiser; SIZE_MAX: NULL. */
dpti_draft_value *dpti_export_parameter(dpti_exporter *e, size_t parameter);
dpti_draft_value *dpti_export_activation(dpti_exporter *e, dpt_activation kind,
                                         dpti_draft_value *x);
/* Reduces axes, which keep the extent 1. */
dpti_draft_value *dpti_export_reduce(dpti_exporter *e, const char *op, dpti_draft_value *x,
                                     const dpti_draft_integers *axes);
dpt_status dpti_export_refuse(const dpti_exporter *e, size_t node, const char *reason);

/* An element-wise program as operators (program.c). */
typedef struct dpti_export_program {
    const dpt_map_desc *map;
    dpti_draft_value *const *inputs; /* (map->n_in) that broadcast to each other */
} dpti_export_program;
dpti_draft_value *dpti_export_run(dpti_exporter *e, const dpti_export_program *program);
/* The same as one operator, if the program is one that ONNX has a name for; else NULL
   (pattern.c). */
dpti_draft_value *dpti_export_named(dpti_exporter *e, const dpti_export_program *program);

#endif
