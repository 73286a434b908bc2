/* Attention with several heads: dpt_attention, and dpt_attend without linear layers. */
#include "dptrain/sequence.h"

#include "graph/recurrent.h"
#include "graph/sequence.h"
#include "graph/steps.h"

#include <math.h>

/* The heads of an attention. */
typedef struct heads {
    size_t n, of_keys; /* heads of queries; heads of keys and values */
    size_t width;      /* channels of a head */
    bool causal;
} heads;

/* A layer that is being added. */
typedef struct layer {
    const char *name;
    const dpt_attention_options *options;
    size_t width, heads;
} layer;

static dpt_value add_weight(dpt_model *model, const layer *l, const char *suffix, size_t rows)
{
    return dpti_read_parameter(model, dpti_build_parameter(model, l->name, suffix,
                                                           (dpti_parameter){
                                                               .shape = {rows, l->width},
                                                               .rank = 2,
                                                               .fan_in = l->width,
                                                               .fan_out = rows,
                                                               .role = DPTI_ROLE_TENSOR,
                                                           }));
}

static dpt_value add_bias(dpt_model *model, const layer *l, const char *suffix, size_t n)
{
    if (l->options->no_bias) return (dpt_value){0};
    return dpti_read_parameter(model, dpti_build_parameter(model, l->name, suffix,
                                                           (dpti_parameter){
                                                               .shape = {n},
                                                               .rank = 1,
                                                               .fan_in = l->width,
                                                               .fan_out = n,
                                                               .role = DPTI_ROLE_BIAS,
                                                           }));
}

/* ---- Queries, keys, values ------------------------------------------------------------------- */

/* Part i of three of an axis whose elements are those of queries, keys and values. */
typedef struct third {
    size_t axis, first, n;
} third;

static dpt_value take(dpt_model *model, const layer *l, dpt_value x, third t)
{
    if (!x.id) return x;
    return dpti_slice(
        model, x,
        (dpti_cut){
            .axis = t.axis, .begin = t.first * l->width, .count = t.n * l->width, .step = 1});
}

/* Projects the sequences.  Of one sequence, inputs[0] has queries, keys and values side by side. Of
   two, the inputs are the queries (length, width), and the keys and values (length of the memory,
   width).  Returns the number of inputs. */
static size_t project(dpt_model *model, const layer *l, const dpt_value sequences[2],
                      dpt_value inputs[3])
{
    const dpt_value w = add_weight(model, l, "in_proj_weight", 3 * l->width);
    const dpt_value bias = add_bias(model, l, "in_proj_bias", 3 * l->width);
    if (sequences[0].id == sequences[1].id) {
        inputs[0] =
            dpti_projection(model, sequences[0], &(dpti_linear_values){.w = w, .bias = bias});
        return 1;
    }
    const third own = {0, 0, 1}, other = {0, 1, 2};
    const dpti_linear_values queries = {.w = take(model, l, w, own),
                                        .bias = take(model, l, bias, own)},
                             rest = {.w = take(model, l, w, other),
                                     .bias = take(model, l, bias, other)};
    inputs[0] = dpti_projection(model, sequences[0], &queries);
    const dpt_value both = dpti_projection(model, sequences[1], &rest);
    for (size_t i = 1; i < 3; i++)
        inputs[i] = take(model, l, both, (third){1, i - 1, 1});
    return 3;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* Reads values: inputs[0] has queries, keys and values side by side (n_inputs 1), or they are
   inputs of their own (3), all of them (length, heads * width).  The result is (length, heads *
   width). */
static dpt_value read_values(dpt_model *model, const heads *h, const dpt_value *inputs,
                             size_t n_inputs)
{
    dpt_value in[3] = {{0}};
    for (size_t i = 0; i < n_inputs; i++) {
        in[i] = inputs[i];
        if (!dpti_make_plain(model, &in[i], "attention")) return (dpt_value){0};
        in[i] = dpti_row_major(model, dpti_for_each_sample(model, in[i]));
        if (!in[i].id) return in[i];
    }
    const size_t queries = dpti_extents_of(model, in[0]).extent[0];
    dpti_node node = dpti_node_over(DPTI_NODE_ATTENTION, NULL, in[0]);
    for (size_t i = 1; i < n_inputs; i++)
        node.inputs[node.n_inputs++] = in[i].id - 1;
    node.forward = (dpt_op_desc){
        .kind = DPT_OP_ATTENTION_FORWARD,
        .u.attention = {.heads = h->n,
                        .key_heads = h->of_keys,
                        .width = h->width,
                        .queries = queries,
                        .keys = dpti_extents_of(model, in[n_inputs > 1 ? 1 : 0]).extent[0],
                        .packed = n_inputs == 1,
                        .causal = h->causal,
                        .scale = 1 / sqrtf((float)h->width)}};
    const dpti_extents e = {.rank = 2, .extent = {queries, h->n * h->width}};
    const dpti_shape shape = dpti_shape_dense(&e);
    dpti_set_shape(&node, &shape);
    if (!dpti_describes(model, "attention", &node.forward)) return (dpt_value){0};
    return dpti_add_unnamed(model, "attention", node);
}

static dpt_value attend(dpt_model *model, const layer *l, const dpt_value sequences[2])
{
    const heads h = {.n = l->heads,
                     .of_keys = l->heads,
                     .width = l->width / l->heads,
                     .causal = l->options->causal};
    dpt_value inputs[3];
    const size_t n_inputs = project(model, l, sequences, inputs);
    const dpt_value y = read_values(model, &h, inputs, n_inputs);
    if (!y.id) return y;
    const dpti_linear_values out = {.w = add_weight(model, l, "out_proj.weight", l->width),
                                    .bias = add_bias(model, l, "out_proj.bias", l->width)};
    return dpti_sequence_as_image(model, dpti_projection(model, y, &out));
}

/* ---- The layer ------------------------------------------------------------------------------- */

/* Whether the extents of the inputs fit the options. */
static bool fits(dpt_model *model, const layer *l, dpt_value memory)
{
    const size_t width = dpti_node_at(model, memory)->extent.c;
    if (l->width % l->heads != 0)
        (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                              "layer %s: %zu channels cannot be divided into %zu heads", l->name,
                              l->width, l->heads);
    else if (width != l->width)
        (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                              "layer %s: its memory has %zu channels, and its input %zu; they must "
                              "be the same",
                              l->name, width, l->width);
    else if (l->options->causal && l->options->memory.id)
        (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                              "layer %s: attention to a memory cannot be causal", l->name);
    return model->status == DPT_OK;
}

dpt_value dpt_attention(dpt_model *model, dpt_value x, const char *name,
                        const dpt_attention_options *options)
{
    dpt_attention_options o;
    if (!dpti_usable(model, x, name ? name : "attention") || !dpti_name_is_new(model, name) ||
        !dpti_take_options(model, name, &(dpti_sized){"dpt_attention_options", options, sizeof o},
                           &o))
        return (dpt_value){0};
    const dpt_value memory = o.memory.id ? o.memory : x;
    if (model->steps) return dpti_steps_refuse(model, name, "dpt_attention: use dpt_attend");
    if (!dpti_usable(model, memory, name) || !dpti_is_sequence(model, x, name) ||
        !dpti_is_sequence(model, memory, name))
        return (dpt_value){0};
    const layer l = {.name = name,
                     .options = &o,
                     .width = dpti_node_at(model, x)->extent.c,
                     .heads = o.heads > 0 ? o.heads : 1};
    if (!fits(model, &l, memory)) return (dpt_value){0};
    dpt_value sequences[2];
    sequences[0] = dpti_as_sequence(model, x);
    sequences[1] = memory.id == x.id ? sequences[0] : dpti_as_sequence(model, memory);
    return attend(model, &l, sequences);
}

/* ---- Attention alone ------------------------------------------------------------------------- */

/* Finds the width of a head, and checks the extents of queries, keys and values. */
static bool find_width(dpt_model *model, heads *h, const dpt_value parts[3], bool packed)
{
    const size_t n = packed ? h->n + 2 * h->of_keys : h->n;
    const dpti_extents x = dpti_extents_of(model, parts[0]);
    h->width = x.extent[1] / n;
    if (h->n % h->of_keys != 0 || h->width < 1 || x.extent[1] % n != 0) {
        (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                              "layer attend-%zu: %zu channels do not fit %zu heads of queries and "
                              "%zu of keys",
                              model->n_nodes, x.extent[1], h->n, h->of_keys);
        return false;
    }
    const dpti_extents k = packed ? x : dpti_extents_of(model, parts[1]),
                       v = packed ? x : dpti_extents_of(model, parts[2]);
    const size_t channels = h->of_keys * h->width;
    if (packed || (k.extent[1] == channels && v.extent[1] == channels &&
                   k.extent[0] == v.extent[0] && (!h->causal || k.extent[0] == x.extent[0])))
        return true;
    (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                          "layer attend-%zu: keys of %zux%zu and values of %zux%zu do not fit "
                          "queries of %zux%zu (length x channels)",
                          model->n_nodes, k.extent[0], k.extent[1], v.extent[0], v.extent[1],
                          x.extent[0], x.extent[1]);
    return false;
}

/* Cuts parts[0] (length, channels) into queries, keys and values. */
static void cut(dpt_model *model, const heads *h, dpt_value parts[3])
{
    const dpt_value x = parts[0];
    size_t begin = 0;
    for (size_t i = 0; i < 3; i++) {
        const size_t count = (i == 0 ? h->n : h->of_keys) * h->width;
        parts[i] =
            dpti_slice(model, x, (dpti_cut){.axis = 1, .begin = begin, .count = count, .step = 1});
        begin += count;
    }
}

static dpt_value attend_in_steps(dpt_model *model, const heads *h, const dpt_value parts[3])
{
    const dpti_steps_heads of = {.n = h->n, .of_keys = h->of_keys, .width = h->width};
    if (!h->causal) return dpti_steps_refuse(model, "attend", "attention that is not causal");
    return dpti_sequence_as_image(model, dpti_steps_attend(model, &of, parts));
}

dpt_value dpt_attend(dpt_model *model, dpt_value x, const dpt_attend_options *options)
{
    dpt_attend_options o;
    if (!dpti_usable(model, x, "attend") ||
        !dpti_take_options(model, "attend", &(dpti_sized){"dpt_attend_options", options, sizeof o},
                           &o))
        return (dpt_value){0};
    const bool packed = o.keys.id == 0 && o.values.id == 0;
    heads h = {.n = o.heads > 0 ? o.heads : 1, .causal = o.causal};
    h.of_keys = o.key_heads > 0 ? o.key_heads : h.n;
    dpt_value parts[3] = {dpti_rows_of_sequence(model, x, "attend")};
    if (!packed) {
        parts[1] = dpti_rows_of_sequence(model, o.keys, "attend");
        parts[2] = dpti_rows_of_sequence(model, o.values, "attend");
    }
    if (model->status != DPT_OK || !find_width(model, &h, parts, packed)) return (dpt_value){0};
    if (!model->steps)
        return dpti_sequence_as_image(model, read_values(model, &h, parts, packed ? 1 : 3));
    if (packed) cut(model, &h, parts);
    return attend_in_steps(model, &h, parts);
}
