/* The fields of peers: what is known about the devices of all processes, and what processes ask of
   each other.

   Only files of core/train/peers touch these fields.  Other concerns call the functions that
   peers.h and outcomes.h declare. */
#ifndef DPTI_PEERS_STATE_H
#define DPTI_PEERS_STATE_H

#include "collective/rendezvous.h"
#include "train/components/outcome.h"

#include <stdatomic.h>

typedef struct dpti_peers {
    dpti_peer *items; /* (n_devices) of all processes */
    /* With several processes; else NULL. */
    size_t *firsts;            /* (processes + 1) first device of each process */
    size_t *outcome_begins;    /* (processes + 1) the same, in bytes of outcomes */
    dpti_rendezvous *finished; /* where this process's driver threads meet behind a step */
    atomic_uint requests;      /* of this process, dpti_run_request bits and the cause of a stop */
    unsigned agreed_requests;  /* of all processes, as of the last collected step */
    size_t stopped_by;         /* the first process that asked to stop, once agreed, */
    unsigned stopped_for;      /* and its cause */
    bool diverged; /* processes took different steps, so that no process's weights can be trusted */
    bool written;  /* weights were written by the caller since processes compared them */
} dpti_peers;

#endif
