/* Feeds arbitrary bytes to the reader of CIFAR's files, plain and gzipped, and to that of the names
   of their classes.  For plain bytes the result is known: a file is accepted if and only if it
   consists of whole records with labels that are classes, and the planes are those of the file. */
#include "base/text.h"
#include "data/class_names.h"
#include "data/data.h"
#include "fuzz.h"
#include "gzip.h"

enum { PLANE_BYTES = DPTI_CIFAR_SIDE * DPTI_CIFAR_SIDE };

static size_t n_labels_of(dpti_cifar_labels of)
{
    return of == DPTI_CIFAR10 ? 1 : 2;
}

static bool is_valid(const uint8_t *data, size_t size, dpti_cifar_labels of)
{
    const size_t n_labels = n_labels_of(of), record_bytes = n_labels + DPTI_CIFAR_IMAGE_BYTES;
    if (size == 0 || size % record_bytes != 0) return false;
    for (size_t at = 0; at < size; at += record_bytes)
        if (data[at] >= (n_labels == 1 ? 10 : 20) || (n_labels == 2 && data[at + 1] >= 100))
            return false;
    return true;
}

static void check_records(const uint8_t *data, size_t size, const dpti_cifar *batch)
{
    const size_t n_labels = n_labels_of(batch->of), record_bytes = size / batch->count;
    require(batch->count * (n_labels + DPTI_CIFAR_IMAGE_BYTES) == size);
    for (size_t i = 0; i < batch->count; i++) {
        const uint8_t *record = data + i * record_bytes;
        const uint8_t *pixels = batch->images + i * DPTI_CIFAR_IMAGE_BYTES;
        require(batch->labels[i] == record[batch->of == DPTI_CIFAR100_FINE]);
        for (size_t k = 0; k < DPTI_CIFAR_IMAGE_BYTES; k++)
            require(pixels[k % PLANE_BYTES * DPTI_CIFAR_CHANNELS + k / PLANE_BYTES] ==
                    record[n_labels + k]);
    }
}

static dpt_status parse(const uint8_t *data, size_t size, dpti_cifar *out)
{
    dpt_error error = {.status = DPT_OK};
    const dpt_status status =
        dpti_cifar_parse(&(dpti_file_bytes){"input", data, size}, out, &error);
    if (status != DPT_OK) require_refusal(status, &error);
    return status;
}

static void parse_as(const uint8_t *data, size_t size, dpti_cifar_labels of)
{
    dpti_cifar plain = {.of = of}, unpacked = {.of = of};
    const dpt_status status = parse(data, size, &plain);
    if (!looks_like_gzip(data, size)) {
        require((status == DPT_OK) == is_valid(data, size, of));
        if (status == DPT_OK) check_records(data, size, &plain);
        size_t n_packed = 0;
        uint8_t *packed = pack_gzip(data, size, 1, &n_packed);
        if (packed) require(parse(packed, n_packed, &unpacked) == status);
        if (packed && status == DPT_OK) check_records(data, size, &unpacked);
        free(packed);
    }
    dpti_cifar_free(&unpacked);
    dpti_cifar_free(&plain);
}

/* As the names of one to three classes. */
static void parse_names(const uint8_t *data, size_t size)
{
    for (size_t n = 1; n <= 3; n++) {
        const char **names = NULL;
        dpt_error error = {.status = DPT_OK};
        const dpt_status status =
            dpti_class_names_parse(&(dpti_file_bytes){"input", data, size}, n, &names, &error);
        if (status != DPT_OK) {
            require_refusal(status, &error);
            continue;
        }
        for (size_t i = 0; i < n; i++)
            require(names[i][0] && !names[i][dpti_plain_bytes(names[i])]);
        free(names);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    for (dpti_cifar_labels of = 0; of < DPTI_N_CIFAR_LABELS; of++)
        parse_as(data, size, of);
    parse_names(data, size);
    return 0;
}
