/* Data sets that consist of arrays in files: "npz:FILE", "npy:IMAGES:LABELS", "csv:FILE:LABEL". */
#include "data/data.h"

#include "base/print.h"
#include "base/text.h"
#include "data/test_name.h"
#include "io/file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_WORDS = 2 };

typedef enum form { FORM_NPZ, FORM_NPY, FORM_CSV, N_FORMS } form;

static const struct {
    const char *kind, *syntax;
    size_t n_words;
} forms[N_FORMS] = {
    [FORM_NPZ] = {"npz", "npz:FILE.npz", 1},
    [FORM_NPY] = {"npy", "npy:IMAGES.npy:LABELS.npy", 2},
    [FORM_CSV] = {"csv", "csv:FILE:LABEL, where LABEL is the name of a column", 2},
};

/* The words of a name behind its kind. */
typedef struct spec {
    form form;
    char *words[MOST_WORDS]; /* owned */
    size_t least_classes;    /* of the test part: those of the training part */
} spec;

static form form_of(const char *name)
{
    size_t i = 0;
    for (; i < N_FORMS; i++) {
        const size_t n = strlen(forms[i].kind);
        if (strncmp(name, forms[i].kind, n) == 0 && (name[n] == ':' || name[n] == '\0')) break;
    }
    return (form)i;
}

bool dpti_is_array_files(const char *name)
{
    return form_of(name) < N_FORMS;
}

static void free_spec(spec *s)
{
    for (size_t i = 0; i < MOST_WORDS; i++)
        free(s->words[i]);
}

static dpt_status fail_memory(dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to open a data set");
}

/* Cuts the words at their last colon, because a path may have one. */
static dpt_status parse(const char *name, spec *out, dpt_error *error)
{
    *out = (spec){.form = form_of(name)};
    const char *first = strchr(name, ':');
    const char *last = first ? strrchr(name, ':') : NULL;
    const bool two = forms[out->form].n_words == 2;
    if (!first || first[1] == '\0' || (two && (last == first || last == first + 1 || !last[1])))
        return DPT_FAIL(error, DPT_E_INVALID, "'%.200s' names no data: write %s", name,
                        forms[out->form].syntax);
    first++;
    out->words[0] = two ? dpti_strndup(first, (size_t)(last - first)) : dpti_strdup(first);
    out->words[1] = two ? dpti_strdup(last + 1) : NULL;
    if (out->words[0] && (!two || out->words[1])) return DPT_OK;
    free_spec(out);
    return fail_memory(error);
}

/* ---- Paths ----------------------------------------------------------------------------------- */

/* Puts the folder in front of the paths. */
static bool place(const char *directory, spec *s)
{
    const size_t n_paths = s->form == FORM_NPY ? 2 : 1;
    for (size_t i = 0; directory && i < n_paths; i++) {
        if (s->words[i][0] == '/') continue;
        char *path = dpti_format("%s/%s", directory, s->words[i]);
        if (!path) return false;
        free(s->words[i]);
        s->words[i] = path;
    }
    return true;
}

/* Names the files of the test part, if all are there. */
static void find_test(spec *s)
{
    static const char *const words[] = {"test", "val"};
    const size_t n_paths = s->form == FORM_NPY ? 2 : 1;
    for (size_t w = 0; w < sizeof words / sizeof *words; w++) {
        char *paths[MOST_WORDS] = {NULL};
        bool there = true;
        for (size_t i = 0; i < n_paths; i++) {
            paths[i] = dpti_test_name(s->words[i], words[w]);
            there = there && paths[i] && access(paths[i], F_OK) == 0;
        }
        for (size_t i = 0; i < n_paths; i++) {
            free(there ? s->words[i] : paths[i]);
            if (there) s->words[i] = paths[i];
        }
        if (there) return;
    }
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* The single array of a zip file, as KMNIST's authors write their arrays. */
static dpt_status take_only(const dpti_file_bytes *file, dpti_array *out, dpt_error *error)
{
    dpti_arrays arrays = {.n = 0};
    const dpti_npz_use all = {.part = DPT_TRAIN};
    DPT_TRY(dpti_npz_parse(file, &all, &arrays, error));
    if (arrays.n != 1) {
        const size_t n = arrays.n;
        dpti_arrays_free(&arrays);
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s has %zu arrays, and npy:IMAGES:LABELS reads one of each file; write "
                        "npz:FILE for all of one file",
                        file->name, n);
    }
    *out = arrays.items[0];
    free(out->name);
    out->name = NULL;
    return DPT_OK;
}

/* Reads one .npy file, or a zip file with one array, as an array of this name. */
static dpt_status read_npy(const char *path, const char *name, dpti_arrays *to, dpt_error *error)
{
    dpti_content content = {0};
    dpti_array *array = &to->items[to->n];
    DPT_TRY(dpti_file_read(path, &content, error));
    const dpti_file_bytes file = {path, content.bytes, content.n_bytes};
    const bool zipped = content.n_bytes >= 2 && memcmp(content.bytes, "PK", 2) == 0;
    const dpt_status status =
        zipped ? take_only(&file, array, error) : dpti_npy_parse(&file, array, error);
    free(content.bytes);
    DPT_TRY(status);
    to->n++;
    array->name = dpti_strdup(name);
    return array->name ? DPT_OK : fail_memory(error);
}

static dpt_status read_pair(const spec *s, bool answers_only, dpti_arrays *to, dpt_error *error)
{
    DPT_TRY(read_npy(s->words[1], "y", to, error));
    return answers_only ? DPT_OK : read_npy(s->words[0], "x", to, error);
}

static dpt_status read_one(const spec *s, const dpti_npz_use *use, dpti_arrays *to,
                           dpt_error *error)
{
    dpti_content content = {0};
    DPT_TRY(dpti_file_read(s->words[0], &content, error));
    const dpti_file_bytes file = {s->words[0], content.bytes, content.n_bytes};
    const dpt_status status = s->form == FORM_NPZ ? dpti_npz_parse(&file, use, to, error)
                                                  : dpti_table_parse(&file, s->words[1], to, error);
    free(content.bytes);
    return status;
}

/* After a failure *to holds arrays that must be freed. */
static dpt_status read_arrays(const spec *s, const dpti_npz_use *use, dpti_arrays *to,
                              dpt_error *error)
{
    to->n = 0;
    to->part = NULL;
    return s->form == FORM_NPY ? read_pair(s, use->answers_only, to, error)
                               : read_one(s, use, to, error);
}

/* Finds how many classes the training part tells, if it is another one than the test part. */
static dpt_status count_classes(const spec *training, const spec *test, size_t *out,
                                dpt_error *error)
{
    const dpti_npz_use answers = {.part = DPT_TRAIN, .answers_only = true};
    dpti_arrays arrays = {.n = 0};
    dpt_status status = DPT_OK;
    if (training->form == FORM_NPZ || strcmp(test->words[0], training->words[0]) != 0)
        status = read_arrays(training, &answers, &arrays, error);
    *out = dpti_arrays_classes(&arrays);
    dpti_arrays_free(&arrays);
    return status;
}

/* Takes over the arrays, also after a failure. */
static dpt_status make(const spec *s, dpti_arrays *arrays, dpt_dataset **out, dpt_error *error)
{
    char *source =
        arrays->part ? dpti_format("%s (%s)", s->words[0], arrays->part) : dpti_strdup(s->words[0]);
    const dpti_arrays_origin origin = {.name = forms[s->form].kind,
                                       .source = source,
                                       .least_classes = s->least_classes,
                                       .divided = arrays->part != NULL};
    dpt_status status = DPT_OK;
    if (source) {
        status = dpti_dataset_of_arrays(arrays, &origin, out, error);
    } else {
        dpti_arrays_free(arrays);
        status = fail_memory(error);
    }
    free(source);
    return status;
}

static dpt_status open_part(const spec *training, dpt_part part, dpt_dataset **out,
                            dpt_error *error)
{
    spec s = {.form = training->form};
    dpti_arrays arrays = {.n = 0};
    const dpti_npz_use use = {.part = part};
    dpt_status status = DPT_OK;
    for (size_t i = 0; i < forms[s.form].n_words && status == DPT_OK; i++) {
        s.words[i] = dpti_strdup(training->words[i]);
        if (!s.words[i]) status = fail_memory(error);
    }
    if (status == DPT_OK && part == DPT_TEST) {
        find_test(&s);
        status = count_classes(training, &s, &s.least_classes, error);
    }
    if (status == DPT_OK) status = read_arrays(&s, &use, &arrays, error);
    if (status == DPT_OK)
        status = make(&s, &arrays, out, error);
    else
        dpti_arrays_free(&arrays);
    free_spec(&s);
    return status;
}

dpt_status dpti_array_files_open(const dpti_data_request *request, dpt_dataset **out,
                                 dpt_error *error)
{
    spec s;
    DPT_TRY(parse(request->name, &s, error));
    const dpt_status status = place(request->directory, &s)
                                  ? open_part(&s, request->part, out, error)
                                  : fail_memory(error);
    free_spec(&s);
    return status;
}
