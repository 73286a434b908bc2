/* A device's second stream, and the backend's collectives on it: checked calls, as in dispatch.c.
 */
#include "device/dispatch.h"

static const dpt_stream_ops *streams_of(const dpti_device *device)
{
    return device->base.backend->stream;
}

static const dpt_collective_ops *collectives_of(const dpti_device *device)
{
    return device->base.backend->collective;
}

/* ---- The lane -------------------------------------------------------------------------------- */

dpt_status dpti_lane_create(dpti_device *device, dpti_lane *out)
{
    *out = (dpti_lane){.device = NULL};
    DPT_TRY(dpti_begin_call(device));
    dpt_stream *stream = NULL;
    DPT_TRY(DPTI_CALL(device, streams_of(device)->create(&device->base, &stream), "stream.create"));
    *out = (dpti_lane){.device = device, .stream = stream};
    return DPT_OK;
}

void dpti_lane_destroy(dpti_lane *lane)
{
    dpti_device *device = lane->device;
    if (!device) return;
    for (size_t k = 0; k < DPTI_LANE_POINTS; k++)
        if (lane->points[k]) dpti_event_destroy(device, &lane->points[k]);
    dpt_stream *stream = lane->stream;
    *lane = (dpti_lane){.device = NULL};
    if (!device->lost) DPTI_RELEASE(device, streams_of(device)->destroy(stream));
}

/* Of a lane's device, before a call that touches n_bytes of its buffer. */
static dpt_status begin(const dpti_lane *lane, const dpti_buffer *buffer, size_t offset_bytes,
                        size_t n_bytes)
{
    DPT_TRY(dpti_begin_call(lane->device));
    if (buffer->device != lane->device || offset_bytes > buffer->n_bytes ||
        n_bytes > buffer->n_bytes - offset_bytes)
        return DPT_FAIL(&lane->device->base.error, DPT_E_INTERNAL,
                        "%zu bytes at %zu leave the buffer of %zu", n_bytes, offset_bytes,
                        buffer->n_bytes);
    return DPT_OK;
}

static dpt_location location(const dpti_buffer *buffer, size_t offset_bytes)
{
    return (dpt_location){.buffer = buffer->handle, .offset_bytes = offset_bytes};
}

dpt_status dpti_lane_fill(dpti_lane *lane, const dpti_buffer *to, size_t offset_bytes,
                          uint32_t pattern, size_t n_bytes)
{
    dpti_device *device = lane->device;
    DPT_TRY(begin(lane, to, offset_bytes, n_bytes));
    if (n_bytes == 0) return DPT_OK;
    return DPTI_CALL(device,
                     device->base.backend->memory->fill(lane->stream, location(to, offset_bytes),
                                                        pattern, n_bytes),
                     "memory.fill");
}

dpt_status dpti_lane_download(dpti_lane *lane, void *host, const dpti_buffer *from,
                              size_t offset_bytes, size_t n_bytes)
{
    dpti_device *device = lane->device;
    DPT_TRY(begin(lane, from, offset_bytes, n_bytes));
    if (n_bytes == 0) return DPT_OK;
    return DPTI_CALL(device,
                     device->base.backend->memory->download(lane->stream, host,
                                                            location(from, offset_bytes), n_bytes),
                     "memory.download");
}

dpt_status dpti_lane_sync(dpti_lane *lane)
{
    DPT_TRY(dpti_begin_call(lane->device));
    return DPTI_CALL(lane->device, streams_of(lane->device)->sync(lane->stream), "stream.sync");
}

dpt_status dpti_lane_mark(dpti_lane *lane, size_t k)
{
    dpti_device *device = lane->device;
    if (!lane->points[k]) {
        dpt_event *event = NULL;
        DPT_TRY(dpti_event_create(device, &event));
        lane->points[k] = event;
    }
    DPT_TRY(dpti_begin_call(device));
    return DPTI_CALL(device, streams_of(device)->event_record(lane->points[k], lane->stream),
                     "stream.event_record");
}

dpt_status dpti_lane_passed(dpti_lane *lane, size_t k, bool *passed)
{
    dpti_device *device = lane->device;
    bool done = false;
    DPT_TRY(dpti_begin_call(device));
    DPT_TRY(DPTI_CALL(device, streams_of(device)->event_query(lane->points[k], &done),
                      "stream.event_query"));
    *passed = done;
    return DPT_OK;
}

/* ---- Communicators --------------------------------------------------------------------------- */

bool dpti_has_collectives(const dpti_device *device)
{
    return collectives_of(device) != NULL;
}

enum { MOST_MEMBERS = 256 };

/* The group as the backend sees it. */
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
    if (dpti_driver_is_mine(device))
        DPTI_RELEASE(device, collectives_of(device)->destroy(communicator));
    else
        collectives_of(device)->destroy(communicator);
}

void dpti_communicator_abort(dpti_device *device, dpt_communicator *communicator)
{
    if (communicator) collectives_of(device)->abort(communicator);
}

dpt_status dpti_lane_query(dpti_lane *lane, dpt_communicator *communicator, size_t i)
{
    dpti_device *device = lane->device;
    DPT_TRY(dpti_begin_call(device));
    if (!collectives_of(device)->query) return DPT_OK;
    return DPTI_CALL(device, collectives_of(device)->query(communicator, i), "collective.query");
}

dpt_status dpti_lane_all_reduce(dpti_lane *lane, dpt_communicator *communicator, size_t i,
                                const dpti_buffer *data, size_t first, size_t count)
{
    dpti_device *device = lane->device;
    DPT_TRY(begin(lane, data, first * sizeof(float), count * sizeof(float)));
    return DPTI_CALL(device,
                     collectives_of(device)->all_reduce(communicator, i, lane->stream,
                                                        location(data, first * sizeof(float)),
                                                        count),
                     "collective.all_reduce");
}

dpt_status dpti_lane_broadcast(dpti_lane *lane, dpt_communicator *communicator, size_t i,
                               size_t root, const dpti_buffer *data, size_t count)
{
    dpti_device *device = lane->device;
    DPT_TRY(begin(lane, data, 0, count * sizeof(float)));
    return DPTI_CALL(device,
                     collectives_of(device)->broadcast(communicator, i, root, lane->stream,
                                                       location(data, 0), count),
                     "collective.broadcast");
}
