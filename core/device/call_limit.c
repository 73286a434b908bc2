/* Time limits of calls, and waiting for jobs within them. */
#include "device/call_limit.h"
#include "device/device.h"

#include "context/context.h"

#include <math.h>
#include <stdio.h>

/* Seconds: the limit of a call that no trainer watches, and the longest time between two looks. */
static const double default_patience = 600, longest_wait = 0.1;

/* A call that opens or prepares a device compiles programs, measures, and places data.  It may take
   so many times as long as another call. */
static const double preparing = 10;

double dpti_preparing_seconds(double device_timeout)
{
    return device_timeout > 0 ? preparing * device_timeout : default_patience;
}

dpti_limit dpti_preparing_limit(const dpt_context *context, const char *doing)
{
    const double timeout = context->device_timeout;
    dpti_limit limit = {.seconds = dpti_preparing_seconds(timeout)};
    snprintf(limit.words, sizeof limit.words, "%s (%s): leave it out, or restart its driver", doing,
             timeout > 0 ? "ten times --device-timeout" : "--device-timeout sets the limit");
    return limit;
}

dpti_limit dpti_call_limit(const dpt_context *context)
{
    const double timeout = context->device_timeout;
    return (dpti_limit){.seconds = timeout > 0 ? timeout : INFINITY,
                        .words = "(--device-timeout sets the limit)"};
}

double dpti_limit_pause(const dpti_limit *limit)
{
    return fmin(longest_wait, limit->seconds / 4);
}

bool dpti_driver_look(dpti_device *device, const dpti_limit *limit, double waited,
                      dpti_watch *watch)
{
    dpt_error error = {.status = DPT_E_DEVICE_LOST};
    const unsigned long long call = dpti_driver_call_now(device);
    watch->seconds = call != 0 && call == watch->call ? watch->seconds + waited : 0;
    watch->call = call;
    if (watch->seconds < limit->seconds || call == 0) return false;
    (void)DPT_FAIL(&error, DPT_E_DEVICE_LOST, "no answer within %.3g s %s", limit->seconds,
                   limit->words);
    return dpti_driver_abandon(device, call, &error);
}

bool dpti_driver_await(dpti_device *device, uint64_t ticket, const dpti_limit *limit)
{
    const double pause = dpti_limit_pause(limit);
    dpti_watch watch = {.call = 0};
    while (!dpti_driver_wait_for(device, ticket, pause))
        if (!dpti_driver_is_running(device) || dpti_driver_look(device, limit, pause, &watch))
            return false;
    return true;
}

uint64_t dpti_driver_post_within(dpti_device *device, dpti_job *job, void *argument,
                                 const dpti_limit *limit)
{
    const uint64_t n = dpti_driver_last_ticket(device);
    if (n >= DPTI_DRIVER_JOBS) (void)dpti_driver_await(device, n - DPTI_DRIVER_JOBS + 1, limit);
    return dpti_driver_post(device, job, argument);
}

bool dpti_driver_call_within(dpti_device *device, dpti_job *job, void *argument,
                             const dpti_limit *limit)
{
    const uint64_t ticket = dpti_driver_post_within(device, job, argument, limit);
    return dpti_driver_await(device, ticket, limit);
}

bool dpti_driver_finish(dpti_device *device, dpti_job *job, void *argument)
{
    const dpti_limit limit = {.seconds = device->patience > 0 ? device->patience : default_patience,
                              .words = "while it was released"};
    return dpti_driver_call_within(device, job, argument, &limit);
}
