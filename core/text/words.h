/* How a text is cut into words, before each word is encoded by itself. */
#ifndef DPTI_WORDS_H
#define DPTI_WORDS_H

#include "text/unicode.h"

/* The regular expressions that are known. */
typedef enum dpti_pattern {
    DPTI_PATTERN_NONE, /* a text is one word */
    DPTI_PATTERN_GPT2,
    DPTI_PATTERN_LLAMA3,
    DPTI_PATTERN_QWEN2, /* as Llama 3, with every digit by itself */
    DPTI_N_PATTERNS,
} dpti_pattern;

/* Returns the pattern that a regular expression is; DPTI_N_PATTERNS: it is not known. */
dpti_pattern dpti_pattern_of(const char *regex);
/* A text that is cut. */
typedef struct dpti_cut {
    dpti_pattern pattern;
    const uint8_t *text;
    size_t n_bytes;
} dpti_cut;

/* Returns the number of bytes of the word that begins at `at`, which is before the end: at least
   1. */
size_t dpti_word_bytes(const dpti_cut *cut, size_t at);

#endif
