/* Reading and writing what a trainer holds: flat buffers, tensors by name, checkpoints, and the
   repair of a replica that missed an update. */
#include "train/trainer.h"

#include "base/base.h"
#include "io/safetensors.h"

#include <stdlib.h>
#include <string.h>

/* ---- Flat buffers ---------------------------------------------------------------------------- */

typedef struct flat_job {
    const dpti_buffer *buffer;
    float *read;
    const float *write;
    size_t n_bytes;
    dpt_status status;
} flat_job;

static dpt_status transfer(const flat_job *job)
{
    if (job->read) DPT_TRY(dpti_download(job->read, job->buffer, 0, job->n_bytes));
    if (job->write) DPT_TRY(dpti_upload(job->buffer, 0, job->write, job->n_bytes));
    return dpti_sync(job->buffer->device);
}

static void run_transfer(dpti_device *device, void *argument)
{
    flat_job *job = argument;
    (void)device;
    job->status = transfer(job);
}

static dpt_status move(dpt_trainer *t, size_t rank, dpt_tensor_kind kind, float *read,
                       const float *write)
{
    const dpti_replica *replica = &t->workers[rank].replica;
    const dpti_buffer *buffer = kind == DPT_PARAMETER  ? &replica->parameters
                                : kind == DPT_GRADIENT ? &replica->gradients
                                                       : &replica->velocity;
    flat_job job = {.buffer = buffer,
                    .read = read,
                    .write = write,
                    .n_bytes = t->model->flat_size * sizeof(float)};
    if (!buffer->handle)
        return dpt_fail(t->context, DPT_E_NOT_FOUND,
                        "there is no velocity: the optimizer runs without momentum");
    dpti_driver_call(t->workers[rank].device, run_transfer, &job);
    if (job.status == DPT_OK) return DPT_OK;
    return dpti_trainer_fail(t, t->workers[rank].device, &t->workers[rank].device->base.error);
}

dpt_status dpti_trainer_read(dpt_trainer *trainer, size_t rank, dpt_tensor_kind kind, float *flat)
{
    return move(trainer, rank, kind, flat, NULL);
}

dpt_status dpti_trainer_write(dpt_trainer *trainer, size_t rank, dpt_tensor_kind kind,
                              const float *flat)
{
    return move(trainer, rank, kind, NULL, flat);
}

static float *make_flat(dpt_trainer *t)
{
    float *flat = calloc(t->model->flat_size, sizeof *flat);
    if (!flat) (void)dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for a copy of the weights");
    return flat;
}

/* A replica whose weights can be trusted; n_workers if there is none. */
static size_t trusted(const dpt_trainer *t)
{
    size_t i = 0;
    while (i < t->n_workers && t->workers[i].stale)
        i++;
    return i;
}

static dpt_status restore_all(dpt_trainer *t, size_t from, float *flat)
{
    const size_t n_kinds = t->program.momentum != 0 ? 2 : 1;
    static const dpt_tensor_kind kinds[] = {DPT_PARAMETER, DPT_VELOCITY};
    for (size_t k = 0; k < n_kinds; k++) {
        DPT_TRY(dpti_trainer_read(t, from, kinds[k], flat));
        for (size_t i = 0; i < t->n_workers; i++)
            if (t->workers[i].stale) DPT_TRY(dpti_trainer_write(t, i, kinds[k], flat));
    }
    for (size_t i = 0; i < t->n_workers; i++)
        t->workers[i].stale = false;
    return DPT_OK;
}

dpt_status dpti_trainer_restore(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    size_t n_stale = 0;
    for (size_t i = 0; i < t->n_workers; i++)
        n_stale += t->workers[i].stale;
    if (n_stale == 0) return DPT_OK;
    const size_t from = trusted(t);
    t->lost = from == t->n_workers;
    if (t->lost) return DPT_OK;
    float *flat = make_flat(t);
    if (!flat) return DPT_E_NO_MEMORY;
    const dpt_status status = restore_all(t, from, flat);
    free(flat);
    return status;
}

/* Writes every replica.  One that cannot be written is stale from then on; the first failure is
   returned, and the context tells of it. */
static dpt_status write_all(dpt_trainer *t, dpt_tensor_kind kind, const float *flat)
{
    dpt_error first = {.status = DPT_OK};
    for (size_t i = 0; i < t->n_workers; i++) {
        if (dpti_trainer_write(t, i, kind, flat) == DPT_OK) continue;
        t->workers[i].stale = true;
        if (first.status == DPT_OK) first = t->context->error;
    }
    return first.status == DPT_OK ? DPT_OK : dpti_context_fail(t->context, NULL, &first);
}

/* ---- Tensors by name ------------------------------------------------------------------------- */

static dpt_status find(dpt_trainer *t, const char *name, size_t size, const dpti_parameter **out)
{
    const dpti_parameter *p = dpti_model_parameter(t->model, name);
    if (!p)
        return dpt_fail(t->context, DPT_E_NOT_FOUND, "model %s has no tensor %s", t->model->name,
                        name);
    if (p->size != size)
        return dpt_fail(t->context, DPT_E_INVALID, "tensor %s has %zu elements, not %zu", name,
                        p->size, size);
    *out = p;
    return DPT_OK;
}

static dpt_status known_kind(dpt_trainer *t, dpt_tensor_kind kind)
{
    if (kind == DPT_PARAMETER || kind == DPT_GRADIENT || kind == DPT_VELOCITY) return DPT_OK;
    return dpt_fail(t->context, DPT_E_INVALID, "unknown kind of tensor %d", (int)kind);
}

dpt_status dpt_trainer_get(dpt_trainer *trainer, size_t device, dpt_tensor_kind kind,
                           const char *name, float *out, size_t size)
{
    dpt_trainer *t = trainer;
    const dpti_parameter *p = NULL;
    DPT_TRY(dpti_trainer_idle(t, "dpt_trainer_get"));
    DPT_TRY(known_kind(t, kind));
    DPT_TRY(find(t, name, size, &p));
    if (device >= t->n_workers)
        return dpt_fail(t->context, DPT_E_INVALID, "device %zu of %zu", device, t->n_workers);
    float *flat = make_flat(t);
    if (!flat) return DPT_E_NO_MEMORY;
    const dpt_status status = dpti_trainer_read(t, device, kind, flat);
    if (status == DPT_OK) dpti_parameter_export(p, flat + p->offset, out);
    free(flat);
    return status;
}

dpt_status dpt_trainer_set(dpt_trainer *trainer, dpt_tensor_kind kind, const char *name,
                           const float *values, size_t size)
{
    dpt_trainer *t = trainer;
    const dpti_parameter *p = NULL;
    DPT_TRY(dpti_trainer_idle(t, "dpt_trainer_set"));
    DPT_TRY(known_kind(t, kind));
    DPT_TRY(find(t, name, size, &p));
    DPT_TRY(dpti_trainer_restore(t));
    if (t->lost)
        return dpt_fail(t->context, DPT_E_STATE,
                        "no device holds trusted weights any more: load a checkpoint");
    float *flat = make_flat(t);
    if (!flat) return DPT_E_NO_MEMORY;
    dpt_status status = dpti_trainer_read(t, 0, kind, flat);
    if (status == DPT_OK) {
        dpti_parameter_import(p, values, flat + p->offset);
        status = write_all(t, kind, flat);
    }
    free(flat);
    return status;
}

/* ---- Checkpoints ----------------------------------------------------------------------------- */

static dpt_status write_checkpoint(dpt_trainer *t, const float *flat, float *outside,
                                   dpti_tensor *tensors, const char *path)
{
    const dpt_model *m = t->model;
    dpt_error error = {0};
    for (size_t i = 0; i < m->n_parameters; i++) {
        const dpti_parameter *p = &m->parameters[i];
        dpti_parameter_export(p, flat + p->offset, outside + p->offset);
        tensors[i] = (dpti_tensor){.name = p->name,
                                   .dtype = "F32",
                                   .rank = p->rank,
                                   .data = outside + p->offset,
                                   .n_bytes = p->size * sizeof(float)};
        memcpy(tensors[i].shape, p->shape, p->rank * sizeof *p->shape);
    }
    char steps[24];
    snprintf(steps, sizeof steps, "%zu", t->done.step);
    const char *const metadata[] = {"format", "pt", "model", m->name, "steps", steps, NULL};
    if (dpti_safetensors_write(path, tensors, m->n_parameters, metadata, &error) != DPT_OK)
        return dpti_context_fail(t->context, NULL, &error);
    return DPT_OK;
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
    if (trusted(t) == t->n_workers)
        return dpt_fail(t->context, DPT_E_STATE,
                        "no device holds trusted weights: nothing to save");
    float *flat = make_flat(t), *outside = make_flat(t);
    dpti_tensor *tensors = calloc(t->model->n_parameters, sizeof *tensors);
    dpt_status status = flat && outside ? DPT_OK : DPT_E_NO_MEMORY;
    if (!tensors)
        status = dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory for the checkpoint's tensors");
    if (status == DPT_OK) status = read_trusted(t, flat);
    if (status == DPT_OK) status = write_checkpoint(t, flat, outside, tensors, path);
    free(tensors);
    free(outside);
    free(flat);
    return status;
}

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

/* A tensor of the file that the model has no use for is a sign of another model. */
static dpt_status all_known(dpt_trainer *t, const char *path, const dpti_safetensors *file)
{
    for (size_t i = 0; i < dpti_safetensors_count(file); i++) {
        const char *name = dpti_safetensors_get(file, i)->name;
        if (!dpti_model_parameter(t->model, name))
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

/* New weights, and an optimizer that has not moved yet, on every device. */
static dpt_status adopt(dpt_trainer *t, const float *flat, const float *zeros)
{
    for (size_t i = 0; i < t->n_workers; i++)
        t->workers[i].stale = false;
    dpt_status status = write_all(t, DPT_PARAMETER, flat);
    if (t->program.momentum != 0) {
        const dpt_error first = t->context->error;
        const dpt_status velocity = write_all(t, DPT_VELOCITY, zeros);
        if (status == DPT_OK)
            status = velocity;
        else
            t->context->error = first;
    }
    t->lost = trusted(t) == t->n_workers;
    return status;
}

dpt_status dpt_trainer_load(dpt_trainer *trainer, const char *path)
{
    dpt_trainer *t = trainer;
    dpti_safetensors *file = NULL;
    dpt_error error = {0};
    DPT_TRY(dpti_trainer_idle(t, "dpt_trainer_load"));
    if (dpti_safetensors_read(path, &file, &error) != DPT_OK)
        return dpti_context_fail(t->context, NULL, &error);
    float *flat = make_flat(t), *outside = make_flat(t);
    dpt_status status = flat && outside ? DPT_OK : DPT_E_NO_MEMORY;
    if (status == DPT_OK) status = read_checkpoint(t, path, file, flat, outside);
    if (status == DPT_OK) {
        memset(outside, 0, t->model->flat_size * sizeof *outside);
        status = adopt(t, flat, outside);
    }
    free(outside);
    free(flat);
    dpti_safetensors_close(file);
    return status;
}
