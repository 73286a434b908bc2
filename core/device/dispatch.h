/* What checked dispatch and the opening of devices share. */
#ifndef DPTI_DISPATCH_H
#define DPTI_DISPATCH_H

#include "device/device.h"

/* [driver] Goes before a call of the vtable: forgets the last record, so that dpti_end_call can
   tell a new one.  DPT_E_DEVICE_LOST, with the record kept, if the device is lost. */
DPT_CHECK_RESULT dpt_status dpti_begin_call(dpti_device *device);
/* [driver] Goes after it: sees to it that a failure has a record, and notes a lost device.
   `entry` names what was called.  Returns the status. */
DPT_CHECK_RESULT dpt_status dpti_end_call(dpti_device *device, dpt_status status,
                                          const char *entry);

#endif
