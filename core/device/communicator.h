/* Collectives of a backend, on the side streams of its devices.  backend/abi.h has the contract. */
#ifndef DPTI_COMMUNICATOR_H
#define DPTI_COMMUNICATOR_H

#include "device/buffer.h"
#include "device/device.h"
#include "device/side_stream.h"

/* Returns whether the device's backend has collectives.  Whether particular devices can use them is
   what dpti_communicator_check tells. */
bool dpti_has_collectives(const dpti_device *device);

/* Devices of this process that are to be ranks first_rank, first_rank + 1, ... of the n_ranks of a
   communicator. */
typedef struct dpti_group {
    dpti_device *const *devices;
    size_t n, first_rank, n_ranks;
} dpti_group;

/* [driver] Called by the driver thread of the group's first device, which gets the record of a
   failure, while the driver threads of the other devices make no calls.  They fail as check, invite
   and create of backend/abi.h do. */
DPT_CHECK_RESULT dpt_status dpti_communicator_check(const dpti_group *group);
DPT_CHECK_RESULT dpt_status dpti_communicator_invite(const dpti_group *group, dpt_invitation *out);
DPT_CHECK_RESULT dpt_status dpti_communicator_create(const dpti_group *group,
                                                     const dpt_invitation *invitation,
                                                     double timeout_seconds,
                                                     dpt_communicator **out);
/* [driver] `device` is a member.  Any thread may call this after the communicator was aborted, if
   no member is in a call of the communicator.  Accepts NULL. */
void dpti_communicator_destroy(dpti_device *device, dpt_communicator *communicator);
/* Any thread may call this.  Every call of the communicator then returns an error.  Accepts NULL.
 */
void dpti_communicator_abort(dpti_device *device, dpt_communicator *communicator);

/* One member of a communicator, and the side stream of its device. */
typedef struct dpti_communicator_member {
    dpt_communicator *communicator;
    size_t index; /* in the group */
    dpti_side_stream *side;
} dpti_communicator_member;

/* [driver] Called by a member that waits for what it has enqueued.  Returns the failure if the
   enqueued work has failed by itself; DPT_OK if the backend does not tell. */
DPT_CHECK_RESULT dpt_status dpti_communicator_query(const dpti_communicator_member *member);
/* [driver] Enqueue the member's part of a collective on its side stream.  The slice holds float32.
   DPT_E_INTERNAL if it leaves the buffer; otherwise they fail as the backend does. */
DPT_CHECK_RESULT dpt_status dpti_communicator_all_reduce(const dpti_communicator_member *member,
                                                         const dpti_slice *data);
DPT_CHECK_RESULT dpt_status dpti_communicator_broadcast(const dpti_communicator_member *member,
                                                        size_t root_rank, const dpti_slice *data);

#endif
