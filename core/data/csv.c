/* Comma- or tab-separated values (csv.h). */
#include "data/csv.h"

#include <string.h>

static bool at_end(const dpti_csv *s)
{
    return s->at == s->file->n_bytes;
}

static char peek(const dpti_csv *s)
{
    return at_end(s) ? '\n' : (char)s->file->bytes[s->at];
}

static void append(dpti_csv_field *f, size_t *n, char c)
{
    f->whole = f->whole && c != '\0' && *n + 1 < sizeof f->text;
    if (f->whole) f->text[(*n)++] = c;
}

static dpt_status fail_line(const dpti_csv *s, size_t line, const char *what, dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_FORMAT, "%s: line %zu: %s", s->file->name, line, what);
}

/* Takes the text between quotes; two quotes are one. */
static dpt_status take_quoted(dpti_csv *s, dpti_csv_field *f, size_t *n, dpt_error *error)
{
    for (s->at++; !at_end(s); s->at++) {
        const char c = (char)s->file->bytes[s->at];
        const bool doubled =
            c == '"' && s->at + 1 < s->file->n_bytes && s->file->bytes[s->at + 1] == '"';
        if (c == '"' && !doubled) {
            s->at++;
            return DPT_OK;
        }
        s->at += doubled;
        s->line += c == '\n';
        append(f, n, c);
    }
    return fail_line(s, f->line, "a quote is not closed", error);
}

dpt_status dpti_csv_take(dpti_csv *csv, dpti_csv_field *out, dpt_error *error)
{
    dpti_csv *s = csv;
    dpti_csv_field *f = out;
    size_t n = 0;
    f->line = s->line;
    f->whole = true;
    if (!at_end(s) && peek(s) == '"') {
        DPT_TRY(take_quoted(s, f, &n, error));
    } else {
        for (; peek(s) != s->separator && peek(s) != '\n' && peek(s) != '\r'; s->at++) {
            if (peek(s) == '"')
                return fail_line(s, s->line, "a quote in a field that does not begin with one",
                                 error);
            append(f, &n, peek(s));
        }
    }
    f->text[n] = '\0';
    if (!at_end(s) && peek(s) == '\r') s->at++;
    s->line_ended = peek(s) == '\n';
    if (!s->line_ended && peek(s) != s->separator)
        return fail_line(s, s->line, "text behind a closing quote, or a lone carriage return",
                         error);
    s->line += s->line_ended;
    s->at += !at_end(s);
    return DPT_OK;
}

dpti_csv dpti_csv_begin(const dpti_file_bytes *file)
{
    dpti_csv s = {.file = file, .line = 1, .separator = ','};
    if (file->n_bytes >= 3 && memcmp(file->bytes, "\xef\xbb\xbf", 3) == 0) s.at = 3;
    for (size_t i = s.at; i < file->n_bytes && file->bytes[i] != '\n'; i++)
        if (file->bytes[i] == '\t') s.separator = '\t';
    return s;
}

bool dpti_csv_has_row(dpti_csv *csv)
{
    dpti_csv *s = csv;
    const dpti_csv before = *s;
    while (!at_end(s) && (peek(s) == '\n' || peek(s) == '\r'))
        s->at++;
    if (at_end(s)) return false;
    *s = before;
    return true;
}
