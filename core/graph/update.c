/* The committing segment: clipping, the optimizer, running statistics.  For a single-launch
   program also the check that replaces the vote before it. */
#include "base/floats.h"
#include "graph/compile.h"

#include <stdlib.h>

static dpti_instruction per_step(dpt_op_desc desc)
{
    return (dpti_instruction){.desc = desc, .per_step = true, .layer = "optimizer"};
}

/* Returns an instruction that changes training state. */
static dpti_instruction lasting(const dpti_compiler *c, dpt_op_desc desc)
{
    dpti_instruction instruction = per_step(desc);
    instruction.halts = c->options->single_launch;
    return instruction;
}

static dpt_status emit_clipping(dpti_compiler *c, int gradients)
{
    const float max_norm = c->options->optimizer.clip_norm;
    if (max_norm == 0 || c->model->flat_trained == 0) return DPT_OK;
    if (c->options->optimizer.divided_sums) return DPT_OK;
    const dpti_instruction clip = per_step(
        (dpt_op_desc){.kind = DPT_OP_CLIP_NORM,
                      .u.clip_norm = {.count = c->model->flat_trained, .max_norm = max_norm}});
    return dpti_emit(c, clip, (dpti_tensor_ids){NULL, 0}, (dpti_tensor_ids){(int[]){gradients}, 1});
}

/* ---- The optimizer --------------------------------------------------------------------------- */

/* Elements of the flat buffer that are updated alike. */
typedef struct range {
    size_t begin, count, decay_count; /* the first decay_count of them have weight decay */
    float weight_decay, lr_factor;
} range;

/* The place of an element of the flat buffer in the buffers of the optimizer's state. */
static size_t state_place(const dpti_compiler *c, size_t element)
{
    const dpti_optimizer *o = &c->options->optimizer;
    return o->divided ? element - o->begin : element;
}

static size_t clamp(size_t value, size_t least, size_t most)
{
    return value < least ? least : value > most ? most : value;
}

/* What this device updates of a range; its count may be 0. */
static range own_range(const dpti_compiler *c, const range *r)
{
    const dpti_optimizer *o = &c->options->optimizer;
    range own = *r;
    if (!o->divided) return own;
    const size_t end = clamp(r->begin + r->count, o->begin, o->end);
    own.begin = clamp(r->begin, o->begin, o->end);
    own.count = end - own.begin;
    own.decay_count = clamp(r->begin + r->decay_count, own.begin, end) - own.begin;
    return own;
}

static dpt_status emit_sgd(dpti_compiler *c, const range *r, int gradients, int parameters)
{
    const dpti_optimizer *o = &c->options->optimizer;
    int velocity = DPTI_NO_TENSOR;
    if (o->momentum != 0)
        DPT_TRY(dpti_add_view(c, DPTI_HOME_VELOCITY, state_place(c, r->begin), &velocity));
    const dpti_instruction sgd = lasting(c, (dpt_op_desc){.kind = DPT_OP_SGD,
                                                          .u.sgd = {.count = r->count,
                                                                    .decay_count = r->decay_count,
                                                                    .momentum = o->momentum,
                                                                    .weight_decay = r->weight_decay,
                                                                    .nesterov = o->nesterov}});
    return DPTI_EMIT(c, sgd, ((int[]){gradients}), ((int[]){parameters, velocity}));
}

static dpt_status emit_adamw(dpti_compiler *c, const range *r, int gradients, int parameters)
{
    const dpti_optimizer *o = &c->options->optimizer;
    int m, v;
    DPT_TRY(dpti_add_view(c, DPTI_HOME_VELOCITY, state_place(c, r->begin), &m));
    DPT_TRY(dpti_add_view(c, DPTI_HOME_SQUARES, state_place(c, r->begin), &v));
    const dpti_instruction adamw =
        lasting(c, (dpt_op_desc){.kind = DPT_OP_ADAMW,
                                 .u.adamw = {.count = r->count,
                                             .decay_count = r->decay_count,
                                             .beta1 = o->beta1,
                                             .beta2 = o->beta2,
                                             .epsilon = o->epsilon,
                                             .weight_decay = r->weight_decay}});
    return DPTI_EMIT(c, adamw, ((int[]){gradients}), ((int[]){parameters, m, v}));
}

static dpt_status emit_optimizer(dpti_compiler *c, const range *r)
{
    int gradients, parameters;
    DPT_TRY(dpti_add_view(c, DPTI_HOME_GRADIENTS, r->begin, &gradients));
    DPT_TRY(dpti_add_view(c, DPTI_HOME_PARAMETERS, r->begin, &parameters));
    return c->options->optimizer.kind == DPT_OPTIMIZER_ADAMW
               ? emit_adamw(c, r, gradients, parameters)
               : emit_sgd(c, r, gradients, parameters);
}

/* An update is proportional to the learning rate, and the operators read that of the step.  So
   another rate is that update from w to w', and then w + factor * (w' - w). */
static dpt_status emit_scaled_optimizer(dpti_compiler *c, const range *r)
{
    const float factor = r->lr_factor;
    int before, parameters;
    DPT_TRY(dpti_add_whole(c, r->count, &before));
    DPT_TRY(dpti_add_view(c, DPTI_HOME_PARAMETERS, r->begin, &parameters));
    const dpti_instruction keep = per_step(
        (dpt_op_desc){.kind = DPT_OP_AFFINE, .u.elementwise = {.count = r->count, .alpha = 1.0f}});
    const dpti_instruction scale =
        lasting(c, (dpt_op_desc){.kind = DPT_OP_ADD,
                                 .u.elementwise = {
                                     .count = r->count, .alpha = factor, .beta = 1.0f - factor}});
    DPT_TRY(DPTI_EMIT(c, keep, ((int[]){parameters}), ((int[]){before})));
    DPT_TRY(emit_optimizer(c, r));
    return DPTI_EMIT(c, scale, ((int[]){parameters, before}), ((int[]){parameters}));
}

/* ---- Ranges with rules of their own ---------------------------------------------------------- */

/* Ranges that lie side by side and are all that is trained. */
typedef struct range_list {
    range *items;
    size_t n;
} range_list;

static bool same_rule(const dpti_parameter_rule *a, const dpti_parameter_rule *b)
{
    return a->lr_factor == b->lr_factor && a->weight_decay == b->weight_decay;
}

/* Adds a parameter, which is behind those before it, to the last range if their rules are equal. */
static void add_to_ranges(range_list *list, const dpti_parameter *p,
                          const dpti_parameter_rule *rule)
{
    range *last = list->n ? &list->items[list->n - 1] : NULL;
    const dpti_parameter_rule before = {.lr_factor = last ? last->lr_factor : 0,
                                        .weight_decay = last ? last->weight_decay : 0};
    if (last && same_rule(&before, rule)) return;
    list->items[list->n++] = (range){
        .begin = p->offset, .weight_decay = rule->weight_decay, .lr_factor = rule->lr_factor};
}

/* Fills in a list with room for all parameters, of the n that are trained in the order of their
   places. */
static void find_ranges(const dpti_compiler *c, const dpti_parameter *const *trained, size_t n,
                        range_list *out)
{
    const dpt_model *m = c->model;
    for (size_t i = 0; i < n; i++)
        add_to_ranges(out, trained[i], &c->options->optimizer.rules[trained[i] - m->parameters]);
    for (size_t i = 0; i < out->n; i++) {
        range *r = &out->items[i];
        r->count = (i + 1 < out->n ? out->items[i + 1].begin : m->flat_trained) - r->begin;
        r->decay_count = r->weight_decay != 0 ? r->count : 0;
    }
}

/* Makes the list, which the caller frees. */
static dpt_status make_ranges(const dpti_compiler *c, range_list *out)
{
    const dpt_model *m = c->model;
    const dpti_parameter **trained = calloc(m->n_parameters, sizeof *trained);
    *out = (range_list){.items = calloc(m->n_parameters, sizeof *out->items)};
    if (!trained || !out->items) {
        free(trained);
        free(out->items);
        return DPT_FAIL(c->error, DPT_E_NO_MEMORY, "no memory to compile model %s", m->name);
    }
    size_t n = 0;
    for (size_t i = 0; i < m->n_parameters; i++)
        if (m->parameters[i].offset < m->flat_trained) trained[n++] = &m->parameters[i];
    qsort(trained, n, sizeof *trained, dpti_by_offset);
    find_ranges(c, trained, n, out);
    free(trained);
    return DPT_OK;
}

static dpt_status emit_optimizers(dpti_compiler *c, const range_list *ranges)
{
    for (size_t i = 0; i < ranges->n; i++) {
        const range r = own_range(c, &ranges->items[i]);
        if (r.count == 0) continue;
        DPT_TRY(r.lr_factor == 1 ? emit_optimizer(c, &r) : emit_scaled_optimizer(c, &r));
    }
    return DPT_OK;
}

static dpt_status emit_by_rules(dpti_compiler *c, int gradients, const range_list *ranges)
{
    DPT_TRY(emit_clipping(c, gradients));
    return emit_optimizers(c, ranges);
}

/* ---- Statistics ------------------------------------------------------------------------------ */

/* Emits running = (1 - momentum) * running + momentum * batch, for the parameters [offset, offset
   + count) of the flat buffer. */
static dpt_status emit_moving_average(dpti_compiler *c, size_t offset, size_t count, float momentum)
{
    int running, batch;
    DPT_TRY(dpti_add_view(c, DPTI_HOME_PARAMETERS, offset, &running));
    DPT_TRY(dpti_add_view(c, DPTI_HOME_GRADIENTS, offset, &batch));
    const dpti_instruction average =
        lasting(c, (dpt_op_desc){.kind = DPT_OP_ADD,
                                 .u.elementwise = {
                                     .count = count, .alpha = 1.0f - momentum, .beta = momentum}});
    return DPTI_EMIT(c, average, ((int[]){running, batch}), ((int[]){running}));
}

static bool is_frozen(const dpti_compiler *c, const dpti_parameter *p)
{
    return dpti_is_frozen(c, (size_t)(p - c->model->parameters));
}

/* The momentum of all updates of a statistic in a step, one after another. */
static float all_momentum(const dpti_compiler *c, size_t statistic)
{
    const float momentum = c->model->parameters[statistic].momentum;
    const size_t n = dpti_count_updates(c->model, statistic, 0);
    return n < 2 ? momentum : (float)(1.0 - dpti_power(1.0 - (double)momentum, n));
}

/* Emits one instruction for each run of neighbouring statistics with the same momentum.  Those that
   are frozen keep their values. */
static dpt_status emit_statistics(dpti_compiler *c)
{
    const dpt_model *m = c->model;
    const dpti_parameter *first = NULL; /* of the run */
    float of_run = 0;
    if (c->options->norms_frozen) return DPT_OK;
    for (size_t i = 0; i < m->n_parameters; i++) {
        const dpti_parameter *p = &m->parameters[i];
        if (!dpti_is_statistic(p->role)) continue;
        const float momentum = all_momentum(c, i);
        if (first && (momentum != of_run || is_frozen(c, p) != is_frozen(c, first))) {
            if (!is_frozen(c, first))
                DPT_TRY(emit_moving_average(c, first->offset, p->offset - first->offset, of_run));
            first = p;
        }
        if (!first) first = p;
        of_run = momentum;
    }
    if (!first || is_frozen(c, first)) return DPT_OK;
    return emit_moving_average(c, first->offset, m->flat_gradients - first->offset, of_run);
}

/* ---- All of it ------------------------------------------------------------------------------- */

static dpti_instruction looking(size_t count)
{
    return (dpti_instruction){
        .desc = {.kind = DPT_OP_CHECK_FINITE, .u.check_finite = {.count = count}}, .layer = "look"};
}

dpt_status dpti_emit_look(dpti_compiler *c)
{
    const dpti_instruction losses = looking(c->program->result_elements);
    dpti_instruction all = looking(c->model->flat_gradients);
    int gradients, halt;
    all.per_step = true;
    DPT_TRY(dpti_add_view(c, DPTI_HOME_GRADIENTS, 0, &gradients));
    DPT_TRY(dpti_add_view(c, DPTI_HOME_HALT, 0, &halt));
    DPT_TRY(DPTI_EMIT(c, losses, ((int[]){c->program->result}), ((int[]){halt})));
    return DPTI_EMIT(c, all, ((int[]){gradients}), ((int[]){halt}));
}

dpt_status dpti_emit_update(dpti_compiler *c)
{
    const dpti_optimizer *o = &c->options->optimizer;
    const range all = {.count = c->model->flat_trained,
                       .decay_count =
                           o->no_bias_decay ? c->model->flat_weights : c->model->flat_trained,
                       .weight_decay = o->weight_decay,
                       .lr_factor = 1};
    range_list ranges;
    int gradients;
    DPT_TRY(dpti_add_view(c, DPTI_HOME_GRADIENTS, 0, &gradients));
    if (o->rules) {
        DPT_TRY(make_ranges(c, &ranges));
        const dpt_status status = emit_by_rules(c, gradients, &ranges);
        free(ranges.items);
        DPT_TRY(status);
    } else {
        DPT_TRY(emit_by_rules(c, gradients, &(range_list){(range[]){all}, 1}));
    }
    return emit_statistics(c);
}
