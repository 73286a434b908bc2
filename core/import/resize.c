/* Resize: each axis is repeated, or combined with constant weights. */
#include "base/size.h"
#include "import/state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_WEIGHTS = 1 << 26 };

/* How an axis is resized. */
typedef struct resizing {
    const char *where, *nearest; /* the coordinates; the rounding, NULL: linear */
    size_t axis, in, out;
    double scale;
} resizing;

/* The place in the input of element o of the output. */
static double place_of(const resizing *r, size_t o)
{
    const double at = (double)o, middle = (at + 0.5) / r->scale - 0.5;
    if (strcmp(r->where, "asymmetric") == 0) return at / r->scale;
    if (strcmp(r->where, "align_corners") == 0)
        return r->out > 1 ? at * (double)(r->in - 1) / (double)(r->out - 1) : 0;
    if (strcmp(r->where, "pytorch_half_pixel") == 0) return r->out > 1 ? middle : 0;
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

/* The place between the first and the last element. */
static double find_place(const resizing *r, size_t o)
{
    const double place = place_of(r, o), last = (double)(r->in - 1);
    return fmin(fmax(r->nearest ? round_place(r->nearest, place) : place, 0), last);
}

/* Whether every element of the input becomes `out / in` equal elements. */
static bool repeats(const resizing *r)
{
    const size_t n = r->out / r->in;
    if (n * r->in != r->out) return false;
    for (size_t o = 0; o < r->out; o++)
        if (find_place(r, o) != (double)(o / n)) return false;
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

static dpt_status combine(dpti_importer *im, const resizing *r, dpt_value *x)
{
    if (r->in > MOST_WEIGHTS / r->out)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "an axis of %zu elements becomes one of %zu; only %d weights can "
                                  "be kept, so resize it by a whole multiple, with nearest",
                                  r->in, r->out, MOST_WEIGHTS);
    float *weights = calloc(r->in * r->out, sizeof *weights);
    if (!weights) return dpti_import_refuse(im, DPT_E_NO_MEMORY, "no memory");
    for (size_t o = 0; o < r->out; o++) {
        const double place = find_place(r, o), before = floor(place), part = place - before;
        float *row = weights + o * r->in + (size_t)before;
        row[0] = (float)(1 - part);
        if (part > 0) row[1] = (float)part;
    }
    const dpt_status status =
        dpti_import_combine(im, &(dpti_combination){r->axis, r->out, weights}, x);
    free(weights);
    return status;
}

/* The scale of an axis: that of the file, or the quotient of the extents. */
static double read_scale(const dpti_importer *im, const resizing *r, size_t rank)
{
    size_t n = 0, at = r->axis;
    const int64_t *axes = dpti_onnx_ints(im->node, "axes", &n);
    const bool sizes = dpti_import_has(im, 3) && dpti_import_fact(im, 3)->n_cells;
    const dpti_onnx_fact *scales =
        dpti_import_has(im, 2) && !sizes ? dpti_import_fact(im, 2) : NULL;
    for (size_t k = 0; axes && k < n; k++)
        if (dpti_import_axis(axes[k], rank) == r->axis) at = k;
    if (scales && scales->cells && at < scales->n_cells && r->in != r->out)
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

static dpt_status import_resize(dpti_importer *im)
{
    static const char *const places[] = {"align_corners", "asymmetric", "half_pixel",
                                         "pytorch_half_pixel", NULL};
    static const char *const modes[] = {"linear", "nearest", NULL};
    const char *mode = dpti_onnx_string(im->node, "mode", "nearest");
    resizing r = {.where =
                      dpti_onnx_string(im->node, "coordinate_transformation_mode", "half_pixel")};
    dpt_value x;
    if (!is_one_of(mode, modes) || !is_one_of(r.where, places) ||
        dpti_onnx_int(im->node, "antialias", 0) != 0)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "only the modes nearest and linear, without antialias, with the "
                                  "coordinates half_pixel, pytorch_half_pixel, align_corners or "
                                  "asymmetric can be trained; export it with one of them");
    if (strcmp(mode, "nearest") == 0)
        r.nearest = dpti_onnx_string(im->node, "nearest_mode", "round_prefer_floor");
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
        r.scale = read_scale(im, &r, from.rank);
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
