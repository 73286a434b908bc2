/* A device's driver thread and its queue of jobs.

   All calls of the device's vtable are made on this thread. */
#ifndef DPTI_DRIVER_H
#define DPTI_DRIVER_H

#include "device/device.h"

enum { DPTI_DRIVER_JOBS = 64 };

/* Starts the driver thread of `device`, which gets the device's id as its name, and sets
   device->driver.  DPT_E_NO_MEMORY or DPT_E_INTERNAL with the reason in *error. */
DPT_CHECK_RESULT dpt_status dpti_driver_start(dpti_device *device, dpt_error *error);
/* Runs the jobs in the queue, ends the thread and clears device->driver.  Accepts a device without
   a driver. */
void dpti_driver_stop(dpti_device *device);

typedef void dpti_job(dpti_device *device, void *argument);

/* Puts a job at the end of the device's queue and returns its ticket.  Tickets count from 1. Blocks
   while the queue (DPTI_DRIVER_JOBS) is full.  `argument` stays valid until the job has run. */
uint64_t dpti_driver_post(dpti_device *device, dpti_job *job, void *argument);
/* Returns the ticket of the last job that was posted; 0 if there is none. */
uint64_t dpti_driver_last_ticket(dpti_device *device);
/* Waits until the job with this ticket, and so every earlier job, has run. */
void dpti_driver_wait(dpti_device *device, uint64_t ticket);
/* Posts and waits. */
void dpti_driver_call(dpti_device *device, dpti_job *job, void *argument);
/* Waits as dpti_driver_wait does, for at most so many seconds.  Returns whether the job has run. */
bool dpti_driver_wait_for(dpti_device *device, uint64_t ticket, double seconds);
/* Returns whether the calling thread is the device's driver thread. */
bool dpti_driver_is_own_thread(const dpti_device *device);

/* Driver threads that hang.

   A call of the vtable that does not return cannot be ended, so its thread is abandoned.  When the
   call returns after all, the thread touches nothing but the device and its driver, and ends. Until
   then everything that the call was given, such as memory for transfers and arguments of operators,
   belongs to the call, and nobody else touches it. */

/* Returns whether the driver thread has not been abandoned. */
bool dpti_driver_is_running(dpti_device *device);
/* Returns a number that identifies the call that the driver thread is in; 0 if it is in none. */
unsigned long long dpti_driver_call_now(dpti_device *device);
/* Abandons the driver thread if it is still in that call, and returns whether it was.  From then on
   the device is lost, jobs in the queue are dropped, and new jobs run at once on the thread that
   posts them, where calls of the vtable fail with `error`. */
bool dpti_driver_abandon(dpti_device *device, unsigned long long call, const dpt_error *error);
/* Leaves the driver and the device to the abandoned thread for ever; the caller touches neither any
   more. */
void dpti_driver_leave(dpti_device *device);
/* Returns whether the device has a driver thread.  If the thread was abandoned and has returned, a
   new thread is started.  The device stays lost. */
bool dpti_driver_revive(dpti_device *device);

#endif
