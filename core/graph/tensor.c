/* Values of any rank: leaves, views, copies. */
#include "graph/tensor.h"

#include "base/size.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

void dpti_set_shape(dpti_node *node, const dpti_shape *shape)
{
    node->shape = *shape;
    node->has_shape = true;
    node->extent = (dpti_extent){.h = 1, .w = 1, .c = dpti_shape_count(shape), .flat = true};
    node->before_flatten = node->extent;
}

void dpti_keep_shape(dpti_node *node, const dpti_node *input)
{
    node->extent = input->extent;
    node->before_flatten = input->before_flatten;
    node->shape = input->shape;
    node->has_shape = input->has_shape;
    node->unsampled = input->unsampled;
}

/* The number of elements of these extents.  false after a failure: an axis is empty, or they are
   more than a value may have. */
static bool count_elements(dpt_model *model, const dpti_extents *e, const char *what, size_t *n)
{
    *n = 1;
    for (size_t i = 0; i < e->rank; i++)
        if (e->extent[i] < 1 || !dpti_multiply(*n, e->extent[i], n) || *n > DPTI_MAX_EXTENT) {
            (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                                  "layer %s-%zu: its output is empty or has more than the %d "
                                  "elements that a value may have for a sample",
                                  what, model->n_nodes, DPTI_MAX_EXTENT);
            return false;
        }
    return true;
}

dpti_extents dpti_extents_of(const dpt_model *model, dpt_value x)
{
    const dpti_node *node = dpti_node_at(model, x);
    if (!node->order_differs) return dpti_shape_extents(&node->shape);
    return (dpti_extents){.rank = 1, .extent = {node->elements}};
}

/* ---- Leaves ---------------------------------------------------------------------------------- */

static bool has_parameter(const dpt_model *model, const char *name)
{
    return dpti_model_parameter(model, name) != NULL;
}

size_t dpti_build_named(dpt_model *model, const char *name, dpti_parameter parameter)
{
    if (model->status != DPT_OK) return SIZE_MAX;
    const float *initial = parameter.initial;
    dpti_kept_file *file = parameter.stored.file;
    parameter.initial = NULL;
    parameter.stored.file = NULL;
    if (has_parameter(model, name)) {
        (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID, "model %s: two parameters are called %s",
                              model->name, name);
        return SIZE_MAX;
    }
    const size_t at = dpti_append_parameter(model, dpti_strdup(name), name, parameter);
    if (at == SIZE_MAX) return at;
    dpti_parameter *p = &model->parameters[at];
    p->stored.file = dpti_kept_file_share(file);
    if (!initial) return at;
    p->initial = malloc(p->size * sizeof *initial);
    if (!p->initial) {
        (void)DPTI_MODEL_FAIL(model, DPT_E_NO_MEMORY, "no memory for model %s", model->name);
        return SIZE_MAX;
    }
    memcpy(p->initial, initial, p->size * sizeof *initial);
    return at;
}

static dpti_node leaf(dpti_node_kind kind, const dpti_extents *extents)
{
    dpti_node node = {.kind = kind,
                      .unsampled = true,
                      .weight = SIZE_MAX,
                      .bias = SIZE_MAX,
                      .mean = SIZE_MAX,
                      .variance = SIZE_MAX};
    const dpti_shape shape = dpti_shape_dense(extents);
    dpti_set_shape(&node, &shape);
    return node;
}

/* Whether a parameter lies in the flat buffer as in the checkpoint. */
static bool is_plain(const dpti_parameter *p)
{
    return p->layout == DPTI_LAYOUT_PLAIN || p->h * p->w == 1;
}

dpt_value dpti_read_parameter(dpt_model *model, size_t parameter)
{
    size_t n;
    if (model->status != DPT_OK || parameter == SIZE_MAX) return (dpt_value){0};
    const dpti_parameter *p = &model->parameters[parameter];
    dpti_extents extents = {.rank = p->rank}, memory;
    for (size_t i = 0; i < p->rank; i++)
        extents.extent[i] = p->shape[i];
    if (!count_elements(model, &extents, "parameter", &n)) return (dpt_value){0};
    const bool plain = is_plain(p);
    memory =
        plain ? extents
              : (dpti_extents){.rank = 4, .extent = {n / (p->h * p->w * p->c), p->h, p->w, p->c}};
    dpti_node node = leaf(DPTI_NODE_PARAMETER, &memory);
    node.weight = parameter;
    const dpt_value value = dpti_add_unnamed(model, "parameter", node);
    if (plain) return value;
    return dpti_reshape(
        model, dpti_transpose(model, value, (const size_t[DPT_MAX_RANK]){0, 3, 1, 2}), &extents);
}

/* Makes room for n elements.  Returns false without memory. */
static bool grow_constants(dpt_model *model, size_t n)
{
    const size_t wanted = model->n_constants + dpti_round_up(n, DPTI_PARAMETER_ALIGNMENT);
    if (wanted > model->constants_capacity) {
        const size_t capacity = 2 * wanted;
        float *grown = realloc(model->constants, capacity * sizeof *grown);
        if (!grown) return false;
        model->constants = grown;
        model->constants_capacity = capacity;
    }
    memset(model->constants + model->n_constants, 0,
           (wanted - model->n_constants) * sizeof *model->constants);
    return true;
}

float *dpti_add_numbers(dpt_model *model, size_t n, size_t *place)
{
    if (!grow_constants(model, n)) {
        (void)DPTI_MODEL_FAIL(model, DPT_E_NO_MEMORY, "no memory for model %s", model->name);
        return NULL;
    }
    *place = model->n_constants;
    model->n_constants += dpti_round_up(n, DPTI_PARAMETER_ALIGNMENT);
    return model->constants + *place;
}

dpt_value dpti_add_constant(dpt_model *model, const dpti_extents *extents, const float *data)
{
    size_t n;
    if (model->status != DPT_OK || !count_elements(model, extents, "constant", &n))
        return (dpt_value){0};
    dpti_node node = leaf(DPTI_NODE_CONSTANT, extents);
    float *numbers = dpti_add_numbers(model, n, &node.constant);
    if (!numbers) return (dpt_value){0};
    memcpy(numbers, data, n * sizeof *data);
    return dpti_add_unnamed(model, "constant", node);
}

/* ---- Views and copies ------------------------------------------------------------------------ */

dpt_value dpti_view(dpt_model *model, dpt_value x, const dpti_shape *shape)
{
    size_t n;
    const dpti_extents extents = dpti_shape_extents(shape);
    if (!dpti_usable(model, x, "view") || !count_elements(model, &extents, "view", &n))
        return (dpt_value){0};
    dpti_node node = dpti_node_over(DPTI_NODE_VIEW, NULL, x);
    dpti_set_shape(&node, shape);
    node.size = dpti_node_at(model, x)->size;
    node.unsampled = dpti_node_at(model, x)->unsampled;
    return dpti_add_unnamed(model, "view", node);
}

dpt_map_operand dpti_operand(const dpti_node *node, const dpti_shape *shape)
{
    dpt_map_operand o = {.sampled = !node->unsampled,
                         .size = node->size ? node->size : node->extent.c,
                         .offset = shape->offset,
                         .type = node->integer ? DPT_I32 : DPT_F32};
    for (size_t i = 0; i < shape->rank; i++)
        o.stride[i] = shape->extent[i] > 1 ? shape->stride[i] : 0;
    return o;
}

/* A copy of x into a new tensor of the shape `to`, which has the extents of `from`, a shape over
   x's memory. */
static dpt_value copy(dpt_model *model, dpt_value x, const dpti_shape *from, const dpti_shape *to)
{
    const dpti_node *input = dpti_node_at(model, x);
    dpti_node node = dpti_node_over(DPTI_NODE_ELEMENTWISE, NULL, x);
    dpti_set_shape(&node, to);
    node.unsampled = input->unsampled;
    node.integer = input->integer;
    dpt_map_desc *d = &node.forward.u.map;
    node.forward.kind = DPT_OP_MAP;
    *d = (dpt_map_desc){.rank = from->rank, .n_in = 1, .n_out = 1, .n_code = 1};
    memcpy(d->extent, from->extent, sizeof d->extent);
    d->in[0] = dpti_operand(input, from);
    d->out[0] = dpti_operand(&node, to);
    return dpti_add_unnamed(model, "copy", node);
}

dpt_value dpti_own_tensor(dpt_model *model, dpt_value x)
{
    if (!dpti_usable(model, x, "copy")) return (dpt_value){0};
    const dpti_node *node = dpti_node_at(model, x);
    if (node->order_differs) return dpti_row_major(model, x);
    if (dpti_shape_covers(&node->shape, node->size)) return x;
    const dpti_extents extents = dpti_shape_extents(&node->shape);
    const dpti_shape from = node->shape, to = dpti_shape_like(&extents, &from);
    return copy(model, x, &from, &to);
}

dpt_value dpti_for_each_sample(dpt_model *model, dpt_value x)
{
    if (!dpti_usable(model, x, "copy") || !dpti_node_at(model, x)->unsampled) return x;
    const dpti_shape from = dpti_node_at(model, x)->shape;
    const dpti_extents extents = dpti_shape_extents(&from);
    const dpti_shape to = dpti_shape_dense(&extents);
    x = copy(model, x, &from, &to);
    if (!x.id) return x;
    dpti_node *node = &model->nodes[x.id - 1];
    node->unsampled = false;
    node->forward.u.map.out[0].sampled = true;
    return x;
}

dpt_value dpti_row_major(dpt_model *model, dpt_value x)
{
    if (!dpti_usable(model, x, "copy")) return (dpt_value){0};
    const dpti_node *node = dpti_node_at(model, x);
    const dpti_shape from = node->shape;
    if (!node->order_differs && dpti_shape_is_dense(&from) && dpti_shape_covers(&from, node->size))
        return x;
    const dpti_extents extents = dpti_shape_extents(&from), wanted = dpti_extents_of(model, x);
    dpti_shape to = dpti_shape_dense(&extents);
    const dpt_value y = copy(model, x, &from, &to);
    return from.rank == wanted.rank || !y.id ? y : dpti_reshape(model, y, &wanted);
}

dpt_value dpti_as_image(dpt_model *model, dpt_value x)
{
    x = dpti_for_each_sample(model, x);
    if (!dpti_usable(model, x, "image")) return (dpt_value){0};
    const dpti_node *node = dpti_node_at(model, x);
    if (!node->extent.flat) return x;
    const dpti_extents e = dpti_extents_of(model, x);
    if (e.rank != 3)
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                               "layer %s: an image has 3 axes, this value has %zu", node->name,
                               e.rank);
    const size_t channels = e.extent[0], h = e.extent[1], w = e.extent[2];
    const dpti_shape image = {.rank = 3,
                              .extent = {channels, h, w},
                              .stride = {1, (int32_t)(w * channels), (int32_t)channels}};
    const dpti_shape from = node->shape;
    if (!dpti_shape_same(&from, &image) || !dpti_shape_covers(&from, node->size))
        x = copy(model, x, &from, &image);
    if (!x.id) return x;
    dpti_node view = dpti_node_over(DPTI_NODE_VIEW, NULL, x);
    view.extent = (dpti_extent){.h = h, .w = w, .c = channels};
    return dpti_add_unnamed(model, "image", view);
}

static const size_t images_order[DPT_MAX_RANK] = {1, 0, 2, 3};

dpt_value dpti_as_images(dpt_model *model, dpt_value x)
{
    x = dpti_transpose(model, dpti_for_each_sample(model, x), images_order);
    if (!x.id) return x;
    const dpti_extents e = dpti_extents_of(model, x);
    if (e.rank != 4)
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                               "layer %s: images have 4 axes, this value has %zu",
                               dpti_node_at(model, x)->name, e.rank);
    const size_t c = e.extent[0], n = e.extent[1], h = e.extent[2], w = e.extent[3];
    const dpti_shape from = dpti_node_at(model, x)->shape,
                     images = {.rank = 4,
                               .extent = {c, n, h, w},
                               .stride = {1, (int32_t)(h * w * c), (int32_t)(w * c), (int32_t)c}};
    if (!dpti_shape_same(&from, &images) || !dpti_shape_covers(&from, dpti_node_at(model, x)->size))
        x = copy(model, x, &from, &images);
    return dpti_as_image(
        model, dpti_reshape(model, x, &(dpti_extents){.rank = 3, .extent = {c, n * h, w}}));
}

dpt_value dpti_images_apart(dpt_model *model, dpt_value image, size_t n)
{
    if (!dpti_usable(model, image, "images")) return (dpt_value){0};
    const dpti_extents e = dpti_extents_of(model, image);
    const dpti_extents apart = {.rank = 4,
                                .extent = {e.extent[0], n, e.extent[1] / n, e.extent[2]}};
    return dpti_transpose(model, dpti_reshape(model, image, &apart), images_order);
}

dpt_value dpti_as_flat(dpt_model *model, dpt_value x)
{
    if (!dpti_usable(model, x, "flat")) return (dpt_value){0};
    const dpti_node *node = dpti_node_at(model, x);
    if (node->order_differs || (node->extent.flat && node->shape.rank == 1 && !node->has_shape))
        return x;
    return dpti_reshape(model, x, &(dpti_extents){.rank = 1, .extent = {node->elements}});
}

dpt_value dpti_reshape(dpt_model *model, dpt_value x, const dpti_extents *extents)
{
    size_t n;
    dpti_shape shape;
    if (!dpti_usable(model, x, "reshape") || !count_elements(model, extents, "reshape", &n))
        return (dpt_value){0};
    if (n != dpti_node_at(model, x)->elements)
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                               "layer reshape-%zu: %zu elements do not become %zu", model->n_nodes,
                               dpti_node_at(model, x)->elements, n);
    if (!dpti_node_at(model, x)->order_differs &&
        dpti_shape_reshape(&dpti_node_at(model, x)->shape, extents, &shape))
        return dpti_view(model, x, &shape);
    /* Here the copy is row-major, so that a view describes every other shape. */
    const dpti_shape from = dpti_node_at(model, x)->shape;
    const dpti_extents before = dpti_shape_extents(&from);
    const dpti_shape to = dpti_shape_dense(&before);
    x = copy(model, x, &from, &to);
    if (!x.id || !dpti_shape_reshape(&to, extents, &shape)) return (dpt_value){0};
    return dpti_view(model, x, &shape);
}

bool dpti_make_plain(dpt_model *model, dpt_value *x, const char *what)
{
    if (!dpti_usable(model, *x, what)) return false;
    if (dpti_node_at(model, *x)->order_differs) *x = dpti_row_major(model, *x);
    return x->id != 0;
}

dpt_value dpti_transpose(dpt_model *model, dpt_value x, const size_t order[DPT_MAX_RANK])
{
    if (!dpti_make_plain(model, &x, "transpose")) return (dpt_value){0};
    const dpti_shape from = dpti_node_at(model, x)->shape;
    dpti_shape to = from;
    for (size_t i = 0; i < from.rank; i++) {
        if (order[i] >= from.rank)
            return DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                                   "layer transpose-%zu: there is no axis %zu", model->n_nodes,
                                   order[i]);
        to.extent[i] = from.extent[order[i]];
        to.stride[i] = from.stride[order[i]];
    }
    return dpti_view(model, x, &to);
}

dpt_value dpti_slice(dpt_model *model, dpt_value x, dpti_cut cut)
{
    if (!dpti_make_plain(model, &x, "slice")) return (dpt_value){0};
    dpti_shape s = dpti_node_at(model, x)->shape;
    const size_t extent = cut.axis < s.rank ? s.extent[cut.axis] : 0;
    const bool begins = cut.begin < extent && cut.count >= 1 && cut.count <= extent;
    const int64_t last =
        begins ? (int64_t)cut.begin + (int64_t)(cut.count - 1) * cut.step : INT64_MAX;
    if (last < 0 || last >= (int64_t)extent)
        return DPTI_MODEL_FAIL(
            model, DPT_E_INVALID,
            "layer slice-%zu: %zu elements from %zu on, of axis %zu, are not all "
            "there",
            model->n_nodes, cut.count, cut.begin, cut.axis);
    s.offset = (size_t)((int64_t)s.offset + (int64_t)cut.begin * s.stride[cut.axis]);
    s.extent[cut.axis] = cut.count;
    if (cut.count > 1)
        s.stride[cut.axis] *= cut.step; /* a step that no element takes may be large */
    return dpti_view(model, x, &s);
}

dpt_value dpti_expand(dpt_model *model, dpt_value x, const dpti_extents *extents)
{
    if (!dpti_make_plain(model, &x, "expand")) return (dpt_value){0};
    dpti_extents to = *extents;
    const dpti_extents from = dpti_extents_of(model, x);
    bool fits = dpti_broadcast_extents(&from, &to) && to.rank == extents->rank;
    for (size_t i = 0; fits && i < to.rank; i++)
        fits = to.extent[i] == extents->extent[i];
    if (!fits)
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                               "layer expand-%zu: its input cannot be broadcast to that shape",
                               model->n_nodes);
    const dpti_shape shape = dpti_shape_broadcast(&dpti_node_at(model, x)->shape, &to);
    return dpti_view(model, x, &shape);
}
