/* What the steps so far come to: per device its samples, its times, and a model of what it would
   take alone, whatever divides the batch.  A step in which a device has samples for the first time,
   or runs something for the first time (graph/replica.h: fresh), is left out: memory is touched and
   kernels are loaded in it, which may take longer than all the others.  Pure arithmetic: knows no
   device and no clock. */
#ifndef DPTI_ACCOUNT_H
#define DPTI_ACCOUNT_H

#include "balance/balance.h"
#include "base/times.h"
#include "dptrain.h"

typedef struct dpti_device_sums {
    size_t samples, steps; /* steps in which it had samples */
    double busy, exchange, waiting;
    double alone; /* what it did for itself in the steps with samples: without its exchanges */
} dpti_device_sums;

typedef struct dpti_device_account {
    bool started;               /* it has had samples */
    dpti_device_sums step, sum; /* of the step that is being added; of those that are */
    dpti_time_model model;      /* of that */
} dpti_device_account;

typedef struct dpti_account {
    size_t n_devices, batch_size;
    bool cold; /* the step that is being added is left out */
    size_t steps, samples;
    double seconds;
    dpti_device_account *devices; /* (n_devices) */
} dpti_account;

/* false without memory. */
DPT_CHECK_RESULT bool dpti_account_create(size_t n_devices, size_t batch_size, dpti_account *out);
void dpti_account_free(dpti_account *account); /* accepts a zeroed one; zeroes it */

/* One step of one device, which had n samples; `seconds` by kind, (DPTI_SPAN_KINDS).  Fresh: it did
   something for the first time. */
void dpti_account_add(dpti_account *account, size_t device, size_t n, const double *seconds,
                      bool fresh);
/* Once all devices are told: that the step took so many seconds for its n samples. */
void dpti_account_add_step(dpti_account *account, size_t n, double seconds);

/* As dptrain.h says. */
dpt_device_report dpti_account_device(const dpti_account *account, size_t device);
dpt_mix_report dpti_account_mix(const dpti_account *account);

#endif
