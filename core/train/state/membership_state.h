/* The fields of membership: each worker's device state and replica validity, the calls that devices
   are in, and the events that the caller has not been told yet.

   Only files of core/train/membership touch these fields.  Other concerns call the functions that
   presence.h, rendezvous.h, deadline.h and events.h declare. */
#ifndef DPTI_MEMBERSHIP_STATE_H
#define DPTI_MEMBERSHIP_STATE_H

#include "dptrain.h"
#include "train/components/membership.h"

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

struct dpti_rendezvous_table;

typedef struct dpti_members {
    const struct dpti_rendezvous_table *rendezvous; /* where driver threads wait for each other */
    dpti_device_events events;
    double longest_step; /* seconds, of the steps that were collected (deadline.c) */
    bool broken;         /* collectives turn every thread away, until nothing is in flight */
} dpti_members;

/* ---- A worker's part ------------------------------------------------------------------------- */

/* For what a device is called now, which sets the time limit of its calls (deadline.c). */
typedef enum dpti_call_purpose {
    DPTI_CALLED_FOR_STEPS = 0,  /* steps and short work; a lost device is not called, nor watched */
    DPTI_CALLED_TO_PREPARE,     /* work is prepared, which may take longer than a step */
    DPTI_CALLED_FOR_READMISSION /* the device is lost, and is tried again */
} dpti_call_purpose;

/* The call that a device is in, as the waiting thread has seen it (deadline.c). */
typedef struct dpti_call_watch {
    dpti_call_purpose purpose;
    unsigned long long call; /* the call's number; 0: none */
    double seconds;          /* for how long it was seen */
    dpt_error hung_error;    /* of the call that did not return in time, once the device hung */
} dpti_call_watch;

typedef struct dpti_worker_membership {
    dpti_membership state; /* device state and replica validity */
    dpti_call_watch watch;
} dpti_worker_membership;

#endif
