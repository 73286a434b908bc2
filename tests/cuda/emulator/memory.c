/* Memory: of cards, by itself or from pools, and of the host, pinned.  All is filled with NaNs
   before anyone uses it, and again when it is freed; what was written past its end is found then,
   and what is written there later, by work that should have been waited for, soon after. */
#include "emulator.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef EMU_ASAN /* which has better ones */
#define GUARD_BYTES      0u
#define QUARANTINE_BYTES ((size_t)0)
#else
#define GUARD_BYTES      256u
#define QUARANTINE_BYTES ((size_t)64 << 20)
#endif

enum { ALIGNMENT_BYTES = 512, GUARD = 0xa5, NOTHING = 0xff };

typedef struct range {
    struct range *next;
    unsigned char *memory;  /* a guard, n_bytes, a guard */
    size_t n_bytes, n_room; /* asked for, and what that takes of a card */
    int owner;              /* a card, or EMU_PINNED */
    cudaMemPool_t pool;
} range;

static range *ranges; /* that live */

static size_t rounded(size_t n_bytes)
{
    return (n_bytes + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
}

static unsigned char *begin_of(const range *r)
{
    return r->memory + (GUARD_BYTES ? ALIGNMENT_BYTES : 0);
}

/* ---- Ranges: with the lock ------------------------------------------------------------------- */

static range *add_range(size_t n_bytes, int owner, cudaMemPool_t pool)
{
    const size_t n_room = rounded(n_bytes), lead = GUARD_BYTES ? ALIGNMENT_BYTES : 0;
    range *r = calloc(1, sizeof *r);
    unsigned char *memory = NULL;
    if (!r ||
        posix_memalign((void **)&memory, ALIGNMENT_BYTES, n_bytes + lead + GUARD_BYTES) != 0) {
        free(r);
        return NULL;
    }
    memset(memory, GUARD, lead);
    memset(memory + lead, NOTHING, n_bytes);
    memset(memory + lead + n_bytes, GUARD, GUARD_BYTES);
    *r = (range){ranges, memory, n_bytes, n_room, owner, pool};
    ranges = r;
    return r;
}

static range *find(const void *at)
{
    for (range *r = ranges; r; r = r->next)
        if ((uintptr_t)at >= (uintptr_t)begin_of(r) &&
            (uintptr_t)at < (uintptr_t)begin_of(r) + r->n_bytes)
            return r;
    return NULL;
}

/* The one that begins there, of this owner or, for a card's, of any card; out of the list. */
static range *take_range(const void *at, bool pinned)
{
    for (range **place = &ranges; *place; place = &(*place)->next) {
        range *r = *place;
        if (begin_of(r) != at || (r->owner == EMU_PINNED) != pinned) continue;
        *place = r->next;
        return r;
    }
    return NULL;
}

static void check_guard(const unsigned char *guard, size_t n, const range *r, const char *where)
{
    for (size_t i = 0; i < n; i++) {
        if (guard[i] == GUARD) continue;
        fprintf(stderr, "emulated CUDA: something wrote %s %zu bytes\n", where, r->n_bytes);
        abort();
    }
}

/* What was freed last, the oldest first. */
static range *kept, **last_kept = &kept;
static size_t n_kept;

static void forget_oldest(void)
{
    range *r = kept;
    kept = r->next;
    if (!kept) last_kept = &kept;
    n_kept -= r->n_bytes;
    for (size_t i = 0; i < r->n_bytes; i++) {
        if (begin_of(r)[i] == NOTHING) continue;
        emu.n_late++;
        break;
    }
    free(r->memory);
    free(r);
}

void emu_memory_forget(void)
{
    while (kept)
        forget_oldest();
}

static void drop_range(range *r)
{
    check_guard(r->memory, (size_t)(begin_of(r) - r->memory), r, "in front of");
    check_guard(begin_of(r) + r->n_bytes, GUARD_BYTES, r, "behind");
    memset(begin_of(r), NOTHING, r->n_bytes);
    r->next = NULL;
    *last_kept = r;
    last_kept = &r->next;
    n_kept += r->n_bytes;
    while (kept && n_kept > QUARANTINE_BYTES)
        forget_oldest();
}

int emu_owner(const void *at, size_t n_bytes, cudaMemPool_t *pool)
{
    const range *first = find(at);
    const range *last = n_bytes > 0 ? find((const char *)at + n_bytes - 1) : first;
    if (first != last) return EMU_MOST_CARDS;
    if (pool) *pool = first ? first->pool : NULL;
    return first ? first->owner : EMU_PAGEABLE;
}

/* ---- By itself ------------------------------------------------------------------------------- */

cudaError_t cudaMalloc(void **out, size_t n_bytes)
{
    const int card = emu_current();
    EMU_ENTER(card);
    cudaError_t code = emu_unsafe();
    if (code != cudaSuccess) return emu_leave(code);
    if (n_bytes == 0) return emu_leave(cudaErrorInvalidValue);
    emu_lock();
    emu_card *c = &emu.cards[card];
    range *r = rounded(n_bytes) <= c->n_bytes - c->n_used ? add_range(n_bytes, card, NULL) : NULL;
    if (r) {
        c->n_used += r->n_room;
        emu.left.buffers++;
        *out = begin_of(r);
    }
    emu_unlock();
    return r ? cudaSuccess : emu_leave(cudaErrorMemoryAllocation);
}

/* Waits for the card, and frees even if it fails. */
cudaError_t cudaFree(void *memory)
{
    cudaError_t code = emu_enter(__func__, emu_current());
    if (code == cudaSuccess) code = emu_unsafe();
    if (!memory) return emu_leave(code);
    emu_lock();
    range *r = take_range(memory, false);
    if (r && !r->pool) {
        emu_wait_for_card(r->owner);
        emu.cards[r->owner].n_used -= r->n_room;
        emu.left.buffers--;
        drop_range(r);
    } else {
        code = cudaErrorInvalidValue;
    }
    emu_unlock();
    return emu_leave(code);
}

cudaError_t cudaHostAlloc(void **out, size_t n_bytes, unsigned flags)
{
    EMU_ENTER(emu_current());
    if (flags & ~(unsigned)cudaHostAllocPortable) return emu_leave(cudaErrorInvalidValue);
    emu_lock();
    range *r = add_range(n_bytes > 0 ? n_bytes : 1, EMU_PINNED, NULL);
    if (r) {
        emu.left.pinned++;
        *out = begin_of(r);
    }
    emu_unlock();
    return r ? cudaSuccess : emu_leave(cudaErrorMemoryAllocation);
}

/* Even if it fails. */
cudaError_t cudaFreeHost(void *memory)
{
    cudaError_t code = emu_enter(__func__, emu_current());
    if (!memory) return emu_leave(code);
    emu_lock();
    range *r = take_range(memory, true);
    if (r) {
        emu.left.pinned--;
        drop_range(r);
    } else {
        code = cudaErrorInvalidValue;
    }
    emu_unlock();
    return emu_leave(code);
}

/* ---- Pools ----------------------------------------------------------------------------------- */

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
               card < emu.n_cards && (card != pool->card || list[i].flags != 0);
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
    range *r;
    (void)stream;
    memcpy(&r, work->payload, sizeof r);
    memset(begin_of(r), NOTHING, r->n_bytes);
}

static void free_memory(emu_work *work, cudaStream_t stream)
{
    range *r;
    (void)stream;
    memcpy(&r, work->payload, sizeof r);
    emu_lock();
    drop_range(r);
    emu_unlock();
}

static range *allocate(cudaMemPool_t pool, size_t n_bytes)
{
    emu_card *c = &emu.cards[pool->card];
    const size_t n_room = rounded(n_bytes);
    const bool fits = take_piece(pool, n_room);
    if (!fits && n_room > c->n_bytes - c->n_used) return NULL;
    range *r = add_range(n_bytes, pool->card, pool);
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
static cudaError_t queue_range(cudaStream_t stream, range *r, void (*run)(emu_work *, cudaStream_t))
{
    emu_work *work = emu_work_create(run, &r, sizeof(range *));
    if (!work) return cudaErrorMemoryAllocation;
    work->always = true;
    emu_queue(stream, work);
    return cudaSuccess;
}

cudaError_t cudaMallocFromPoolAsync(void **out, size_t n_bytes, cudaMemPool_t pool,
                                    cudaStream_t stream)
{
    range *r = NULL;
    EMU_ENTER(emu_card_of(stream));
    emu_lock();
    cudaError_t code = bears(stream);
    if (code == cudaSuccess && (!lives(pool) || n_bytes == 0)) code = cudaErrorInvalidValue;
    if (code == cudaSuccess && !(r = allocate(pool, n_bytes))) code = cudaErrorMemoryAllocation;
    if (code == cudaSuccess) {
        code = queue_range(stream, r, clear_memory);
        *out = begin_of(r);
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
    range *r = may == cudaSuccess ? take_range(memory, false) : NULL;
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
