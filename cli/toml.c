/* The reader of files of settings (toml.h). */
#include "toml.h"

#include "characters.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ENTRIES = 1024, MOST_TABLES = 64 };

static const char bare[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
static const char digits[] = "0123456789";

typedef struct reader {
    const char *path, *at; /* `at`: the next byte.  The text ends with a zero */
    size_t line;
    char *to; /* the end of out->text */
    cli_toml *out;
} reader;

/* Reports a mistake in the current line. */
DPT_PRINTF(2, 3) static int fail(const reader *r, const char *format, ...)
{
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return cli_error(CLI_USAGE, "%s:%zu: %s", r->path, r->line, message);
}

/* ---- Bytes ----------------------------------------------------------------------------------- */

/* Checks all bytes before anything is read: text in UTF-8 without control characters. */
static int check_bytes(reader *r, const cli_toml_file *file)
{
    const char *bytes = file->bytes;
    const size_t n = file->n_bytes, n_sound = cli_characters_sound(bytes, n);
    if (n >= 3 && memcmp(bytes, "\xef\xbb\xbf", 3) == 0)
        return fail(r, "the file begins with a byte-order mark, which TOML does not have: save it "
                       "without one");
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)bytes[i];
        if (i == n_sound) return fail(r, "a byte here is not UTF-8 (0x%02x)", c);
        if (c == '\n') r->line++;
        if (c == '\r' && i + 1 < n && bytes[i + 1] == '\n') continue;
        if ((c < ' ' && c != '\t' && c != '\n') || c == 0x7f)
            return fail(r, "a control character (0x%02x)", c);
    }
    r->line = 1;
    if (strspn(r->at, " \t\r\n") == n) return fail(r, "the file is empty: it has no settings");
    return CLI_OK;
}

static void skip_blanks(reader *r)
{
    r->at += strspn(r->at, " \t");
}

static bool at_end_of_line(const reader *r)
{
    return !*r->at || *r->at == '\n' || *r->at == '\r';
}

/* Passes the end of the line, if nothing but a comment is before it. */
static bool pass_line(reader *r)
{
    skip_blanks(r);
    if (*r->at == '#') r->at += strcspn(r->at, "\r\n");
    if (!at_end_of_line(r)) return false;
    r->at += *r->at == '\r';
    if (*r->at == '\n') {
        r->at++;
        r->line++;
    }
    return true;
}

/* Ends the text that is being written, and returns its beginning. */
static const char *end_text(reader *r, char *begin)
{
    *r->to++ = '\0';
    return begin;
}

/* ---- Strings --------------------------------------------------------------------------------- */

static void put_character(reader *r, unsigned long c)
{
    if (c < 0x80) {
        *r->to++ = (char)c;
        return;
    }
    if (c < 0x800) {
        *r->to++ = (char)(0xc0 | c >> 6);
    } else {
        if (c < 0x10000) {
            *r->to++ = (char)(0xe0 | c >> 12);
        } else {
            *r->to++ = (char)(0xf0 | c >> 18);
            *r->to++ = (char)(0x80 | (c >> 12 & 0x3f));
        }
        *r->to++ = (char)(0x80 | (c >> 6 & 0x3f));
    }
    *r->to++ = (char)(0x80 | (c & 0x3f));
}

/* \u and four digits, or \U and eight. */
static int take_number(reader *r)
{
    const int n = *r->at == 'u' ? 4 : 8;
    unsigned long c = 0;
    for (int i = 1; i <= n; i++) {
        const char digit = r->at[i];
        if (!isxdigit((unsigned char)digit))
            return fail(r, "\\%c has %d hexadecimal digits behind it", *r->at, n);
        c = c * 16 + (unsigned long)(isdigit((unsigned char)digit) ? digit - '0'
                                                                   : (digit | 0x20) - 'a' + 10);
    }
    if (c > 0x10ffff || (c >= 0xd800 && c < 0xe000))
        return fail(r, "\\%.*s is no character", n + 1, r->at);
    if (c == 0) return fail(r, "a character 0 cannot be in a setting");
    put_character(r, c);
    r->at += n + 1;
    return CLI_OK;
}

static int take_escape(reader *r)
{
    static const char letters[] = "btnfr\"\\", meanings[] = "\b\t\n\f\r\"\\";
    r->at++;
    if (*r->at == 'u' || *r->at == 'U') return take_number(r);
    const char *letter = *r->at ? strchr(letters, *r->at) : NULL;
    if (!letter)
        return fail(r, "a \\ in \"...\" begins one of \\\\ \\\" \\b \\t \\n \\f \\r \\uXXXX; in "
                       "'...' it is an ordinary character");
    *r->to++ = meanings[letter - letters];
    r->at++;
    return CLI_OK;
}

static int take_string(reader *r)
{
    const char quote = *r->at++;
    if (r->at[0] == quote && r->at[1] == quote)
        return fail(r, "strings of several lines (%c%c%c) are not read here: write \\n in \"...\"",
                    quote, quote, quote);
    while (*r->at != quote) {
        int code = CLI_OK;
        if (at_end_of_line(r)) return fail(r, "the string has no %c at its end", quote);
        if (*r->at == '\\' && quote == '"')
            code = take_escape(r);
        else
            *r->to++ = *r->at++;
        if (code != CLI_OK) return code;
    }
    r->at++;
    return CLI_OK;
}

/* ---- Numbers --------------------------------------------------------------------------------- */

/* The length of digits that may have a _ between them; 0 if they are none. */
static size_t digits_at(const char *at)
{
    size_t n = 0;
    while (strspn(at + n, digits) > 0) {
        n += strspn(at + n, digits);
        if (at[n] != '_' || strspn(at + n + 1, digits) == 0) break;
        n++;
    }
    return n;
}

/* Whether n bytes are a decimal number of TOML, and of which type. */
static bool is_number(const char *word, size_t n, cli_toml_type *type)
{
    const char *at = word + (*word == '+' || *word == '-');
    size_t length = digits_at(at);
    if (length == 0 || (length > 1 && *at == '0')) return false;
    at += length;
    *type = CLI_TOML_WHOLE;
    if (*at == '.') {
        length = digits_at(at + 1);
        if (length == 0) return false;
        at += 1 + length;
        *type = CLI_TOML_REAL;
    }
    if (*at == 'e' || *at == 'E') {
        at += 1 + (at[1] == '+' || at[1] == '-');
        length = digits_at(at);
        if (length == 0) return false;
        at += length;
        *type = CLI_TOML_REAL;
    }
    return at == word + n;
}

static bool is_word(const char *word, size_t n, const char *known)
{
    return n == strlen(known) && memcmp(word, known, n) == 0;
}

/* Says why a word without quotes is no value. */
static int refuse_word(const reader *r, const char *word, size_t n)
{
    const char *number = word + (*word == '+' || *word == '-');
    const size_t n_number = n - (size_t)(number - word);
    const int shown = n < 60 ? (int)n : 60;
    if (n == 0 && (*word == '\0' || *word == '\n' || *word == '\r' || *word == '#'))
        return fail(r, "there is no value behind the =");
    if (n == 0) return fail(r, "a value cannot begin with %c", *word);
    if (is_word(number, n_number, "inf") || is_word(number, n_number, "nan"))
        return fail(r, "%.*s is no setting", shown, word);
    if (n > 2 && word[0] == '0' && strchr("xob", word[1]))
        return fail(r, "%.*s: numbers are decimal here", shown, word);
    if ((strspn(word, digits) == 4 && word[4] == '-') ||
        (strspn(word, digits) == 2 && word[2] == ':'))
        return fail(r, "%.*s: dates and times are no settings; write a text in quotes", shown,
                    word);
    if (n_number > 1 && *number == '0' && strspn(number, digits) > 1)
        return fail(r, "%.*s: a number does not begin with 0", shown, word);
    if (is_word(word, n, "True") || is_word(word, n, "False"))
        return fail(r, "%.*s: write true or false in small letters", shown, word);
    return fail(r, "%.*s is no value; write text in quotes, such as \"%.*s\"", shown, word, shown,
                word);
}

/* A word without quotes: a number, true or false. */
static int take_word(reader *r, cli_toml_type *type)
{
    const char *word = r->at;
    const size_t n = strcspn(word, " \t\r\n#,]}=[{\"'");
    const bool truth = is_word(word, n, "true") || is_word(word, n, "false");
    if (truth)
        *type = CLI_TOML_BOOLEAN;
    else if (!is_number(word, n, type))
        return refuse_word(r, word, n);
    for (size_t i = 0; i < n; i++)
        if (truth || (word[i] != '_' && !(i == 0 && word[i] == '+'))) *r->to++ = word[i];
    r->at += n;
    return CLI_OK;
}

/* ---- Values ---------------------------------------------------------------------------------- */

static int take_scalar(reader *r, cli_toml_type *type)
{
    if (*r->at == '{')
        return fail(r, "tables within a line are not read here: write each setting in a line");
    if (*r->at != '"' && *r->at != '\'') return take_word(r, type);
    *type = CLI_TOML_TEXT;
    return take_string(r);
}

/* Passes blanks, comments and ends of lines within a list. */
static void skip_lines(reader *r)
{
    while (*r->at && pass_line(r))
        continue;
}

static int take_list(reader *r)
{
    const size_t begin = r->line;
    size_t n = 0;
    r->at++;
    for (;;) {
        cli_toml_type type;
        skip_lines(r);
        if (*r->at == ']') break;
        if (*r->at == '[') return fail(r, "lists within lists are no settings");
        if (!*r->at) return fail(r, "the list that begins in line %zu has no ] at its end", begin);
        if (n++ > 0) *r->to++ = ',';
        const int code = take_scalar(r, &type);
        if (code != CLI_OK) return code;
        if (type == CLI_TOML_BOOLEAN) return fail(r, "true and false are no elements of a list");
        skip_lines(r);
        if (*r->at == ']') break;
        if (!*r->at) return fail(r, "the list that begins in line %zu has no ] at its end", begin);
        if (*r->at != ',') return fail(r, "elements of a list have commas between them");
        r->at++;
    }
    r->at++;
    return CLI_OK;
}

/* ---- Lines ----------------------------------------------------------------------------------- */

/* Takes a name; `what` is what it is the name of. */
static int take_name(reader *r, const char *what, const char **out)
{
    char *begin = r->to;
    const size_t n = strspn(r->at, bare);
    if (*r->at == '"' || *r->at == '\'')
        return fail(r, "%s in quotes is not read here: write it without", what);
    if (n == 0)
        return fail(r, "a line is KEY = VALUE, such as epochs = 10, or [COMMAND], such as [train]");
    memcpy(r->to, r->at, n);
    r->to += n;
    r->at += n;
    skip_blanks(r);
    if (*r->at == '.')
        return fail(r,
                    "%s with a dot is not read here: write the settings of a command below a "
                    "line such as [train]",
                    what);
    *out = end_text(r, begin);
    return CLI_OK;
}

static int take_header(reader *r)
{
    cli_toml *out = r->out;
    const char *name;
    const size_t line = r->line;
    r->at++;
    if (*r->at == '[') return fail(r, "lists of tables ([[...]]) are no settings");
    skip_blanks(r);
    const int code = take_name(r, "the name of a command", &name);
    if (code != CLI_OK) return code;
    if (*r->at++ != ']') return fail(r, "the header [%s has no ] at its end", name);
    for (size_t i = 1; i < out->n_tables; i++)
        if (strcmp(out->tables[i].name, name) == 0)
            return fail(r, "[%s] is there twice, first in line %zu", name, out->tables[i].line);
    for (size_t i = 0; i < out->n_entries; i++)
        if (out->entries[i].table == 0 && strcmp(out->entries[i].key, name) == 0)
            return fail(r, "%s is a setting already, in line %zu", name, out->entries[i].line);
    if (out->n_tables == MOST_TABLES) return fail(r, "there are more than %d headers", MOST_TABLES);
    if (!pass_line(r)) return fail(r, "something is behind the header [%s]", name);
    out->tables[out->n_tables++] = (cli_toml_table){.name = name, .line = line};
    return CLI_OK;
}

static int take_entry(reader *r)
{
    cli_toml *out = r->out;
    cli_toml_entry entry = {.table = out->n_tables - 1, .line = r->line};
    int code = take_name(r, "a key", &entry.key);
    if (code != CLI_OK) return code;
    for (size_t i = 0; i < out->n_entries; i++)
        if (out->entries[i].table == entry.table && strcmp(out->entries[i].key, entry.key) == 0)
            return fail(r, "%s is there twice, first in line %zu", entry.key, out->entries[i].line);
    if (out->n_entries == MOST_ENTRIES)
        return fail(r, "there are more than %d settings", MOST_ENTRIES);
    if (*r->at != '=') return fail(r, "%s: there is no = behind the key", entry.key);
    r->at++;
    skip_blanks(r);
    char *begin = r->to;
    entry.type = CLI_TOML_LIST;
    code = *r->at == '[' ? take_list(r) : take_scalar(r, &entry.type);
    if (code != CLI_OK) return code;
    entry.text = end_text(r, begin);
    if (!pass_line(r)) return fail(r, "%s: something is behind the value", entry.key);
    out->entries[out->n_entries++] = entry;
    return CLI_OK;
}

int cli_toml_read(const cli_toml_file *file, cli_toml *out)
{
    /* No text is longer than the bytes from which it is read, and a zero at its end. */
    *out = (cli_toml){.tables = calloc(MOST_TABLES, sizeof *out->tables),
                      .entries = calloc(MOST_ENTRIES, sizeof *out->entries),
                      .text = malloc(2 * file->n_bytes + 1)};
    char *copy = malloc(file->n_bytes + 1);
    reader r = {.path = file->path, .at = copy, .line = 1, .to = out->text, .out = out};
    int code = CLI_OK;
    if (!copy || !out->tables || !out->entries || !out->text) {
        free(copy);
        return cli_error(CLI_FAILURE, "no memory for %s", file->path);
    }
    if (file->n_bytes > 0) memcpy(copy, file->bytes, file->n_bytes);
    copy[file->n_bytes] = '\0';
    out->tables[out->n_tables++] = (cli_toml_table){.name = ""};
    code = check_bytes(&r, file);
    while (code == CLI_OK && *r.at) {
        skip_blanks(&r);
        if (pass_line(&r)) continue;
        code = *r.at == '[' ? take_header(&r) : take_entry(&r);
    }
    free(copy);
    return code;
}

void cli_toml_release(cli_toml *toml)
{
    free(toml->tables);
    free(toml->entries);
    free(toml->text);
    *toml = (cli_toml){0};
}
