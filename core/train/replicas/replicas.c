/* Copying the training state between replicas (replicas.h). */
#include "train/replicas/replicas.h"

#include "context/context.h"
#include "train/components/membership.h"
#include "train/membership/presence.h"
#include "train/replicas/state.h"
#include "train/replicas/state_buffers.h"
#include "train/replicas/state_parts.h"
#include "train/state/trainer.h"

#include <stdlib.h>
#include <string.h>

bool dpti_replica_is_due(const dpti_worker *w, bool standby)
{
    return dpti_is_stale(w) && !dpti_is_lost(w) && (standby || !dpti_is_standby(w));
}

static dpt_status repair(dpt_trainer *t, size_t to, float *const *flats)
{
    dpti_worker *w = &t->workers[to];
    dpti_change_replica(w, DPTI_REPLICA_TEAR);
    for (size_t k = 0; k < dpti_trainer_n_state_buffers(t); k++)
        DPT_TRY(dpti_trainer_write(t, to, dpti_state_buffer_kind(k), flats[k]));
    dpti_change_replica(w, DPTI_REPLICA_WRITE);
    return DPT_OK;
}

/* Restores the replicas that are due.  A device that is lost at it leaves the others unchanged.
   The first failure is returned, *failing is its worker, and the context tells. */
static dpt_status repair_all(dpt_trainer *t, bool standby, float *const *flats, size_t *failing)
{
    dpt_error first = {.status = DPT_OK};
    for (size_t i = 0; i < t->n_workers; i++) {
        if (!dpti_replica_is_due(&t->workers[i], standby) || repair(t, i, flats) == DPT_OK)
            continue;
        if (first.status == DPT_OK) *failing = i;
        if (first.status == DPT_OK) first = t->context->error;
        if (!t->stop_on_loss) break; /* the device that failed is lost first */
    }
    return first.status == DPT_OK ? DPT_OK : dpti_context_fail(t->context, NULL, &first);
}

dpt_status dpti_replica_read(dpt_trainer *t, size_t rank, size_t n_kinds, float *const *flats)
{
    for (size_t k = 0; k < n_kinds; k++)
        DPT_TRY(dpti_trainer_read(t, rank, dpti_state_buffer_kind(k), flats[k]));
    return DPT_OK;
}

dpt_status dpti_replica_read_saved(dpt_trainer *t, size_t rank, size_t n_kinds, float *const *flats)
{
    for (size_t k = 0; k < n_kinds; k++)
        DPT_TRY(dpti_trainer_read_saved(t, rank, dpti_state_buffer_kind(k), flats[k]));
    return DPT_OK;
}

/* Another replica serves where this source is short of memory, and becomes *from. */
dpt_status dpti_replica_read_source(dpt_trainer *t, size_t *from, float *const *flats)
{
    const size_t n = dpti_trainer_n_state_buffers(t);
    if (dpti_state_parts_on(t)) {
        for (size_t k = 0; k < n; k++) {
            const dpt_tensor_kind kind = dpti_state_buffer_kind(k);
            dpti_state_parts_read(t, kind, flats[k], dpti_state_elements(t, kind));
        }
        return DPT_OK;
    }
    dpt_status status = dpti_replica_read(t, *from, n, flats);
    for (size_t i = *from + 1; status == DPT_E_NO_MEMORY && i < t->n_workers; i++) {
        if (dpti_is_stale(&t->workers[i]) || t->workers[i].device->lost) continue;
        *from = i;
        status = dpti_replica_read(t, i, n, flats);
    }
    return status;
}

dpt_status dpti_replica_make_flats(dpt_trainer *t, float *flats[DPTI_MAX_STATE_BUFFERS])
{
    for (size_t k = 0; k < dpti_trainer_n_state_buffers(t); k++) {
        flats[k] = dpti_trainer_make_flat(t);
        if (!flats[k]) return DPT_E_NO_MEMORY;
    }
    return DPT_OK;
}

/* Reads all of the state before anything is written: so a device that is lost meanwhile leaves no
   replica with parts. */
dpt_status dpti_replica_copy_to_stale(dpt_trainer *t, size_t from, bool standby, size_t *failing)
{
    float *flats[DPTI_MAX_STATE_BUFFERS] = {NULL};
    *failing = from;
    dpt_status status = dpti_replica_make_flats(t, flats);
    if (status == DPT_OK) status = dpti_replica_read_source(t, failing, flats);
    if (status == DPT_OK) status = repair_all(t, standby, flats, failing);
    dpti_trainer_free_state_buffers(flats);
    return status;
}
