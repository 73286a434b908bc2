/* A data set where the devices can see it: one copy for each memory that several devices share. */
#ifndef DPTI_DATA_STORE_H
#define DPTI_DATA_STORE_H

#include "data/data.h"
#include "device/device.h"

typedef struct dpti_data_copy {
    dpti_device *owner; /* who made it; devices of its backend and memory domain use it too */
    dpti_buffer images, labels, targets; /* all records; what the data set lacks is empty */
} dpti_data_copy;

/* What a loss compares with. */
static inline const dpti_buffer *dpti_data_answers(const dpti_data_copy *copy, dpt_loss loss)
{
    return loss == DPT_LOSS_SQUARED_ERROR ? &copy->targets : &copy->labels;
}

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
