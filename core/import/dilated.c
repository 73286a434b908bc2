/* Maximum pooling whose windows have gaps: the largest of parts of the image. */
#include "import/window.h"

#include <float.h>

enum { MOST_PARTS = 256 }; /* each element of a window adds a layer */

static dpt_value pad(dpti_importer *im, dpt_value x, const dpti_window *w)
{
    const size_t rank = dpti_extents_of(im->model, x).rank;
    dpti_padding padding = {.fill = -FLT_MAX};
    size_t n = 0;
    for (size_t i = DPTI_PLANE - w->n_axes; i < DPTI_PLANE; i++) {
        padding.before[rank - DPTI_PLANE + i] = w->before[i];
        padding.after[rank - DPTI_PLANE + i] = w->after[i];
        n += w->before[i] + w->after[i];
    }
    return n ? dpti_pad(im->model, x, &padding) : x;
}

/* The largest of the elements that a window has along one of its axes.  Equal ones leave the
   gradient to the first, as in a window without gaps. */
static dpt_value largest_along(dpti_importer *im, dpt_value x, const dpti_window *w, size_t i)
{
    const dpti_extents to = dpti_import_extents(dpti_import_result(im, 0));
    dpti_cut cut = {.axis = to.rank - DPTI_PLANE + i,
                    .count = to.extent[to.rank - DPTI_PLANE + i],
                    .step = (int32_t)w->stride[i]};
    dpt_value y = dpti_slice(im->model, x, cut);
    for (size_t k = 1; k < w->kernel[i] && y.id; k++) {
        cut.begin = k * w->dilation[i];
        y = dpti_formula(im->model, "select(less(a, b), b, a)",
                         (dpt_value[]){y, dpti_slice(im->model, x, cut)}, 2);
    }
    return y;
}

dpt_status dpti_import_dilated_maximum(dpti_importer *im, const dpti_window *w, dpt_value x)
{
    if (w->kernel[0] > MOST_PARTS || w->kernel[1] > MOST_PARTS)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "a dilated window has at most %d elements along an axis; use a "
                                  "smaller one",
                                  MOST_PARTS);
    x = pad(im, x, w);
    for (size_t i = DPTI_PLANE; i-- > DPTI_PLANE - w->n_axes;) /* the first row decides last */
        x = largest_along(im, x, w, i);
    DPT_TRY(dpti_import_check(im));
    dpti_import_give(im, 0, x);
    return DPT_OK;
}
