/* Strings: copies, UTF-8 characters, spelling suggestions. */
#ifndef DPTI_TEXT_H
#define DPTI_TEXT_H

#include "dpt_types.h"

/* Allocates a copy of a string, or of its first `length` characters.  NULL if memory is short. */
char *dpti_strdup(const char *text);
char *dpti_strndup(const char *text, size_t length);
/* Returns the number of bytes of the UTF-8 character at the start of a text, and its code point.
   0 at the end of the text, and where no valid UTF-8 character starts. */
size_t dpti_character(const char *text, uint32_t *code);
/* Returns how many bytes of a text come before the first control character, before the first byte
   that is not valid UTF-8, or before the end.  Only these bytes may go into a line for a person or
   into JSON. */
size_t dpti_plain_bytes(const char *text);
/* Returns the word of the NULL-terminated list `known` that is nearest to `word` by edit distance
   with transpositions.  NULL if no word is near enough to be meant. */
const char *dpti_nearest(const char *word, const char *const *known);

#endif
