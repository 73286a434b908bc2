/* The tables of membership.h.  No other code changes a device state or a replica validity. */
#include "train/components/membership.h"

#include "train/components/order.h"

#include <assert.h>

/* Entries are the next state plus one; what is not listed is 0: refused. */
#define TO(state) ((unsigned char)((state) + 1))

static const unsigned char device_table[DPTI_N_DEVICE_STATES][DPTI_N_DEVICE_CHANGES] = {
    [DPTI_DEVICE_PRESENT] =
        {
            [DPTI_DEVICE_TO_STANDBY] = TO(DPTI_DEVICE_STANDBY),
            [DPTI_DEVICE_HANG] = TO(DPTI_DEVICE_HUNG),
            [DPTI_DEVICE_LOSE] = TO(DPTI_DEVICE_LOST),
        },
    [DPTI_DEVICE_STANDBY] =
        {
            [DPTI_DEVICE_TO_PRESENT] = TO(DPTI_DEVICE_PRESENT),
            [DPTI_DEVICE_HANG] = TO(DPTI_DEVICE_STANDBY_HUNG),
            [DPTI_DEVICE_LOSE] = TO(DPTI_DEVICE_LOST),
        },
    [DPTI_DEVICE_HUNG] =
        {
            [DPTI_DEVICE_TO_STANDBY] = TO(DPTI_DEVICE_STANDBY_HUNG),
            [DPTI_DEVICE_LOSE] = TO(DPTI_DEVICE_LOST_HUNG),
            [DPTI_DEVICE_RETURN] = TO(DPTI_DEVICE_PRESENT), /* at the trainer's end */
            [DPTI_DEVICE_ADMITTED] = TO(DPTI_DEVICE_HUNG),
        },
    [DPTI_DEVICE_STANDBY_HUNG] =
        {
            [DPTI_DEVICE_TO_PRESENT] = TO(DPTI_DEVICE_HUNG),
            [DPTI_DEVICE_LOSE] = TO(DPTI_DEVICE_LOST_HUNG),
            [DPTI_DEVICE_RETURN] = TO(DPTI_DEVICE_STANDBY), /* at the trainer's end */
        },
    [DPTI_DEVICE_LOST] =
        {
            [DPTI_DEVICE_HANG] = TO(DPTI_DEVICE_LOST_HUNG),
            [DPTI_DEVICE_RETURN] = TO(DPTI_DEVICE_LOST),
            [DPTI_DEVICE_READMIT] = TO(DPTI_DEVICE_READMITTING),
        },
    [DPTI_DEVICE_LOST_HUNG] =
        {
            [DPTI_DEVICE_HANG] = TO(DPTI_DEVICE_LOST_HUNG),
            [DPTI_DEVICE_RETURN] = TO(DPTI_DEVICE_LOST),
        },
    [DPTI_DEVICE_READMITTING] =
        {
            [DPTI_DEVICE_HANG] = TO(DPTI_DEVICE_HUNG),
            [DPTI_DEVICE_LOSE] = TO(DPTI_DEVICE_LOST),
            [DPTI_DEVICE_ADMITTED] = TO(DPTI_DEVICE_PRESENT),
        },
};

static const unsigned char replica_table[DPTI_N_VALIDITIES][DPTI_N_REPLICA_CHANGES] = {
    [DPTI_REPLICA_VALID] =
        {
            [DPTI_REPLICA_MISS] = TO(DPTI_REPLICA_STALE),
            [DPTI_REPLICA_SKIP] = TO(DPTI_REPLICA_BEHIND),
            [DPTI_REPLICA_TEAR] = TO(DPTI_REPLICA_TORN),
            [DPTI_REPLICA_WRITE] = TO(DPTI_REPLICA_VALID),
            [DPTI_REPLICA_DISCARD] = TO(DPTI_REPLICA_STALE),
        },
    [DPTI_REPLICA_STALE] =
        {
            [DPTI_REPLICA_MISS] = TO(DPTI_REPLICA_STALE),
            [DPTI_REPLICA_TEAR] = TO(DPTI_REPLICA_TORN),
            [DPTI_REPLICA_WRITE] = TO(DPTI_REPLICA_VALID),
            [DPTI_REPLICA_DISCARD] = TO(DPTI_REPLICA_STALE),
        },
    [DPTI_REPLICA_BEHIND] =
        {
            [DPTI_REPLICA_MISS] = TO(DPTI_REPLICA_BEHIND),
            [DPTI_REPLICA_TEAR] = TO(DPTI_REPLICA_BEHIND_TORN),
            [DPTI_REPLICA_WRITE] = TO(DPTI_REPLICA_VALID),
            [DPTI_REPLICA_GO_BACK] = TO(DPTI_REPLICA_VALID),
            [DPTI_REPLICA_DISCARD] = TO(DPTI_REPLICA_STALE),
        },
    [DPTI_REPLICA_TORN] =
        {
            [DPTI_REPLICA_MISS] = TO(DPTI_REPLICA_TORN),
            [DPTI_REPLICA_TEAR] = TO(DPTI_REPLICA_TORN),
            [DPTI_REPLICA_WRITE] = TO(DPTI_REPLICA_VALID),
            [DPTI_REPLICA_DISCARD] = TO(DPTI_REPLICA_STALE),
        },
    [DPTI_REPLICA_BEHIND_TORN] =
        {
            [DPTI_REPLICA_MISS] = TO(DPTI_REPLICA_BEHIND_TORN),
            [DPTI_REPLICA_TEAR] = TO(DPTI_REPLICA_BEHIND_TORN),
            [DPTI_REPLICA_WRITE] = TO(DPTI_REPLICA_VALID),
            [DPTI_REPLICA_DISCARD] = TO(DPTI_REPLICA_STALE),
        },
};

bool dpti_device_next(dpti_device_state state, dpti_device_change change, dpti_device_state *next)
{
    const unsigned to = device_table[state][change];
    if (to == 0) return false;
    *next = (dpti_device_state)(to - 1);
    return true;
}

bool dpti_validity_next(dpti_validity state, dpti_replica_change change, dpti_validity *next)
{
    const unsigned to = replica_table[state][change];
    if (to == 0) return false;
    *next = (dpti_validity)(to - 1);
    return true;
}

static void refuse(dpti_membership *m)
{
    assert(false && "this change of membership is not in the table");
    atomic_store_explicit(&m->refused, true, memory_order_relaxed);
}

void dpti_membership_device(dpti_membership *m, dpti_device_change change)
{
    dpti_device_state next;
    if (dpti_device_next(dpti_membership_state(m), change, &next))
        atomic_store_explicit(&m->device, (int)next, memory_order_relaxed);
    else
        refuse(m);
}

void dpti_membership_replica(dpti_membership *m, dpti_replica_change change)
{
    dpti_validity next;
    if (dpti_validity_next(m->replica, change, &next))
        m->replica = next;
    else
        refuse(m);
}

void dpti_membership_skip(dpti_membership *m, dpti_cursor stands_at)
{
    m->stands_at = stands_at;
    dpti_membership_replica(m, DPTI_REPLICA_SKIP);
}

bool dpti_membership_refused(const dpti_membership *m)
{
    return atomic_load_explicit(&m->refused, memory_order_relaxed);
}
