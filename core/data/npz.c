/* Several NumPy arrays in a zip file, stored or deflated.  libdeflate unpacks them.
   https://pkware.cachefly.net/webdocs/casestudies/APPNOTE.TXT describes zip files. */
#include "data/array.h"

#include "base/memory.h"
#include "base/print.h"
#include "base/size.h"
#include "base/text.h"

#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

enum {
    END_BYTES = 22, /* of the record at the end, without its comment */
    MOST_COMMENT = 0xffff,
    ENTRY_BYTES = 46,    /* of an entry of the list, without its name */
    LOCAL_BYTES = 30,    /* of the header in front of a file, without its name */
    LONG_END_BYTES = 56, /* of the record at the end of a file of more than 4 GiB */
    LOCATOR_BYTES = 20,
    STORED = 0,
    DEFLATED = 8,
    DEFLATE_MAX_RATIO = 1032,
};

/* A file within the zip file. */
typedef struct entry {
    const dpti_file_bytes *file; /* the zip file */
    const char *label;           /* of an array, for messages; NULL: not yet known */
    const char *name;            /* name_length characters, not terminated */
    size_t name_length;
    unsigned flags, method;
    uint32_t crc;
    uint64_t packed, size, local; /* bytes, and the place of the local header */
} entry;

/* The list of the files: entries [at, end) are left. */
typedef struct list {
    const dpti_file_bytes *file;
    size_t at, end;
} list;

static uint32_t read16(const uint8_t *b)
{
    return (uint32_t)b[0] | (uint32_t)b[1] << 8;
}

static uint32_t read32(const uint8_t *b)
{
    return read16(b) | read16(b + 2) << 16;
}

static uint64_t read64(const uint8_t *b)
{
    return read32(b) | (uint64_t)read32(b + 4) << 32;
}

static dpt_status fail_damaged(const dpti_file_bytes *file, const char *what, dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_FORMAT,
                    "%s: no whole zip file (%s); write it again with numpy.savez", file->name,
                    what);
}

/* ---- The list -------------------------------------------------------------------------------- */

/* Whether [at, at + n) is within the file. */
static bool is_inside(const dpti_file_bytes *file, uint64_t at, uint64_t n)
{
    return at <= file->n_bytes && n <= file->n_bytes - at;
}

/* The last record that can be the end of the file. */
static bool find_end(const dpti_file_bytes *file, size_t *out)
{
    if (file->n_bytes < END_BYTES) return false;
    const size_t last = file->n_bytes - END_BYTES;
    for (size_t back = 0; back <= last && back <= MOST_COMMENT; back++) {
        const uint8_t *b = file->bytes + last - back;
        if (memcmp(b, "PK\5\6", 4) != 0 || read16(b + 20) != back) continue;
        *out = last - back;
        return true;
    }
    return false;
}

/* The place of the list; numbers of 64 bits are in a record of their own. */
static dpt_status find_list(const dpti_file_bytes *file, list *out, dpt_error *error)
{
    size_t end = 0;
    if (!find_end(file, &end)) return fail_damaged(file, "its end is missing", error);
    const uint8_t *b = file->bytes + end;
    uint64_t size = read32(b + 12), at = read32(b + 16);
    if ((size == UINT32_MAX || at == UINT32_MAX) && end >= LOCATOR_BYTES &&
        memcmp(b - LOCATOR_BYTES, "PK\6\7", 4) == 0) {
        const uint64_t place = read64(b - LOCATOR_BYTES + 8);
        if (!is_inside(file, place, LONG_END_BYTES) ||
            memcmp(file->bytes + place, "PK\6\6", 4) != 0)
            return fail_damaged(file, "its list is missing", error);
        size = read64(file->bytes + place + 40);
        at = read64(file->bytes + place + 48);
    }
    if (!is_inside(file, at, size) || at + size > end)
        return fail_damaged(file, "its list is missing", error);
    *out = (list){.file = file, .at = (size_t)at, .end = (size_t)(at + size)};
    return DPT_OK;
}

/* Replaces numbers that do not fit into 32 bits by those of the entry's extra field. */
static bool take_long_numbers(const uint8_t *extra, size_t n, entry *e)
{
    uint64_t *const numbers[] = {&e->size, &e->packed, &e->local};
    size_t at = 0;
    while (at + 4 <= n) {
        const size_t length = read16(extra + at + 2), first = at + 4;
        if (length > n - first) return false;
        at = first + length;
        if (read16(extra + first - 4) != 1) continue;
        size_t used = 0;
        for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++) {
            if (*numbers[i] != UINT32_MAX) continue;
            if (used + 8 > length) return false;
            *numbers[i] = read64(extra + first + used);
            used += 8;
        }
    }
    return true;
}

static dpt_status next_entry(list *l, entry *out, dpt_error *error)
{
    const dpti_file_bytes *file = l->file;
    const uint8_t *b = file->bytes + l->at;
    if (l->end - l->at < ENTRY_BYTES || memcmp(b, "PK\1\2", 4) != 0)
        return fail_damaged(file, "its list is damaged", error);
    const size_t n_name = read16(b + 28), n_extra = read16(b + 30), n_comment = read16(b + 32);
    if (l->end - l->at - ENTRY_BYTES < n_name + n_extra + n_comment)
        return fail_damaged(file, "its list is damaged", error);
    *out = (entry){.file = file,
                   .name = (const char *)b + ENTRY_BYTES,
                   .name_length = n_name,
                   .flags = read16(b + 8),
                   .method = read16(b + 10),
                   .crc = read32(b + 16),
                   .packed = read32(b + 20),
                   .size = read32(b + 24),
                   .local = read32(b + 42)};
    if (!take_long_numbers(b + ENTRY_BYTES + n_name, n_extra, out))
        return fail_damaged(file, "its list is damaged", error);
    l->at += ENTRY_BYTES + n_name + n_extra + n_comment;
    return DPT_OK;
}

/* ---- One file -------------------------------------------------------------------------------- */

/* Finds the packed bytes of a file. */
static dpt_status find_bytes(const entry *e, size_t *out, dpt_error *error)
{
    const dpti_file_bytes *file = e->file;
    if (!is_inside(file, e->local, LOCAL_BYTES) || memcmp(file->bytes + e->local, "PK\3\4", 4) != 0)
        return fail_damaged(file, "an array is missing", error);
    const uint8_t *b = file->bytes + e->local;
    const uint64_t first = e->local + LOCAL_BYTES + read16(b + 26) + read16(b + 28);
    if (!is_inside(file, first, e->packed)) return fail_damaged(file, "an array is cut off", error);
    if (e->flags & 1)
        return DPT_FAIL(error, DPT_E_FORMAT, "%s: encrypted; write it without a password",
                        e->label);
    if (e->method != STORED && e->method != DEFLATED)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: packed by method %u; use numpy.savez or numpy.savez_compressed",
                        e->label, e->method);
    if (e->method == STORED ? e->size != e->packed : e->size / DEFLATE_MAX_RATIO > e->packed)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: its size in the zip file is impossible; write the file again",
                        e->label);
    *out = (size_t)first;
    return DPT_OK;
}

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

static dpt_status check_sum(const dpti_bytes *bytes, const entry *e, dpt_error *error)
{
    if (libdeflate_crc32(0, bytes->data, bytes->n_bytes) == e->crc) return DPT_OK;
    return DPT_FAIL(error, DPT_E_FORMAT, "%s: its checksum is wrong; write the file again",
                    e->label);
}

/* Parses a file that is stored where it is, or that is unpacked. */
static dpt_status read_array(const entry *e, dpti_array *out, dpt_error *error)
{
    const char *name = e->label;
    size_t first = 0;
    DPT_TRY(find_bytes(e, &first, error));
    dpti_bytes bytes = {e->file->bytes + first, (size_t)e->packed};
    dpti_content content = {.bytes = NULL};
    dpt_status status = DPT_OK;
    if (e->method == DEFLATED) {
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

/* ---- All files ------------------------------------------------------------------------------- */

/* The name of the array; NULL: the file is no array, or memory is short (*status). */
static char *name_of(const entry *e, dpt_status *status, dpt_error *error)
{
    static const char suffix[] = ".npy";
    const size_t n_suffix = sizeof suffix - 1;
    if (e->name_length <= n_suffix ||
        memcmp(e->name + e->name_length - n_suffix, suffix, n_suffix) != 0)
        return NULL;
    const size_t n = e->name_length - n_suffix;
    char *name = memchr(e->name, 0, n) ? dpti_strdup("\1") : dpti_strndup(e->name, n);
    if (!name) {
        *status = DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to read %s", e->file->name);
    } else if (n > DPTI_ARRAY_NAME || name[dpti_plain_bytes(name)]) {
        free(name);
        name = NULL;
        *status = DPT_FAIL(error, DPT_E_FORMAT,
                           "%s: the name of an array cannot be printed or has more than %d bytes; "
                           "choose another one",
                           e->file->name, DPTI_ARRAY_NAME);
    }
    return name;
}

/* Adds an array, whose name it takes over. */
static dpt_status add(const entry *e, char *name, dpti_arrays *to, dpt_error *error)
{
    const dpti_file_bytes *file = e->file;
    entry labelled = *e;
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

static dpt_status read_all(list *l, bool answers_only, dpti_arrays *to, dpt_error *error)
{
    uint64_t total = 0;
    while (l->at < l->end) {
        entry e = {0};
        dpt_status status = DPT_OK;
        DPT_TRY(next_entry(l, &e, error));
        char *name = name_of(&e, &status, error);
        DPT_TRY(status);
        if (!name || (answers_only && !dpti_array_is_answer(name))) {
            free(name);
            continue;
        }
        /* Entries may overlap in the file, so that the sum is not bounded by the file's size. */
        total = e.size <= UINT64_MAX - total ? total + e.size : UINT64_MAX;
        if (total > dpti_machine_memory()) {
            free(name);
            return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the arrays of %s",
                            l->file->name);
        }
        DPT_TRY(add(&e, name, to, error));
    }
    return DPT_OK;
}

dpt_status dpti_npz_parse(const dpti_file_bytes *file, bool answers_only, dpti_arrays *out,
                          dpt_error *error)
{
    list l = {0};
    DPT_TRY(find_list(file, &l, error));
    out->n = 0;
    const dpt_status status = read_all(&l, answers_only, out, error);
    if (status != DPT_OK) dpti_arrays_free(out);
    return status;
}
