/* What the steps so far come to: per device its samples, its times, and a model of what it would
   take alone, whatever divides the batch.  Pure arithmetic: knows no device and no clock. */
#ifndef DPTI_ACCOUNT_H
#define DPTI_ACCOUNT_H

#include "base/times.h"
#include "dptrain.h"
#include "train/balance.h"

typedef struct dpti_device_account {
    size_t samples, steps; /* steps in which it had samples */
    double busy, exchange, waiting;
    dpti_time_model alone; /* of what it does for itself: without its exchanges with the others */
} dpti_device_account;

typedef struct dpti_account {
    size_t n_devices, batch_size, samples;
    double seconds;
    dpti_device_account *devices; /* (n_devices) */
} dpti_account;

/* false without memory. */
DPT_CHECK_RESULT bool dpti_account_create(size_t n_devices, size_t batch_size, dpti_account *out);
void dpti_account_free(dpti_account *account); /* accepts a zeroed one; zeroes it */

/* Takes in one step of one device, which had n samples.  The first with samples does not count for
   the model: memory is touched and kernels are loaded in it. */
void dpti_account_add(dpti_account *account, size_t device, size_t n, const dpti_times *times);
/* And, once a step, that it took so many seconds for its n samples. */
void dpti_account_add_step(dpti_account *account, size_t n, double seconds);

/* As dptrain.h says. */
dpt_device_report dpti_account_device(const dpti_account *account, size_t device);
dpt_mix_report dpti_account_mix(const dpti_account *account);

#endif
