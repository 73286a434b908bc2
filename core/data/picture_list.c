/* The pictures and classes of a part of a table (picture_table.h): which file is read, and which
   class each label is. */
#include "data/picture_table.h"

#include "base/parse.h"
#include "base/print.h"
#include "base/text.h"
#include "context/context.h"
#include "data/data.h"
#include "data/test_name.h"
#include "io/file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What the text of a name says. */
typedef struct source {
    char *file, *path, *label; /* owned; path and label NULL: a list */
} source;

/* A table that is being read for a part. */
typedef struct listing_of {
    const dpti_data_request *request;
    source from;
    dpti_picture_rows training, rows; /* of the training part; of the wanted part, if it is another
                                         one */
    bool other;                       /* the wanted part is another one */
    dpti_picture_list *out;
    dpt_error *error;
} listing_of;

static void source_free(source *s)
{
    free(s->file);
    free(s->path);
    free(s->label);
}

void dpti_picture_list_free(dpti_picture_list *list)
{
    free(list->table);
    free(list->folder);
    free(list->labels);
    dpti_listing_free(&list->classes);
    dpti_listing_free(&list->files);
    *list = (dpti_picture_list){0};
}

static dpt_status fail_memory(dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the pictures of a table");
}

/* ---- The name -------------------------------------------------------------------------------- */

/* Cuts the text at its last two colons, because a path may have one.  A list has none. */
static dpt_status take_source(const dpti_data_request *request, const char *text, source *out,
                              dpt_error *error)
{
    const char *last = strrchr(text, ':'), *first = last;
    while (first && first > text && *--first != ':') {
    }
    const bool two = first && *first == ':' && first > text;
    if (last && (!two || last == first + 1 || last[1] == '\0'))
        return DPT_FAIL(error, DPT_E_INVALID,
                        "'%.200s' names no table of pictures: write FILE.csv:PATH:LABEL, where "
                        "PATH and LABEL are columns, or the name of a list",
                        text);
    char *file = last ? dpti_strndup(text, (size_t)(first - text)) : dpti_strdup(text);
    const bool below = file && request->directory && file[0] != '/';
    out->file = below ? dpti_format("%s/%s", request->directory, file) : file;
    if (below) free(file);
    if (last) out->path = dpti_strndup(first + 1, (size_t)(last - first) - 1);
    if (last) out->label = dpti_strdup(last + 1);
    return out->file && (!last || (out->path && out->label)) ? DPT_OK : fail_memory(error);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static dpt_status read_rows(listing_of *l, const char *path, dpt_part part, dpti_picture_rows *out)
{
    const dpti_picture_columns columns = {l->from.path, l->from.label, part};
    dpti_content content = {0};
    DPT_TRY(dpti_file_read(path, &content, l->error));
    const dpt_status status = dpti_picture_rows_parse(
        &(dpti_file_bytes){path, content.bytes, content.n_bytes}, &columns, out, l->error);
    free(content.bytes);
    return status;
}

/* Reads the test part of another file, if there is one with labels. */
static dpt_status read_test_file(listing_of *l)
{
    static const char *const words[] = {"test", "val"};
    for (size_t w = 0; w < sizeof words / sizeof *words && !l->other; w++) {
        char *path = dpti_test_name(l->from.file, words[w]);
        if (!path || access(path, F_OK) != 0) {
            free(path);
            continue;
        }
        const dpt_status status = read_rows(l, path, DPT_TEST, &l->rows);
        l->other = status == DPT_OK && !l->rows.unlabelled;
        if (status == DPT_OK && l->rows.unlabelled)
            dpti_context_notice(l->request->context,
                                "%s has no column %s, and is no test part: it is passed over", path,
                                l->from.label);
        if (l->other) {
            free(l->out->table);
            l->out->table = path;
        } else {
            free(path);
        }
        DPT_TRY(status);
    }
    return DPT_OK;
}

static dpt_status read_parts(listing_of *l)
{
    l->out->table = dpti_strdup(l->from.file);
    if (!l->out->table) return fail_memory(l->error);
    DPT_TRY(read_rows(l, l->from.file, DPT_TRAIN, &l->training));
    if (l->training.unlabelled)
        return DPT_FAIL(l->error, DPT_E_FORMAT, "%s: line 1 names no column %.80s", l->from.file,
                        l->from.label);
    if (l->request->part == DPT_TRAIN) return DPT_OK;
    if (!l->training.part) return read_test_file(l);
    l->other = true;
    return read_rows(l, l->from.file, DPT_TEST, &l->rows);
}

/* Puts the part behind the name of a table that has several. */
static dpt_status name_part(listing_of *l)
{
    const char *part = l->other ? l->rows.part : l->training.part;
    char *name = part ? dpti_format("%s (%s)", l->out->table, part) : NULL;
    if (part && !name) return fail_memory(l->error);
    if (!part) return DPT_OK;
    free(l->out->table);
    l->out->table = name;
    return DPT_OK;
}

/* ---- Classes --------------------------------------------------------------------------------- */

static bool parse_class(const char *label, size_t *out)
{
    return dpti_parse_size(label, 0, DPTI_MAX_CLASSES - 1, out);
}

static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names the classes by the numbers 0 to `largest`. */
static dpt_status count_classes(listing_of *l, size_t largest)
{
    dpti_listing *classes = &l->out->classes;
    const size_t n = largest + 1 < 2 ? 2 : largest + 1;
    classes->names = calloc(n, sizeof *classes->names);
    if (!classes->names) return fail_memory(l->error);
    classes->capacity = n;
    for (; classes->count < n; classes->count++)
        if (!(classes->names[classes->count] = dpti_format("%zu", classes->count)))
            return fail_memory(l->error);
    return DPT_OK;
}

/* Takes the different labels, sorted. */
static dpt_status sort_classes(listing_of *l)
{
    dpti_listing *classes = &l->out->classes;
    const size_t n = l->training.count;
    char **sorted = malloc(n * sizeof *sorted);
    classes->names = calloc(n, sizeof *classes->names);
    classes->capacity = n;
    dpt_status status = sorted && classes->names ? DPT_OK : fail_memory(l->error);
    if (status == DPT_OK) {
        memcpy(sorted, l->training.labels, n * sizeof *sorted);
        qsort(sorted, n, sizeof *sorted, compare);
    }
    for (size_t i = 0; status == DPT_OK && i < n; i++) {
        if (i > 0 && strcmp(sorted[i], sorted[i - 1]) == 0) continue;
        char *name = dpti_strdup(sorted[i]);
        if (name)
            classes->names[classes->count++] = name;
        else
            status = fail_memory(l->error);
    }
    free(sorted);
    return status;
}

static dpt_status fail_label(const listing_of *l, const dpti_picture_rows *rows, size_t i)
{
    char shown[64];
    snprintf(shown, sizeof shown, "%s", rows->labels[i]);
    shown[dpti_plain_bytes(shown)] = '\0';
    return DPT_FAIL(l->error, DPT_E_FORMAT,
                    "%s: line %zu: the label '%s' is none of the training part, %s", l->out->table,
                    rows->lines[i], shown, l->from.file);
}

static dpt_status find_classes(listing_of *l, bool *numbers)
{
    size_t largest = 0;
    *numbers = true;
    for (size_t i = 0; *numbers && i < l->training.count; i++) {
        size_t class = 0;
        *numbers = parse_class(l->training.labels[i], &class);
        if (class > largest) largest = class;
    }
    DPT_TRY(*numbers ? count_classes(l, largest) : sort_classes(l));
    for (size_t i = 0; i < l->out->classes.count; i++) {
        const char *name = l->out->classes.names[i];
        if (name[dpti_plain_bytes(name)] != '\0')
            return DPT_FAIL(l->error, DPT_E_FORMAT,
                            "%s: a label is no printable UTF-8, and is the name of a class",
                            l->from.file);
    }
    if (l->out->classes.count >= 2 && l->out->classes.count <= DPTI_MAX_CLASSES) return DPT_OK;
    return DPT_FAIL(l->error, DPT_E_FORMAT,
                    "%s has %zu different label%s, and there must be 2 to %d", l->from.file,
                    l->out->classes.count, l->out->classes.count == 1 ? "" : "s", DPTI_MAX_CLASSES);
}

/* Sets the labels of the wanted part, whose paths are taken over. */
static dpt_status take_files(listing_of *l, bool numbers)
{
    dpti_picture_rows *rows = l->other ? &l->rows : &l->training;
    dpti_picture_list *out = l->out;
    out->labels = malloc(rows->count * sizeof *out->labels);
    out->files.names = malloc(rows->count * sizeof *out->files.names);
    out->files.capacity = rows->count;
    if (!out->labels || !out->files.names) return fail_memory(l->error);
    for (size_t i = 0; i < rows->count; i++) {
        size_t *class = &out->labels[i];
        const char *label = rows->labels[i];
        const bool known = numbers ? parse_class(label, class) && *class < out->classes.count
                                   : dpti_listing_find(&out->classes, label, class);
        if (!known) return fail_label(l, rows, i);
        out->files.names[out->files.count++] = rows->paths[i];
        rows->paths[i] = NULL;
    }
    return DPT_OK;
}

static dpt_status read_list(listing_of *l, const char *text)
{
    bool numbers;
    DPT_TRY(take_source(l->request, text, &l->from, l->error));
    DPT_TRY(read_parts(l));
    DPT_TRY(name_part(l));
    DPT_TRY(find_classes(l, &numbers));
    DPT_TRY(take_files(l, numbers));
    const char *slash = strrchr(l->from.file, '/');
    l->out->folder =
        slash ? dpti_strndup(l->from.file, (size_t)(slash - l->from.file) + (slash == l->from.file))
              : dpti_strdup(".");
    return l->out->folder ? DPT_OK : fail_memory(l->error);
}

dpt_status dpti_picture_list_read(const dpti_data_request *request, const char *text,
                                  dpti_picture_list *out, dpt_error *error)
{
    dpti_picture_list list = {0};
    listing_of l = {.request = request, .out = &list, .error = error};
    const dpt_status status = read_list(&l, text);
    source_free(&l.from);
    dpti_picture_rows_free(&l.rows);
    dpti_picture_rows_free(&l.training);
    if (status == DPT_OK)
        *out = list;
    else
        dpti_picture_list_free(&list);
    return status;
}
