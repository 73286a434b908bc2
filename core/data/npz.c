/* Several NumPy arrays in a zip file, stored or deflated.  libdeflate unpacks them. */
#include "data/array.h"

#include "base/memory.h"
#include "base/print.h"
#include "base/text.h"
#include "io/zip.h"

#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

static dpt_status unpack(const dpti_bytes *packed, const char *name, dpti_content *to,
                         dpt_error *error)
{
    struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
    if (!d) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to unpack %s", name);
    size_t used = 0, made = 0;
    const enum libdeflate_result result = libdeflate_deflate_decompress_ex(
        d, packed->data, packed->n_bytes, to->bytes, to->n_bytes, &used, &made);
    libdeflate_free_decompressor(d);
    if (result == LIBDEFLATE_SUCCESS && used == packed->n_bytes && made == to->n_bytes)
        return DPT_OK;
    return DPT_FAIL(error, DPT_E_FORMAT, "%s: the packed bytes are damaged; write the file again",
                    name);
}

static dpt_status check_sum(const dpti_bytes *bytes, const dpti_zip_entry *e, dpt_error *error)
{
    if (libdeflate_crc32(0, bytes->data, bytes->n_bytes) == e->crc) return DPT_OK;
    return DPT_FAIL(error, DPT_E_FORMAT, "%s: its checksum is wrong; write the file again",
                    e->label);
}

/* Parses a file that is stored where it is, or that is unpacked. */
static dpt_status read_array(const dpti_zip_entry *e, dpti_array *out, dpt_error *error)
{
    const char *name = e->label;
    size_t first = 0;
    DPT_TRY(dpti_zip_place(e, &first, error));
    dpti_bytes bytes = {e->source->file->bytes + first, (size_t)e->packed};
    dpti_content content = {.bytes = NULL};
    dpt_status status = DPT_OK;
    if (e->method == DPTI_ZIP_DEFLATED) {
        content.n_bytes = (size_t)e->size;
        if (e->size <= dpti_machine_memory())
            content.bytes = dpti_alloc_aligned(content.n_bytes ? content.n_bytes : 1);
        status = content.bytes
                     ? unpack(&bytes, name, &content, error)
                     : DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the %zu bytes of %s",
                                content.n_bytes, name);
        bytes = (dpti_bytes){content.bytes, content.n_bytes};
    }
    if (status == DPT_OK) status = check_sum(&bytes, e, error);
    if (status == DPT_OK)
        status = dpti_npy_parse(&(dpti_file_bytes){name, bytes.data, bytes.n_bytes}, out, error);
    free(content.bytes);
    return status;
}

/* ---- Parts ----------------------------------------------------------------------------------- */

enum { PART_TRAIN, PART_TEST, PART_VAL, N_PARTS };

static const char *const parts[N_PARTS] = {"train", "test", "val"};

/* A name without the word of its part. */
typedef struct parted {
    size_t part; /* N_PARTS: there is no such word */
    size_t begin, length;
} parted;

static parted take_apart(const char *name, size_t n)
{
    for (size_t p = 0; p < N_PARTS; p++) {
        const size_t word = strlen(parts[p]), rest = n > word + 1 ? n - word - 1 : 0;
        if (rest == 0) continue;
        if (memcmp(name, parts[p], word) == 0 && name[word] == '_')
            return (parted){p, word + 1, rest};
        if (memcmp(name + rest + 1, parts[p], word) == 0 && name[rest] == '_')
            return (parted){p, 0, rest};
    }
    return (parted){N_PARTS, 0, n};
}

/* ---- All files ------------------------------------------------------------------------------- */

/* The name of the array; NULL: the file is no array, or memory is short (*status). */
static char *name_of(const dpti_zip_entry *e, dpt_status *status, dpt_error *error)
{
    static const char suffix[] = ".npy";
    const size_t n_suffix = sizeof suffix - 1;
    if (e->name_length <= n_suffix ||
        memcmp(e->name + e->name_length - n_suffix, suffix, n_suffix) != 0)
        return NULL;
    const size_t n = e->name_length - n_suffix;
    char *name = memchr(e->name, 0, n) ? dpti_strdup("\1") : dpti_strndup(e->name, n);
    if (!name) {
        *status = DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to read %s", e->source->file->name);
    } else if (n > DPTI_ARRAY_NAME || name[dpti_plain_bytes(name)]) {
        free(name);
        name = NULL;
        *status = DPT_FAIL(error, DPT_E_FORMAT,
                           "%s: the name of an array cannot be printed or has more than %d bytes; "
                           "choose another one",
                           e->source->file->name, DPTI_ARRAY_NAME);
    }
    return name;
}

/* Adds an array, whose name it takes over. */
static dpt_status add(const dpti_zip_entry *e, char *name, dpti_arrays *to, dpt_error *error)
{
    const dpti_file_bytes *file = e->source->file;
    dpti_zip_entry labelled = *e;
    dpt_status status = DPT_OK;
    for (size_t i = 0; i < to->n; i++)
        if (strcmp(to->items[i].name, name) == 0)
            status =
                DPT_FAIL(error, DPT_E_FORMAT, "%s: two arrays are called %.80s", file->name, name);
    if (status == DPT_OK && to->n == DPTI_MAX_ARRAYS)
        status = DPT_FAIL(error, DPT_E_FORMAT, "%s: more than %d arrays; write only what is needed",
                          file->name, DPTI_MAX_ARRAYS);
    char *label = status == DPT_OK ? dpti_format("%s: %.80s", file->name, name) : NULL;
    if (status == DPT_OK && !label)
        status = DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to read %s", file->name);
    labelled.label = label;
    if (status == DPT_OK) status = read_array(&labelled, &to->items[to->n], error);
    free(label);
    if (status == DPT_OK)
        to->items[to->n++].name = name;
    else
        free(name);
    return status;
}

/* Sets the part to read: N_PARTS if the file is not divided. */
static dpt_status find_part(dpti_zip_list l, const dpti_npz_use *use, size_t *part,
                            dpt_error *error)
{
    bool has[N_PARTS + 1] = {false};
    while (l.at < l.end) {
        dpti_zip_entry e = {0};
        dpt_status status = DPT_OK;
        DPT_TRY(dpti_zip_next(&l, &e, error));
        char *name = name_of(&e, &status, error);
        DPT_TRY(status);
        if (name) has[take_apart(name, strlen(name)).part] = true;
        free(name);
    }
    *part = N_PARTS;
    if (has[N_PARTS] || !(has[PART_TRAIN] || has[PART_TEST] || has[PART_VAL])) return DPT_OK;
    *part = use->part == DPT_TRAIN ? PART_TRAIN
            : has[PART_TEST]       ? PART_TEST
            : has[PART_VAL]        ? PART_VAL
                                   : PART_TRAIN;
    if (has[*part] || use->answers_only) return DPT_OK;
    return DPT_FAIL(error, DPT_E_FORMAT,
                    "%s: all arrays are of a test part by their names, and none is of the training "
                    "part (train_... or ..._train)",
                    l.source->file->name);
}

/* Cuts the word of the part off.  Returns false for an array that is not wanted. */
static bool choose(char *name, size_t part, bool answers_only)
{
    const parted p = take_apart(name, strlen(name));
    if (part != N_PARTS) {
        if (p.part != part) return false;
        memmove(name, name + p.begin, p.length);
        name[p.length] = '\0';
    }
    return !answers_only || dpti_array_is_answer(name);
}

static dpt_status read_all(dpti_zip_list *l, const dpti_npz_use *use, dpti_arrays *to,
                           dpt_error *error)
{
    uint64_t total = 0;
    size_t part;
    DPT_TRY(find_part(*l, use, &part, error));
    to->part = part == N_PARTS ? NULL : parts[part];
    while (l->at < l->end) {
        dpti_zip_entry e = {0};
        dpt_status status = DPT_OK;
        DPT_TRY(dpti_zip_next(l, &e, error));
        char *name = name_of(&e, &status, error);
        DPT_TRY(status);
        if (!name || !choose(name, part, use->answers_only)) {
            free(name);
            continue;
        }
        /* Entries may overlap in the file, so that the sum is not bounded by the file's size. */
        total = e.size <= UINT64_MAX - total ? total + e.size : UINT64_MAX;
        if (total > dpti_machine_memory()) {
            free(name);
            return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the arrays of %s",
                            l->source->file->name);
        }
        DPT_TRY(add(&e, name, to, error));
    }
    return DPT_OK;
}

dpt_status dpti_npz_parse(const dpti_file_bytes *file, const dpti_npz_use *use, dpti_arrays *out,
                          dpt_error *error)
{
    const dpti_zip_source source = {file, "write it again with numpy.savez"};
    dpti_zip_list l = {0};
    DPT_TRY(dpti_zip_open(&source, &l, error));
    out->n = 0;
    const dpt_status status = read_all(&l, use, out, error);
    if (status != DPT_OK) dpti_arrays_free(out);
    return status;
}
