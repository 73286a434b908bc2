/* Checkpoints: weights and running statistics as safetensors with PyTorch's names and layouts. */
#include "train/trainer.h"

#include "base/base.h"
#include "io/safetensors.h"

#include <stdlib.h>
#include <string.h>

/* PyTorch's batch-norm counts the batches that it has seen, as a 64-bit integer. */
static const char counter_suffix[] = ".num_batches_tracked";

/* ---- Saving ---------------------------------------------------------------------------------- */

/* A file in the making. */
typedef struct writer {
    dpt_trainer *trainer;
    float *flat, *outside; /* flat_size: weights as they are inside, and as they are in a file */
    dpti_tensor *tensors;
    size_t n_tensors;
    int64_t batches; /* that the running statistics have seen */
} writer;

static void add_parameter(writer *w, size_t parameter)
{
    if (parameter == SIZE_MAX) return;
    const dpti_parameter *p = &w->trainer->model->parameters[parameter];
    dpti_tensor *tensor = &w->tensors[w->n_tensors++];
    dpti_parameter_export(p, w->flat + p->offset, w->outside + p->offset);
    *tensor = (dpti_tensor){.name = p->name,
                            .dtype = "F32",
                            .rank = p->rank,
                            .data = w->outside + p->offset,
                            .n_bytes = p->size * sizeof(float)};
    memcpy(tensor->shape, p->shape, p->rank * sizeof *p->shape);
}

/* A layer's tensors, in the order of PyTorch's state dict. */
static dpt_status add_layer(writer *w, const dpti_node *node)
{
    add_parameter(w, node->weight);
    add_parameter(w, node->bias);
    add_parameter(w, node->mean);
    add_parameter(w, node->variance);
    if (node->kind != DPTI_NODE_BATCH_NORM) return DPT_OK;
    const char *name = dpti_format("%s%s", node->name, counter_suffix);
    if (!name) return dpt_fail(w->trainer->context, DPT_E_NO_MEMORY, "no memory for a checkpoint");
    w->tensors[w->n_tensors++] = (dpti_tensor){
        .name = name, .dtype = "I64", .data = &w->batches, .n_bytes = sizeof w->batches};
    return DPT_OK;
}

static dpt_status write_file(writer *w, const char *path)
{
    dpt_trainer *t = w->trainer;
    const dpt_model *m = t->model;
    dpt_error error = {0};
    char steps[24];
    for (size_t i = 0; i < m->n_nodes; i++)
        DPT_TRY(add_layer(w, &m->nodes[i]));
    snprintf(steps, sizeof steps, "%zu", t->done.step);
    const char *const metadata[] = {"format", "pt", "model", m->name, "steps", steps, NULL};
    if (dpti_safetensors_write(path, w->tensors, w->n_tensors, metadata, &error) != DPT_OK)
        return dpti_context_fail(t->context, NULL, &error);
    return DPT_OK;
}

static void release(writer *w)
{
    for (size_t i = 0; i < w->n_tensors; i++)
        if (w->tensors[i].data == &w->batches) free((char *)(uintptr_t)w->tensors[i].name);
    free(w->tensors);
    free(w->outside);
    free(w->flat);
}

/* The weights, of the first replica that can be read: a lost device keeps its own to itself. */
static dpt_status read_trusted(dpt_trainer *t, float *flat)
{
    dpt_status status = DPT_E_STATE;
    for (size_t i = 0; i < t->n_workers; i++) {
        if (t->workers[i].stale) continue;
        status = dpti_trainer_read(t, i, DPT_PARAMETER, flat);
        if (status != DPT_E_DEVICE_LOST) return status;
    }
    return status;
}

dpt_status dpt_trainer_save(dpt_trainer *trainer, const char *path)
{
    dpt_trainer *t = trainer;
    DPT_TRY(dpti_trainer_idle(t, "dpt_trainer_save"));
    if (dpti_trainer_trusted(t) == t->n_workers)
        return dpt_fail(t->context, DPT_E_STATE,
                        "no device holds trusted weights: nothing to save");
    writer w = {.trainer = t,
                .flat = dpti_trainer_make_flat(t),
                .outside = dpti_trainer_make_flat(t),
                .tensors = calloc(t->model->n_parameters + t->model->n_nodes, sizeof *w.tensors),
                .batches = (int64_t)(t->batches_before + t->done.step)};
    dpt_status status = w.flat && w.outside ? DPT_OK : DPT_E_NO_MEMORY;
    if (!w.tensors)
        status = dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for the checkpoint's tensors");
    if (status == DPT_OK) status = read_trusted(t, w.flat);
    if (status == DPT_OK) status = write_file(&w, path);
    release(&w);
    return status;
}

/* ---- Loading --------------------------------------------------------------------------------- */

static dpt_status describe_mismatch(dpt_trainer *t, const char *path, const dpti_parameter *p,
                                    const dpti_tensor *tensor)
{
    char wanted[96] = "", found[192] = "";
    size_t n = 0;
    for (size_t i = 0; i < p->rank && n < sizeof wanted; i++)
        n += (size_t)snprintf(wanted + n, sizeof wanted - n, "%s%zu", i ? "x" : "", p->shape[i]);
    n = 0;
    for (size_t i = 0; i < tensor->rank && n < sizeof found; i++)
        n += (size_t)snprintf(found + n, sizeof found - n, "%s%zu", i ? "x" : "", tensor->shape[i]);
    return dpt_fail(t->context, DPT_E_INVALID,
                    "%s: tensor %s is %s %s, but model %s wants F32 %s; is it the checkpoint of "
                    "another model?",
                    path, p->name, tensor->dtype, found, t->model->name, wanted);
}

static dpt_status read_tensor(dpt_trainer *t, const char *path, const dpti_safetensors *file,
                              const dpti_parameter *p, float *outside)
{
    const dpti_tensor *tensor = dpti_safetensors_find(file, p->name);
    if (!tensor)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "%s has no tensor %s; is it the checkpoint of another model than %s?", path,
                        p->name, t->model->name);
    if (strcmp(tensor->dtype, "F32") != 0 || tensor->rank != p->rank ||
        memcmp(tensor->shape, p->shape, p->rank * sizeof *p->shape) != 0)
        return describe_mismatch(t, path, p, tensor);
    memcpy(outside, tensor->data, p->size * sizeof *outside); /* the file's data are not aligned */
    return DPT_OK;
}

/* Whether this is the counter of one of the model's batch-norms, and a sound one. */
static bool is_counter(const dpt_model *m, const dpti_tensor *tensor)
{
    const size_t length = strlen(tensor->name), suffix = strlen(counter_suffix);
    if (length <= suffix || strcmp(tensor->name + length - suffix, counter_suffix) != 0 ||
        strcmp(tensor->dtype, "I64") != 0 || tensor->n_bytes != sizeof(int64_t))
        return false;
    for (size_t i = 0; i < m->n_nodes; i++)
        if (m->nodes[i].kind == DPTI_NODE_BATCH_NORM &&
            strlen(m->nodes[i].name) + suffix == length &&
            strncmp(m->nodes[i].name, tensor->name, length - suffix) == 0)
            return true;
    return false;
}

/* A tensor of the file that the model has no use for is a sign of another model. */
static dpt_status all_known(dpt_trainer *t, const char *path, const dpti_safetensors *file)
{
    for (size_t i = 0; i < dpti_safetensors_count(file); i++) {
        const dpti_tensor *tensor = dpti_safetensors_get(file, i);
        const char *name = tensor->name;
        if (!dpti_model_parameter(t->model, name) && !is_counter(t->model, tensor))
            return dpt_fail(t->context, DPT_E_INVALID,
                            "%s has a tensor %s that model %s does not have; is it the checkpoint "
                            "of another model?",
                            path, name, t->model->name);
    }
    return DPT_OK;
}

static dpt_status read_checkpoint(dpt_trainer *t, const char *path, const dpti_safetensors *file,
                                  float *flat, float *outside)
{
    DPT_TRY(all_known(t, path, file));
    for (size_t i = 0; i < t->model->n_parameters; i++) {
        const dpti_parameter *p = &t->model->parameters[i];
        DPT_TRY(read_tensor(t, path, file, p, outside));
        dpti_parameter_import(p, outside, flat + p->offset);
    }
    return DPT_OK;
}

/* How many batches the running statistics of a file have seen; 0 if it does not say. */
static size_t batches_of(const dpt_model *m, const dpti_safetensors *file)
{
    int64_t batches = 0;
    for (size_t i = 0; i < dpti_safetensors_count(file); i++) {
        const dpti_tensor *tensor = dpti_safetensors_get(file, i);
        if (is_counter(m, tensor)) memcpy(&batches, tensor->data, sizeof batches);
    }
    return batches > 0 ? (size_t)batches : 0;
}

dpt_status dpt_trainer_load(dpt_trainer *trainer, const char *path)
{
    dpt_trainer *t = trainer;
    dpti_safetensors *file = NULL;
    dpt_error error = {0};
    DPT_TRY(dpti_trainer_idle(t, "dpt_trainer_load"));
    if (dpti_safetensors_read(path, &file, &error) != DPT_OK)
        return dpti_context_fail(t->context, NULL, &error);
    float *flat = dpti_trainer_make_flat(t), *outside = dpti_trainer_make_flat(t);
    dpt_status status = flat && outside ? DPT_OK : DPT_E_NO_MEMORY;
    if (status == DPT_OK) status = read_checkpoint(t, path, file, flat, outside);
    if (status == DPT_OK) {
        memset(outside, 0, t->model->flat_size * sizeof *outside);
        t->batches_before = batches_of(t->model, file) - t->done.step;
        status = dpti_trainer_adopt(t, flat, outside);
    }
    free(outside);
    free(flat);
    dpti_safetensors_close(file);
    return status;
}
