/* Time limits of calls: how long a driver thread may stay in one call before it is abandoned. */
#ifndef DPTI_CALL_LIMIT_H
#define DPTI_CALL_LIMIT_H

#include "device/device.h"
#include "device/driver.h"

/* How long one call may last.  `words` is the end of the message: "while it was opened". */
typedef struct dpti_limit {
    double seconds;
    char words[160];
} dpti_limit;

/* Returns the limit of a call that opens or prepares a device: ten times the timeout, or ten
   minutes if device_timeout is 0. */
double dpti_preparing_seconds(double device_timeout);
/* Returns the same limit for the context's timeout.  `doing` is "while it was opened". */
dpti_limit dpti_preparing_limit(const dpt_context *context, const char *doing);
/* Returns the limit of a call on an open device that no trainer watches: the context's timeout, or
   no limit if that is 0. */
dpti_limit dpti_call_limit(const dpt_context *context);

/* A thread that waits for several drivers looks at each one again and again and keeps this record
   for each.  Zeroed: not looked yet. */
typedef struct dpti_watch {
    unsigned long long call;
    double seconds; /* that the driver has been seen in this call */
} dpti_watch;

/* Returns the seconds between two looks. */
double dpti_limit_pause(const dpti_limit *limit);
/* Looks at a driver; `waited` is the time since the last look.  If the driver has been in one call
   for longer than the limit, abandons it and returns true. */
bool dpti_driver_look(dpti_device *device, const dpti_limit *limit, double waited,
                      dpti_watch *watch);

/* Waits for a job.  Returns false if a call lasted too long and the driver was abandoned; the
   reason is in device->given_up.  Only what that call was given may still be touched by it. */
bool dpti_driver_await(dpti_device *device, uint64_t ticket, const dpti_limit *limit);
/* As dpti_driver_post, which would wait for ever if the queue is full and the driver hangs. */
uint64_t dpti_driver_post_within(dpti_device *device, dpti_job *job, void *argument,
                                 const dpti_limit *limit);
/* Posts and waits.  Returns false as dpti_driver_await does. */
bool dpti_driver_call_within(dpti_device *device, dpti_job *job, void *argument,
                             const dpti_limit *limit);
/* Posts a job that releases something or closes the device, and waits.  Returns false if a call
   lasted longer than device->patience (by default ten minutes) and the driver was abandoned: what
   the job should have released then belongs to the device for ever. */
bool dpti_driver_finish(dpti_device *device, dpti_job *job, void *argument);

#endif
