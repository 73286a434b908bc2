/* Memory of cards, allocated directly or from pools, and pinned memory of the host.  Memory is
   filled with NaNs before it is used, and again when it is freed.  A write beyond the end is found
   when the memory is freed.  A write after that, by work that should have been waited for, is
   found soon after. */
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

enum { ALIGNMENT_BYTES = 512, GUARD = 0xa5 };

static emu_range *ranges; /* that live */

size_t emu_rounded(size_t n_bytes)
{
    return (n_bytes + ALIGNMENT_BYTES - 1) / ALIGNMENT_BYTES * ALIGNMENT_BYTES;
}

unsigned char *emu_range_begin(const emu_range *r)
{
    return r->memory + (GUARD_BYTES ? ALIGNMENT_BYTES : 0);
}

/* ---- Ranges: with the lock ------------------------------------------------------------------- */

emu_range *emu_range_add(size_t n_bytes, int owner, cudaMemPool_t pool)
{
    const size_t n_room = emu_rounded(n_bytes), lead = GUARD_BYTES ? ALIGNMENT_BYTES : 0;
    emu_range *r = calloc(1, sizeof *r);
    unsigned char *memory = NULL;
    if (!r ||
        posix_memalign((void **)&memory, ALIGNMENT_BYTES, n_bytes + lead + GUARD_BYTES) != 0) {
        free(r);
        return NULL;
    }
    memset(memory, GUARD, lead);
    memset(memory + lead, EMU_NOTHING, n_bytes);
    memset(memory + lead + n_bytes, GUARD, GUARD_BYTES);
    *r = (emu_range){ranges, memory, n_bytes, n_room, owner, pool};
    ranges = r;
    return r;
}

static emu_range *find(const void *at)
{
    for (emu_range *r = ranges; r; r = r->next)
        if ((uintptr_t)at >= (uintptr_t)emu_range_begin(r) &&
            (uintptr_t)at < (uintptr_t)emu_range_begin(r) + r->n_bytes)
            return r;
    return NULL;
}

emu_range *emu_range_take(const void *at, bool pinned)
{
    for (emu_range **place = &ranges; *place; place = &(*place)->next) {
        emu_range *r = *place;
        if (emu_range_begin(r) != at || (r->owner == EMU_PINNED) != pinned) continue;
        *place = r->next;
        return r;
    }
    return NULL;
}

static void check_guard(const unsigned char *guard, size_t n, const emu_range *r, const char *where)
{
    for (size_t i = 0; i < n; i++) {
        if (guard[i] == GUARD) continue;
        fprintf(stderr, "emulated CUDA: something wrote %s %zu bytes\n", where, r->n_bytes);
        abort();
    }
}

/* What was freed last, the oldest first. */
static emu_range *kept, **last_kept = &kept;
static size_t n_kept;

static void forget_oldest(void)
{
    emu_range *r = kept;
    kept = r->next;
    if (!kept) last_kept = &kept;
    n_kept -= r->n_bytes;
    for (size_t i = 0; i < r->n_bytes; i++) {
        if (emu_range_begin(r)[i] == EMU_NOTHING) continue;
        emu.left.late++;
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

void emu_range_drop(emu_range *r)
{
    check_guard(r->memory, (size_t)(emu_range_begin(r) - r->memory), r, "in front of");
    check_guard(emu_range_begin(r) + r->n_bytes, GUARD_BYTES, r, "behind");
    memset(emu_range_begin(r), EMU_NOTHING, r->n_bytes);
    r->next = NULL;
    *last_kept = r;
    last_kept = &r->next;
    n_kept += r->n_bytes;
    while (kept && n_kept > QUARANTINE_BYTES)
        forget_oldest();
}

int emu_owner(const void *at, size_t n_bytes, cudaMemPool_t *pool)
{
    const emu_range *first = find(at);
    const emu_range *last = n_bytes > 0 ? find((const char *)at + n_bytes - 1) : first;
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
    emu_range *r =
        emu_rounded(n_bytes) <= c->n_bytes - c->n_used ? emu_range_add(n_bytes, card, NULL) : NULL;
    if (r) {
        c->n_used += r->n_room;
        emu.left.buffers++;
        *out = emu_range_begin(r);
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
    emu_range *r = emu_range_take(memory, false);
    if (r && !r->pool) {
        emu_wait_for_card(r->owner);
        emu.cards[r->owner].n_used -= r->n_room;
        emu.left.buffers--;
        emu_range_drop(r);
    } else {
        code = cudaErrorInvalidValue;
    }
    emu_unlock();
    return emu_leave(code);
}

cudaError_t cudaHostAlloc(void **out, size_t n_bytes, unsigned flags)
{
    EMU_ENTER(emu_current());
    emu_load("cudaHostAlloc");
    if (flags & ~(unsigned)(cudaHostAllocPortable | cudaHostAllocMapped))
        return emu_leave(cudaErrorInvalidValue);
    emu_lock();
    emu_range *r = emu_range_add(n_bytes > 0 ? n_bytes : 1, EMU_PINNED, NULL);
    if (r) {
        emu.left.pinned++;
        *out = emu_range_begin(r);
    }
    emu_unlock();
    return r ? cudaSuccess : emu_leave(cudaErrorMemoryAllocation);
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out, const void *memory)
{
    EMU_ENTER(emu_current());
    emu_lock();
    const int owner = emu_owner(memory, 1, NULL);
    emu_unlock();
    *out =
        (struct cudaPointerAttributes){.type = owner == EMU_PINNED     ? cudaMemoryTypeHost
                                               : owner == EMU_PAGEABLE ? cudaMemoryTypeUnregistered
                                                                       : cudaMemoryTypeDevice};
    if (owner != EMU_PAGEABLE) out->devicePointer = (void *)(uintptr_t)memory;
    return emu_leave(cudaSuccess);
}

/* Even if it fails. */
cudaError_t cudaFreeHost(void *memory)
{
    cudaError_t code = emu_enter(__func__, emu_current());
    if (!memory) return emu_leave(code);
    emu_lock();
    emu_range *r = emu_range_take(memory, true);
    if (r) {
        emu.left.pinned--;
        emu_range_drop(r);
    } else {
        code = cudaErrorInvalidValue;
    }
    emu_unlock();
    return emu_leave(code);
}
