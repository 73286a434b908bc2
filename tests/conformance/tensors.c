/* Tensors in guarded device memory (conformance.h). */
#include "conformance.h"
#include "device/buffer.h"
#include "device/stream.h"

#include <stdlib.h>
#include <string.h>

/* Behind a workspace there is more: what does not fit into it may begin far behind its end. */
enum { GUARD_BYTES = 128, GUARD_OF_SCRATCH_BYTES = 32 << 10 };

size_t arena_add(arena *a, const tensor *added)
{
    tensor *t = &a->tensors[a->n_tensors];
    *t = *added;
    t->n_bytes = t->n * dpt_dtype_bytes(t->dtype);
    return a->n_tensors++;
}

/* Decides where each tensor lies; returns the sizes of the buffers. */
static void place(arena *a, bool one_buffer, test_random *random, size_t sizes[MAX_TENSORS])
{
    const size_t alignment =
        a->device->info.alignment_bytes > 4 ? a->device->info.alignment_bytes : 4;
    memset(sizes, 0, MAX_TENSORS * sizeof *sizes);
    for (size_t i = 0; i < a->n_tensors; i++) {
        tensor *t = &a->tensors[i];
        t->buffer = one_buffer ? 0 : i;
        const size_t past_guard = sizes[t->buffer] + GUARD_BYTES;
        t->offset_bytes = (past_guard + alignment - 1) / alignment * alignment +
                          alignment * test_random_below(random, 3);
        /* Whole words, so that fills and guards have no halves. */
        const size_t guard = t->scratch && t->n_bytes > 0 ? GUARD_OF_SCRATCH_BYTES : GUARD_BYTES;
        sizes[t->buffer] = (t->offset_bytes + t->n_bytes + guard + 3) / 4 * 4;
    }
    a->n_buffers = one_buffer ? 1 : a->n_tensors;
}

/* The word over and over, its lowest byte first, and what fits of its last one. */
static void fill_words(unsigned char *bytes, size_t n_bytes, uint32_t word)
{
    size_t done = n_bytes < sizeof word ? n_bytes : sizeof word;
    for (size_t i = 0; i < done; i++)
        bytes[i] = (unsigned char)(word >> (i * 8));
    for (size_t more; done < n_bytes; done += more) {
        more = n_bytes - done < done ? n_bytes - done : done;
        memcpy(bytes + done, bytes, more);
    }
}

/* A workspace so large that its contents, which mean nothing, stay on the device; NULL: none. */
static const tensor *resident(const arena *a, size_t buffer)
{
    enum { LARGE_BYTES = 64 << 10 };
    for (size_t i = 0; i < a->n_tensors; i++) {
        const tensor *t = &a->tensors[i];
        if (t->buffer == buffer && t->scratch && t->n_bytes >= LARGE_BYTES) return t;
    }
    return NULL;
}

/* Bytes of a buffer from one to another. */
typedef struct range {
    size_t begin, end;
} range;

/* What of a buffer the host has images of: all, or what stands before and behind the resident
   words. */
typedef struct ranges {
    size_t n;
    range imaged[2], resident;
} ranges;

static ranges ranges_of(const arena *a, size_t buffer, size_t n_bytes)
{
    const tensor *t = resident(a, buffer);
    if (!t) return (ranges){.n = 1, .imaged = {{0, n_bytes}}};
    const range inside = {t->offset_bytes, t->offset_bytes + t->n_bytes / 4 * 4};
    return (ranges){
        .n = 2, .imaged = {{0, inside.begin}, {inside.end, n_bytes}}, .resident = inside};
}

dpt_status arena_create(arena *a, dpti_device *device, bool one_buffer, test_random *random)
{
    size_t sizes[MAX_TENSORS];
    a->device = device;
    place(a, one_buffer, random, sizes);
    for (size_t i = 0; i < a->n_buffers; i++) {
        a->before[i] = malloc(sizes[i]);
        a->after[i] = malloc(sizes[i]);
        a->again[i] = malloc(sizes[i]);
        if (!a->before[i] || !a->after[i] || !a->again[i]) return DPT_E_NO_MEMORY;
        DPT_TRY(dpti_alloc(device, sizes[i], &a->buffers[i]));
        const ranges r = ranges_of(a, i, sizes[i]);
        for (size_t k = 0; k < r.n; k++)
            fill_words(a->before[i] + r.imaged[k].begin, r.imaged[k].end - r.imaged[k].begin,
                       GUARD_WORD);
    }
    for (size_t i = 0; i < a->n_tensors; i++)
        if (&a->tensors[i] != resident(a, a->tensors[i].buffer))
            fill_words(arena_before(a, i), a->tensors[i].n_bytes, POISON_WORD);
    return DPT_OK;
}

void arena_destroy(arena *a)
{
    for (size_t i = 0; i < MAX_TENSORS; i++) {
        dpti_free(&a->buffers[i]);
        free(a->before[i]);
        free(a->after[i]);
        free(a->again[i]);
    }
    memset(a, 0, sizeof *a);
}

void *arena_before(const arena *a, size_t i)
{
    return a->before[a->tensors[i].buffer] + a->tensors[i].offset_bytes;
}

const void *arena_after(const arena *a, size_t i)
{
    return a->after[a->tensors[i].buffer] + a->tensors[i].offset_bytes;
}

dpt_status arena_upload(const arena *a)
{
    for (size_t i = 0; i < a->n_buffers; i++) {
        const ranges r = ranges_of(a, i, a->buffers[i].n_bytes);
        for (size_t k = 0; k < r.n; k++)
            DPT_TRY(dpti_upload(&a->buffers[i], r.imaged[k].begin, a->before[i] + r.imaged[k].begin,
                                r.imaged[k].end - r.imaged[k].begin));
        DPT_TRY(dpti_fill(&a->buffers[i], r.resident.begin, POISON_WORD,
                          r.resident.end - r.resident.begin));
    }
    return dpti_sync(a->device);
}

dpt_status arena_download(const arena *a, unsigned char *const images[])
{
    for (size_t i = 0; i < a->n_buffers; i++) {
        const ranges r = ranges_of(a, i, a->buffers[i].n_bytes);
        for (size_t k = 0; k < r.n; k++)
            DPT_TRY(dpti_download(images[i] + r.imaged[k].begin, &a->buffers[i], r.imaged[k].begin,
                                  r.imaged[k].end - r.imaged[k].begin));
    }
    return dpti_sync(a->device);
}

/* The tensor that a byte belongs to, or NULL in a guard. */
static const tensor *tensor_at(const arena *a, size_t buffer, size_t offset)
{
    for (size_t i = 0; i < a->n_tensors; i++) {
        const tensor *t = &a->tensors[i];
        if (t->buffer == buffer && offset >= t->offset_bytes &&
            offset - t->offset_bytes < t->n_bytes)
            return t;
    }
    return NULL;
}

/* The tensor nearest to a guard byte, for messages. */
static const tensor *tensor_before(const arena *a, size_t buffer, size_t offset)
{
    const tensor *found = NULL;
    for (size_t i = 0; i < a->n_tensors; i++) {
        const tensor *t = &a->tensors[i];
        if (t->buffer == buffer && (!found || t->offset_bytes <= offset)) found = t;
    }
    return found;
}

/* Where what begins at `offset` ends: a tensor, or the guard before the next one. */
static size_t region_end(const arena *a, size_t buffer, size_t offset)
{
    const tensor *inside = tensor_at(a, buffer, offset);
    size_t end = a->buffers[buffer].n_bytes;
    if (inside) return inside->offset_bytes + inside->n_bytes;
    for (size_t i = 0; i < a->n_tensors; i++) {
        const tensor *t = &a->tensors[i];
        if (t->buffer == buffer && t->n_bytes > 0 && t->offset_bytes > offset &&
            t->offset_bytes < end)
            end = t->offset_bytes;
    }
    return end;
}

/* The first byte that `x` and `y` disagree on and `counts` says matters; n_bytes if none. */
static size_t first_difference(const arena *a, size_t buffer, const unsigned char *x,
                               const unsigned char *y, bool (*counts)(const tensor *))
{
    const size_t n_bytes = a->buffers[buffer].n_bytes;
    for (size_t i = 0, end; i < n_bytes; i = end) {
        end = region_end(a, buffer, i);
        if (!counts(tensor_at(a, buffer, i)) || memcmp(x + i, y + i, end - i) == 0) continue;
        while (x[i] == y[i])
            i++;
        return i;
    }
    return n_bytes;
}

static bool is_constant(const tensor *t)
{
    return !t || !t->written;
}

static bool is_result(const tensor *t)
{
    return !t || !t->scratch;
}

void arena_check_guards(test *t, const arena *a, const char *what)
{
    for (size_t i = 0; i < a->n_buffers; i++) {
        const size_t at = first_difference(a, i, a->before[i], a->after[i], is_constant);
        if (at < a->buffers[i].n_bytes) {
            const tensor *hit = tensor_at(a, i, at), *near = tensor_before(a, i, at);
            FAIL("%s: wrote %s %s (byte %td from its start, of %zu)", what,
                 hit ? "to the input" : "outside of", near->name,
                 (ptrdiff_t)at - (ptrdiff_t)near->offset_bytes, near->n_bytes);
        }
    }
    CHECK(a->n_buffers > 0);
}

void arena_check(test *t, const arena *a, const char *what)
{
    arena_check_guards(t, a, what);
    for (size_t i = 0; i < a->n_buffers; i++) {
        const size_t at = first_difference(a, i, a->after[i], a->again[i], is_result);
        if (at < a->buffers[i].n_bytes) {
            const tensor *near = tensor_before(a, i, at);
            FAIL("%s: a second run gives other bits in %s at byte %td", what, near->name,
                 (ptrdiff_t)at - (ptrdiff_t)near->offset_bytes);
        }
    }
}
