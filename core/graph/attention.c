/* Attention with several heads: dpt_attention. */
#include "graph/product.h"
#include "graph/recurrent.h"
#include "graph/sequence.h"
#include "graph/softmax.h"

#include <math.h>
#include <stdlib.h>

/* What is added to the score of a place that may not be read.  It is finite, so that no device
   computes with infinities. */
#define MASKED (-1e30f)

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

/* Projects the sequences: parts[0 .. 2] are the queries (length, width), and the keys and values
   (length of the memory, width). */
static void project(dpt_model *model, const layer *l, const dpt_value sequences[2],
                    dpt_value parts[3])
{
    const dpt_value w = add_weight(model, l, "in_proj_weight", 3 * l->width);
    const dpt_value bias = add_bias(model, l, "in_proj_bias", 3 * l->width);
    if (sequences[0].id == sequences[1].id) { /* one product for all three */
        const dpt_value all =
            dpti_projection(model, sequences[0], &(dpti_linear_values){.w = w, .bias = bias});
        for (size_t i = 0; i < 3; i++)
            parts[i] = take(model, l, all, (third){1, i, 1});
        return;
    }
    const third own = {0, 0, 1}, other = {0, 1, 2};
    const dpti_linear_values queries = {.w = take(model, l, w, own),
                                        .bias = take(model, l, bias, own)},
                             rest = {.w = take(model, l, w, other),
                                     .bias = take(model, l, bias, other)};
    parts[0] = dpti_projection(model, sequences[0], &queries);
    const dpt_value both = dpti_projection(model, sequences[1], &rest);
    for (size_t i = 1; i < 3; i++)
        parts[i] = take(model, l, both, (third){1, i - 1, 1});
}

/* (length, width) as (heads, length, width / heads), or with the last two axes exchanged. */
static dpt_value divide(dpt_model *model, const layer *l, dpt_value x, bool exchanged)
{
    static const size_t rows[DPT_MAX_RANK] = {1, 0, 2}, columns[DPT_MAX_RANK] = {1, 2, 0};
    if (!x.id) return x;
    const dpti_extents e = {
        .rank = 3, .extent = {dpti_extents_of(model, x).extent[0], l->heads, l->width / l->heads}};
    return dpti_transpose(model, dpti_reshape(model, x, &e), exchanged ? columns : rows);
}

/* ---- Scores ---------------------------------------------------------------------------------- */

/* Adds MASKED to the scores (heads, length, length) of the places behind each place. */
static dpt_value mask(dpt_model *model, dpt_value scores)
{
    if (!scores.id) return scores;
    const size_t n = dpti_extents_of(model, scores).extent[1];
    float *numbers = calloc(n * n, sizeof *numbers);
    if (!numbers)
        return DPTI_MODEL_FAIL(model, DPT_E_NO_MEMORY, "no memory for model %s", model->name);
    for (size_t i = 0; i < n; i++)
        for (size_t k = i + 1; k < n; k++)
            numbers[i * n + k] = MASKED;
    const dpt_value constant =
        dpti_add_constant(model, &(dpti_extents){.rank = 2, .extent = {n, n}}, numbers);
    free(numbers);
    return dpti_formula(model, "a + b", (dpt_value[]){scores, constant}, 2);
}

static dpt_value attend(dpt_model *model, const layer *l, const dpt_value sequences[2])
{
    static const size_t order[DPT_MAX_RANK] = {1, 0, 2};
    dpt_value parts[3];
    project(model, l, sequences, parts);
    dpt_value y =
        dpti_product(model, divide(model, l, parts[0], false), divide(model, l, parts[1], true));
    if (!y.id) return y;
    model->nodes[y.id - 1].forward.u.matmul.alpha = 1 / sqrtf((float)(l->width / l->heads));
    if (l->options->causal) y = mask(model, y);
    y = dpti_softmax(model, y, &(dpti_softmax_options){.axis = 2});
    y = dpti_transpose(model, dpti_product(model, y, divide(model, l, parts[2], false)), order);
    if (!y.id) return y;
    const size_t length = dpti_extents_of(model, y).extent[0];
    y = dpti_reshape(model, y, &(dpti_extents){.rank = 2, .extent = {length, l->width}});
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
