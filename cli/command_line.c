/* The command line as a text that a shell reads as the same words, for the report of a training. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

static bool is_plain(const char *word)
{
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
    return *word && word[strspn(word, plain)] == '\0';
}

/* Appends a word, in quotes if a shell would read it in another way. */
static char *put_word(char *to, const char *word)
{
    const bool quotes = !is_plain(word);
    if (quotes) *to++ = '\'';
    for (; *word; word++) {
        if (*word == '\'') {
            memcpy(to, "'\\''", 4);
            to += 4;
        } else {
            *to++ = *word;
        }
    }
    if (quotes) *to++ = '\'';
    return to;
}

char *cli_command_line(int argc, char *const *argv)
{
    size_t most = 1;
    for (int i = 0; i < argc; i++)
        most += 4 * strlen(argv[i]) + 3;
    char *text = malloc(most), *to = text;
    for (int i = 0; text && i < argc; i++) {
        if (i > 0) *to++ = ' ';
        to = put_word(to, i > 0 ? argv[i] : "dptrain");
    }
    if (text) *to = '\0';
    return text;
}
