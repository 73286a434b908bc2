/* Sequences of ids (tokens.h).  Files are read with pread, and not mapped: a file that becomes
   shorter is then an error with a message, and not a signal. */
#include "data/tokens.h"

#include "base/grow.h"
#include "base/text.h"
#include "io/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The ids of a file, or ids in memory. */
struct dpti_token_run {
    char *path;
    int fd;          /* -1: the file is opened when it is read */
    uint8_t *memory; /* NULL: a file */
    dpti_token_layout layout;
    size_t first; /* number of its first id in the sequence */
};

static dpt_status fail_memory(dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to read tokens");
}

void dpti_tokens_free(dpti_tokens *tokens)
{
    for (size_t i = 0; i < tokens->n_runs; i++) {
        dpti_token_run *r = &tokens->runs[i];
        if (r->fd >= 0) close(r->fd);
        free(r->memory);
        free(r->path);
    }
    free(tokens->runs);
    *tokens = (dpti_tokens){.runs = NULL};
}

/* ---- Adding ---------------------------------------------------------------------------------- */

typedef struct open_file {
    int fd;
    const char *path;
} open_file;

/* Reads n bytes at an offset. */
static dpt_status read_at(const open_file *file, size_t offset, dpti_content to, dpt_error *error)
{
    size_t done = 0;
    while (done < to.n_bytes) {
        const ssize_t n =
            pread(file->fd, to.bytes + done, to.n_bytes - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0)
            return DPT_FAIL_NATIVE(error, DPT_E_IO, errno, "cannot read %s: %s", file->path,
                                   strerror(errno));
        if (n == 0)
            return DPT_FAIL(error, DPT_E_FORMAT,
                            "%s has become shorter since it was opened; start again with files "
                            "that do not change",
                            file->path);
        done += (size_t)n;
    }
    return DPT_OK;
}

/* Makes room for one more run; NULL: memory is short. */
static dpti_token_run *add_run(dpti_tokens *t, const char *path)
{
    dpti_token_run *runs = dpti_grow(t->runs, t->n_runs, &t->room, sizeof *runs);
    if (!runs) return NULL;
    t->runs = runs;
    char *copy = dpti_strdup(path);
    if (!copy) return NULL;
    dpti_token_run *r = &t->runs[t->n_runs];
    *r = (dpti_token_run){.path = copy, .fd = -1, .first = t->n};
    return r;
}

/* Reads the first bytes of an open file, and finds its layout. */
static dpt_status describe(dpti_token_run *r, size_t file_bytes, dpti_token_form form,
                           dpt_error *error)
{
    const size_t all = file_bytes < DPTI_TOKEN_HEAD ? file_bytes : DPTI_TOKEN_HEAD;
    const size_t n = form == DPTI_TOKENS_BYTES ? 0 : all;
    uint8_t *head = malloc(n + 1);
    if (!head) return fail_memory(error);
    const dpti_token_file file = {{r->path, head, n}, file_bytes, form};
    dpt_status status = read_at(&(open_file){r->fd, r->path}, 0, (dpti_content){head, n}, error);
    if (status == DPT_OK) status = dpti_token_layout_find(&file, &r->layout, error);
    free(head);
    return status;
}

dpt_status dpti_tokens_add_file(dpti_tokens *tokens, const dpti_token_source *source,
                                dpt_error *error)
{
    struct stat info;
    int fd = -1;
    DPT_TRY(dpti_file_open(source->path, &fd, &info, error));
    dpti_token_run *r = add_run(tokens, source->path);
    if (!r) {
        close(fd);
        return fail_memory(error);
    }
    r->fd = fd;
    const dpt_status status = describe(r, (size_t)info.st_size, source->form, error);
    if (status != DPT_OK || !source->keep_open) {
        close(fd);
        r->fd = -1;
    }
    if (status == DPT_OK) {
        tokens->n += r->layout.n;
        tokens->n_runs++;
    } else {
        free(r->path);
    }
    return status;
}

dpt_status dpti_tokens_add_memory(dpti_tokens *tokens, const char *path,
                                  const dpti_token_memory *memory, dpt_error *error)
{
    static const uint16_t one = 1;
    dpti_token_run *r = add_run(tokens, path);
    if (!r) {
        free(memory->ids);
        return fail_memory(error);
    }
    r->memory = memory->ids;
    r->layout = (dpti_token_layout){
        .bytes = memory->bytes, .n = memory->n, .swapped = *(const uint8_t *)&one == 0};
    tokens->n += memory->n;
    tokens->n_runs++;
    return DPT_OK;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* The run that holds an id. */
static const dpti_token_run *run_of(const dpti_tokens *t, size_t id)
{
    size_t low = 0, high = t->n_runs;
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (t->runs[middle].first <= id)
            low = middle;
        else
            high = middle;
    }
    return &t->runs[low];
}

/* Reads the bytes of ids of one file. */
static dpt_status read_file(const dpti_token_run *r, dpti_token_piece at, uint8_t *bytes,
                            dpt_error *error)
{
    const size_t offset = r->layout.offset + at.first * r->layout.bytes;
    const dpti_content to = {bytes, at.n * r->layout.bytes};
    struct stat info;
    int fd = r->fd;
    if (fd < 0) DPT_TRY(dpti_file_open(r->path, &fd, &info, error));
    const dpt_status status = read_at(&(open_file){fd, r->path}, offset, to, error);
    if (r->fd < 0) close(fd);
    return status;
}

/* The value of an id that does not fit into int32_t, for a message. */
static dpt_status fail_id(const dpti_tokens *t, const dpti_token_run *r, size_t at,
                          dpt_error *error)
{
    if (!t->vocabulary)
        return DPT_FAIL(error, DPT_E_FORMAT, "%s: the id at place %zu is not from 0 to %d", r->path,
                        at, INT32_MAX);
    return DPT_FAIL(error, DPT_E_FORMAT,
                    "%s: the id at place %zu is out of range: the vocabulary has %zu ids, from 0",
                    r->path, at, t->vocabulary);
}

/* Reads the first ids of a piece: those in one run, which leave the piece. */
static dpt_status read_some(const dpti_tokens *t, dpti_token_piece *piece, int32_t *out,
                            dpt_error *error)
{
    const dpti_token_run *r = run_of(t, piece->first);
    const size_t first = piece->first - r->first, left = r->layout.n - first;
    const dpti_token_piece at = {first, piece->n < left ? piece->n : left};
    const size_t size = r->layout.bytes;
    uint8_t *bytes = r->memory ? NULL : malloc(at.n * size);
    if (!r->memory && !bytes) return fail_memory(error);
    dpt_status status = bytes ? read_file(r, at, bytes, error) : DPT_OK;
    const uint8_t *from = bytes ? bytes : r->memory + at.first * size;
    size_t good = status == DPT_OK ? dpti_token_convert(&r->layout, from, at.n, out) : 0;
    for (size_t i = 0; t->vocabulary && i < good; i++)
        if ((size_t)out[i] >= t->vocabulary) good = i;
    free(bytes);
    if (status == DPT_OK && good < at.n) status = fail_id(t, r, at.first + good, error);
    piece->first += at.n;
    piece->n -= at.n;
    return status;
}

dpt_status dpti_tokens_read(const dpti_tokens *tokens, dpti_token_piece piece, int32_t *out,
                            dpt_error *error)
{
    while (piece.n > 0) {
        const size_t before = piece.n;
        DPT_TRY(read_some(tokens, &piece, out, error));
        out += before - piece.n;
    }
    return DPT_OK;
}

dpt_status dpti_tokens_largest(const dpti_tokens *tokens, int32_t *out, dpt_error *error)
{
    enum { PIECE = 1 << 18 };
    int32_t largest = 0, *ids = malloc(PIECE * sizeof *ids);
    if (!ids) return fail_memory(error);
    dpt_status status = DPT_OK;
    for (size_t i = 0; status == DPT_OK && i < tokens->n; i += PIECE) {
        const size_t n = tokens->n - i < PIECE ? tokens->n - i : PIECE;
        status = dpti_tokens_read(tokens, (dpti_token_piece){i, n}, ids, error);
        for (size_t k = 0; status == DPT_OK && k < n; k++)
            if (ids[k] > largest) largest = ids[k];
    }
    free(ids);
    if (status == DPT_OK) *out = largest;
    return status;
}
