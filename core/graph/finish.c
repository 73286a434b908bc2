/* Finishes a model: checks that it is whole, and gives every parameter its place. */
#include "base/size.h"
#include "base/text.h"
#include "context/context.h"
#include "graph/lora.h"
#include "graph/tensor.h"

#include <stdlib.h>
#include <string.h>

/* Places parameters after those that are placed already: those with roles from `first` to `last`
   of which frozen[i] is `is_frozen`.  `frozen` is NULL if none is. */
typedef struct placing {
    dpti_role first, last;
    const bool *frozen;
    bool is_frozen;
} placing;

static void place(dpt_model *model, placing of)
{
    for (size_t i = 0; i < model->n_parameters; i++) {
        dpti_parameter *p = &model->parameters[i];
        const bool frozen = of.frozen && of.frozen[i] && !dpti_is_statistic(p->role);
        if (p->role < of.first || p->role > of.last || frozen != of.is_frozen) continue;
        p->offset = model->flat_size;
        model->flat_size += dpti_round_up(p->size, DPTI_PARAMETER_ALIGNMENT);
    }
}

/* Gives all parameters their places. */
static void place_all(dpt_model *model, const bool *frozen)
{
    dpt_model *m = model;
    m->flat_size = 0;
    /* Tensors come first: no bucket of the backward pass ends with them (buckets.c). */
    place(m, (placing){DPTI_ROLE_TENSOR, DPTI_ROLE_TENSOR, frozen, false});
    place(m, (placing){DPTI_ROLE_WEIGHT, DPTI_ROLE_WEIGHT, frozen, false});
    m->flat_weights = m->flat_size;
    place(m, (placing){DPTI_ROLE_BIAS, DPTI_ROLE_NORM_BIAS, frozen, false});
    m->flat_trained = m->flat_size;
    place(m, (placing){DPTI_ROLE_RUNNING_MEAN, DPTI_ROLE_RUNNING_VARIANCE, frozen, false});
    /* A buffer is not empty, even if all parameters are frozen. */
    if (m->flat_size == 0) m->flat_size = DPTI_PARAMETER_ALIGNMENT;
    m->flat_gradients = m->flat_size;
    place(m, (placing){DPTI_ROLE_WEIGHT, DPTI_ROLE_TENSOR, frozen, true});
}

dpt_model *dpti_model_arrange(const dpt_model *model, const bool *frozen)
{
    dpt_model *m = malloc(sizeof *m);
    dpti_parameter *parameters = calloc(model->n_parameters, sizeof *parameters);
    char *config = model->config ? dpti_strdup(model->config) : NULL; /* it may be set anew */
    if (!m || !parameters || (model->config && !config)) {
        free(m);
        free(parameters);
        free(config);
        return NULL;
    }
    *m = *model;
    m->config = config;
    memcpy(parameters, model->parameters, m->n_parameters * sizeof *parameters);
    m->parameters = parameters;
    place_all(m, frozen);
    return m;
}

void dpti_model_free_arranged(dpt_model *arranged)
{
    if (!arranged) return;
    free(arranged->parameters);
    free(arranged->config);
    free(arranged);
}

/* Whether there are parameters other than running statistics. */
static bool has_parameters(const dpt_model *model)
{
    for (size_t i = 0; i < model->n_parameters; i++)
        if (!dpti_is_statistic(model->parameters[i].role)) return true;
    return false;
}

/* Whether a node may be left over: it computes nothing and has no gradient. */
static bool is_idle(const dpti_node *node)
{
    return node->kind == DPTI_NODE_CONSTANT || node->kind == DPTI_NODE_VIEW;
}

/* Checks that every layer leads to the logits; the gradient of another layer would never be
   computed.  A model that is read in steps has no gradients. */
static bool all_used(dpt_model *model)
{
    bool *used = calloc(model->n_nodes, sizeof *used);
    if (!used) {
        (void)DPTI_MODEL_FAIL(model, DPT_E_NO_MEMORY, "no memory for model %s", model->name);
        return false;
    }
    used[model->logits] = true;
    for (size_t i = model->n_nodes; i-- > 0;)
        for (size_t j = 0; used[i] && j < model->nodes[i].n_inputs; j++)
            used[model->nodes[i].inputs[j]] = true;
    for (size_t i = 0; i < model->n_nodes && model->steps; i++)
        model->nodes[i].unused = !used[i];
    for (size_t i = 0; i < model->n_nodes && model->status == DPT_OK && !model->steps; i++)
        if (!used[i] && !is_idle(&model->nodes[i]))
            (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID,
                                  "layer %s does not lead to the output of model %s",
                                  model->nodes[i].name, model->name);
    free(used);
    return model->status == DPT_OK;
}

/* Checks the logits, which are flat, and gives every parameter its place. */
static dpt_status finish(dpt_model *model, dpt_value logits, size_t n_labels)
{
    if (dpti_usable(model, logits, "dpt_model_finish")) {
        const dpti_node *node = &model->nodes[logits.id - 1];
        model->logits = logits.id - 1;
        model->n_labels = n_labels;
        const dpt_op_desc loss = {.kind = DPT_OP_SOFTMAX_XENT_GRADIENT,
                                  .u.softmax = {.classes = node->elements / n_labels}};
        if (!node->extent.flat)
            (void)DPTI_MODEL_FAIL(
                model, DPT_E_INVALID,
                "model %s: its output is an image; put dpt_flatten before the last "
                "layer, or finish it with dpt_model_finish_per_pixel",
                model->name);
        else if (dpti_describes(model, "loss", &loss) && all_used(model)) {
            dpti_lora_finish(model);
            if (!has_parameters(model))
                (void)DPTI_MODEL_FAIL(model, DPT_E_INVALID, "model %s has no parameters to train",
                                      model->name);
        }
    }
    if (model->status != DPT_OK) return dpti_context_fail(model->context, NULL, &model->error);
    place_all(model, NULL);
    model->all_weights = model->flat_weights;
    for (size_t i = 0; i < model->n_parameters; i++) {
        const dpti_parameter *p = &model->parameters[i];
        if (!dpti_is_statistic(p->role) && (!p->frozen || model->lora)) model->scalars += p->size;
    }
    model->finished = true;
    return DPT_OK;
}

void dpti_name_output(dpt_model *model, dpt_value output)
{
    if (model->output == SIZE_MAX && output.id) model->output = output.id - 1;
}

dpt_status dpt_model_finish(dpt_model *model, dpt_value logits)
{
    if (!model) return DPT_E_INVALID;
    dpti_name_output(model, logits);
    if (dpti_usable(model, logits, "dpt_model_finish") && model->nodes[logits.id - 1].has_shape)
        logits = dpti_row_major(model, dpti_as_flat(model, logits));
    return finish(model, logits, 1);
}

dpt_status dpti_model_finish_rows(dpt_model *model, dpt_value logits, size_t n_rows)
{
    logits = dpti_row_major(model, logits);
    return finish(model, logits.id ? dpti_as_flat(model, logits) : logits, n_rows);
}

dpt_status dpt_model_finish_per_pixel(dpt_model *model, dpt_value logits)
{
    static const size_t order[DPT_MAX_RANK] = {1, 2, 0};
    if (!model) return DPT_E_INVALID;
    if (!dpti_usable(model, logits, "dpt_model_finish_per_pixel")) return finish(model, logits, 1);
    const dpti_extent e = model->nodes[logits.id - 1].extent;
    dpti_name_output(model, logits);
    if (e.flat)
        (void)DPTI_MODEL_FAIL(
            model, DPT_E_INVALID,
            "model %s: its output is no image, so there are no pixels with labels; "
            "finish it with dpt_model_finish",
            model->name);
    else
        logits = dpti_transpose(model, logits, order); /* (c, h, w) in the axes of shapes */
    return dpti_model_finish_rows(model, logits, e.flat ? 1 : e.h * e.w);
}
