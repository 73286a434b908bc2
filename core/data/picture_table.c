/* Reads tables of pictures and their labels (picture_table.h): the rows of a file. */
#include "data/picture_table.h"

#include "base/print.h"
#include "base/text.h"
#include "data/csv.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum { SHOWN_BYTES = 40 }; /* of a field in a message */

void dpti_picture_rows_free(dpti_picture_rows *rows)
{
    for (size_t i = 0; i < rows->count; i++) {
        free(rows->paths[i]);
        free(rows->labels[i]);
    }
    free(rows->paths);
    free(rows->labels);
    free(rows->lines);
    *rows = (dpti_picture_rows){0};
}

static dpt_status fail_memory(const dpti_file_bytes *file, dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the rows of %s", file->name);
}

static bool grow(dpti_picture_rows *rows)
{
    const size_t wanted = rows->capacity ? 2 * rows->capacity : 64;
    if (rows->count < rows->capacity) return true;
    char **paths = realloc(rows->paths, wanted * sizeof *paths);
    if (paths) rows->paths = paths;
    char **labels = realloc(rows->labels, wanted * sizeof *labels);
    if (labels) rows->labels = labels;
    size_t *lines = realloc(rows->lines, wanted * sizeof *lines);
    if (lines) rows->lines = lines;
    if (!paths || !labels || !lines) return false;
    rows->capacity = wanted;
    return true;
}

/* One row.  The texts are taken over. */
typedef struct row {
    char *path, *label;
    size_t line;
} row;

static dpt_status add(const dpti_file_bytes *file, row r, dpti_picture_rows *to, dpt_error *error)
{
    if (!r.path || !r.label || !grow(to)) {
        free(r.path);
        free(r.label);
        return fail_memory(file, error);
    }
    to->paths[to->count] = r.path;
    to->labels[to->count] = r.label;
    to->lines[to->count++] = r.line;
    return DPT_OK;
}

/* ---- Lists ----------------------------------------------------------------------------------- */

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

/* Returns the bytes of the text without white space at its end. */
static size_t trimmed(const char *text, size_t n)
{
    while (n > 0 && is_space(text[n - 1]))
        n--;
    return n;
}

/* A line of a list, without its end. */
typedef struct list_line {
    const char *text;
    size_t n, number;
} list_line;

/* A path, which may have white space, white space, and a label, which has none. */
static dpt_status take_line(const dpti_file_bytes *file, const list_line *at, dpti_picture_rows *to,
                            dpt_error *error)
{
    const char *line = at->text;
    size_t end = trimmed(line, at->n), label = end;
    if (end == 0) return DPT_OK;
    while (label > 0 && !is_space(line[label - 1]))
        label--;
    const size_t path = trimmed(line, label);
    if (path == 0 || memchr(line, '\0', end))
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: line %zu is no path and label with a space between them; a table "
                        "with a header is read as pictures:HxW:FILE.csv:PATH:LABEL",
                        file->name, at->number);
    return add(file,
               (row){dpti_strndup(line, path), dpti_strndup(line + label, end - label), at->number},
               to, error);
}

static dpt_status parse_list(const dpti_file_bytes *file, dpti_picture_rows *to, dpt_error *error)
{
    const char *text = (const char *)file->bytes;
    size_t at = 0, line = 1;
    if (file->n_bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0) at = 3;
    for (; at < file->n_bytes; line++) {
        const char *end = memchr(text + at, '\n', file->n_bytes - at);
        const size_t n = end ? (size_t)(end - (text + at)) : file->n_bytes - at;
        DPT_TRY(take_line(file, &(list_line){text + at, n, line}, to, error));
        at += n + 1;
    }
    return DPT_OK;
}

/* ---- Tables ---------------------------------------------------------------------------------- */

/* Where the columns are, and what stands around the path. */
typedef struct header {
    const char *before, *after;
    size_t n_before;
    char *column;       /* of the path, owned */
    const char *labels; /* the column of the labels */
    size_t path, label, split, n;
} header;

/* Finds the column of the path and what stands around it. */
static dpt_status take_pattern(const dpti_file_bytes *file, const char *path, header *out,
                               dpt_error *error)
{
    const char *open = strchr(path, '{'), *close = open ? strchr(open, '}') : NULL;
    *out =
        (header){.before = "", .after = "", .path = SIZE_MAX, .label = SIZE_MAX, .split = SIZE_MAX};
    if (close) {
        out->before = path;
        out->n_before = (size_t)(open - path);
        out->after = close + 1;
        out->column = dpti_strndup(open + 1, (size_t)(close - open) - 1);
    } else {
        out->column = dpti_strdup(path);
    }
    return out->column ? DPT_OK : fail_memory(file, error);
}

static dpt_status note_column(const dpti_csv *s, const dpti_csv_field *f, header *h,
                              dpt_error *error)
{
    const char *const names[] = {h->column, h->labels, "split"};
    size_t *const columns[] = {&h->path, &h->label, &h->split};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (!f->whole || strcmp(f->text, names[i]) != 0) continue;
        if (*columns[i] != SIZE_MAX)
            return DPT_FAIL(error, DPT_E_FORMAT, "%s: two columns are called %.80s", s->file->name,
                            names[i]);
        *columns[i] = h->n;
    }
    h->n++;
    return DPT_OK;
}

static dpt_status read_header(dpti_csv *s, header *h, dpt_error *error)
{
    dpti_csv_field f;
    do {
        DPT_TRY(dpti_csv_take(s, &f, error));
        DPT_TRY(note_column(s, &f, h, error));
    } while (!s->line_ended);
    if (h->path != SIZE_MAX || h->label == SIZE_MAX) return DPT_OK; /* without labels: no rows */
    return DPT_FAIL(error, DPT_E_FORMAT, "%s: line 1 names no column %.80s", s->file->name,
                    h->column);
}

typedef enum row_part { ROW_TRAIN, ROW_TEST, ROW_VAL, N_ROW_PARTS } row_part;

static const char *const parts[N_ROW_PARTS] = {"train", "test", "val"};

static row_part part_of(const dpti_csv_field *f)
{
    static const struct {
        const char *word;
        row_part part;
    } words[] = {
        {"train", ROW_TRAIN}, {"training", ROW_TRAIN}, {"test", ROW_TEST},
        {"val", ROW_VAL},     {"valid", ROW_VAL},      {"validation", ROW_VAL},
    };
    for (size_t i = 0; f->whole && i < sizeof words / sizeof *words; i++)
        if (strcasecmp(f->text, words[i].word) == 0) return words[i].part;
    return N_ROW_PARTS;
}

static dpt_status fail_field(const dpti_csv *s, const dpti_csv_field *f, const char *why,
                             dpt_error *error)
{
    char shown[SHOWN_BYTES + 1];
    snprintf(shown, sizeof shown, "%.40s", f->text);
    shown[dpti_plain_bytes(shown)] = '\0';
    return DPT_FAIL(error, DPT_E_FORMAT, "%s: line %zu: '%s' %s", s->file->name, f->line, shown,
                    why);
}

/* A table that is being read. */
typedef struct reading {
    dpti_csv at;
    header h;
    dpt_error *error;
} reading;

static dpt_status take_path(const reading *r, const dpti_csv_field *f, char **out)
{
    const header *h = &r->h;
    if (!f->whole || f->text[0] == '\0')
        return fail_field(&r->at, f, "is no path of a picture", r->error);
    *out = dpti_format("%.*s%s%s", (int)h->n_before, h->before, f->text, h->after);
    return *out ? DPT_OK : fail_memory(r->at.file, r->error);
}

static dpt_status take_label(const reading *r, const dpti_csv_field *f, char **out)
{
    if (!f->whole || f->text[0] == '\0') return fail_field(&r->at, f, "is no label", r->error);
    *out = dpti_strdup(f->text);
    return *out ? DPT_OK : fail_memory(r->at.file, r->error);
}

/* A row that is being read. */
typedef struct row_reading {
    row row;
    row_part part;
    bool only_part; /* the texts are not taken */
} row_reading;

static dpt_status take(const reading *r, size_t column, const dpti_csv_field *f, row_reading *out)
{
    if (column == r->h.split) {
        out->part = part_of(f);
        if (out->part == N_ROW_PARTS)
            return fail_field(&r->at, f, "in the column split is neither train nor test nor val",
                              r->error);
    }
    if (out->only_part) return DPT_OK;
    if (column == r->h.path) DPT_TRY(take_path(r, f, &out->row.path));
    if (column == r->h.label) DPT_TRY(take_label(r, f, &out->row.label));
    return DPT_OK;
}

static dpt_status read_row(reading *r, row_reading *out)
{
    dpti_csv_field f;
    size_t n = 0;
    dpt_status status = DPT_OK;
    out->row = (row){.line = r->at.line};
    out->part = ROW_TRAIN;
    do {
        status = dpti_csv_take(&r->at, &f, r->error);
        if (status == DPT_OK) status = take(r, n++, &f, out);
    } while (status == DPT_OK && !r->at.line_ended);
    if (status == DPT_OK && n != r->h.n)
        status =
            DPT_FAIL(r->error, DPT_E_FORMAT, "%s: line %zu has %zu fields, but the header has %zu",
                     r->at.file->name, out->row.line, n, r->h.n);
    if (status == DPT_OK) return DPT_OK;
    free(out->row.path);
    free(out->row.label);
    return status;
}

/* Notes which parts the rows are of. */
static dpt_status find_parts(reading r, bool has[N_ROW_PARTS])
{
    while (dpti_csv_has_row(&r.at)) {
        row_reading next = {.only_part = true};
        DPT_TRY(read_row(&r, &next));
        has[next.part] = true;
    }
    return DPT_OK;
}

static dpt_status read_rows(reading *r, row_part wanted, dpti_picture_rows *to)
{
    while (dpti_csv_has_row(&r->at)) {
        row_reading next = {.only_part = false};
        DPT_TRY(read_row(r, &next));
        if (next.part == wanted) {
            DPT_TRY(add(r->at.file, next.row, to, r->error));
        } else {
            free(next.row.path);
            free(next.row.label);
        }
    }
    return DPT_OK;
}

static dpt_status parse_table(const dpti_picture_columns *columns, reading *r,
                              dpti_picture_rows *to)
{
    bool has[N_ROW_PARTS] = {false};
    row_part wanted = ROW_TRAIN;
    DPT_TRY(take_pattern(r->at.file, columns->path, &r->h, r->error));
    r->h.labels = columns->label;
    DPT_TRY(read_header(&r->at, &r->h, r->error));
    const bool divided = r->h.split != SIZE_MAX;
    to->unlabelled = r->h.label == SIZE_MAX;
    if (to->unlabelled) return DPT_OK;
    if (divided && columns->part == DPT_TEST) {
        DPT_TRY(find_parts(*r, has));
        wanted = has[ROW_TEST] ? ROW_TEST : has[ROW_VAL] ? ROW_VAL : ROW_TRAIN;
    }
    if (divided) to->part = parts[wanted];
    return read_rows(r, wanted, to);
}

dpt_status dpti_picture_rows_parse(const dpti_file_bytes *file, const dpti_picture_columns *columns,
                                   dpti_picture_rows *out, dpt_error *error)
{
    dpti_picture_rows rows = {.count = 0};
    reading r = {.at = dpti_csv_begin(file), .error = error};
    dpt_status status =
        columns->path ? parse_table(columns, &r, &rows) : parse_list(file, &rows, error);
    free(r.h.column);
    if (status == DPT_OK && rows.count == 0 && !rows.unlabelled)
        status = DPT_FAIL(error, DPT_E_FORMAT, "%s names no pictures%s", file->name,
                          rows.part ? " of the training part (column split)" : "");
    if (status == DPT_OK)
        *out = rows;
    else
        dpti_picture_rows_free(&rows);
    return status;
}
