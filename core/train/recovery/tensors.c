/* Reading and writing tensors of the training state by name: dpt_trainer_get, dpt_trainer_set. */
#include "train/membership/presence.h"
#include "train/peers/peers.h"
#include "train/progress/calls.h"
#include "train/progress/in_flight.h"
#include "train/recovery/recover.h"
#include "train/replicas/state.h"
#include "train/replicas/state_buffers.h"
#include "train/rounds/rounds.h"
#include "train/state/trainer.h"

#include <stdlib.h>

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
    if (kind >= DPT_PARAMETER && kind <= DPT_SQUARES) return DPT_OK;
    return dpt_fail(t->context, DPT_E_INVALID, "unknown kind of tensor %d", (int)kind);
}

/* The worker that has the gradients of the last step: this one, or another one if this one was on
   standby then. */
static size_t find_gradient(const dpt_trainer *t, size_t rank)
{
    const size_t step = dpti_steps_done(t)->step;
    if (dpti_steps_last_step_of(t, rank) == step) return rank;
    for (size_t i = 0; i < t->n_workers; i++)
        if (dpti_steps_last_step_of(t, i) == step && !dpti_is_lost(&t->workers[i]) &&
            !dpti_is_stale(&t->workers[i]))
            return i;
    return rank;
}

dpt_status dpt_trainer_get(dpt_trainer *trainer, size_t device, dpt_tensor_kind kind,
                           const char *name, float *out, size_t size)
{
    dpt_trainer *t = trainer;
    const dpti_parameter *p = NULL;
    DPT_TRY(dpti_trainer_idle(t, "dpt_trainer_get"));
    DPT_TRY(known_kind(t, kind));
    DPT_TRY(find(t, name, size, &p));
    size_t rank;
    DPT_TRY(dpti_trainer_own_device(t, device, &rank));
    if (dpti_is_stale(&t->workers[rank]) &&
        !dpti_is_lost(&t->workers[rank])) { /* it is on standby, or was just woken */
        DPT_TRY(dpti_trainer_refresh(t));
        DPT_TRY(dpti_trainer_catch_up(t));
    }
    if (dpti_is_lost(&t->workers[rank]))
        return dpt_fail(t->context, DPT_E_DEVICE_LOST, "device %s is lost",
                        t->workers[rank].device->id);
    float *flat = dpti_trainer_make_flat(t);
    if (!flat) return DPT_E_NO_MEMORY;
    if (kind == DPT_GRADIENT) rank = find_gradient(t, rank);
    const dpt_status status = dpti_trainer_read(t, rank, kind, flat);
    if (status == DPT_OK) dpti_parameter_export(p, flat + p->offset, out);
    free(flat);
    return status;
}

dpt_status dpt_trainer_set(dpt_trainer *trainer, dpt_tensor_kind kind, const char *name,
                           const float *values, size_t size)
{
    dpt_trainer *t = trainer;
    const dpti_parameter *p = NULL;
    DPT_TRY(dpti_trainer_check_idle(t, "dpt_trainer_set"));
    DPT_TRY(dpti_rounds_check_closed(t, "dpt_trainer_set"));
    DPT_TRY(known_kind(t, kind));
    DPT_TRY(find(t, name, size, &p));
    DPT_TRY(dpti_trainer_refresh(t)); /* all replicas, since only one tensor is written */
    DPT_TRY(dpti_trainer_catch_up(t));
    DPT_TRY(dpti_state_check(t));
    float *flat = dpti_trainer_make_flat(t);
    if (!flat) return DPT_E_NO_MEMORY;
    dpt_status status = dpti_trainer_read(t, dpti_trainer_trusted(t), kind, flat);
    if (status == DPT_OK) {
        dpti_parameter_import(p, values, flat + p->offset);
        status = dpti_trainer_write_all(t, kind, flat);
    }
    free(flat);
    return status;
}
