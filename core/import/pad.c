/* Elements around a value: a constant, or elements of the value itself.  A negative pad removes
   elements. */
#include "import/state.h"

#include <stdlib.h>
#include <string.h>

/* Elements that an axis gets in front and behind. */
typedef struct edge {
    size_t axis;
    int64_t before, after;
} edge;

/* The places from `from` on, up to `to`, that show elements of an axis of n elements with one
   step. */
static dpti_run next_run(const char *mode, int64_t n, int64_t from, int64_t to)
{
    dpti_run run = {.first = from, .step = 1};
    int64_t end = from < 0 ? 0 : from < n ? n : to;
    if (mode[0] == 'w') {
        run.first = (from % n + n) % n;
        end = from + n - run.first;
    } else if (from < 0 || from >= n) {
        run.step = mode[0] == 'r' ? -1 : 0;
        run.first = mode[0] == 'r' ? (from < 0 ? -from : 2 * (n - 1) - from) : from < 0 ? 0 : n - 1;
    }
    run.count = (size_t)((end < to ? end : to) - from);
    return run;
}

/* Pads with elements of the value itself. */
static dpt_status pad_with_itself(dpti_importer *im, const char *mode, const edge *at, dpt_value *x)
{
    const int64_t extent = (int64_t)dpti_extents_of(im->model, *x).extent[at->axis];
    /* ONNX Runtime refuses it, too: the mirror image of an axis has one element less. */
    if (mode[0] == 'r' && (at->before >= extent || at->after >= extent))
        return dpti_import_refuse(im, DPT_E_INVALID,
                                  "it reflects %lld elements of the %lld along axis %zu; at most "
                                  "%lld are there",
                                  (long long)(at->before > at->after ? at->before : at->after),
                                  (long long)extent, at->axis, (long long)extent - 1);
    const int64_t end = extent + at->after, places = end + at->before;
    const size_t most = places < DPTI_MOST_RUNS ? (size_t)places : DPTI_MOST_RUNS;
    dpti_runs runs = {.items = malloc((most + 1) * sizeof *runs.items)};
    if (!runs.items) return dpti_import_refuse(im, DPT_E_NO_MEMORY, "no memory");
    for (int64_t i = -at->before; i < end && runs.n <= DPTI_MOST_RUNS; runs.n++) {
        runs.items[runs.n] = next_run(mode, extent, i, end);
        i += (int64_t)runs.items[runs.n].count;
    }
    const dpt_status status = dpti_import_take_runs(im, x, at->axis, runs);
    free(runs.items);
    return status;
}

/* Removes elements, and notes those that are added in *padding. */
static dpt_status cut(dpti_importer *im, const edge *at, dpti_padding *padding, dpt_value *x)
{
    const int64_t extent = (int64_t)dpti_extents_of(im->model, *x).extent[at->axis];
    const int64_t begin = at->before < 0 ? -at->before : 0, end = at->after < 0 ? -at->after : 0;
    padding->before[at->axis] = at->before > 0 ? (size_t)at->before : 0;
    padding->after[at->axis] = at->after > 0 ? (size_t)at->after : 0;
    if (begin + end == 0) return DPT_OK;
    if (begin + end >= extent)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "its pads remove all elements along axis %zu", at->axis);
    *x = dpti_slice(im->model, *x,
                    (dpti_cut){.axis = at->axis,
                               .begin = (size_t)begin,
                               .count = (size_t)(extent - begin - end),
                               .step = 1});
    return dpti_import_check(im);
}

static dpt_status check_edge(const dpti_importer *im, const edge *at, const dpti_extents *to)
{
    if (at->axis >= to->rank || at->before < -DPTI_MAX_EXTENT || at->before > DPTI_MAX_EXTENT ||
        at->after < -DPTI_MAX_EXTENT || at->after > DPTI_MAX_EXTENT || to->extent[at->axis] < 1 ||
        to->extent[at->axis] > DPTI_MAX_EXTENT)
        return dpti_import_refuse(
            im, DPT_E_UNSUPPORTED, "its pads leave %s along axis %zu",
            at->axis < to->rank && to->extent[at->axis] < 1 ? "no elements" : "too many elements",
            at->axis);
    return DPT_OK;
}

static dpt_status import_pad(dpti_importer *im)
{
    dpt_value x;
    dpti_import_list pads, axes;
    double fill = 0;
    const char *mode = dpti_onnx_string(im->node, "mode", "constant");
    const bool constant = strcmp(mode, "constant") == 0;
    const dpti_extents to = dpti_import_extents(dpti_import_result(im, 0));
    DPT_TRY(dpti_import_input(im, 0, &x));
    DPT_TRY(dpti_import_integers(im, 1, "pads", &pads));
    DPT_TRY(dpti_import_number(im, 2, 0, &fill));
    DPT_TRY(dpti_import_integers(im, 3, NULL, &axes));
    if (!constant && strcmp(mode, "reflect") != 0 && strcmp(mode, "edge") != 0 &&
        strcmp(mode, "wrap") != 0)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "only the modes constant, reflect, edge and wrap can be trained");
    dpti_padding padding = {.fill = (float)fill};
    const size_t rank = dpti_extents_of(im->model, x).rank, n = pads.n / 2;
    for (size_t i = 0; i < n; i++) {
        const edge at = {axes.given ? dpti_import_axis(axes.items[i], rank) : i, pads.items[i],
                         pads.items[n + i]};
        DPT_TRY(check_edge(im, &at, &to));
        if (constant)
            DPT_TRY(cut(im, &at, &padding, &x));
        else if (at.before != 0 || at.after != 0)
            DPT_TRY(pad_with_itself(im, mode, &at, &x));
    }
    if (constant) x = dpti_pad(im->model, x, &padding);
    dpti_import_give(im, 0, x);
    return DPT_OK;
}

const dpti_import_operator dpti_import_pads[] = {
    {"Pad", import_pad},
    {NULL, NULL},
};
