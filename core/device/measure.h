/* How fast a device is: what `dptrain devices` shows.  Works through checked dispatch alone, so it
   sees what training sees, launches and waits included. */
#ifndef DPTI_MEASURE_H
#define DPTI_MEASURE_H

#include "device/device.h"

/* [driver] Measures an idle device, in about a second, and frees what it took.  After a failure,
   DPT_E_UNSUPPORTED if the device has no LINEAR_FORWARD, the device's record tells. */
DPT_CHECK_RESULT dpt_status dpti_measure(dpti_device *device, dpt_device_rates *out);

#endif
