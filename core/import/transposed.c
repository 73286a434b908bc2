/* Transposed convolutions. */
#include "import/window.h"

#include <string.h>

dpt_status dpti_import_add_bias(dpti_importer *im, dpt_value *y)
{
    dpt_value bias;
    if (dpti_import_is_nothing(im, 2)) return DPT_OK;
    DPT_TRY(dpti_import_input(im, 2, &bias));
    const size_t channels = dpti_extents_of(im->model, bias).extent[0];
    bias = dpti_reshape(im->model, bias, &(dpti_extents){.rank = 3, .extent = {channels, 1, 1}});
    *y = dpti_formula(im->model, "a + b", (dpt_value[]){*y, bias}, 2);
    return dpti_import_check(im);
}

/* What the padding and the extents of the result cut off at the begin of each axis, and the extents
   of the whole result. */
typedef struct enlarged {
    int64_t begin[DPTI_PLANE];
    size_t whole[DPTI_PLANE], wanted[DPTI_PLANE];
} enlarged;

static enlarged measure(const dpti_importer *im, const dpti_window *w, const dpti_extents *e,
                        const dpti_extents *to)
{
    size_t n;
    enlarged out = {.begin = {0}};
    const char *automatic = dpti_onnx_string(im->node, "auto_pad", "NOTSET");
    const bool follows =
        strncmp(automatic, "SAME", 4) == 0 || dpti_onnx_ints(im->node, "output_shape", &n);
    const int64_t *more = dpti_onnx_ints(im->node, "output_padding", &n);
    for (size_t i = 0; i < DPTI_PLANE; i++) {
        const bool is_axis = i + w->n_axes >= DPTI_PLANE;
        const size_t in = is_axis ? e->extent[e->rank - DPTI_PLANE + i] : 1;
        out.wanted[i] = is_axis ? to->extent[to->rank - DPTI_PLANE + i] : 1;
        out.whole[i] = (in - 1) * w->stride[i] + (w->kernel[i] - 1) * w->dilation[i] + 1;
        out.begin[i] = (int64_t)w->before[i];
        if (!follows || !is_axis) continue;
        const int64_t extra = more && n == w->n_axes ? more[i + n - DPTI_PLANE] : 0;
        const int64_t all = (int64_t)out.whole[i] + extra - (int64_t)out.wanted[i];
        if (all < 0)
            out.begin[i] = 0; /* zeros follow */
        else
            out.begin[i] = strcmp(automatic, "SAME_UPPER") == 0 ? all / 2 : all - all / 2;
    }
    return out;
}

/* The wanted part of the whole result (images, channels, height, width); zeros where the result
   does not reach. */
static dpt_value cut(dpti_importer *im, dpt_value y, const enlarged *out)
{
    dpti_padding padding = {.fill = 0};
    bool pads = false;
    for (size_t i = 0; i < DPTI_PLANE; i++) {
        const int64_t whole = (int64_t)out->whole[i], wanted = (int64_t)out->wanted[i],
                      first = out->begin[i] > 0 ? out->begin[i] : 0,
                      end = out->begin[i] + wanted < whole ? out->begin[i] + wanted : whole;
        if (end <= first)
            return DPTI_MODEL_FAIL(im->model, DPT_E_UNSUPPORTED, "its result is padding alone");
        if (first > 0 || end < whole)
            y = dpti_slice(im->model, y,
                           (dpti_cut){.axis = 2 + i,
                                      .begin = (size_t)first,
                                      .count = (size_t)(end - first),
                                      .step = 1});
        padding.before[2 + i] = (size_t)(first - out->begin[i]);
        padding.after[2 + i] = (size_t)(out->begin[i] + wanted - end);
        pads = pads || padding.before[2 + i] > 0 || padding.after[2 + i] > 0;
    }
    return pads ? dpti_pad(im->model, y, &padding) : y;
}

/* Whether a convolution of the result gives the input, so that one operator makes the result. */
static bool is_exact(const dpti_window *w, const enlarged *out, const dpti_extents *e)
{
    bool exact = true;
    for (size_t i = 0; i < DPTI_PLANE; i++) {
        const size_t in = i + w->n_axes >= DPTI_PLANE ? e->extent[e->rank - DPTI_PLANE + i] : 1;
        const int64_t reach = (int64_t)((w->kernel[i] - 1) * w->dilation[i] + 1);
        const int64_t room = (int64_t)out->wanted[i] + 2 * out->begin[i] - reach;
        exact = exact && out->begin[i] >= 0 && room >= 0 &&
                (int64_t)out->wanted[i] + 2 * out->begin[i] >= (int64_t)out->whole[i] &&
                (size_t)room / w->stride[i] + 1 == in;
    }
    return exact;
}

static dpt_status import_conv_transpose(dpti_importer *im)
{
    dpti_window w = {.n_axes = 0};
    dpt_value x;
    dpti_given given;
    DPT_TRY(dpti_import_input(im, 0, &x));
    const dpti_extents e = dpti_extents_of(im->model, x),
                       to = dpti_import_extents(dpti_import_result(im, 0)),
                       filter = dpti_import_extents(dpti_import_fact(im, 1));
    if (e.rank == 5) return dpti_import_conv_transpose_volume(im);
    DPT_TRY(dpti_import_window(im, &e, &w));
    const enlarged out = measure(im, &w, &e, &to);
    const bool exact = is_exact(&w, &out, &e);
    memset(w.before, 0, sizeof w.before);
    memset(w.after, 0, sizeof w.after);
    DPT_TRY(dpti_import_image(im, &w, 0, &x));
    const size_t window = w.kernel[0] * w.kernel[1];
    DPT_TRY(dpti_import_filters(im,
                                (dpti_parameter){.layout = DPTI_LAYOUT_CONV,
                                                 .fan_in = filter.extent[1] * window,
                                                 .fan_out = filter.extent[0] * window,
                                                 .h = w.kernel[0],
                                                 .w = w.kernel[1],
                                                 .c = filter.extent[1]},
                                &given));
    dpti_transposed options = {
        .convolution = {.kernel = {w.kernel[0], w.kernel[1]},
                        .stride = {w.stride[0], w.stride[1]},
                        .dilation = {w.dilation[0], w.dilation[1]},
                        .groups = (size_t)dpti_onnx_int(im->node, "group", 1)},
        .out = {.h = out.whole[0], .w = out.whole[1], .c = to.extent[1]},
        .images = w.images};
    for (size_t i = 0; exact && i < DPTI_PLANE; i++)
        options.convolution.padding[i] = (size_t)out.begin[i];
    if (exact)
        options.out = (dpti_extent){.h = out.wanted[0], .w = out.wanted[1], .c = to.extent[1]};
    dpt_value y = dpti_given_conv2d_transpose(im->model, x, &given, &options);
    y = dpti_images_apart(im->model, y, w.images);
    DPT_TRY(dpti_import_check(im));
    if (!exact) y = cut(im, y, &out);
    DPT_TRY(dpti_import_check(im));
    DPT_TRY(dpti_import_add_bias(im, &y));
    return dpti_import_give_elements(im, y);
}

const dpti_import_operator dpti_import_enlargements[] = {
    {"ConvTranspose", import_conv_transpose},
    {NULL, NULL},
};
