/* The tokens of a tokenizer: bytes by id, and ids by bytes. */
#ifndef DPTI_VOCABULARY_H
#define DPTI_VOCABULARY_H

#include "base/bytes.h"
#include "dpt_types.h"

#include <stdbool.h>

typedef struct dpti_token {
    uint8_t *bytes; /* owned; NULL: no token has this id */
    uint32_t n_bytes;
    bool added; /* found in a text as a whole, and not by merges */
} dpti_token;

typedef struct dpti_vocabulary {
    dpti_token *tokens; /* (n), by id */
    size_t n;           /* one more than the largest id */
    int32_t *slots;     /* (n_slots) a hash table of ids; -1: free.  Added tokens are not in it */
    size_t n_slots;     /* a power of two */
} dpti_vocabulary;

/* Makes an empty vocabulary for ids below n.  Returns false if memory is short. */
DPT_CHECK_RESULT bool dpti_vocabulary_create(size_t n, dpti_vocabulary *out);
/* Accepts a zeroed struct. */
void dpti_vocabulary_free(dpti_vocabulary *vocabulary);

typedef enum dpti_added { DPTI_ADDED, DPTI_ADD_TAKEN, DPTI_ADD_NO_MEMORY } dpti_added;

/* Adds a token with an id below n: the call copies the bytes.  DPTI_ADD_TAKEN if the id, or the
   bytes of a token that is not `added`, are taken. */
dpti_added dpti_vocabulary_add(dpti_vocabulary *vocabulary, int32_t id, dpti_bytes bytes,
                               bool added);
/* Returns the id of a token that is not `added`, or -1. */
int32_t dpti_vocabulary_find(const dpti_vocabulary *vocabulary, dpti_bytes bytes);
/* A hash of bytes: the same everywhere. */
uint64_t dpti_hash(const uint8_t *bytes, size_t n_bytes);

#endif
