/* What every call of the public API checks (calls.h). */
#include "train/progress/calls.h"

#include "context/context.h"
#include "train/progress/in_flight.h"
#include "train/state/trainer.h"

#include <stdio.h>

dpt_status dpti_trainer_given(dpt_trainer *trainer, const char *call, const char *what,
                              const void *pointer)
{
    if (pointer) return DPT_OK;
    return dpt_fail(trainer->context, DPT_E_INVALID, "%s needs its argument %s, which is NULL",
                    call, what);
}

dpt_status dpti_trainer_outside_fit(dpt_trainer *trainer, const char *call)
{
    if (trainer->callback == DPTI_CALLBACK_NONE) return DPT_OK;
    return dpt_fail(trainer->context, DPT_E_STATE,
                    "%s in a callback of dpt_fit: call it when dpt_fit has returned", call);
}

dpt_status dpti_trainer_idle(dpt_trainer *trainer, const char *call)
{
    if (trainer->callback == DPTI_CALLBACK_OTHER)
        return dpt_fail(trainer->context, DPT_E_STATE,
                        "%s in a callback of dpt_fit: call it when an epoch is told", call);
    if (dpti_steps_n_in_flight(trainer) == 0) return DPT_OK;
    return dpt_fail(trainer->context, DPT_E_STATE,
                    "%s while steps are in flight: collect them first", call);
}

dpt_status dpti_trainer_check_idle(dpt_trainer *trainer, const char *call)
{
    DPT_TRY(dpti_trainer_outside_fit(trainer, call));
    return dpti_trainer_idle(trainer, call);
}

dpt_status dpti_trainer_fail(dpt_trainer *trainer, const dpti_device *device,
                             const dpt_error *error)
{
    char prefix[DPTI_ID_BYTES + 8];
    snprintf(prefix, sizeof prefix, "device %s", device->id);
    /* A loss that is not finite is no device's fault. */
    return dpti_context_fail(trainer->context, error->status == DPT_E_NOT_FINITE ? NULL : prefix,
                             error);
}
