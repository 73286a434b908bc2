/* A device's driving thread, beyond what device.h shows. */
#ifndef DPTI_DRIVER_H
#define DPTI_DRIVER_H

#include "device/device.h"

enum { DPTI_DRIVER_JOBS = 64 };

/* Starts the thread of `device`, whose id names it, and sets device->driver.  DPT_E_NO_MEMORY or
   DPT_E_INTERNAL with the reason in *error. */
DPT_CHECK_RESULT dpt_status dpti_driver_start(dpti_device *device, dpt_error *error);
/* Runs what is in the queue, ends the thread and clears device->driver.  Accepts a device without
   a driver. */
void dpti_driver_stop(dpti_device *device);

#endif
