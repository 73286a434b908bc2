/* Indices that are computed from the numbers 0 to N, as exporters write a view of a tensor. */
#include "onnx/infer_state.h"

#include <string.h>

static bool is_one(dpti_onnx_dim dim)
{
    return !dim.batch && dim.size == 1;
}

/* ---- Known elements -------------------------------------------------------------------------- */

/* Element i of a progression over a shape without N, or 0 on overflow. */
static int64_t element(const dpti_onnx_progression *p, const dpti_onnx_shape *shape, size_t i)
{
    int64_t out = p->offset, part;
    for (size_t d = shape->rank; d-- > 0;) {
        const size_t extent = (size_t)shape->dims[d].size;
        if (__builtin_mul_overflow(p->step[d], (int64_t)(i % extent), &part) ||
            __builtin_add_overflow(out, part, &out))
            return 0;
        i /= extent;
    }
    return out;
}

/* The progression that known elements are; false if they are none. */
static bool of_cells(const dpti_onnx_fact *x, dpti_onnx_progression *out)
{
    size_t behind = 1;
    if (x->n_cells == 0) return false;
    *out = (dpti_onnx_progression){.offset = x->cells[0].fixed};
    for (size_t d = x->shape.rank; d-- > 0;) {
        if (x->shape.dims[d].size > 1 &&
            __builtin_sub_overflow(x->cells[behind].fixed, out->offset, &out->step[d]))
            return false;
        behind *= (size_t)x->shape.dims[d].size;
    }
    for (size_t i = 0; i < x->n_cells; i++)
        if (x->cells[i].times || x->cells[i].fixed != element(out, &x->shape, i)) return false;
    return true;
}

/* ---- Rules ----------------------------------------------------------------------------------- */

/* Input i as a progression over the shape of the result, to which it is broadcast. */
static bool read_input(const dpti_onnx_inference *in, size_t i, const dpti_onnx_shape *to,
                       dpti_onnx_progression *out)
{
    const dpti_onnx_fact *x = dpti_onnx_input(in, i);
    dpti_onnx_progression own;
    if (!x || x->shape.rank > to->rank) return false;
    if (x->progression)
        own = *x->progression;
    else if (!x->cells || dpti_onnx_type_is_real(x->type) || !of_cells(x, &own))
        return false;
    *out = (dpti_onnx_progression){.offset = own.offset};
    for (size_t d = 0; d < x->shape.rank; d++)
        if (!is_one(x->shape.dims[d])) out->step[to->rank - x->shape.rank + d] = own.step[d];
    return true;
}

static bool add(const dpti_onnx_inference *in, const dpti_onnx_shape *to,
                dpti_onnx_progression *out)
{
    dpti_onnx_progression b;
    if (in->node->n_inputs != 2 || !read_input(in, 0, to, out) || !read_input(in, 1, to, &b) ||
        __builtin_add_overflow(out->offset, b.offset, &out->offset))
        return false;
    for (size_t d = 0; d < to->rank; d++)
        if (__builtin_add_overflow(out->step[d], b.step[d], &out->step[d])) return false;
    return true;
}

static bool is_constant(const dpti_onnx_progression *p)
{
    for (size_t d = 0; d < DPTI_ONNX_MAX_RANK; d++)
        if (p->step[d]) return false;
    return true;
}

static bool multiply(const dpti_onnx_inference *in, const dpti_onnx_shape *to,
                     dpti_onnx_progression *out)
{
    dpti_onnx_progression a, b;
    if (!read_input(in, 0, to, &a) || !read_input(in, 1, to, &b)) return false;
    const bool first = is_constant(&a);
    if (!first && !is_constant(&b)) return false;
    const int64_t factor = first ? a.offset : b.offset;
    *out = first ? b : a;
    if (__builtin_mul_overflow(out->offset, factor, &out->offset)) return false;
    for (size_t d = 0; d < to->rank; d++)
        if (__builtin_mul_overflow(out->step[d], factor, &out->step[d])) return false;
    return true;
}

/* The same extents, but for those that are 1. */
static bool keep(const dpti_onnx_inference *in, const dpti_onnx_shape *to,
                 dpti_onnx_progression *out)
{
    const dpti_onnx_fact *x = dpti_onnx_input(in, 0);
    size_t d = 0;
    if (!x || !x->progression) return false;
    *out = (dpti_onnx_progression){.offset = x->progression->offset};
    for (size_t i = 0; i < x->shape.rank; i++) {
        if (is_one(x->shape.dims[i])) continue;
        while (d < to->rank && is_one(to->dims[d]))
            d++;
        if (d == to->rank || !dpti_onnx_same_dim(x->shape.dims[i], to->dims[d])) return false;
        out->step[d++] = x->progression->step[i];
    }
    while (d < to->rank && is_one(to->dims[d]))
        d++;
    return d == to->rank;
}

static bool expand(const dpti_onnx_inference *in, const dpti_onnx_shape *to,
                   dpti_onnx_progression *out)
{
    return read_input(in, 0, to, out);
}

/* The numbers 0, 1, ... */
static bool count(const dpti_onnx_inference *in, const dpti_onnx_shape *to,
                  dpti_onnx_progression *out)
{
    (void)in;
    *out = (dpti_onnx_progression){.step = {1}};
    return to->dims[0].batch;
}

/* Puts progressions with a last axis of extent 1 side by side.  Others are unknown columns. */
static dpt_status join_columns(dpti_onnx_inference *in, dpti_onnx_fact *y, dpt_error *error)
{
    const size_t n = in->node->n_inputs, last = y->shape.rank - 1;
    if (y->shape.rank == 0 || y->shape.dims[last].batch || n > DPTI_ONNX_MAX_RANK ||
        y->shape.dims[last].size != (int64_t)n)
        return DPT_OK;
    dpti_onnx_progression found[DPTI_ONNX_MAX_RANK] = {{0}};
    size_t n_known = 0;
    for (size_t i = 0; i < n; i++) {
        const dpti_onnx_fact *x = dpti_onnx_input(in, i);
        if (!x || x->shape.rank != y->shape.rank || !is_one(x->shape.dims[last])) return DPT_OK;
        found[i].unknown = !read_input(in, i, &y->shape, &found[i]);
        if (found[i].unknown && dpti_onnx_is_counting(x)) return DPT_OK;
        n_known += !found[i].unknown;
    }
    if (n_known == 0) return DPT_OK;
    dpti_onnx_progression *kept = dpti_onnx_take(&in->graph->arena, n, sizeof *kept);
    if (!kept) return dpti_onnx_no_memory(error);
    memcpy(kept, found, n * sizeof *kept);
    y->columns = kept;
    return DPT_OK;
}

/* Places on an axis, and what only has other extents. */
static int64_t find_bound(const dpti_onnx_inference *in)
{
    static const char *const same[] = {"Cast",    "Expand",  "Flatten",  "Identity",
                                       "Reshape", "Squeeze", "Unsqueeze"};
    const char *op = in->node->op;
    const dpti_onnx_fact *x = dpti_onnx_input(in, 0);
    if (!x) return 0;
    if (strcmp(op, "ArgMax") == 0 || strcmp(op, "ArgMin") == 0) {
        const size_t axis = dpti_onnx_axis(dpti_onnx_int(in->node, "axis", 0), x->shape.rank);
        return axis == x->shape.rank || x->shape.dims[axis].batch ? 0 : x->shape.dims[axis].size;
    }
    for (size_t i = 0; i < sizeof same / sizeof *same; i++)
        if (strcmp(same[i], op) == 0 && !x->shifted) return x->bound;
    return 0;
}

/* A progression that counts samples, and bounded numbers that are not known. */
static dpt_status shift(const dpti_onnx_inference *in, dpti_onnx_fact *y, dpt_error *error)
{
    if (strcmp(in->node->op, "Add") != 0 || in->node->n_inputs != 2) return DPT_OK;
    for (size_t i = 0; i < 2; i++) {
        const dpti_onnx_fact *x = dpti_onnx_input(in, i), *by = dpti_onnx_input(in, 1 - i);
        dpti_onnx_progression found;
        if (!x->progression || by->shifted || by->bound == 0 ||
            !read_input(in, i, &y->shape, &found))
            continue;
        dpti_onnx_progression *kept = dpti_onnx_take(&in->graph->arena, 1, sizeof *kept);
        if (!kept) return dpti_onnx_no_memory(error);
        *kept = found;
        y->shifted = kept;
        y->bound = by->bound;
    }
    return DPT_OK;
}

dpt_status dpti_onnx_progress(dpti_onnx_inference *in, dpt_error *error)
{
    static const struct {
        const char *op;
        bool (*rule)(const dpti_onnx_inference *in, const dpti_onnx_shape *to,
                     dpti_onnx_progression *out);
    } rules[] = {{"Add", add},       {"Cast", keep},     {"CastLike", keep}, {"Expand", expand},
                 {"Identity", keep}, {"Mul", multiply},  {"Range", count},   {"Reshape", keep},
                 {"Squeeze", keep},  {"Unsqueeze", keep}};
    if (in->node->outputs[0] == DPTI_ONNX_NONE) return DPT_OK;
    dpti_onnx_fact *y = &in->graph->facts[in->node->outputs[0]];
    if (y->cells || (y->type != DPTI_ONNX_INT64 && y->type != DPTI_ONNX_INT32)) return DPT_OK;
    if (strcmp(in->node->op, "Concat") == 0) return join_columns(in, y, error);
    y->bound = find_bound(in);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        dpti_onnx_progression found;
        if (strcmp(rules[i].op, in->node->op) != 0 || !rules[i].rule(in, &y->shape, &found))
            continue;
        dpti_onnx_progression *kept = dpti_onnx_take(&in->graph->arena, 1, sizeof *kept);
        if (!kept) return dpti_onnx_no_memory(error);
        *kept = found;
        y->progression = kept;
    }
    return y->progression ? DPT_OK : shift(in, y, error);
}

/* ---- Indices that count samples -------------------------------------------------------------- */

bool dpti_onnx_is_counting(const dpti_onnx_fact *fact)
{
    const size_t batch = dpti_onnx_batch_axis(&fact->shape), last = fact->shape.rank - 1;
    if (batch == fact->shape.rank) return false;
    if (fact->progression) return fact->progression->step[batch] != 0;
    if (fact->shifted) return fact->shifted->step[batch] != 0;
    for (size_t k = 0; fact->columns && k < (size_t)fact->shape.dims[last].size; k++)
        if (fact->columns[k].step[batch] != 0) return true;
    return false;
}

int64_t dpti_onnx_element(const dpti_onnx_fact *fact, size_t i)
{
    return element(fact->progression, &fact->shape, i);
}

bool dpti_onnx_counts_samples(const dpti_onnx_graph *graph, const dpti_onnx_node *node)
{
    const bool reads = strcmp(node->op, "GatherND") == 0;
    if (!reads && strcmp(node->op, "ScatterND") != 0) return false;
    if (reads && dpti_onnx_int(node, "batch_dims", 0) != 0) return false;
    const dpti_onnx_fact *x = &graph->facts[node->inputs[0]], *at = &graph->facts[node->inputs[1]];
    const size_t batch = dpti_onnx_batch_axis(&at->shape);
    if (!at->columns || batch + 1 >= at->shape.rank || at->shape.dims[batch].size != 1 ||
        x->shape.rank == 0 || !x->shape.dims[0].batch || x->shape.dims[0].size != 1 ||
        at->columns[0].offset != 0 || at->columns[0].unknown)
        return false;
    for (size_t d = 0; d + 1 < at->shape.rank; d++)
        if (at->columns[0].step[d] != (d == batch)) return false;
    for (size_t k = 1; k < (size_t)at->shape.dims[at->shape.rank - 1].size; k++)
        if (at->columns[k].step[batch] != 0 || (at->columns[k].unknown && !reads)) return false;
    return true;
}

bool dpti_onnx_reads_own(const dpti_onnx_graph *graph, const dpti_onnx_node *node)
{
    if (strcmp(node->op, "Gather") != 0) return false;
    const dpti_onnx_fact *x = &graph->facts[node->inputs[0]], *at = &graph->facts[node->inputs[1]];
    const size_t batch = dpti_onnx_batch_axis(&at->shape);
    if (!at->shifted || x->shape.rank == 0 || batch == at->shape.rank || !x->shape.dims[0].batch ||
        dpti_onnx_axis(dpti_onnx_int(node, "axis", 0), x->shape.rank) != 0 ||
        at->shape.dims[batch].size != 1 || at->shifted->step[batch] != x->shape.dims[0].size ||
        at->shifted->offset < 0)
        return false;
    int64_t end = at->shifted->offset, part; /* behind the last element that the indices can name */
    if (__builtin_add_overflow(end, at->bound, &end)) return false;
    for (size_t d = 0; d < at->shape.rank; d++) {
        if (d == batch) continue;
        if (at->shifted->step[d] < 0 ||
            __builtin_mul_overflow(at->shifted->step[d], at->shape.dims[d].size - 1, &part) ||
            __builtin_add_overflow(end, part, &end))
            return false;
    }
    return end <= x->shape.dims[0].size;
}

int64_t dpti_onnx_counted_index(const dpti_onnx_fact *indices, size_t i)
{
    const size_t n = (size_t)indices->shape.dims[indices->shape.rank - 1].size;
    dpti_onnx_shape rows = indices->shape;
    rows.rank--;
    return element(&indices->columns[i % n], &rows, i / n);
}

/* ---- Views ----------------------------------------------------------------------------------- */

/* Whether indices with these axes name every element of a vector once, in order. */
static bool keeps_order(const dpti_onnx_progression *indices, const dpti_onnx_shape *shape,
                        dpti_onnx_dim vector)
{
    dpti_onnx_dim behind = {1, false};
    if (indices->offset != 0) return false;
    for (size_t d = shape->rank; d-- > 0;) {
        const dpti_onnx_dim dim = shape->dims[d];
        if (is_one(dim)) continue;
        if (behind.batch || indices->step[d] != behind.size ||
            __builtin_mul_overflow(behind.size, dim.size, &behind.size))
            return false;
        behind.batch = dim.batch;
    }
    return behind.batch && dpti_onnx_same_dim(behind, vector);
}

/* *to = *to + times * from.  Returns false on overflow. */
static bool add_times(const dpti_onnx_progression *from, int64_t times, dpti_onnx_progression *to)
{
    int64_t part;
    if (__builtin_mul_overflow(from->offset, times, &part) ||
        __builtin_add_overflow(to->offset, part, &to->offset))
        return false;
    for (size_t d = 0; d < DPTI_ONNX_MAX_RANK; d++)
        if (__builtin_mul_overflow(from->step[d], times, &part) ||
            __builtin_add_overflow(to->step[d], part, &to->step[d]))
            return false;
    return true;
}

/* Whether rows of indices name every part of x once, in order: the rows as places in the vector of
   all parts. */
static bool rows_keep_order(const dpti_onnx_fact *x, const dpti_onnx_fact *indices)
{
    dpti_onnx_shape rows = indices->shape;
    const size_t n = (size_t)rows.dims[--rows.rank].size;
    dpti_onnx_progression places = {.offset = 0};
    dpti_onnx_dim parts = {1, false};
    if (!indices->columns || n < 1 || n > x->shape.rank) return false;
    for (size_t k = n; k-- > 0;) {
        const dpti_onnx_dim dim = x->shape.dims[k];
        if (indices->columns[k].unknown || parts.batch ||
            !add_times(&indices->columns[k], parts.size, &places) ||
            __builtin_mul_overflow(parts.size, dim.size, &parts.size))
            return false;
        parts.batch = dim.batch;
    }
    return keeps_order(&places, &rows, parts);
}

/* Whether a Gather or a GatherND gives all elements of its input in their order. */
static bool is_view(const dpti_onnx_inference *in)
{
    const dpti_onnx_fact *x = dpti_onnx_input(in, 0), *indices = dpti_onnx_input(in, 1);
    if (strcmp(in->node->op, "GatherND") == 0)
        return dpti_onnx_int(in->node, "batch_dims", 0) == 0 && rows_keep_order(x, indices);
    if (strcmp(in->node->op, "Gather") != 0 || x->shape.rank < 1 || !indices->progression)
        return false;
    return dpti_onnx_axis(dpti_onnx_int(in->node, "axis", 0), x->shape.rank) == 0 &&
           keeps_order(indices->progression, &indices->shape, x->shape.dims[0]);
}

dpt_status dpti_onnx_replace_view(dpti_onnx_graph *graph, const dpti_onnx_node **node,
                                  dpt_error *error)
{
    const dpti_onnx_inference in = {graph, *node};
    if (!is_view(&in)) return DPT_OK;
    dpti_onnx_node *reshape = dpti_onnx_take(&graph->arena, 1, sizeof *reshape);
    if (!reshape) return dpti_onnx_no_memory(error);
    *reshape = **node;
    reshape->op = "Reshape";
    reshape->n_inputs = 1;
    reshape->n_attributes = 0;
    *node = reshape;
    return DPT_OK;
}
