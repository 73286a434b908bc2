/* Streams, which execute work at once, and events, which read the monotonic clock. */
#include "stream.h"
#include "tables.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

struct dpt_event {
    dpt_device *device;
    /* Atomic, because a stream of another device, with another driver thread, may wait for it. */
    atomic_bool recorded;
    double seconds;
};

/* ---- Works ----------------------------------------------------------------------------------- */

typedef struct work_list {
    dpt_cpu_team *team;
    const dpt_cpu_work *works;
    size_t n_works;
} work_list;

/* Runs a thread's part, unless the halt word is set.  All threads read the same word, because the
   work that writes it ended at the last barrier. */
static void do_work(const dpt_cpu_work *work, unsigned thread, unsigned n_threads)
{
    if (work->call.halt && *work->call.halt != 0.0f) return;
    if (!work->alone)
        work->kernel(&work->call, thread, n_threads);
    else if (thread == 0)
        work->kernel(&work->call, 0, 1);
}

static void do_works(const void *argument, unsigned thread, unsigned n_threads)
{
    const work_list *list = argument;
    for (size_t i = 0; i < list->n_works; i++) {
        if (i > 0) dpt_cpu_barrier(list->team, thread, n_threads);
        do_work(&list->works[i], thread, n_threads);
    }
}

void dpt_cpu_team_do(dpt_cpu_team *team, const dpt_cpu_work *works, size_t n_works)
{
    if (n_works == 0) return;
    if (n_works == 1 && works[0].alone) {
        do_work(&works[0], 0, 1);
        return;
    }
    const work_list list = {.team = team, .works = works, .n_works = n_works};
    dpt_cpu_team_run(team, do_works, &list);
}

static dpt_status record(dpt_stream *stream, const dpt_cpu_work *work)
{
    dpt_recording *recording = stream->recording;
    if (recording->n_works == recording->capacity) {
        const size_t capacity = recording->capacity > 0 ? 2 * recording->capacity : 64;
        dpt_cpu_work *works = realloc(recording->works, capacity * sizeof *works);
        if (!works) {
            recording->status = DPT_E_NO_MEMORY;
            return DPT_FAIL(&stream->device->error, DPT_E_NO_MEMORY,
                            "no memory to record more than %zu operators", recording->n_works);
        }
        recording->works = works;
        recording->capacity = capacity;
    }
    recording->works[recording->n_works++] = *work;
    return DPT_OK;
}

dpt_status dpt_cpu_stream_do(dpt_stream *stream, dpt_cpu_work work)
{
    work.call.team = dpt_cpu_device_of(stream->device)->team;
    if (stream->recording) return record(stream, &work);
    dpt_cpu_team_do(work.call.team, &work, 1);
    return DPT_OK;
}

/* ---- Streams --------------------------------------------------------------------------------- */

static dpt_status create(dpt_device *device, dpt_stream **out)
{
    dpt_stream *stream = malloc(sizeof *stream);
    if (!stream) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for a stream");
    *stream = (dpt_stream){.device = device};
    *out = stream;
    return DPT_OK;
}

static void destroy(dpt_stream *stream)
{
    if (!stream) return;
    dpt_cpu_capture_ops.release(stream->device, stream->recording); /* one that never ended */
    free(stream);
}

static dpt_status sync(dpt_stream *stream)
{
    (void)stream; /* all enqueued work is done */
    return DPT_OK;
}

/* ---- Events ---------------------------------------------------------------------------------- */

static dpt_status event_create(dpt_device *device, dpt_event **out)
{
    dpt_event *event = malloc(sizeof *event);
    if (!event) return DPT_FAIL(&device->error, DPT_E_NO_MEMORY, "no memory for an event");
    event->device = device;
    event->seconds = 0.0;
    atomic_init(&event->recorded, false);
    *out = event;
    return DPT_OK;
}

static void event_destroy(dpt_event *event)
{
    free(event);
}

static dpt_status event_record(dpt_event *event, dpt_stream *stream)
{
    (void)stream;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail: POSIX has this clock */
    event->seconds = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
    atomic_store_explicit(&event->recorded, true, memory_order_release);
    return DPT_OK;
}

static dpt_status check_recorded(dpt_event *event, dpt_error *error)
{
    if (!atomic_load_explicit(&event->recorded, memory_order_acquire))
        return DPT_FAIL(error, DPT_E_STATE, "this event has not been recorded");
    return DPT_OK;
}

/* The failure is recorded in the stream's device, because the event's device may belong to another
   thread. */
static dpt_status event_wait(dpt_stream *stream, dpt_event *event)
{
    return check_recorded(event, &stream->device->error);
}

static dpt_status event_query(dpt_event *event, bool *done)
{
    DPT_TRY(check_recorded(event, &event->device->error));
    *done = true;
    return DPT_OK;
}

static dpt_status event_sync(dpt_event *event)
{
    return check_recorded(event, &event->device->error);
}

static dpt_status event_elapsed(dpt_event *start, dpt_event *end, double *seconds)
{
    DPT_TRY(check_recorded(start, &start->device->error));
    DPT_TRY(check_recorded(end, &end->device->error));
    *seconds = end->seconds - start->seconds;
    return DPT_OK;
}

const dpt_stream_ops dpt_cpu_stream_ops = {
    .create = create,
    .destroy = destroy,
    .sync = sync,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .event_record = event_record,
    .event_wait = event_wait,
    .event_query = event_query,
    .event_sync = event_sync,
    .event_elapsed = event_elapsed,
};
