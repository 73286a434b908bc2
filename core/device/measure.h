/* Measures how fast a device is, for `dptrain devices`.  It uses checked dispatch only, so it
   measures what training sees, launches and waits included. */
#ifndef DPTI_MEASURE_H
#define DPTI_MEASURE_H

#include "device/device.h"

/* [driver] Measures an idle device in about a second, and frees the memory that it used.
   DPT_E_UNSUPPORTED if the device has no LINEAR_FORWARD; otherwise it fails as the backend does.
   The device's record has the reason. */
DPT_CHECK_RESULT dpt_status dpti_measure(dpti_device *device, dpt_device_rates *out);

#endif
