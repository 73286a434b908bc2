/* Reads files of settings in TOML 1.0 (toml.io), strictly: lines such as batch-size = 128 below
   headers such as [train].  What no setting needs is refused by its name: tables in tables, keys
   with dots or in quotes, strings of several lines, dates, and numbers that are not decimal.  Every
   file that is read is a valid file of TOML with the same meaning. */
#ifndef DPTRAIN_CLI_TOML_H
#define DPTRAIN_CLI_TOML_H

#include "cli.h"

typedef enum cli_toml_type {
    CLI_TOML_TEXT,    /* "text" or 'text' */
    CLI_TOML_WHOLE,   /* 128 */
    CLI_TOML_REAL,    /* 1e-3 */
    CLI_TOML_BOOLEAN, /* true or false */
    CLI_TOML_LIST,    /* ["a", 2] */
} cli_toml_type;

typedef struct cli_toml_table {
    const char *name; /* "" for the lines above the first header */
    size_t line;      /* of the header; 0 for those lines */
} cli_toml_table;

typedef struct cli_toml_entry {
    size_t table; /* its place among the tables */
    const char *key;
    size_t line;
    cli_toml_type type;
    const char *text; /* the value: strings without quotes and escapes, numbers without + and _,
                         elements of a list with commas between them */
} cli_toml_entry;

typedef struct cli_toml {
    cli_toml_table *tables; /* (n_tables) the first is the one without a header */
    size_t n_tables;
    cli_toml_entry *entries; /* (n_entries) in the order of the file */
    size_t n_entries;
    char *text; /* what the names and values point into */
} cli_toml;

/* The bytes of a file; messages call the file by its path. */
typedef struct cli_toml_file {
    const char *path, *bytes;
    size_t n_bytes;
} cli_toml_file;

/* Returns CLI_OK, CLI_USAGE after one line on stderr that names the file and the line of the
   mistake, or CLI_FAILURE after one line without memory.  The caller releases *out in all cases. */
DPT_CHECK_RESULT int cli_toml_read(const cli_toml_file *file, cli_toml *out);
void cli_toml_release(cli_toml *toml);

#endif
