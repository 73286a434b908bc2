/* Adding adapters to base weights (dpt_lora_merge of dptrain/lora.h). */
#include "dptrain/lora.h"

#include "checkpoint/config.h"
#include "checkpoint/origin.h"
#include "checkpoint/tensor_source.h"
#include "context/context.h"
#include "context/sized.h"
#include "graph/lora.h"
#include "io/shards.h"
#include "train/replicas/base_hash.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct merge {
    dpt_context *context;
    dpt_model *model; /* arranged: the base lies behind the adapters */
    const dpt_lora_files *files;
    float *flat, *outside;
} merge;

/* ---- Reading --------------------------------------------------------------------------------- */

static dpt_status check_base(const merge *m, const dpti_safetensors *adapter)
{
    const char *recorded = dpti_safetensors_metadata(adapter, DPTI_BASE_KEY);
    char hash[DPTI_HASH_TEXT];
    if (!recorded) return DPT_OK;
    dpti_base_hash_of(m->model, m->flat, hash);
    if (strcmp(hash, recorded) == 0) return DPT_OK;
    return dpt_fail(m->context, DPT_E_INVALID,
                    "%s has adapters of other base weights than %s: merge with the weights with "
                    "which it was trained",
                    m->files->adapter, m->files->base);
}

/* Reads the base, or adapters, whose base was read before. */
static dpt_status read_weights(const merge *m, const char *path, bool adapters)
{
    dpti_safetensors *file = NULL;
    dpt_error error = {0};
    const size_t most = dpti_weights_most_bytes(m->model, 3, 1024) + DPTI_OTHER_MODEL_BYTES;
    if (dpti_shards_read(path, most, &file, &error) != DPT_OK)
        return dpti_context_fail(m->context, NULL, &error);
    const dpti_tensor_source source = {.context = m->context,
                                       .model = m->model,
                                       .path = path,
                                       .file = file,
                                       .outside = m->outside};
    dpt_status status = dpti_tensor_source_check_seal(&source);
    if (status == DPT_OK && dpti_has_adapters(file) != adapters)
        status = dpt_fail(m->context, DPT_E_INVALID, "%s has %s", path,
                          adapters ? "no adapters" : "adapters, and not the weights of a base");
    if (status == DPT_OK && adapters) status = check_base(m, file);
    if (status == DPT_OK) status = dpti_weights_read(&source, NULL, m->flat);
    dpti_safetensors_close(file);
    return status;
}

/* ---- Adding ---------------------------------------------------------------------------------- */

static const dpti_node *layer_of(const dpt_model *model, const dpti_node *half)
{
    const size_t n = strlen(half->name) - strlen(".lora_A");
    for (size_t i = 0; i < model->n_nodes; i++)
        if (strlen(model->nodes[i].name) == n && strncmp(model->nodes[i].name, half->name, n) == 0)
            return &model->nodes[i];
    return NULL;
}

typedef struct matrix {
    const float *values;
    size_t columns;
} matrix;

/* Adds a row of B * A, which is computed in double precision. */
static void add_row(const dpti_lora *lora, const float *b, matrix a, float *row)
{
    const double scale = lora->alpha / (double)lora->rank;
    for (size_t i = 0; i < a.columns; i++) {
        double sum = 0;
        for (size_t r = 0; r < lora->rank; r++)
            sum += (double)b[r] * (double)a.values[r * a.columns + i];
        row[i] = (float)((double)row[i] + scale * sum);
    }
}

static void add_adapter(const merge *m, const dpti_node *half_a, const dpti_node *half_b)
{
    const dpti_parameter *all = m->model->parameters;
    const dpti_node *layer = layer_of(m->model, half_a);
    const dpti_parameter *a = &all[half_a->weight], *b = &all[half_b->weight],
                         *w = &all[layer->weight];
    const dpti_lora *lora = m->model->lora;
    const size_t in = a->size / lora->rank, out = b->size / lora->rank;
    for (size_t o = 0; o < out; o++)
        add_row(lora, m->flat + b->offset + o * lora->rank, (matrix){m->flat + a->offset, in},
                m->flat + w->offset + o * in);
}

/* The two halves of an adapter are the only nodes with adapters' weights, A first. */
static void add_all(const merge *m)
{
    const dpti_node *half = NULL;
    for (size_t i = 0; i < m->model->n_nodes; i++) {
        const dpti_node *node = &m->model->nodes[i];
        if (node->weight == SIZE_MAX || !m->model->parameters[node->weight].is_adapter) continue;
        if (half) add_adapter(m, half, node);
        half = half ? NULL : node;
    }
}

/* ---- All of it ------------------------------------------------------------------------------- */

static dpt_status write_sum(const merge *m, dpt_error *error)
{
    const char *metadata[] = {"format", "pt", "model", m->model->name, NULL};
    dpti_tensors tensors = {.n = 0};
    dpt_status status = dpti_tensors_create(m->model, 1, &tensors, error);
    tensors.base = true;
    if (status == DPT_OK) status = dpti_tensors_add_weights(&tensors, m->flat, 0, error);
    if (status == DPT_OK)
        status = dpti_safetensors_seal(&(dpti_tensor_file){.path = m->files->merged,
                                                           .tensors = tensors.list,
                                                           .n_tensors = tensors.n,
                                                           .metadata = metadata},
                                       error);
    dpti_tensors_free(&tensors);
    return status == DPT_OK ? dpti_config_write_base(m->model, m->files->merged, error) : status;
}

/* The sum may be infinite although both parts are finite. */
static dpt_status check_sum(const merge *m)
{
    for (size_t i = 0; i < m->model->n_parameters; i++) {
        const dpti_parameter *p = &m->model->parameters[i];
        for (size_t k = 0; !p->is_adapter && k < p->size; k++)
            if (!isfinite(m->flat[p->offset + k]))
                return dpt_fail(m->context, DPT_E_FORMAT,
                                "the sum: tensor %s has a value that is not finite", p->name);
    }
    return DPT_OK;
}

static dpt_status run(const merge *m)
{
    dpt_error error = {.status = DPT_OK};
    DPT_TRY(read_weights(m, m->files->base, false));
    DPT_TRY(read_weights(m, m->files->adapter, true));
    add_all(m);
    DPT_TRY(check_sum(m));
    if (write_sum(m, &error) == DPT_OK) return DPT_OK;
    return dpti_context_fail(m->context, NULL, &error);
}

/* The arranged copy, in which the base is as in a trainer, so that its hash is the same. */
static dpt_model *arrange(const dpt_model *model)
{
    bool *frozen = calloc(model->n_parameters + 1, sizeof *frozen);
    for (size_t i = 0; frozen && i < model->n_parameters; i++)
        frozen[i] = !model->parameters[i].is_adapter;
    dpt_model *arranged = frozen ? dpti_model_arrange(model, frozen) : NULL;
    free(frozen);
    return arranged;
}

dpt_status dpt_lora_merge(const dpt_model *model, const dpt_lora_files *files)
{
    dpt_lora_files f;
    if (!model) return DPT_E_INVALID;
    DPT_TRY(dpti_take_sized(model->context, &(dpti_sized){"dpt_lora_files", files, sizeof f}, &f));
    if (!f.base || !f.adapter || !f.merged)
        return dpt_fail(model->context, DPT_E_INVALID,
                        "merging needs files of the base, of the adapters and of the sum");
    if (!model->lora || !model->finished)
        return dpt_fail(model->context, DPT_E_INVALID,
                        "merging needs a finished model with adapters");
    merge m = {.context = model->context, .files = &f, .model = arrange(model)};
    if (m.model) {
        m.flat = calloc(model->flat_size, sizeof *m.flat);
        m.outside = malloc(model->flat_size * sizeof *m.outside);
    }
    const dpt_status status =
        m.flat && m.outside ? run(&m)
                            : dpt_fail(model->context, DPT_E_NO_MEMORY, "no memory for weights");
    free(m.flat);
    free(m.outside);
    dpti_model_free_arranged(m.model);
    return status;
}
