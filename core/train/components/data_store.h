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
    dpti_device *owner; /* who made it; devices of its backend and memory domain use it too, */
    const dpt_backend *backend; /* which are these, whatever its driver does with it */
    char memory_domain[DPT_DOMAIN_BYTES];
    /* All records; what the data set lacks is empty, and everything where they do not fit. */
    dpti_buffer images, labels, targets;
    const dpt_dataset *data; /* whose they are, */
    size_t n_writes;         /* with so many of its writes */
    bool left;               /* a call that may not return reads it: it is not freed */
} dpti_data_copy;

static inline bool dpti_data_resident(const dpti_data_copy *copy)
{
    return copy->images.device != NULL;
}

/* Device memory that it takes; none where host memory serves as it is. */
size_t dpti_data_bytes(const dpti_data_copy *copy);
/* Where a program finds the records, and what this loss compares with. */
dpti_data_places dpti_data_copy_places(const dpti_data_copy *copy, dpt_loss loss);
/* Whether samples were written that it does not have. */
bool dpti_data_copy_is_behind(const dpti_data_copy *copy);
/* [driver of `device`, which sees that memory] Brings them. */
DPT_CHECK_RESULT dpt_status dpti_data_copy_publish(dpti_data_copy *copy, dpti_device *device);
/* Frees what it takes: it is resident no more. */
void dpti_data_copy_drop(dpti_data_copy *copy);
/* The same in two halves: takes it out of its store, where it is resident no more, and frees it.
   The second half on the owner's driver. */
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

/* A memory that has no room for the data gets a copy that is not resident.  On failure *out is
   zeroed, *failing is the device, and *error names it. */
DPT_CHECK_RESULT dpt_status dpti_data_store_create(const dpti_placing *where,
                                                   const dpt_dataset *data, dpti_data_store *out,
                                                   size_t *failing, dpt_error *error);
/* For a device of these that was away: the copy that is there in its memory, or one that it makes.
   A failure is in its record; lack of memory is none. */
DPT_CHECK_RESULT dpt_status dpti_data_store_rejoin(const dpti_placing *where,
                                                   dpti_data_store *store, const dpt_dataset *data,
                                                   size_t device);
void dpti_data_store_destroy(dpti_data_store *store); /* accepts a zeroed one */
/* A device is in a call that may never return: what it reads stays, whoever made it. */
void dpti_data_store_leave(dpti_data_store *store, size_t device); /* accepts a zeroed one */

#endif
