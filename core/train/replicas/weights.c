/* Comparing weights between processes (weights.h). */
#include "train/replicas/weights.h"

#include "device/buffer.h"
#include "train/components/checksum.h"
#include "train/components/order.h"
#include "train/peers/peers.h"
#include "train/progress/in_flight.h"
#include "train/replicas/state.h"
#include "train/replicas/state_buffers.h"
#include "train/state/in_flight_step.h"
#include "train/state/trainer.h"

#include <stdlib.h>
#include <string.h>

/* Where a process stands, and a checksum of its weights. */
typedef struct beginning {
    uint64_t weights;
    uint64_t step, epoch, position;
} beginning;

static dpt_status sum_weights(dpt_trainer *t, beginning *out)
{
    float *flat = dpti_trainer_make_flat(t);
    dpt_status status = flat ? DPT_OK : DPT_E_NO_MEMORY;
    const dpti_cursor *done = dpti_steps_done(t);
    *out = (beginning){
        .step = done->step, .epoch = done->epoch, .position = done->position, .weights = 1};
    for (size_t k = 0; status == DPT_OK && k < dpti_trainer_n_state_buffers(t); k++) {
        const dpt_tensor_kind kind = dpti_state_buffer_kind(k);
        status = dpti_trainer_read(t, 0, kind, flat);
        out->weights =
            dpti_checksum(out->weights, flat, dpti_state_elements(t, kind) * sizeof *flat);
    }
    free(flat);
    return status;
}

/* With the step they are compared. */
dpt_status dpti_peers_begin_step(dpt_trainer *trainer, dpti_in_flight_step *inflight)
{
    dpt_trainer *t = trainer;
    beginning b = {.weights = 0};
    inflight->weights = 0;
    if (!t->processes || !dpti_peers_have_written(t)) return DPT_OK;
    DPT_TRY(sum_weights(t, &b));
    inflight->weights = b.weights | 1;
    dpti_peers_forget_written(t);
    return DPT_OK;
}

dpt_status dpti_peers_check_weights(dpt_trainer *trainer)
{
    dpt_trainer *t = trainer;
    dpti_gathered all = {.data = NULL};
    beginning mine = {.step = 0}, other;
    if (!t->processes) return DPT_OK;
    const dpt_status status = sum_weights(t, &mine);
    DPT_TRY(dpti_peers_all_gather(t, status, (dpti_bytes){&mine, sizeof mine}, &all));
    const char *what = NULL;
    for (size_t r = 1; r < dpti_processes_count(t->processes); r++) {
        memcpy(&mine, all.data, sizeof mine);
        memcpy(&other, all.data + all.begins[r], sizeof other);
        if (mine.step != other.step || mine.epoch != other.epoch || mine.position != other.position)
            what = "steps done";
        else if (mine.weights != other.weights)
            what = "weights";
        if (!what) continue;
        if (dpti_peers_is_others_affair(t, r)) break; /* the highest rank */
        dpti_gathered_free(&all);
        return dpti_peers_agree(t, dpt_fail(t->context, DPT_E_INVALID,
                                            "process %zu begins with other %s than process 0; "
                                            "load the same checkpoint in all processes",
                                            r, what));
    }
    dpti_gathered_free(&all);
    DPT_TRY(dpti_peers_agree(t, DPT_OK));
    dpti_peers_forget_written(t);
    dpti_peers_forget_diverged(t);
    return DPT_OK;
}
