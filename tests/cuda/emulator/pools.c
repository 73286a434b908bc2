/* Pools: memory that is allocated and freed in the order of a stream. */
#include "emulator.h"

#include <stdlib.h>
#include <string.h>

/* ---- Pieces ---------------------------------------------------------------------------------- */

/* What is freed becomes a piece that an allocation of no more than its size takes or cuts. */
static bool take_piece(cudaMemPool_t pool, size_t n_bytes)
{
    size_t *best = NULL;
    for (size_t i = 0; i < pool->n_pieces; i++)
        if (pool->pieces[i] >= n_bytes && (!best || pool->pieces[i] < *best))
            best = &pool->pieces[i];
    if (!best) return false;
    *best -= n_bytes;
    if (*best == 0) *best = pool->pieces[--pool->n_pieces];
    return true;
}

static void add_piece(cudaMemPool_t pool, size_t n_bytes)
{
    if (pool->n_pieces == sizeof pool->pieces / sizeof *pool->pieces)
        pool->pieces[0] += n_bytes;
    else
        pool->pieces[pool->n_pieces++] = n_bytes;
}

static void trim(cudaMemPool_t pool, uint64_t keep)
{
    while (pool->n_pieces > 0 && pool->n_held > keep) {
        const size_t n_bytes = pool->pieces[--pool->n_pieces];
        pool->n_held -= n_bytes;
        emu.cards[pool->card].n_used -= n_bytes;
    }
}

static void leave_pool(cudaMemPool_t pool)
{
    if (!pool->destroyed || pool->n_users > 0) return;
    trim(pool, 0);
    free(pool);
}

/* ---- Pools ----------------------------------------------------------------------------------- */

static cudaMemPool_t pools[64];

static bool lives(cudaMemPool_t pool)
{
    for (size_t i = 0; pool && i < sizeof pools / sizeof *pools; i++)
        if (pools[i] == pool) return true;
    return false;
}

void emu_pools_settle(int card)
{
    for (size_t i = 0; i < sizeof pools / sizeof *pools; i++)
        if (pools[i] && pools[i]->card == card) trim(pools[i], pools[i]->keep);
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *out, const struct cudaMemPoolProps *properties)
{
    EMU_ENTER(properties->location.id);
    if (properties->allocType != cudaMemAllocationTypePinned ||
        properties->location.type != cudaMemLocationTypeDevice || properties->location.id < 0 ||
        properties->location.id >= emu.n_cards)
        return emu_leave(cudaErrorInvalidValue);
    cudaMemPool_t pool = calloc(1, sizeof *pool);
    size_t i = 0;
    emu_lock();
    while (i < sizeof pools / sizeof *pools && pools[i])
        i++;
    if (pool && i < sizeof pools / sizeof *pools) {
        pool->card = properties->location.id;
        pool->reaches[pool->card] = true;
        pools[i] = pool;
        emu.left.pools++;
        *out = pool;
    } else {
        free(pool);
        pool = NULL;
    }
    emu_unlock();
    return pool ? cudaSuccess : emu_leave(cudaErrorMemoryAllocation);
}

/* Even if it fails. */
cudaError_t cudaMemPoolDestroy(cudaMemPool_t pool)
{
    cudaError_t code = emu_enter(__func__, emu_current());
    emu_lock();
    if (lives(pool)) {
        for (size_t i = 0; i < sizeof pools / sizeof *pools; i++)
            if (pools[i] == pool) pools[i] = NULL;
        emu.left.pools--;
        pool->destroyed = true;
        leave_pool(pool);
    } else {
        code = cudaErrorInvalidValue;
    }
    emu_unlock();
    return emu_leave(code);
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value)
{
    EMU_ENTER(emu_current());
    if (attribute != cudaMemPoolAttrReleaseThreshold) return emu_leave(cudaErrorInvalidValue);
    emu_lock();
    const bool good = lives(pool);
    if (good) pool->keep = *(const uint64_t *)value;
    emu_unlock();
    return good ? cudaSuccess : emu_leave(cudaErrorInvalidValue);
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t pool, const struct cudaMemAccessDesc *list, size_t n)
{
    EMU_ENTER(emu_current());
    emu_lock();
    bool good = lives(pool);
    for (size_t i = 0; good && i < n; i++) {
        const int card = list[i].location.id;
        good = list[i].location.type == cudaMemLocationTypeDevice && card >= 0 &&
               card < emu.n_cards && (card != pool->card ? !emu.apart : list[i].flags != 0);
        if (good) pool->reaches[card] = list[i].flags == cudaMemAccessFlagsProtReadWrite;
    }
    emu_unlock();
    return good ? cudaSuccess : emu_leave(cudaErrorInvalidValue);
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep)
{
    EMU_ENTER(emu_current());
    emu_lock();
    const bool good = lives(pool);
    if (good) trim(pool, keep);
    emu_unlock();
    return good ? cudaSuccess : emu_leave(cudaErrorInvalidValue);
}

/* ---- In the order of a stream ---------------------------------------------------------------- */

/* Before it is the stream's turn nobody may write there. */
static void clear_memory(emu_work *work, cudaStream_t stream)
{
    emu_range *r;
    (void)stream;
    memcpy(&r, work->payload, sizeof r);
    memset(emu_range_begin(r), EMU_NOTHING, r->n_bytes);
}

static void free_memory(emu_work *work, cudaStream_t stream)
{
    emu_range *r;
    (void)stream;
    memcpy(&r, work->payload, sizeof r);
    emu_lock();
    emu_range_drop(r);
    emu_unlock();
}

static emu_range *allocate(cudaMemPool_t pool, size_t n_bytes)
{
    emu_card *c = &emu.cards[pool->card];
    const size_t n_room = emu_rounded(n_bytes);
    const bool fits = take_piece(pool, n_room);
    if (!fits && n_room > c->n_bytes - c->n_used) return NULL;
    emu_range *r = emu_range_add(n_bytes, pool->card, pool);
    if (!r) {
        if (fits) add_piece(pool, n_room);
        return NULL;
    }
    if (!fits) {
        c->n_used += n_room;
        pool->n_held += n_room;
    }
    pool->n_users++;
    emu.left.buffers++;
    return r;
}

/* Captures of it would be nodes that allocate, which nobody here asks for.  With the lock. */
static cudaError_t bears(cudaStream_t stream)
{
    if (!emu_stream_lives(stream)) return cudaErrorInvalidResourceHandle;
    if (!stream->capture) return cudaSuccess;
    emu_capture_break(stream->capture);
    return cudaErrorStreamCaptureUnsupported;
}

/* With the lock. */
static cudaError_t queue_range(cudaStream_t stream, emu_range *r,
                               void (*run)(emu_work *, cudaStream_t))
{
    emu_work *work = emu_work_create(run, &r, sizeof(emu_range *));
    if (!work) return cudaErrorMemoryAllocation;
    work->always = true;
    emu_queue(stream, work);
    return cudaSuccess;
}

cudaError_t cudaMallocFromPoolAsync(void **out, size_t n_bytes, cudaMemPool_t pool,
                                    cudaStream_t stream)
{
    emu_range *r = NULL;
    EMU_ENTER(emu_card_of(stream));
    emu_load("cudaMallocFromPoolAsync");
    emu_lock();
    cudaError_t code = bears(stream);
    if (code == cudaSuccess && (!lives(pool) || n_bytes == 0)) code = cudaErrorInvalidValue;
    if (code == cudaSuccess && !(r = allocate(pool, n_bytes))) code = cudaErrorMemoryAllocation;
    if (code == cudaSuccess) {
        code = queue_range(stream, r, clear_memory);
        *out = emu_range_begin(r);
    }
    emu_unlock();
    return emu_leave(code);
}

/* Even if it fails. */
cudaError_t cudaFreeAsync(void *memory, cudaStream_t stream)
{
    cudaError_t code = emu_enter(__func__, emu_card_of(stream));
    emu_lock();
    const cudaError_t may = bears(stream);
    emu_range *r = may == cudaSuccess ? emu_range_take(memory, false) : NULL;
    if (r && r->pool) {
        add_piece(r->pool, r->n_room);
        r->pool->n_users--;
        emu.left.buffers--;
        leave_pool(r->pool);
        const cudaError_t queued = queue_range(stream, r, free_memory);
        if (code == cudaSuccess) code = queued;
    } else if (code == cudaSuccess) {
        code = may != cudaSuccess ? may : cudaErrorInvalidValue;
    }
    emu_unlock();
    return emu_leave(code);
}
