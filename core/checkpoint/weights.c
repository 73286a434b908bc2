/* Files of weights and running statistics: safetensors with PyTorch's names and layouts. */
#include "checkpoint/weights.h"

#include "checkpoint/origin.h"
#include "checkpoint/snapshot.h"
#include "checkpoint/tensor_names.h"
#include "checkpoint/tensor_source.h"
#include "checkpoint/tensors.h"
#include "context/context.h"
#include "context/sized.h"
#include "io/shards.h"
#include "train/components/order.h"
#include "train/progress/calls.h"
#include "train/progress/in_flight.h"
#include "train/recovery/recover.h"
#include "train/replicas/base_hash.h"
#include "train/replicas/state.h"
#include "train/replicas/state_buffers.h"
#include "train/rounds/rounds.h"

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

/* The weights of a trainer as the tensors of a file. */
typedef struct weights_file {
    float *flat;
    dpti_tensors tensors;
} weights_file;

static void release(weights_file *w)
{
    dpti_tensors_free(&w->tensors);
    free(w->flat);
}

/* Reads the weights; the caller releases *out, also after a failure.  `peeks`: as
   dpti_trainer_peek does. */
static dpt_status read_tensors(dpt_trainer *t, bool peeks, weights_file *out)
{
    dpt_error error = {0};
    *out = (weights_file){.flat = dpti_trainer_make_flat(t)};
    if (!out->flat) return DPT_E_NO_MEMORY;
    const char *base;
    DPT_TRY(dpti_base_hash(t, &base));
    DPT_TRY(peeks ? dpti_trainer_peek(t, out->flat) : dpti_trainer_read_trusted(t, 1, &out->flat));
    dpt_status status = dpti_tensors_create(t->model, 1, &out->tensors, &error);
    if (status == DPT_OK)
        status = dpti_tensors_add_weights(
            &out->tensors, out->flat,
            (int64_t)(dpti_state_get_origin(t).batches + dpt_trainer_steps(t)), &error);
    return status == DPT_OK ? DPT_OK : dpti_context_fail(t->context, NULL, &error);
}

static dpt_status write_tensors(dpt_trainer *t, const char *path, const dpti_tensors *tensors)
{
    char epoch[24];
    dpti_origin origin;
    const char *metadata[DPTI_ORIGIN_LIST];
    dpt_error error = {0};
    snprintf(epoch, sizeof epoch, "%zu", last_epoch(t));
    dpti_origin_of(t, &origin);
    dpti_origin_list(&origin, "epoch", epoch, metadata);
    const dpt_status status = dpti_safetensors_seal(
        &(dpti_tensor_file){
            .path = path, .tensors = tensors->list, .n_tensors = tensors->n, .metadata = metadata},
        &error);
    dpti_origin_free(&origin);
    return status == DPT_OK ? DPT_OK : dpti_context_fail(t->context, NULL, &error);
}

dpt_status dpt_trainer_save(dpt_trainer *trainer, const char *path)
{
    weights_file w;
    DPT_TRY(dpti_trainer_idle(trainer, "dpt_trainer_save"));
    DPT_TRY(dpti_rounds_check_closed(trainer, "dpt_trainer_save"));
    dpt_status status = read_tensors(trainer, false, &w);
    if (status == DPT_OK) status = write_tensors(trainer, path, &w.tensors);
    release(&w);
    return status;
}

dpt_status dpti_weights_sha256(dpt_trainer *trainer, char out[DPTI_SHA256_TEXT])
{
    weights_file w;
    const dpt_status status = read_tensors(trainer, true, &w);
    if (status == DPT_OK) dpti_tensors_sha256(&w.tensors, out);
    release(&w);
    return status;
}

/* ---- Loading --------------------------------------------------------------------------------- */

/* Returns how many batches the running statistics of a file have seen; 0 if the file does not
   say. */
static size_t batches_of(const dpt_model *m, const dpti_safetensors *file)
{
    const dpti_tensor_names names = dpti_tensor_names_of(m, file);
    int64_t batches = 0;
    for (size_t i = 0; i < dpti_safetensors_count(file); i++) {
        dpti_tensor tensor = *dpti_safetensors_get(file, i);
        tensor.name = dpti_tensor_name(&names, &tensor);
        if (dpti_is_counter(m, &tensor)) memcpy(&batches, tensor.data, sizeof batches);
    }
    return batches > 0 ? (size_t)batches : 0;
}

/* Reads the weights in a file; the layers in `except` keep the trainer's weights. */
static dpt_status read_weights(dpt_trainer *t, const dpti_tensor_source *source, const char *except,
                               float *flat)
{
    const bool excepts = (except && *except) || source->partial, lora = t->model->lora != NULL;
    DPT_TRY(dpti_tensor_source_check_layers(source, except));
    DPT_TRY(dpti_tensor_source_check_seal(source));
    if (lora && excepts)
        return dpt_fail(t->context, DPT_E_INVALID,
                        "a model with adapters takes all layers of its base from a file: leave "
                        "--fresh and --load-partial out");
    if (lora && dpti_has_adapters(source->file)) {
        DPT_TRY(dpti_base_check(t, source->path,
                                dpti_safetensors_metadata(source->file, DPTI_BASE_KEY)));
        DPT_TRY(dpti_trainer_refresh(t)); /* all replicas, since only a part is written */
        DPT_TRY(dpti_trainer_catch_up(t));
    }
    if (lora || excepts) DPT_TRY(dpti_trainer_read_trusted(t, 1, &flat));
    return dpti_weights_read(source, except, flat);
}

static dpt_status load(dpt_trainer *t, const char *path, const dpt_load_options *how)
{
    const size_t most = dpti_checkpoint_most_bytes(t, path) + DPTI_OTHER_MODEL_BYTES;
    dpti_safetensors *file = NULL;
    dpt_error error = {0};
    if (dpti_shards_read(path, most, &file, &error) != DPT_OK)
        return dpti_context_fail(t->context, NULL, &error);
    float *flat = dpti_trainer_make_flat(t), *outside = dpti_trainer_make_flat(t);
    dpt_status status = flat && outside ? DPT_OK : DPT_E_NO_MEMORY;
    const dpti_tensor_source source = {.context = t->context,
                                       .model = t->model,
                                       .path = path,
                                       .file = file,
                                       .outside = outside,
                                       .partial = how->partial};
    if (status == DPT_OK) status = read_weights(t, &source, how->except, flat);
    if (status == DPT_OK) {
        memset(outside, 0, t->model->flat_gradients * sizeof *outside);
        dpti_state_origin origin = dpti_state_get_origin(t);
        origin.batches = batches_of(t->model, file) - dpt_trainer_steps(t);
        dpti_state_set_origin(t, origin);
        status = dpti_trainer_adopt(t, flat, outside, t->model->lora && dpti_has_adapters(file));
    }
    free(outside);
    free(flat);
    dpti_safetensors_close(file);
    return status;
}

dpt_status dpt_trainer_load_with(dpt_trainer *trainer, const char *path,
                                 const dpt_load_options *options)
{
    dpt_load_options o;
    DPT_TRY(dpti_trainer_check_idle(trainer, "dpt_trainer_load_with"));
    DPT_TRY(dpti_rounds_check_closed(trainer, "dpt_trainer_load_with"));
    DPT_TRY(dpti_take_sized(trainer->context, &(dpti_sized){"dpt_load_options", options, sizeof o},
                            &o));
    return load(trainer, path, &o);
}

dpt_status dpt_trainer_load_except(dpt_trainer *trainer, const char *path, const char *layers)
{
    DPT_TRY(dpti_trainer_check_idle(trainer, "dpt_trainer_load_except"));
    DPT_TRY(dpti_rounds_check_closed(trainer, "dpt_trainer_load_except"));
    return load(trainer, path, &(dpt_load_options){.except = layers});
}

dpt_status dpt_trainer_load(dpt_trainer *trainer, const char *path)
{
    DPT_TRY(dpti_trainer_check_idle(trainer, "dpt_trainer_load"));
    DPT_TRY(dpti_rounds_check_closed(trainer, "dpt_trainer_load"));
    return load(trainer, path, &(dpt_load_options){.except = NULL});
}
