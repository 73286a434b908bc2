/* Tests membership: every change in every state has the result in membership.h, or is refused. */
#include "harness.h"
#include "train/components/membership.h"
#include "train/components/order.h"

/* Written from the drawings in membership.h, not from the table that is tested. */
typedef struct change {
    int from, change, to;
} change;

static const change of_devices[] = {
    {DPTI_DEVICE_PRESENT, DPTI_DEVICE_TO_STANDBY, DPTI_DEVICE_STANDBY},
    {DPTI_DEVICE_STANDBY, DPTI_DEVICE_TO_PRESENT, DPTI_DEVICE_PRESENT},
    {DPTI_DEVICE_PRESENT, DPTI_DEVICE_HANG, DPTI_DEVICE_HUNG},
    {DPTI_DEVICE_STANDBY, DPTI_DEVICE_HANG, DPTI_DEVICE_STANDBY_HUNG},
    {DPTI_DEVICE_HUNG, DPTI_DEVICE_TO_STANDBY, DPTI_DEVICE_STANDBY_HUNG},
    {DPTI_DEVICE_STANDBY_HUNG, DPTI_DEVICE_TO_PRESENT, DPTI_DEVICE_HUNG},
    {DPTI_DEVICE_PRESENT, DPTI_DEVICE_LOSE, DPTI_DEVICE_LOST},
    {DPTI_DEVICE_STANDBY, DPTI_DEVICE_LOSE, DPTI_DEVICE_LOST},
    {DPTI_DEVICE_HUNG, DPTI_DEVICE_LOSE, DPTI_DEVICE_LOST_HUNG},
    {DPTI_DEVICE_STANDBY_HUNG, DPTI_DEVICE_LOSE, DPTI_DEVICE_LOST_HUNG},
    {DPTI_DEVICE_LOST, DPTI_DEVICE_HANG, DPTI_DEVICE_LOST_HUNG},
    {DPTI_DEVICE_LOST_HUNG, DPTI_DEVICE_HANG, DPTI_DEVICE_LOST_HUNG},
    {DPTI_DEVICE_LOST_HUNG, DPTI_DEVICE_RETURN, DPTI_DEVICE_LOST},
    {DPTI_DEVICE_LOST, DPTI_DEVICE_RETURN, DPTI_DEVICE_LOST},
    {DPTI_DEVICE_HUNG, DPTI_DEVICE_RETURN, DPTI_DEVICE_PRESENT},
    {DPTI_DEVICE_STANDBY_HUNG, DPTI_DEVICE_RETURN, DPTI_DEVICE_STANDBY},
    {DPTI_DEVICE_LOST, DPTI_DEVICE_READMIT, DPTI_DEVICE_READMITTING},
    {DPTI_DEVICE_READMITTING, DPTI_DEVICE_ADMITTED, DPTI_DEVICE_PRESENT},
    {DPTI_DEVICE_READMITTING, DPTI_DEVICE_HANG, DPTI_DEVICE_HUNG},
    {DPTI_DEVICE_READMITTING, DPTI_DEVICE_LOSE, DPTI_DEVICE_LOST},
    {DPTI_DEVICE_HUNG, DPTI_DEVICE_ADMITTED, DPTI_DEVICE_HUNG},
};

static const change of_replicas[] = {
    {DPTI_REPLICA_VALID, DPTI_REPLICA_MISS, DPTI_REPLICA_STALE},
    {DPTI_REPLICA_VALID, DPTI_REPLICA_SKIP, DPTI_REPLICA_BEHIND},
    {DPTI_REPLICA_BEHIND, DPTI_REPLICA_GO_BACK, DPTI_REPLICA_VALID},
    {DPTI_REPLICA_STALE, DPTI_REPLICA_MISS, DPTI_REPLICA_STALE},
    {DPTI_REPLICA_BEHIND, DPTI_REPLICA_MISS, DPTI_REPLICA_BEHIND},
    {DPTI_REPLICA_TORN, DPTI_REPLICA_MISS, DPTI_REPLICA_TORN},
    {DPTI_REPLICA_BEHIND_TORN, DPTI_REPLICA_MISS, DPTI_REPLICA_BEHIND_TORN},
    {DPTI_REPLICA_VALID, DPTI_REPLICA_TEAR, DPTI_REPLICA_TORN},
    {DPTI_REPLICA_STALE, DPTI_REPLICA_TEAR, DPTI_REPLICA_TORN},
    {DPTI_REPLICA_TORN, DPTI_REPLICA_TEAR, DPTI_REPLICA_TORN},
    {DPTI_REPLICA_BEHIND, DPTI_REPLICA_TEAR, DPTI_REPLICA_BEHIND_TORN},
    {DPTI_REPLICA_BEHIND_TORN, DPTI_REPLICA_TEAR, DPTI_REPLICA_BEHIND_TORN},
    {DPTI_REPLICA_VALID, DPTI_REPLICA_WRITE, DPTI_REPLICA_VALID},
    {DPTI_REPLICA_STALE, DPTI_REPLICA_WRITE, DPTI_REPLICA_VALID},
    {DPTI_REPLICA_BEHIND, DPTI_REPLICA_WRITE, DPTI_REPLICA_VALID},
    {DPTI_REPLICA_TORN, DPTI_REPLICA_WRITE, DPTI_REPLICA_VALID},
    {DPTI_REPLICA_BEHIND_TORN, DPTI_REPLICA_WRITE, DPTI_REPLICA_VALID},
    {DPTI_REPLICA_VALID, DPTI_REPLICA_DISCARD, DPTI_REPLICA_STALE},
    {DPTI_REPLICA_STALE, DPTI_REPLICA_DISCARD, DPTI_REPLICA_STALE},
    {DPTI_REPLICA_BEHIND, DPTI_REPLICA_DISCARD, DPTI_REPLICA_STALE},
    {DPTI_REPLICA_TORN, DPTI_REPLICA_DISCARD, DPTI_REPLICA_STALE},
    {DPTI_REPLICA_BEHIND_TORN, DPTI_REPLICA_DISCARD, DPTI_REPLICA_STALE},
};

/* The state that follows, or -1: it is refused. */
static int find(const change *list, size_t n, int from, int what)
{
    for (size_t i = 0; i < n; i++)
        if (list[i].from == from && list[i].change == what) return list[i].to;
    return -1;
}

static void devices_change_as_drawn(test *t)
{
    const size_t n = sizeof of_devices / sizeof *of_devices;
    size_t n_allowed = 0;
    for (int from = 0; from < DPTI_N_DEVICE_STATES; from++)
        for (int what = 0; what < DPTI_N_DEVICE_CHANGES; what++) {
            dpti_device_state next = DPTI_N_DEVICE_STATES; /* not written if refused */
            const int to = find(of_devices, n, from, what);
            const bool allowed =
                dpti_device_next((dpti_device_state)from, (dpti_device_change)what, &next);
            n_allowed += allowed;
            if (!CHECK(allowed == (to >= 0)) ||
                !CHECK((int)next == (to >= 0 ? to : (int)DPTI_N_DEVICE_STATES)))
                FAIL("state %d, change %d", from, what);
        }
    CHECK_SIZE(n_allowed, n);
}

static void replicas_change_as_drawn(test *t)
{
    const size_t n = sizeof of_replicas / sizeof *of_replicas;
    size_t n_allowed = 0;
    for (int from = 0; from < DPTI_N_VALIDITIES; from++)
        for (int what = 0; what < DPTI_N_REPLICA_CHANGES; what++) {
            dpti_validity next = DPTI_N_VALIDITIES;
            const int to = find(of_replicas, n, from, what);
            const bool allowed =
                dpti_validity_next((dpti_validity)from, (dpti_replica_change)what, &next);
            n_allowed += allowed;
            if (!CHECK(allowed == (to >= 0)) ||
                !CHECK((int)next == (to >= 0 ? to : (int)DPTI_N_VALIDITIES)))
                FAIL("validity %d, change %d", from, what);
        }
    CHECK_SIZE(n_allowed, n);
}

/* Every allowed change, made to a membership; what is asked of it in its new state. */
static void changes_are_made(test *t)
{
    for (size_t i = 0; i < sizeof of_devices / sizeof *of_devices; i++) {
        const change *c = &of_devices[i];
        dpti_membership m = {.replica = DPTI_REPLICA_VALID};
        atomic_store(&m.device, c->from);
        dpti_membership_device(&m, (dpti_device_change)c->change);
        CHECK((int)dpti_membership_state(&m) == c->to && !dpti_membership_refused(&m));
        CHECK(dpti_membership_lost(&m) ==
              (c->to == DPTI_DEVICE_LOST || c->to == DPTI_DEVICE_LOST_HUNG));
        CHECK(dpti_membership_hung(&m) ==
              (c->to == DPTI_DEVICE_HUNG || c->to == DPTI_DEVICE_STANDBY_HUNG ||
               c->to == DPTI_DEVICE_LOST_HUNG));
        CHECK(dpti_membership_standby(&m) ==
              (c->to == DPTI_DEVICE_STANDBY || c->to == DPTI_DEVICE_STANDBY_HUNG));
    }
    for (size_t i = 0; i < sizeof of_replicas / sizeof *of_replicas; i++) {
        const change *c = &of_replicas[i];
        dpti_membership m = {.replica = (dpti_validity)c->from};
        if (c->change == DPTI_REPLICA_SKIP)
            dpti_membership_skip(&m, (dpti_cursor){.step = 7, .epoch = 2, .position = 3});
        else
            dpti_membership_replica(&m, (dpti_replica_change)c->change);
        CHECK((int)m.replica == c->to && !dpti_membership_refused(&m));
        CHECK_SIZE(m.stands_at.step, c->change == DPTI_REPLICA_SKIP ? 7 : 0);
        CHECK(dpti_membership_behind(&m) ==
              (c->to == DPTI_REPLICA_BEHIND || c->to == DPTI_REPLICA_BEHIND_TORN));
    }
}

/* A worker begins as one that takes part, with a replica that can be trusted. */
static void zero_is_the_beginning(test *t)
{
    const dpti_membership m = {.replica = DPTI_REPLICA_VALID};
    CHECK((int)DPTI_DEVICE_PRESENT == 0 && (int)DPTI_REPLICA_VALID == 0);
    CHECK(dpti_membership_state(&m) == DPTI_DEVICE_PRESENT && !dpti_membership_refused(&m));
    CHECK(!dpti_membership_lost(&m) && !dpti_membership_hung(&m) && !dpti_membership_standby(&m));
}

#ifdef NDEBUG
/* Without assertions the state stays as it is, and the next step fails. */
static void refused_changes_are_kept(test *t)
{
    for (int from = 0; from < DPTI_N_DEVICE_STATES; from++)
        for (int what = 0; what < DPTI_N_DEVICE_CHANGES; what++) {
            if (find(of_devices, sizeof of_devices / sizeof *of_devices, from, what) >= 0) continue;
            dpti_membership m = {.replica = DPTI_REPLICA_VALID};
            atomic_store(&m.device, from);
            dpti_membership_device(&m, (dpti_device_change)what);
            CHECK((int)dpti_membership_state(&m) == from && dpti_membership_refused(&m));
        }
    for (int from = 0; from < DPTI_N_VALIDITIES; from++)
        for (int what = 0; what < DPTI_N_REPLICA_CHANGES; what++) {
            if (find(of_replicas, sizeof of_replicas / sizeof *of_replicas, from, what) >= 0)
                continue;
            dpti_membership m = {.replica = (dpti_validity)from};
            dpti_membership_replica(&m, (dpti_replica_change)what);
            CHECK((int)m.replica == from && dpti_membership_refused(&m));
        }
}
#endif

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"devices change as drawn", devices_change_as_drawn},
        {"replicas change as drawn", replicas_change_as_drawn},
        {"changes are made", changes_are_made},
        {"zero is the beginning", zero_is_the_beginning},
#ifdef NDEBUG
        {"refused changes are kept", refused_changes_are_kept},
#endif
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
