/* Tables of numbers: comma- or tab-separated fields with a header line (RFC 4180). */
#include "data/array.h"

#include "data/csv.h"

#include "base/c_locale.h"
#include "base/memory.h"
#include "base/size.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_BYTES = 64, SHOWN_COLUMNS = 8, LIST_BYTES = 300 };

/* ---- The header ------------------------------------------------------------------------------ */

typedef struct table {
    size_t n_columns, label; /* the label's column */
    size_t n_rows;
    float *numbers;  /* (n_rows, n_columns - 1) */
    double *answers; /* (n_rows) */
    bool integers;   /* all answers are written without a point */
} table;

/* Returns the bytes of the printable characters at the start of a text, at most `most`. */
static int shown_bytes(const char *text, size_t most)
{
    const size_t n_plain = dpti_plain_bytes(text);
    size_t n = 0;
    for (;;) {
        uint32_t code;
        const size_t next = n < n_plain ? dpti_character(text + n, &code) : 0;
        if (next == 0 || n + next > most) return (int)n;
        n += next;
    }
}

static void append_name(char list[LIST_BYTES], const dpti_csv_field *f, size_t column)
{
    const size_t used = strlen(list);
    if (column > SHOWN_COLUMNS || used + 40 > LIST_BYTES) return;
    const char *name = column == SHOWN_COLUMNS ? "..." : f->text;
    snprintf(list + used, LIST_BYTES - used, "%s%.*s", column ? ", " : "", shown_bytes(name, 20),
             name);
}

static dpt_status read_header(dpti_csv *s, const char *label, table *out, dpt_error *error)
{
    char names[LIST_BYTES] = "";
    dpti_csv_field f;
    *out = (table){.label = SIZE_MAX, .integers = true};
    do {
        DPT_TRY(dpti_csv_take(s, &f, error));
        append_name(names, &f, out->n_columns);
        if (f.whole && strcmp(f.text, label) == 0) {
            if (out->label != SIZE_MAX)
                return DPT_FAIL(error, DPT_E_FORMAT, "%s: two columns are called %.80s",
                                s->file->name, label);
            out->label = out->n_columns;
        }
        out->n_columns++;
    } while (!s->line_ended);
    if (out->label == SIZE_MAX)
        return DPT_FAIL(error, DPT_E_FORMAT, "%s: line 1 names no column %.80s; the columns are %s",
                        s->file->name, label, names);
    if (out->n_columns < 2)
        return DPT_FAIL(error, DPT_E_FORMAT, "%s: there is no column but %.80s", s->file->name,
                        label);
    return DPT_OK;
}

/* ---- Rows ------------------------------------------------------------------------------------ */

/* Checks that all rows have the columns of the header, and counts them. */
static dpt_status count_rows(dpti_csv s, table *t, dpt_error *error)
{
    dpti_csv_field f;
    for (t->n_rows = 0; dpti_csv_has_row(&s); t->n_rows++) {
        const size_t line = s.line;
        size_t n = 0;
        do {
            DPT_TRY(dpti_csv_take(&s, &f, error));
            n++;
        } while (!s.line_ended);
        if (n != t->n_columns)
            return DPT_FAIL(error, DPT_E_FORMAT,
                            "%s: line %zu has %zu fields, but the header has %zu", s.file->name,
                            line, n, t->n_columns);
    }
    if (t->n_rows > 0) return DPT_OK;
    return DPT_FAIL(error, DPT_E_FORMAT, "%s: there are no rows below the header", s.file->name);
}

/* A finite decimal number.  *whole: it is written as an integer. */
static bool parse_number(const dpti_csv_field *f, double *out, bool *whole)
{
    static const char digits[] = "0123456789";
    const size_t first = strspn(f->text, " "), n = strspn(f->text + first, "0123456789+-.eE");
    const char *text = f->text + first;
    char *end = NULL;
    if (!f->whole || n == 0 || n >= NUMBER_BYTES || text[n + strspn(text + n, " ")] != '\0')
        return false;
    const size_t sign = text[0] == '-' || text[0] == '+';
    *out = strtod(text, &end);
    *whole = sign + strspn(text + sign, digits) == n;
    return end == text + n && isfinite(*out) && fabs(*out) <= (double)3.4e38F;
}

static dpt_status fail_field(const dpti_csv *s, const dpti_csv_field *f, size_t column,
                             dpt_error *error)
{
    const int n = shown_bytes(f->text, 40);
    if (f->text[0] == '\0')
        return DPT_FAIL(error, DPT_E_FORMAT, "%s: line %zu, column %zu: the field is empty",
                        s->file->name, f->line, column + 1);
    return DPT_FAIL(error, DPT_E_FORMAT, "%s: line %zu, column %zu: %.*s is no number",
                    s->file->name, f->line, column + 1, n ? n : (int)sizeof "the field",
                    n ? f->text : "the field");
}

static dpt_status read_rows(dpti_csv s, table *t, dpt_error *error)
{
    float *to = t->numbers;
    dpti_csv_field f;
    for (size_t row = 0; row < t->n_rows; row++)
        for (size_t column = 0; column < t->n_columns; column++) {
            double number = 0;
            bool whole = false;
            DPT_TRY(dpti_csv_take(&s, &f, error));
            if (!parse_number(&f, &number, &whole)) return fail_field(&s, &f, column, error);
            if (column != t->label) {
                *to++ = (float)number;
                continue;
            }
            t->answers[row] = number;
            t->integers = t->integers && whole;
            if (whole && fabs(number) > INT32_MAX) return fail_field(&s, &f, column, error);
        }
    return DPT_OK;
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

/* The label's numbers as 32 bits, in the memory of the wider ones. */
static void narrow(table *t)
{
    for (size_t i = 0; i < t->n_rows; i++) {
        const double number = t->answers[i];
        const int32_t integer = t->integers ? (int32_t)number : 0;
        const float real = (float)number;
        memcpy((char *)t->answers + i * sizeof real, t->integers ? (const void *)&integer : &real,
               sizeof real);
    }
}

/* Takes over the memory of the table. */
static dpt_status give(const dpti_file_bytes *file, table *t, dpti_arrays *out, dpt_error *error)
{
    const size_t n = t->n_columns - 1;
    narrow(t);
    out->n = 2;
    out->items[0] = (dpti_array){.name = dpti_strdup("x"),
                                 .dtype = DPT_F32,
                                 .rank = 2,
                                 .shape = {t->n_rows, n},
                                 .n = t->n_rows * n,
                                 .data = t->numbers};
    out->items[1] = (dpti_array){.name = dpti_strdup("y"),
                                 .dtype = t->integers ? DPT_I32 : DPT_F32,
                                 .rank = 1,
                                 .shape = {t->n_rows},
                                 .n = t->n_rows,
                                 .data = t->answers};
    if (out->items[0].name && out->items[1].name) return DPT_OK;
    dpti_arrays_free(out);
    return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to read %s", file->name);
}

dpt_status dpti_table_parse(const dpti_file_bytes *file, const char *label, dpti_arrays *out,
                            dpt_error *error)
{
    dpti_csv s = dpti_csv_begin(file);
    table t;
    size_t n = 0;
    DPT_TRY(read_header(&s, label, &t, error));
    DPT_TRY(count_rows(s, &t, error));
    /* Every field has at least a separator, so that the sizes are bounded by the file's. */
    if (dpti_multiply(t.n_rows, t.n_columns - 1, &n) && n < SIZE_MAX / 8) {
        t.numbers = dpti_alloc_aligned(n * sizeof *t.numbers);
        t.answers = dpti_alloc_aligned(t.n_rows * sizeof *t.answers);
    }
    const dpti_locales locales = dpti_enter_c_locale();
    const dpt_status status =
        t.numbers && t.answers
            ? read_rows(s, &t, error)
            : DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the numbers of %s", file->name);
    dpti_leave_c_locale(&locales);
    if (status == DPT_OK) return give(file, &t, out, error);
    free(t.answers);
    free(t.numbers);
    return status;
}
