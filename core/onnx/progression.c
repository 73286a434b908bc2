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

/* Puts progressions with a last axis of extent 1 side by side. */
static dpt_status join_columns(dpti_onnx_inference *in, dpti_onnx_fact *y, dpt_error *error)
{
    const size_t n = in->node->n_inputs, last = y->shape.rank - 1;
    if (y->shape.rank == 0 || y->shape.dims[last].batch || n > DPTI_ONNX_MAX_RANK ||
        y->shape.dims[last].size != (int64_t)n)
        return DPT_OK;
    dpti_onnx_progression found[DPTI_ONNX_MAX_RANK];
    for (size_t i = 0; i < n; i++) {
        const dpti_onnx_fact *x = dpti_onnx_input(in, i);
        if (!x || x->shape.rank != y->shape.rank || !is_one(x->shape.dims[last]) ||
            !read_input(in, i, &y->shape, &found[i]))
            return DPT_OK;
    }
    dpti_onnx_progression *kept = dpti_onnx_take(&in->graph->arena, n, sizeof *kept);
    if (!kept) return dpti_onnx_no_memory(error);
    memcpy(kept, found, n * sizeof *kept);
    y->columns = kept;
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
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++) {
        dpti_onnx_progression found;
        if (strcmp(rules[i].op, in->node->op) != 0 || !rules[i].rule(in, &y->shape, &found))
            continue;
        dpti_onnx_progression *kept = dpti_onnx_take(&in->graph->arena, 1, sizeof *kept);
        if (!kept) return dpti_onnx_no_memory(error);
        *kept = found;
        y->progression = kept;
    }
    return DPT_OK;
}

/* ---- Indices that count samples -------------------------------------------------------------- */

bool dpti_onnx_counts_samples(const dpti_onnx_graph *graph, const dpti_onnx_node *node)
{
    if (strcmp(node->op, "ScatterND") != 0) return false;
    const dpti_onnx_fact *x = &graph->facts[node->inputs[0]], *at = &graph->facts[node->inputs[1]];
    const size_t batch = dpti_onnx_batch_axis(&at->shape);
    if (!at->columns || batch + 1 >= at->shape.rank || at->shape.dims[batch].size != 1 ||
        x->shape.rank == 0 || !x->shape.dims[0].batch || x->shape.dims[0].size != 1 ||
        at->columns[0].offset != 0)
        return false;
    for (size_t d = 0; d + 1 < at->shape.rank; d++)
        if (at->columns[0].step[d] != (d == batch)) return false;
    for (size_t k = 1; k < (size_t)at->shape.dims[at->shape.rank - 1].size; k++)
        if (at->columns[k].step[batch] != 0) return false;
    return true;
}

int64_t dpti_onnx_counted_index(const dpti_onnx_fact *indices, size_t i)
{
    const size_t n = (size_t)indices->shape.dims[indices->shape.rank - 1].size;
    dpti_onnx_shape rows = indices->shape;
    rows.rank--;
    return element(&indices->columns[i % n], &rows, i / n);
}

/* ---- Views ----------------------------------------------------------------------------------- */

/* Whether indices name every element of a vector once, in order. */
static bool keeps_order(const dpti_onnx_fact *indices, dpti_onnx_dim vector)
{
    dpti_onnx_dim behind = {1, false};
    if (!indices->progression || indices->progression->offset != 0) return false;
    for (size_t d = indices->shape.rank; d-- > 0;) {
        const dpti_onnx_dim dim = indices->shape.dims[d];
        if (is_one(dim)) continue;
        if (behind.batch || indices->progression->step[d] != behind.size ||
            __builtin_mul_overflow(behind.size, dim.size, &behind.size))
            return false;
        behind.batch = dim.batch;
    }
    return behind.batch && dpti_onnx_same_dim(behind, vector);
}

dpt_status dpti_onnx_replace_view(dpti_onnx_graph *graph, const dpti_onnx_node **node,
                                  dpt_error *error)
{
    const dpti_onnx_inference in = {graph, *node};
    if (strcmp((*node)->op, "Gather") != 0) return DPT_OK;
    const dpti_onnx_fact *x = dpti_onnx_input(&in, 0), *indices = dpti_onnx_input(&in, 1);
    if (x->shape.rank != 1 || !keeps_order(indices, x->shape.dims[0])) return DPT_OK;
    dpti_onnx_node *reshape = dpti_onnx_take(&graph->arena, 1, sizeof *reshape);
    if (!reshape) return dpti_onnx_no_memory(error);
    *reshape = **node;
    reshape->op = "Reshape";
    reshape->n_inputs = 1;
    reshape->n_attributes = 0;
    *node = reshape;
    return DPT_OK;
}
