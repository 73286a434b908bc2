/* Layers over sequences (dptrain/sequence.h), without attention. */
#include "dptrain/sequence.h"

#include "base/elementary.h"
#include "base/print.h"
#include "graph/given.h"
#include "graph/lora.h"
#include "graph/sequence.h"
#include "graph/steps.h"

#include <stdlib.h>
#include <string.h>

/* ---- Checks ---------------------------------------------------------------------------------- */

static bool check_deviation(dpt_model *model, const char *layer, float deviation)
{
    if (deviation >= 0 && deviation <= 1e3f) return true;
    (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                          "layer %s: a deviation of %g is not between 0 and 1000", layer,
                          (double)deviation);
    return false;
}

/* ---- Linear layers --------------------------------------------------------------------------- */

/* The table of an embedding, which becomes a parameter that several layers share; SIZE_MAX after a
   failure. */
static size_t find_table(dpt_model *model, const char *name, dpt_sequence_linear_options *o,
                         size_t width)
{
    for (size_t i = 0; i < model->n_nodes; i++) {
        const dpti_node *node = &model->nodes[i];
        if (node->kind != DPTI_NODE_EMBEDDING || strcmp(node->name, o->table) != 0) continue;
        dpti_parameter *p = &model->parameters[node->weight];
        if (o->out == 0) o->out = p->shape[0];
        if (p->rank == 2 && p->shape[0] == o->out && p->shape[1] == width) {
            p->role = DPTI_ROLE_TENSOR;
            return node->weight;
        }
        (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                              "layer %s: the table of %s is %zux%zu, and the layer needs %zux%zu",
                              name, o->table, p->shape[0], p->size / p->shape[0], o->out, width);
        return SIZE_MAX;
    }
    (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID, "layer %s: no embedding is called %s", name,
                          o->table);
    return SIZE_MAX;
}

/* A matrix (in, out) in the checkpoint is an image of `out` pixels with `in` channels whose axes
   were exchanged (DPTI_LAYOUT_LINEAR). */
static size_t add_weight(dpt_model *model, const char *name, const dpt_sequence_linear_options *o,
                         size_t in)
{
    dpti_parameter p = {.shape = {o->out, in},
                        .rank = 2,
                        .fan_in = in,
                        .fan_out = o->out,
                        .start = o->deviation > 0 ? DPTI_START_NORMAL : DPTI_START_UNIFORM,
                        .deviation = o->deviation,
                        .layout = DPTI_LAYOUT_LINEAR,
                        .h = 1,
                        .w = 1,
                        .c = in};
    if (o->in_first) {
        p.shape[0] = in;
        p.shape[1] = o->out;
        p.h = o->out;
    }
    return dpti_build_parameter(model, name, "weight", p);
}

dpt_value dpt_sequence_linear(dpt_model *model, dpt_value x, const char *name,
                              const dpt_sequence_linear_options *options)
{
    dpt_sequence_linear_options o;
    if (!dpti_usable(model, x, name ? name : "sequence_linear") || !dpti_name_is_new(model, name) ||
        !dpti_has_options(model, name, options) ||
        !dpti_take_options(model, name,
                           &(dpti_sized){"dpt_sequence_linear_options", options, sizeof o}, &o) ||
        !check_deviation(model, name, o.deviation))
        return (dpt_value){0};
    x = dpti_rows_of_sequence(model, x, name);
    if (!x.id) return x;
    const size_t in = dpti_extents_of(model, x).extent[1];
    if (o.out < 1 && !o.table)
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID, "layer %s: its result has no channels", name);
    dpti_given given = {.name = name, .bias = SIZE_MAX};
    given.weight = o.table ? find_table(model, name, &o, in) : add_weight(model, name, &o, in);
    if (!o.no_bias && given.weight != SIZE_MAX)
        given.bias = dpti_build_parameter(
            model, name, "bias",
            (dpti_parameter){.shape = {o.out},
                             .rank = 1,
                             .fan_in = in,
                             .start = o.deviation > 0 ? DPTI_START_ZERO : DPTI_START_UNIFORM,
                             .role = DPTI_ROLE_BIAS});
    if (model->status != DPT_OK) return (dpt_value){0};
    const dpt_value y = dpti_given_linear(model, x, &given, o.out);
    if (o.table || !dpti_lora_wants(model, name)) return dpti_sequence_as_image(model, y);
    model->lora->in_first = o.in_first;
    return dpti_lora_add(model, x, y, name);
}

/* ---- Positions ------------------------------------------------------------------------------- */

dpt_value dpt_positions(dpt_model *model, dpt_value x, const char *name,
                        const dpt_positions_options *options)
{
    dpt_positions_options o;
    if (!dpti_usable(model, x, name ? name : "positions") || !dpti_name_is_new(model, name) ||
        !dpti_has_options(model, name, options) ||
        !dpti_take_options(model, name, &(dpti_sized){"dpt_positions_options", options, sizeof o},
                           &o) ||
        !check_deviation(model, name, o.deviation))
        return (dpt_value){0};
    x = dpti_rows_of_sequence(model, x, name);
    if (!x.id) return x;
    const dpti_extents e = dpti_extents_of(model, x);
    const size_t length = e.extent[0], width = e.extent[1];
    if (length > o.rows)
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                               "layer %s: a sequence of %zu places is longer than its %zu "
                               "positions; use a shorter context",
                               name, length, o.rows);
    const size_t parameter =
        dpti_build_parameter(model, name, "weight",
                             (dpti_parameter){.shape = {o.rows, width},
                                              .rank = 2,
                                              .fan_in = width,
                                              .fan_out = width,
                                              .start = DPTI_START_NORMAL,
                                              .deviation = o.deviation > 0 ? o.deviation : 1,
                                              .role = DPTI_ROLE_TENSOR});
    dpt_value table =
        model->steps ? dpti_steps_rows(model, parameter) : dpti_read_parameter(model, parameter);
    if (length < o.rows && !model->steps)
        table = dpti_slice(model, table, (dpti_cut){.axis = 0, .count = length, .step = 1});
    return dpti_sequence_as_image(model, dpti_formula(model, "a + b", (dpt_value[]){x, table}, 2));
}

/* The angles of place i: those of a turn by the angle, whose sine has the other sign for the first
   channel of a pair. */
static void fill_angles(size_t n_places, double base, const dpti_angles *out)
{
    static const double turn = 6.283185307179586;
    const size_t half = out->half;
    for (size_t i = 0; i < n_places; i++)
        for (size_t j = 0; j < half; j++) {
            /* In float32, as `transformers` computes the angle. */
            const float speed = (float)(1 / dpti_raise(base, (double)j / (double)half));
            const double turns = (double)((float)i * speed) / turn;
            const float sine = (float)dpti_cos_turns(turns - 0.25);
            float *cosines = out->cosines + i * out->stride + j;
            float *sines = out->sines + i * out->stride + j;
            cosines[0] = cosines[half] = (float)dpti_cos_turns(turns);
            sines[0] = -sine;
            sines[half] = sine;
        }
}

/* Adds the cosines and the sines of the angles (length, 1, 2, half). */
static void add_angles(dpt_model *model, const dpti_extents *e, double base, dpt_value out[2])
{
    const size_t length = e->extent[0], half = e->extent[3];
    if (model->steps) {
        dpti_steps_angles(model, &(dpti_rotation){half, base, fill_angles}, out);
        return;
    }
    float *cosines = calloc(length * half, 4 * sizeof *cosines);
    float *sines = cosines ? cosines + 2 * length * half : NULL;
    if (!cosines) {
        (void)DPTI_MODEL_FAIL(model, DPT_E_NO_MEMORY, "no memory for model %s", model->name);
        return;
    }
    fill_angles(length, base, &(dpti_angles){cosines, sines, half, 2 * half});
    out[0] = dpti_add_constant(model, e, cosines);
    out[1] = dpti_add_constant(model, e, sines);
    free(cosines);
}

dpt_value dpt_rotary(dpt_model *model, dpt_value x, const dpt_rotary_options *options)
{
    dpt_rotary_options o;
    if (!dpti_usable(model, x, "rotary") ||
        !dpti_take_options(model, "rotary", &(dpti_sized){"dpt_rotary_options", options, sizeof o},
                           &o))
        return (dpt_value){0};
    x = dpti_rows_of_sequence(model, x, "rotary");
    if (!x.id) return x;
    const dpti_extents e = dpti_extents_of(model, x);
    const size_t heads = o.heads > 0 ? o.heads : 1, length = e.extent[0];
    if (o.base == 0) o.base = 10000;
    if (e.extent[1] % (2 * heads) != 0)
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                               "layer rotary-%zu: %zu channels cannot be divided into %zu heads of "
                               "an even number of channels",
                               model->n_nodes, e.extent[1], heads);
    if (!(o.base >= 1 && o.base <= 1e12))
        return DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                               "layer rotary-%zu: a base of %g is not between 1 and 1e12",
                               model->n_nodes, o.base);
    const size_t half = e.extent[1] / heads / 2;
    dpt_value in[4];
    in[0] = dpti_reshape(model, x, &(dpti_extents){.rank = 4, .extent = {length, heads, 2, half}});
    in[1] = dpti_slice(model, in[0], (dpti_cut){.axis = 2, .begin = 1, .count = 2, .step = -1});
    add_angles(model, &(dpti_extents){.rank = 4, .extent = {length, 1, 2, half}}, o.base, in + 2);
    const dpt_value y = dpti_formula(model, "a * c + b * d", in, 4);
    return dpti_sequence_as_image(model, dpti_reshape(model, y, &e));
}

/* ---- Norms ----------------------------------------------------------------------------------- */

dpt_value dpt_rms_norm(dpt_model *model, dpt_value x, const char *name,
                       const dpt_norm_options *options)
{
    dpt_norm_options o;
    char text[64];
    if (!dpti_usable(model, x, name ? name : "rms_norm") || !dpti_name_is_new(model, name) ||
        !dpti_take_options(model, name, &(dpti_sized){"dpt_norm_options", options, sizeof o}, &o) ||
        !dpti_known_activation(model, name, o.activation))
        return (dpt_value){0};
    x = dpti_rows_of_sequence(model, x, name);
    if (!x.id) return x;
    const dpti_parameter p = {.shape = {dpti_extents_of(model, x).extent[1]},
                              .rank = 1,
                              .fan_in = 1,
                              .role = DPTI_ROLE_NORM_WEIGHT};
    const dpt_value scale =
        dpti_read_parameter(model, dpti_build_parameter(model, name, "weight", p));
    const dpt_value in[] = {x, dpti_mean(model, "a * a", x, 1u << 1), scale};
    dpti_print(text, sizeof text, "a / sqrt(b + %.9g) * c",
               (double)(o.epsilon > 0 ? o.epsilon : 1e-5f));
    x = dpti_sequence_as_image(model, dpti_formula(model, text, in, 3));
    return o.activation == DPT_ACT_NONE ? x : dpt_activate(model, x, o.activation);
}
