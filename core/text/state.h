/* What a tokenizer consists of.  Private to core/text. */
#ifndef DPTI_TOKENIZER_STATE_H
#define DPTI_TOKENIZER_STATE_H

#include "dptrain.h"
#include "text/merges.h"
#include "text/vocabulary.h"
#include "text/words.h"

enum {
    DPTI_KEPT_BYTES = 24, /* of the longest word that is remembered */
    DPTI_KEPT_IDS = 8,    /* the most ids that it has */
    DPTI_KEPT_WORDS = 1 << 15,
};

/* A word that was encoded, and its ids. */
typedef struct dpti_kept_word {
    uint8_t n_bytes; /* 0: none */
    uint8_t n_ids;
    uint8_t bytes[DPTI_KEPT_BYTES];
    int32_t ids[DPTI_KEPT_IDS];
} dpti_kept_word;

/* A token that is found in a text as a whole. */
typedef struct dpti_special {
    int32_t id;
    bool normalized;  /* looked for where the others are not */
    bool left, right; /* takes the spaces in front of it, or behind it */
} dpti_special;

struct dpt_tokenizer {
    dpti_vocabulary vocabulary;
    dpti_merges merges;
    int32_t byte_ids[256];
    dpti_special *specials; /* (n_specials) the longest first */
    size_t n_specials;
    uint8_t starts[(1 << 16) / 8]; /* bits: whether a special token begins with these two bytes */
    dpti_pattern pattern;
    bool add_prefix_space; /* to each part of a text that does not begin with a space */
    bool ignore_merges;    /* a word that is a token is that token */
    int32_t end;           /* -1: none */
    dpti_word word;
    dpti_kept_word *kept; /* (DPTI_KEPT_WORDS); NULL before the first text */
};

/* Makes a tokenizer without tokens for ids below n.  NULL if memory is short. */
dpt_tokenizer *dpti_tokenizer_create(size_t n);
/* Puts the special tokens in order, and finds the ids of the bytes and of the end of a text, once
   all tokens are there.  Returns the first byte that no token has; 256: each has one. */
unsigned dpti_tokenizer_complete(dpt_tokenizer *tokenizer);

#endif
