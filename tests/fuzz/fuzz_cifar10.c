/* Feeds arbitrary bytes to the reader of CIFAR-10's files, plain and gzipped.  For plain bytes the
   result is known: a file is accepted if and only if it consists of whole records with labels
   below ten, and the planes are those of the file. */
#include "data/data.h"
#include "fuzz.h"
#include "gzip.h"

enum { PLANE_BYTES = DPTI_CIFAR10_SIDE * DPTI_CIFAR10_SIDE };

static bool is_valid(const uint8_t *data, size_t size)
{
    if (size == 0 || size % DPTI_CIFAR10_RECORD_BYTES != 0) return false;
    for (size_t at = 0; at < size; at += DPTI_CIFAR10_RECORD_BYTES)
        if (data[at] > 9) return false;
    return true;
}

static void check_records(const uint8_t *data, size_t size, const dpti_cifar10 *batch)
{
    require(batch->count == size / DPTI_CIFAR10_RECORD_BYTES);
    for (size_t i = 0; i < batch->count; i++) {
        const uint8_t *record = data + i * DPTI_CIFAR10_RECORD_BYTES;
        const uint8_t *pixels = batch->images + i * DPTI_CIFAR10_IMAGE_BYTES;
        require(batch->labels[i] == record[0]);
        for (size_t k = 0; k < DPTI_CIFAR10_IMAGE_BYTES; k++)
            require(pixels[k % PLANE_BYTES * DPTI_CIFAR10_CHANNELS + k / PLANE_BYTES] ==
                    record[1 + k]);
    }
}

static dpt_status parse(const uint8_t *data, size_t size, dpti_cifar10 *out)
{
    dpt_error error = {.status = DPT_OK};
    const dpt_status status =
        dpti_cifar10_parse(&(dpti_file_bytes){"input", data, size}, out, &error);
    if (status != DPT_OK) require_refusal(status, &error);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    dpti_cifar10 plain = {0}, unpacked = {0};
    const dpt_status status = parse(data, size, &plain);
    if (!looks_like_gzip(data, size)) {
        require((status == DPT_OK) == is_valid(data, size));
        if (status == DPT_OK) check_records(data, size, &plain);
        size_t n_packed = 0;
        uint8_t *packed = pack_gzip(data, size, 1, &n_packed);
        if (packed) require(parse(packed, n_packed, &unpacked) == status);
        if (packed && status == DPT_OK) check_records(data, size, &unpacked);
        free(packed);
    }
    dpti_cifar10_free(&unpacked);
    dpti_cifar10_free(&plain);
    return 0;
}
