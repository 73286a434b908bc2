/* Convolutions and pooling: windows that move over an image. */
#include "import/window.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

enum { VOLUME_RANK = 5 };

/* ---- Windows --------------------------------------------------------------------------------- */

static void read_pair(const dpti_importer *im, const char *name, const dpti_window *w,
                      size_t out[DPTI_PLANE])
{
    size_t n;
    const int64_t *items = dpti_onnx_ints(im->node, name, &n);
    for (size_t i = 0; i < DPTI_PLANE; i++)
        out[i] = items && i + n >= DPTI_PLANE && i + w->n_axes >= DPTI_PLANE
                     ? (size_t)items[i + n - DPTI_PLANE]
                     : 1;
}

/* The extents of the kernel: those of the filters, or kernel_shape of a node without filters. */
static void read_kernel(const dpti_importer *im, dpti_window *w)
{
    if (im->node->n_inputs < 2) {
        read_pair(im, "kernel_shape", w, w->kernel);
        return;
    }
    const dpti_extents filter = dpti_import_extents(dpti_import_fact(im, 1));
    for (size_t i = 0; i < DPTI_PLANE; i++)
        w->kernel[i] =
            i + w->n_axes >= DPTI_PLANE ? filter.extent[filter.rank - DPTI_PLANE + i] : 1;
}

/* SAME pads so that the output has an element for every stride. */
static void pad_same(dpti_window *w, const dpti_extents *e, bool upper)
{
    for (size_t i = DPTI_PLANE - w->n_axes; i < DPTI_PLANE; i++) {
        const size_t in = e->extent[e->rank - DPTI_PLANE + i],
                     out = (in + w->stride[i] - 1) / w->stride[i];
        const size_t span = (out - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1;
        const size_t all = span > in ? span - in : 0, half = all / 2;
        w->before[i] = upper ? half : all - half;
        w->after[i] = all - w->before[i];
    }
}

dpt_status dpti_import_window(const dpti_importer *im, const dpti_extents *e, dpti_window *w)
{
    size_t n;
    w->n_axes = e->rank - 2;
    if (e->rank != 3 && e->rank != 4)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "only windows over one or two axes can be trained yet");
    read_kernel(im, w);
    read_pair(im, "strides", w, w->stride);
    read_pair(im, "dilations", w, w->dilation);
    const int64_t *pads = dpti_onnx_ints(im->node, "pads", &n);
    for (size_t i = 0; pads && i < n / 2 && i < DPTI_PLANE; i++) {
        const size_t axis = DPTI_PLANE - n / 2 + i;
        if (pads[i] < 0 || pads[n / 2 + i] < 0)
            return dpti_import_refuse(im, DPT_E_UNSUPPORTED, "a negative padding");
        w->before[axis] = (size_t)pads[i];
        w->after[axis] = (size_t)pads[n / 2 + i];
    }
    const char *automatic = dpti_onnx_string(im->node, "auto_pad", "NOTSET");
    if (strncmp(automatic, "SAME", 4) == 0) pad_same(w, e, strcmp(automatic, "SAME_UPPER") == 0);
    return DPT_OK;
}

dpt_status dpti_import_image(dpti_importer *im, dpti_window *w, float fill, dpt_value *x)
{
    const dpti_extents e = dpti_extents_of(im->model, *x);
    const dpti_extents images = {
        .rank = 4,
        .extent = {e.extent[0], e.extent[1], e.rank == 4 ? e.extent[2] : 1, e.extent[e.rank - 1]}};
    w->images = e.extent[0];
    *x = dpti_reshape(im->model, *x, &images);
    if (w->before[0] != w->after[0] || w->before[1] != w->after[1]) {
        *x = dpti_pad(im->model, *x,
                      &(dpti_padding){.before = {0, 0, w->before[0], w->before[1]},
                                      .after = {0, 0, w->after[0], w->after[1]},
                                      .fill = fill});
        memset(w->before, 0, sizeof w->before);
        memset(w->after, 0, sizeof w->after);
    }
    *x = dpti_as_images(im->model, *x);
    return dpti_import_check(im);
}

dpt_status dpti_import_give_elements(dpti_importer *im, dpt_value y)
{
    DPT_TRY(dpti_import_check(im));
    const dpti_extents to = dpti_import_extents(dpti_import_result(im, 0));
    dpti_import_give(im, 0, dpti_reshape(im->model, y, &to));
    return dpti_import_check(im);
}

dpt_status dpti_import_give_image(dpti_importer *im, dpt_value y)
{
    DPT_TRY(dpti_import_check(im));
    const size_t images = dpti_import_extents(dpti_import_result(im, 0)).extent[0];
    return dpti_import_give_elements(im, dpti_images_apart(im->model, y, images));
}

static dpt_status import_conv(dpti_importer *im)
{
    dpti_window w = {.n_axes = 0};
    dpt_value x;
    dpti_given given;
    DPT_TRY(dpti_import_input(im, 0, &x));
    const dpti_extents e = dpti_extents_of(im->model, x);
    if (e.rank == VOLUME_RANK) return dpti_import_conv_volume(im);
    DPT_TRY(dpti_import_window(im, &e, &w));
    const dpti_extents filter = dpti_import_extents(dpti_import_fact(im, 1));
    const size_t fan = filter.extent[1] * w.kernel[0] * w.kernel[1];
    DPT_TRY(dpti_import_image(im, &w, 0, &x));
    DPT_TRY(dpti_import_filters(
        im,
        (dpti_parameter){.layout = DPTI_LAYOUT_CONV,
                         .fan_in = fan,
                         .fan_out = filter.extent[0] * w.kernel[0] * w.kernel[1],
                         .h = w.kernel[0],
                         .w = w.kernel[1],
                         .c = filter.extent[1]},
        &given));
    DPT_TRY(dpti_import_filter_bias(im, fan, &given));
    const dpt_conv2d_options options = {
        .size = sizeof options,
        .out_channels = filter.extent[0],
        .kernel = {w.kernel[0], w.kernel[1]},
        .stride = {w.stride[0], w.stride[1]},
        .padding = {w.before[0], w.before[1]},
        .dilation = {w.dilation[0], w.dilation[1]},
        .groups = (size_t)dpti_onnx_int(im->node, "group", 1),
        .no_bias = !dpti_import_has_bias(&given),
    };
    dpt_value y = dpti_given_conv2d(
        im->model, x,
        &(dpti_convolution){.given = &given, .options = &options, .images = w.images});
    DPT_TRY(dpti_import_check(im));
    if (options.no_bias) DPT_TRY(dpti_import_add_bias(im, &y));
    return dpti_import_give_image(im, y);
}

/* ---- Pooling --------------------------------------------------------------------------------- */

/* Rows and columns that only a window of ceil mode reaches. */
static void pad_to_ceiling(const dpti_importer *im, const dpti_extents *e, dpti_window *w)
{
    const dpti_extents to = dpti_import_extents(dpti_import_result(im, 0));
    for (size_t i = DPTI_PLANE - w->n_axes; i < DPTI_PLANE; i++) {
        const size_t in = e->extent[e->rank - DPTI_PLANE + i],
                     out = to.extent[to.rank - DPTI_PLANE + i];
        const size_t span = (out - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1;
        const size_t padded = in + w->before[i] + w->after[i];
        if (span > padded) w->after[i] += span - padded;
    }
}

/* A place of a window along one of its axes. */
typedef struct place {
    size_t axis, in, out; /* in: the extent of the image; out: the index in the result */
} place;

/* Elements along the axis that count in the average at the place.  Rows and columns that only ceil
   mode reaches do not count, and the padding counts only if the node says so. */
static int64_t count_along(const dpti_window *w, place at, bool padding)
{
    const int64_t before = (int64_t)w->before[at.axis], after = (int64_t)w->after[at.axis];
    int64_t first = (int64_t)(at.out * w->stride[at.axis]) - before;
    int64_t end = first + (int64_t)w->kernel[at.axis];
    if (!padding && first < 0) first = 0;
    const int64_t last = (int64_t)at.in + (padding ? after : 0);
    if (end > last) end = last;
    return end > first ? end - first : 1;
}

/* Every element of *y (images, channels, height, width), an average over all places of its window,
   becomes the one over those that count.  `w` has the padding of the node. */
static dpt_status correct_average(dpti_importer *im, const dpti_window *w, const dpti_extents *e,
                                  dpt_value *y)
{
    const bool padding = dpti_onnx_int(im->node, "count_include_pad", 0) != 0;
    const dpti_extents images = dpti_extents_of(im->model, *y);
    const dpti_extents plane = {.rank = 2, .extent = {images.extent[2], images.extent[3]}};
    const size_t h = e->rank == 4 ? e->extent[2] : 1, width = e->extent[e->rank - 1],
                 n = plane.extent[0] * plane.extent[1];
    float *factor = malloc(n * sizeof *factor);
    bool all_one = true;
    if (!factor) return dpti_import_refuse(im, DPT_E_NO_MEMORY, "no memory");
    for (size_t i = 0; i < n; i++) {
        const int64_t counted = count_along(w, (place){0, h, i / plane.extent[1]}, padding) *
                                count_along(w, (place){1, width, i % plane.extent[1]}, padding);
        factor[i] = (float)((double)(w->kernel[0] * w->kernel[1]) / (double)counted);
        all_one = all_one && counted == (int64_t)(w->kernel[0] * w->kernel[1]);
    }
    if (!all_one) {
        const dpt_value c = dpti_add_constant(im->model, &plane, factor);
        *y = dpti_formula(im->model, "a * b", (dpt_value[]){*y, c}, 2);
    }
    free(factor);
    return dpti_import_check(im);
}

static dpt_status import_pool(dpti_importer *im)
{
    const bool most = strcmp(im->node->op, "MaxPool") == 0;
    dpti_window w = {.n_axes = 0};
    dpt_value x;
    if (dpti_import_wants(im, 1))
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "its indices count over all samples of the batch; only its first "
                                  "output can be used");
    DPT_TRY(dpti_import_input(im, 0, &x));
    const dpti_extents e = dpti_extents_of(im->model, x);
    if (e.rank == VOLUME_RANK) return dpti_import_pool_by_slices(im);
    DPT_TRY(dpti_import_window(im, &e, &w));
    const dpti_window of_node = w;
    pad_to_ceiling(im, &e, &w);
    if (w.dilation[0] != 1 || w.dilation[1] != 1) return dpti_import_pool_by_slices(im);
    DPT_TRY(dpti_import_image(im, &w, most ? -FLT_MAX : 0, &x));
    const dpt_pool2d_options options = {.size = sizeof options,
                                        .kind = most ? DPT_POOL_MAX : DPT_POOL_AVERAGE,
                                        .kernel = {w.kernel[0], w.kernel[1]},
                                        .stride = {w.stride[0], w.stride[1]},
                                        .padding = {w.before[0], w.before[1]}};
    dpt_value y = dpti_pool2d(im->model, x, w.images, &options);
    if (most) return dpti_import_give_image(im, y);
    y = dpti_images_apart(im->model, y, w.images);
    DPT_TRY(dpti_import_check(im));
    DPT_TRY(correct_average(im, &of_node, &e, &y));
    return dpti_import_give_elements(im, y);
}

static dpt_status import_global_pool(dpti_importer *im)
{
    dpti_window w = {.n_axes = 0};
    dpt_value x;
    DPT_TRY(dpti_import_input(im, 0, &x));
    dpti_extents e = dpti_extents_of(im->model, x);
    if (e.rank < 3 || e.rank > VOLUME_RANK)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "only one to three axes can be pooled yet");
    if (e.rank == VOLUME_RANK) { /* the planes below one another */
        e = (dpti_extents){
            .rank = 4,
            .extent = {e.extent[0], e.extent[1], e.extent[2] * e.extent[3], e.extent[4]}};
        x = dpti_reshape(im->model, x, &e);
        DPT_TRY(dpti_import_check(im));
    }
    const size_t h = e.rank == 4 ? e.extent[2] : 1, width = e.extent[e.rank - 1];
    DPT_TRY(dpti_import_image(im, &w, 0, &x));
    const bool most = strcmp(im->node->op, "GlobalMaxPool") == 0;
    return dpti_import_give_image(
        im, dpti_pool2d(im->model, x, w.images,
                        &(dpt_pool2d_options){.size = sizeof(dpt_pool2d_options),
                                              .kind = most ? DPT_POOL_MAX : DPT_POOL_AVERAGE,
                                              .kernel = {h, width}}));
}

const dpti_import_operator dpti_import_windows[] = {
    {"AveragePool", import_pool},
    {"Conv", import_conv},
    {"GlobalAveragePool", import_global_pool},
    {"GlobalMaxPool", import_global_pool},
    {"MaxPool", import_pool},
    {NULL, NULL},
};
