/* Calls that do not return.  The caller's thread waits for jobs and, while it waits, looks at the
   calls that devices are in.  A call that lasts longer than the limit means that its device hangs:
   the device's thread is given up (device.h), and threads that wait for the device in a collective
   are turned away.  Over processes that is the end of the job: this process gives up, and tells
   why.

   Time is counted in short waits, not read from a clock: a process or a machine that was stopped
   for an hour has not waited for an hour. */
#ifndef DPTI_DEADLINE_H
#define DPTI_DEADLINE_H

#include "device/driver.h"

typedef struct dpt_trainer dpt_trainer;
typedef struct dpti_worker dpti_worker;

/* What came of a wait for a job. */
typedef enum dpti_awaited {
    DPTI_AWAITED,    /* the job has run */
    DPTI_AWAIT_MORE, /* it has not run yet */
    DPTI_AWAIT_NONE, /* the worker hangs (dpti_is_hung), and the job has not run or not to its end:
                        nothing that it was given may be freed */
} dpti_awaited;

/* Waits for a job, a tenth of a second at most, and watches all devices. */
dpti_awaited dpti_trainer_await_a_while(dpt_trainer *trainer, size_t rank, uint64_t ticket);
/* Waits for a job, and watches all devices.  false: DPTI_AWAIT_NONE. */
bool dpti_trainer_await(dpt_trainer *trainer, size_t rank, uint64_t ticket);
/* Nothing in flight: posts a job and waits for it.  prepare: the job compiles, measures or places
   data, and may take longer. */
bool dpti_trainer_call(dpt_trainer *trainer, size_t rank, dpti_job *job, void *argument);
bool dpti_trainer_prepare(dpt_trainer *trainer, size_t rank, dpti_job *job, void *argument);
/* Nothing in flight: posts a job that releases something of a worker, and waits for it.  false: the
   device hangs, now or already, and keeps what was to be released. */
bool dpti_trainer_release(dpt_trainer *trainer, size_t rank, dpti_job *job, void *argument);
/* Nothing in flight: notes the devices whose thread was given up by another owner of the device,
   who released data or another trainer. */
void dpti_trainer_note_hung(dpt_trainer *trainer);
/* Nothing in flight: collectives that turned threads away work again. */
void dpti_trainer_mend(dpt_trainer *trainer);
/* Whether a lost device is being tried again: while it is, its calls are watched, and may take as
   long as preparing does. */
void dpti_deadline_watch_readmission(dpti_worker *worker, bool tried);
/* A step took so many seconds: calls of later steps are measured by the longest. */
void dpti_deadline_note_step(dpt_trainer *trainer, double seconds);

#endif
