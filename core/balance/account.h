/* The account of a training: for each device its samples, its times, and a model of the time that
   the device would take alone.  The account does not depend on how batches are divided.  A step is
   left out if a device has samples for the first time in it, or runs something for the first time
   in it (graph/replica.h: first_run), because memory is touched and kernels are loaded then, which
   may take longer than all other steps.  Pure arithmetic: this file uses no device and no clock. */
#ifndef DPTI_ACCOUNT_H
#define DPTI_ACCOUNT_H

#include "balance/balance.h"
#include "base/times.h"
#include "dptrain.h"

typedef struct dpti_device_sums {
    size_t samples, steps; /* steps in which the device had samples */
    double busy, exchange, waiting;
    double alone; /* seconds without exchanges, in the steps with samples */
} dpti_device_sums;

typedef struct dpti_device_account {
    bool started;               /* the device has had samples */
    dpti_device_sums step, sum; /* sums of the step that is being added, and of all added steps */
    dpti_time_model model;      /* model of `alone` */
} dpti_device_account;

typedef struct dpti_account {
    size_t n_devices, batch_size;
    bool cold; /* the step that is being added is left out */
    size_t steps, samples;
    double seconds;
    dpti_device_account *devices; /* (n_devices) */
} dpti_account;

/* Returns false if there is no memory. */
DPT_CHECK_RESULT bool dpti_account_create(size_t n_devices, size_t batch_size, dpti_account *out);
void dpti_account_free(dpti_account *account); /* accepts a zeroed account; sets it to zero */

/* What one device did in a step. */
typedef struct dpti_device_step {
    size_t n_samples;
    const double *seconds; /* (DPTI_SPAN_KINDS) the times by kind */
    bool first_run;        /* the device ran something for the first time */
} dpti_device_step;

/* Adds one device's part of a step. */
void dpti_account_add(dpti_account *account, size_t device, const dpti_device_step *step);
/* Adds the step, after all its devices were added: n samples in `seconds`. */
void dpti_account_add_step(dpti_account *account, size_t n, double seconds);

/* Return the reports as dptrain.h describes them. */
dpt_device_report dpti_account_device(const dpti_account *account, size_t device);
dpt_mix_report dpti_account_mix(const dpti_account *account);

#endif
