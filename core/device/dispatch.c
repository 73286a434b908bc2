/* What goes before and after every call of the vtable. */
#include "device/dispatch.h"

dpt_status dpti_begin_call(dpti_device *device)
{
    if (device->lost) return DPT_E_DEVICE_LOST;
    device->base.error.status = DPT_OK;
    device->base.error.message[0] = '\0';
    return DPT_OK;
}

dpt_status dpti_end_call(dpti_device *device, dpt_status status, const char *entry)
{
    dpti_leave_call(device);
    if (status == DPT_OK) return DPT_OK;
    dpt_error *error = &device->base.error;
    if (error->message[0] == '\0')
        DPT_FAIL(error, status, "%s failed: %s", entry, dpt_status_words(status));
    error->status = status;
    if (status == DPT_E_DEVICE_LOST) device->lost = true;
    return status;
}
