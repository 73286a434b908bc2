/* Reductions over processes, chunk by chunk. */
#include "collective/pipeline.h"

#include "base/base.h"
#include "collective/bfloat16.h"

#include <stdlib.h>
#include <string.h>

enum {
    SLICE_ALIGNMENT = 16, /* elements: a cache line */
    /* Elements of a slice that travel at a time: 256 KiB.  What somebody waits for, such as
       batch-norm's statistics, is sent behind what is on its way already, and so no more than two
       chunks of that: 4 ms at 1 Gbit/s. */
    CHUNK = 64 * 1024,
    BLOCK = 4096,  /* elements that are summed at a time: 16 KiB, which stays in L1 */
    UNDER_WAY = 3, /* chunks: one travels there, one is summed, one travels back */
};

/* A chunk of every process's slice of a reduction. */
typedef struct unit {
    size_t reduction, chunk;
    bool last; /* of its reduction */
    void *request;
} unit;

struct dpti_pipeline {
    dpti_wire wire;
    float *staging;        /* (UNDER_WAY, n - 1, CHUNK) */
    dpt_message *messages; /* (2 (n - 1)) */
    /* Units first, first + 1, ... are under way; the first n_back of them on their way back. */
    unit units[UNDER_WAY];
    size_t first, n_under_way, n_back;
    size_t reduction, next_chunk; /* of the unit that is next to start */
};

dpti_pipeline *dpti_pipeline_create(const dpti_wire *wire)
{
    const size_t others = wire->n - 1;
    dpti_pipeline *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    p->wire = *wire;
    p->messages = calloc(2 * others + 1, sizeof *p->messages);
    p->staging = dpti_alloc_aligned((UNDER_WAY * others * CHUNK + 1) * sizeof *p->staging);
    if (p->messages && p->staging) return p;
    dpti_pipeline_destroy(p);
    return NULL;
}

void dpti_pipeline_destroy(dpti_pipeline *pipeline)
{
    if (!pipeline) return;
    /* A transport that has failed keeps its requests, and may still write where they point. */
    for (size_t i = 0; i < UNDER_WAY; i++)
        if (pipeline->units[i].request) {
            dpti_leave_behind(pipeline);
            return;
        }
    free(pipeline->staging);
    free(pipeline->messages);
    free(pipeline);
}

/* ---- Slices and chunks ----------------------------------------------------------------------- */

/* Elements [first, last) of a reduction. */
typedef struct range {
    size_t first, last;
} range;

/* Chunk k of the slice that process r sums. */
static range chunk_of(const dpti_pipeline *p, const dpti_collective *what, size_t r, size_t k)
{
    const size_t lines = (what->count + SLICE_ALIGNMENT - 1) / SLICE_ALIGNMENT;
    size_t begin = lines * r / p->wire.n * SLICE_ALIGNMENT;
    size_t end = lines * (r + 1) / p->wire.n * SLICE_ALIGNMENT;
    if (end > what->count) end = what->count;
    begin += k * CHUNK;
    if (begin > end) begin = end;
    return (range){begin, end - begin < CHUNK ? end : begin + CHUNK};
}

/* Whether no process's slice has more than k chunks. */
static bool is_past(const dpti_pipeline *p, const dpti_collective *what, size_t k)
{
    for (size_t r = 0; r < p->wire.n; r++) {
        const range chunk = chunk_of(p, what, r, k);
        if (chunk.first < chunk.last) return false;
    }
    return true;
}

static float *staging_of(const dpti_pipeline *p, const unit *u, size_t r)
{
    const size_t place = r < p->wire.rank ? r : r - 1;
    return p->staging + ((size_t)(u - p->units) * (p->wire.n - 1) + place) * CHUNK;
}

/* ---- Messages -------------------------------------------------------------------------------- */

static bool is_packed(const dpti_collective *what)
{
    return what->owes != NULL;
}

/* Where elements travel packed they stand so from `data` on. */
static void add(dpti_pipeline *p, const dpti_collective *what, size_t *n, dpt_message message,
                float *data, range elements)
{
    message.data = data;
    message.n_bytes =
        (elements.last - elements.first) * (is_packed(what) ? sizeof(uint16_t) : sizeof(float));
    if (message.n_bytes > 0) p->messages[(*n)++] = message;
}

static dpt_status start(dpti_pipeline *p, unit *u, size_t n, dpt_error *error)
{
    u->request = NULL;
    if (n == 0) return DPT_OK;
    return p->wire.transport->start(p->wire.self, p->messages, n, &u->request, error);
}

static dpt_status test(dpti_pipeline *p, unit *u, bool *done, dpt_error *error)
{
    void *request = u->request;
    *done = true;
    if (!request) return DPT_OK;
    u->request = NULL;
    const dpt_status status = p->wire.transport->test(p->wire.self, request, done, error);
    if (status == DPT_OK && !*done) u->request = request;
    return status;
}

/* Rounds what stands in a range, with what is owed of it. */
static void pack(const dpti_collective *what, range elements)
{
    const float *owed = what->owed ? what->owed + elements.first : NULL;
    dpti_bfloat16_pack(what->data + elements.first, owed, what->owes + elements.first,
                       elements.last - elements.first);
}

/* Nothing is brought, and so nothing paid. */
static void keep_owing(const dpti_collective *what, range elements)
{
    const size_t n_bytes = (elements.last - elements.first) * sizeof(float);
    if (what->owed)
        memcpy(what->owes + elements.first, what->owed + elements.first, n_bytes);
    else
        memset(what->owes + elements.first, 0, n_bytes);
}

/* This process's part of a slice, as it travels; its own slice, which does not, stays as it is. */
static void make_part(const dpti_pipeline *p, const dpti_collective *what, size_t r, range his)
{
    const bool contributes = what->contributes[p->wire.rank];
    if (his.first == his.last) return;
    if (what->prepare && contributes)
        what->prepare(what->user, what->data + his.first, his.last - his.first);
    if (!is_packed(what) || r == p->wire.rank) return;
    if (contributes)
        pack(what, his);
    else
        keep_owing(what, his);
}

/* Brings everybody this process's part of his slice. */
static dpt_status start_there(dpti_pipeline *p, const dpti_collective *what, unit *u,
                              dpt_error *error)
{
    const range mine = chunk_of(p, what, p->wire.rank, u->chunk);
    size_t n = 0;
    for (size_t r = 0; r < p->wire.n; r++) {
        const range his = chunk_of(p, what, r, u->chunk);
        make_part(p, what, r, his);
        if (r == p->wire.rank) continue;
        dpt_message m = {.peer = r, .channel = DPTI_CHANNEL_SCATTER};
        if (what->contributes[p->wire.rank]) add(p, what, &n, m, what->data + his.first, his);
        m.receive = true;
        if (what->contributes[r]) add(p, what, &n, m, staging_of(p, u, r), mine);
    }
    return start(p, u, n, error);
}

/* Brings everybody the sum of this process's slice. */
static dpt_status start_back(dpti_pipeline *p, const dpti_collective *what, unit *u,
                             dpt_error *error)
{
    const range mine = chunk_of(p, what, p->wire.rank, u->chunk);
    size_t n = 0;
    for (size_t r = 0; r < p->wire.n; r++) {
        const range his = chunk_of(p, what, r, u->chunk);
        if (r == p->wire.rank) continue;
        dpt_message m = {.peer = r, .channel = DPTI_CHANNEL_GATHER};
        add(p, what, &n, m, what->data + mine.first, mine);
        m.receive = true;
        add(p, what, &n, m, what->data + his.first, his);
    }
    return start(p, u, n, error);
}

/* block[i] += the part of process r of elements [begin, begin + n) of this process's slice; where
   it is the first one, the block is nothing yet. */
static void add_part(const dpti_pipeline *p, const dpti_collective *what, const unit *u, size_t r,
                     range part, float *block, bool first)
{
    const range mine = chunk_of(p, what, p->wire.rank, u->chunk);
    const size_t n = part.last - part.first, offset = part.first - mine.first;
    const float *from = r == p->wire.rank ? what->data + part.first : staging_of(p, u, r);
    if (first) memset(block, 0, n * sizeof *block);
    if (r != p->wire.rank && is_packed(what)) {
        dpti_bfloat16_add(block, (const uint16_t *)(const void *)from + offset, n);
        return;
    }
    if (r != p->wire.rank) from += offset;
    if (first)
        memcpy(block, from, n * sizeof *block);
    else
        for (size_t i = 0; i < n; i++)
            block[i] += from[i];
}

/* Sums this process's slice, in the order of ranks: float addition is not associative, and a sum
   must not depend on who makes it. */
static void sum(const dpti_pipeline *p, const dpti_collective *what, const unit *u)
{
    const range mine = chunk_of(p, what, p->wire.rank, u->chunk);
    float block[BLOCK];
    for (size_t begin = mine.first; begin < mine.last; begin += BLOCK) {
        const size_t n = mine.last - begin < BLOCK ? mine.last - begin : BLOCK;
        bool empty = true;
        for (size_t r = 0; r < p->wire.n; r++) {
            if (!what->contributes[r]) continue;
            add_part(p, what, u, r, (range){begin, begin + n}, block, empty);
            empty = false;
        }
        if (empty) memset(block, 0, n * sizeof *block);
        memcpy(what->data + begin, block, n * sizeof *block);
    }
    if (is_packed(what)) pack(what, mine);
}

/* All slices are back.  The owner's own is taken from what it has sent, as everybody's is, and
   looked at as by everybody. */
static void adopt(const dpti_pipeline *p, const dpti_collective *what, const unit *u)
{
    for (size_t r = 0; r < p->wire.n; r++) {
        const range his = chunk_of(p, what, r, u->chunk);
        float *data = what->data + his.first;
        const size_t n = his.last - his.first;
        if (is_packed(what)) dpti_bfloat16_unpack(data, n);
        if (what->finite && !dpti_all_finite(data, n)) *what->finite = false;
    }
}

/* ---- Looking --------------------------------------------------------------------------------- */

static dpt_status start_next(dpti_pipeline *p, const dpti_collective *what, dpt_error *error)
{
    unit *u = &p->units[(p->first + p->n_under_way) % UNDER_WAY];
    *u = (unit){.reduction = p->reduction, .chunk = p->next_chunk++};
    p->n_under_way++;
    u->last = is_past(p, what, p->next_chunk);
    if (u->last) {
        p->reduction++;
        p->next_chunk = 0;
    }
    return start_there(p, what, u, error);
}

dpt_status dpti_pipeline_look(dpti_pipeline *pipeline, const dpti_collective *ring, size_t n_ring,
                              size_t n_started, size_t *n_over, bool *moved, dpt_error *error)
{
    dpti_pipeline *p = pipeline;
    bool done;
    *moved = false;
    if (p->n_back > 0) {
        unit *u = &p->units[p->first];
        DPT_TRY(test(p, u, &done, error));
        if (done) {
            adopt(p, &ring[u->reduction % n_ring], u);
            if (u->last) ++*n_over;
            p->first = (p->first + 1) % UNDER_WAY;
            p->n_back--;
            p->n_under_way--;
            *moved = true;
        }
    }
    if (p->n_under_way < UNDER_WAY && p->reduction < n_started) {
        DPT_TRY(start_next(p, &ring[p->reduction % n_ring], error));
        *moved = true;
    }
    /* In the order in which they were started, wherever they arrive first: so all processes start
       the messages of a channel in one order. */
    if (p->n_back < p->n_under_way) {
        unit *u = &p->units[(p->first + p->n_back) % UNDER_WAY];
        DPT_TRY(test(p, u, &done, error));
        if (done) {
            sum(p, &ring[u->reduction % n_ring], u);
            p->n_back++;
            *moved = true;
            DPT_TRY(start_back(p, &ring[u->reduction % n_ring], u, error));
        }
    }
    return DPT_OK;
}
