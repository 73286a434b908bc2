/* Feeds arbitrary bytes to the reader of IDX files: unchanged (plain, or gzip if they look like
   it), and packed into a gzip stream, because a fuzzer does not find valid checksums. */
#include "data/data.h"
#include "fuzz.h"
#include "gzip.h"

/* What an accepted file must be: no larger than deflate could have made it, and all there. */
static size_t check_idx(const dpti_idx *idx, size_t n_bytes)
{
    size_t n = 1;
    volatile uint8_t sum = 0; /* so that the bytes are read */
    require(idx->rank >= 1 && idx->rank <= 4);
    for (size_t d = 0; d < idx->rank; d++)
        n *= idx->shape[d];
    require(n <= n_bytes * 1032);
    for (size_t i = 0; i < n; i++)
        sum = (uint8_t)(sum + idx->data[i]);
    return n;
}

static dpt_status parse(const uint8_t *data, size_t size, dpti_idx *out)
{
    dpt_error error = {.status = DPT_OK};
    const dpt_status status = dpti_idx_parse(&(dpti_file_bytes){"input", data, size}, out, &error);
    if (status == DPT_OK)
        check_idx(out, size);
    else
        require_refusal(status, &error);
    return status;
}

/* The same bytes as labels: what was accepted as bytes of rank 1 is the same numbers. */
static void check_labels(const uint8_t *data, size_t size, dpt_status status, const dpti_idx *idx)
{
    dpt_error error = {.status = DPT_OK};
    dpti_labels labels = {0};
    const dpt_status read =
        dpti_labels_parse(&(dpti_file_bytes){"input", data, size}, &labels, &error);
    require((read == DPT_OK) == (labels.values != NULL));
    if (read != DPT_OK) require_refusal(read, &error);
    for (size_t i = 0; i < labels.count; i++)
        require(labels.values[i] >= 0 && labels.values[i] < DPTI_MAX_CLASSES);
    if (status == DPT_OK && idx->rank == 1) {
        require(read == DPT_OK && labels.count == idx->shape[0]);
        for (size_t i = 0; i < labels.count; i++)
            require(labels.values[i] == idx->data[i]);
    }
    free(labels.values);
}

/* Packed by gzip the same bytes mean the same. */
static void check_packed(const uint8_t *data, size_t size, dpt_status expected, const dpti_idx *idx)
{
    size_t n_packed = 0;
    uint8_t *packed = pack_gzip(data, size, 1, &n_packed);
    if (!packed) return;
    dpti_idx again = {0};
    require(parse(packed, n_packed, &again) == expected);
    if (expected == DPT_OK) {
        require(again.rank == idx->rank);
        require(memcmp(again.shape, idx->shape, sizeof again.shape) == 0);
        require(memcmp(again.data, idx->data, check_idx(idx, size)) == 0);
        free(again.data);
    }
    free(packed);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dpti_idx idx = {0};
    const dpt_status status = parse(data, size, &idx);
    if (!looks_like_gzip(data, size)) check_packed(data, size, status, &idx);
    check_labels(data, size, status, &idx);
    if (status == DPT_OK) free(idx.data);
    return 0;
}
