/* What goes before and after every call of the vtable. */
#ifndef DPTI_DISPATCH_H
#define DPTI_DISPATCH_H

#include "device/device.h"

/* [driver] Called before a call of the vtable.  Empties the device's error record, so that
   dpti_end_call recognizes a new one.  DPT_E_DEVICE_LOST, with the record unchanged, if the device
   is lost. */
DPT_CHECK_RESULT dpt_status dpti_begin_call(dpti_device *device);
/* [driver] Called immediately before and after the call itself.  Between them the driver thread may
   be abandoned because the device does not answer.  `leave` then does not return: the thread ends
   and touches nothing but the device and its driver, because everything else that it worked on may
   not exist any more. */
void dpti_enter_call(dpti_device *device);
void dpti_leave_call(dpti_device *device);

/* [driver] Called after the call.  Makes sure that a failure has a message, and notes a lost
   device. `entry` names the entry of the vtable.  Returns the status. */
DPT_CHECK_RESULT dpt_status dpti_end_call(dpti_device *device, dpt_status status,
                                          const char *entry);

/* Evaluates a call that returns a status, with everything around it but dpti_begin_call. */
#define DPTI_CALL(device, call, entry)                                                             \
    (dpti_enter_call(device), dpti_end_call((device), (call), (entry)))
/* Evaluates a call that releases something and returns no status.  The caller clears its pointer
   before the call: the call may never return, and the object must not be released twice. */
#define DPTI_RELEASE(device, call) (dpti_enter_call(device), (call), dpti_leave_call(device))

#endif
