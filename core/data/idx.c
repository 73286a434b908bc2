/* IDX files of unsigned bytes: a header that tells the sizes, and the elements. */
#include "data/data.h"

#include "base/base.h"
#include "data/source.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_RANK = 4, TYPE_UNSIGNED_BYTE = 0x08 };

static dpt_status fail_truncated(const char *name, size_t have, size_t want, dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_FORMAT,
                    "%s: truncated: its header promises %zu bytes and %zu are there; download it "
                    "again",
                    name, want, have);
}

static size_t header_bytes(const dpti_idx *idx)
{
    return 4 + 4 * idx->rank;
}

static dpt_status read_header(const char *name, const dpti_content *content, dpti_idx *out,
                              dpt_error *error)
{
    const uint8_t *magic = content->bytes;
    if (content->n_bytes < 4 || magic[0] != 0 || magic[1] != 0)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: no IDX file (it must begin with 00 00 08 and the rank); check the "
                        "path or download it again",
                        name);
    if (magic[2] != TYPE_UNSIGNED_BYTE)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: IDX elements of type %02x; convert them to unsigned bytes (08)", name,
                        magic[2]);
    if (magic[3] < 1 || magic[3] > MAX_RANK)
        return DPT_FAIL(error, DPT_E_FORMAT, "%s: IDX rank %d, only 1 to %d can be read", name,
                        magic[3], MAX_RANK);
    out->rank = magic[3];
    if (content->n_bytes < header_bytes(out))
        return fail_truncated(name, content->n_bytes, header_bytes(out), error);
    for (size_t d = 0; d < out->rank; d++) {
        const uint8_t *extent = magic + 4 + 4 * d;
        out->shape[d] =
            (size_t)extent[0] << 24 | (size_t)extent[1] << 16 | (size_t)extent[2] << 8 | extent[3];
    }
    return DPT_OK;
}

/* The number of elements, if the content has exactly them behind its header. */
static dpt_status count_elements(const char *name, const dpti_content *content, const dpti_idx *idx,
                                 size_t *out, dpt_error *error)
{
    size_t n = 1, total = 0;
    bool fits = true;
    for (size_t d = 0; fits && d < idx->rank; d++)
        fits = dpti_multiply(n, idx->shape[d], &n);
    if (!fits || !dpti_add(n, header_bytes(idx), &total))
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: the sizes in the IDX header are impossible; download it again", name);
    if (total > content->n_bytes) return fail_truncated(name, content->n_bytes, total, error);
    if (total < content->n_bytes)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: there are bytes behind the end; download it again", name);
    *out = n;
    return DPT_OK;
}

/* Makes the content into *out, or frees it. */
static dpt_status take_content(const char *name, const dpti_content *content, dpti_idx *out,
                               dpt_error *error)
{
    dpti_idx idx = {.data = content->bytes};
    size_t n = 0;
    dpt_status status = read_header(name, content, &idx, error);
    if (status == DPT_OK) status = count_elements(name, content, &idx, &n, error);
    if (status != DPT_OK) {
        free(content->bytes);
        return status;
    }
    /* Over the header, so that they are aligned. */
    memmove(idx.data, idx.data + header_bytes(&idx), n);
    *out = idx;
    return DPT_OK;
}

dpt_status dpti_idx_read(const char *path, dpti_idx *out, dpt_error *error)
{
    dpti_content content = {0};
    DPT_TRY(dpti_source_read(path, &content, error));
    return take_content(path, &content, out, error);
}

dpt_status dpti_idx_parse(const char *name, const uint8_t *bytes, size_t n_bytes, dpti_idx *out,
                          dpt_error *error)
{
    dpti_content content = {0};
    DPT_TRY(dpti_source_copy(name, bytes, n_bytes, &content, error));
    return take_content(name, &content, out, error);
}
