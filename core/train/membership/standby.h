/* Devices that rest: left out of steps while these are faster without them (rest.h).  Their
   replicas miss updates, and get the weights of the others now and then, so that they can go on
   should all others be lost: from what they have, by doing the steps since then once more.

   In one process, where shares follow measurements and losses do not end the call.  Everything here
   is on the caller's thread; devices come and go with nothing in flight. */
#ifndef DPTI_STANDBY_H
#define DPTI_STANDBY_H

#include "balance/balance.h"
#include "balance/standby_policy.h"
#include "dptrain.h"
#include "train/feeding/order.h"

typedef struct dpt_trainer dpt_trainer;
struct dpti_in_flight_step;

typedef struct dpti_standby {
    bool allowed;
    dpti_standby_policy rest;
    bool changes;     /* it is to be changed as soon as nothing is in flight, */
    bool others;      /* so that others rest than before */
    bool *chosen;     /* (n_workers) who is to rest then */
    double *exchange; /* (n_workers) seconds of exchanges in a step */
    size_t *shares;   /* (n_devices) of the last step that was observed */
    size_t n;         /* workers that rest; if any: */
    size_t first;     /* where training stood when all of them had its weights last, */
    float *lr;        /* (n_lr) rates of the steps since, */
    size_t n_lr, room;
    double refresh_seconds; /* how long giving the last ones took, */
    double retry_seconds;   /* and how long a step of theirs would, as modelled */
    size_t changed_step;    /* the first of the last change */
    dpti_balance_reason reason;
    bool stays;       /* training cannot go back: somebody writes down where it stands */
    size_t retry_to;  /* where it has gone back from; steps up to there are to be done again */
    bool retries;     /* they are, */
    bool has_retried; /* and were, while a step waited */
    /* Who has the trainer, or NULL: told before they are (step NULL), and behind each.  If that
       fails the others are not done, and training stands there. */
    dpt_status (*listen)(void *listener, const dpt_step_metrics *step);
    void *listener;
} dpti_standby;

/* Where `allowed`.  DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_standby_create(dpt_trainer *trainer, bool allowed);
void dpti_standby_destroy(dpt_trainer *trainer);
/* Takes in a step that counts, which took so many seconds. */
void dpti_standby_observe(dpt_trainer *trainer, const struct dpti_in_flight_step *inflight,
                          double seconds);
/* Whether there is something to do when nothing is in flight, */
bool dpti_standby_waits(const dpt_trainer *trainer);
/* which is: devices go to rest or wake up, their replicas stale, or get the others' weights. */
DPT_CHECK_RESULT dpt_status dpti_standby_settle(dpt_trainer *trainer);
/* A step is about to be submitted: the flight has its cursor and its rate. */
DPT_CHECK_RESULT dpt_status dpti_standby_note(dpt_trainer *trainer,
                                              const struct dpti_in_flight_step *inflight);
/* For a checkpoint: who rests for good, (n_workers), what an exchange takes each, and what tries
   have shown.  false: devices may not rest here, nothing is written. */
bool dpti_standby_export(const dpt_trainer *trainer, bool *rests, double *exchange,
                         dpti_standby_record *out);
/* Goes on with it on the same devices, when all replicas and the balance have what they had: those
   that rested do so from the next step on, as far as they can. */
void dpti_standby_resume(dpt_trainer *trainer, const bool *rests, const double *exchange,
                         const dpti_standby_record *learnt);
/* All take part again, and what was measured is forgotten: devices are about to be lost, to get
   less, or have come back. */
void dpti_standby_end(dpt_trainer *trainer);
/* Nobody's weights can be trusted but those of devices that rest, or have woken up and not been
   written since, without those that are `lost` (n_workers): training stands where these are from
   then on, until dpti_trainer_catch_up.  false: there are none. */
bool dpti_standby_rewind(dpt_trainer *trainer, const bool *lost);
/* Before a device is lost: it is not counted among those that rest any more. */
void dpti_standby_leave(dpt_trainer *trainer, size_t rank);

#endif
