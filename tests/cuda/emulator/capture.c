/* Capture of streams: calls are recorded instead of executed; and the calls that invalidate a
   capture. */
#include "emulator.h"

#include <stdlib.h>
#include <string.h>

struct emu_capture {
    size_t n_users;
    bool active, broken;
    cudaStream_t origin;
    enum cudaStreamCaptureMode mode;
    pthread_t thread;
    size_t n, room;
    emu_node *nodes;
};

/* ---- Sets of nodes --------------------------------------------------------------------------- */

bool emu_nodes_add(emu_nodes *set, size_t i)
{
    for (size_t k = 0; k < set->n; k++)
        if (set->of[k] == i) return true;
    if (set->n == set->room) {
        const size_t room = set->room ? 2 * set->room : 4;
        size_t *grown = realloc(set->of, room * sizeof *grown);
        if (!grown) return false;
        set->of = grown;
        set->room = room;
    }
    set->of[set->n++] = i;
    return true;
}

bool emu_nodes_add_all(emu_nodes *set, const emu_nodes *from)
{
    for (size_t k = 0; k < from->n; k++)
        if (!emu_nodes_add(set, from->of[k])) return false;
    return true;
}

/* ---- While it is under way ------------------------------------------------------------------- */

static void release(emu_capture *capture)
{
    if (!capture || --capture->n_users > 0) return;
    emu_nodes_drop(capture->nodes, capture->n);
    free(capture);
}

void emu_capture_break(emu_capture *capture)
{
    capture->broken = true;
}

void emu_event_forget(cudaEvent_t event)
{
    emu_point_release(event->point);
    release(event->capture);
    event->point = NULL;
    event->capture = NULL;
    event->tail.n = 0;
}

static cudaError_t no_memory(emu_capture *capture)
{
    emu_capture_break(capture);
    return cudaErrorMemoryAllocation;
}

static bool make_room(emu_capture *c)
{
    if (c->n < c->room) return true;
    const size_t room = c->room ? 2 * c->room : 64;
    emu_node *grown = realloc(c->nodes, room * sizeof *grown);
    if (!grown) return false;
    c->nodes = grown;
    c->room = room;
    return true;
}

cudaError_t emu_capture_add(cudaStream_t stream, emu_work *work)
{
    emu_capture *c = stream->capture;
    emu_node added = {.work = work};
    if (c->broken) {
        emu_work_release(work);
        return cudaErrorStreamCaptureInvalidated;
    }
    if (!make_room(c) || !emu_nodes_add_all(&added.after, &stream->tail)) {
        emu_work_release(work);
        free(added.after.of);
        return no_memory(c);
    }
    c->nodes[c->n] = added;
    stream->tail.n = 0;
    return emu_nodes_add(&stream->tail, c->n++) ? cudaSuccess : no_memory(c);
}

cudaError_t emu_capture_record(cudaStream_t stream, cudaEvent_t event)
{
    emu_capture *c = stream->capture;
    if (c->broken) return cudaErrorStreamCaptureInvalidated;
    c->n_users++;
    emu_event_forget(event);
    event->capture = c;
    return emu_nodes_add_all(&event->tail, &stream->tail) ? cudaSuccess : no_memory(c);
}

static cudaError_t wait_inside(cudaStream_t stream, cudaEvent_t event)
{
    emu_capture *c = stream->capture;
    if (c->broken) return cudaErrorStreamCaptureInvalidated;
    if (!event->capture && !event->point) return cudaSuccess; /* never recorded */
    if (event->capture == c)
        return emu_nodes_add_all(&stream->tail, &event->tail) ? cudaSuccess : no_memory(c);
    emu_capture_break(c);
    return event->capture && event->capture->active ? cudaErrorStreamCaptureMerge
                                                    : cudaErrorStreamCaptureIsolation;
}

cudaError_t emu_capture_wait(cudaStream_t stream, cudaEvent_t event)
{
    emu_capture *c = event->capture;
    if (stream->capture) return wait_inside(stream, event);
    if (!c->active) return cudaErrorCapturedEvent;
    if (c->broken) return cudaErrorStreamCaptureInvalidated;
    c->n_users++;
    stream->capture = c;
    stream->tail.n = 0;
    return emu_nodes_add_all(&stream->tail, &event->tail) ? cudaSuccess : no_memory(c);
}

cudaError_t emu_unsafe(void)
{
    emu_lock();
    const cudaError_t code = emu.n_strict > 0 ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
    for (cudaStream_t s = emu_streams(); code != cudaSuccess && s; s = s->next)
        if (s->capture && s->capture->mode != cudaStreamCaptureModeRelaxed)
            emu_capture_break(s->capture);
    emu_unlock();
    return code;
}

/* ---- Beginning and ending -------------------------------------------------------------------- */

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *out)
{
    cudaError_t code = cudaSuccess;
    EMU_ENTER(emu_card_of(stream));
    emu_lock();
    if (!emu_stream_lives(stream))
        code = cudaErrorInvalidResourceHandle;
    else
        *out = !stream->capture          ? cudaStreamCaptureStatusNone
               : stream->capture->broken ? cudaStreamCaptureStatusInvalidated
                                         : cudaStreamCaptureStatusActive;
    emu_unlock();
    return emu_leave(code);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode)
{
    cudaError_t code = cudaSuccess;
    EMU_ENTER(emu_card_of(stream));
    emu_capture *c = calloc(1, sizeof *c);
    if (!c) return emu_leave(cudaErrorMemoryAllocation);
    emu_lock();
    if (!emu_stream_lives(stream)) {
        code = cudaErrorInvalidResourceHandle;
    } else if (stream->capture) {
        code = cudaErrorIllegalState;
    } else {
        *c = (emu_capture){.n_users = 1, .active = true, .origin = stream, .mode = mode};
        c->thread = pthread_self();
        stream->capture = c;
        stream->tail.n = 0;
        emu.n_strict += mode != cudaStreamCaptureModeRelaxed;
    }
    emu_unlock();
    if (code != cudaSuccess) free(c);
    return emu_leave(code);
}

/* Nodes are marked that the set comes after, and itself. */
static void mark(const emu_capture *c, const emu_nodes *set, bool *marked)
{
    for (size_t k = 0; k < set->n; k++)
        marked[set->of[k]] = true;
    for (size_t i = c->n; i-- > 0;)
        for (size_t k = 0; marked[i] && k < c->nodes[i].after.n; k++)
            marked[c->nodes[i].after.of[k]] = true;
}

/* Whether all that was captured is before the origin's end. */
static cudaError_t joined(const emu_capture *c)
{
    cudaError_t code = cudaSuccess;
    bool *marked = calloc(c->n + 1, sizeof *marked);
    if (!marked) return cudaErrorMemoryAllocation;
    mark(c, &c->origin->tail, marked);
    for (size_t i = 0; i < c->n; i++)
        if (!marked[i]) code = cudaErrorStreamCaptureUnjoined;
    free(marked);
    return code;
}

static cudaError_t judge(cudaStream_t stream)
{
    const emu_capture *c = stream->capture;
    if (c->mode != cudaStreamCaptureModeRelaxed && !pthread_equal(c->thread, pthread_self()))
        return cudaErrorStreamCaptureWrongThread;
    return c->broken ? cudaErrorStreamCaptureInvalidated : joined(c);
}

/* All its streams leave it. */
static void leave(emu_capture *c)
{
    c->active = false;
    emu.n_strict -= c->mode != cudaStreamCaptureModeRelaxed;
    for (cudaStream_t s = emu_streams(); s; s = s->next) {
        if (s->capture != c) continue;
        s->capture = NULL;
        s->tail.n = 0;
        release(c);
    }
}

/* With the lock. */
static cudaError_t end(cudaStream_t stream, cudaError_t failed, cudaGraph_t *out)
{
    emu_capture *c = stream->capture;
    if (c->origin != stream) {
        emu_capture_break(c);
        return cudaErrorStreamCaptureUnmatched;
    }
    cudaError_t code = failed != cudaSuccess ? failed : judge(stream);
    if (code == cudaSuccess) code = emu_graph_create(c->nodes, c->n, out);
    leave(c);
    return code;
}

/* Ends it even if it fails. */
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *out)
{
    cudaError_t code = emu_enter(__func__, emu_card_of(stream));
    *out = NULL;
    emu_lock();
    if (!emu_stream_lives(stream))
        code = cudaErrorInvalidResourceHandle;
    else if (!stream->capture)
        code = cudaErrorIllegalState;
    else
        code = end(stream, code, out);
    emu_unlock();
    return emu_leave(code);
}
