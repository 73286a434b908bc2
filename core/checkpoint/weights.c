/* Files of weights and running statistics: safetensors with PyTorch's names and layouts. */
#include "context/context.h"
#include "train/state/trainer.h"

#include "checkpoint/origin.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/tensors.h"
#include "train/components/order.h"
#include "train/progress/calls.h"
#include "train/progress/in_flight.h"
#include "train/recovery/recover.h"
#include "train/replicas/state.h"
#include "train/replicas/state_buffers.h"

#include <stdlib.h>
#include <string.h>

/* ---- Saving ---------------------------------------------------------------------------------- */

/* Returns the last epoch that the weights have seen completely or in part; 0: none. */
static size_t last_epoch(const dpt_trainer *t)
{
    const dpti_cursor *done = dpti_steps_done(t);
    if (done->step == 0) return 0;
    return done->position == 0 ? done->epoch - 1 : done->epoch;
}

dpt_status dpt_trainer_save(dpt_trainer *trainer, const char *path)
{
    dpt_trainer *t = trainer;
    dpti_tensors tensors;
    char epoch[24];
    dpti_origin origin;
    const char *metadata[DPTI_ORIGIN_LIST];
    dpt_error error = {0};
    DPT_TRY(dpti_trainer_idle(t, "dpt_trainer_save"));
    float *flat = dpti_trainer_make_flat(t);
    if (!flat) return DPT_E_NO_MEMORY;
    dpt_status status = dpti_trainer_read_trusted(t, 1, &flat);
    if (status == DPT_OK) {
        snprintf(epoch, sizeof epoch, "%zu", last_epoch(t));
        dpti_origin_of(t, &origin);
        dpti_origin_list(&origin, "epoch", epoch, metadata);
        status = dpti_tensors_create(t->model, 1, &tensors, &error);
        if (status == DPT_OK)
            status = dpti_tensors_add_weights(
                &tensors, flat, (int64_t)(dpti_state_get_origin(t).batches + dpt_trainer_steps(t)),
                &error);
        if (status == DPT_OK)
            status = dpti_safetensors_seal(&(dpti_tensor_file){.path = path,
                                                               .tensors = tensors.list,
                                                               .n_tensors = tensors.n,
                                                               .metadata = metadata},
                                           &error);
        dpti_tensors_free(&tensors);
        dpti_origin_free(&origin);
        if (status != DPT_OK) status = dpti_context_fail(t->context, NULL, &error);
    }
    free(flat);
    return status;
}

/* ---- Layers that are left out ---------------------------------------------------------------- */

/* Returns the next name of a list, of *length characters, and moves *list behind the name; NULL:
   the list has ended. */
static const char *next_layer(const char **list, size_t *length)
{
    const char *name = *list;
    if (!name || !*name) return NULL;
    *length = strcspn(name, ",");
    *list = name + *length + (name[*length] == ',');
    return name;
}

static bool is_of_layer(const char *tensor, const char *layer, size_t length)
{
    return strncmp(tensor, layer, length) == 0 && tensor[length] == '.';
}

static bool is_excepted(const char *except, const char *tensor)
{
    size_t length = 0;
    for (const char *layer; (layer = next_layer(&except, &length));)
        if (is_of_layer(tensor, layer, length)) return true;
    return false;
}

static dpt_status check_layers(dpt_trainer *t, const char *except)
{
    size_t length = 0;
    for (const char *layer; (layer = next_layer(&except, &length));) {
        bool found = false;
        for (size_t i = 0; i < t->model->n_parameters; i++)
            found = found || is_of_layer(t->model->parameters[i].name, layer, length);
        if (!found)
            return dpt_fail(t->context, DPT_E_INVALID,
                            "model %s has no layer '%.*s' with weights; dptrain plan lists its "
                            "layers",
                            t->model->name, length < 64 ? (int)length : 64, layer);
    }
    return DPT_OK;
}

/* ---- Loading --------------------------------------------------------------------------------- */

/* Fails because the file belongs to another model; `what` says what does not fit. */
static dpt_status fail_model(const dpti_tensor_source *source, const char *what)
{
    dpt_trainer *t = source->trainer;
    char guess[256];
    dpti_origin_guess(source->file, t->model, guess, sizeof guess);
    return dpt_fail(t->context, DPT_E_INVALID, "%s %s; %s", source->path, what, guess);
}

static dpt_status describe_mismatch(const dpti_tensor_source *source, const dpti_parameter *p,
                                    const dpti_tensor *tensor)
{
    char wanted[96] = "", found[192] = "", what[512];
    size_t n = 0;
    for (size_t i = 0; i < p->rank && n < sizeof wanted; i++)
        n += (size_t)snprintf(wanted + n, sizeof wanted - n, "%s%zu", i ? "x" : "", p->shape[i]);
    n = 0;
    for (size_t i = 0; i < tensor->rank && n < sizeof found; i++)
        n += (size_t)snprintf(found + n, sizeof found - n, "%s%zu", i ? "x" : "", tensor->shape[i]);
    snprintf(what, sizeof what,
             "has a tensor %.200s of %s, which is %s in model %.60s (--fresh loads all but some "
             "layers)",
             tensor->name, found, wanted, source->trainer->model->name);
    return fail_model(source, what);
}

/* Reads a parameter's tensor of that name into source->outside. */
static dpt_status read_tensor(const dpti_tensor_source *source, const dpti_parameter *p,
                              const char *name)
{
    dpt_trainer *t = source->trainer;
    const dpti_tensor *tensor = dpti_safetensors_find(source->file, name);
    char what[512];
    if (!tensor) {
        snprintf(what, sizeof what, "has no tensor %.200s, which model %.60s has", name,
                 t->model->name);
        return fail_model(source, what);
    }
    if (tensor->rank != p->rank || memcmp(tensor->shape, p->shape, p->rank * sizeof *p->shape) != 0)
        return describe_mismatch(source, p, tensor);
    if (strcmp(tensor->dtype, "F32") != 0)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "%s: tensor %s has the type %s, and only float32 (F32) is read: convert "
                        "the weights, in PyTorch by tensor.float()",
                        source->path, tensor->name, tensor->dtype);
    /* The file's data are not aligned. */
    memcpy(source->outside, tensor->data, p->size * sizeof *source->outside);
    return DPT_OK;
}

/* A tensor that the model does not have shows that the file belongs to another model. */
static dpt_status all_known(const dpti_tensor_source *source, const char *except)
{
    const dpt_trainer *t = source->trainer;
    const dpti_safetensors *file = source->file;
    for (size_t i = 0; i < dpti_safetensors_count(file); i++) {
        const dpti_tensor *tensor = dpti_safetensors_get(file, i);
        const char *name = tensor->name;
        char what[512];
        if (dpti_model_parameter(t->model, name) || dpti_is_counter(t->model, tensor) ||
            dpti_is_state(t->model, tensor) || is_excepted(except, name))
            continue;
        snprintf(what, sizeof what, "has a tensor %.200s that model %.60s does not have", name,
                 t->model->name);
        return fail_model(source, what);
    }
    return DPT_OK;
}

dpt_status dpti_weights_read(const dpti_tensor_source *source, const char *except, float *flat)
{
    const dpt_trainer *t = source->trainer;
    DPT_TRY(all_known(source, except));
    for (size_t i = 0; i < t->model->n_parameters; i++) {
        const dpti_parameter *p = &t->model->parameters[i];
        if (is_excepted(except, p->name)) continue;
        DPT_TRY(read_tensor(source, p, p->name));
        dpti_parameter_import(p, source->outside, flat + p->offset);
    }
    return DPT_OK;
}

dpt_status dpti_state_read(const dpti_tensor_source *source, dpti_state_kind kind, float *flat)
{
    dpt_trainer *t = source->trainer;
    for (size_t i = 0; i < t->model->n_parameters; i++) {
        const dpti_parameter *p = &t->model->parameters[i];
        if (dpti_is_statistic(p->role)) continue;
        char *name = kind.name_of(kind.number, p->name);
        if (!name)
            return dpt_fail(t->context, DPT_E_NO_MEMORY, "no memory to read %s", source->path);
        const dpt_status status = read_tensor(source, p, name);
        free(name);
        DPT_TRY(status);
        dpti_parameter_import(p, source->outside, flat + p->offset);
    }
    return DPT_OK;
}

/* Returns how many batches the running statistics of a file have seen; 0 if the file does not
   say. */
static size_t batches_of(const dpt_model *m, const dpti_safetensors *file)
{
    int64_t batches = 0;
    for (size_t i = 0; i < dpti_safetensors_count(file); i++) {
        const dpti_tensor *tensor = dpti_safetensors_get(file, i);
        if (dpti_is_counter(m, tensor)) memcpy(&batches, tensor->data, sizeof batches);
    }
    return batches > 0 ? (size_t)batches : 0;
}

/* Files of dptrain are sealed.  If a file says that it is from dptrain and is not sealed, the
   checksum entry has been damaged. */
static dpt_status check_seal(dpt_trainer *t, const char *path, const dpti_safetensors *file)
{
    const bool is_ours =
        dpti_safetensors_metadata(file, "model") && dpti_safetensors_metadata(file, "steps");
    if (!is_ours || dpti_safetensors_sealed(file)) return DPT_OK;
    return dpt_fail(t->context, DPT_E_FORMAT,
                    "%s says that it is dptrain's and has no checksum: damaged, or written by "
                    "another program, which should leave out the metadata",
                    path);
}

/* Weights of another model are read if they are larger by at most this many bytes, so that the
   message can name the difference. */
static const size_t other_model_bytes = (size_t)1 << 30;

/* Reads the weights in a file; the layers in `except` keep the trainer's weights. */
static dpt_status read_weights(const dpti_tensor_source *source, const char *except, float *flat)
{
    dpt_trainer *t = source->trainer;
    DPT_TRY(check_layers(t, except));
    DPT_TRY(check_seal(t, source->path, source->file));
    if (except && *except) DPT_TRY(dpti_trainer_read_trusted(t, 1, &flat));
    return dpti_weights_read(source, except, flat);
}

static dpt_status load(dpt_trainer *t, const char *path, const char *except)
{
    const size_t most = dpti_checkpoint_most_bytes(t, path) + other_model_bytes;
    dpti_safetensors *file = NULL;
    dpt_error error = {0};
    if (dpti_safetensors_read_most(path, most, &file, &error) != DPT_OK)
        return dpti_context_fail(t->context, NULL, &error);
    float *flat = dpti_trainer_make_flat(t), *outside = dpti_trainer_make_flat(t);
    dpt_status status = flat && outside ? DPT_OK : DPT_E_NO_MEMORY;
    const dpti_tensor_source source = {
        .trainer = t, .path = path, .file = file, .outside = outside};
    if (status == DPT_OK) status = read_weights(&source, except, flat);
    if (status == DPT_OK) {
        memset(outside, 0, t->model->flat_size * sizeof *outside);
        dpti_state_origin origin = dpti_state_get_origin(t);
        origin.batches = batches_of(t->model, file) - dpt_trainer_steps(t);
        dpti_state_set_origin(t, origin);
        status = dpti_trainer_adopt(t, flat, outside);
    }
    free(outside);
    free(flat);
    dpti_safetensors_close(file);
    return status;
}

dpt_status dpt_trainer_load_except(dpt_trainer *trainer, const char *path, const char *layers)
{
    DPT_TRY(dpti_trainer_check_idle(trainer, "dpt_trainer_load_except"));
    return load(trainer, path, layers);
}

dpt_status dpt_trainer_load(dpt_trainer *trainer, const char *path)
{
    DPT_TRY(dpti_trainer_check_idle(trainer, "dpt_trainer_load"));
    return load(trainer, path, NULL);
}
