/* Waits of throttled devices. */
#include "device/throttle.h"

#include "base/clock.h"
#include "device/driver.h"

#include <errno.h>
#include <math.h>
#include <time.h>

static void sleep_seconds(double seconds)
{
    struct timespec left = {.tv_sec = (time_t)seconds,
                            .tv_nsec = (long)((seconds - floor(seconds)) * 1e9)};
    while (nanosleep(&left, &left) != 0 && errno == EINTR) {
    }
}

/* Spins for some microseconds without disturbing the core's other hardware thread. */
static void spin_briefly(void)
{
    for (size_t i = 0; i < 64; i++) {
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#elif defined(__aarch64__)
        __asm__ volatile("yield");
#endif
    }
}

/* If the driver thread computes, it spins: a core that has slept computes more slowly for a while,
   because its caches and its clock have changed, and the core of a slow processor has not slept. */
void dpti_device_throttle(const dpti_device *device, double busy_seconds)
{
    const double seconds = (device->throttle - 1) * busy_seconds;
    if (!(seconds > 0)) return;
    if (!(device->info.flags & DPT_DEVICE_DRIVER_COMPUTES)) {
        sleep_seconds(seconds);
        return;
    }
    const double end = dpti_seconds() + seconds;
    while (dpti_seconds() < end)
        spin_briefly();
}

static void run_set_throttle(dpti_device *device, void *factor)
{
    device->throttle = *(const double *)factor;
}

void dpti_device_set_throttle(dpti_device *device, double factor)
{
    dpti_driver_call(device, run_set_throttle, &factor);
}
