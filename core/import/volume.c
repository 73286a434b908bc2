/* Convolutions over depth, height and width, made of convolutions over planes.

   A plane of the result depends on as many planes of the input as the kernel has along the depth.
   They are put side by side as channels, and the planes of all depths are put below one another as
   one image, so that one convolution computes the whole result.  Filters (out, in, d, h, w) are
   those of the channels (in, d).  Costs are in docs/onnx.md. */
#include "import/window.h"

#include <string.h>

enum { VOLUME = 3, BATCH_AND_CHANNELS = 2 };

typedef struct volume {
    size_t kernel[VOLUME], stride[VOLUME], dilation[VOLUME], before[VOLUME], after[VOLUME];
    size_t in[VOLUME], out[VOLUME];
    size_t channels, groups;
    size_t volumes; /* of a sample */
    dpti_extents filter;
} volume;

static size_t number_of(const dpti_importer *im, const char *name, size_t i)
{
    size_t n;
    const int64_t *items = dpti_onnx_ints(im->node, name, &n);
    return items && i < n ? (size_t)items[i] : 1;
}

static dpt_status read_volume(const dpti_importer *im, const dpti_extents *e, volume *v)
{
    size_t n;
    const dpti_extents to = dpti_import_extents(dpti_import_result(im, 0));
    const char *automatic = dpti_onnx_string(im->node, "auto_pad", "NOTSET");
    const int64_t *pads = dpti_onnx_ints(im->node, "pads", &n);
    const bool same = strncmp(automatic, "SAME", 4) == 0;
    v->filter = dpti_import_extents(dpti_import_fact(im, 1));
    v->groups = (size_t)dpti_onnx_int(im->node, "group", 1);
    v->channels = to.extent[1];
    for (size_t i = 0; i < VOLUME; i++) {
        v->kernel[i] = v->filter.extent[BATCH_AND_CHANNELS + i];
        v->stride[i] = number_of(im, "strides", i);
        v->dilation[i] = number_of(im, "dilations", i);
        v->in[i] = e->extent[BATCH_AND_CHANNELS + i];
        v->out[i] = to.extent[BATCH_AND_CHANNELS + i];
        if (pads && n == 2 * (size_t)VOLUME && (pads[i] < 0 || pads[VOLUME + i] < 0))
            return dpti_import_refuse(im, DPT_E_UNSUPPORTED, "a negative padding");
        v->before[i] = pads && n == 2 * (size_t)VOLUME ? (size_t)pads[i] : 0;
        v->after[i] = pads && n == 2 * (size_t)VOLUME ? (size_t)pads[VOLUME + i] : 0;
        if (!same) continue;
        const size_t span =
            (v->out[i] - 1) * v->stride[i] + (v->kernel[i] - 1) * v->dilation[i] + 1;
        const size_t all = span > v->in[i] ? span - v->in[i] : 0, half = all / 2;
        v->before[i] = strcmp(automatic, "SAME_UPPER") == 0 ? half : all - half;
        v->after[i] = all - v->before[i];
    }
    if (v->kernel[0] > DPTI_NODE_INPUTS)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "a kernel has at most %d elements along the depth",
                                  DPTI_NODE_INPUTS);
    v->volumes = e->extent[0];
    return DPT_OK;
}

/* The filters as those of a convolution over planes. */
static dpt_status add_filters(dpti_importer *im, const volume *v, dpti_given *out)
{
    const size_t window = v->kernel[0] * v->kernel[1] * v->kernel[2];
    return dpti_import_filters(im,
                               (dpti_parameter){.layout = DPTI_LAYOUT_CONV,
                                                .fan_in = v->filter.extent[1] * window,
                                                .fan_out = v->filter.extent[0] * window,
                                                .h = v->kernel[1],
                                                .w = v->kernel[2],
                                                .c = v->filter.extent[1] * v->kernel[0]},
                               out);
}

static size_t round_up(size_t n, size_t to)
{
    return (n + to - 1) / to * to;
}

/* ---- Convolution ----------------------------------------------------------------------------- */

/* x (volumes, channels, depth, height, width) as an image of each volume: the planes that a plane
   of the result reads are channels, and the planes of the result are below one another, `rows` rows
   each. */
static dpt_value stack(dpti_importer *im, dpt_value x, const volume *v, size_t rows)
{
    dpt_value taps[DPTI_NODE_INPUTS];
    dpti_padding padding = {.fill = 0};
    for (size_t i = 0; i < VOLUME; i++) {
        padding.before[BATCH_AND_CHANNELS + i] = v->before[i];
        padding.after[BATCH_AND_CHANNELS + i] = v->after[i];
    }
    padding.after[BATCH_AND_CHANNELS + 1] += rows - (v->in[1] + v->before[1] + v->after[1]);
    x = dpti_pad(im->model, x, &padding);
    if (!x.id) return x;
    const dpti_extents padded = dpti_extents_of(im->model, x);
    const size_t channels = padded.extent[1], width = padded.extent[4];
    const dpti_extents one = {.rank = 6,
                              .extent = {v->volumes, channels, 1, v->out[0], rows, width}};
    for (size_t k = 0; k < v->kernel[0]; k++) {
        const dpt_value part = dpti_slice(im->model, x,
                                          (dpti_cut){.axis = BATCH_AND_CHANNELS,
                                                     .begin = k * v->dilation[0],
                                                     .count = v->out[0],
                                                     .step = (int32_t)v->stride[0]});
        taps[k] = dpti_reshape(im->model, part, &one);
    }
    x = v->kernel[0] > 1 ? dpti_concatenate(im->model, taps, v->kernel[0], 2) : taps[0];
    const dpti_extents images = {
        .rank = 4, .extent = {v->volumes, channels * v->kernel[0], v->out[0] * rows, width}};
    return dpti_as_images(im->model, dpti_reshape(im->model, x, &images));
}

/* The rows of images (volumes, channels, height, width) that belong to planes of `rows` rows each,
   as (volumes, channels, depth, height, width). */
static dpt_value unstack(dpti_importer *im, dpt_value y, const volume *v, size_t rows)
{
    if (!y.id) return y;
    const dpti_shape *s = &dpti_node_at(im->model, y)->shape;
    const dpti_shape planes = {
        .rank = 5,
        .extent = {s->extent[0], s->extent[1], v->out[0], v->out[1], v->out[2]},
        .stride = {s->stride[0], s->stride[1], (int32_t)rows * s->stride[2], s->stride[2],
                   s->stride[3]},
        .offset = s->offset};
    return dpti_view(im->model, y, &planes);
}

dpt_status dpti_import_conv_volume(dpti_importer *im)
{
    dpt_value x;
    volume v;
    dpti_given given;
    DPT_TRY(dpti_import_input(im, 0, &x));
    const dpti_extents e = dpti_extents_of(im->model, x);
    DPT_TRY(read_volume(im, &e, &v));
    const size_t rows = round_up(v.in[1] + v.before[1] + v.after[1], v.stride[1]);
    x = stack(im, x, &v, rows);
    DPT_TRY(dpti_import_check(im));
    DPT_TRY(add_filters(im, &v, &given));
    DPT_TRY(dpti_import_filter_bias(
        im, v.filter.extent[1] * v.kernel[0] * v.kernel[1] * v.kernel[2], &given));
    const dpt_conv2d_options options = {.size = sizeof options,
                                        .out_channels = v.channels,
                                        .kernel = {v.kernel[1], v.kernel[2]},
                                        .stride = {v.stride[1], v.stride[2]},
                                        .dilation = {v.dilation[1], v.dilation[2]},
                                        .groups = v.groups,
                                        .no_bias = !dpti_import_has_bias(&given)};
    dpt_value y = dpti_given_conv2d(
        im->model, x,
        &(dpti_convolution){.given = &given, .options = &options, .images = v.volumes});
    y = dpti_images_apart(im->model, y, v.volumes);
    DPT_TRY(dpti_import_check(im));
    if (options.no_bias) DPT_TRY(dpti_import_add_bias(im, &y));
    return dpti_import_give_elements(im, unstack(im, y, &v, rows / v.stride[1]));
}

/* ---- Transposed convolution ------------------------------------------------------------------ */

/* The planes of each volume of the input below one another, so far apart that what they add to the
   result does not overlap: images with depth * rows rows. */
static dpt_value spread(dpti_importer *im, dpt_value x, const volume *v, size_t rows)
{
    const dpti_padding padding = {.after = {0, 0, 0, rows - v->in[1], 0}};
    const size_t channels = dpti_extents_of(im->model, x).extent[1];
    const dpti_extents images = {.rank = 4,
                                 .extent = {v->volumes, channels, v->in[0] * rows, v->in[2]}};
    x = dpti_pad(im->model, x, &padding);
    return dpti_as_images(im->model, dpti_reshape(im->model, x, &images));
}

/* Begin and count of what is cut out of `whole` elements along an axis of the result. */
static dpt_status crop(dpti_importer *im, size_t axis, const int64_t of[2], dpt_value *y)
{
    const int64_t whole = (int64_t)dpti_extents_of(im->model, *y).extent[axis], begin = of[0],
                  count = of[1];
    dpti_padding padding = {.fill = 0};
    const int64_t first = begin > 0 ? begin : 0,
                  end = begin + count < whole ? begin + count : whole;
    if (end <= first)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED, "its result is padding alone");
    if (first > 0 || end < whole)
        *y = dpti_slice(
            im->model, *y,
            (dpti_cut){
                .axis = axis, .begin = (size_t)first, .count = (size_t)(end - first), .step = 1});
    padding.before[axis] = (size_t)(first - begin);
    padding.after[axis] = (size_t)(begin + count - end);
    if (padding.before[axis] + padding.after[axis] > 0) *y = dpti_pad(im->model, *y, &padding);
    return dpti_import_check(im);
}

/* The sum of what each element of the kernel along the depth adds at its place; y has the axes
   (volumes, channels, kernel, depth, height, width). */
static dpt_value sum_taps(dpti_importer *im, dpt_value y, const volume *v)
{
    const size_t depth = (v->in[0] - 1) * v->stride[0] + 1,
                 whole = depth + (v->kernel[0] - 1) * v->dilation[0];
    dpt_value sum = {0};
    for (size_t k = 0; k < v->kernel[0]; k++) {
        dpt_value tap =
            dpti_slice(im->model, y, (dpti_cut){.axis = 2, .begin = k, .count = 1, .step = 1});
        if (!tap.id) return tap;
        dpti_extents e = dpti_extents_of(im->model, tap);
        for (size_t i = 2; i + 1 < e.rank; i++)
            e.extent[i] = e.extent[i + 1];
        e.rank--;
        const dpti_padding padding = {.before = {0, 0, k * v->dilation[0]},
                                      .after = {0, 0, whole - depth - k * v->dilation[0]},
                                      .gap = {0, 0, v->stride[0]}};
        tap = dpti_pad(im->model, dpti_reshape(im->model, tap, &e), &padding);
        sum = k ? dpti_formula(im->model, "a + b", (dpt_value[]){sum, tap}, 2) : tap;
    }
    return sum;
}

dpt_status dpti_import_conv_transpose_volume(dpti_importer *im)
{
    dpt_value x, y;
    volume v;
    dpti_given given;
    size_t n;
    DPT_TRY(dpti_import_input(im, 0, &x));
    const dpti_extents e = dpti_extents_of(im->model, x);
    DPT_TRY(read_volume(im, &e, &v));
    if (strncmp(dpti_onnx_string(im->node, "auto_pad", "NOTSET"), "SAME", 4) == 0 ||
        dpti_onnx_ints(im->node, "output_shape", &n))
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "over three axes, a padding that follows from the output cannot "
                                  "be trained yet; export it with pads");
    size_t reach[VOLUME];
    for (size_t i = 0; i < VOLUME; i++)
        reach[i] = (v.kernel[i] - 1) * v.dilation[i] + 1;
    const size_t rows = v.in[1] - 1 + round_up(reach[1], v.stride[1]) / v.stride[1];
    x = spread(im, x, &v, rows);
    DPT_TRY(dpti_import_check(im));
    DPT_TRY(add_filters(im, &v, &given));
    const size_t channels = v.channels * v.kernel[0], height = rows * v.stride[1],
                 width = (v.in[2] - 1) * v.stride[2] + reach[2];
    const size_t last = (v.in[0] * rows - 1) * v.stride[1] + reach[1];
    const dpti_transposed options = {
        .convolution = {.kernel = {v.kernel[1], v.kernel[2]},
                        .stride = {v.stride[1], v.stride[2]},
                        .dilation = {v.dilation[1], v.dilation[2]},
                        .groups = v.groups},
        .out = {.h = last > v.in[0] * height ? last : v.in[0] * height, .w = width, .c = channels},
        .images = v.volumes};
    y = dpti_given_conv2d_transpose(im->model, x, &given, &options);
    y = dpti_images_apart(im->model, y, v.volumes);
    DPT_TRY(dpti_import_check(im));
    DPT_TRY(crop(im, 2, (int64_t[]){0, (int64_t)(v.in[0] * height)}, &y));
    const dpti_extents apart = {
        .rank = 6, .extent = {v.volumes, v.channels, v.kernel[0], v.in[0], height, width}};
    y = sum_taps(im, dpti_reshape(im->model, y, &apart), &v);
    DPT_TRY(dpti_import_check(im));
    for (size_t i = 0; i < VOLUME; i++)
        DPT_TRY(crop(im, BATCH_AND_CHANNELS + i,
                     (int64_t[]){(int64_t)v.before[i], (int64_t)v.out[i]}, &y));
    const dpti_extents flat = {.rank = 4,
                               .extent = {v.volumes, v.channels, v.out[0] * v.out[1], v.out[2]}};
    y = dpti_reshape(im->model, y, &flat);
    DPT_TRY(dpti_import_add_bias(im, &y));
    return dpti_import_give_elements(im, y);
}
