/* An island: devices of one backend that reduce among themselves by the backend's collectives.  It
   knows the order of calls and how to wait for them: every member makes the same calls in the same
   order, each on its own driver and lane, and goes on; who waits asks, in calls that return at
   once.

   A wide one goes over several processes, each of which knows its own members.  A process does not
   see whether the others' make their calls: who waits for a sum has asked them before, and who has
   to stop says so by itself.

   Whose call of a collective fails aborts it: all that wait, and all later calls, get
   DPT_E_CANCELLED.  That failure is the island's (dpti_island_failure), not the device's, who gets
   DPT_E_CANCELLED as well: unless it is DPT_E_DEVICE_LOST, or a failure of another call than a
   collective's.  These abort the island, too, and are the device's own. */
#ifndef DPTI_ISLAND_H
#define DPTI_ISLAND_H

#include "base/times.h"
#include "device/buffer.h"
#include "device/communicator.h"
#include "device/device.h"
#include "device/side_stream.h"

typedef struct dpti_island dpti_island;

/* A member's place, and its lane. */
typedef struct dpti_island_slot {
    dpti_island *island; /* NULL: it is in none */
    size_t place;        /* among those of this process: the first one's is 0 */
    dpti_side_stream *side;
} dpti_island_slot;

typedef struct dpti_island_options {
    dpti_group group;    /* wide if n_ranks > n */
    bool blames_devices; /* failures of collectives are devices', after all */
} dpti_island_options;

/* Without a communicator yet.  NULL without memory. */
dpti_island *dpti_island_create(const dpti_island_options *options);
void dpti_island_destroy(dpti_island *island); /* closed, or left; accepts NULL */
/* [driver] Of the first device: asks whether there can be a communicator; invites to it, in one
   process; and makes it, for which all have to come within this time.  As dpti_communicator_check
   and its neighbours. */
DPT_CHECK_RESULT dpt_status dpti_island_check(const dpti_island *island);
DPT_CHECK_RESULT dpt_status dpti_island_invite(const dpti_island *island, dpt_invitation *out);
DPT_CHECK_RESULT dpt_status dpti_island_open(dpti_island *island, const dpt_invitation *invitation,
                                             double timeout_seconds);
/* [driver] Of a member, while none uses it; or after abort on any thread, if no member is in a
   call. */
void dpti_island_close(dpti_island *island, dpti_device *device);

/* Of this process's members, */
size_t dpti_island_size(const dpti_island *island);
/* and of all. */
const dpti_group *dpti_island_group(const dpti_island *island);
bool dpti_island_is_wide(const dpti_island *island);
dpti_device *dpti_island_device(const dpti_island *island, size_t place);
/* Whether it was not aborted. */
bool dpti_island_is_sound(dpti_island *island);
/* Why not, if that is the island's own failure; else status is DPT_OK. */
dpt_error dpti_island_failure(dpti_island *island);

/* Ends it.  From any thread, several times. */
void dpti_island_abort(dpti_island *island);
/* While drivers are waited for, every so many seconds: a collective that all members here have
   called for, and that some wait for, fails the island when it has not ended for `limit`.  Where
   failures are devices' it is the first one's that hears of it. */
void dpti_island_watch(dpti_island *island, double seconds, double limit);

/* Elements [begin, end) of a member's data. */
typedef struct dpti_island_part {
    const dpti_buffer *data;
    size_t begin, end;
    bool empty;   /* it brings zeros, whatever its data are */
    float *host;  /* where elements [0, ...) of the sum are to be shown; NULL: nowhere */
    size_t point; /* of the lane, marked behind it if there is `host` */
} dpti_island_part;

/* [driver] Waits until all members of this process have come here as often as this one, or it is
   over: what they did before has ended then, on the host and on their devices, and no call of any
   of them was under way meanwhile that others' streams waited for.  *clock and *times as in wait:
   WAITING. */
void dpti_island_meet(const dpti_island_slot *island_slot, dpti_stopwatch *stopwatch);
/* [driver] Enqueues this member's part of a sum, in place; nothing if there are no elements.  What
   the device did to these elements has passed (sync). */
DPT_CHECK_RESULT dpt_status dpti_island_reduce(const dpti_island_slot *island_slot,
                                               const dpti_island_part *part);
/* [driver] Whether what was marked so has arrived, with the sum. */
DPT_CHECK_RESULT dpt_status dpti_island_arrived(const dpti_island_slot *island_slot, size_t point,
                                                bool *out);
/* [driver] Enqueues elements [0, count) of rank 0's data for all. */
DPT_CHECK_RESULT dpt_status dpti_island_hand_out(const dpti_island_slot *island_slot,
                                                 const dpti_buffer *data, size_t count);
/* [driver] Waits until what this member has enqueued has ended, or nothing of it will write any
   more: then DPT_E_CANCELLED, or the device's failure.  *clock is when the caller began; spans go
   to *times, which may be NULL: WAITING until all have called, EXCHANGE from then on. */
DPT_CHECK_RESULT dpt_status dpti_island_wait(const dpti_island_slot *island_slot,
                                             dpti_stopwatch *stopwatch);

#endif
