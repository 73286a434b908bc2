/* Elements of a value by indices that are known before training. */
#include "import/state.h"

#include <stdlib.h>

static dpti_run next_run(const int64_t *items, size_t n)
{
    dpti_run r = {.first = items[0], .step = n > 1 ? items[1] - items[0] : 1, .count = 1};
    while (r.count < n && items[r.count] - items[r.count - 1] == r.step)
        r.count++;
    return r;
}

/* The part of x that a run names.  A step of 0 repeats one element. */
static dpt_value take_run(dpti_importer *im, dpt_value x, size_t axis, dpti_run r)
{
    const dpti_cut cut = {.axis = axis,
                          .begin = (size_t)r.first,
                          .count = r.step == 0 ? 1 : r.count,
                          .step = r.step == 0 ? 1 : (int32_t)r.step};
    const dpt_value part = dpti_slice(im->model, x, cut);
    if (!part.id || r.step != 0 || r.count == 1) return part;
    dpti_extents extents = dpti_extents_of(im->model, part);
    extents.extent[axis] = r.count;
    return dpti_expand(im->model, part, &extents);
}

/* Puts the parts side by side, a node's inputs at a time, until one is left. */
static dpt_value join(dpti_importer *im, dpt_value *parts, size_t n, size_t axis)
{
    while (n > 1) {
        size_t joined = 0;
        for (size_t i = 0; i < n; i += DPTI_NODE_INPUTS) {
            const size_t k = n - i < DPTI_NODE_INPUTS ? n - i : DPTI_NODE_INPUTS;
            parts[joined++] = k > 1 ? dpti_concatenate(im->model, parts + i, k, axis) : parts[i];
        }
        n = joined;
    }
    return parts[0];
}

/* Replaces negative indices, which count from the end. */
static dpt_status make_positive(const dpti_importer *im, int64_t *items, size_t n, size_t extent)
{
    for (size_t i = 0; i < n; i++) {
        if (items[i] < 0) items[i] += (int64_t)extent;
        if (items[i] < 0 || (size_t)items[i] >= extent)
            return dpti_import_refuse(im, DPT_E_INVALID, "an index is outside the %zu elements",
                                      extent);
    }
    return DPT_OK;
}

dpt_status dpti_import_take_runs(dpti_importer *im, dpt_value *x, size_t axis, dpti_runs runs)
{
    if (runs.n == 0 || runs.n > DPTI_MOST_RUNS)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED,
                                  "its indices make %s; 1 to %d runs of indices can be trained",
                                  runs.n ? "too many runs" : "nothing", DPTI_MOST_RUNS);
    dpt_value *parts = malloc(runs.n * sizeof *parts);
    if (!parts) return dpti_import_refuse(im, DPT_E_NO_MEMORY, "no memory");
    for (size_t i = 0; i < runs.n; i++)
        parts[i] = take_run(im, *x, axis, runs.items[i]);
    *x = join(im, parts, runs.n, axis);
    free(parts);
    return dpti_import_check(im);
}

dpt_status dpti_import_take(dpti_importer *im, dpt_value *x, size_t axis, dpti_picks picks)
{
    DPT_TRY(make_positive(im, picks.items, picks.n, dpti_extents_of(im->model, *x).extent[axis]));
    const size_t most = picks.n < DPTI_MOST_RUNS ? picks.n : DPTI_MOST_RUNS;
    dpti_runs runs = {.items = malloc((most + 1) * sizeof *runs.items)};
    if (!runs.items) return dpti_import_refuse(im, DPT_E_NO_MEMORY, "no memory");
    for (size_t i = 0; i < picks.n && runs.n <= DPTI_MOST_RUNS; runs.n++) {
        runs.items[runs.n] = next_run(picks.items + i, picks.n - i);
        i += runs.items[runs.n].count;
    }
    const dpt_status status = dpti_import_take_runs(im, x, axis, runs);
    free(runs.items);
    return status;
}

/* The constant integers of input 1, to be freed. */
static dpt_status read_indices(const dpti_importer *im, dpti_picks *out)
{
    const dpti_onnx_fact *fact = dpti_import_fact(im, 1);
    if (!fact->cells)
        return dpti_import_refuse(im, DPT_E_UNSUPPORTED, "only constant indices can be trained");
    out->n = fact->n_cells;
    out->items = malloc((out->n + 1) * sizeof *out->items);
    if (!out->items) return dpti_import_refuse(im, DPT_E_NO_MEMORY, "no memory");
    for (size_t i = 0; i < out->n; i++)
        out->items[i] = fact->cells[i].fixed;
    return DPT_OK;
}

dpt_status dpti_import_pick(dpti_importer *im, dpt_value *x, size_t axis)
{
    dpti_picks picks;
    DPT_TRY(read_indices(im, &picks));
    const dpt_status status = dpti_import_take(im, x, axis, picks);
    free(picks.items);
    return status;
}

/* Rows of n indices become one index each, into the first n axes of x as one axis. */
static dpt_status merge_rows(const dpti_importer *im, const dpti_extents *x, size_t n,
                             dpti_picks *picks)
{
    const size_t rows = picks->n / n;
    for (size_t r = 0; r < rows; r++) {
        int64_t *row = picks->items + r * n, place = 0;
        for (size_t d = 0; d < n; d++) {
            DPT_TRY(make_positive(im, row + d, 1, x->extent[d]));
            place = place * (int64_t)x->extent[d] + row[d];
        }
        picks->items[r] = place;
    }
    picks->n = rows;
    return DPT_OK;
}

/* x with its first n axes as one. */
static dpt_value merge_axes(dpti_importer *im, dpt_value x, const dpti_extents *from, size_t n)
{
    dpti_extents merged = {.rank = from->rank - n + 1, .extent = {1}};
    for (size_t d = 0; d < from->rank; d++)
        if (d < n)
            merged.extent[0] *= from->extent[d];
        else
            merged.extent[d - n + 1] = from->extent[d];
    return n == 1 ? x : dpti_reshape(im->model, x, &merged);
}

static dpt_status import_gather_nd(dpti_importer *im)
{
    dpt_value x;
    dpti_picks picks;
    const dpti_onnx_shape *indices = &dpti_import_fact(im, 1)->shape;
    const size_t n = (size_t)indices->dims[indices->rank - 1].size;
    const size_t batch_dims = (size_t)dpti_onnx_int(im->node, "batch_dims", 0);
    bool done = false;
    if (n == 1 && batch_dims == 0) DPT_TRY(dpti_import_embedding(im, &done));
    if (done) return DPT_OK;
    if (batch_dims > 0 || !dpti_import_fact(im, 1)->cells)
        return dpti_import_gather_rows(im, batch_dims);
    const dpti_extents to = dpti_import_extents(dpti_import_result(im, 0));
    DPT_TRY(dpti_import_input(im, 0, &x));
    const dpti_extents from = dpti_extents_of(im->model, x);
    DPT_TRY(read_indices(im, &picks));
    dpt_status status = merge_rows(im, &from, n, &picks);
    x = merge_axes(im, x, &from, n);
    if (status == DPT_OK) status = dpti_import_check(im);
    if (status == DPT_OK) status = dpti_import_take(im, &x, 0, picks);
    free(picks.items);
    DPT_TRY(status);
    dpti_import_give(im, 0, dpti_reshape(im->model, x, &to));
    return DPT_OK;
}

const dpti_import_operator dpti_import_picks[] = {
    {"GatherND", import_gather_nd},
    {NULL, NULL},
};
