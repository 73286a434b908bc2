/* What the parts of processes.h share: processes_thread.c has the communication thread, its calls
   and the queue of collectives; processes_gather.c what all processes gather; processes_mend.c what
   follows when one has died or comes. */
#ifndef DPTI_PROCESSES_STATE_H
#define DPTI_PROCESSES_STATE_H

#include "collective/pipeline.h"
#include "collective/processes.h"
#include "collective/pulse.h"

#include <pthread.h>
#include <stdbool.h>

typedef dpt_status dpti_processes_call_fn(dpti_processes *p, void *argument, dpt_error *error);

struct dpti_processes {
    dpti_link link;
    bool open;
    bool survives;         /* the job goes on when a process has died */
    double timeout;        /* as dpti_processes_timeout has it */
    dpti_pulse *pulse;     /* NULL: none */
    bool broken;           /* the transport has failed, and nothing is in flight any more */
    bool lost;             /* it could not be mended */
    bool agreed;           /* all know of the last failure */
    size_t first, n_first; /* the rank and the number of processes at the start */
    size_t *firsts;        /* (n) as dpti_processes_first has it; NULL: the present ranks */
    size_t last;           /* the highest of all that were there at any time */
    size_t arrival;        /* of the process that was let in last; SIZE_MAX: none, or it is old */
    bool comes;            /* this process has come and is not let in yet */
    double *delays;        /* (n) as dpti_processes_delays has them */
    dpt_message *messages; /* (4 n) */
    dpti_pipeline *pipeline;
    pthread_t thread;
    pthread_mutex_t mutex; /* guards what follows */
    pthread_cond_t changed;
    bool failed;             /* the transport, or this process alone: */
    dpt_error first_failure; /* how, if it was the transport */
    bool busy, stop;
    dpti_processes_call_fn *call; /* NULL: nothing to do */
    void *argument;
    dpt_error *error;
    dpt_status status;
    dpti_collective ring[DPTI_MOST_COLLECTIVES];
    size_t n_started, n_over, n_waiting; /* collectives, ever; threads that wait for them */
    bool looking;                        /* at collectives: their memory is in use */
};

/* Whether the transport has failed, or this process has given up. */
bool dpti_processes_has_failed(dpti_processes *p);
/* This process gives up, and the others learn of it if the transport can tell them. */
void dpti_processes_abandon(dpti_processes *p);
/* Writes the first failure of the transport; DPT_E_STATE if there is none, because this process has
   given up.  Never DPT_OK. */
dpt_status dpti_processes_tell_failure(dpti_processes *p, dpt_error *error);

/* Lets the communication thread make a call, and waits for it.  Fails as the call does. */
dpt_status dpti_processes_call(dpti_processes *p, dpti_processes_call_fn *function, void *argument,
                               dpt_error *error);
/* The same of a call that all processes make.  A failure is a failure of the transport, which every
   later call returns. */
dpt_status dpti_processes_together(dpti_processes *p, dpti_processes_call_fn *function,
                                   void *argument, dpt_error *error);

/* ---- [communication thread] ------------------------------------------------------------------ */

/* After a failure of the transport, before anybody learns of it: ends what is in flight, because
   those who wait for it free its memory. */
void dpti_processes_end_in_flight(dpti_processes *p);
/* Allocates what depends on the number of processes.  DPT_E_NO_MEMORY. */
DPT_CHECK_RESULT dpt_status dpti_processes_make_room(dpti_processes *p, dpt_error *error);
void dpti_processes_free_room(dpti_processes *p);
/* Adds a message to the *n that are there, unless it has no bytes. */
void dpti_processes_add(dpt_message *messages, size_t *n, const dpt_message *message);
/* Sends and receives the first n of p->messages, and works on collectives meanwhile.  Fails
   as the transport does; DPT_E_STATE if this process gives up. */
DPT_CHECK_RESULT dpt_status dpti_processes_exchange(dpti_processes *p, size_t n, dpt_error *error);

#endif
