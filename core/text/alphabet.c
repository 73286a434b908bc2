/* The alphabet of byte-level BPE (alphabet.h).  Bytes that Latin-1 prints as a mark are themselves:
   0x21 to 0x7e, 0xa1 to 0xac, 0xae to 0xff.  The other 68, in their order, are the characters from
   U+0100 on. */
#include "text/alphabet.h"

#include "text/unicode.h"

#include <stdbool.h>

static bool is_itself(uint32_t c)
{
    return (c >= 0x21 && c <= 0x7e) || (c >= 0xa1 && c <= 0xac) || (c >= 0xae && c <= 0xff);
}

/* The byte of a character; -1: it is none of the alphabet. */
static int byte_of(uint32_t code)
{
    if (code < 0x100) return is_itself(code) ? (int)code : -1;
    uint32_t n = code - 0x100;
    for (uint32_t byte = 0; byte < 0x100; byte++)
        if (!is_itself(byte) && n-- == 0) return (int)byte;
    return -1;
}

size_t dpti_alphabet_read(const char *text, size_t n_bytes, uint8_t *out)
{
    size_t n = 0;
    for (size_t at = 0; at < n_bytes;) {
        const dpti_char c = dpti_char_at((const uint8_t *)text, n_bytes, at);
        const int byte = byte_of(c.code);
        if (byte < 0) return SIZE_MAX;
        out[n++] = (uint8_t)byte;
        at += c.n_bytes;
    }
    return n;
}
