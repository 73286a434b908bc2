/* The fields of standby: which devices are left out of steps, and what becomes of their replicas.

   Only files of core/train/standby touch these fields.  Other concerns call the functions that
   standby.h declares. */
#ifndef DPTI_STANDBY_STATE_H
#define DPTI_STANDBY_STATE_H

#include "balance/balance.h"
#include "balance/standby_policy.h"
#include "dptrain.h"

/* Devices on standby (standby.c). */
typedef struct dpti_standby {
    bool allowed;               /* devices may be left out of steps in this training */
    dpti_standby_policy policy; /* decides when */
    bool changes;               /* a change is due as soon as nothing is in flight */
    bool others;                /* the change leaves out other devices than before */
    bool *chosen;               /* (n_workers) the devices that the change leaves out */
    double *exchange;           /* (n_workers) seconds of exchanges in a step */
    size_t *shards;             /* (n_devices) shards of the last step that was observed */
    size_t n;                   /* workers on standby; with none, the next fields are not in use */
    size_t first;               /* the step, from 0, before which all of them had the state last */
    float *lr;                  /* (n_lr) learning rates of the steps since */
    size_t n_lr, capacity;      /* capacity: entries that fit into lr */
    double refresh_seconds;     /* how long it took to give them the state last */
    double retry_seconds;       /* how long a step of these devices alone would take, as modelled */
    size_t changed_step;        /* the first step, from 1, behind the last change */
    dpti_balance_reason reason; /* of that change */
    bool stays;                 /* training cannot go back: a caller writes down where it stands */
    bool retries;               /* these steps are being retried now */
    bool has_retried;           /* they were, while a later step waited */
    /* Called with step NULL before steps are retried, and behind each of them; NULL: nobody asked.
       If it fails the remaining steps are not retried, and training stands there. */
    dpt_status (*listen)(void *listener, const dpt_step_metrics *step);
    void *listener;
} dpti_standby;

typedef struct dpti_worker_standby {
    bool reported; /* the last event about standby told the caller that the device is on standby.
                       The device itself may be back in steps since: standby trials put it on
                       standby and wake it without telling anyone */
} dpti_worker_standby;

#endif
