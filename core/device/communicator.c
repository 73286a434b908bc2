/* Collectives of a backend, by checked calls. */
#include "device/communicator.h"
#include "device/buffer.h"
#include "device/device.h"

#include "device/dispatch.h"
#include "device/driver.h"

static const dpt_collective_ops *collectives_of(const dpti_device *device)
{
    return device->base.backend->collective;
}

bool dpti_has_collectives(const dpti_device *device)
{
    return collectives_of(device) != NULL;
}

enum { MOST_MEMBERS = 256 };

/* Writes the group as the backend sees it. */
static dpt_status translate(const dpti_group *group, dpt_device *members[MOST_MEMBERS],
                            dpt_group *out)
{
    dpti_device *first = group->devices[0];
    DPT_TRY(dpti_begin_call(first));
    if (!collectives_of(first) || group->n > MOST_MEMBERS)
        return DPT_FAIL(&first->base.error, DPT_E_UNSUPPORTED, "no collectives for %zu devices",
                        group->n);
    for (size_t i = 0; i < group->n; i++)
        members[i] = &group->devices[i]->base;
    *out = (dpt_group){.devices = members,
                       .n_devices = group->n,
                       .first_rank = group->first_rank,
                       .n_ranks = group->n_ranks};
    return DPT_OK;
}

dpt_status dpti_communicator_check(const dpti_group *group)
{
    dpti_device *first = group->devices[0];
    dpt_device *members[MOST_MEMBERS];
    dpt_group g;
    DPT_TRY(translate(group, members, &g));
    return DPTI_CALL(first, collectives_of(first)->check(&g), "collective.check");
}

dpt_status dpti_communicator_invite(const dpti_group *group, dpt_invitation *out)
{
    dpti_device *first = group->devices[0];
    dpt_invitation made = {.bytes = {0}};
    DPT_TRY(dpti_begin_call(first));
    DPT_TRY(
        DPTI_CALL(first, collectives_of(first)->invite(&first->base, &made), "collective.invite"));
    *out = made;
    return DPT_OK;
}

dpt_status dpti_communicator_create(const dpti_group *group, const dpt_invitation *invitation,
                                    double timeout_seconds, dpt_communicator **out)
{
    dpti_device *first = group->devices[0];
    dpt_device *members[MOST_MEMBERS];
    dpt_communicator *made = NULL;
    dpt_group g;
    DPT_TRY(translate(group, members, &g));
    g.invitation = *invitation;
    g.timeout_seconds = timeout_seconds;
    DPT_TRY(DPTI_CALL(first, collectives_of(first)->create(&g, &made), "collective.create"));
    *out = made;
    return DPT_OK;
}

void dpti_communicator_destroy(dpti_device *device, dpt_communicator *communicator)
{
    if (!communicator) return;
    if (dpti_driver_is_own_thread(device))
        DPTI_RELEASE(device, collectives_of(device)->destroy(communicator));
    else
        collectives_of(device)->destroy(communicator);
}

void dpti_communicator_abort(dpti_device *device, dpt_communicator *communicator)
{
    if (communicator) collectives_of(device)->abort(communicator);
}

/* What goes before a collective of n_bytes. */
static dpt_status begin(const dpti_communicator_member *member, const dpti_slice *data)
{
    DPT_TRY(dpti_begin_call(member->side->device));
    return dpti_slice_check(member->side->device, data);
}

dpt_status dpti_communicator_query(const dpti_communicator_member *member)
{
    dpti_device *device = member->side->device;
    DPT_TRY(dpti_begin_call(device));
    if (!collectives_of(device)->query) return DPT_OK;
    return DPTI_CALL(device, collectives_of(device)->query(member->communicator, member->index),
                     "collective.query");
}

dpt_status dpti_communicator_all_reduce(const dpti_communicator_member *member,
                                        const dpti_slice *data)
{
    dpti_device *device = member->side->device;
    DPT_TRY(begin(member, data));
    return DPTI_CALL(device,
                     collectives_of(device)->all_reduce(
                         member->communicator, member->index, member->side->stream,
                         dpti_slice_location(data), data->n_bytes / sizeof(float)),
                     "collective.all_reduce");
}

dpt_status dpti_communicator_broadcast(const dpti_communicator_member *member, size_t root_rank,
                                       const dpti_slice *data)
{
    dpti_device *device = member->side->device;
    DPT_TRY(begin(member, data));
    return DPTI_CALL(device,
                     collectives_of(device)->broadcast(
                         member->communicator, member->index, root_rank, member->side->stream,
                         dpti_slice_location(data), data->n_bytes / sizeof(float)),
                     "collective.broadcast");
}
