/* throttle=: makes a device slower by waiting, for experiments on equal hardware. */
#ifndef DPTI_THROTTLE_H
#define DPTI_THROTTLE_H

#include "device/device.h"

/* [driver] Waits after work that took `busy_seconds`, so that the work seems `throttle` times as
 * slow.
 */
void dpti_device_throttle(const dpti_device *device, double busy_seconds);

/* Changes throttle= of an open device after all jobs in its queue, and waits for that.  `factor` is
   at least 1.  For tests of how the trainer follows a device's speed. */
void dpti_device_set_throttle(dpti_device *device, double factor);

#endif
