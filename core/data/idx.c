/* Reads IDX files: a header with the sizes, then the elements.  Elements are unsigned bytes,
   except that labels may have other types. */
#include "data/data.h"

#include "base/memory.h"
#include "base/size.h"
#include "data/source.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_RANK = 4, TYPE_UNSIGNED_BYTE = 0x08, TYPE_16_BITS = 0x0B, TYPE_32_BITS = 0x0C };

/* The content of the header. */
typedef struct header {
    uint8_t type;
    size_t rank, shape[MAX_RANK];
} header;

static dpt_status fail_truncated(const char *name, size_t have, size_t want, dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_FORMAT,
                    "%s: truncated: its header promises %zu bytes and %zu are there; download it "
                    "again",
                    name, want, have);
}

static size_t header_bytes(const header *h)
{
    return 4 + 4 * h->rank;
}

static size_t element_bytes(const header *h)
{
    return h->type == TYPE_32_BITS ? 4 : h->type == TYPE_16_BITS ? 2 : 1;
}

static dpt_status check_type(const char *name, uint8_t type, bool labels, dpt_error *error)
{
    if (type == TYPE_UNSIGNED_BYTE) return DPT_OK;
    if (labels && (type == TYPE_16_BITS || type == TYPE_32_BITS)) return DPT_OK;
    return DPT_FAIL(error, DPT_E_FORMAT,
                    "%s: IDX elements of type %02x; convert them to unsigned "
                    "bytes (08)%s",
                    name, type, labels ? ", or to 16 or 32 bits (0B, 0C)" : "");
}

static dpt_status read_header(const dpti_file_bytes *file, bool labels, header *out,
                              dpt_error *error)
{
    const char *name = file->name;
    const uint8_t *magic = file->bytes;
    if (file->n_bytes < 4 || magic[0] != 0 || magic[1] != 0)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: no IDX file (it must begin with 00 00 08 and the rank); check the "
                        "path or download it again",
                        name);
    DPT_TRY(check_type(name, magic[2], labels, error));
    if (magic[3] < 1 || magic[3] > MAX_RANK)
        return DPT_FAIL(error, DPT_E_FORMAT, "%s: IDX rank %d, only 1 to %d can be read", name,
                        magic[3], MAX_RANK);
    *out = (header){.type = magic[2], .rank = magic[3]};
    if (file->n_bytes < header_bytes(out))
        return fail_truncated(name, file->n_bytes, header_bytes(out), error);
    for (size_t d = 0; d < out->rank; d++) {
        const uint8_t *extent = magic + 4 + 4 * d;
        out->shape[d] =
            (size_t)extent[0] << 24 | (size_t)extent[1] << 16 | (size_t)extent[2] << 8 | extent[3];
    }
    return DPT_OK;
}

/* Returns the number of elements if exactly these elements follow the header. */
static dpt_status count_elements(const dpti_file_bytes *file, const header *h, size_t *out,
                                 dpt_error *error)
{
    size_t n = 1, total = 0;
    bool fits = true;
    for (size_t d = 0; fits && d < h->rank; d++)
        fits = dpti_multiply(n, h->shape[d], &n);
    if (!fits || !dpti_multiply(n, element_bytes(h), &total) ||
        !dpti_add(total, header_bytes(h), &total))
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: the sizes in the IDX header are impossible; download it again",
                        file->name);
    if (total > file->n_bytes) return fail_truncated(file->name, file->n_bytes, total, error);
    if (total < file->n_bytes)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: there are bytes behind the end; download it again", file->name);
    *out = n;
    return DPT_OK;
}

/* ---- Bytes of any rank ----------------------------------------------------------------------- */

/* Moves the content into *out, or frees it after a failure. */
static dpt_status take_content(const char *name, const dpti_content *content, dpti_idx *out,
                               dpt_error *error)
{
    const dpti_file_bytes file = {name, content->bytes, content->n_bytes};
    header h = {.rank = 0};
    size_t n = 0;
    dpt_status status = read_header(&file, false, &h, error);
    if (status == DPT_OK) status = count_elements(&file, &h, &n, error);
    if (status != DPT_OK) {
        free(content->bytes);
        return status;
    }
    /* The elements overwrite the header, so that they are aligned. */
    memmove(content->bytes, content->bytes + header_bytes(&h), n);
    *out = (dpti_idx){.rank = h.rank, .data = content->bytes};
    memcpy(out->shape, h.shape, sizeof out->shape);
    return DPT_OK;
}

dpt_status dpti_idx_read(const char *path, dpti_idx *out, dpt_error *error)
{
    dpti_content content = {0};
    DPT_TRY(dpti_source_read(path, &content, error));
    return take_content(path, &content, out, error);
}

dpt_status dpti_idx_parse(const dpti_file_bytes *file, dpti_idx *out, dpt_error *error)
{
    dpti_content content = {0};
    DPT_TRY(dpti_source_copy(file, &content, error));
    return take_content(file->name, &content, out, error);
}

/* ---- Labels ---------------------------------------------------------------------------------- */

/* Reads a big-endian integer.  It is signed if it has several bytes. */
static int32_t number_of(const uint8_t *bytes, size_t n_bytes)
{
    uint32_t value = n_bytes > 1 && bytes[0] >= 0x80 ? UINT32_MAX : 0;
    for (size_t i = 0; i < n_bytes; i++)
        value = value << 8 | bytes[i];
    return (int32_t)value;
}

/* Fills out->values, which has room for out->count labels. */
static dpt_status take_labels(const dpti_file_bytes *file, const header *h, dpti_labels *out,
                              dpt_error *error)
{
    const uint8_t *bytes = file->bytes + header_bytes(h);
    const size_t n_bytes = element_bytes(h);
    for (size_t i = 0; i < out->count; i++) {
        const int32_t label = number_of(bytes + i * n_bytes, n_bytes);
        if (label < 0 || label >= DPTI_MAX_CLASSES)
            return DPT_FAIL(error, DPT_E_FORMAT,
                            "%s: label %d of sample %zu is out of range, they are 0 to %d",
                            file->name, (int)label, i, DPTI_MAX_CLASSES - 1);
        out->values[i] = label;
    }
    return DPT_OK;
}

static dpt_status convert(const dpti_file_bytes *file, dpti_labels *out, dpt_error *error)
{
    header h = {.rank = 0};
    size_t n = 0;
    DPT_TRY(read_header(file, true, &h, error));
    if (h.rank != 1)
        return DPT_FAIL(error, DPT_E_FORMAT, "%s: labels have rank 1, this file has rank %zu",
                        file->name, h.rank);
    DPT_TRY(count_elements(file, &h, &n, error));
    dpti_labels labels = {.count = n};
    /* The labels need fewer bytes than the file has. */
    labels.values = dpti_alloc_aligned(n > 0 ? n * sizeof *labels.values : 1);
    if (!labels.values)
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the labels of %s", file->name);
    const dpt_status status = take_labels(file, &h, &labels, error);
    if (status == DPT_OK)
        *out = labels;
    else
        free(labels.values);
    return status;
}

dpt_status dpti_labels_read(const char *path, dpti_labels *out, dpt_error *error)
{
    dpti_content content = {0};
    DPT_TRY(dpti_source_read(path, &content, error));
    const dpt_status status =
        convert(&(dpti_file_bytes){path, content.bytes, content.n_bytes}, out, error);
    free(content.bytes);
    return status;
}

dpt_status dpti_labels_parse(const dpti_file_bytes *file, dpti_labels *out, dpt_error *error)
{
    dpti_content content = {0};
    DPT_TRY(dpti_source_copy(file, &content, error));
    const dpt_status status =
        convert(&(dpti_file_bytes){file->name, content.bytes, content.n_bytes}, out, error);
    free(content.bytes);
    return status;
}
