/* Events: positions in streams, waiting for them, and the time between two of them. */
#include "emulator.h"

#include <stdlib.h>

static cudaEvent_t events; /* that live */

bool emu_event_lives(cudaEvent_t event)
{
    for (cudaEvent_t e = events; e; e = e->next)
        if (e == event) return true;
    return false;
}

/* ---- Points ---------------------------------------------------------------------------------- */

/* What records or awaits a point. */
typedef struct point_work {
    emu_point *point;
} point_work;

static emu_point *point_of(const emu_work *work)
{
    return ((const point_work *)(const void *)work->payload)->point;
}

void emu_point_release(emu_point *point)
{
    if (!point || --point->n_users > 0) return;
    pthread_cond_destroy(&point->changed);
    free(point);
}

static void drop_point(emu_work *work)
{
    emu_point_release(point_of(work));
}

static void pass(emu_work *work, cudaStream_t stream)
{
    emu_point *point = point_of(work);
    (void)stream;
    emu_lock();
    point->time = emu_now();
    point->passed = true;
    pthread_cond_broadcast(&point->changed);
    emu_unlock();
}

static void await(emu_work *work, cudaStream_t stream)
{
    emu_point *point = point_of(work);
    (void)stream;
    emu_lock();
    while (!point->passed)
        pthread_cond_wait(&point->changed, &emu.lock);
    emu_unlock();
}

/* With the lock.  Others wait for the point on a lost card, too. */
static cudaError_t queue_point(cudaStream_t stream, emu_point *point,
                               void (*run)(emu_work *, cudaStream_t))
{
    const point_work payload = {point};
    emu_work *work = emu_work_create(run, &payload, sizeof payload);
    if (!work) return cudaErrorMemoryAllocation;
    work->always = run == pass;
    work->drop = drop_point;
    point->n_users++;
    emu_queue(stream, work);
    return cudaSuccess;
}

/* ---- Events ---------------------------------------------------------------------------------- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
    EMU_ENTER(emu_current());
    if (flags & ~(unsigned)(cudaEventDisableTiming | cudaEventBlockingSync))
        return emu_leave(cudaErrorInvalidValue);
    cudaEvent_t e = calloc(1, sizeof *e);
    if (!e) return emu_leave(cudaErrorMemoryAllocation);
    e->card = emu_current();
    e->timed = !(flags & cudaEventDisableTiming);
    emu_lock();
    e->next = events;
    events = e;
    emu.left.events++;
    emu_unlock();
    *out = e;
    return cudaSuccess;
}

static int card_of(cudaEvent_t event)
{
    emu_lock();
    const int card = emu_event_lives(event) ? event->card : -1;
    emu_unlock();
    return card;
}

/* With the lock. */
static void end(cudaEvent_t event)
{
    cudaEvent_t *at = &events;
    while (*at != event)
        at = &(*at)->next;
    *at = event->next;
    emu.left.events--;
    emu_event_forget(event);
    free(event->tail.of);
    free(event);
}

/* Does it even if it fails. */
cudaError_t cudaEventDestroy(cudaEvent_t event)
{
    cudaError_t code = emu_enter(__func__, card_of(event));
    emu_lock();
    if (emu_event_lives(event))
        end(event);
    else
        code = cudaErrorInvalidResourceHandle;
    emu_unlock();
    return emu_leave(code);
}

/* With the lock. */
static cudaError_t record(cudaEvent_t event, cudaStream_t stream)
{
    emu_point *point = calloc(1, sizeof *point);
    if (!point) return cudaErrorMemoryAllocation;
    pthread_cond_init(&point->changed, NULL);
    point->n_users = 1;
    const cudaError_t code = queue_point(stream, point, pass);
    if (code != cudaSuccess) {
        emu_point_release(point);
        return code;
    }
    emu_event_forget(event);
    event->point = point;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
    cudaError_t code;
    EMU_ENTER(emu_card_of(stream));
    emu_lock();
    if (!emu_event_lives(event) || !emu_stream_lives(stream) || event->card != stream->card)
        code = cudaErrorInvalidResourceHandle;
    else if (stream->capture)
        code = emu_capture_record(stream, event);
    else
        code = record(event, stream);
    emu_unlock();
    return emu_leave(code);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags)
{
    cudaError_t code = cudaSuccess;
    EMU_ENTER(emu_card_of(stream));
    emu_lock();
    if (!emu_event_lives(event) || !emu_stream_lives(stream))
        code = cudaErrorInvalidResourceHandle;
    else if (flags != cudaEventWaitDefault)
        code = cudaErrorInvalidValue;
    else if (stream->capture || event->capture)
        code = emu_capture_wait(stream, event);
    else if (event->point)
        code = queue_point(stream, event->point, await);
    emu_unlock();
    return emu_leave(code);
}

/* Whether the host may ask for an event.  With the lock. */
static cudaError_t ask(cudaEvent_t event)
{
    if (!emu_event_lives(event)) return cudaErrorInvalidResourceHandle;
    if (!event->capture) return cudaSuccess;
    emu_capture_break(event->capture);
    return cudaErrorCapturedEvent;
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
    EMU_ENTER(card_of(event));
    emu_lock();
    cudaError_t code = ask(event);
    if (code == cudaSuccess) code = emu.cards[event->card].lost;
    if (code == cudaSuccess && event->point && !event->point->passed) code = cudaErrorNotReady;
    emu_unlock();
    return emu_leave(code);
}

/* Waits even if it fails. */
cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
    cudaError_t code = emu_enter(__func__, card_of(event));
    emu_lock();
    const cudaError_t asked = ask(event);
    if (asked == cudaSuccess && event->point) {
        emu_point *point = event->point;
        const int card = event->card;
        point->n_users++;
        while (!point->passed)
            pthread_cond_wait(&point->changed, &emu.lock);
        emu_point_release(point);
        if (code == cudaSuccess) code = emu.cards[card].lost;
    }
    emu_unlock();
    return emu_leave(code == cudaSuccess ? asked : code);
}

cudaError_t cudaEventElapsedTime(float *milliseconds, cudaEvent_t start, cudaEvent_t end_event)
{
    cudaError_t code = cudaSuccess;
    EMU_ENTER(card_of(end_event));
    emu_lock();
    if (!emu_event_lives(start) || !emu_event_lives(end_event) || start->card != end_event->card ||
        !start->timed || !end_event->timed || !start->point || !end_event->point)
        code = cudaErrorInvalidResourceHandle;
    else if (!start->point->passed || !end_event->point->passed)
        code = cudaErrorNotReady;
    else
        *milliseconds = (float)(1e3 * (end_event->point->time - start->point->time));
    emu_unlock();
    return emu_leave(code);
}
