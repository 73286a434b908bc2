/* Text in whole UTF-8 characters (characters.h). */
#include "characters.h"

#include <stdio.h>
#include <string.h>

static const char replacement[] = "\xef\xbf\xbd";

/* The bytes of the character that this byte begins; 0 if it begins none. */
static size_t length_of(unsigned char first)
{
    if (first < 0x80) return 1;
    if (first >= 0xc2 && first <= 0xdf) return 2;
    if (first >= 0xe0 && first <= 0xef) return 3;
    return first >= 0xf0 && first <= 0xf4 ? 4 : 0;
}

/* Whether n bytes are the beginning of a character.  The second byte of some is limited: there are
   no longer spellings than needed, no surrogates, and nothing above U+10FFFF. */
static bool begins(const unsigned char *bytes, size_t n)
{
    const unsigned char first = bytes[0];
    if (length_of(first) < n) return false;
    for (size_t i = 1; i < n; i++)
        if ((bytes[i] & 0xc0) != 0x80) return false;
    if (n < 2) return true;
    if (first == 0xe0) return bytes[1] >= 0xa0;
    if (first == 0xed) return bytes[1] <= 0x9f;
    if (first == 0xf0) return bytes[1] >= 0x90;
    return first != 0xf4 || bytes[1] <= 0x8f;
}

size_t cli_characters_sound(const char *bytes, size_t n)
{
    const unsigned char *at = (const unsigned char *)bytes;
    for (size_t i = 0; i < n;) {
        const size_t length = length_of(at[i]);
        if (length == 0 || length > n - i || !begins(at + i, length)) return i;
        i += length;
    }
    return n;
}

static void put(const void *bytes, size_t n)
{
    (void)fwrite(bytes, 1, n, stdout); /* ferror tells */
}

static void add(cli_characters *c, unsigned char byte)
{
    c->bytes[c->n] = byte;
    if (!begins(c->bytes, c->n + 1)) {
        if (c->n > 0) put(replacement, sizeof replacement - 1);
        c->n = 0;
        c->bytes[0] = byte;
        if (!begins(c->bytes, 1)) {
            put(replacement, sizeof replacement - 1);
            return;
        }
    }
    c->n++;
    if (c->n < length_of(c->bytes[0])) return;
    put(c->bytes, c->n);
    c->n = 0;
}

bool cli_characters_write(cli_characters *characters, const char *bytes, size_t n)
{
    for (size_t i = 0; i < n; i++)
        add(characters, (unsigned char)bytes[i]);
    return fflush(stdout) == 0 && !ferror(stdout);
}

bool cli_characters_end(cli_characters *characters)
{
    if (characters->n > 0) put(replacement, sizeof replacement - 1);
    characters->n = 0;
    return fflush(stdout) == 0 && !ferror(stdout);
}
