/* Data sets of text and of tokens.  A sample is a window of a sequence of ids; the labels are the
   ids behind each of them.

   Windows do not overlap: window i of an epoch begins at i * context + shift.  The shift is 0 in
   the first epoch and in evaluations, and random in each later epoch, keyed by the seed.  So an
   epoch has every id once, and later epochs cut the text in other places. */
#include "data/data.h"

#include "base/parse.h"
#include "base/print.h"
#include "base/random.h"
#include "base/text.h"
#include "data/text_paths.h"
#include "data/tokens.h"
#include "io/file.h"
#include "text/tokenizer.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_OPEN = 64 }; /* files that stay open */

/* ---- The name -------------------------------------------------------------------------------- */

/* "text:CONTEXT[:TOKENIZER]" or "tokens:CONTEXT[:u16|:u32][:VOCABULARY|:TOKENIZER]". */
typedef struct spec {
    bool text;
    size_t context;
    dpti_token_form form;
    size_t vocabulary;     /* 0: not given */
    const char *tokenizer; /* in the name, or NULL */
    const char *data;      /* the paths of the files */
} spec;

static bool begins(const char *name, const char *kind)
{
    const size_t n = strlen(kind);
    return strncmp(name, kind, n) == 0 && (name[n] == ':' || name[n] == '\0');
}

bool dpti_is_text(const char *name)
{
    return begins(name, "text") || begins(name, "tokens");
}

static dpt_status fail_spec(const char *name, dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_INVALID,
                    "'%.200s' names no data: write text:CONTEXT, or tokens:CONTEXT with :u16 or "
                    ":u32 and :VOCABULARY behind it if wanted; CONTEXT is 1 to %d",
                    name, DPTI_MAX_LABELS);
}

/* Takes the word that begins at *at, and moves *at to the colon behind it, or to the end. */
static bool take_size(const char **at, size_t most, size_t *out)
{
    char word[24];
    const size_t n = strcspn(*at, ":");
    if (n >= sizeof word) return false;
    memcpy(word, *at, n);
    word[n] = '\0';
    *at += n;
    return dpti_parse_size(word, 1, most, out);
}

static bool take_width(const char **at, dpti_token_form *out)
{
    static const struct {
        const char *word;
        dpti_token_form form;
    } widths[] = {{":u16", DPTI_TOKENS_U16}, {":u32", DPTI_TOKENS_U32}};
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        if (begins(*at, widths[i].word)) {
            *out = widths[i].form;
            *at += strlen(widths[i].word);
            return true;
        }
    return false;
}

static dpt_status parse(const char *name, spec *out, dpt_error *error)
{
    spec s = {.text = begins(name, "text"), .form = DPTI_TOKENS_U16};
    const char *at = strchr(name, ':');
    if (!at || (at++, !take_size(&at, DPTI_MAX_LABELS, &s.context))) return fail_spec(name, error);
    if (s.text)
        s.form = DPTI_TOKENS_BYTES;
    else
        (void)take_width(&at, &s.form);
    if (*at == ':') {
        const char *rest = ++at;
        const bool number = !s.text && take_size(&at, DPT_MAX_VOCABULARY, &s.vocabulary) && !*at;
        if (!number) s.vocabulary = 0;
        if (!number) s.tokenizer = rest;
        if (!*rest) return fail_spec(name, error);
    }
    *out = s;
    return DPT_OK;
}

/* ---- The sequence of ids --------------------------------------------------------------------- */

/* A tokenizer, if there is one, and the ids that it makes. */
typedef struct encoder {
    dpt_tokenizer *tokenizer;
    dpti_ids ids;   /* of one text */
    size_t n_bytes; /* of all texts */
    dpti_tokens *to;
} encoder;

/* Keeps ids in two bytes each if the vocabulary permits it. */
static bool pack(const encoder *e, dpti_token_memory *out)
{
    const dpti_ids *ids = &e->ids;
    const size_t bytes = dpti_tokenizer_vocabulary(e->tokenizer) <= 1 << 16 ? 2 : 4;
    void *packed = malloc(ids->n * bytes);
    if (!packed) return false;
    for (size_t i = 0; i < ids->n; i++)
        if (bytes == 2)
            ((uint16_t *)packed)[i] = (uint16_t)ids->items[i];
        else
            ((uint32_t *)packed)[i] = (uint32_t)ids->items[i];
    *out = (dpti_token_memory){packed, ids->n, bytes};
    return true;
}

/* Adds the ids of a file of text.  With `more` texts behind it the id that ends a text follows. */
static dpt_status add_text(encoder *e, const char *path, bool more, dpt_error *error)
{
    dpti_content content = {0};
    dpti_token_memory packed;
    const int32_t end = dpti_tokenizer_end(e->tokenizer);
    DPT_TRY(dpti_file_read(path, &content, error));
    e->ids.n = 0;
    e->n_bytes += content.n_bytes;
    dpt_status status = dpti_tokenizer_encode(
        e->tokenizer, (dpti_bytes){content.bytes, content.n_bytes}, &e->ids, error);
    free(content.bytes);
    DPT_TRY(status);
    if (more && end >= 0) DPT_TRY(dpti_ids_add(&e->ids, end, error));
    if (e->ids.n == 0) return DPT_FAIL(error, DPT_E_FORMAT, "%s is empty; leave it out", path);
    if (!pack(e, &packed))
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the ids of %s", path);
    return dpti_tokens_add_memory(e->to, path, &packed, error);
}

static dpt_status add_texts(encoder *e, const dpti_paths *paths, dpt_error *error)
{
    for (size_t i = 0; i < paths->n; i++)
        DPT_TRY(add_text(e, paths->items[i], i + 1 < paths->n, error));
    return DPT_OK;
}

static dpt_status add_files(const spec *s, const dpti_paths *paths, dpti_tokens *to,
                            dpt_error *error)
{
    for (size_t i = 0; i < paths->n; i++) {
        const dpti_token_source source = {paths->items[i], s->form, paths->n <= MOST_OPEN};
        DPT_TRY(dpti_tokens_add_file(to, &source, error));
    }
    return DPT_OK;
}

/* The ids of a part, and the name of its files. */
typedef struct part {
    dpti_tokens tokens;
    double bytes_per_id; /* of text; 0: not known */
    char *source;
} part;

static dpt_status add_all(const spec *s, const dpti_paths *paths, part *out, dpt_error *error)
{
    dpti_tokens *to = &out->tokens;
    encoder e = {.to = to};
    to->vocabulary = s->text ? 256 : s->vocabulary;
    if (s->tokenizer) DPT_TRY(dpti_tokenizer_read(s->tokenizer, &e.tokenizer, error));
    const dpt_status status =
        s->text && e.tokenizer ? add_texts(&e, paths, error) : add_files(s, paths, to, error);
    if (e.tokenizer) to->vocabulary = dpti_tokenizer_vocabulary(e.tokenizer);
    if (s->text && to->n > 0)
        out->bytes_per_id = e.tokenizer ? (double)e.n_bytes / (double)to->n : 1;
    dpti_tokenizer_free(e.tokenizer);
    free(e.ids.items);
    return status;
}

static void part_free(part *p)
{
    dpti_tokens_free(&p->tokens);
    free(p->source);
}

static char *name_files(const dpti_paths *paths)
{
    const size_t more = paths->n - 1;
    if (more == 0) return dpti_strdup(paths->items[0]);
    return dpti_format("%s and %zu more file%s", paths->items[0], more, more == 1 ? "" : "s");
}

/* Opens the files of a part.  After a failure *out must be freed, too. */
static dpt_status open_part(const spec *s, bool test, part *out, dpt_error *error)
{
    dpti_paths paths = {.n = 0};
    DPT_TRY(dpti_text_paths(s->data, test, &paths, error));
    out->source = name_files(&paths);
    const dpt_status status = out->source
                                  ? add_all(s, &paths, out, error)
                                  : DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a data set");
    dpti_paths_free(&paths);
    return status;
}

/* The largest id of the training part tells the vocabulary if nothing else does. */
static dpt_status find_vocabulary(const spec *s, part *p, dpt_error *error)
{
    part training = {.source = NULL};
    int32_t largest = 0;
    if (p->tokens.vocabulary) return DPT_OK;
    dpt_status status = open_part(s, false, &training, error);
    if (status == DPT_OK) status = dpti_tokens_largest(&training.tokens, &largest, error);
    part_free(&training);
    DPT_TRY(status);
    if (largest >= DPT_MAX_VOCABULARY)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: the largest id is %d, and a vocabulary has at most %d ids; are the "
                        "ids of another width (tokens:CONTEXT:u16 or :u32)?",
                        p->source, (int)largest, DPT_MAX_VOCABULARY);
    p->tokens.vocabulary = largest < 1 ? 2 : (size_t)largest + 1;
    return DPT_OK;
}

/* ---- Windows --------------------------------------------------------------------------------- */

/* What the reader's threads use. */
typedef struct windows {
    part part;
    size_t context, count;
    size_t most_shift;
} windows;

static void windows_free(void *user)
{
    windows *w = user;
    part_free(&w->part);
    free(w);
}

/* In training the windows may be shifted by any number below the context.  That costs one window,
   unless there is only one. */
static dpt_status count_windows(windows *w, bool training, dpt_error *error)
{
    const size_t n = w->part.tokens.n, context = w->context;
    if (n < context + 1)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "%.300s has %zu token%s, and a window of %zu needs %zu; give more text or "
                        "a smaller context",
                        w->part.source, n, n == 1 ? "" : "s", context, context + 1);
    w->count = training && n >= 2 * context ? n / context - 1 : (n - 1) / context;
    if (w->count > DPTI_MAX_RECORDS)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "%.300s has %zu windows of %zu, and at most %d can be used; choose a "
                        "larger context",
                        w->part.source, w->count, context, DPTI_MAX_RECORDS);
    const size_t left = n - 1 - w->count * context;
    w->most_shift = !training ? 0 : left < context ? left : context - 1;
    return DPT_OK;
}

static size_t shift_of(const windows *w, const dpti_image_use *use)
{
    dpti_random random;
    if (use->epoch <= 1 || w->most_shift == 0) return 0;
    dpti_random_init(&random, use->seed, DPTI_RANDOM_WINDOW, use->epoch);
    return dpti_random_below(&random, (uint32_t)w->most_shift + 1);
}

/* Reads a window: its ids, and then its labels. */
static dpt_status read_window(void *user, const dpti_wanted_image *wanted, void *image,
                              dpt_error *error)
{
    const windows *w = user;
    int32_t *ids = image;
    const size_t n = w->context, first = wanted->record * n + shift_of(w, wanted->use);
    DPT_TRY(dpti_tokens_read(&w->part.tokens, (dpti_token_piece){first, n + 1}, ids, error));
    /* 2 n numbers have room for n + 1, and with n = 1 the label is already in its place. */
    const int32_t last = ids[n];
    memmove(ids + n, ids + 1, (n - 1) * sizeof *ids);
    ids[2 * n - 1] = last;
    return DPT_OK;
}

/* ---- The data set ---------------------------------------------------------------------------- */

/* Takes over the windows, also after a failure. */
static dpt_status make_reader(windows *w, dpt_dataset *data, dpt_error *error)
{
    const dpti_image_source source = {.make = read_window,
                                      .destroy = windows_free,
                                      .user = w,
                                      .image_bytes = dpti_dataset_read_bytes(data)};
    return dpti_reader_create(&source, &data->reader, error);
}

static dpt_status describe(const windows *w, const dpti_data_request *request, dpt_dataset *out,
                           dpt_error *error)
{
    out->name = dpti_strdup(request->name);
    out->source = dpti_strdup(w->part.source);
    out->count = out->n_records = w->count;
    out->height = out->width = 1;
    out->channels = out->labels_per_sample = w->context;
    out->classes = out->vocabulary = w->part.tokens.vocabulary;
    out->dtype = DPT_I32;
    out->stat_channels = 1;
    out->scale[0] = 1;
    out->reads_labels = true;
    out->bytes_per_label = w->part.bytes_per_id;
    if (out->name && out->source) return DPT_OK;
    return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a data set");
}

/* Fills in the zeroed windows. */
static dpt_status open_windows(const spec *s, bool test, windows *w, dpt_error *error)
{
    w->context = s->context;
    DPT_TRY(open_part(s, test, &w->part, error));
    DPT_TRY(count_windows(w, !test, error));
    return find_vocabulary(s, &w->part, error);
}

dpt_status dpti_text_open(const dpti_data_request *request, dpt_dataset **out, dpt_error *error)
{
    spec s;
    DPT_TRY(parse(request->name, &s, error));
    if (!request->directory)
        return DPT_FAIL(error, DPT_E_INVALID, "%.100s needs files: give --data PATH",
                        request->name);
    s.data = request->directory;
    windows *w = calloc(1, sizeof *w);
    dpt_dataset *data = dpti_dataset_allocate();
    dpt_status status = w && data ? open_windows(&s, request->part == DPT_TEST, w, error)
                                  : DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a data set");
    if (status == DPT_OK) status = describe(w, request, data, error);
    if (status == DPT_OK)
        status = make_reader(w, data, error);
    else if (w)
        windows_free(w);
    if (status == DPT_OK && !request->unread) status = dpti_dataset_find_content(data, error);
    if (status == DPT_OK)
        *out = data;
    else
        dpt_dataset_destroy(data);
    return status;
}
