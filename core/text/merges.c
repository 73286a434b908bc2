/* Byte-pair encoding of one word (merges.h).  Short words are searched for the next merge; for long
   ones a heap holds the possible merges, so that the time grows little faster than the length. */
#include "text/merges.h"

#include <stdlib.h>
#include <string.h>

enum { SHORT_WORD = 48 }; /* tokens */

static const uint32_t nowhere = UINT32_MAX;

bool dpti_merges_create(size_t n, dpti_merges *out)
{
    size_t n_slots = 64;
    while (n_slots < 2 * n)
        n_slots *= 2;
    *out = (dpti_merges){.slots = malloc(n_slots * sizeof *out->slots), .n_slots = n_slots};
    for (size_t i = 0; out->slots && i < n_slots; i++)
        out->slots[i].left = -1;
    return out->slots != NULL;
}

void dpti_merges_free(dpti_merges *merges)
{
    free(merges->slots);
    *merges = (dpti_merges){.slots = NULL};
}

/* The slot of two neighbours, or the free one where they would be. */
static dpti_merge *find(const dpti_merges *m, int32_t left, int32_t right)
{
    const uint64_t key = (uint64_t)(uint32_t)left << 32 | (uint32_t)right;
    const uint64_t hash = key * 0x9e3779b97f4a7c15u;
    size_t slot = (size_t)(hash >> 32 ^ hash) & (m->n_slots - 1);
    while (m->slots[slot].left >= 0 &&
           !(m->slots[slot].left == left && m->slots[slot].right == right))
        slot = (slot + 1) & (m->n_slots - 1);
    return &m->slots[slot];
}

void dpti_merges_add(dpti_merges *merges, const dpti_merge *merge)
{
    *find(merges, merge->left, merge->right) = *merge;
}

/* ---- Short words ----------------------------------------------------------------------------- */

static uint32_t rank_of(const dpti_merges *m, int32_t left, int32_t right)
{
    const dpti_merge *found = find(m, left, right);
    return found->left < 0 ? UINT32_MAX : found->rank;
}

static size_t merge_short(const dpti_merges *m, int32_t *ids, size_t n)
{
    uint32_t ranks[SHORT_WORD]; /* of each token and the one behind it */
    for (size_t i = 0; i + 1 < n; i++)
        ranks[i] = rank_of(m, ids[i], ids[i + 1]);
    while (n > 1) {
        size_t best = 0;
        for (size_t i = 1; i + 1 < n; i++)
            if (ranks[i] < ranks[best]) best = i;
        if (ranks[best] == UINT32_MAX) break;
        ids[best] = find(m, ids[best], ids[best + 1])->id;
        memmove(ids + best + 1, ids + best + 2, (n - best - 2) * sizeof *ids);
        memmove(ranks + best, ranks + best + 1, (n - best - 2) * sizeof *ranks);
        n--;
        if (best + 1 < n) ranks[best] = rank_of(m, ids[best], ids[best + 1]);
        if (best > 0) ranks[best - 1] = rank_of(m, ids[best - 1], ids[best]);
    }
    return n;
}

/* ---- Long words ------------------------------------------------------------------------------ */

bool dpti_word_reserve(dpti_word *word, size_t n)
{
    if (n <= word->room) return true;
    const size_t room = n < 2 * word->room ? 2 * word->room : n;
    dpti_word_free(word);
    word->symbols = malloc(room * sizeof *word->symbols);
    word->queue = malloc(3 * room * sizeof *word->queue);
    if (word->symbols && word->queue) {
        word->room = room;
        return true;
    }
    dpti_word_free(word);
    return false;
}

void dpti_word_free(dpti_word *word)
{
    free(word->symbols);
    free(word->queue);
    *word = (dpti_word){.symbols = NULL};
}

/* The queue is a heap of rank << 32 | place. */
static void push(dpti_word *w, uint64_t key)
{
    size_t i = w->n_queue++;
    for (; i > 0 && w->queue[(i - 1) / 2] > key; i = (i - 1) / 2)
        w->queue[i] = w->queue[(i - 1) / 2];
    w->queue[i] = key;
}

static uint64_t pop(dpti_word *w)
{
    const uint64_t first = w->queue[0], key = w->queue[--w->n_queue];
    size_t i = 0, child;
    for (; (child = 2 * i + 1) < w->n_queue; i = child) {
        if (child + 1 < w->n_queue && w->queue[child + 1] < w->queue[child]) child++;
        if (w->queue[child] >= key) break;
        w->queue[i] = w->queue[child];
    }
    w->queue[i] = key;
    return first;
}

/* Queues the merge of a token and the one behind it, if there is one. */
static void offer(const dpti_merges *m, dpti_word *w, uint32_t at)
{
    if (at == nowhere || w->symbols[at].behind == nowhere) return;
    const uint32_t rank = rank_of(m, w->symbols[at].id, w->symbols[w->symbols[at].behind].id);
    if (rank != UINT32_MAX) push(w, (uint64_t)rank << 32 | at);
}

/* Merges the token at this place with the one behind it, if that is still the merge of this rank.
 */
static void apply(const dpti_merges *m, dpti_word *w, uint64_t key)
{
    const uint32_t at = (uint32_t)key, rank = (uint32_t)(key >> 32);
    dpti_symbol *s = &w->symbols[at];
    if (s->id < 0 || s->behind == nowhere) return;
    dpti_symbol *next = &w->symbols[s->behind];
    const dpti_merge *merge = find(m, s->id, next->id);
    if (merge->left < 0 || merge->rank != rank) return;
    s->id = merge->id;
    s->behind = next->behind;
    next->id = -1;
    if (s->behind != nowhere) w->symbols[s->behind].before = at;
    offer(m, w, s->before);
    offer(m, w, at);
}

static size_t merge_long(const dpti_merges *m, dpti_word *w, int32_t *ids, size_t n)
{
    size_t n_left = 0;
    w->n_queue = 0;
    for (size_t i = 0; i < n; i++)
        w->symbols[i] = (dpti_symbol){.id = ids[i],
                                      .before = i > 0 ? (uint32_t)i - 1 : nowhere,
                                      .behind = i + 1 < n ? (uint32_t)i + 1 : nowhere};
    /* At most n - 1 entries at first, and two for each of at most n - 1 merges, each of which takes
       one entry out: never more than 3 n. */
    for (size_t i = 0; i < n; i++)
        offer(m, w, (uint32_t)i);
    while (w->n_queue > 0)
        apply(m, w, pop(w));
    for (size_t i = 0; i < n; i++)
        if (w->symbols[i].id >= 0) ids[n_left++] = w->symbols[i].id;
    return n_left;
}

size_t dpti_merge_word(const dpti_merges *merges, dpti_word *word, int32_t *ids, size_t n)
{
    return n <= SHORT_WORD ? merge_short(merges, ids, n) : merge_long(merges, word, ids, n);
}
