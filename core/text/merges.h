/* The merges of byte-pair encoding: which two neighbouring tokens become one, and in which order;
   and the encoding of one word by them. */
#ifndef DPTI_MERGES_H
#define DPTI_MERGES_H

#include "dpt_types.h"

#include <stdbool.h>

/* Two neighbours, and the token that they become. */
typedef struct dpti_merge {
    int32_t left, right; /* left -1: none */
    int32_t id;
    uint32_t rank; /* the merge of the lowest rank comes first */
} dpti_merge;

typedef struct dpti_merges {
    dpti_merge *slots; /* (n_slots) a hash table */
    size_t n_slots;    /* a power of two */
} dpti_merges;

/* Makes an empty table for n merges.  Returns false if memory is short. */
DPT_CHECK_RESULT bool dpti_merges_create(size_t n, dpti_merges *out);
/* Accepts a zeroed struct. */
void dpti_merges_free(dpti_merges *merges);
/* Adds a merge; of two merges of the same neighbours the later one counts. */
void dpti_merges_add(dpti_merges *merges, const dpti_merge *merge);

/* One token of a word while it is merged. */
typedef struct dpti_symbol {
    int32_t id; /* -1: merged into the one before */
    uint32_t before, behind;
} dpti_symbol;

/* Room for words, which is kept from word to word. */
typedef struct dpti_word {
    dpti_symbol *symbols; /* (room) */
    uint64_t *queue;      /* (3 * room) */
    size_t room, n_queue;
} dpti_word;

/* Makes room for a word of n tokens.  Returns false if memory is short. */
DPT_CHECK_RESULT bool dpti_word_reserve(dpti_word *word, size_t n);
/* Accepts a zeroed struct. */
void dpti_word_free(dpti_word *word);
/* Merges n tokens in place until no merge is left: always the one of the lowest rank, and of
   several the leftmost.  Returns how many tokens remain.  The word has room for n, which is below
   2^32. */
size_t dpti_merge_word(const dpti_merges *merges, dpti_word *word, int32_t *ids, size_t n);

#endif
