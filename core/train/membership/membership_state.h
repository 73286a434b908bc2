/* The fields of membership: which devices take part in steps, which are on standby, and which are
   lost and may be readmitted.

   Only files of this folder touch these fields.  Other concerns call the functions that presence.h,
   standby.h, readmit.h, deadline.h and events.h declare. */
#ifndef DPTI_MEMBERSHIP_STATE_H
#define DPTI_MEMBERSHIP_STATE_H

#include "balance/balance.h"
#include "balance/standby_policy.h"
#include "dptrain.h"
#include "train/feeding/data_store.h"
#include "train/membership/membership.h"

/* Devices on standby (standby.c). */
typedef struct dpti_standby {
    bool allowed;               /* devices may be left out of steps in this training */
    dpti_standby_policy rest;   /* decides when */
    bool changes;               /* a change is due as soon as nothing is in flight */
    bool others;                /* the change leaves out other devices than before */
    bool *chosen;               /* (n_workers) the devices that the change leaves out */
    double *exchange;           /* (n_workers) seconds of exchanges in a step */
    size_t *shards;             /* (n_devices) shards of the last step that was observed */
    size_t n;                   /* workers on standby; with none, the next fields are not in use */
    size_t first;               /* the step, from 0, before which all of them had the state last */
    float *lr;                  /* (n_lr) learning rates of the steps since */
    size_t n_lr, room;          /* room: entries that lr has room for */
    double refresh_seconds;     /* how long it took to give them the state last */
    double retry_seconds;       /* how long a step of these devices alone would take, as modelled */
    size_t changed_step;        /* the first step, from 1, behind the last change */
    dpti_balance_reason reason; /* of that change */
    bool stays;                 /* training cannot go back: a caller writes down where it stands */
    size_t retry_to;  /* training has gone back; the steps up to this one, from 1, are retried */
    bool retries;     /* these steps are being retried now */
    bool has_retried; /* they were, while a later step waited */
    /* Called with step NULL before steps are retried, and behind each of them; NULL: nobody asked.
       If it fails the remaining steps are not retried, and training stands there. */
    dpt_status (*listen)(void *listener, const dpt_step_metrics *step);
    void *listener;
} dpti_standby;

/* Events that the caller has not been told yet, the oldest first (events.c). */
typedef struct dpti_device_event {
    dpt_device_event_kind kind;
    size_t device, step;
    dpt_error error;
} dpti_device_event;

typedef struct dpti_device_events {
    size_t n, n_taken, room;
    dpti_device_event *events;
} dpti_device_events;

typedef struct dpti_members {
    dpti_standby standby;
    dpti_device_events events;
    double readmit_after; /* seconds before a lost device is tried again; 0: never */
    size_t returned_step; /* the first step, from 1, of the device that was readmitted last */
    double longest_step;  /* seconds, of the steps that were collected (deadline.c) */
    bool broken;          /* collectives turn every thread away, until nothing is in flight */
} dpti_members;

/* ---- A worker's part ------------------------------------------------------------------------- */

typedef enum dpti_readmission_phase {
    DPTI_READMISSION_NOT, /* in service, or lost and not to be tried */
    DPTI_READMISSION_WAITING,
    DPTI_READMISSION_RELEASING,
    DPTI_READMISSION_OPENING,
    DPTI_READMISSION_READY, /* to be readmitted as soon as nothing is in flight */
} dpti_readmission_phase;

enum { DPTI_READMISSION_COPIES = 3 }; /* of training data, and of two data sets of evaluation */

/* A worker's absence (readmit.c). */
typedef struct dpti_readmission {
    dpti_readmission_phase state;
    double since;    /* when it was lost */
    double wait;     /* seconds between the last failure and the next try; 0: it has not failed */
    double due;      /* when the next try is due */
    uint64_t ticket; /* of the job under way */
    bool released;   /* what the worker held is released */
    bool closes;     /* [job] the device is to be closed and opened anew */
    dpti_data_copy copies[DPTI_READMISSION_COPIES]; /* [job] to be freed */
    dpt_status status;                              /* [job] of the try */
} dpti_readmission;

/* The call that a device is in, as the waiting thread has seen it (deadline.c). */
typedef struct dpti_call_watch {
    bool prepares;           /* the call prepares work, so that it may take longer than a step's */
    unsigned long long call; /* the call's number; 0: none */
    double seconds;          /* for how long it was seen */
    dpt_error hung_error;    /* of the call that did not return in time, once the device hung */
} dpti_call_watch;

typedef struct dpti_worker_membership {
    dpti_membership state;        /* device state and replica validity */
    dpti_readmission readmission; /* while the device is lost, and how it has failed before */
    dpti_call_watch watch;
    bool told; /* an event has told the caller that the device is on standby */
} dpti_worker_membership;

#endif
