/* Writes man pages and completions of shells from the tables of commands and options, from which
   help is printed, too.  The build runs `dptrain manual DIR`. */
#ifndef DPTRAIN_CLI_MANUAL_H
#define DPTRAIN_CLI_MANUAL_H

#include "help.h"

#include <stdio.h>

/* What completion offers for the argument of an option. */
typedef enum cli_offer {
    CLI_OFFER_NONE, /* any text */
    CLI_OFFER_WORDS,
    CLI_OFFER_MODELS, /* words, and files */
    CLI_OFFER_DEVICES,
    CLI_OFFER_FILES,
    CLI_OFFER_FOLDERS,
} cli_offer;

cli_offer cli_offer_of(const cli_option *option);
/* Writes the words of CLI_OFFER_WORDS and CLI_OFFER_MODELS with blanks between them, and colons in
   them as `colon`. */
void cli_write_words(FILE *out, const cli_option *option, const char *colon);
/* What the arguments of a command that are no options are: words, files or nothing.  *words: with
   blanks between them. */
cli_offer cli_operands_of(const cli_verb_entry *verb, const char **words);
/* Writes the beginning of a help text, up to the end of its first part, with \ before each
   character of `escaped`, and ' as '\'' for shells. */
void cli_write_brief(FILE *out, const char *text, const char *escaped);

/* The page of a command; NULL: of dptrain. */
void cli_write_page(FILE *out, const cli_verb_entry *verb);
void cli_write_bash(FILE *out);
void cli_write_zsh(FILE *out);
void cli_write_fish(FILE *out);

#endif
