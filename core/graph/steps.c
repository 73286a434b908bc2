/* Models that read a sequence step by step (steps.h). */
#include "graph/steps.h"

#include "base/grow.h"
#include "base/print.h"
#include "graph/given.h"
#include "graph/product.h"
#include "graph/recurrent.h"
#include "graph/softmax.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* What is added to the score of a place that may not be read.  It is finite, so that no device
   computes with infinities. */
#define MASKED (-1e30f)

void dpti_steps_begin(dpt_model *model, size_t context, size_t length, dpt_value *ids)
{
    const dpt_value record = dpt_input_ids(model, 2 * length);
    *ids = (dpt_value){0};
    if (!record.id) return;
    dpti_steps *s = calloc(1, sizeof *s);
    if (!s) {
        (void)DPTI_MODEL_FAIL(model, DPT_E_NO_MEMORY, "no memory for model %s", model->name);
        return;
    }
    model->steps = s;
    s->context = context;
    s->length = length;
    *ids = dpti_slice(model, record, (dpti_cut){.count = length, .step = 1});
    s->places = dpti_reshape(
        model, dpti_slice(model, record, (dpti_cut){.begin = length, .count = length, .step = 1}),
        &(dpti_extents){.rank = 1, .extent = {length}});
}

dpt_value dpti_steps_refuse(dpt_model *model, const char *layer, const char *what)
{
    return DPTI_MODEL_FAIL(model, DPT_E_UNSUPPORTED,
                           "layer %s: text cannot be generated step by step with %s", layer, what);
}

/* ---- What is kept ---------------------------------------------------------------------------- */

/* Adds a parameter of rows that are kept, and returns its value.  The caller sets `fresh`. */
static dpt_value keep(dpt_model *model, size_t width, bool by_place)
{
    dpti_steps *s = model->steps;
    char name[64];
    if (model->status != DPT_OK) return (dpt_value){0};
    dpti_kept *kept = dpti_grow(s->kept, s->n_kept, &s->capacity, sizeof *kept);
    if (!kept)
        return DPTI_MODEL_FAIL(model, DPT_E_NO_MEMORY, "no memory for model %s", model->name);
    s->kept = kept;
    dpti_print(name, sizeof name, "steps.kept.%zu", s->n_kept);
    const size_t parameter =
        dpti_build_named(model, name,
                         (dpti_parameter){.shape = {by_place ? s->context : 1, width},
                                          .rank = 2,
                                          .fan_in = width,
                                          .fan_out = width,
                                          .role = DPTI_ROLE_TENSOR});
    if (parameter == SIZE_MAX) return (dpt_value){0};
    s->kept[s->n_kept++] =
        (dpti_kept){.parameter = parameter, .width = width, .by_place = by_place};
    return dpti_read_parameter(model, parameter);
}

/* ---- Places ---------------------------------------------------------------------------------- */

dpt_value dpti_steps_rows(dpt_model *model, size_t table)
{
    if (table == SIZE_MAX) return (dpt_value){0};
    return dpti_given_embedding(model, model->steps->places, table);
}

/* Adds the table of the angles, unless the last one is that. */
static size_t find_angles(dpt_model *model, const dpti_rotation *r)
{
    dpti_steps *s = model->steps;
    const size_t columns = 4 * r->half;
    char name[64];
    if (s->half == r->half && s->base == r->base) return s->angles;
    float *numbers = calloc(s->context, columns * sizeof *numbers);
    if (!numbers) {
        (void)DPTI_MODEL_FAIL(model, DPT_E_NO_MEMORY, "no memory for model %s", model->name);
        return SIZE_MAX;
    }
    r->fill(s->context, r->base, &(dpti_angles){numbers, numbers + columns / 2, r->half, columns});
    dpti_print(name, sizeof name, "steps.angles.%zu", model->n_nodes);
    s->angles = dpti_build_named(model, name,
                                 (dpti_parameter){.shape = {s->context, columns},
                                                  .rank = 2,
                                                  .fan_in = columns,
                                                  .fan_out = columns,
                                                  .role = DPTI_ROLE_TENSOR,
                                                  .initial = numbers});
    free(numbers);
    s->half = r->half;
    s->base = r->base;
    return s->angles;
}

void dpti_steps_angles(dpt_model *model, const dpti_rotation *rotation, dpt_value out[2])
{
    const size_t n = 2 * rotation->half;
    const dpti_extents e = {.rank = 4, .extent = {model->steps->length, 1, 2, rotation->half}};
    const dpt_value rows = dpti_steps_rows(model, find_angles(model, rotation));
    for (size_t i = 0; i < 2; i++) {
        out[i] =
            dpti_slice(model, rows, (dpti_cut){.axis = 1, .begin = n * i, .count = n, .step = 1});
        out[i] = dpti_reshape(model, out[i], &e);
    }
}

/* ---- Attention ------------------------------------------------------------------------------- */

/* (rows, of_keys * width) as (of_keys, rows, width), or with the last two axes exchanged. */
static dpt_value divide(dpt_model *model, const dpti_steps_heads *h, dpt_value x, bool exchanged)
{
    static const size_t rows[DPT_MAX_RANK] = {1, 0, 2}, columns[DPT_MAX_RANK] = {1, 2, 0};
    if (!x.id) return x;
    const dpti_extents e = {.rank = 3,
                            .extent = {dpti_extents_of(model, x).extent[0], h->of_keys, h->width}};
    return dpti_transpose(model, dpti_reshape(model, x, &e), exchanged ? columns : rows);
}

/* The queries as (of_keys, n / of_keys * length, width): those of a head of keys, head by head. */
static dpt_value group(dpt_model *model, const dpti_steps_heads *h, dpt_value x)
{
    static const size_t order[DPT_MAX_RANK] = {1, 2, 0, 3};
    const size_t length = model->steps->length, n = h->n / h->of_keys;
    const dpti_extents apart = {.rank = 4, .extent = {length, h->of_keys, n, h->width}},
                       joined = {.rank = 3, .extent = {h->of_keys, n * length, h->width}};
    return dpti_reshape(model, dpti_transpose(model, dpti_reshape(model, x, &apart), order),
                        &joined);
}

/* The inverse of `group`. */
static dpt_value ungroup(dpt_model *model, const dpti_steps_heads *h, dpt_value x)
{
    static const size_t order[DPT_MAX_RANK] = {2, 0, 1, 3};
    const size_t length = model->steps->length;
    const dpti_extents apart = {.rank = 4,
                                .extent = {h->of_keys, h->n / h->of_keys, length, h->width}},
                       rows = {.rank = 2, .extent = {length, h->n * h->width}};
    return dpti_reshape(model, dpti_transpose(model, dpti_reshape(model, x, &apart), order), &rows);
}

/* The scores of the kept places: those from the first place of the step on may not be read. */
static dpt_value mask_kept(dpt_model *model, dpt_value scores)
{
    const dpti_steps *s = model->steps;
    dpt_value in[] = {scores, {0}, {0}};
    float *numbers = malloc(s->context * sizeof *numbers);
    if (!numbers)
        return DPTI_MODEL_FAIL(model, DPT_E_NO_MEMORY, "no memory for model %s", model->name);
    for (size_t i = 0; i < s->context; i++)
        numbers[i] = (float)i;
    in[1] = dpti_add_constant(model, &(dpti_extents){.rank = 1, .extent = {s->context}}, numbers);
    free(numbers);
    in[2] = dpti_slice(model, s->places, (dpti_cut){.count = 1, .step = 1});
    return dpti_formula(model, "select(less(b, c), a, 0 - 1e30)", in, 3);
}

/* The scores (of_keys, n * length, length) of the places of the step. */
static dpt_value mask_own(dpt_model *model, dpt_value scores)
{
    const size_t length = model->steps->length;
    if (!scores.id || length == 1) return scores;
    const size_t n = dpti_extents_of(model, scores).extent[1];
    float *numbers = calloc(n, length * sizeof *numbers);
    if (!numbers)
        return DPTI_MODEL_FAIL(model, DPT_E_NO_MEMORY, "no memory for model %s", model->name);
    for (size_t row = 0; row < n; row++)
        for (size_t i = row % length + 1; i < length; i++)
            numbers[row * length + i] = MASKED;
    const dpt_value constant =
        dpti_add_constant(model, &(dpti_extents){.rank = 2, .extent = {n, length}}, numbers);
    free(numbers);
    return dpti_formula(model, "a + b", (dpt_value[]){scores, constant}, 2);
}

static dpt_value score(dpt_model *model, const dpti_steps_heads *h, dpt_value queries,
                       dpt_value keys)
{
    const dpt_value y = dpti_product(model, queries, divide(model, h, keys, true));
    if (y.id) model->nodes[y.id - 1].forward.u.matmul.alpha = 1 / sqrtf((float)h->width);
    return y;
}

dpt_value dpti_steps_attend(dpt_model *model, const dpti_steps_heads *heads,
                            const dpt_value parts[3])
{
    dpti_steps *s = model->steps;
    const size_t width = heads->of_keys * heads->width;
    const dpt_value keys = keep(model, width, true), values = keep(model, width, true);
    if (!values.id) return values;
    s->kept[s->n_kept - 2].fresh = parts[1];
    s->kept[s->n_kept - 1].fresh = parts[2];
    const dpt_value queries = group(model, heads, parts[0]);
    const dpt_value scores[] = {mask_kept(model, score(model, heads, queries, keys)),
                                mask_own(model, score(model, heads, queries, parts[1]))};
    const dpt_value all = dpti_softmax(model, dpti_concatenate(model, scores, 2, 2),
                                       &(dpti_softmax_options){.axis = 2});
    const dpt_value before =
        dpti_slice(model, all, (dpti_cut){.axis = 2, .count = s->context, .step = 1});
    const dpt_value own = dpti_slice(
        model, all, (dpti_cut){.axis = 2, .begin = s->context, .count = s->length, .step = 1});
    const dpt_value sums[] = {dpti_product(model, before, divide(model, heads, values, false)),
                              dpti_product(model, own, divide(model, heads, parts[2], false))};
    return ungroup(model, heads, dpti_formula(model, "a + b", sums, 2));
}

/* ---- States ---------------------------------------------------------------------------------- */

static dpt_value row_of(dpt_model *model, dpt_value rows, size_t i)
{
    return dpti_slice(model, rows, (dpti_cut){.begin = i, .count = 1, .step = 1});
}

dpt_value dpti_steps_lstm(dpt_model *model, dpt_value x, const dpti_recurrence *of)
{
    dpti_recurrence cell = *of;
    dpti_steps *s = model->steps;
    cell.h0 = keep(model, of->hidden, false);
    cell.c0 = keep(model, of->hidden, false);
    cell.gives_cell = true;
    const dpt_value y = dpti_recurrent(model, x, &cell);
    if (!y.id) return y;
    s->kept[s->n_kept - 2].fresh = row_of(model, y, s->length - 1);
    s->kept[s->n_kept - 1].fresh = row_of(model, y, s->length);
    return dpti_slice(model, y, (dpti_cut){.count = s->length, .step = 1});
}

/* ---- The result ------------------------------------------------------------------------------ */

/* A value as a row of its elements. */
static dpt_value flat(dpt_model *model, dpt_value x)
{
    if (!x.id) return x;
    const dpti_extents e = dpti_extents_of(model, x);
    dpti_extents row = {.rank = 1, .extent = {1}};
    for (size_t i = 0; i < e.rank; i++)
        row.extent[0] *= e.extent[i];
    return dpti_reshape(model, x, &row);
}

/* All rows that are kept, one behind the other: rows of some of them are joined first. */
static dpt_value join_fresh(dpt_model *model)
{
    const dpti_steps *s = model->steps;
    dpt_value groups[DPTI_NODE_INPUTS], values[DPTI_NODE_INPUTS];
    size_t n_groups = 0;
    for (size_t i = 0; i < s->n_kept;) {
        size_t n = 0;
        for (; n < DPTI_NODE_INPUTS && i < s->n_kept; i++)
            values[n++] = flat(model, s->kept[i].fresh);
        if (n_groups == DPTI_NODE_INPUTS)
            return DPTI_MODEL_FAIL(model, DPT_E_UNSUPPORTED,
                                   "model %s has too many layers to be read in steps", model->name);
        groups[n_groups++] = n > 1 ? dpti_concatenate(model, values, n, 0) : values[0];
    }
    return n_groups > 1 ? dpti_concatenate(model, groups, n_groups, 0) : groups[0];
}

dpt_status dpti_steps_finish(dpt_model *model, dpt_value logits)
{
    static const size_t order[DPT_MAX_RANK] = {1, 2, 0};
    dpt_value parts[2];
    size_t n = 0;
    if (model->status == DPT_OK && model->steps->n_kept == 0)
        (void)DPTI_MODEL_FAIL(model, DPT_E_UNSUPPORTED,
                              "model %s has no layer that reads the places before", model->name);
    if (model->status == DPT_OK) parts[n++] = join_fresh(model);
    /* (c, h, w) in the axes of shapes */
    if (logits.id) parts[n++] = flat(model, dpti_transpose(model, logits, order));
    return dpt_model_finish(model, n > 1   ? dpti_concatenate(model, parts, n, 0)
                                   : n > 0 ? parts[0]
                                           : logits);
}
