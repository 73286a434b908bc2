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

dpt_status dpti_side_stream_create(dpti_device *device, dpti_side_stream *out)
{
    *out = (dpti_side_stream){.device = NULL};
    DPT_TRY(dpti_begin_call(device));
    dpt_stream *stream = NULL;
    DPT_TRY(DPTI_CALL(device, streams_of(device)->create(&device->base, &stream), "stream.create"));
    *out = (dpti_side_stream){.device = device, .stream = stream};
    return DPT_OK;
}

void dpti_side_stream_destroy(dpti_side_stream *side)
{
    dpti_device *device = side->device;
    if (!device) return;
    for (size_t k = 0; k < DPTI_SIDE_STREAM_POINTS; k++)
        if (side->points[k]) dpti_event_destroy(device, &side->points[k]);
    dpt_stream *stream = side->stream;
    *side = (dpti_side_stream){.device = NULL};
    if (!device->lost) DPTI_RELEASE(device, streams_of(device)->destroy(stream));
}

/* Of a lane's device, before a call that touches n_bytes of its buffer. */
static dpt_status begin(const dpti_side_stream *side, const dpti_buffer *buffer,
                        size_t offset_bytes, size_t n_bytes)
{
    DPT_TRY(dpti_begin_call(side->device));
    if (buffer->device != side->device || offset_bytes > buffer->n_bytes ||
        n_bytes > buffer->n_bytes - offset_bytes)
        return DPT_FAIL(&side->device->base.error, DPT_E_INTERNAL,
                        "%zu bytes at %zu leave the buffer of %zu", n_bytes, offset_bytes,
                        buffer->n_bytes);
    return DPT_OK;
}

static dpt_location location(const dpti_buffer *buffer, size_t offset_bytes)
{
    return (dpt_location){.buffer = buffer->handle, .offset_bytes = offset_bytes};
}

dpt_status dpti_side_stream_fill(dpti_side_stream *side, const dpti_buffer *to, size_t offset_bytes,
                                 uint32_t pattern, size_t n_bytes)
{
    dpti_device *device = side->device;
    DPT_TRY(begin(side, to, offset_bytes, n_bytes));
    if (n_bytes == 0) return DPT_OK;
    return DPTI_CALL(device,
                     device->base.backend->memory->fill(side->stream, location(to, offset_bytes),
                                                        pattern, n_bytes),
                     "memory.fill");
}

dpt_status dpti_side_stream_download(dpti_side_stream *side, void *host, const dpti_buffer *from,
                                     size_t offset_bytes, size_t n_bytes)
{
    dpti_device *device = side->device;
    DPT_TRY(begin(side, from, offset_bytes, n_bytes));
    if (n_bytes == 0) return DPT_OK;
    return DPTI_CALL(device,
                     device->base.backend->memory->download(side->stream, host,
                                                            location(from, offset_bytes), n_bytes),
                     "memory.download");
}

dpt_status dpti_side_stream_sync(dpti_side_stream *side)
{
    DPT_TRY(dpti_begin_call(side->device));
    return DPTI_CALL(side->device, streams_of(side->device)->sync(side->stream), "stream.sync");
}

dpt_status dpti_side_stream_mark(dpti_side_stream *side, size_t k)
{
    dpti_device *device = side->device;
    if (!side->points[k]) {
        dpt_event *event = NULL;
        DPT_TRY(dpti_event_create(device, &event));
        side->points[k] = event;
    }
    DPT_TRY(dpti_begin_call(device));
    return DPTI_CALL(device, streams_of(device)->event_record(side->points[k], side->stream),
                     "stream.event_record");
}

dpt_status dpti_side_stream_passed(dpti_side_stream *side, size_t k, bool *passed)
{
    dpti_device *device = side->device;
    bool done = false;
    DPT_TRY(dpti_begin_call(device));
    DPT_TRY(DPTI_CALL(device, streams_of(device)->event_query(side->points[k], &done),
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
    if (dpti_driver_is_own_thread(device))
        DPTI_RELEASE(device, collectives_of(device)->destroy(communicator));
    else
        collectives_of(device)->destroy(communicator);
}

void dpti_communicator_abort(dpti_device *device, dpt_communicator *communicator)
{
    if (communicator) collectives_of(device)->abort(communicator);
}

dpt_status dpti_side_stream_query(dpti_side_stream *side, dpt_communicator *communicator, size_t i)
{
    dpti_device *device = side->device;
    DPT_TRY(dpti_begin_call(device));
    if (!collectives_of(device)->query) return DPT_OK;
    return DPTI_CALL(device, collectives_of(device)->query(communicator, i), "collective.query");
}

dpt_status dpti_side_stream_all_reduce(dpti_side_stream *side, dpt_communicator *communicator,
                                       size_t i, const dpti_buffer *data, size_t first,
                                       size_t count)
{
    dpti_device *device = side->device;
    DPT_TRY(begin(side, data, first * sizeof(float), count * sizeof(float)));
    return DPTI_CALL(device,
                     collectives_of(device)->all_reduce(communicator, i, side->stream,
                                                        location(data, first * sizeof(float)),
                                                        count),
                     "collective.all_reduce");
}

dpt_status dpti_side_stream_broadcast(dpti_side_stream *side, dpt_communicator *communicator,
                                      size_t i, size_t root, const dpti_buffer *data, size_t count)
{
    dpti_device *device = side->device;
    DPT_TRY(begin(side, data, 0, count * sizeof(float)));
    return DPTI_CALL(device,
                     collectives_of(device)->broadcast(communicator, i, root, side->stream,
                                                       location(data, 0), count),
                     "collective.broadcast");
}
