/* Characters of UTF-8 and their classes, as far as tokenizers need them. */
#ifndef DPTI_UNICODE_H
#define DPTI_UNICODE_H

#include <stddef.h>
#include <stdint.h>

/* Classes of characters, of Unicode 16.0. */
typedef enum dpti_class {
    DPTI_OTHER,
    DPTI_LETTER, /* \p{L} */
    DPTI_NUMBER, /* \p{N} */
    DPTI_SPACE,  /* \s, the property White_Space */
} dpti_class;

/* A character of a text. */
typedef struct dpti_char {
    uint32_t code;
    uint8_t n_bytes; /* 1 to 4; 0: behind the end of the text */
    uint8_t class;   /* dpti_class */
} dpti_char;

/* Returns the class of a code point. */
dpti_class dpti_class_of(uint32_t code);
/* Returns the character that begins at `at`.  A byte that begins no valid character of UTF-8 is a
   character of its own, of class DPTI_OTHER, with the code 0xFFFD. */
dpti_char dpti_char_at(const uint8_t *text, size_t n_bytes, size_t at);

#endif
