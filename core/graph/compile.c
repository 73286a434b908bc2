/* Compiles a model into a program: the passes in their order (see compile.h). */
#include "graph/compile.h"

#include <stdlib.h>

/* The gradient of a parameter that the logits depend on through integers alone is 0. */
static dpt_status clear_parameter(dpti_compiler *c, size_t parameter)
{
    int gradient;
    if (dpti_is_frozen(c, parameter)) return DPT_OK;
    const size_t size = c->model->parameters[parameter].size;
    DPT_TRY(dpti_add_gradient(c, parameter, &gradient));
    dpti_instruction zero = {.desc = dpti_fill_with(size, false, 0.0f),
                             .layer = c->model->parameters[parameter].name,
                             .flags = dpti_parameter_flags(c, parameter),
                             .per_step = true};
    dpti_store_operands(c, &zero.desc);
    DPT_TRY(dpti_emit(c, zero, (dpti_tensor_ids){NULL, 0}, (dpti_tensor_ids){&gradient, 1}));
    return dpti_end_bucket(c, parameter, 0);
}

static dpt_status emit_node_backward(dpti_compiler *c, size_t i)
{
    const dpti_node *node = &c->model->nodes[i];
    if (c->needs[c->root[i]]) return dpti_computes(c, i) ? dpti_emit_backward(c, i) : DPT_OK;
    DPT_TRY(clear_parameter(c, node->weight));
    return clear_parameter(c, node->bias);
}

static dpt_status compile_training(dpti_compiler *c)
{
    const size_t n = c->model->n_nodes;
    dpti_deferral_begin(c);
    if (c->chunked == SIZE_MAX) DPT_TRY(dpti_emit_loss_backward(c));
    for (size_t i = n; i-- > 0;) {
        DPT_TRY(dpti_emit_stage_again(c, i));
        if (i != c->chunked) DPT_TRY(emit_node_backward(c, i));
    }
    DPT_TRY(dpti_emit_held(c));
    if (c->options->single_launch) {
        c->program->n_gradients = c->model->flat_gradients;
        DPT_TRY(dpti_emit_look(c));
    } else {
        dpti_keep(c, c->program->result);
        DPT_TRY(dpti_end_segment(c, (dpti_segment){.exchange = DPTI_EXCHANGE_GRADIENTS}));
        DPT_TRY(dpti_emit_deferred(c));
    }
    DPT_TRY(dpti_emit_update(c));
    if (c->options->single_launch) dpti_keep(c, c->program->result);
    return dpti_end_segment(c, (dpti_segment){.commits = true});
}

static dpt_status compile(dpti_compiler *c)
{
    dpti_fuse(c);
    dpti_find_chunked(c);
    DPT_TRY(dpti_cut_stages(c));
    DPT_TRY(dpti_emit_gather(c));
    for (size_t i = 0; i < c->model->n_nodes; i++) {
        if (i == c->chunked) dpti_begin_chunks(c);
        if (dpti_computes(c, i)) DPT_TRY(dpti_emit_forward(c, i));
    }
    if (c->options->purpose == DPTI_PURPOSE_PREDICT) {
        c->program->result = c->value[c->root[c->model->logits]];
        c->program->result_elements = c->model->nodes[c->model->logits].elements;
        c->program->result_type = c->options->type;
    } else {
        DPT_TRY(dpti_emit_loss(c));
    }
    if (dpti_is_training(c)) return compile_training(c);
    /* The result is downloaded after the segment: it must outlive every instruction of the
       segment. */
    dpti_keep(c, c->program->result);
    return dpti_end_segment(c, (dpti_segment){.exchange = DPTI_EXCHANGE_NONE});
}

static void release(dpti_compiler *c)
{
    free(c->root);
    free(c->consumers);
    free(c->pending);
    free(c->residual);
    free(c->activation);
    free(c->value);
    free(c->gradient);
    free(c->moments);
    free(c->sums);
    free(c->reaches);
    free(c->needs);
    free(c->shared);
    dpti_recomputation_destroy(c->recompute);
    dpti_deferral_destroy(c->deferral);
}

static bool allocate(dpti_compiler *c, const bool *unread)
{
    const size_t n = c->model->n_nodes;
    c->root = calloc(n, sizeof *c->root);
    c->consumers = calloc(n, sizeof *c->consumers);
    c->pending = calloc(n, sizeof *c->pending);
    c->residual = calloc(n, sizeof *c->residual);
    c->activation = calloc(n, sizeof *c->activation);
    c->value = calloc(n, sizeof *c->value);
    c->gradient = calloc(n, sizeof *c->gradient);
    c->moments = calloc(n, sizeof *c->moments);
    c->sums = calloc(n, sizeof *c->sums);
    c->reaches = calloc(n, sizeof *c->reaches);
    c->needs = calloc(n, sizeof *c->needs);
    c->shared = calloc(c->model->n_parameters + 1, sizeof *c->shared);
    const bool defers = dpti_is_training(c) && c->options->deterministic;
    if (defers) c->deferral = dpti_deferral_create(c->model);
    if (defers && !c->deferral) return false;
    const bool again = dpti_is_training(c) && c->options->recompute;
    if (again) c->recompute = dpti_recomputation_create(c->model, unread);
    if (again && !c->recompute) return false;
    if (!c->root || !c->consumers || !c->pending || !c->residual || !c->activation || !c->value ||
        !c->gradient || !c->moments || !c->sums || !c->reaches || !c->needs || !c->shared)
        return false;
    for (size_t i = 0; i < n; i++) {
        c->residual[i] = SIZE_MAX;
        c->gradient[i] = c->moments[i] = c->sums[i] = DPTI_NO_TENSOR;
    }
    return true;
}

/* How a model is compiled; `unread` as in dpti_recomputation. */
typedef struct recipe {
    const dpt_model *model;
    const dpti_program_options *options;
    const bool *unread;
} recipe;

static dpt_status compile_by(const recipe *of, dpti_program *out, dpt_error *error)
{
    const dpt_model *model = of->model;
    dpti_program program = {.accumulates = of->options->accumulate};
    dpti_compiler c = {.model = model,
                       .options = of->options,
                       .program = &program,
                       .error = error,
                       .held = SIZE_MAX,
                       .written = model->flat_weights,
                       .bucketed = model->flat_weights};
    dpt_status status = DPT_OK;
    if (allocate(&c, of->unread))
        status = compile(&c);
    else
        status = DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to compile model %s", model->name);
    if (status == DPT_OK) dpti_place_chunks(&c);
    release(&c);
    if (status == DPT_OK)
        *out = program;
    else
        dpti_program_free(&program);
    return status;
}

/* The first program tells which values need not be computed again. */
static dpt_status compile_again(const recipe *of, bool *unread, dpti_program *out, dpt_error *error)
{
    const recipe second = {of->model, of->options, unread};
    dpti_program first;
    DPT_TRY(compile_by(of, &first, error));
    const dpt_status status = dpti_find_unread(of->model, &first, unread);
    dpti_program_free(&first);
    if (status != DPT_OK)
        return DPT_FAIL(error, status, "no memory to compile model %s", of->model->name);
    return compile_by(&second, out, error);
}

dpt_status dpti_compile(const dpt_model *model, const dpti_program_options *options,
                        dpti_program *out, dpt_error *error)
{
    const recipe of = {model, options, NULL};
    if (!options->recompute || options->purpose != DPTI_PURPOSE_TRAIN)
        return compile_by(&of, out, error);
    bool *unread = calloc(model->n_nodes, sizeof *unread);
    if (!unread)
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to compile model %s", model->name);
    const dpt_status status = compile_again(&of, unread, out, error);
    free(unread);
    return status;
}

dpt_status dpti_count_gradients(const dpt_model *model, const dpti_program_options *options,
                                size_t *out, dpt_error *error)
{
    dpti_program program;
    *out = model->flat_gradients;
    if (!options->deterministic) return DPT_OK;
    DPT_TRY(dpti_compile(model, options, &program, error));
    *out = program.n_gradients;
    dpti_program_free(&program);
    return DPT_OK;
}

void dpti_program_free(dpti_program *program)
{
    free(program->segments);
    free(program->tensors);
    free(program->instructions);
    *program = (dpti_program){0};
}
