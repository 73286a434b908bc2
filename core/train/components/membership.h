/* Membership: whether a device takes part in training, and whether its replica can be trusted.

   Each worker has two states.  Both change through the functions below and nowhere else; each
   function looks its change up in one table (membership.c) and refuses what the table does not
   have.

   1. The state of the device.  Columns: it takes part in steps; it is on standby; it is lost.

                    TO_STANDBY
         PRESENT  ------------>  STANDBY
          |   ^   <------------     |   \
          |   |     TO_PRESENT      |    \ LOSE
     HANG |   | ADMITTED       HANG |     +------->  LOST  <----+  RETURN: stays LOST
          |   |                     |    /           |  ^  \    |
          |  READMITTING            |   / LOSE       |  |   \   | RETURN
          |   |  |   ^              |  / (PRESENT,   |  |    \  |
          |   |  |   |              | /  READMITTING)|  |     \ |
          |   |  |   +--------------|----------------+  |      \|
          |   |  |        READMIT   |                   | HANG  |
          v   v  +----------------- | -----------------+        |
         HUNG <----------------> STANDBY_HUNG                   |
          |   TO_STANDBY, TO_PRESENT|                           |
          +-------------------------+------> LOST_HUNG ---------+
                     LOSE                    HANG: stays LOST_HUNG

      A device hangs when a call to it does not return in time.  Its driver thread is abandoned
   then, and no job may be posted to it.  A hung device still counts as one that takes part (or is
   on standby) until the trainer loses it, which happens with no step in flight.  RETURN: the call
   has come back after all, and the driver thread is there again.  A READMITTING device is lost no
   more, but it has no part in collectives yet: its worker is being built and its weights written.
   If it hangs at that, it is HUNG, and ADMITTED leaves it so.

   2. The validity of the replica.

                    SKIP                        TEAR
         VALID ------------>  BEHIND  -------------------->  BEHIND_TORN
          | |  <------------    |
          | |    GO_BACK        |  DISCARD
          | |  MISS, DISCARD    v                TEAR
          | +-------------->  STALE  --------------------->  TORN
          |                                                   ^
          +---------------------------------------------------+
                                   TEAR

      WRITE leads from every state to VALID, DISCARD from every state to STALE.  MISS changes VALID
      alone, for a replica that cannot be trusted becomes no worse; so does TEAR with what is torn.

   The state of a device changes on the caller's thread, but drivers read it while a step is in
   flight: it is atomic.  The validity of a replica changes on its device's own driver during a step
   that the device takes part in, and else on the caller's thread. */
#ifndef DPTI_MEMBERSHIP_H
#define DPTI_MEMBERSHIP_H

#include "train/components/order.h"

#include <stdatomic.h>
#include <stdbool.h>

typedef enum dpti_device_state {
    DPTI_DEVICE_PRESENT = 0,  /* takes part in steps */
    DPTI_DEVICE_STANDBY,      /* left out of steps, though it works (standby.h) */
    DPTI_DEVICE_HUNG,         /* present or readmitting, but a call did not return in time */
    DPTI_DEVICE_STANDBY_HUNG, /* on standby, but a call did not return in time */
    DPTI_DEVICE_LOST,         /* out of service; may be tried again (readmit.h) */
    DPTI_DEVICE_LOST_HUNG,    /* out of service, and its last call has not returned */
    DPTI_DEVICE_READMITTING,  /* back in service, its worker is being built */
    DPTI_N_DEVICE_STATES,
} dpti_device_state;

typedef enum dpti_device_change {
    DPTI_DEVICE_TO_STANDBY = 0, /* steps are faster without it */
    DPTI_DEVICE_TO_PRESENT,     /* it takes part in steps again */
    DPTI_DEVICE_HANG,           /* a call did not return in time: its driver thread was given up */
    DPTI_DEVICE_LOSE,           /* it is taken out of service */
    DPTI_DEVICE_RETURN,         /* its driver thread is there again */
    DPTI_DEVICE_READMIT,        /* it is opened and tried: its worker may be built */
    DPTI_DEVICE_ADMITTED,       /* its worker is built and has the weights */
    DPTI_N_DEVICE_CHANGES,
} dpti_device_change;

/* Whether a replica holds the weights and the optimizer's state of the last committed step. */
typedef enum dpti_validity {
    DPTI_REPLICA_VALID = 0,
    DPTI_REPLICA_STALE,       /* it missed a committed update, may have, or has a part of one */
    DPTI_REPLICA_BEHIND,      /* complete, as of an earlier step: dpti_membership.stands_at */
    DPTI_REPLICA_TORN,        /* partly written: not the state of any step */
    DPTI_REPLICA_BEHIND_TORN, /* it was behind, and the copy that should repair it broke off */
    DPTI_N_VALIDITIES,
} dpti_validity;

typedef enum dpti_replica_change {
    DPTI_REPLICA_MISS = 0, /* an update was committed without it, or it differs from the others */
    DPTI_REPLICA_SKIP,     /* a step begins that its device misses on standby */
    DPTI_REPLICA_TEAR,     /* writing it begins, or has failed */
    DPTI_REPLICA_WRITE,    /* it was written, or is to be from now on what all others get */
    DPTI_REPLICA_GO_BACK,  /* training goes back to where it stands */
    DPTI_REPLICA_DISCARD,  /* the device is lost while all others get new weights */
    DPTI_N_REPLICA_CHANGES,
} dpti_replica_change;

/* Read it through the functions below. */
typedef struct dpti_membership {
    atomic_int device; /* dpti_device_state */
    dpti_validity replica;
    dpti_cursor stands_at; /* of a replica that is behind: the step that it is to do next */
    atomic_bool refused;   /* a change was refused: an error of this program */
} dpti_membership;

/* The tables.  false: the change is not allowed in this state, and *next is not written. */
bool dpti_device_next(dpti_device_state state, dpti_device_change change, dpti_device_state *next);
bool dpti_validity_next(dpti_validity state, dpti_replica_change change, dpti_validity *next);

/* Change a state.  A change that the table does not allow fails an assertion; without assertions
   it leaves the state as it is, and sets `refused`, by which the next step fails
   (dpti_membership_refused). */
void dpti_membership_device(dpti_membership *m, dpti_device_change change);
void dpti_membership_replica(dpti_membership *m, dpti_replica_change change);
/* DPTI_REPLICA_SKIP, with the step that the replica misses first. */
void dpti_membership_skip(dpti_membership *m, dpti_cursor stands_at);
bool dpti_membership_refused(const dpti_membership *m);

static inline dpti_device_state dpti_membership_state(const dpti_membership *m)
{
    return (dpti_device_state)atomic_load_explicit(&m->device, memory_order_relaxed);
}

/* Whether the device is out of service: it takes part in nothing, and nobody waits for it. */
static inline bool dpti_membership_lost(const dpti_membership *m)
{
    const dpti_device_state state = dpti_membership_state(m);
    return state == DPTI_DEVICE_LOST || state == DPTI_DEVICE_LOST_HUNG;
}

/* Whether its driver thread was given up, lost or not. */
static inline bool dpti_membership_hung(const dpti_membership *m)
{
    const dpti_device_state state = dpti_membership_state(m);
    return state == DPTI_DEVICE_HUNG || state == DPTI_DEVICE_STANDBY_HUNG ||
           state == DPTI_DEVICE_LOST_HUNG;
}

/* Whether the device is on standby, hung or not. */
static inline bool dpti_membership_standby(const dpti_membership *m)
{
    const dpti_device_state state = dpti_membership_state(m);
    return state == DPTI_DEVICE_STANDBY || state == DPTI_DEVICE_STANDBY_HUNG;
}

/* Whether the replica is as of an earlier step that is known, torn or not. */
static inline bool dpti_membership_behind(const dpti_membership *m)
{
    return m->replica == DPTI_REPLICA_BEHIND || m->replica == DPTI_REPLICA_BEHIND_TORN;
}

#endif
