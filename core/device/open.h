/* Opens one device, closes it, and opens it again after it was lost. */
#ifndef DPTI_OPEN_H
#define DPTI_OPEN_H

#include "device/device.h"
#include "device/select.h"

/* Opens a selected device on a new driver thread.  `args` has the requests of all devices of its
   backend.  On failure the error is in the context: DPT_E_DEVICE_LOST if the device does not
   answer, DPT_E_NO_MEMORY, or what the backend returned. */
DPT_CHECK_RESULT dpt_status dpti_device_open(dpt_context *context, const dpti_selected *selected,
                                             const dpt_open_args *args, dpti_device **out);
/* Closes the device and its driver thread.  A device whose driver thread has not returned from a
   call is left to that thread. */
void dpti_device_close(dpti_device *device);
/* [driver] Closes the vtable of a device that will be opened again or never be called again.
   Whatever was created on the device and not released is abandoned.  The device is lost from then
   on. */
void dpti_device_shut(dpti_device *device);
/* [driver] Opens a device that is shut, with the same arguments as the first time.  Fails as the
   backend's open does; the device then stays shut.  Nobody may still hold what was made on the
   device before, because it would be taken for the new device's. */
DPT_CHECK_RESULT dpt_status dpti_device_reopen(dpti_device *device);

#endif
