/* Products of two values that are computed: MATMUL. */
#include "graph/product.h"

#include "graph/tensor.h"

#include <stdlib.h>

/* ---- Shapes ---------------------------------------------------------------------------------- */

/* The axes in front of the matrices. */
static dpti_extents batch_of(dpti_extents e)
{
    e.rank -= 2;
    return e;
}

bool dpti_multiplies(const dpt_model *model, dpt_value a, dpt_value b)
{
    if (model->status != DPT_OK || !a.id || !b.id) return true; /* dpti_product does nothing */
    const dpti_extents x = dpti_extents_of(model, a), y = dpti_extents_of(model, b);
    return !dpti_node_at(model, a)->unsampled && !dpti_node_at(model, b)->unsampled &&
           x.rank >= 2 && y.rank >= 2 && x.rank <= DPT_MATMUL_AXES + 2 &&
           y.rank <= DPT_MATMUL_AXES + 2;
}

typedef struct axis {
    int32_t stride;
    size_t extent;
} axis;

static int by_stride(const void *a, const void *b)
{
    const axis *x = a, *y = b;
    return (x->stride > y->stride) - (x->stride < y->stride);
}

/* Whether MATMUL may write a matrix of this shape, as the gradient of the value is written: the
   rule is that of dpt_matmul_desc.y. */
static bool is_writable(const dpti_shape *s)
{
    axis axes[DPT_MAX_RANK];
    size_t n = 0;
    int64_t reach = 0;
    for (size_t i = 0; i < s->rank; i++)
        if (s->extent[i] > 1) axes[n++] = (axis){s->stride[i], s->extent[i]};
    qsort(axes, n, sizeof *axes, by_stride);
    for (size_t i = 0; i < n; i++) {
        if (axes[i].stride <= reach) return false;
        reach += (int64_t)(axes[i].extent - 1) * axes[i].stride;
    }
    return true;
}

/* x with this batch in front of its matrices; copied if its gradient could not be written then. */
static dpt_value with_batch(dpt_model *model, dpt_value x, const dpti_extents *batch)
{
    dpti_extents to = *batch;
    const dpti_extents from = dpti_extents_of(model, x);
    to.extent[to.rank++] = from.extent[from.rank - 2];
    to.extent[to.rank++] = from.extent[from.rank - 1];
    x = dpti_expand(model, x, &to);
    if (!x.id || is_writable(&dpti_node_at(model, x)->shape)) return x;
    return dpti_row_major(model, x);
}

/* ---- The layer ------------------------------------------------------------------------------- */

static size_t distance(const dpti_shape *s, size_t i)
{
    return s->extent[i] > 1 ? (size_t)s->stride[i] : 0;
}

/* A tensor of `size` elements, as MATMUL reads or writes it in this shape. */
static dpt_matmul_operand operand_of(const dpti_shape *s, size_t size, bool sampled)
{
    dpt_matmul_operand o = {.elements = size,
                            .offset = s->offset,
                            .row_stride = distance(s, s->rank - 2),
                            .column_stride = distance(s, s->rank - 1),
                            .per_sample = sampled};
    for (size_t i = 0; i + 2 < s->rank; i++)
        o.batch_stride[DPT_MATMUL_AXES + 2 - s->rank + i] = distance(s, i);
    return o;
}

dpt_value dpti_product(dpt_model *model, dpt_value a, dpt_value b)
{
    if (!dpti_make_plain(model, &a, "product") || !dpti_make_plain(model, &b, "product"))
        return (dpt_value){0};
    const dpti_extents left = dpti_extents_of(model, a), right = dpti_extents_of(model, b);
    const dpti_extents with = batch_of(left);
    dpti_extents to = batch_of(right);
    if (left.extent[left.rank - 1] != right.extent[right.rank - 2] ||
        !dpti_broadcast_extents(&with, &to))
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                               "layer product-%zu: its inputs are no matrices that can be "
                               "multiplied",
                               model->n_nodes);
    a = with_batch(model, a, &to);
    b = with_batch(model, b, &to);
    if (!a.id || !b.id) return (dpt_value){0};
    const dpti_node *x = dpti_node_at(model, a), *y = dpti_node_at(model, b);
    dpt_matmul_desc d = {.batch = {1, 1, 1},
                         .rows = left.extent[left.rank - 2],
                         .columns = right.extent[right.rank - 1],
                         .inner = left.extent[left.rank - 1],
                         .alpha = 1.0f,
                         .a = operand_of(&x->shape, x->size, true),
                         .b = operand_of(&y->shape, y->size, !y->unsampled)};
    for (size_t i = 0; i < to.rank; i++)
        d.batch[DPT_MATMUL_AXES - to.rank + i] = to.extent[i];
    to.extent[to.rank++] = d.rows;
    to.extent[to.rank++] = d.columns;
    const dpti_shape shape = dpti_shape_dense(&to);
    dpti_node node = dpti_node_over(DPTI_NODE_PRODUCT, NULL, a);
    node.inputs[1] = b.id - 1;
    node.n_inputs = 2;
    dpti_set_shape(&node, &shape);
    d.y = operand_of(&shape, node.extent.c, true);
    node.forward = (dpt_op_desc){.kind = DPT_OP_MATMUL, .u.matmul = d};
    return dpti_add_unnamed(model, "product", node);
}

/* ---- Gradients ------------------------------------------------------------------------------- */

static dpt_matmul_operand transposed(const dpt_matmul_operand *o)
{
    dpt_matmul_operand t = *o;
    t.row_stride = o->column_stride;
    t.column_stride = o->row_stride;
    return t;
}

dpt_matmul_desc dpti_product_gradient(const dpt_matmul_desc *forward, size_t input)
{
    dpt_matmul_desc d = *forward;
    if (input == 0) { /* dy times the transpose of b */
        d.columns = forward->inner;
        d.inner = forward->columns;
        d.a = forward->y;
        d.b = transposed(&forward->b);
        d.y = forward->a;
    } else { /* the transpose of a, times dy */
        d.rows = forward->inner;
        d.inner = forward->rows;
        d.a = transposed(&forward->a);
        d.b = forward->y;
        d.y = forward->b;
    }
    return d;
}

bool dpti_product_writes_all(const dpt_matmul_desc *d)
{
    return d->batch[0] * d->batch[1] * d->batch[2] * d->rows * d->columns == d->y.elements;
}
