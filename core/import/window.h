/* Windows that move over an image, for the operators with one. */
#ifndef DPTI_IMPORT_WINDOW_H
#define DPTI_IMPORT_WINDOW_H

#include "import/state.h"

enum { DPTI_PLANE = 2 };

/* A window over the two axes of an image; a value with one axis is an image of one row. */
typedef struct dpti_window {
    size_t kernel[DPTI_PLANE], stride[DPTI_PLANE], dilation[DPTI_PLANE];
    size_t before[DPTI_PLANE], after[DPTI_PLANE]; /* the padding */
    size_t n_axes;
    size_t images; /* of a sample, each of which the window moves over */
} dpti_window;

/* The attributes of im->node, whose window moves over a value of these extents (batch, channels,
   then one or two axes).  The kernel of a node with filters is theirs. */
DPT_CHECK_RESULT dpt_status dpti_import_window(const dpti_importer *im, const dpti_extents *e,
                                               dpti_window *w);
/* *x (n, channels, one or two axes) as n images of one sample below one another, whose number is
   w->images then.  Padding that differs between two sides is put around each here with the value
   `fill`, and is 0 in the window then. */
DPT_CHECK_RESULT dpt_status dpti_import_image(dpti_importer *im, dpti_window *w, float fill,
                                              dpt_value *x);
/* Makes a value the node's output, which has its elements in the same order. */
DPT_CHECK_RESULT dpt_status dpti_import_give_elements(dpti_importer *im, dpt_value y);
/* Makes an image, or as many images below one another as the output has, the node's output. */
DPT_CHECK_RESULT dpt_status dpti_import_give_image(dpti_importer *im, dpt_value y);

/* Pooling with windows that have gaps or three axes, from slices of the input (dilated.c). */
DPT_CHECK_RESULT dpt_status dpti_import_pool_by_slices(dpti_importer *im);

/* Convolutions over three axes (volume.c), and their transposes. */
DPT_CHECK_RESULT dpt_status dpti_import_conv_volume(dpti_importer *im);
DPT_CHECK_RESULT dpt_status dpti_import_conv_transpose_volume(dpti_importer *im);

/* Whether input i is left out, or is zeros that the exporter has computed. */
bool dpti_import_is_nothing(const dpti_importer *im, size_t i);
/* *out = the filters of input 1, without a bias: a parameter like this, or a value where the file
   computes them or another layer has them in another order (weights.c).  `like` has the kernel in
   h and w, and the channels of a group in c. */
DPT_CHECK_RESULT dpt_status dpti_import_filters(dpti_importer *im, dpti_parameter like,
                                                dpti_given *out);
/* Adds input 2 as the bias, if that can be a part of the layer. */
DPT_CHECK_RESULT dpt_status dpti_import_filter_bias(dpti_importer *im, size_t fan_in,
                                                    dpti_given *given);
/* Whether the layer has a bias. */
static inline bool dpti_import_has_bias(const dpti_given *given)
{
    return given->bias != SIZE_MAX || given->shift.id != 0;
}
/* Adds input 2, one number for each channel, to a value whose last three axes are channels, height
   and width (transposed.c). */
DPT_CHECK_RESULT dpt_status dpti_import_add_bias(dpti_importer *im, dpt_value *y);
/* given->bias = input i; SIZE_MAX if it is nothing, computed, or several layers share it. */
DPT_CHECK_RESULT dpt_status dpti_import_bias(dpti_importer *im, size_t i, size_t fan_in,
                                             dpti_given *given);

#endif
