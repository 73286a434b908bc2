/* Copies of a data set in the memories that devices see.  Devices that share a memory share a copy.
   A memory that does not hold the data has a copy that is not resident: its devices are fed. */
#ifndef DPTI_DATA_STORE_H
#define DPTI_DATA_STORE_H

#include "data/data.h"
#include "device/buffer.h"
#include "device/device.h"
#include "device/driver.h"
#include "graph/replica.h"

typedef struct dpti_data_copy {
    dpti_device *owner; /* the device that made the copy */
    /* The owner's backend and memory domain: devices that have both use this copy.  They stand here
       because the owner's driver thread may open the owner anew, which writes to its record. */
    const dpt_backend *backend;
    char memory_domain[DPT_DOMAIN_BYTES];
    /* All records.  A buffer is empty if the data set has no such records.  All three are empty if
       the memory does not hold the data set. */
    dpti_buffer images, labels, targets;
    const dpt_dataset *data; /* the data set */
    size_t n_writes;         /* writes to the data set that the copy has */
    bool left;               /* a call that may not return reads the copy: it is never freed */
} dpti_data_copy;

/* Whether the memory holds the data set. */
static inline bool dpti_data_resident(const dpti_data_copy *copy)
{
    return copy->images.device != NULL;
}

/* Bytes of device memory that the copy takes; 0 where devices read the data set's own memory. */
size_t dpti_data_bytes(const dpti_data_copy *copy);
/* Where a program finds the images, and the labels or targets that this loss compares with. */
dpti_data_places dpti_data_copy_places(const dpti_data_copy *copy, dpt_loss loss);
/* Whether samples of the data set were written that the copy does not have. */
bool dpti_data_copy_is_behind(const dpti_data_copy *copy);
/* [driver of `device`, which sees the copy's memory] Copies these samples.  Fails as the upload
 * does.
 */
DPT_CHECK_RESULT dpt_status dpti_data_copy_publish(dpti_data_copy *copy, dpti_device *device);
/* Frees the copy's buffers: it is not resident any more. */
void dpti_data_copy_drop(dpti_data_copy *copy);
/* The same in two halves.  detach returns the buffers, and the copy in the store is not resident
   any more.  free frees them [driver of the owner]. */
dpti_data_copy dpti_data_copy_detach(dpti_data_copy *copy);
void dpti_data_copy_free(dpti_data_copy *copy);

typedef struct dpti_data_store {
    size_t n_copies;
    dpti_data_copy *copies; /* at most one a device */
    size_t *copy_of;        /* (n_devices) which copy a device uses */
} dpti_data_store;

/* Devices that data are placed on.  Those that are absent (n_devices; NULL: none is) are not called
   and have copy 0. */
typedef struct dpti_placing {
    const dpt_device_set *devices;
    const bool *absent;
    /* Runs a job on a device's driver.  false: the device hangs. */
    bool (*call)(void *user, size_t device, dpti_job *job, void *argument);
    void *user;
} dpti_placing;

/* Why data could not be placed, and the device on which this failed. */
typedef struct dpti_data_store_failure {
    size_t device;
    dpt_error error; /* names the device */
} dpti_data_store_failure;

/* A memory that has no room for the data gets a copy that is not resident.  On failure *out is
   zeroed and *failure is set. */
DPT_CHECK_RESULT dpt_status dpti_data_store_create(const dpti_placing *where,
                                                   const dpt_dataset *data, dpti_data_store *out,
                                                   dpti_data_store_failure *failure);
/* For one of these devices that was lost and is opened anew: gives it the copy that is in its
   memory already, or makes one.  A failure is in the device's record.  Lack of memory is no
   failure: the copy is not resident then. */
DPT_CHECK_RESULT dpt_status dpti_data_store_rejoin(const dpti_placing *where,
                                                   dpti_data_store *store, const dpt_dataset *data,
                                                   size_t device);
void dpti_data_store_destroy(dpti_data_store *store); /* accepts a zeroed one */
/* A device is in a call that may never return: the copy that it reads is never freed. */
void dpti_data_store_leave(dpti_data_store *store, size_t device); /* accepts a zeroed one */

#endif
