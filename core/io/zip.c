/* Reads the list of a zip file (zip.h). */
#include "io/zip.h"

#include <string.h>

enum {
    END_BYTES = 22, /* of the record at the end, without its comment */
    MOST_COMMENT = 0xffff,
    ENTRY_BYTES = 46,    /* of an entry of the list, without its name */
    LOCAL_BYTES = 30,    /* of the header in front of a file, without its name */
    LONG_END_BYTES = 56, /* of the record at the end of a file of more than 4 GiB */
    LOCATOR_BYTES = 20,
    DEFLATE_MAX_RATIO = 1032,
};

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

static dpt_status fail_damaged(const dpti_zip_source *source, const char *what, dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_FORMAT, "%s: no whole zip file (%s); %s", source->file->name, what,
                    source->advice);
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
dpt_status dpti_zip_open(const dpti_zip_source *source, dpti_zip_list *out, dpt_error *error)
{
    const dpti_file_bytes *file = source->file;
    size_t end = 0;
    if (!find_end(file, &end)) return fail_damaged(source, "its end is missing", error);
    const uint8_t *b = file->bytes + end;
    uint64_t size = read32(b + 12), at = read32(b + 16);
    if ((size == UINT32_MAX || at == UINT32_MAX) && end >= LOCATOR_BYTES &&
        memcmp(b - LOCATOR_BYTES, "PK\6\7", 4) == 0) {
        const uint64_t place = read64(b - LOCATOR_BYTES + 8);
        if (!is_inside(file, place, LONG_END_BYTES) ||
            memcmp(file->bytes + place, "PK\6\6", 4) != 0)
            return fail_damaged(source, "its list is missing", error);
        size = read64(file->bytes + place + 40);
        at = read64(file->bytes + place + 48);
    }
    if (!is_inside(file, at, size) || at + size > end)
        return fail_damaged(source, "its list is missing", error);
    *out = (dpti_zip_list){.source = source, .at = (size_t)at, .end = (size_t)(at + size)};
    return DPT_OK;
}

/* Replaces numbers that do not fit into 32 bits by those of the entry's extra field. */
static bool take_long_numbers(const uint8_t *extra, size_t n, dpti_zip_entry *e)
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

dpt_status dpti_zip_next(dpti_zip_list *list, dpti_zip_entry *out, dpt_error *error)
{
    dpti_zip_list *l = list;
    const dpti_zip_source *source = l->source;
    const dpti_file_bytes *file = source->file;
    const uint8_t *b = file->bytes + l->at;
    if (l->end - l->at < ENTRY_BYTES || memcmp(b, "PK\1\2", 4) != 0)
        return fail_damaged(source, "its list is damaged", error);
    const size_t n_name = read16(b + 28), n_extra = read16(b + 30), n_comment = read16(b + 32);
    if (l->end - l->at - ENTRY_BYTES < n_name + n_extra + n_comment)
        return fail_damaged(source, "its list is damaged", error);
    *out = (dpti_zip_entry){.source = source,
                            .name = (const char *)b + ENTRY_BYTES,
                            .name_length = n_name,
                            .flags = read16(b + 8),
                            .method = read16(b + 10),
                            .crc = read32(b + 16),
                            .packed = read32(b + 20),
                            .size = read32(b + 24),
                            .local = read32(b + 42)};
    if (!take_long_numbers(b + ENTRY_BYTES + n_name, n_extra, out))
        return fail_damaged(source, "its list is damaged", error);
    l->at += ENTRY_BYTES + n_name + n_extra + n_comment;
    return DPT_OK;
}

/* ---- One file -------------------------------------------------------------------------------- */

/* Finds the packed bytes of a file. */
dpt_status dpti_zip_place(const dpti_zip_entry *entry, size_t *first, dpt_error *error)
{
    const dpti_zip_entry *e = entry;
    const dpti_zip_source *source = e->source;
    const dpti_file_bytes *file = source->file;
    if (!is_inside(file, e->local, LOCAL_BYTES) || memcmp(file->bytes + e->local, "PK\3\4", 4) != 0)
        return fail_damaged(source, "a file is missing", error);
    const uint8_t *b = file->bytes + e->local;
    const uint64_t place = e->local + LOCAL_BYTES + read16(b + 26) + read16(b + 28);
    if (!is_inside(file, place, e->packed)) return fail_damaged(source, "a file is cut off", error);
    if (e->flags & 1)
        return DPT_FAIL(error, DPT_E_FORMAT, "%s: encrypted; write it without a password",
                        e->label);
    if (e->method != DPTI_ZIP_STORED && e->method != DPTI_ZIP_DEFLATED)
        return DPT_FAIL(error, DPT_E_FORMAT, "%s: packed by method %u; %s", e->label, e->method,
                        source->advice);
    if (e->method == DPTI_ZIP_STORED ? e->size != e->packed
                                     : e->size / DEFLATE_MAX_RATIO > e->packed)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: its size in the zip file is impossible; write the file again",
                        e->label);
    *first = (size_t)place;
    return DPT_OK;
}
