/* What every call of the public API checks, and how it names a device that failed. */
#ifndef DPTI_CALLS_H
#define DPTI_CALLS_H

#include "device/device.h"
#include "dptrain.h"

/* DPT_E_INVALID if a pointer that `call` needs is NULL; `what` is the pointer's name in dptrain.h.
 */
DPT_CHECK_RESULT dpt_status dpti_trainer_given(dpt_trainer *trainer, const char *call,
                                               const char *what, const void *pointer);
/* Whether `call` may be made now; DPT_E_STATE if not.

   outside_fit: for calls that train.  They may not be made where dpt_fit calls back.
   idle: for calls that read what devices hold.  They may not be made with steps in flight, nor
   where dpt_fit calls back, except behind an epoch.
   check_idle: for calls that change what training goes on from.  Both conditions hold. */
DPT_CHECK_RESULT dpt_status dpti_trainer_outside_fit(dpt_trainer *trainer, const char *call);
DPT_CHECK_RESULT dpt_status dpti_trainer_idle(dpt_trainer *trainer, const char *call);
DPT_CHECK_RESULT dpt_status dpti_trainer_check_idle(dpt_trainer *trainer, const char *call);

/* Records a device's failure in the context, and names the device.  Returns the error's status. */
dpt_status dpti_trainer_fail(dpt_trainer *trainer, const dpti_device *device,
                             const dpt_error *error);

#endif
