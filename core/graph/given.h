/* Layers over parameters that exist already, for networks that come with their weights.  Shapes are
   those of one sample; rules as in builder.h. */
#ifndef DPTI_GIVEN_H
#define DPTI_GIVEN_H

#include "graph/tensor.h"

/* Indices of parameters; SIZE_MAX for a bias that the layer does not have. */
typedef struct dpti_given {
    size_t weight, bias;   /* of a batch-norm: both, or neither */
    size_t mean, variance; /* of a batch-norm */
    /* Of a convolution, in place of `weight` and `bias`, which are SIZE_MAX: its filters as a
       value, with the shape that the weight would have, and its bias.  Both must be the same for
       all samples.  id 0: none. */
    dpt_value filters, shift;
    const char *name; /* of a linear layer; NULL: one that is made of its kind and its place */
} dpti_given;

/* Some layers over an image take several images of one size, which lie below one another in the
   image x: `images` is their number (0: one), and divides the height of x.  The results lie below
   one another, too. */

/* A convolution of each image.  The weight has DPTI_LAYOUT_CONV. */
typedef struct dpti_convolution {
    const dpti_given *given;
    const dpt_conv2d_options *options;
    size_t images;
} dpti_convolution;
dpt_value dpti_given_conv2d(dpt_model *model, dpt_value x, const dpti_convolution *of);
/* The transposed convolution of each image: an image is what `convolution` makes of one with the
   extent `out`, and its result has this extent.  The weight, or the filters, are those of the
   convolution, (channels of x, channels of the result / groups, height, width), the weight with
   DPTI_LAYOUT_CONV.  There is no bias; out_channels and no_bias of the options are not read. */
typedef struct dpti_transposed {
    dpt_conv2d_options convolution;
    dpti_extent out;
    size_t images;
} dpti_transposed;
dpt_value dpti_given_conv2d_transpose(dpt_model *model, dpt_value x, const dpti_given *given,
                                      const dpti_transposed *options);
/* A linear layer over the last axis of x, for each index of the other axes.  The weight is (out,
   in) in the flat buffer.  If x is a flattened image, the weight's layout must be that of the
   image. */
dpt_value dpti_given_linear(dpt_model *model, dpt_value x, const dpti_given *given, size_t out);
/* A batch-norm over an image, or over a value with one axis. */
dpt_value dpti_given_batch_norm(dpt_model *model, dpt_value x, const dpti_given *given,
                                float epsilon);
/* The rows of a table that ids name; the table is a parameter with its rows on the first axis.  The
   result has the axes of the ids, then the other axes of the table.  `ids` must be the input's, or
   constants below the number of rows. */
dpt_value dpti_given_embedding(dpt_model *model, dpt_value ids, size_t table);
/* Ids that are the same for all samples: count(extents) of them, which are copied. */
dpt_value dpti_add_constant_ids(dpt_model *model, const dpti_extents *extents, const int32_t *ids);
/* A layer-norm over the last `n_axes` axes of x, for each index of the other axes. */
typedef struct dpti_row_norm {
    size_t n_axes;
    float epsilon;
} dpti_row_norm;
dpt_value dpti_given_layer_norm(dpt_model *model, dpt_value x, const dpti_given *given,
                                dpti_row_norm norm);

#endif
