/* A data set where the devices can see it: one copy for each memory that several devices share. */
#ifndef DPTI_DATA_STORE_H
#define DPTI_DATA_STORE_H

#include "data/data.h"
#include "device/device.h"

typedef struct dpti_data_copy {
    dpti_device *owner; /* who made it; devices of its backend and memory domain use it too */
    dpti_buffer images, labels;
} dpti_data_copy;

typedef struct dpti_data_store {
    size_t n_copies;
    dpti_data_copy *copies; /* at most one a device */
    size_t *copy_of;        /* (n_devices) which copy a device uses */
} dpti_data_store;

/* On failure *out is zeroed and *error tells, with the device named. */
DPT_CHECK_RESULT dpt_status dpti_data_store_create(const dpt_device_set *devices,
                                                   const dpt_dataset *data, dpti_data_store *out,
                                                   dpt_error *error);
void dpti_data_store_destroy(dpti_data_store *store); /* accepts a zeroed one */

#endif
