/* Resize: each axis is repeated, or combined with constant weights. */
#include "base/size.h"
#include "import/state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WEIGHTS = 1 << 26 };

/* How an axis is resized. */
typedef struct resizing {
    const char *where, *nearest; /* the coordinates; the rounding, NULL: linear or cubic */
    bool cubic, antialias, exclude_outside;
    double a; /* of the cubic kernel */
    size_t axis, in, out;
    double scale;
} resizing;

/* The place in the input of element o of the output. */
static double place_of(const resizing *r, size_t o)
{
    const double at = (double)o, middle = (at + 0.5) / r->scale - 0.5, in = (double)r->in;
    if (strcmp(r->where, "asymmetric") == 0) return at / r->scale;
    if (strcmp(r->where, "align_corners") == 0)
        return r->out > 1 ? at * (in - 1) / (double)(r->out - 1) : 0;
    if (strcmp(r->where, "pytorch_half_pixel") == 0) return r->out > 1 ? middle : 0;
    if (strcmp(r->where, "half_pixel_symmetric") == 0)
        return in / 2 * (1 - (double)r->out / (r->scale * in)) + middle;
    return middle;
}

/* The index that is nearest to a place. */
static double round_place(const char *mode, double place)
{
    if (strcmp(mode, "floor") == 0) return floor(place);
    if (strcmp(mode, "ceil") == 0) return ceil(place);
    if (strcmp(mode, "round_prefer_ceil") == 0) return floor(place + 0.5);
    return ceil(place - 0.5);
}

/* The element that is nearest to that of element o of the output. */
static double find_nearest(const resizing *r, size_t o)
{
    return fmin(fmax(round_place(r->nearest, place_of(r, o)), 0), (double)(r->in - 1));
}

/* Whether every element of the input becomes `out / in` equal elements. */
static bool repeats(const resizing *r)
{
    const size_t n = r->out / r->in;
    if (r->in == 1) return true;
    if (r->in == r->out) return !r->cubic || r->scale == 1;
    if (!r->nearest || n * r->in != r->out) return false;
    for (size_t o = 0; o < r->out; o++)
        if (find_nearest(r, o) != (double)(o / n)) return false;
    return true;
}

static dpt_status repeat(dpti_importer *im, const resizing *r, dpt_value *x)
{
    const dpti_extents from = dpti_extents_of(im->model, *x);
    dpti_extents pairs = {.rank = from.rank + 1}, repeated, to = from;
    if (r->in == r->out) return DPT_OK;
    if (from.rank == DPT_MAX_RANK)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "at most %d axes can be resized; merge some of them before",
                                  DPT_MAX_RANK - 1);
    for (size_t i = 0; i < pairs.rank; i++)
        pairs.extent[i] = i == r->axis + 1 ? 1 : from.extent[i <= r->axis ? i : i - 1];
    repeated = pairs;
    repeated.extent[r->axis + 1] = r->out / r->in;
    to.extent[r->axis] = r->out;
    *x = dpti_expand(im->model, dpti_reshape(im->model, *x, &pairs), &repeated);
    *x = dpti_reshape(im->model, *x, &to);
    return dpti_import_check(im);
}

/* The weight of an element whose distance is x.  Cubic: the convolution kernel of Keys. */
static double kernel(const resizing *r, double x)
{
    const double a = r->a;
    x = fabs(x);
    if (!r->cubic) return x < 1 ? 1 - x : 0;
    if (x < 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* row (in) = the weights of element o of the output.  Outside, the first and the last element are
   repeated, or nothing is. */
static void weigh(const resizing *r, size_t o, float *row)
{
    const double last = (double)(r->in - 1), width = r->antialias ? fmin(r->scale, 1) : 1;
    const double radius = (r->cubic ? 2 : 1) / width;
    const double place =
        r->cubic || r->antialias ? place_of(r, o) : fmin(fmax(place_of(r, o), 0), last);
    double sum = 0;
    for (double i = ceil(place - radius); i <= place + radius; i++)
        if (!r->exclude_outside || (i >= 0 && i <= last)) sum += kernel(r, (i - place) * width);
    if (!r->antialias && !r->exclude_outside) sum = 1;
    for (double i = ceil(place - radius); i <= place + radius; i++)
        if (!r->exclude_outside || (i >= 0 && i <= last))
            row[(size_t)fmin(fmax(i, 0), last)] += (float)(kernel(r, (i - place) * width) / sum);
}

static dpt_status combine(dpti_importer *im, const resizing *r, dpt_value *x)
{
    if (r->in > MOST_WEIGHTS / r->out)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "an axis of %zu elements becomes one of %zu; only %d weights can "
                                  "be kept, so resize it by a whole multiple, with nearest",
                                  r->in, r->out, MOST_WEIGHTS);
    float *weights = calloc(r->in * r->out, sizeof *weights);
    if (!weights) return dpti_import_refuse(im, DPT_E_NO_MEMORY, "no memory");
    for (size_t o = 0; o < r->out; o++)
        if (r->nearest)
            weights[o * r->in + (size_t)find_nearest(r, o)] = 1;
        else
            weigh(r, o, weights + o * r->in);
    const dpt_status status =
        dpti_import_combine(im, &(dpti_combination){r->axis, r->out, weights}, x);
    free(weights);
    return status;
}

/* The scale of an axis: that of the file, that which keeps the proportions, or the quotient of the
   extents. */
static double read_scale(const dpti_importer *im, const resizing *r, const dpti_extents *from)
{
    size_t n = 0, at = r->axis;
    const int64_t *axes = dpti_onnx_ints(im->node, "axes", &n);
    const bool sizes = dpti_import_has(im, 3) && dpti_import_fact(im, 3)->n_cells;
    const dpti_onnx_fact *scales =
        dpti_import_has(im, 2) && !sizes ? dpti_import_fact(im, 2) : NULL;
    double scale = 0;
    if (sizes && r->in != r->out &&
        dpti_onnx_keeps_proportions(im->node, &dpti_import_fact(im, 0)->shape,
                                    dpti_import_fact(im, 3), &scale))
        return scale;
    for (size_t k = 0; axes && k < n; k++)
        if (dpti_import_axis(axes[k], from->rank) == r->axis) at = k;
    /* As in PyTorch, a scale that keeps the extent counts with cubic weights alone. */
    if (scales && scales->cells && at < scales->n_cells && (r->cubic || r->in != r->out))
        return scales->cells[at].real;
    return (double)r->out / (double)r->in;
}

static bool is_one_of(const char *name, const char *const *names)
{
    while (*names && strcmp(*names, name) != 0)
        names++;
    return *names != NULL;
}

/* Whether a value may have these extents.  Axes are resized one by one, and the time of each is
   that of its extent. */
static bool fits_value(const dpti_extents *e)
{
    size_t n = 1;
    for (size_t i = 0; i < e->rank; i++)
        if (!dpti_multiply(n, e->extent[i], &n) || n > DPTI_MAX_EXTENT) return false;
    return true;
}

static dpt_status read_mode(const dpti_importer *im, resizing *r)
{
    static const char *const places[] = {"align_corners",        "asymmetric",         "half_pixel",
                                         "half_pixel_symmetric", "pytorch_half_pixel", NULL};
    static const char *const modes[] = {"cubic", "linear", "nearest", NULL};
    const char *mode = dpti_onnx_string(im->node, "mode", "nearest");
    *r = (resizing){
        .where = dpti_onnx_string(im->node, "coordinate_transformation_mode", "half_pixel"),
        .cubic = strcmp(mode, "cubic") == 0,
        .antialias = dpti_onnx_int(im->node, "antialias", 0) != 0,
        .exclude_outside = dpti_onnx_int(im->node, "exclude_outside", 0) != 0,
        .a = (double)dpti_onnx_float(im->node, "cubic_coeff_a", -0.75f),
    };
    if (!is_one_of(mode, modes) || !is_one_of(r->where, places))
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "only the modes nearest, linear and cubic with the coordinates "
                                  "half_pixel, half_pixel_symmetric, pytorch_half_pixel, "
                                  "align_corners or asymmetric can be trained; export it with one "
                                  "of them");
    if (strcmp(mode, "nearest") == 0)
        r->nearest = dpti_onnx_string(im->node, "nearest_mode", "round_prefer_floor");
    return DPT_OK;
}

static dpt_status import_resize(dpti_importer *im)
{
    resizing r;
    dpt_value x;
    DPT_TRY(read_mode(im, &r));
    DPT_TRY(dpti_import_input(im, 0, &x));
    const dpti_extents from = dpti_extents_of(im->model, x),
                       to = dpti_import_extents(dpti_import_result(im, 0));
    if (!fits_value(&to))
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "its result has more than the %d elements that a value may have "
                                  "for a sample; resize to smaller extents",
                                  DPTI_MAX_EXTENT);
    for (size_t i = 0; i < from.rank; i++) {
        r.axis = i;
        r.in = from.extent[i];
        r.out = to.extent[i];
        if (r.in == 0 || r.out == 0)
            return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                      "axis %zu is or becomes empty; export it with other sizes or "
                                      "scales",
                                      i);
        r.scale = read_scale(im, &r, &from);
        if (repeats(&r))
            DPT_TRY(repeat(im, &r, &x));
        else
            DPT_TRY(combine(im, &r, &x));
    }
    dpti_import_give(im, 0, x);
    return DPT_OK;
}

const dpti_import_operator dpti_import_resizes[] = {
    {"Resize", import_resize},
    {NULL, NULL},
};
