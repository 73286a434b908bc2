/* Copies of a data set: one for each memory domain that has room for it (data_store.h). */
#include "train/components/data_store.h"
#include "device/buffer.h"
#include "device/call_limit.h"
#include "device/set.h"
#include "device/stream.h"
#include "graph/loss.h"

#include "base/left_behind.h"
#include "dpt_error.h"

#include <stdlib.h>
#include <string.h>

typedef struct copy_job {
    const dpt_dataset *data;
    dpti_data_copy *copy;
    dpt_status status;
} copy_job;

static dpt_status make_copy(dpti_device *device, const dpt_dataset *data, dpti_data_copy *copy)
{
    const size_t n = data->n_records; /* products fit: they are in memory */
    const size_t target_bytes = n * data->classes * sizeof(float);
    if (data->reader) return DPT_OK; /* every device is fed */
    copy->n_writes = dpti_dataset_whole(data)->n_writes;
    DPT_TRY(
        dpti_alloc_data(device, data->images, n * dpti_dataset_image_bytes(data), &copy->images));
    if (data->labels)
        DPT_TRY(dpti_alloc_data(device, data->labels,
                                n * dpti_dataset_labels(data) * sizeof *data->labels,
                                &copy->labels));
    if (data->targets)
        DPT_TRY(dpti_alloc_data(device, data->targets, target_bytes, &copy->targets));
    return dpti_sync(device);
}

static void leave(dpti_data_copy *copy)
{
    dpti_data_copy *left = malloc(sizeof *left);
    copy->owner->stays = true;
    if (left) *left = dpti_data_copy_detach(copy);
    if (left) dpti_leave_behind(left);
}

void dpti_data_copy_free(dpti_data_copy *copy)
{
    if (copy->left) {
        leave(copy);
        return;
    }
    dpti_free(&copy->targets);
    dpti_free(&copy->labels);
    dpti_free(&copy->images);
}

static void run_free_copy(dpti_device *device, void *argument)
{
    (void)device;
    dpti_data_copy_free(argument);
}

static void run_make_copy(dpti_device *device, void *argument)
{
    copy_job *job = argument;
    job->status = make_copy(device, job->data, job->copy);
    if (job->status != DPT_E_NO_MEMORY) return;
    run_free_copy(device, job->copy);
    job->status = DPT_OK;
}

void dpti_data_copy_drop(dpti_data_copy *copy)
{
    /* Nor is a device that is lost asked to free nothing. */
    if (!copy->images.device && !copy->labels.device && !copy->targets.device) return;
    if (!dpti_driver_finish(copy->owner, run_free_copy, copy)) dpti_dataset_leave(copy->data);
}

dpti_data_copy dpti_data_copy_detach(dpti_data_copy *copy)
{
    const dpti_data_copy detached = *copy;
    copy->images = copy->labels = copy->targets = (dpti_buffer){.device = NULL};
    copy->left = false;
    return detached;
}

size_t dpti_data_bytes(const dpti_data_copy *copy)
{
    return copy->images.charged_bytes + copy->labels.charged_bytes + copy->targets.charged_bytes;
}

bool dpti_data_copy_is_behind(const dpti_data_copy *copy)
{
    const bool wrapped = dpti_data_bytes(copy) == 0; /* all of it is the host's memory, as it is */
    return dpti_data_resident(copy) && !wrapped &&
           copy->n_writes < dpti_dataset_whole(copy->data)->n_writes;
}

/* A buffer of a copy, and the memory of the data set that the buffer holds. */
typedef struct copied {
    const dpti_buffer *to;
    const void *from;
    size_t record_bytes;
} copied;

static dpt_status upload(dpti_device *device, const copied *part, const dpti_written *what)
{
    const dpti_buffer *to = part->to;
    const size_t record_bytes = part->record_bytes;
    const size_t offset = what->first * record_bytes;
    const dpti_buffer seen = {.device = device, .handle = to->handle, .n_bytes = to->n_bytes};
    if (!to->device || to->charged_bytes == 0)
        return DPT_OK; /* a backend may wrap some and not all */
    return dpti_upload(&seen, offset, (const uint8_t *)part->from + offset,
                       what->count * record_bytes);
}

static dpt_status publish(const dpti_data_copy *copy, dpti_device *device, const dpti_written *what)
{
    const dpt_dataset *d = copy->data;
    const copied images = {&copy->images, d->images, dpti_dataset_image_bytes(d)};
    const copied labels = {&copy->labels, d->labels, dpti_dataset_labels(d) * sizeof *d->labels};
    const copied targets = {&copy->targets, d->targets, d->classes * sizeof(float)};
    DPT_TRY(upload(device, &images, what));
    DPT_TRY(upload(device, &labels, what));
    return upload(device, &targets, what);
}

dpt_status dpti_data_copy_publish(dpti_data_copy *copy, dpti_device *device)
{
    const dpt_dataset *whole = dpti_dataset_whole(copy->data);
    const dpti_written all = {0, whole->n_records};
    const bool forgotten = whole->n_writes - copy->n_writes > DPTI_WRITES;
    if (forgotten) DPT_TRY(publish(copy, device, &all));
    for (size_t i = copy->n_writes; !forgotten && i < whole->n_writes; i++)
        DPT_TRY(publish(copy, device, &whole->writes[i % DPTI_WRITES]));
    DPT_TRY(dpti_sync(device));
    copy->n_writes = whole->n_writes;
    return DPT_OK;
}

dpti_data_places dpti_data_copy_places(const dpti_data_copy *copy, dpt_loss loss)
{
    return (dpti_data_places){.images = &copy->images,
                              .answers =
                                  dpti_loss_has_targets(loss) ? &copy->targets : &copy->labels};
}

static dpti_data_copy copy_of(dpti_device *device, const dpt_dataset *data)
{
    dpti_data_copy copy = {.owner = device, .backend = device->base.backend, .data = data};
    memcpy(copy.memory_domain, device->info.memory_domain, sizeof copy.memory_domain);
    return copy;
}

static bool serves(const dpti_data_copy *copy, const dpti_device *device)
{
    return copy->owner == device || dpti_sees_memory(device, copy->backend, copy->memory_domain);
}

static size_t find_copy(const dpti_data_store *store, const dpti_device *device)
{
    size_t i = 0;
    while (i < store->n_copies && !serves(&store->copies[i], device))
        i++;
    return i;
}

/* Makes a copy.  A device that hangs at it keeps what it may have made, and what it reads. */
static dpt_status place(const dpti_placing *where, size_t device, const dpt_dataset *data,
                        dpti_data_copy *copy)
{
    copy_job job = {.data = data, .copy = copy};
    if (where->call(where->user, device, run_make_copy, &job)) return job.status;
    dpti_dataset_leave(data);
    (void)dpti_data_copy_detach(copy);
    return DPT_E_DEVICE_LOST;
}

dpt_status dpti_data_store_create(const dpti_placing *where, const dpt_dataset *data,
                                  dpti_data_store *out, dpti_data_store_failure *failure)
{
    dpt_error *error = &failure->error;
    const size_t n = where->devices->n_devices;
    dpti_data_store store = {.copies = calloc(n, sizeof *store.copies),
                             .copy_of = calloc(n, sizeof *store.copy_of)};
    dpt_status status = DPT_OK;
    if (!store.copies || !store.copy_of)
        status = DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to place the data");
    for (size_t i = 0; status == DPT_OK && i < n; i++) {
        dpti_device *device = where->devices->devices[i];
        failure->device = i;
        if (where->absent && where->absent[i]) continue;
        store.copy_of[i] = find_copy(&store, device);
        if (store.copy_of[i] < store.n_copies) continue;
        store.copies[store.n_copies] = copy_of(device, data);
        status = place(where, i, data, &store.copies[store.n_copies++]);
        if (status != DPT_OK)
            (void)DPT_FAIL(error, status, "device %s cannot hold the data: %s", device->id,
                           dpti_device_error(device)->message);
    }
    if (status == DPT_OK)
        *out = store;
    else
        dpti_data_store_destroy(&store);
    return status;
}

dpt_status dpti_data_store_rejoin(const dpti_placing *where, dpti_data_store *store,
                                  const dpt_dataset *data, size_t device)
{
    dpti_device *driver = where->devices->devices[device];
    size_t i = find_copy(store, driver);
    if (i == store->n_copies) store->copies[store->n_copies++] = copy_of(driver, data);
    store->copy_of[device] = i;
    dpti_data_copy *copy = &store->copies[i];
    if (copy->images.device) return DPT_OK;
    copy->owner = driver;
    return place(where, device, data, copy);
}

void dpti_data_store_destroy(dpti_data_store *store)
{
    for (size_t i = 0; i < store->n_copies; i++)
        dpti_data_copy_drop(&store->copies[i]);
    free(store->copies);
    free(store->copy_of);
    *store = (dpti_data_store){0};
}

void dpti_data_store_leave(dpti_data_store *store, size_t device)
{
    if (store->n_copies > 0) store->copies[store->copy_of[device]].left = true;
}
