/* The alphabet of byte-level BPE: files of tokenizers store each byte of a token as a character
   that can be printed. */
#ifndef DPTI_ALPHABET_H
#define DPTI_ALPHABET_H

#include <stddef.h>
#include <stdint.h>

/* Writes the bytes that a text in the alphabet stands for, which are not more than its own. Returns
   their number; SIZE_MAX if a character is none of the alphabet. */
size_t dpti_alphabet_read(const char *text, size_t n_bytes, uint8_t *out);

#endif
