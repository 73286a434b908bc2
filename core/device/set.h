/* A set of open devices: what dpt_device_set_open returns. */
#ifndef DPTI_SET_H
#define DPTI_SET_H

#include "device/device.h"

struct dpt_device_set {
    dpt_context *context;
    size_t n_devices;
    dpti_device **devices;
    bool borrowed; /* a subset: another set owns the devices */
};

#endif
