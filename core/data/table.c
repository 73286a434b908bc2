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
    size_t n_columns, n_labels; /* of the file; n_labels of them are labels or targets */
    size_t *places;             /* (n_columns) of a label in an answer; SIZE_MAX: an input; owned */
    size_t n_rows;
    float *numbers;  /* (n_rows, n_columns - n_labels) */
    double *answers; /* (n_rows, n_labels) */
    bool integers;   /* there is one label, and all are written without a point */
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

/* Returns the place of a name in a list with commas; SIZE_MAX: it is not in the list. */
static size_t place_in(const char *list, const char *name)
{
    const size_t length = strlen(name);
    for (size_t place = 0;; place++) {
        const size_t n = strcspn(list, ",");
        if (n == length && strncmp(list, name, n) == 0) return place;
        if (list[n] == '\0') return SIZE_MAX;
        list += n + 1;
    }
}

/* The header line, and the columns that hold labels or targets. */
typedef struct header {
    dpti_csv at;
    const char *list;       /* the names of these columns, with commas between them */
    bool whole;             /* a column has the name of the whole list: there is one */
    char names[LIST_BYTES]; /* of the columns, for messages */
    dpt_error *error;
} header;

static dpt_status count_columns(header h, header *out, table *t)
{
    dpti_csv_field f;
    do {
        DPT_TRY(dpti_csv_take(&h.at, &f, h.error));
        append_name(out->names, &f, t->n_columns++);
        out->whole = out->whole || (f.whole && strcmp(f.text, h.list) == 0);
    } while (!h.at.line_ended);
    t->n_labels = 1;
    for (const char *c = h.list; *c && !out->whole; c++)
        t->n_labels += *c == ',';
    return DPT_OK;
}

static dpt_status place_columns(header *h, table *t)
{
    dpti_csv_field f;
    t->places = malloc(t->n_columns * sizeof *t->places);
    if (!t->places)
        return DPT_FAIL(h->error, DPT_E_NO_MEMORY, "no memory for the columns of %s",
                        h->at.file->name);
    for (size_t i = 0; i < t->n_columns; i++) {
        DPT_TRY(dpti_csv_take(&h->at, &f, h->error));
        const bool same = f.whole && strcmp(f.text, h->list) == 0;
        t->places[i] = same ? 0 : h->whole || !f.whole ? SIZE_MAX : place_in(h->list, f.text);
    }
    return DPT_OK;
}

/* Checks that each label is one column. */
static dpt_status check_columns(const header *h, const table *t)
{
    const char *name = h->list, *file = h->at.file->name;
    for (size_t place = 0; place < t->n_labels; place++) {
        const int length = (int)(h->whole ? strlen(name) : strcspn(name, ","));
        size_t n = 0;
        for (size_t i = 0; i < t->n_columns; i++)
            n += t->places[i] == place;
        if (n == 0)
            return DPT_FAIL(h->error, DPT_E_FORMAT,
                            "%s: line 1 names no column %.*s%s; the columns are %s", file, length,
                            name, place > 0 ? ", or the name is given twice" : "", h->names);
        if (n > 1)
            return DPT_FAIL(h->error, DPT_E_FORMAT, "%s: two columns are called %.*s", file, length,
                            name);
        name += length + 1;
    }
    if (t->n_columns > t->n_labels) return DPT_OK;
    return DPT_FAIL(h->error, DPT_E_FORMAT, "%s: there is no column but %.80s", file, h->list);
}

/* Takes the first line; *s is behind it then. */
static dpt_status read_header(dpti_csv *s, const char *list, table *out, dpt_error *error)
{
    header h = {.at = *s, .list = list, .error = error};
    *out = (table){.integers = true};
    DPT_TRY(count_columns(h, &h, out));
    DPT_TRY(place_columns(&h, out));
    DPT_TRY(check_columns(&h, out));
    out->integers = out->n_labels == 1;
    *s = h.at;
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
            const size_t place = t->places[column];
            if (place == SIZE_MAX) {
                *to++ = (float)number;
                continue;
            }
            t->answers[row * t->n_labels + place] = number;
            t->integers = t->integers && whole;
            if (whole && t->n_labels == 1 && fabs(number) > INT32_MAX)
                return fail_field(&s, &f, column, error);
        }
    return DPT_OK;
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

/* The label's numbers as 32 bits, in the memory of the wider ones. */
static void narrow(table *t)
{
    for (size_t i = 0; i < t->n_rows * t->n_labels; i++) {
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
    const size_t n = t->n_columns - t->n_labels;
    const bool several = t->n_labels > 1;
    narrow(t);
    out->n = 2;
    out->items[0] = (dpti_array){.name = dpti_strdup("x"),
                                 .dtype = DPT_F32,
                                 .rank = 2,
                                 .shape = {t->n_rows, n},
                                 .n = t->n_rows * n,
                                 .data = t->numbers};
    out->items[1] = (dpti_array){.name = dpti_strdup(several ? "targets" : "y"),
                                 .dtype = t->integers ? DPT_I32 : DPT_F32,
                                 .rank = several ? 2 : 1,
                                 .shape = {t->n_rows, several ? t->n_labels : 0},
                                 .n = t->n_rows * t->n_labels,
                                 .data = t->answers};
    if (out->items[0].name && out->items[1].name) return DPT_OK;
    dpti_arrays_free(out);
    return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to read %s", file->name);
}

/* Reads the rows below the header into new memory. */
static dpt_status read_body(dpti_csv s, table *t, dpt_error *error)
{
    size_t n = 0;
    DPT_TRY(count_rows(s, t, error));
    /* Every field has at least a separator, so that the sizes are bounded by the file's. */
    if (dpti_multiply(t->n_rows, t->n_columns, &n) && n < SIZE_MAX / 8) {
        t->numbers =
            dpti_alloc_aligned(t->n_rows * (t->n_columns - t->n_labels) * sizeof *t->numbers);
        t->answers = dpti_alloc_aligned(t->n_rows * t->n_labels * sizeof *t->answers);
    }
    const dpti_locales locales = dpti_enter_c_locale();
    const dpt_status status =
        t->numbers && t->answers
            ? read_rows(s, t, error)
            : DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the numbers of %s", s.file->name);
    dpti_leave_c_locale(&locales);
    return status;
}

dpt_status dpti_table_parse(const dpti_file_bytes *file, const char *labels, dpti_arrays *out,
                            dpt_error *error)
{
    dpti_csv s = dpti_csv_begin(file);
    table t;
    dpt_status status = read_header(&s, labels, &t, error);
    if (status == DPT_OK) status = read_body(s, &t, error);
    free(t.places);
    if (status == DPT_OK) return give(file, &t, out, error);
    free(t.answers);
    free(t.numbers);
    return status;
}
