/* Publishing written samples (publish.h). */
#include "train/recovery/publish.h"

#include "train/components/data_store.h"
#include "train/feeding/feeding.h"
#include "train/membership/deadline.h"
#include "train/membership/presence.h"
#include "train/progress/calls.h"
#include "train/recovery/failover.h"
#include "train/recovery/recover.h"
#include "train/state/trainer.h"

typedef struct publish_job {
    dpti_data_copy *copy;
    dpt_status status;
    dpt_error error;
} publish_job;

static void run_publish(dpti_device *device, void *argument)
{
    publish_job *job = argument;
    job->status = dpti_data_copy_publish(job->copy, device);
    if (job->status == DPT_OK) return;
    job->error = *dpti_device_error(device);
    job->error.status = job->status;
}

/* A worker that uses the copy and can be called, whether it owns the copy or not; n_workers: none.
 */
static size_t find_user(const dpt_trainer *t, const dpti_data_store *store, size_t copy)
{
    size_t i = 0;
    while (i < t->n_workers && (dpti_is_lost(&t->workers[i]) || dpti_is_hung(&t->workers[i]) ||
                                store->copy_of[i] != copy))
        i++;
    return i;
}

/* A device that has no memory to be written is lost, too, as it is where weights are written
   (recover.c): the others' training does not end for it. */
static dpt_status lose(dpt_trainer *t, size_t rank, const dpt_error *error)
{
    dpt_error why = *error;
    if (why.status == DPT_E_NO_MEMORY && !t->processes) why.status = DPT_E_DEVICE;
    if (!dpti_is_loss(why.status) || t->stop_on_loss)
        return dpti_trainer_fail(t, t->workers[rank].device, error);
    const dpt_status status = dpti_trainer_lose_one(t, rank, &why);
    if (status == DPT_OK || why.status == error->status) return status;
    return dpti_trainer_fail(t, t->workers[rank].device, error);
}

dpt_status dpti_trainer_publish_data(dpt_trainer *trainer, dpti_data_store *store)
{
    dpt_trainer *t = trainer;
    for (size_t c = 0; c < store->n_copies; c++)
        /* A loss may unbind programs of evaluation (dpti_trainer_rebuild): then the store has no
           copy left. */
        while (c < store->n_copies && dpti_data_copy_is_behind(&store->copies[c])) {
            publish_job job = {.copy = &store->copies[c]};
            const size_t user = find_user(t, store, c);
            if (user == t->n_workers) break;
            if (!dpti_trainer_call(t, user, run_publish, &job)) {
                dpti_dataset_leave(job.copy->data); /* the device may still read them */
                job.status = DPT_E_DEVICE_LOST;
                job.error = *dpti_hung_error(&t->workers[user]);
            }
            if (job.status != DPT_OK) DPT_TRY(lose(t, user, &job.error));
        }
    return DPT_OK;
}

dpt_status dpti_feeding_settle(dpt_trainer *trainer)
{
    const dpt_status status = dpti_trainer_publish_data(trainer, dpti_feeding_store(trainer));
    if (status != DPT_OK && trainer->processes) dpti_processes_give_up(trainer->processes);
    return status;
}
