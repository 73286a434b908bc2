/* Copies and fills.  The emulator checks access when a copy is enqueued, and checks again when the
   copy runs that the memory still exists.  A real card would silently write to the memory's new
   owner. */
#include "emulator.h"

#include <string.h>

typedef struct copy {
    char *to;
    const char *from; /* NULL: a fill */
    size_t to_pitch, from_pitch, width, height;
    int byte;
    bool between; /* cards, whatever they reach */
} copy;

/* Bytes from the first row's begin to the last one's end. */
static size_t span(size_t pitch, const copy *c)
{
    return (c->height - 1) * pitch + c->width;
}

/* Whether this card's engines reach a card's memory, or the host's.  With the lock. */
static bool reaches(int card, const void *at, size_t n_bytes)
{
    cudaMemPool_t pool = NULL;
    const int owner = emu_owner(at, n_bytes, &pool);
    if (owner == EMU_PINNED || owner == EMU_PAGEABLE || owner == card) return true;
    if (owner >= EMU_MOST_CARDS) return false;
    return pool ? pool->reaches[card] : emu.cards[card].reaches[owner];
}

/* Of what no pool has allocated, whoever connects the cards sees to it himself. */
void emulated_use_peer(cudaStream_t stream, const void *at, size_t n_bytes)
{
    cudaMemPool_t pool = NULL;
    emu_lock();
    (void)emu_owner(at, n_bytes, &pool);
    const bool faults = pool && !emu.apart && !pool->reaches[stream->card];
    emu_unlock();
    if (faults) emu_lose(stream->card, cudaErrorIllegalAddress);
}

static bool is_card(int owner)
{
    return owner >= 0 && owner < EMU_MOST_CARDS;
}

static bool is_host(int owner)
{
    return owner == EMU_PINNED || owner == EMU_PAGEABLE;
}

/* With the lock. */
static cudaError_t check(const copy *c, enum cudaMemcpyKind kind, int card)
{
    const int to = emu_owner(c->to, span(c->to_pitch, c), NULL);
    const int from = c->from ? emu_owner(c->from, span(c->from_pitch, c), NULL) : card;
    const bool to_card = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
    const bool from_card = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
    if (kind == cudaMemcpyHostToHost) return cudaErrorInvalidMemcpyDirection;
    if (kind != cudaMemcpyDefault && (to_card ? !is_card(to) : !is_host(to)))
        return cudaErrorInvalidValue;
    if (kind != cudaMemcpyDefault && c->from && (from_card ? !is_card(from) : !is_host(from)))
        return cudaErrorInvalidValue;
    if (c->between) return cudaSuccess;
    if (!reaches(card, c->to, span(c->to_pitch, c))) return cudaErrorInvalidValue;
    if (c->from && !reaches(card, c->from, span(c->from_pitch, c))) return cudaErrorInvalidValue;
    return cudaSuccess;
}

static bool is_there(const void *at, size_t n_bytes, bool card)
{
    const int owner = emu_owner(at, n_bytes, NULL);
    return card ? is_card(owner) : is_host(owner);
}

typedef struct copy_work {
    copy what;
    bool to_card, from_card;
} copy_work;

static void do_copy(const copy_work *w)
{
    const copy *c = &w->what;
    emu_lock();
    const bool there = is_there(c->to, span(c->to_pitch, c), w->to_card) &&
                       (!c->from || is_there(c->from, span(c->from_pitch, c), w->from_card));
    emu.left.late += !there;
    emu_unlock();
    if (!there) return;
    for (size_t row = 0; row < c->height; row++) {
        if (c->from)
            memcpy(c->to + row * c->to_pitch, c->from + row * c->from_pitch, c->width);
        else
            memset(c->to + row * c->to_pitch, c->byte, c->width);
    }
}

static void run_copy(emu_work *work, cudaStream_t stream)
{
    if (!emu_begin_use(stream)) return;
    do_copy((const copy_work *)(const void *)work->payload);
    emu_end_use(stream);
}

static cudaError_t enqueue(const copy *c, enum cudaMemcpyKind kind, cudaStream_t stream)
{
    const int card = emu_card_of(stream);
    if (card < 0) return cudaErrorInvalidResourceHandle;
    if (c->width == 0 || c->height == 0) return cudaSuccess;
    if (!c->to || c->to_pitch < c->width || (c->from && c->from_pitch < c->width))
        return cudaErrorInvalidValue;
    emu_lock();
    const cudaError_t code = check(c, kind, card);
    const copy_work w = {
        .what = *c,
        .to_card = is_card(emu_owner(c->to, 1, NULL)),
        .from_card = c->from && is_card(emu_owner(c->from, 1, NULL)),
    };
    emu_unlock();
    if (code != cudaSuccess) return code;
    emu_work *work = emu_work_create(run_copy, &w, sizeof w);
    if (work) work->type = c->from ? cudaGraphNodeTypeMemcpy : cudaGraphNodeTypeMemset;
    return emu_enqueue(stream, work);
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n_bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
    const copy c = {.to = to,
                    .from = from,
                    .to_pitch = n_bytes,
                    .from_pitch = n_bytes,
                    .width = n_bytes,
                    .height = 1};
    EMU_ENTER(emu_card_of(stream));
    if (!from && n_bytes > 0) return emu_leave(cudaErrorInvalidValue);
    return emu_leave(enqueue(&c, kind, stream));
}

cudaError_t cudaMemcpy2DAsync(void *to, size_t to_pitch, const void *from, size_t from_pitch,
                              size_t width, size_t height, enum cudaMemcpyKind kind,
                              cudaStream_t stream)
{
    const copy c = {.to = to,
                    .from = from,
                    .to_pitch = to_pitch,
                    .from_pitch = from_pitch,
                    .width = width,
                    .height = height};
    EMU_ENTER(emu_card_of(stream));
    if (!from) return emu_leave(cudaErrorInvalidValue);
    return emu_leave(enqueue(&c, kind, stream));
}

/* From card to card, by way of the host where there is no shorter one. */
cudaError_t cudaMemcpyPeerAsync(void *to, int to_card, const void *from, int from_card,
                                size_t n_bytes, cudaStream_t stream)
{
    const copy c = {.to = to,
                    .from = from,
                    .to_pitch = n_bytes,
                    .from_pitch = n_bytes,
                    .width = n_bytes,
                    .height = 1,
                    .between = true};
    EMU_ENTER(emu_card_of(stream));
    emu_lock();
    const bool right =
        emu_owner(to, n_bytes, NULL) == to_card && emu_owner(from, n_bytes, NULL) == from_card;
    emu_unlock();
    if (n_bytes > 0 && !right) return emu_leave(cudaErrorInvalidValue);
    return emu_leave(enqueue(&c, cudaMemcpyDeviceToDevice, stream));
}

cudaError_t cudaMemsetAsync(void *to, int byte, size_t n_bytes, cudaStream_t stream)
{
    const copy c = {.to = to, .to_pitch = n_bytes, .width = n_bytes, .height = 1, .byte = byte};
    EMU_ENTER(emu_card_of(stream));
    return emu_leave(enqueue(&c, cudaMemcpyHostToDevice, stream));
}

bool emu_is_fill(const emu_work *work, struct cudaMemsetParams *out)
{
    if (work->type != cudaGraphNodeTypeMemset) return false;
    const copy *c = &((const copy_work *)(const void *)work->payload)->what;
    *out = (struct cudaMemsetParams){.dst = c->to,
                                     .pitch = c->to_pitch,
                                     .value = (unsigned char)c->byte,
                                     .elementSize = 1,
                                     .width = c->width,
                                     .height = c->height};
    return true;
}
