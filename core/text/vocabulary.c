/* The tokens of a tokenizer (vocabulary.h): a table by id, and a hash table with open addresses. */
#include "text/vocabulary.h"

#include <stdlib.h>
#include <string.h>

uint64_t dpti_hash(const uint8_t *bytes, size_t n_bytes)
{
    uint64_t hash = 0x9e3779b97f4a7c15u ^ n_bytes;
    for (; n_bytes >= 8; bytes += 8, n_bytes -= 8) {
        uint64_t word;
        memcpy(&word, bytes, sizeof word);
        hash = (hash ^ word) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
    }
    uint64_t rest = 0;
    for (size_t i = 0; i < n_bytes; i++)
        rest |= (uint64_t)bytes[i] << (8 * i);
    hash = (hash ^ rest) * 0xc4ceb9fe1a85ec53u;
    return hash ^ hash >> 29;
}

bool dpti_vocabulary_create(size_t n, dpti_vocabulary *out)
{
    size_t n_slots = 64;
    while (n_slots < 2 * n)
        n_slots *= 2;
    *out = (dpti_vocabulary){.tokens = calloc(n ? n : 1, sizeof *out->tokens),
                             .n = n,
                             .slots = malloc(n_slots * sizeof *out->slots),
                             .n_slots = n_slots};
    if (out->tokens && out->slots) {
        memset(out->slots, 0xff, n_slots * sizeof *out->slots);
        return true;
    }
    out->n = 0;
    dpti_vocabulary_free(out);
    return false;
}

void dpti_vocabulary_free(dpti_vocabulary *vocabulary)
{
    for (size_t i = 0; i < vocabulary->n; i++)
        free(vocabulary->tokens[i].bytes);
    free(vocabulary->tokens);
    free(vocabulary->slots);
    *vocabulary = (dpti_vocabulary){.tokens = NULL};
}

/* The slot of these bytes: that of their token, or the free one where it would be. */
static size_t slot_of(const dpti_vocabulary *v, dpti_bytes bytes)
{
    size_t slot = dpti_hash(bytes.data, bytes.n_bytes) & (v->n_slots - 1);
    for (;; slot = (slot + 1) & (v->n_slots - 1)) {
        const int32_t id = v->slots[slot];
        if (id < 0) return slot;
        const dpti_token *t = &v->tokens[id];
        if (t->n_bytes == bytes.n_bytes && memcmp(t->bytes, bytes.data, bytes.n_bytes) == 0)
            return slot;
    }
}

dpti_added dpti_vocabulary_add(dpti_vocabulary *vocabulary, int32_t id, dpti_bytes bytes,
                               bool added)
{
    dpti_token *t = &vocabulary->tokens[id];
    const size_t slot = added ? 0 : slot_of(vocabulary, bytes);
    if (t->bytes || (!added && vocabulary->slots[slot] >= 0)) return DPTI_ADD_TAKEN;
    uint8_t *copy = malloc(bytes.n_bytes + 1);
    if (!copy) return DPTI_ADD_NO_MEMORY;
    if (bytes.n_bytes > 0) memcpy(copy, bytes.data, bytes.n_bytes);
    *t = (dpti_token){.bytes = copy, .n_bytes = (uint32_t)bytes.n_bytes, .added = added};
    if (!added) vocabulary->slots[slot] = id;
    return DPTI_ADDED;
}

int32_t dpti_vocabulary_find(const dpti_vocabulary *vocabulary, dpti_bytes bytes)
{
    return vocabulary->slots[slot_of(vocabulary, bytes)];
}
