/* Streams: queues, each executed by a thread of its own. */
#include "emulator.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static cudaStream_t streams; /* that live */

cudaStream_t emu_streams(void)
{
    return streams;
}

bool emu_stream_lives(cudaStream_t stream)
{
    for (cudaStream_t s = streams; s; s = s->next)
        if (s == stream) return true;
    return false;
}

int emu_card_of(cudaStream_t stream)
{
    emu_lock();
    const int card = emu_stream_lives(stream) ? stream->card : -1;
    emu_unlock();
    return card;
}

/* ---- Work ------------------------------------------------------------------------------------ */

emu_work *emu_work_create(void (*run)(emu_work *, cudaStream_t), const void *payload,
                          size_t n_bytes)
{
    emu_work *work = malloc(sizeof *work + n_bytes);
    if (!work) return NULL;
    *work = (emu_work){.n_users = 1, .run = run, .n_bytes = n_bytes};
    if (n_bytes > 0) memcpy(work->payload, payload, n_bytes);
    return work;
}

void emu_work_release(emu_work *work)
{
    if (!work || --work->n_users > 0) return;
    if (work->drop) work->drop(work);
    free(work);
}

void emu_queue(cudaStream_t stream, emu_work *work)
{
    work->next = NULL;
    *stream->last = work;
    stream->last = &work->next;
    stream->n_begun++;
    pthread_cond_signal(&stream->more);
}

cudaError_t emu_enqueue(cudaStream_t stream, emu_work *work)
{
    cudaError_t code = cudaSuccess;
    if (!work) return cudaErrorMemoryAllocation;
    emu_lock();
    if (!emu_stream_lives(stream)) {
        emu_work_release(work);
        code = cudaErrorInvalidResourceHandle;
    } else if (stream->capture) {
        code = emu_capture_add(stream, work);
    } else {
        emu_queue(stream, work);
    }
    emu_unlock();
    return code;
}

/* Now and then a stream is late, seldom by much. */
static void dawdle(cudaStream_t stream)
{
    stream->random = stream->random * 1664525u + 1013904223u;
    const unsigned draw = stream->random >> 16;
    const long longest = draw % 64 == 0 ? 3000000 : 200000;
    if (draw % 4 != 0) return;
    (void)nanosleep(&(struct timespec){.tv_nsec = (long)(draw >> 6) * longest / 1024}, NULL);
}

static void *work_off(void *argument)
{
    cudaStream_t s = argument;
    emu_lock();
    for (;;) {
        while (!s->first && !s->ends)
            pthread_cond_wait(&s->more, &emu.lock);
        emu_work *work = s->first;
        if (!work) break;
        s->first = work->next;
        if (!s->first) s->last = &s->first;
        const emu_card *card = &emu.cards[s->card];
        const bool runs = work->always || (card->lost == cudaSuccess && card->life == s->life);
        emu_unlock();
        if (emu.delays) dawdle(s);
        if (runs) work->run(work, s);
        emu_lock();
        emu_work_release(work);
        s->n_done++;
        pthread_cond_broadcast(&s->fewer);
    }
    pthread_cond_destroy(&s->more);
    pthread_cond_destroy(&s->fewer);
    free(s->tail.of);
    free(s);
    emu_unlock();
    return NULL;
}

void emu_wait_for(cudaStream_t stream)
{
    const size_t until = stream->n_begun;
    while (stream->n_done < until)
        pthread_cond_wait(&stream->fewer, &emu.lock);
}

void emu_wait_for_card(int card)
{
    for (cudaStream_t s = streams; s; s = s->next)
        if (s->card == card) emu_wait_for(s);
}

/* ---- Streams --------------------------------------------------------------------------------- */

static cudaError_t start(cudaStream_t stream)
{
    pthread_t thread;
    pthread_attr_t detached;
    pthread_attr_init(&detached);
    pthread_attr_setdetachstate(&detached, PTHREAD_CREATE_DETACHED);
    const int failed = pthread_create(&thread, &detached, work_off, stream);
    pthread_attr_destroy(&detached);
    return failed ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
    static unsigned n_made;
    EMU_ENTER(emu_current());
    if (flags != cudaStreamNonBlocking) return emu_leave(cudaErrorNotSupported);
    cudaStream_t s = calloc(1, sizeof *s);
    if (!s) return emu_leave(cudaErrorMemoryAllocation);
    s->card = emu_current();
    s->last = &s->first;
    pthread_cond_init(&s->more, NULL);
    pthread_cond_init(&s->fewer, NULL);
    emu_lock();
    s->life = emu.cards[s->card].life;
    s->random = emu.delays * 2654435761u + n_made++;
    const cudaError_t code = start(s);
    if (code == cudaSuccess) {
        s->next = streams;
        streams = s;
        emu.left.streams++;
        *out = s;
    }
    emu_unlock();
    if (code != cudaSuccess) free(s);
    return emu_leave(code);
}

/* With the lock. */
static void end(cudaStream_t stream)
{
    cudaStream_t *at = &streams;
    while (*at != stream)
        at = &(*at)->next;
    *at = stream->next;
    emu.left.streams--;
    stream->ends = true; /* when its work is done */
    pthread_cond_signal(&stream->more);
}

/* Does it even if it fails, as it tells of earlier failures. */
cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
    cudaError_t code = emu_enter(__func__, emu_card_of(stream));
    emu_lock();
    if (!emu_stream_lives(stream)) {
        code = cudaErrorInvalidResourceHandle;
    } else if (stream->capture) {
        emu_capture_break(stream->capture);
        code = cudaErrorStreamCaptureUnsupported;
    } else {
        end(stream);
    }
    emu_unlock();
    return emu_leave(code);
}

/* Whether the host may ask how far a stream is.  With the lock. */
static cudaError_t ask(cudaStream_t stream)
{
    if (!emu_stream_lives(stream)) return cudaErrorInvalidResourceHandle;
    if (!stream->capture) return cudaSuccess;
    emu_capture_break(stream->capture);
    return cudaErrorStreamCaptureUnsupported;
}

/* Waits even if it fails. */
cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
    cudaError_t code = emu_enter(__func__, emu_card_of(stream));
    emu_lock();
    const cudaError_t asked = ask(stream);
    if (asked == cudaSuccess) {
        emu_wait_for(stream);
        emu_pools_settle(stream->card);
        if (code == cudaSuccess) code = emu.cards[stream->card].lost;
    }
    emu_unlock();
    return emu_leave(code == cudaSuccess ? asked : code);
}

cudaError_t cudaStreamQuery(cudaStream_t stream)
{
    EMU_ENTER(emu_card_of(stream));
    emu_lock();
    cudaError_t code = ask(stream);
    if (code == cudaSuccess) {
        code = emu.cards[stream->card].lost;
        if (code == cudaSuccess && stream->n_done < stream->n_begun) code = cudaErrorNotReady;
    }
    emu_unlock();
    return emu_leave(code);
}

/* ---- Functions of the host's ----------------------------------------------------------------- */

typedef struct host_call {
    void (*function)(void *);
    size_t n_bytes;
    _Alignas(16) unsigned char argument[];
} host_call;

static void run_host(emu_work *work, cudaStream_t stream)
{
    host_call *call = (host_call *)(void *)work->payload;
    (void)stream;
    call->function(call->argument);
}

cudaError_t emulated_enqueue(cudaStream_t stream, void (*function)(void *), const void *argument,
                             size_t n_bytes)
{
    const host_call head = {.function = function, .n_bytes = n_bytes};
    const cudaError_t lost = emu_lost(emu_card_of(stream));
    if (lost != cudaSuccess) return emu_leave(lost);
    emu_load_function(emu_card_of(stream), function);
    emu_work *work = emu_work_create(run_host, &head, sizeof head);
    emu_work *grown = work ? realloc(work, sizeof *work + sizeof head + n_bytes) : NULL;
    if (!grown) {
        free(work);
        return emu_leave(cudaErrorMemoryAllocation);
    }
    memcpy(grown->payload + sizeof head, argument, n_bytes);
    return emu_leave(emu_enqueue(stream, grown));
}

typedef struct host_function {
    cudaHostFn_t function;
    void *data;
} host_function;

static void call_function(void *argument)
{
    const host_function *h = argument;
    h->function(h->data);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void *data)
{
    const host_function h = {function, data};
    EMU_ENTER(emu_card_of(stream));
    return emulated_enqueue(stream, call_function, &h, sizeof h);
}
