/* Pooling whose windows have gaps, or three axes: along one axis after the other, the largest of,
   or the sum of, slices of the value. */
#include "import/window.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PARTS = 256, MOST_AXES = 3 }; /* each element of a window along an axis adds a layer */

/* A window along one axis. */
typedef struct line {
    size_t axis, kernel, stride, dilation, before, after, in, out;
} line;

typedef enum kind { MAXIMUM, AVERAGE, POWERS } kind;

static int64_t item(const dpti_importer *im, const char *name, size_t i, int64_t otherwise)
{
    size_t n;
    const int64_t *items = dpti_onnx_ints(im->node, name, &n);
    return items && i < n ? items[i] : otherwise;
}

/* The window along spatial axis i of n. */
static dpt_status read_line(const dpti_importer *im, const dpti_extents *e, size_t i, line *out)
{
    const size_t n = e->rank - 2;
    const dpti_extents to = dpti_import_extents(dpti_import_result(im, 0));
    const int64_t before = item(im, "pads", i, 0), after = item(im, "pads", n + i, 0);
    const char *automatic = dpti_onnx_string(im->node, "auto_pad", "NOTSET");
    *out = (line){.axis = 2 + i,
                  .kernel = (size_t)item(im, "kernel_shape", i, 1),
                  .stride = (size_t)item(im, "strides", i, 1),
                  .dilation = (size_t)item(im, "dilations", i, 1),
                  .in = e->extent[2 + i],
                  .out = to.extent[2 + i]};
    if (before < 0 || after < 0)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED, "a negative padding");
    if (out->kernel > MOST_PARTS)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "a window that is dilated or has three axes has at most %d "
                                  "elements along an axis; use a smaller one",
                                  MOST_PARTS);
    out->before = (size_t)before;
    out->after = (size_t)after;
    if (strncmp(automatic, "SAME", 4) != 0) return DPT_OK;
    const size_t span = (out->out - 1) * out->stride + (out->kernel - 1) * out->dilation + 1;
    const size_t all = span > out->in ? span - out->in : 0, half = all / 2;
    out->before = strcmp(automatic, "SAME_UPPER") == 0 ? half : all - half;
    out->after = all - out->before;
    return DPT_OK;
}

/* x with the padding, and with the elements that only a window of ceil mode reaches. */
static dpt_value pad_line(dpti_importer *im, dpt_value x, const line *l, kind what)
{
    const size_t span = (l->out - 1) * l->stride + (l->kernel - 1) * l->dilation + 1;
    const size_t padded = l->in + l->before + l->after;
    dpti_padding padding = {.fill = what == MAXIMUM ? -FLT_MAX : 0};
    padding.before[l->axis] = l->before;
    padding.after[l->axis] = l->after + (span > padded ? span - padded : 0);
    if (padding.before[l->axis] + padding.after[l->axis] == 0) return x;
    return dpti_pad(im->model, x, &padding);
}

/* Multiplies sums by 1 / the number of elements that count, which is another one at the edges. */
static dpt_value divide(dpti_importer *im, dpt_value y, const line *l)
{
    const bool padding = dpti_onnx_int(im->node, "count_include_pad", 0) != 0;
    const int64_t low = padding ? 0 : (int64_t)l->before,
                  high = (int64_t)(l->before + l->in + (padding ? l->after : 0));
    dpti_extents e = {.rank = dpti_extents_of(im->model, y).rank};
    for (size_t i = 0; i < e.rank; i++)
        e.extent[i] = i == l->axis ? l->out : 1;
    float *factor = malloc(l->out * sizeof *factor);
    if (!factor) return DPTI_MODEL_FAIL(im->model, DPT_E_NO_MEMORY, "no memory");
    for (size_t o = 0; o < l->out; o++) {
        size_t counted = 0;
        for (size_t k = 0; k < l->kernel; k++) {
            const int64_t at = (int64_t)(o * l->stride + k * l->dilation);
            counted += at >= low && at < high;
        }
        factor[o] = counted ? 1.0f / (float)counted : 0;
    }
    const dpt_value c = dpti_add_constant(im->model, &e, factor);
    free(factor);
    return dpti_formula(im->model, "a * b", (dpt_value[]){y, c}, 2);
}

/* Combines the elements that a window has along one of its axes.  Equal largest ones leave the
   gradient to the first, as in a window without gaps. */
static dpt_value combine(dpti_importer *im, dpt_value x, const line *l, kind what)
{
    const char *formula = what == MAXIMUM ? "select(less(a, b), b, a)" : "a + b";
    x = pad_line(im, x, l, what);
    dpti_cut cut = {.axis = l->axis, .count = l->out, .step = (int32_t)l->stride};
    dpt_value y = dpti_slice(im->model, x, cut);
    for (size_t k = 1; k < l->kernel && y.id; k++) {
        cut.begin = k * l->dilation;
        y = dpti_formula(im->model, formula, (dpt_value[]){y, dpti_slice(im->model, x, cut)}, 2);
    }
    return what == AVERAGE && y.id ? divide(im, y, l) : y;
}

static dpt_value power(dpti_importer *im, dpt_value x, const char *format, double p)
{
    char text[96];
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    snprintf(text, sizeof text, format, p);
#pragma GCC diagnostic pop
    return dpti_formula(im->model, text, &x, 1);
}

/* |x| to the power p; without a logarithm where p is 1 or 2. */
static dpt_value raise(dpti_importer *im, dpt_value x, double p)
{
    if (p == 1) return power(im, x, "abs(a)", p);
    return p == 2 ? power(im, x, "a * a", p) : power(im, x, "pow(abs(a), %.9g)", p);
}

static dpt_value root(dpti_importer *im, dpt_value x, double p)
{
    if (p == 1) return x;
    if (p == 2) return dpti_formula(im->model, DPTI_IMPORT_ROOT, &x, 1);
    return power(im, x, "select(equal(a, 0), 0, pow(select(equal(a, 0), 1, a), %.9g))", 1 / p);
}

static dpt_status pool(dpti_importer *im, kind what)
{
    dpt_value x;
    line lines[MOST_AXES];
    DPT_TRY(dpti_import_input(im, 0, &x));
    const dpti_extents e = dpti_extents_of(im->model, x);
    const double p = (double)dpti_onnx_int(im->node, "p", 2);
    if (e.rank < 3 || e.rank > 2 + MOST_AXES)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "only windows over one to three axes can be trained");
    for (size_t i = 0; i + 2 < e.rank; i++)
        DPT_TRY(read_line(im, &e, i, &lines[i]));
    if (what == POWERS) x = raise(im, x, p);
    for (size_t i = e.rank - 2; i-- > 0;) /* the first plane and the first row decide last */
        x = combine(im, x, &lines[i], what);
    if (what == POWERS) x = root(im, x, p);
    DPT_TRY(dpti_import_check(im));
    dpti_import_give(im, 0, x);
    return DPT_OK;
}

dpt_status dpti_import_pool_by_slices(dpti_importer *im)
{
    return pool(im, strcmp(im->node->op, "MaxPool") == 0 ? MAXIMUM : AVERAGE);
}

static dpt_status import_lp_pool(dpti_importer *im)
{
    return pool(im, POWERS);
}

static dpt_status import_global_lp_pool(dpti_importer *im)
{
    dpt_value x;
    const dpti_map_code load = {.n_code = 1, .n_in = 1};
    const double p = (double)dpti_onnx_int(im->node, "p", 2);
    DPT_TRY(dpti_import_input(im, 0, &x));
    const size_t rank = dpti_extents_of(im->model, x).rank;
    x = raise(im, x, p);
    x = dpti_map(im->model, &(dpti_mapping){.what = "reduce",
                                            .code = &load,
                                            .inputs = &x,
                                            .n = 1,
                                            .reduced = ((1u << rank) - 1) & ~3u,
                                            .reduction = DPT_REDUCE_SUM});
    dpti_import_give(im, 0, root(im, x, p));
    return DPT_OK;
}

const dpti_import_operator dpti_import_slides[] = {
    {"GlobalLpPool", import_global_lp_pool},
    {"LpPool", import_lp_pool},
    {NULL, NULL},
};
