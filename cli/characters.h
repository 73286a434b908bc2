/* Writes text to stdout in whole characters, as it comes. */
#ifndef DPTRAIN_CLI_CHARACTERS_H
#define DPTRAIN_CLI_CHARACTERS_H

#include <stdbool.h>
#include <stddef.h>

/* Bytes that have come, of which the last may be the beginning of a character.  Zeroed: none. */
typedef struct cli_characters {
    unsigned char bytes[4];
    size_t n;
} cli_characters;

/* Writes the characters that are complete, and flushes.  Bytes that are no UTF-8 become U+FFFD.
   Returns false if stdout cannot be written. */
bool cli_characters_write(cli_characters *characters, const char *bytes, size_t n);
/* The number of bytes up to the first that is no UTF-8, or cut off; n if there is none. */
size_t cli_characters_sound(const char *bytes, size_t n);
/* Writes what is left. */
bool cli_characters_end(cli_characters *characters);

#endif
