/* What checked dispatch and the opening of devices share. */
#ifndef DPTI_DISPATCH_H
#define DPTI_DISPATCH_H

#include "device/device.h"

/* [driver] Goes before a call of the vtable: forgets the last record, so that dpti_end_call can
   tell a new one.  DPT_E_DEVICE_LOST, with the record kept, if the device is lost. */
DPT_CHECK_RESULT dpt_status dpti_begin_call(dpti_device *device);
/* [driver] Around the call itself: between them the device may be given up for lost because it does
   not answer.  Then leave does not return: the thread ends without a look at anything but the
   device and its driver, since whatever else it was working on may be gone. */
void dpti_enter_call(dpti_device *device);
void dpti_leave_call(dpti_device *device);

/* [driver] Goes after it: sees to it that a failure has a record, and notes a lost device.
   `entry` names what was called.  Returns the status. */
DPT_CHECK_RESULT dpt_status dpti_end_call(dpti_device *device, dpt_status status,
                                          const char *entry);

/* The call, with what goes before and behind it but dpti_begin_call: a status. */
#define DPTI_CALL(device, call, entry)                                                             \
    (dpti_enter_call(device), dpti_end_call((device), (call), (entry)))
/* One that releases something, and has no status.  Who has held that may be gone while it is out,
   or be released once more when it has come back: it is forgotten before the call. */
#define DPTI_RELEASE(device, call) (dpti_enter_call(device), (call), dpti_leave_call(device))

#endif
