/* A model: creation and description.  layers.c adds the layers, finish.c finishes the model. */
#include "graph/model.h"
#include "graph/lora_options.h"

#include "base/text.h"
#include "context/context.h"
#include "context/sized.h"

#include <stdlib.h>
#include <string.h>

dpt_status dpt_model_create(dpt_context *context, const char *name, dpt_model **out)
{
    if (!name || !*name) return dpt_fail(context, DPT_E_INVALID, "a model needs a name");
    const size_t n_plain = dpti_plain_bytes(name);
    if (name[n_plain])
        return dpt_fail(context, DPT_E_INVALID,
                        "byte %zu of a model's name is a control character or not UTF-8; choose "
                        "another name",
                        n_plain + 1);
    dpt_model *model = calloc(1, sizeof *model);
    if (model) model->name = dpti_strdup(name);
    if (!model || !model->name) {
        free(model);
        return dpt_fail(context, DPT_E_NO_MEMORY, "no memory for a model");
    }
    model->context = context;
    model->input = model->ids = model->logits = model->output = SIZE_MAX;
    *out = model;
    return DPT_OK;
}

void dpt_model_destroy(dpt_model *model)
{
    if (!model) return;
    for (size_t i = 0; i < model->n_nodes; i++)
        free(model->nodes[i].name);
    for (size_t i = 0; i < model->n_parameters; i++) {
        free(model->parameters[i].name);
        free(model->parameters[i].initial);
        dpti_kept_file_release(model->parameters[i].stored.file);
    }
    for (size_t i = 0; i < model->n_inputs; i++)
        free(model->inputs[i].name);
    for (size_t i = 0; i < model->n_remarks; i++)
        free(model->remarks[i]);
    free(model->remarks);
    free(model->config);
    free(model->recipe.how);
    if (model->steps) free(model->steps->kept);
    free(model->steps);
    dpti_lora_free(model->lora);
    free(model->nodes);
    free(model->parameters);
    free(model->constants);
    free(model->file_input.name);
    free(model->file_output.name);
    free(model->name);
    free(model);
}

dpt_status dpt_model_set_config(dpt_model *model, const char *text)
{
    if (!model) return DPT_E_INVALID;
    if (!text) return dpt_fail(model->context, DPT_E_INVALID, "the text of config.json is NULL");
    char *copy = dpti_strdup(text);
    if (!copy) return dpt_fail(model->context, DPT_E_NO_MEMORY, "no memory for config.json");
    free(model->config);
    model->config = copy;
    return DPT_OK;
}

dpt_status dpt_model_set_recipe(dpt_model *model, const dpt_model_recipe *recipe)
{
    dpt_model_recipe r;
    if (!model) return DPT_E_INVALID;
    DPT_TRY(
        dpti_take_sized(model->context, &(dpti_sized){"dpt_model_recipe", recipe, sizeof r}, &r));
    if (!r.build || (r.how_bytes > 0 && !r.how))
        return dpt_fail(model->context, DPT_E_INVALID,
                        "dpt_model_recipe needs a function that adds the layers");
    void *how = r.how_bytes > 0 ? malloc(r.how_bytes) : NULL;
    if (r.how_bytes > 0 && !how)
        return dpt_fail(model->context, DPT_E_NO_MEMORY, "no memory for a model");
    if (how) memcpy(how, r.how, r.how_bytes);
    free(model->recipe.how);
    model->recipe = (dpti_recipe){.build = r.build, .how = how, .context = r.context};
    return DPT_OK;
}

/* ---- Looking at a model ---------------------------------------------------------------------- */

const char *dpt_model_name(const dpt_model *model)
{
    return model->name;
}

size_t dpt_model_parameter_count(const dpt_model *model)
{
    return model->scalars;
}

size_t dpt_model_outputs(const dpt_model *model)
{
    return model->finished ? model->nodes[model->logits].elements / model->n_labels : 0;
}

size_t dpt_model_labels(const dpt_model *model)
{
    return model->finished ? model->n_labels : 0;
}

size_t dpt_model_tensor_count(const dpt_model *model)
{
    return model->n_parameters;
}

void dpt_model_tensor(const dpt_model *model, size_t i, dpt_parameter_info *out)
{
    dpt_parameter_info info = {.size = sizeof info};
    if (i < model->n_parameters) {
        const dpti_parameter *p = &model->parameters[i];
        info.name = p->name;
        info.rank = p->rank;
        info.elements = p->size;
        info.trained = !dpti_is_statistic(p->role) && !p->frozen;
        memcpy(info.shape, p->shape, sizeof info.shape);
    }
    (void)dpti_give_sized(&info, sizeof info,
                          out); /* without a size the program's struct stays as it is */
}

size_t dpt_model_layer_count(const dpt_model *model)
{
    return model->n_nodes;
}

static double multiply_adds(const dpti_node *node)
{
    if (node->kind == DPTI_NODE_RECURRENT)
        return (double)(dpt_recurrent_gates(node->forward.u.recurrent.cell) *
                        node->forward.u.recurrent.length) *
               (double)node->forward.u.recurrent.hidden * (double)node->forward.u.recurrent.hidden;
    if (node->kind == DPTI_NODE_LINEAR || node->kind == DPTI_NODE_PROJECTION)
        return (double)node->forward.u.linear.in * (double)node->elements;
    if (node->kind == DPTI_NODE_PRODUCT)
        return (double)node->forward.u.matmul.inner * (double)node->elements;
    if (node->kind == DPTI_NODE_ATTENTION)
        return 2.0 * (double)node->forward.u.attention.keys * (double)node->elements;
    if (node->kind != DPTI_NODE_CONV2D && node->kind != DPTI_NODE_CONV2D_TRANSPOSE) return 0;
    const dpt_conv2d_desc *d = &node->forward.u.conv2d;
    return (double)(d->out_h * d->out_w * d->out_channels) * (double)(d->kernel_h * d->kernel_w) *
           (double)(d->in_channels / d->groups);
}

void dpt_model_layer(const dpt_model *model, size_t i, dpt_layer_info *out)
{
    static const char *const kinds[] = {
        [DPTI_NODE_INPUT] = "input",
        [DPTI_NODE_CONV2D] = "conv2d",
        [DPTI_NODE_LINEAR] = "linear",
        [DPTI_NODE_POOL2D] = "pool2d",
        [DPTI_NODE_ACTIVATE] = "activation",
        [DPTI_NODE_ADD] = "add",
        [DPTI_NODE_FLATTEN] = "flatten",
        [DPTI_NODE_BATCH_NORM] = "batch_norm",
        [DPTI_NODE_LAYER_NORM] = "layer_norm",
        [DPTI_NODE_DROPOUT] = "dropout",
        [DPTI_NODE_ELEMENTWISE] = "elementwise",
        [DPTI_NODE_VIEW] = "view",
        [DPTI_NODE_JOIN] = "join",
        [DPTI_NODE_PARAMETER] = "parameter",
        [DPTI_NODE_CONSTANT] = "constant",
        [DPTI_NODE_EMBEDDING] = "embedding",
        [DPTI_NODE_PRODUCT] = "product",
        [DPTI_NODE_SOFTMAX] = "softmax",
        [DPTI_NODE_CONV2D_TRANSPOSE] = "conv2d_transpose",
        [DPTI_NODE_PROJECTION] = "projection",
        [DPTI_NODE_RECURRENT] = "recurrent",
        [DPTI_NODE_ATTENTION] = "attention",
        [DPTI_NODE_CALL] = "operator",
    };
    dpt_layer_info info = {.size = sizeof info};
    if (i < model->n_nodes) {
        const dpti_node *node = &model->nodes[i];
        info.name = node->name;
        info.kind = kinds[node->kind];
        info.height = node->extent.h;
        info.width = node->extent.w;
        info.channels = node->extent.c;
        info.multiply_adds = multiply_adds(node);
        if (node->weight != SIZE_MAX) info.parameters += model->parameters[node->weight].size;
        if (node->bias != SIZE_MAX) info.parameters += model->parameters[node->bias].size;
    }
    (void)dpti_give_sized(&info, sizeof info,
                          out); /* without a size the program's struct stays as it is */
}

const dpti_parameter *dpti_model_parameter(const dpt_model *model, const char *name)
{
    for (size_t i = 0; i < model->n_parameters; i++)
        if (strcmp(model->parameters[i].name, name) == 0) return &model->parameters[i];
    return NULL;
}

bool dpti_model_has_gradient(const dpt_model *model)
{
    bool *reached = calloc(model->n_nodes, sizeof *reached), found = !reached;
    if (reached) reached[model->logits] = true;
    for (size_t i = model->n_nodes; reached && i-- > 0;) {
        const dpti_node *node = &model->nodes[i];
        if (!reached[i] || node->integer) continue;
        found = found || node->weight != SIZE_MAX || node->bias != SIZE_MAX;
        for (size_t k = 0; k < node->n_inputs; k++)
            reached[node->inputs[k]] = true;
    }
    free(reached);
    return found;
}

size_t dpti_count_updates(const dpt_model *model, size_t statistic, size_t from)
{
    size_t n = 0;
    for (size_t i = from; i < model->n_nodes; i++)
        n += model->nodes[i].mean == statistic || model->nodes[i].variance == statistic;
    return n;
}

bool dpti_model_has_batch_norm(const dpt_model *model)
{
    for (size_t i = 0; i < model->n_nodes; i++)
        if (model->nodes[i].kind == DPTI_NODE_BATCH_NORM) return true;
    return false;
}

bool dpt_model_gives_loss(const dpt_model *model)
{
    return model->finished && model->gives_loss;
}

bool dpt_model_has_gradient(const dpt_model *model)
{
    return model->finished && dpti_model_has_gradient(model);
}

/* ---- Remarks --------------------------------------------------------------------------------- */

dpt_status dpti_model_add_remark(dpt_model *model, char *text)
{
    char **grown = text ? realloc(model->remarks, (model->n_remarks + 1) * sizeof *grown) : NULL;
    if (!grown) {
        free(text);
        return DPT_E_NO_MEMORY;
    }
    model->remarks = grown;
    model->remarks[model->n_remarks++] = text;
    return DPT_OK;
}

const char *dpt_model_remark(const dpt_model *model, size_t i)
{
    return i < model->n_remarks ? model->remarks[i] : NULL;
}
