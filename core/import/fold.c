/* Blocks that are put back into an image, where they may overlap and are added up (Col2Im).

   Blocks side by side are the elements of the image in another order.  Others are a transposed
   convolution: each channel is an image of its own, whose elements of a block are the channels, and
   filter k has its only 1 at element k of the block. */
#include "import/window.h"

#include <stdlib.h>

typedef struct blocks {
    size_t kernel[DPTI_PLANE], stride[DPTI_PLANE], dilation[DPTI_PLANE];
    size_t before[DPTI_PLANE], after[DPTI_PLANE];
    size_t image[DPTI_PLANE], count[DPTI_PLANE]; /* blocks along each axis */
    size_t images, channels;
} blocks;

/* Number i of a list of n along the axes of a plane; a plane of one axis has one row. */
static size_t along(const int64_t *items, size_t n, size_t i, size_t otherwise)
{
    return items && i + n >= DPTI_PLANE ? (size_t)items[i + n - DPTI_PLANE] : otherwise;
}

static dpt_status read_blocks(dpti_importer *im, blocks *b)
{
    dpti_import_list image, kernel;
    size_t n;
    const dpti_extents x = dpti_import_extents(dpti_import_fact(im, 0));
    DPT_TRY(dpti_import_integers(im, 1, NULL, &image));
    DPT_TRY(dpti_import_integers(im, 2, NULL, &kernel));
    if (image.n < 1 || image.n > DPTI_PLANE || kernel.n != image.n)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "only blocks over one or two axes can be trained yet");
    const int64_t *strides = dpti_onnx_ints(im->node, "strides", &n),
                  *dilations = dpti_onnx_ints(im->node, "dilations", &n),
                  *pads = dpti_onnx_ints(im->node, "pads", &n);
    for (size_t i = 0; i < DPTI_PLANE; i++) {
        b->image[i] = along(image.items, image.n, i, 1);
        b->kernel[i] = along(kernel.items, kernel.n, i, 1);
        b->stride[i] = along(strides, image.n, i, 1);
        b->dilation[i] = along(dilations, image.n, i, 1);
        b->before[i] = along(pads, image.n, i, 0);
        b->after[i] = along(pads ? pads + image.n : NULL, image.n, i, 0);
        const size_t reach = (b->kernel[i] - 1) * b->dilation[i] + 1;
        b->count[i] = (b->image[i] + b->before[i] + b->after[i] - reach) / b->stride[i] + 1;
    }
    b->images = x.extent[0];
    b->channels = x.extent[1] / (b->kernel[0] * b->kernel[1]);
    return DPT_OK;
}

/* ---- Side by side ---------------------------------------------------------------------------- */

static bool are_side_by_side(const blocks *b)
{
    bool are = true;
    for (size_t i = 0; i < DPTI_PLANE; i++)
        are = are && b->stride[i] == b->kernel[i] && (b->dilation[i] == 1 || b->kernel[i] == 1) &&
              b->before[i] == 0 && b->after[i] == 0 && b->image[i] == b->count[i] * b->kernel[i];
    return are;
}

static dpt_value put_side_by_side(dpti_importer *im, dpt_value x, const blocks *b)
{
    static const size_t order[DPT_MAX_RANK] = {0, 1, 4, 2, 5, 3};
    const dpti_extents apart = {
        .rank = 6,
        .extent = {b->images, b->channels, b->kernel[0], b->kernel[1], b->count[0], b->count[1]}};
    return dpti_transpose(im->model, dpti_reshape(im->model, x, &apart), order);
}

/* ---- Added up -------------------------------------------------------------------------------- */

/* Filters (elements of a block, 1, height, width), each with one 1. */
static dpt_status add_filters(dpti_importer *im, const blocks *b, dpt_value *out)
{
    const size_t n = b->kernel[0] * b->kernel[1];
    const dpti_extents e = {.rank = 4, .extent = {n, 1, b->kernel[0], b->kernel[1]}};
    float *numbers = n <= DPTI_MAX_EXTENT / n ? calloc(n * n, sizeof *numbers) : NULL;
    if (!numbers)
        return dpti_import_refuse(im, DPT_E_NO_MEMORY, "no memory for blocks of %zu elements", n);
    for (size_t i = 0; i < n; i++)
        numbers[i * n + i] = 1;
    *out = dpti_add_constant(im->model, &e, numbers);
    free(numbers);
    return dpti_import_check(im);
}

/* A transposed convolution has the same padding at both sides: its image has rows and columns more
   where one of them is larger, which are cut off. */
static dpt_status add_up(dpti_importer *im, const blocks *b, dpt_value *x)
{
    const size_t n = b->images * b->channels;
    const dpti_extents each = {
        .rank = 4, .extent = {n, b->kernel[0] * b->kernel[1], b->count[0], b->count[1]}};
    dpti_given given = {.weight = SIZE_MAX, .bias = SIZE_MAX};
    dpti_transposed options = {.convolution = {.kernel = {b->kernel[0], b->kernel[1]},
                                               .stride = {b->stride[0], b->stride[1]},
                                               .dilation = {b->dilation[0], b->dilation[1]}},
                               .images = n};
    size_t wide[DPTI_PLANE];
    for (size_t i = 0; i < DPTI_PLANE; i++) {
        const size_t less = b->before[i] < b->after[i] ? b->before[i] : b->after[i];
        options.convolution.padding[i] = less;
        wide[i] = b->image[i] + b->before[i] + b->after[i] - 2 * less;
    }
    options.out = (dpti_extent){.h = wide[0], .w = wide[1], .c = 1};
    *x = dpti_as_images(im->model, dpti_reshape(im->model, *x, &each));
    DPT_TRY(dpti_import_check(im));
    DPT_TRY(add_filters(im, b, &given.filters));
    *x = dpti_given_conv2d_transpose(im->model, *x, &given, &options);
    *x = dpti_images_apart(im->model, *x, n);
    for (size_t i = 0; i < DPTI_PLANE; i++)
        if (wide[i] > b->image[i])
            *x = dpti_slice(im->model, *x,
                            (dpti_cut){.axis = 2 + i,
                                       .begin = b->before[i] - options.convolution.padding[i],
                                       .count = b->image[i],
                                       .step = 1});
    return dpti_import_check(im);
}

static dpt_status import_blocks(dpti_importer *im)
{
    blocks b = {.images = 0};
    dpt_value x;
    DPT_TRY(read_blocks(im, &b));
    DPT_TRY(dpti_import_input(im, 0, &x));
    if (are_side_by_side(&b))
        x = put_side_by_side(im, x, &b);
    else
        DPT_TRY(add_up(im, &b, &x));
    return dpti_import_give_elements(im, x);
}

const dpti_import_operator dpti_import_folds[] = {
    {"Col2Im", import_blocks},
    {NULL, NULL},
};
