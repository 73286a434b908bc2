/* The training state in host memory (state_buffers.h). */
#include "train/replicas/state_buffers.h"

#include "device/buffer.h"
#include "train/membership/presence.h"
#include "train/state/trainer.h"

#include <stdlib.h>
#include <string.h>

/* ---- Buffers --------------------------------------------------------------------------------- */

/* The kinds of buffers: parameters, then the optimizer's state, as far as there is any. */
static const dpt_tensor_kind kinds[DPTI_MAX_STATE_BUFFERS] = {DPT_PARAMETER, DPT_VELOCITY,
                                                              DPT_SQUARES};

size_t dpti_trainer_n_state_buffers(const dpt_trainer *trainer)
{
    const dpti_optimizer *o = &trainer->program.optimizer;
    return o->kind == DPT_OPTIMIZER_ADAMW ? 3 : o->momentum != 0 ? 2 : 1;
}

dpt_tensor_kind dpti_state_buffer_kind(size_t i)
{
    return kinds[i];
}

size_t dpti_state_elements(const dpt_trainer *trainer, dpt_tensor_kind kind)
{
    const dpt_model *m = trainer->model;
    return kind == DPT_PARAMETER ? m->flat_size : m->flat_gradients;
}

size_t dpti_saved_elements(const dpt_trainer *trainer, dpt_tensor_kind kind)
{
    const dpt_model *m = trainer->model;
    return kind == DPT_PARAMETER && !m->lora ? m->flat_size : m->flat_gradients;
}

void dpti_trainer_free_state_buffers(float *flats[DPTI_MAX_STATE_BUFFERS])
{
    for (size_t k = 0; k < DPTI_MAX_STATE_BUFFERS; k++) {
        free(flats[k]);
        flats[k] = NULL;
    }
}

float *dpti_trainer_make_flat(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    const size_t n = t->model->flat_size;
    float *flat = calloc(n, sizeof *flat);
    if (!flat)
        (void)dpt_fail(t->context, DPT_E_NO_MEMORY,
                       "no memory for a copy of the weights of model %s, which has %zu parameters "
                       "for %zu classes: %.1f GiB",
                       t->model->name, n, dpt_model_outputs(t->model),
                       (double)n * sizeof *flat / 1073741824.0);
    return flat;
}

static size_t first_in_service(const dpt_trainer *t)
{
    size_t i = 0;
    while (i < t->n_workers && dpti_is_lost(&t->workers[i]))
        i++;
    return i;
}

size_t dpti_trainer_trusted(const dpt_trainer *trainer)
{
    size_t i = 0;
    while (i < trainer->n_workers && dpti_is_stale(&trainer->workers[i]))
        i++;
    if (i == trainer->n_workers && trainer->replicas.parts.on) return first_in_service(trainer);
    return i;
}

/* ---- Whether it is lost ---------------------------------------------------------------------- */

bool dpti_state_is_lost(const dpt_trainer *trainer)
{
    return trainer->replicas.lost;
}

void dpti_state_set_lost(dpt_trainer *trainer, bool lost)
{
    trainer->replicas.lost = lost;
}

dpt_status dpti_state_check(dpt_trainer *trainer)
{
    if (!trainer->replicas.lost) return DPT_OK;
    return dpt_fail(trainer->context, DPT_E_STATE,
                    "no device holds trusted weights any more: load a checkpoint");
}

void dpti_state_give_up(dpt_trainer *trainer)
{
    trainer->replicas.lost = true;
}

void dpti_state_keep(dpt_trainer *trainer, float *flats[DPTI_MAX_STATE_BUFFERS])
{
    dpti_state_free(trainer);
    for (size_t k = 0; k < DPTI_MAX_STATE_BUFFERS; k++) {
        trainer->replicas.last_state[k] = flats[k];
        flats[k] = NULL;
    }
}

void dpti_state_free(dpt_trainer *trainer)
{
    dpti_trainer_free_state_buffers(trainer->replicas.last_state);
}

bool dpti_state_is_kept(const dpt_trainer *trainer)
{
    return trainer->replicas.last_state[0] != NULL || trainer->replicas.parts.mirror[0] != NULL;
}

void dpti_state_copy_kept(const dpt_trainer *trainer, size_t n_kinds, float *const *flats)
{
    const dpt_trainer *t = trainer;
    float *const *from =
        t->replicas.parts.mirror[0] ? t->replicas.parts.mirror : t->replicas.last_state;
    for (size_t k = 0; k < n_kinds; k++)
        memcpy(flats[k], from[k], dpti_saved_elements(t, kinds[k]) * sizeof *flats[k]);
}

bool dpti_state_is_salvaged(const dpt_trainer *trainer)
{
    return trainer->replicas.salvage;
}

void dpti_state_salvage(dpt_trainer *trainer, bool salvage)
{
    trainer->replicas.salvage = salvage;
}

void dpti_state_note_views(dpti_worker *worker)
{
    const dpti_replica *r = &worker->replica;
    worker->replicas.views[0] = dpti_host_pointer(&r->parameters);
    worker->replicas.views[1] = dpti_host_pointer(&r->velocity);
    worker->replicas.views[2] = dpti_host_pointer(&r->squares);
}

void dpti_state_forget_views(dpti_worker *worker)
{
    memset(worker->replicas.views, 0, sizeof worker->replicas.views);
}

dpti_state_origin dpti_state_get_origin(const dpt_trainer *trainer)
{
    return (dpti_state_origin){.optimizer = trainer->replicas.optimizer_origin,
                               .batches = trainer->replicas.batches_before};
}

void dpti_state_set_origin(dpt_trainer *trainer, dpti_state_origin origin)
{
    trainer->replicas.optimizer_origin = origin.optimizer;
    trainer->replicas.batches_before = origin.batches;
}
