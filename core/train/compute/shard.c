/* What came of a shard, for its driver thread (shard.h). */
#include "train/compute/shard.h"

#include "device/buffer.h"
#include "device/stream.h"
#include "train/compute/finite.h"
#include "train/state/in_flight_step.h"
#include "train/state/trainer.h"

#include <math.h>
#include <string.h>

dpt_status dpti_worker_upload(dpti_worker *worker, const uint8_t *staging, size_t first,
                              size_t n_samples)
{
    const dpti_buffer *step = &worker->replica.step;
    dpt_step_block block;
    if (first == 0) {
        memcpy(&block, staging, sizeof block);
        worker->replica.inv_labels = block.inv_labels;
        return dpti_upload(step, 0, staging, dpti_step_bytes(n_samples));
    }
    return dpti_upload(step, DPTI_STEP_INDEX_OFFSET, staging + dpti_step_bytes(first),
                       dpti_step_bytes(n_samples) - DPTI_STEP_INDEX_OFFSET);
}

dpt_status dpti_worker_clean(dpti_worker *worker)
{
    if (!(worker->compute.driver.left & DPTI_LEFT_GRADIENTS)) return DPT_OK;
    DPT_TRY(dpti_fill(&worker->replica.gradients, 0, 0, worker->replica.gradients.n_bytes));
    worker->compute.driver.left &= ~(unsigned)DPTI_LEFT_GRADIENTS;
    return DPT_OK;
}

void dpti_worker_go_on(dpti_worker *worker)
{
    worker->compute.driver.halted_step = 0;
}

dpt_status dpti_shard_not_finite(dpti_shard *shard, const char *flaw)
{
    shard->flaw = flaw;
    return dpti_trainer_diverges(&shard->worker->device->base.error, flaw, shard->step, shard->lr);
}

dpt_status dpti_shard_add_results(dpti_shard *shard)
{
    for (size_t i = 0; i < shard->n_samples; i++) {
        if (shard->grains.n > 0) dpti_exact_add(&shard->exact_loss, shard->result[2 * i]);
        shard->loss += (double)shard->result[2 * i];
        shard->hits += (size_t)shard->result[2 * i + 1];
    }
    return isfinite(shard->loss) ? DPT_OK : dpti_shard_not_finite(shard, "loss");
}

/* Waits until what a failed step has enqueued is over, before its staging memory is written again.
 */
static dpt_status finish_failed(dpti_device *device, dpt_status mine)
{
    const dpt_error first = device->base.error;
    const dpt_status synced = dpti_sync(device);
    /* A device that is short of memory, or has not failed itself, may turn out to be lost here. */
    if (synced != DPT_OK && (mine == DPT_OK || mine == DPT_E_NO_MEMORY)) return synced;
    device->base.error = first;
    return mine;
}

/* Ends a shard.  The device's record has the details of its failure. */
static void end_shard(dpti_shard *shard, dpt_status status)
{
    shard->status = status;
    if (status == DPT_OK || status == DPT_E_CANCELLED) return;
    shard->error = shard->worker->device->base.error;
    shard->error.status = status;
}

void dpti_shard_commit(dpti_shard *shard, dpt_status status)
{
    shard->committed = true;
    end_shard(shard, status);
}

void dpti_shard_fail(dpti_shard *shard, dpt_status status)
{
    dpti_worker *w = shard->worker;
    dpti_driver_state *driver = &w->compute.driver;
    driver->halted_step = shard->step;
    driver->left |= DPTI_LEFT_GRADIENTS;
    if (w->compute.single.program) driver->left |= DPTI_LEFT_HALT_WORD;
    status = finish_failed(w->device, status);
    end_shard(shard, status != DPT_OK ? status : DPT_E_CANCELLED);
}
