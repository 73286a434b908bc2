/* The tensors of a checkpoint. */
#include "checkpoint/tensors.h"

#include "base/print.h"
#include "dpt_error.h"

#include <nettle/sha2.h>
#include <stdlib.h>
#include <string.h>

const char *dpti_behind_adapter(const char *name)
{
    const size_t n = strlen(DPTI_ADAPTER_PREFIX);
    return strncmp(name, DPTI_ADAPTER_PREFIX, n) == 0 ? name + n : NULL;
}

static bool is_of_adapter(const char *name)
{
    return dpti_behind_adapter(name) != NULL;
}

bool dpti_has_adapters(const dpti_safetensors *file)
{
    return dpti_safetensors_any(file, is_of_adapter);
}

/* PyTorch's batch-norm counts the batches that it has seen, as a 64-bit integer. */
static const char counter_suffix[] = ".num_batches_tracked";

static dpt_status no_memory(dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a checkpoint");
}

/* The length of the name of a batch-norm, of which *name becomes the beginning: that of its running
   mean in PyTorch.  A network of a file may name its tensors in another way; then it is the
   layer's. */
static size_t norm_name(const dpt_model *m, const dpti_node *node, const char **name)
{
    static const char suffix[] = ".running_mean";
    *name = m->parameters[node->mean].name;
    const size_t n = strlen(*name), behind = sizeof suffix - 1;
    if (n > behind && strcmp(*name + n - behind, suffix) == 0) return n - behind;
    *name = node->name;
    return strlen(node->name);
}

dpt_status dpti_tensors_create(const dpt_model *model, size_t n_kinds, dpti_tensors *out,
                               dpt_error *error)
{
    const size_t n = n_kinds * model->n_parameters + model->n_nodes;
    size_t most = 1;
    for (size_t i = 0; i < model->n_parameters; i++)
        if (model->parameters[i].size > most) most = model->parameters[i].size;
    *out = (dpti_tensors){.model = model,
                          .list = calloc(n, sizeof *out->list),
                          .names = calloc(n, sizeof *out->names),
                          .scratch = calloc(most, sizeof *out->scratch)};
    return out->list && out->names && out->scratch ? DPT_OK : no_memory(error);
}

void dpti_tensors_free(dpti_tensors *tensors)
{
    for (size_t i = 0; tensors->names && i < tensors->n; i++)
        free(tensors->names[i]);
    free(tensors->scratch);
    free(tensors->names);
    free(tensors->list);
    *tensors = (dpti_tensors){.n = 0};
}

/* Converts a parameter into a file's layout, in place. */
static void add_parameter(dpti_tensors *t, const dpti_parameter *p, const char *name, float *flat)
{
    dpti_tensor *tensor = &t->list[t->n++];
    if (p->layout != DPTI_LAYOUT_PLAIN) {
        dpti_parameter_export(p, flat + p->offset, t->scratch);
        memcpy(flat + p->offset, t->scratch, p->size * sizeof *flat);
    }
    *tensor = (dpti_tensor){.name = name,
                            .dtype = "F32",
                            .rank = p->rank,
                            .data = flat + p->offset,
                            .n_bytes = p->size * sizeof(float)};
    memcpy(tensor->shape, p->shape, p->rank * sizeof *p->shape);
}

/* Adds a parameter of a layer.  One that several layers share is added for the first of them. */
static dpt_status add_weight(dpti_tensors *t, size_t parameter, float *flat, dpt_error *error)
{
    if (parameter == SIZE_MAX) return DPT_OK;
    const dpti_parameter *p = &t->model->parameters[parameter];
    for (size_t i = 0; i < t->n; i++)
        if (t->list[i].name == p->name) return DPT_OK;
    if (t->model->lora && p->is_adapter == t->base) return DPT_OK;
    const char *name = p->name;
    if (p->is_adapter) {
        t->names[t->n] = dpti_format("%s%s", DPTI_ADAPTER_PREFIX, p->name);
        name = t->names[t->n];
        if (!name) return no_memory(error);
    }
    add_parameter(t, p, name, flat);
    return DPT_OK;
}

dpt_status dpti_tensors_add_weights(dpti_tensors *tensors, float *flat, int64_t batches,
                                    dpt_error *error)
{
    dpti_tensors *t = tensors;
    t->batches = batches;
    for (size_t i = 0; i < t->model->n_nodes; i++) {
        const dpti_node *node = &t->model->nodes[i];
        DPT_TRY(add_weight(t, node->weight, flat, error));
        DPT_TRY(add_weight(t, node->bias, flat, error));
        DPT_TRY(add_weight(t, node->mean, flat, error));
        DPT_TRY(add_weight(t, node->variance, flat, error));
        if (node->kind != DPTI_NODE_BATCH_NORM || dpti_count_updates(t->model, node->mean, i) <
                                                      dpti_count_updates(t->model, node->mean, 0))
            continue; /* of a batch-norm that is used several times: the first use */
        const char *norm;
        const size_t n = norm_name(t->model, node, &norm);
        char *name = dpti_format("%.*s%s", (int)n, norm, counter_suffix);
        if (!name) return no_memory(error);
        t->names[t->n] = name;
        t->list[t->n++] = (dpti_tensor){
            .name = name, .dtype = "I64", .data = &t->batches, .n_bytes = sizeof t->batches};
    }
    return DPT_OK;
}

char *dpti_optimizer_tensor(size_t number, const char *parameter)
{
    return dpti_format("%s%s", number == DPT_SQUARES ? DPTI_SQUARES_PREFIX : DPTI_VELOCITY_PREFIX,
                       parameter);
}

char *dpti_residual_tensor(size_t number, const char *parameter)
{
    return dpti_format(DPTI_RESIDUAL_PREFIX "%zu.%s", number, parameter);
}

char *dpti_outer_tensor(size_t number, const char *parameter)
{
    (void)number;
    return dpti_format(DPTI_OUTER_PREFIX "%s", parameter);
}

char *dpti_factor_tensor(size_t number, const char *parameter)
{
    (void)number;
    return dpti_format(DPTI_FACTOR_PREFIX "%s", parameter);
}

dpt_status dpti_tensors_add_state(dpti_tensors *tensors, dpti_state_kind kind, float *flat,
                                  dpt_error *error)
{
    dpti_tensors *t = tensors;
    for (size_t i = 0; i < t->model->n_parameters; i++) {
        const dpti_parameter *p = &t->model->parameters[i];
        if (dpti_is_statistic(p->role) || !dpti_has_gradient_place(t->model, p)) continue;
        char *name = kind.name_of(kind.number, p->name);
        if (!name) return no_memory(error);
        t->names[t->n] = name;
        add_parameter(t, p, name, flat);
    }
    return DPT_OK;
}

void dpti_tensors_sha256(const dpti_tensors *tensors, char out[DPTI_SHA256_TEXT])
{
    struct sha256_ctx sha256;
    uint8_t digest[SHA256_DIGEST_SIZE];
    sha256_init(&sha256);
    for (size_t i = 0; i < tensors->n; i++)
        sha256_update(&sha256, tensors->list[i].n_bytes, tensors->list[i].data);
    sha256_digest(&sha256, sizeof digest, digest);
    for (size_t i = 0; i < sizeof digest; i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

/* ---- Whose tensor is it? --------------------------------------------------------------------- */

bool dpti_is_counter(const dpt_model *model, const dpti_tensor *tensor)
{
    const dpt_model *m = model;
    const size_t length = strlen(tensor->name), suffix = strlen(counter_suffix);
    if (length <= suffix || strcmp(tensor->name + length - suffix, counter_suffix) != 0 ||
        strcmp(tensor->dtype, "I64") != 0 || tensor->n_bytes != sizeof(int64_t))
        return false;
    for (size_t i = 0; i < m->n_nodes; i++) {
        const char *norm;
        if (m->nodes[i].kind == DPTI_NODE_BATCH_NORM &&
            norm_name(m, &m->nodes[i], &norm) + suffix == length &&
            strncmp(norm, tensor->name, length - suffix) == 0)
            return true;
    }
    return false;
}

/* Returns the part of a name behind "owed.R."; NULL if the name has no such prefix. */
static const char *behind_residual(const char *name)
{
    const size_t n = strlen(DPTI_RESIDUAL_PREFIX);
    if (strncmp(name, DPTI_RESIDUAL_PREFIX, n) != 0) return NULL;
    const size_t digits = strspn(name + n, "0123456789");
    return digits > 0 && name[n + digits] == '.' ? name + n + digits + 1 : NULL;
}

bool dpti_is_state(const dpt_model *model, const dpti_tensor *tensor)
{
    const char *const prefixes[] = {DPTI_VELOCITY_PREFIX, DPTI_SQUARES_PREFIX, DPTI_OUTER_PREFIX,
                                    DPTI_FACTOR_PREFIX};
    const char *residual = behind_residual(tensor->name);
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
        const size_t n = strlen(prefixes[i]);
        if (strncmp(tensor->name, prefixes[i], n) == 0 &&
            dpti_model_parameter(model, tensor->name + n))
            return true;
    }
    return residual && dpti_model_parameter(model, residual);
}
