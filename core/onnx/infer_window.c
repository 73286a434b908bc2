/* Operators with a window over a plane: convolution, pooling, resizing.  The axes are samples,
   channels, and one to three spatial ones. */
#include "onnx/infer.h"
#include "onnx/infer_state.h"

#include <math.h>
#include <string.h>

enum { MAX_SPATIAL = 3, MAX_WINDOW = 1 << 24 };

/* The window along each spatial axis. */
typedef struct window {
    size_t n;
    int64_t size[MAX_SPATIAL], stride[MAX_SPATIAL], dilation[MAX_SPATIAL];
    int64_t before[MAX_SPATIAL], behind[MAX_SPATIAL]; /* padding */
    const char *auto_pad;
} window;

/* Reads one list of integers, each within low .. MAX_WINDOW.  false if it does not fit. */
static bool read_ints(const dpti_onnx_node *node, const char *name, size_t n_wanted, int64_t *out)
{
    size_t n = 0;
    const int64_t *ints = dpti_onnx_ints(node, name, &n);
    if (ints && n != n_wanted) return false;
    for (size_t d = 0; ints && d < n; d++) {
        if (ints[d] < 0 || ints[d] > MAX_WINDOW) return false;
        out[d] = ints[d];
    }
    return true;
}

static dpt_status check_axes(const dpti_onnx_inference *in, dpt_error *error)
{
    const size_t rank = dpti_onnx_input(in, 0)->shape.rank;
    if (rank >= 3 && rank <= 2 + MAX_SPATIAL) return DPT_OK;
    return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error,
                            "its input has %zu axes; 3 to 5 are taken", rank);
}

static dpt_status read_window(const dpti_onnx_inference *in, window *w, dpt_error *error)
{
    const dpti_onnx_shape *x = &dpti_onnx_input(in, 0)->shape;
    int64_t pads[2 * MAX_SPATIAL] = {0};
    DPT_TRY(check_axes(in, error));
    w->n = x->rank - 2;
    w->auto_pad = dpti_onnx_string(in->node, "auto_pad", "NOTSET");
    for (size_t d = 0; d < w->n; d++) {
        w->stride[d] = w->dilation[d] = 1;
        if (x->dims[2 + d].batch)
            return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error,
                                    "axis %zu is the batch; the batch must be axis 0", 2 + d);
    }
    bool fits = read_ints(in->node, "kernel_shape", w->n, w->size) &&
                read_ints(in->node, "strides", w->n, w->stride) &&
                read_ints(in->node, "dilations", w->n, w->dilation) &&
                read_ints(in->node, "pads", 2 * w->n, pads);
    for (size_t d = 0; d < w->n; d++) {
        w->before[d] = pads[d];
        w->behind[d] = pads[w->n + d];
        fits = fits && w->size[d] > 0 && w->stride[d] > 0 && w->dilation[d] > 0 &&
               x->dims[2 + d].size <= INT32_MAX;
    }
    if (!fits)
        return dpti_onnx_refuse(in, DPT_E_FORMAT, error,
                                "kernel_shape, strides, dilations or pads do not fit its input");
    return DPT_OK;
}

/* The extent of the result along axis d; negative if the window does not fit. */
static int64_t slid(const window *w, size_t d, int64_t extent, bool ceil_mode)
{
    const int64_t reach = (w->size[d] - 1) * w->dilation[d] + 1, s = w->stride[d];
    if (strncmp(w->auto_pad, "SAME", 4) == 0) return (extent + s - 1) / s;
    const bool valid = strcmp(w->auto_pad, "VALID") == 0;
    const int64_t before = valid ? 0 : w->before[d], behind = valid ? 0 : w->behind[d];
    const int64_t room = extent + before + behind - reach;
    if (room < 0) return -1;
    int64_t n = (ceil_mode ? room + s - 1 : room) / s + 1;
    if (ceil_mode && (n - 1) * s >= extent + before) n--; /* a window that begins in the padding */
    return n;
}

/* ---- Convolution ----------------------------------------------------------------------------- */

/* Takes kernel_shape from the weights, and checks the channels. */
static dpt_status read_weights(const dpti_onnx_inference *in, window *w, bool transposed,
                               dpt_error *error)
{
    const dpti_onnx_shape *x = &dpti_onnx_input(in, 0)->shape;
    const dpti_onnx_shape *weights = &dpti_onnx_input(in, 1)->shape;
    const int64_t groups = dpti_onnx_int(in->node, "group", 1);
    DPT_TRY(check_axes(in, error));
    bool fits = weights->rank == x->rank && groups > 0 && !x->dims[1].batch;
    if (dpti_onnx_batch_axis(weights) != weights->rank)
        return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error,
                                "its filters differ between samples; only filters that are the "
                                "same for all samples can be trained");
    if (fits && transposed)
        fits = weights->dims[0].size == x->dims[1].size && x->dims[1].size % groups == 0;
    else if (fits)
        fits = x->dims[1].size % groups == 0 && weights->dims[1].size == x->dims[1].size / groups &&
               weights->dims[0].size % groups == 0;
    for (size_t d = 0; fits && d + 2 < weights->rank; d++) {
        w->size[d] = weights->dims[2 + d].size;
        fits = w->size[d] <= MAX_WINDOW;
    }
    if (!fits)
        return dpti_onnx_refuse(in, DPT_E_FORMAT, error,
                                "the shapes of its input and its weights do not fit together");
    return DPT_OK;
}

static dpt_status conv(dpti_onnx_inference *in, dpt_error *error)
{
    window w = {0};
    DPT_TRY(dpti_onnx_need(in, 2, error));
    DPT_TRY(read_weights(in, &w, false, error));
    DPT_TRY(read_window(in, &w, error));
    const dpti_onnx_fact *x = dpti_onnx_input(in, 0);
    dpti_onnx_fact y = {.type = x->type, .shape = x->shape};
    y.shape.dims[1] = dpti_onnx_input(in, 1)->shape.dims[0];
    for (size_t d = 0; d < w.n; d++)
        y.shape.dims[2 + d].size = slid(&w, d, x->shape.dims[2 + d].size, false);
    return dpti_onnx_give(in, 0, &y, error);
}

static dpt_status conv_transpose(dpti_onnx_inference *in, dpt_error *error)
{
    window w = {0};
    int64_t more[MAX_SPATIAL] = {0}, wanted[MAX_SPATIAL] = {0};
    DPT_TRY(dpti_onnx_need(in, 2, error));
    DPT_TRY(read_weights(in, &w, true, error));
    DPT_TRY(read_window(in, &w, error));
    const dpti_onnx_fact *x = dpti_onnx_input(in, 0);
    const int64_t groups = dpti_onnx_int(in->node, "group", 1);
    dpti_onnx_fact y = {.type = x->type, .shape = x->shape};
    if (__builtin_mul_overflow(dpti_onnx_input(in, 1)->shape.dims[1].size, groups,
                               &y.shape.dims[1].size) ||
        !read_ints(in->node, "output_padding", w.n, more) ||
        !read_ints(in->node, "output_shape", w.n, wanted))
        return dpti_onnx_refuse(in, DPT_E_FORMAT, error,
                                "its groups, output_padding or output_shape do not fit");
    const bool same = strncmp(w.auto_pad, "SAME", 4) == 0;
    const bool unpadded = strcmp(w.auto_pad, "VALID") == 0;
    for (size_t d = 0; d < w.n; d++) {
        int64_t *size = &y.shape.dims[2 + d].size;
        const int64_t reach = (w.size[d] - 1) * w.dilation[d] + 1;
        const int64_t pads = unpadded ? 0 : w.before[d] + w.behind[d];
        *size = same ? *size * w.stride[d] : w.stride[d] * (*size - 1) + more[d] + reach - pads;
        if (wanted[d]) *size = wanted[d];
    }
    return dpti_onnx_give(in, 0, &y, error);
}

/* ---- Pooling --------------------------------------------------------------------------------- */

static dpt_status pool(dpti_onnx_inference *in, dpt_error *error)
{
    window w = {0};
    DPT_TRY(dpti_onnx_need(in, 1, error));
    DPT_TRY(read_window(in, &w, error));
    const dpti_onnx_fact *x = dpti_onnx_input(in, 0);
    const bool ceil_mode = dpti_onnx_int(in->node, "ceil_mode", 0) != 0;
    dpti_onnx_fact y = {.type = x->type, .shape = x->shape};
    for (size_t d = 0; d < w.n; d++)
        y.shape.dims[2 + d].size = slid(&w, d, x->shape.dims[2 + d].size, ceil_mode);
    DPT_TRY(dpti_onnx_give(in, 0, &y, error));
    y.type = DPTI_ONNX_INT64; /* where each maximum was */
    return dpti_onnx_give(in, 1, &y, error);
}

static dpt_status global_pool(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 1, error));
    const dpti_onnx_fact *x = dpti_onnx_input(in, 0);
    dpti_onnx_fact y = {.type = x->type, .shape = x->shape};
    if (x->shape.rank < 3)
        return dpti_onnx_refuse(in, DPT_E_FORMAT, error, "its input has no spatial axis");
    for (size_t d = 2; d < x->shape.rank; d++)
        y.shape.dims[d] = (dpti_onnx_dim){1, false};
    return dpti_onnx_give(in, 0, &y, error);
}

/* ---- Blocks of an image ---------------------------------------------------------------------- */

/* Reads the extents of the image and of a block; strides, dilations and pads. */
static bool read_blocks(const dpti_onnx_node *node, const dpti_onnx_list *image,
                        const dpti_onnx_list *block, window *w)
{
    int64_t pads[2 * MAX_SPATIAL] = {0};
    w->n = image->n;
    if (w->n < 1 || w->n > MAX_SPATIAL || block->n != w->n) return false;
    for (size_t d = 0; d < w->n; d++)
        w->stride[d] = w->dilation[d] = 1;
    if (!read_ints(node, "strides", w->n, w->stride) ||
        !read_ints(node, "dilations", w->n, w->dilation) ||
        !read_ints(node, "pads", 2 * w->n, pads))
        return false;
    w->auto_pad = "NOTSET";
    for (size_t d = 0; d < w->n; d++) {
        w->size[d] = block->cells[d].fixed;
        w->before[d] = pads[d];
        w->behind[d] = pads[w->n + d];
        if (image->cells[d].times != 0 || block->cells[d].times != 0 || image->cells[d].fixed < 1 ||
            image->cells[d].fixed > MAX_WINDOW || w->size[d] < 1 || w->size[d] > MAX_WINDOW ||
            w->stride[d] < 1 || w->dilation[d] < 1)
            return false;
    }
    return true;
}

static dpt_status col_to_image(dpti_onnx_inference *in, dpt_error *error)
{
    window w = {0};
    dpti_onnx_list image, block;
    int64_t elements = 1, n_blocks = 1;
    DPT_TRY(dpti_onnx_need(in, 3, error));
    DPT_TRY(dpti_onnx_read_list(in, 1, &image, error));
    DPT_TRY(dpti_onnx_read_list(in, 2, &block, error));
    const dpti_onnx_fact *x = dpti_onnx_input(in, 0);
    dpti_onnx_fact y = {.type = x->type, .shape = x->shape};
    bool fits = x->shape.rank == 3 && !x->shape.dims[1].batch && !x->shape.dims[2].batch &&
                read_blocks(in->node, &image, &block, &w);
    for (size_t d = 0; fits && d < w.n; d++) {
        const int64_t n = slid(&w, d, image.cells[d].fixed, false);
        fits = n > 0 && !__builtin_mul_overflow(n_blocks, n, &n_blocks) &&
               !__builtin_mul_overflow(elements, w.size[d], &elements);
        y.shape.dims[2 + d] = (dpti_onnx_dim){image.cells[d].fixed, false};
    }
    if (!fits || x->shape.dims[2].size != n_blocks || x->shape.dims[1].size % elements != 0)
        return dpti_onnx_refuse(
            in, DPT_E_FORMAT, error,
            "its image, its blocks and its input do not fit together; the older "
            "exporter of PyTorch mixes up pads that differ between axes, so "
            "export with the default one");
    y.shape.rank = 2 + w.n;
    y.shape.dims[1].size /= elements;
    return dpti_onnx_give(in, 0, &y, error);
}

/* ---- Resize ---------------------------------------------------------------------------------- */

/* The extents that `sizes` gives, or that `scales` multiplies. */
static dpt_status resize_axis(const dpti_onnx_inference *in, size_t k, dpti_onnx_dim *dim,
                              dpt_error *error)
{
    const dpti_onnx_fact *scales = dpti_onnx_input(in, 2), *sizes = dpti_onnx_input(in, 3);
    if (sizes && sizes->n_cells) {
        if (sizes->cells && k < sizes->n_cells && dpti_onnx_dim_of(sizes->cells[k], dim))
            return DPT_OK;
    } else if (scales && scales->cells && k < scales->n_cells) {
        const double size = (double)dim->size * scales->cells[k].real;
        if (dim->batch && scales->cells[k].real == 1) return DPT_OK;
        if (!dim->batch && size >= 0 && size < 1e9) {
            dim->size = (int64_t)size;
            return DPT_OK;
        }
    }
    return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error,
                            "its new extents are not known before training, or it resizes the "
                            "batch");
}

bool dpti_onnx_keeps_proportions(const dpti_onnx_node *node, const dpti_onnx_shape *x,
                                 const dpti_onnx_fact *sizes, double *scale)
{
    const char *policy = dpti_onnx_string(node, "keep_aspect_ratio_policy", "stretch");
    const bool not_larger = strcmp(policy, "not_larger") == 0;
    size_t n = 0;
    const int64_t *axes = dpti_onnx_ints(node, "axes", &n);
    if (!sizes || !sizes->cells || (!not_larger && strcmp(policy, "not_smaller") != 0))
        return false;
    for (size_t k = 0; k < sizes->n_cells && (!axes || k < n); k++) {
        const size_t d = axes ? dpti_onnx_axis(axes[k], x->rank) : k;
        if (d >= x->rank || x->dims[d].size < 1) return false;
        const dpti_onnx_cell to = sizes->cells[k];
        const double quotient = (double)(to.times ? to.times : to.fixed) / (double)x->dims[d].size;
        if (k == 0 || (not_larger ? quotient < *scale : quotient > *scale)) *scale = quotient;
    }
    return sizes->n_cells > 0;
}

/* The extents that are in proportion; a half is rounded up. */
static dpt_status resize_alike(dpti_onnx_inference *in, double scale, dpti_onnx_fact *y,
                               dpt_error *error)
{
    size_t n = 0;
    const int64_t *axes = dpti_onnx_ints(in->node, "axes", &n);
    for (size_t k = 0; k < (axes ? n : y->shape.rank); k++) {
        dpti_onnx_dim *dim = &y->shape.dims[axes ? dpti_onnx_axis(axes[k], y->shape.rank) : k];
        const double size = floor((double)dim->size * scale + 0.5);
        if (dim->batch ? scale != 1 : !(size >= 0 && size < 1e9))
            return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error,
                                    "it resizes the batch, or to too many elements");
        if (!dim->batch) dim->size = (int64_t)size;
    }
    return dpti_onnx_give(in, 0, y, error);
}

static dpt_status resize(dpti_onnx_inference *in, dpt_error *error)
{
    DPT_TRY(dpti_onnx_need(in, 1, error));
    const dpti_onnx_fact *x = dpti_onnx_input(in, 0);
    dpti_onnx_fact y = {.type = x->type, .shape = x->shape};
    size_t n = 0;
    const int64_t *axes = dpti_onnx_ints(in->node, "axes", &n);
    if (!axes) n = x->shape.rank;
    double scale = 1;
    for (size_t k = 0; k < n; k++) {
        const size_t d = axes ? dpti_onnx_axis(axes[k], x->shape.rank) : k;
        if (d == x->shape.rank)
            return dpti_onnx_refuse(in, DPT_E_FORMAT, error, "axis out of range");
        const dpti_onnx_dim before = y.shape.dims[d];
        DPT_TRY(resize_axis(in, k, &y.shape.dims[d], error));
        if (before.batch && !dpti_onnx_same_dim(before, y.shape.dims[d]))
            return dpti_onnx_refuse(in, DPT_E_UNSUPPORTED, error, "it resizes the batch");
    }
    if (dpti_onnx_keeps_proportions(in->node, &x->shape, dpti_onnx_input(in, 3), &scale)) {
        y.shape = x->shape;
        return resize_alike(in, scale, &y, error);
    }
    return dpti_onnx_give(in, 0, &y, error);
}

const dpti_onnx_operator dpti_onnx_windows[] = {
    {"AveragePool", pool, 1},
    {"Col2Im", col_to_image, 1},
    {"Conv", conv, 3},
    {"ConvTranspose", conv_transpose, 3},
    {"GlobalAveragePool", global_pool, 1},
    {"GlobalLpPool", global_pool, 1},
    {"GlobalMaxPool", global_pool, 1},
    {"LpPool", pool, 1},
    {"MaxPool", pool, 1},
    {"Resize", resize, 1},
    {NULL, NULL, 0},
};
