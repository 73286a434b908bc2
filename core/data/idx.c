/* IDX files of unsigned bytes: a header that tells the sizes, and the elements. */
#include "data/data.h"

#include "base/base.h"
#include "data/source.h"

#include <stdlib.h>

enum { MAX_RANK = 4, TYPE_UNSIGNED_BYTE = 0x08 };

static dpt_status fail_truncated(const char *name, size_t have, size_t want, dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_FORMAT,
                    "%s: truncated: its header promises %zu bytes and %zu are there; download it "
                    "again",
                    name, want, have);
}

static dpt_status read_header(const char *name, dpti_source *source, dpti_idx *out,
                              dpt_error *error)
{
    uint8_t magic[4], extent[4];
    size_t n_read = 0;
    DPT_TRY(dpti_source_read(source, magic, sizeof magic, &n_read, error));
    if (n_read < sizeof magic || magic[0] != 0 || magic[1] != 0)
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
    for (size_t d = 0; d < out->rank; d++) {
        DPT_TRY(dpti_source_read(source, extent, sizeof extent, &n_read, error));
        if (n_read < sizeof extent)
            return fail_truncated(name, 4 + 4 * d + n_read, 4 + 4 * out->rank, error);
        out->shape[d] =
            (size_t)extent[0] << 24 | (size_t)extent[1] << 16 | (size_t)extent[2] << 8 | extent[3];
    }
    return DPT_OK;
}

/* The number of elements, checked against what the source can hold before memory is taken. */
static dpt_status count_elements(const char *name, const dpti_source *source, const dpti_idx *idx,
                                 size_t *out, dpt_error *error)
{
    const size_t header = 4 + 4 * idx->rank;
    size_t n = 1, total = 0;
    bool fits = true;
    for (size_t d = 0; fits && d < idx->rank; d++)
        fits = dpti_multiply(n, idx->shape[d], &n);
    if (!fits || !dpti_add(n, header, &total))
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: the sizes in the IDX header are impossible; download it again", name);
    const size_t limit = dpti_source_limit(source);
    if (total > limit) return fail_truncated(name, limit, total, error);
    *out = n;
    return DPT_OK;
}

static dpt_status read_all(const char *name, dpti_source *source, dpti_idx *out, dpt_error *error)
{
    dpti_idx idx = {0};
    size_t n = 0, n_read = 0;
    DPT_TRY(read_header(name, source, &idx, error));
    DPT_TRY(count_elements(name, source, &idx, &n, error));
    idx.data = dpti_alloc_aligned(n);
    if (!idx.data)
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the %zu bytes of %s", n, name);

    dpt_status status = dpti_source_read(source, idx.data, n, &n_read, error);
    if (status == DPT_OK && n_read < n)
        status = fail_truncated(name, 4 + 4 * idx.rank + n_read, 4 + 4 * idx.rank + n, error);
    if (status == DPT_OK) status = dpti_source_end(source, error);
    if (status == DPT_OK)
        *out = idx;
    else
        free(idx.data);
    return status;
}

dpt_status dpti_idx_read(const char *path, dpti_idx *out, dpt_error *error)
{
    dpti_source *source = NULL;
    DPT_TRY(dpti_source_open(path, &source, error));
    const dpt_status status = read_all(path, source, out, error);
    dpti_source_close(source);
    return status;
}

dpt_status dpti_idx_parse(const char *name, const uint8_t *bytes, size_t n_bytes, dpti_idx *out,
                          dpt_error *error)
{
    dpti_source *source = NULL;
    DPT_TRY(dpti_source_memory(name, bytes, n_bytes, &source, error));
    const dpt_status status = read_all(name, source, out, error);
    dpti_source_close(source);
    return status;
}
