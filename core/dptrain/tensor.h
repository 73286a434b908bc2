/* Layers over values with any number of axes: products, softmax, reductions, and other shapes.
   Part of the public API: programs include dptrain.h.

   The axes of a value are those that it has in PyTorch, without that of the batch, and are numbered
   from 0.  So an image of dpt_input(model, height, width, channels), or of a convolution, has the
   axes (channels, height, width), and the output of a linear layer has one axis.  The result of a
   function of this header is a value that the other layers take as follows: dpt_as_image makes an
   image of it for convolutions, pooling and norms over channels; dpt_flatten makes one axis of it
   for linear layers; dpt_elementwise, dpt_activate, dpt_add, dpt_dropout and dpt_model_finish take
   it as it is.

   No function moves data that need not be moved: parts, other orders of axes and repetitions of a
   value are views of its memory.
 */
#ifndef DPTRAIN_TENSOR_H
#define DPTRAIN_TENSOR_H

#include "dptrain/model.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { DPT_MAX_AXES = 8 };

/* Returns the number of axes of a value, and writes their extents.  Returns 0, and writes nothing,
   after a failure of the model, or if x is no value of the model.  Cannot fail. */
DPT_API size_t dpt_value_axes(const dpt_model *model, dpt_value x, size_t extents[DPT_MAX_AXES]);

/* ---- Values that are no results -------------------------------------------------------------- */

/* Adds a parameter that is read as a value, such as a class token or embeddings of positions.  The
   value is the same for all samples.

   name      The full name of the tensor in checkpoints.
   extents   (n_axes), 1 to DPT_MAX_AXES axes.
   initial   The values at the beginning, in row-major order, which are copied; or NULL: as the
             weights of a linear layer with as many inputs as the last axis has elements.

   The embeddings are those of dpt_embedding where ids choose rows.  A failure sticks to the model
   (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_parameter(dpt_model *model, const char *name, const size_t *extents,
                                size_t n_axes, const float *initial);
/* Adds numbers that never change, the same for all samples: `numbers` in row-major order, which are
   copied.  A failure sticks to the model (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_constant(dpt_model *model, const size_t *extents, size_t n_axes,
                               const float *numbers);

/* ---- Other shapes ---------------------------------------------------------------------------- */

/* Gives the elements of x, in row-major order, other axes.  Their extents (n_axes) have the same
   product.  A failure sticks to the model (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_reshape(dpt_model *model, dpt_value x, const size_t *extents, size_t n_axes);
/* Puts the axes into another order: axis i of the result is axis order[i] of x.  `order` has each
   of the n_axes axes of x once.  A failure sticks to the model (DPT_E_INVALID, DPT_E_STATE or
   DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_transpose(dpt_model *model, dpt_value x, const size_t *order, size_t n_axes);
/* Repeats x along axes on which x has one element, or which x does not have in front.  `extents`
   (n_axes) are those of the result.  A failure sticks to the model (DPT_E_INVALID, DPT_E_STATE or
   DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_expand(dpt_model *model, dpt_value x, const size_t *extents, size_t n_axes);

typedef struct dpt_slice_options {
    size_t size; /* sizeof(dpt_slice_options) */
    size_t axis;
    size_t begin; /* the first element */
    size_t count; /* of elements; 0: all up to the end of the axis that `step` reaches */
    int step;     /* from element to element; default 1; below 0: towards the front */
} dpt_slice_options;

/* Takes some of the elements along an axis.  The axis stays.  A failure sticks to the model
 * (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_slice(dpt_model *model, dpt_value x, const dpt_slice_options *options);
/* Cuts x along an axis into n parts, which have parts[0 .. n - 1] elements on the axis, all of it
   together.  `values` (n) receives them.  A value that is not used is left out of the model.  A
   failure sticks to the model (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API void dpt_split_axis(dpt_model *model, dpt_value x, size_t axis, const size_t *parts,
                            size_t n, dpt_value *values);
/* Puts n values behind one another along an axis; 1 <= n <= 32.  They agree on all other axes.  A
 * failure sticks to the model (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_concatenate(dpt_model *model, const dpt_value *values, size_t n, size_t axis);
/* Makes an image of a value with the axes (channels, height, width).  A failure sticks to the model
 * (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_as_image(dpt_model *model, dpt_value x);

/* ---- Computations ---------------------------------------------------------------------------- */

/* Computes the matrix products of the last two axes, (..., m, k) and (..., k, n) to (..., m, n).
   The axes in front are broadcast to each other, from the last one on.  Both have 2 to 5 axes.  A
   product with a dpt_parameter of two axes is a linear layer over the last axis of a.  A failure
   sticks to the model (DPT_E_INVALID, DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_matmul(dpt_model *model, dpt_value a, dpt_value b);
/* Computes exp(x) / sum(exp(x)) along an axis.  A failure sticks to the model (DPT_E_INVALID,
 * DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_softmax(dpt_model *model, dpt_value x, size_t axis);
/* Computes the logarithm of dpt_softmax.  A failure sticks to the model (DPT_E_INVALID, DPT_E_STATE
 * or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_log_softmax(dpt_model *model, dpt_value x, size_t axis);

typedef enum dpt_reduction {
    DPT_REDUCTION_SUM = 0,
    DPT_REDUCTION_MEAN = 1,
    DPT_REDUCTION_MAX = 2, /* elements that are equally large share the gradient */
    DPT_REDUCTION_MIN = 3,
} dpt_reduction;

typedef struct dpt_reduce_options {
    size_t size; /* sizeof(dpt_reduce_options) */
    dpt_reduction kind;
    size_t axes[DPT_MAX_AXES]; /* (n_axes) each once */
    size_t n_axes;             /* 0: all axes of the value */
    bool keep;                 /* the axes stay, with the extent 1; otherwise they vanish */
} dpt_reduce_options;

/* Reduces x along axes.  A value without axes that are left has one axis of one element.
   `options` may be NULL: the sum of all elements.  A failure sticks to the model (DPT_E_INVALID,
   DPT_E_STATE or DPT_E_NO_MEMORY). */
DPT_API dpt_value dpt_reduce_axes(dpt_model *model, dpt_value x, const dpt_reduce_options *options);

#ifdef __cplusplus
}
#endif

#endif
