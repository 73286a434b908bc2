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

static dpt_status import_conv_transpose(dpti_importer *im)
{
    dpti_window w = {.n_axes = 0};
    dpt_value x;
    size_t weight, n;
    DPT_TRY(dpti_import_input(im, 0, &x));
    const dpti_extents e = dpti_extents_of(im->model, x),
                       to = dpti_import_extents(dpti_import_result(im, 0)),
                       filter = dpti_import_extents(dpti_import_fact(im, 1));
    DPT_TRY(dpti_import_window(im, &e, &w));
    if (strncmp(dpti_onnx_string(im->node, "auto_pad", "NOTSET"), "SAME", 4) == 0 ||
        dpti_onnx_ints(im->node, "output_shape", &n))
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "a padding that follows from the output cannot be trained yet; "
                                  "export it with pads");
    for (size_t i = 0; i < DPTI_PLANE; i++) {
        w.kernel[i] = i + w.n_axes >= DPTI_PLANE ? filter.extent[filter.rank - DPTI_PLANE + i] : 1;
        w.after[i] = w.before[i]; /* the extent of the output tells how much is cut off there */
    }
    DPT_TRY(dpti_import_image(im, &w, 0, &x));
    const size_t window = w.kernel[0] * w.kernel[1];
    DPT_TRY(dpti_import_parameter(im, 1,
                                  (dpti_parameter){.layout = DPTI_LAYOUT_CONV,
                                                   .fan_in = filter.extent[1] * window,
                                                   .fan_out = filter.extent[0] * window,
                                                   .h = w.kernel[0],
                                                   .w = w.kernel[1],
                                                   .c = filter.extent[1]},
                                  &weight));
    const dpti_transposed options = {
        .convolution = {.kernel = {w.kernel[0], w.kernel[1]},
                        .stride = {w.stride[0], w.stride[1]},
                        .padding = {w.before[0], w.before[1]},
                        .dilation = {w.dilation[0], w.dilation[1]},
                        .groups = (size_t)dpti_onnx_int(im->node, "group", 1)},
        .out = {
            .h = to.rank == 4 ? to.extent[2] : 1, .w = to.extent[to.rank - 1], .c = to.extent[1]}};
    dpt_value y = dpti_given_conv2d_transpose(im->model, x, weight, &options);
    DPT_TRY(dpti_import_check(im));
    DPT_TRY(dpti_import_add_bias(im, &y));
    return dpti_import_give_image(im, y);
}

const dpti_import_operator dpti_import_enlargements[] = {
    {"ConvTranspose", import_conv_transpose},
    {NULL, NULL},
};
