/* Putting devices on standby, waking them and refreshing their replicas (standby_settle.h). */
#include "train/recovery/standby_settle.h"

#include "base/clock.h"
#include "train/recovery/recover.h"
#include "train/standby/standby.h"

static dpt_status refresh(dpt_trainer *t)
{
    const double began = dpti_seconds();
    DPT_TRY(dpti_trainer_refresh(t));
    dpti_standby_note_refresh(t, dpti_seconds() - began);
    return DPT_OK;
}

/* A device that is put on standby has the training state of now. */
dpt_status dpti_standby_settle(dpt_trainer *trainer)
{
    if (dpti_standby_refresh_due(trainer)) DPT_TRY(refresh(trainer));
    if (!dpti_standby_change_due(trainer)) return DPT_OK;
    DPT_TRY(dpti_trainer_restore(trainer)); /* if devices are lost at it nothing changes */
    if (dpti_standby_change_due(trainer)) dpti_standby_change(trainer);
    return DPT_OK;
}
