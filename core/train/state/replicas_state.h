/* The fields of replicas: whether the training state can be trusted, and what is kept for the case
   that no device is left to hold it.

   Only files of core/train/replicas touch these fields.  Other concerns call the functions that
   state.h, state_buffers.h, state_parts.h, parts_exchange.h, verify.h and room.h declare. */
#ifndef DPTI_REPLICAS_STATE_H
#define DPTI_REPLICAS_STATE_H

#include "collective/rendezvous.h"
#include "train/components/state_division.h"

#include <stdbool.h>
#include <stddef.h>

/* Kinds of buffers of the training state: parameters, and up to two of the optimizer. */
enum { DPTI_MAX_STATE_BUFFERS = 3 };

/* Why workers are created: to train, or to see what memory they leave for parts. */
typedef enum dpti_trial {
    DPTI_NO_TRIAL = 0,
    DPTI_TRIAL_FULL,  /* with as many samples at once as fit */
    DPTI_TRIAL_LEAST, /* with as few samples at once as may be */
} dpti_trial;

/* Its parts in devices of several processes (parts_exchange.h); zeroed with one process. */
typedef struct dpti_parts_exchange {
    dpti_state_part *parts; /* (n_devices) of all processes */
    /* (processes + 1) where the part of each process begins: of the parameters, with running
       statistics, and of the optimizer's state. */
    size_t *parameters, *others;
    size_t *nothing;                     /* (processes + 1) zeros */
    float *next[DPTI_MAX_STATE_BUFFERS]; /* what becomes the mirror; NULL: not made yet */
    double voted; /* when the processes had voted last, as dpti_seconds tells */
    bool failed;  /* an exchange has failed: the transport may still write to `next` */
} dpti_parts_exchange;

/* The optimizer's state in parts (state_parts.h). */
typedef struct dpti_state_parts {
    bool on;
    bool gradients;  /* sums of gradients are in parts, too */
    bool parameters; /* parameters are in parts, too, and so are sums of gradients */
    bool offload;    /* CPUs hold the parts, while there is one */
    dpti_trial trial;
    dpti_rendezvous *meet;                 /* of driver threads, in the update */
    float *mirror[DPTI_MAX_STATE_BUFFERS]; /* the mirror; [0] NULL: not made yet */
    dpti_parts_exchange between;           /* of processes */
} dpti_state_parts;

typedef struct dpti_trainer_replicas {
    bool lost; /* no replica holds the training state */
    /* The training state in host memory, where no device was left that could be prepared to hold
       it; else NULL. */
    float *last_state[DPTI_MAX_STATE_BUFFERS];
    char base_hash[65]; /* SHA-256 of the base of a model with adapters (base_hash.h); "": not known
                         */
    bool salvage; /* a read of the state takes what the host can see of a lost device's replica */
    /* The step at which the optimizer's state was zero, and the batches that running statistics had
       seen before step 1, modulo 2^64: loading weights sets both. */
    size_t optimizer_origin, batches_before;
    size_t verify_every;     /* steps between comparisons of replicas; 0: never */
    dpti_rendezvous *checks; /* where driver threads meet to compare; NULL: never */
    size_t settled_step;     /* the last step that was retried because replicas had differed */
    dpti_state_parts parts;
} dpti_trainer_replicas;

typedef struct dpti_worker_replicas {
    /* The replica's state buffers where the host sees the device's memory, else NULL. */
    const float *views[DPTI_MAX_STATE_BUFFERS];
    float *verified; /* host memory to which the replica is downloaded to be hashed; NULL: it is
                        hashed in place */
    size_t room;     /* most samples at once in evaluation: the replica's capacity, until the device
                        has run out of memory */
    size_t held;     /* most samples of a batch that it has held in a step that was committed */
    dpti_state_part part; /* of the optimizer's state, if it is in parts */
    size_t left;          /* bytes that the device had left in the trial */
    /* Host memory for the own part of each state buffer, one behind the other; NULL: `views` are
       used, or there is no part. */
    float *fetched;
    size_t charged; /* bytes of the mirror that are counted on the device */
} dpti_worker_replicas;

#endif
