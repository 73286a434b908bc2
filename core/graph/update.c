/* The committing segment: clipping, the optimizer, running statistics.  For a single-launch
   program also the check that replaces the vote before it. */
#include "graph/compile.h"

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
    if (max_norm == 0) return DPT_OK;
    const dpti_instruction clip = per_step(
        (dpt_op_desc){.kind = DPT_OP_CLIP_NORM,
                      .u.clip_norm = {.count = c->model->flat_trained, .max_norm = max_norm}});
    return dpti_emit(c, clip, (dpti_tensor_ids){NULL, 0}, (dpti_tensor_ids){(int[]){gradients}, 1});
}

static dpt_status emit_sgd(dpti_compiler *c, int gradients, int parameters, size_t decay_count)
{
    const dpti_optimizer *o = &c->options->optimizer;
    int velocity = DPTI_NO_TENSOR;
    if (o->momentum != 0) DPT_TRY(dpti_add_view(c, DPTI_HOME_VELOCITY, 0, &velocity));
    const dpti_instruction sgd = lasting(c, (dpt_op_desc){.kind = DPT_OP_SGD,
                                                          .u.sgd = {.count = c->model->flat_trained,
                                                                    .decay_count = decay_count,
                                                                    .momentum = o->momentum,
                                                                    .weight_decay = o->weight_decay,
                                                                    .nesterov = o->nesterov}});
    return DPTI_EMIT(c, sgd, ((int[]){gradients}), ((int[]){parameters, velocity}));
}

static dpt_status emit_adamw(dpti_compiler *c, int gradients, int parameters, size_t decay_count)
{
    const dpti_optimizer *o = &c->options->optimizer;
    int m, v;
    DPT_TRY(dpti_add_view(c, DPTI_HOME_VELOCITY, 0, &m));
    DPT_TRY(dpti_add_view(c, DPTI_HOME_SQUARES, 0, &v));
    const dpti_instruction adamw =
        lasting(c, (dpt_op_desc){.kind = DPT_OP_ADAMW,
                                 .u.adamw = {.count = c->model->flat_trained,
                                             .decay_count = decay_count,
                                             .beta1 = o->beta1,
                                             .beta2 = o->beta2,
                                             .epsilon = o->epsilon,
                                             .weight_decay = o->weight_decay}});
    return DPTI_EMIT(c, adamw, ((int[]){gradients}), ((int[]){parameters, m, v}));
}

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

/* Emits one instruction for each run of neighbouring statistics with the same momentum. */
static dpt_status emit_statistics(dpti_compiler *c)
{
    const dpt_model *m = c->model;
    size_t begin = m->flat_trained;
    float momentum = 0;
    for (size_t i = 0; i < m->n_parameters; i++) {
        const dpti_parameter *p = &m->parameters[i];
        if (!dpti_is_statistic(p->role)) continue;
        if (p->offset > begin && p->momentum != momentum) {
            DPT_TRY(emit_moving_average(c, begin, p->offset - begin, momentum));
            begin = p->offset;
        }
        momentum = p->momentum;
    }
    return begin == m->flat_size ? DPT_OK
                                 : emit_moving_average(c, begin, m->flat_size - begin, momentum);
}

static dpti_instruction looking(size_t count)
{
    return (dpti_instruction){
        .desc = {.kind = DPT_OP_CHECK_FINITE, .u.check_finite = {.count = count}}, .layer = "look"};
}

dpt_status dpti_emit_look(dpti_compiler *c)
{
    const dpti_instruction losses = looking(c->program->result_elements);
    dpti_instruction all = looking(c->model->flat_size);
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
    const size_t decay_count = o->no_bias_decay ? c->model->flat_weights : c->model->flat_trained;
    int gradients, parameters;
    DPT_TRY(dpti_add_view(c, DPTI_HOME_GRADIENTS, 0, &gradients));
    DPT_TRY(dpti_add_view(c, DPTI_HOME_PARAMETERS, 0, &parameters));
    DPT_TRY(emit_clipping(c, gradients));
    DPT_TRY(o->kind == DPT_OPTIMIZER_ADAMW ? emit_adamw(c, gradients, parameters, decay_count)
                                           : emit_sgd(c, gradients, parameters, decay_count));
    return emit_statistics(c);
}
