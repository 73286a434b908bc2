/* Element-wise layers and reductions: the operands as views that broadcast to each other. */
#include "export/state.h"

#include "graph/elementwise.h"
#include "graph/tensor.h"

#include <math.h>
#include <string.h>

enum { MOST_AXES = DPT_MAX_RANK };

/* The space of a program, whose axes the export may put into another order. */
typedef struct space {
    size_t rank, extent[MOST_AXES + 2];
    int32_t stride[DPT_MAX_INPUTS + 1][MOST_AXES + 2]; /* of the inputs, then of the output */
    size_t n_in;
    size_t n_axes_of_result; /* of the operators' result: fewer if all operands have fewer */
} space;

static space space_of(const dpt_map_desc *d)
{
    space s = {.rank = d->rank, .n_in = d->n_in};
    for (size_t a = 0; a < d->rank; a++) {
        s.extent[a] = d->extent[a];
        for (size_t i = 0; i <= d->n_in; i++)
            s.stride[i][a] = i < d->n_in ? d->in[i].stride[a] : d->out[0].stride[a];
    }
    return s;
}

/* Keeps these axes, in this order. */
static void choose_axes(space *s, const size_t *axes, size_t n)
{
    const space old = *s;
    s->rank = n;
    for (size_t a = 0; a < n; a++) {
        s->extent[a] = old.extent[axes[a]];
        for (size_t i = 0; i <= s->n_in; i++)
            s->stride[i][a] = old.stride[i][axes[a]];
    }
}

/* A layer of the public interface works on (height, width, channels) as they are in memory, and a
   flattened image is one axis there.  The draft holds (channels, height, width). */
static void order_as_image(space *s, const dpti_node *node)
{
    static const size_t of_image[] = {2, 0, 1}, of_vector[] = {2}, split[] = {4, 2, 3};
    const dpti_extent before = node->before_flatten;
    if (!node->order_differs) {
        const bool vector = node->shape.rank == 1;
        choose_axes(s, vector ? of_vector : of_image, vector ? 1 : 3);
        return;
    }
    /* (1, 1, h * w * c) as (1, 1, h, w, c) */
    s->rank = 5;
    s->extent[2] = before.h;
    s->extent[3] = before.w;
    s->extent[4] = before.c;
    for (size_t i = 0; i <= s->n_in; i++) {
        const int32_t stride = s->stride[i][2];
        s->stride[i][2] = stride * (int32_t)(before.w * before.c);
        s->stride[i][3] = stride * (int32_t)before.c;
        s->stride[i][4] = stride;
    }
    choose_axes(s, split, 3);
}

/* An operand as a view: an axis along which it is repeated has the extent 1. */
static dpti_shape operand_of(const space *s, const dpt_map_desc *d, size_t i)
{
    dpti_shape shape = {.rank = s->rank, .offset = d->in[i].offset};
    for (size_t a = 0; a < s->rank; a++) {
        bool is_repeated = s->stride[i][a] == 0, by_all = is_repeated;
        for (size_t k = 0; k < s->n_in; k++)
            by_all = by_all && s->stride[k][a] == 0;
        /* If all operands are repeated, the first one is written out. */
        if (by_all && i == 0) is_repeated = false;
        shape.extent[a] = is_repeated ? 1 : s->extent[a];
        shape.stride[a] = s->stride[i][a];
    }
    return shape;
}

static dpti_shape without_leading_ones(const dpti_shape *shape)
{
    dpti_shape s = *shape;
    while (s.rank > 0 && s.extent[0] == 1)
        s = dpti_export_drop(&s, 0);
    return s;
}

/* A value that all samples have in common, with at most so many axes.  Axes of one element may be
   missing in front of it. */
static const dpti_exported *find_common(dpti_exporter *e, size_t node, const dpti_shape *wanted,
                                        size_t most_axes)
{
    const dpti_shape bare = without_leading_ones(wanted);
    for (const dpti_exported *held = e->held[e->root[node]]; held; held = held->next) {
        const dpti_shape s = without_leading_ones(&held->shape);
        if (!held->batched && held->shape.rank <= most_axes && dpti_shape_same(&s, &bare))
            return held;
    }
    return dpti_export_reach(e, node, &bare);
}

/* Whether an operand is read as it is: ids that stay ids. */
static bool keeps_type(const dpti_node *node, const dpti_node *input)
{
    return node->integer && input->integer;
}

/* Input i of a node.  *rank becomes at least the number of its axes, without the batch. */
static dpti_draft_value *input_of(dpti_exporter *e, size_t node, space *s, size_t i)
{
    const dpti_node *n = &e->model->nodes[node];
    const dpti_node *input = &e->model->nodes[n->inputs[i]];
    const dpti_shape wanted = operand_of(s, &n->forward.u.map, i);
    const size_t most =
        wanted.rank + !dpti_export_is_common(e, node); /* the batch is an axis, too */
    const dpti_exported *found = dpti_export_is_common(e, n->inputs[i])
                                     ? find_common(e, n->inputs[i], &wanted, most)
                                     : dpti_export_reach(e, n->inputs[i], &wanted);
    if (!found) {
        if (e->draft->status == DPT_OK) e->draft->status = DPT_E_UNSUPPORTED;
        return &e->draft->spare_value;
    }
    if (found->shape.rank > s->n_axes_of_result) s->n_axes_of_result = found->shape.rank;
    const bool is_bool = found->value->type == DPTI_ONNX_BOOL;
    return keeps_type(n, input) || is_bool ? found->value
                                           : dpti_export_cast(e, found->value, DPTI_ONNX_FLOAT);
}

/* Axes that the program reduces. */
static dpti_draft_integers reduced_axes(const space *s, bool batched)
{
    dpti_draft_integers axes = {.n = 0};
    for (size_t a = 0; a < s->rank; a++)
        if (s->extent[a] > 1 && s->stride[s->n_in][a] == 0)
            axes.items[axes.n++] = (int64_t)(a + batched);
    return axes;
}

static size_t count_elements(const space *s, const dpti_draft_integers *axes, bool batched)
{
    size_t n = 1;
    for (size_t i = 0; i < axes->n; i++)
        n *= s->extent[(size_t)axes->items[i] - batched];
    return n;
}

/* Whether the program is a * (1 / n). */
static bool divides_by(const dpt_map_desc *d, size_t n)
{
    if (d->n_in != 1 || d->n_code != 3 || d->code[2].code != DPT_MAP_MULTIPLY) return false;
    for (size_t i = 0; i < 2; i++)
        if (d->code[i].code == DPT_MAP_CONSTANT && d->code[1 - i].code == DPT_MAP_LOAD)
            return fabsf(d->code[i].constant * (float)n - 1) < 1e-6f;
    return false;
}

/* Runs the program and reduces its value. */
static dpti_draft_value *compute(dpti_exporter *e, size_t node, const space *s,
                                 dpti_draft_value *const *inputs)
{
    static const char *const names[] = {[DPT_REDUCE_SUM] = "ReduceSum",
                                        [DPT_REDUCE_PRODUCT] = "ReduceProd",
                                        [DPT_REDUCE_MAXIMUM] = "ReduceMax",
                                        [DPT_REDUCE_MINIMUM] = "ReduceMin"};
    const dpt_map_desc *d = &e->model->nodes[node].forward.u.map;
    const dpti_export_program program = {.map = d, .inputs = inputs};
    const bool batched = !dpti_export_is_common(e, node);
    dpti_draft_integers axes = reduced_axes(s, batched);
    if (axes.n == 0) return dpti_export_run(e, &program);
    if (s->n_axes_of_result < s->rank) /* without a batch, leading axes may be left out */
        for (size_t i = 0; i < axes.n; i++)
            axes.items[i] -= (int64_t)(s->rank - s->n_axes_of_result);
    if (d->reduction == DPT_REDUCE_SUM && divides_by(d, count_elements(s, &axes, batched)))
        return dpti_export_reduce(e, "ReduceMean", dpti_export_cast(e, inputs[0], DPTI_ONNX_FLOAT),
                                  &axes);
    dpti_draft_value *x = dpti_export_run(e, &program);
    return dpti_export_reduce(e, names[d->reduction], dpti_export_cast(e, x, DPTI_ONNX_FLOAT),
                              &axes);
}

/* ---- Sums of products ------------------------------------------------------------------------ */

/* Whether the program sums the products of two matrices that are broadcast: (..., m, 1, k) times
   (..., 1, n, k), as the import writes a product with a factor that is the same for all samples. */
static bool is_product(const dpti_node *node, const space *s)
{
    const dpt_map_desc *d = &node->forward.u.map;
    const size_t r = s->rank;
    if (node->forward.kind != DPT_OP_MAP_REDUCE || d->reduction != DPT_REDUCE_SUM || r < 3 ||
        d->n_in != 2 || d->n_code != 3 || d->code[0].code != DPT_MAP_LOAD ||
        d->code[1].code != DPT_MAP_LOAD || d->code[2].code != DPT_MAP_MULTIPLY ||
        d->code[0].index == d->code[1].index)
        return false;
    for (size_t a = 0; a < r; a++)
        if ((s->stride[2][a] == 0) != (a == r - 1) && s->extent[a] > 1) return false;
    return s->stride[0][r - 2] == 0 && s->stride[1][r - 3] == 0 && s->extent[r - 1] > 1;
}

/* One factor: without the axis along which it is repeated. */
static dpti_draft_value *factor(dpti_exporter *e, size_t node, const space *s, size_t i)
{
    const dpti_node *n = &e->model->nodes[node];
    const size_t input = n->inputs[i], r = s->rank;
    dpti_shape shape = operand_of(s, &n->forward.u.map, i);
    shape = dpti_export_drop(&shape, i == 0 ? r - 2 : r - 3);
    if (i == 1) { /* (n, k) becomes (k, n) */
        const size_t extent = shape.extent[r - 3];
        const int32_t stride = shape.stride[r - 3];
        shape.extent[r - 3] = shape.extent[r - 2];
        shape.stride[r - 3] = shape.stride[r - 2];
        shape.extent[r - 2] = extent;
        shape.stride[r - 2] = stride;
    }
    while (e->model->nodes[input].unsampled && shape.rank > 2 && shape.extent[0] == 1)
        shape = dpti_export_drop(&shape, 0);
    const dpti_exported *found = dpti_export_reach(e, input, &shape);
    if (found) return dpti_export_cast(e, found->value, DPTI_ONNX_FLOAT);
    if (e->draft->status == DPT_OK) e->draft->status = DPT_E_UNSUPPORTED;
    return &e->draft->spare_value;
}

static dpti_draft_value *multiply(dpti_exporter *e, size_t node, const space *s)
{
    dpti_draft_value *a = factor(e, node, s, 0), *b = factor(e, node, s, 1);
    return dpti_draft_binary(e->draft, "MatMul", a, b);
}

/* ---- The layer ------------------------------------------------------------------------------- */

/* The shape of the result over the node's memory. */
static dpti_shape result_of(const space *s)
{
    dpti_shape shape = {.rank = s->rank};
    for (size_t a = 0; a < s->rank; a++) {
        shape.stride[a] = s->stride[s->n_in][a];
        shape.extent[a] = shape.stride[a] == 0 ? 1 : s->extent[a];
    }
    return shape;
}

/* The axis of the space that is only the batch; the rank if there is none. */
static size_t spare_axis(const space *s)
{
    for (size_t a = 0; a + 1 < s->rank; a++)
        if (s->extent[a] == 1) return a;
    return s->rank;
}

/* Takes the axis of the batch out of the space. */
static void drop_batch(space *s)
{
    size_t axes[MOST_AXES + 2], n = 0;
    const size_t spare = spare_axis(s);
    for (size_t a = 0; a < s->rank; a++)
        if (a != spare) axes[n++] = a;
    choose_axes(s, axes, n);
}

dpt_status dpti_export_elementwise(dpti_exporter *e, size_t node)
{
    const dpti_node *n = &e->model->nodes[node];
    const bool common = dpti_export_is_common(e, node);
    dpti_draft_value *inputs[DPT_MAX_INPUTS], *y;
    space s = space_of(&n->forward.u.map);
    if (!n->has_shape)
        order_as_image(&s, n);
    else if (!common)
        drop_batch(&s);
    dpti_shape shape = result_of(&s);
    if (is_product(n, &s) && !common) {
        y = multiply(e, node, &s);
        shape = dpti_export_drop(&shape, s.rank - 1);
    } else {
        for (size_t i = 0; i < s.n_in; i++)
            inputs[i] = input_of(e, node, &s, i);
        if (!common) s.n_axes_of_result = s.rank;
        y = compute(e, node, &s, inputs);
        while (shape.rank > s.n_axes_of_result)
            shape = dpti_export_drop(&shape, 0);
    }
    dpti_export_hold(e, node, y, &shape);
    return DPT_OK;
}
