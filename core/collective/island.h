/* An island: devices of one backend that reduce among themselves by the backend's collectives.  The
   island knows the order of the calls and how to wait for them.  Every member makes the same calls
   in the same order, each on its own driver thread and side stream, and goes on.  A member that
   waits polls, in calls that return at once.

   A wide island spans several processes, each of which knows its own members.  A process does not
   see whether the members of other processes make their calls.  So a process votes with the others
   before it waits for a sum, and a process that has to stop aborts the island by itself.

   A member whose call of a collective fails aborts the island: all members that wait, and all later
   calls, get DPT_E_CANCELLED.  The failure belongs to the island (dpti_island_failure) and not to
   the device, which gets DPT_E_CANCELLED as well.  There are two exceptions, which abort the island
   too but belong to the device: DPT_E_DEVICE_LOST, and a failure of a call that is not a
   collective. */
#ifndef DPTI_ISLAND_H
#define DPTI_ISLAND_H

#include "base/times.h"
#include "device/buffer.h"
#include "device/communicator.h"
#include "device/device.h"
#include "device/side_stream.h"

typedef struct dpti_island dpti_island;

/* A member's place, and its side stream. */
typedef struct dpti_island_slot {
    dpti_island *island; /* NULL: in no island */
    size_t place;        /* among the members of this process, from 0 */
    dpti_side_stream *side;
} dpti_island_slot;

typedef struct dpti_island_options {
    dpti_group group;    /* wide if n_ranks > n */
    bool blames_devices; /* failures of collectives belong to devices after all */
} dpti_island_options;

/* Creates an island without a communicator.  Returns NULL if memory is short. */
dpti_island *dpti_island_create(const dpti_island_options *options);
void dpti_island_destroy(dpti_island *island); /* after close, or never opened; accepts NULL */
/* [driver] Called by the driver thread of the first device.  `check` asks whether there can be a
   communicator, `invite` makes the invitation in one process, and `open` creates the communicator,
   for which all processes have to come within the timeout.  They fail as dpti_communicator_check,
   _invite and _create do. */
DPT_CHECK_RESULT dpt_status dpti_island_check(const dpti_island *island);
DPT_CHECK_RESULT dpt_status dpti_island_invite(const dpti_island *island, dpt_invitation *out);
DPT_CHECK_RESULT dpt_status dpti_island_open(dpti_island *island, const dpt_invitation *invitation,
                                             double timeout_seconds);
/* [driver] Called by a member while no member uses the island; or by any thread after an abort, if
   no member is in a call. */
void dpti_island_close(dpti_island *island, dpti_device *device);

/* Returns the number of members in this process. */
size_t dpti_island_size(const dpti_island *island);
/* Returns the members in this process, and the number of ranks in all processes. */
const dpti_group *dpti_island_group(const dpti_island *island);
bool dpti_island_is_wide(const dpti_island *island);
dpti_device *dpti_island_device(const dpti_island *island, size_t place);
/* Returns whether the island was not aborted. */
bool dpti_island_is_sound(dpti_island *island);
/* Returns why it was aborted, if that is the island's own failure; else the status is DPT_OK. */
dpt_error dpti_island_failure(dpti_island *island);

/* Aborts the island.  Any thread may call this, several times. */
void dpti_island_abort(dpti_island *island);
/* Called every `seconds` seconds while driver threads are waited for.  If a collective that all
   members here have called, and that some wait for, has not ended for `limit` seconds, the island
   fails.  If failures belong to devices, the first device that waits gets this failure. */
void dpti_island_watch(dpti_island *island, double seconds, double limit);

/* Elements [begin, end) of a member's data. */
typedef struct dpti_island_part {
    const dpti_buffer *data;
    size_t begin, end;
    bool empty;  /* the member contributes zeros, whatever its data are */
    float *host; /* host memory for the sum, from element 0 on; NULL: the sum stays on the device */
    size_t point; /* of the side stream, marked behind the sum if `host` is not NULL */
} dpti_island_part;

/* [driver] Waits until all members of this process have come here as often as this member, or the
   island is aborted.  Then everything that they did before has ended, on the host and on their
   devices, and while members waited no member was in a call that waits for all streams.  The wait
   is a span WAITING of the stopwatch. */
void dpti_island_meet(const dpti_island_slot *island_slot, dpti_stopwatch *stopwatch);
/* [driver] Enqueues this member's part of a sum, in place; enqueues nothing if there are no
   elements. The device's work on these elements is done (sync). */
DPT_CHECK_RESULT dpt_status dpti_island_reduce(const dpti_island_slot *island_slot,
                                               const dpti_island_part *part);
/* [driver] *out says whether the side stream has passed the point, so that the sum before it is
 * there.
 */
DPT_CHECK_RESULT dpt_status dpti_island_arrived(const dpti_island_slot *island_slot, size_t point,
                                                bool *out);
/* [driver] Enqueues the broadcast of elements [0, count) of rank 0's data to all members. */
DPT_CHECK_RESULT dpt_status dpti_island_hand_out(const dpti_island_slot *island_slot,
                                                 const dpti_buffer *data, size_t count);
/* [driver] Waits until what this member has enqueued has ended.  After an abort it waits until none
   of it will write any more, and returns DPT_E_CANCELLED or the device's failure.  Spans of the
   stopwatch: EXCHANGE up to the call, WAITING until all members have called, EXCHANGE from then
   on. */
DPT_CHECK_RESULT dpt_status dpti_island_wait(const dpti_island_slot *island_slot,
                                             dpti_stopwatch *stopwatch);

#endif
