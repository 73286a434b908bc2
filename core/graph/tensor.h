/* Layers over values of any rank, on top of views (shape.h) and programs over elements (MAP,
   MAP_REDUCE, see core/backend/operators.h).

   Shapes are those of one sample: the batch is no axis.  Every function follows the rules of
   builder.h: the first failure is stored in the model, and later calls do nothing and return the
   value 0.  `what` names the layer's kind in messages and in the layer's generated name. */
#ifndef DPTI_TENSOR_H
#define DPTI_TENSOR_H

#include "graph/builder.h"
#include "graph/map_program.h"

/* The largest number of inputs of a program: its gradient reads one more. */
enum { DPTI_MAP_INPUTS = DPT_MAX_INPUTS - 1 };

/* The extents of a usable value.  Those of a flattened image are those of its copy. */
dpti_extents dpti_extents_of(const dpt_model *model, dpt_value x);

/* ---- Parts of layers ------------------------------------------------------------------------- */

static inline const dpti_node *dpti_node_at(const dpt_model *model, dpt_value x)
{
    return &model->nodes[x.id - 1];
}

/* Gives a node the shape, and the flat extent that other layers see. */
void dpti_set_shape(dpti_node *node, const dpti_shape *shape);
/* Gives a node the shape of its input, whose memory it has element by element. */
void dpti_keep_shape(dpti_node *node, const dpti_node *input);
/* *x, or a copy whose shape is that of its elements, if *x is a flattened image.  Returns false
   after a failure. */
bool dpti_make_plain(dpt_model *model, dpt_value *x, const char *what);
/* An operand of MAP that reads a node, or is written by the node, in this shape. */
dpt_map_operand dpti_operand(const dpti_node *node, const dpti_shape *shape);

/* ---- Leaves ---------------------------------------------------------------------------------- */

/* Adds a parameter with this full name, as dpti_build_parameter does.  `parameter.initial`: its
   initial values in the checkpoint's layout, which are copied; or NULL.  `parameter.stored`: the
   same in a file, of which the parameter becomes a user. */
size_t dpti_build_named(dpt_model *model, const char *name, dpti_parameter parameter);
/* A parameter's value, with the parameter's shape: a view if the flat buffer has the elements in
   another order.  Every call adds a node.  The role should be
   DPTI_ROLE_TENSOR, a bias or a norm's: only then may several nodes read it. */
dpt_value dpti_read_parameter(dpt_model *model, size_t parameter);
/* Numbers that do not change: count(extents) float32 in row-major order, which are copied. */
dpt_value dpti_add_constant(dpt_model *model, const dpti_extents *extents, const float *data);
/* Adds n zeros to the constants of the model.  *place is their place; the caller may write the
   numbers before it adds others.  NULL without memory: the model has failed. */
float *dpti_add_numbers(dpt_model *model, size_t n, size_t *place);

/* ---- Other shapes ---------------------------------------------------------------------------- */

/* The same memory in another shape.  `shape` must lie within the memory of x's root. */
dpt_value dpti_view(dpt_model *model, dpt_value x, const dpti_shape *shape);
/* x, or a copy of it that has a tensor of its own in which its axes have the same order. */
dpt_value dpti_own_tensor(dpt_model *model, dpt_value x);
/* x, or a copy of it for each sample if x has no samples (dpti_node.unsampled). */
dpt_value dpti_for_each_sample(dpt_model *model, dpt_value x);
/* x, or a copy of it, so that its elements lie in row-major order in a tensor of their own. */
dpt_value dpti_row_major(dpt_model *model, dpt_value x);
/* A value with the axes (c, h, w) as an image of each sample, for the layers of layers.c; copied if
   it has no samples or does not lie in memory as (h, w, c).  DPT_E_INVALID for another rank. */
dpt_value dpti_as_image(dpt_model *model, dpt_value x);
/* A value with the axes (n, c, h, w) as n images of each sample below one another, which is one
   image with n * h rows; copied if it does not lie in memory as (n, h, w, c).  DPT_E_INVALID for
   another rank. */
dpt_value dpti_as_images(dpt_model *model, dpt_value x);
/* An image that is n images below one another, as a value with the axes (n, c, h, w): a view. */
dpt_value dpti_images_apart(dpt_model *model, dpt_value image, size_t n);
/* A value as a flat one, in row-major order. */
dpt_value dpti_as_flat(dpt_model *model, dpt_value x);

/* Other extents of the same count, in row-major order; a copy where no view describes it. */
dpt_value dpti_reshape(dpt_model *model, dpt_value x, const dpti_extents *extents);
/* Axis i of the result is axis order[i] of x. */
dpt_value dpti_transpose(dpt_model *model, dpt_value x, const size_t order[DPT_MAX_RANK]);
/* Every step-th of the elements along an axis, `count` of them from `begin` on.  A negative step
   goes backwards. */
typedef struct dpti_cut {
    size_t axis, begin, count;
    int32_t step;
} dpti_cut;
dpt_value dpti_slice(dpt_model *model, dpt_value x, dpti_cut cut);
/* x broadcast to these extents. */
dpt_value dpti_expand(dpt_model *model, dpt_value x, const dpti_extents *extents);

/* ---- Joining --------------------------------------------------------------------------------- */

/* The values behind one another along an axis; at most DPTI_NODE_INPUTS of them. */
dpt_value dpti_concatenate(dpt_model *model, const dpt_value *values, size_t n, size_t axis);
/* x with `before` elements of the value `fill` before it on each axis and `after` behind it, and
   gap - 1 of them between two neighbours. */
typedef struct dpti_padding {
    size_t before[DPT_MAX_RANK], after[DPT_MAX_RANK];
    size_t gap[DPT_MAX_RANK]; /* 0 or 1: none */
    float fill;
} dpti_padding;
dpt_value dpti_pad(dpt_model *model, dpt_value x, const dpti_padding *padding);

/* ---- Programs -------------------------------------------------------------------------------- */

/* A program over n values (1 .. DPTI_MAP_INPUTS) that are broadcast to each other.  LOAD i reads
   value code->in[i]. */
typedef struct dpti_mapping {
    const char *what;
    const dpti_map_code *code;
    const dpt_value *inputs;
    size_t n;
    /* The axes of the broadcast inputs that are reduced, as bits; their extent becomes 1.  0: none.
       Gradients exist for sums only. */
    uint32_t reduced;
    dpt_map_reduction reduction;
} dpti_mapping;
dpt_value dpti_map(dpt_model *model, const dpti_mapping *mapping);
/* The formula of dpt_elementwise (dptrain.h) over at most DPTI_FORMULA_INPUTS values. */
dpt_value dpti_formula(dpt_model *model, const char *formula, const dpt_value *inputs, size_t n);
/* The mean of a formula over x along the axes (as bits), which keep the extent 1. */
dpt_value dpti_mean(dpt_model *model, const char *formula, dpt_value x, uint32_t axes);

#endif
