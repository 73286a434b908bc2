/* Reads the binary files of CIFAR-10: records without a header; the length of the file gives their
   number. */
#include "data/data.h"

#include "base/memory.h"
#include "base/size.h"
#include "data/source.h"

#include <stdlib.h>
#include <string.h>

enum { PLANE_BYTES = DPTI_CIFAR10_SIDE * DPTI_CIFAR10_SIDE };

void dpti_cifar10_free(dpti_cifar10 *batches)
{
    free(batches->labels);
    free(batches->images);
    *batches = (dpti_cifar10){0};
}

/* Makes room for `capacity` records. */
static dpt_status reserve(dpti_cifar10 *to, size_t capacity, dpt_error *error)
{
    size_t image_bytes = 0;
    if (capacity <= to->capacity) return DPT_OK;
    if (capacity > DPTI_MAX_RECORDS ||
        !dpti_multiply(capacity, DPTI_CIFAR10_IMAGE_BYTES, &image_bytes))
        return DPT_FAIL(error, DPT_E_FORMAT, "CIFAR-10 files of %zu images, at most %d can be used",
                        capacity, DPTI_MAX_RECORDS);
    dpti_cifar10 larger = {
        .count = to->count,
        .capacity = capacity,
        .images = dpti_alloc_aligned(image_bytes),
        .labels = dpti_alloc_aligned(capacity * sizeof *to->labels),
    };
    if (!larger.images || !larger.labels) {
        dpti_cifar10_free(&larger);
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for %zu CIFAR-10 images", capacity);
    }
    if (to->count > 0) {
        memcpy(larger.images, to->images, to->count * DPTI_CIFAR10_IMAGE_BYTES);
        memcpy(larger.labels, to->labels, to->count * sizeof *to->labels);
    }
    dpti_cifar10_free(to);
    *to = larger;
    return DPT_OK;
}

/* Planes (channel, y, x) to pixels (y, x, channel). */
static void interleave(const uint8_t *planes, uint8_t *pixels)
{
    for (size_t p = 0; p < PLANE_BYTES; p++)
        for (size_t c = 0; c < DPTI_CIFAR10_CHANNELS; c++)
            pixels[p * DPTI_CIFAR10_CHANNELS + c] = planes[c * PLANE_BYTES + p];
}

/* Appends the records of a file.  `n_files` files of this size are expected. */
static dpt_status append(const dpti_file_bytes *file, size_t n_files, dpti_cifar10 *to,
                         dpt_error *error)
{
    const size_t n = file->n_bytes / DPTI_CIFAR10_RECORD_BYTES;
    const size_t rest = file->n_bytes % DPTI_CIFAR10_RECORD_BYTES;
    if (n == 0 || rest != 0)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: truncated: %zu bytes are no whole number of CIFAR-10 records of %d "
                        "bytes; download it again",
                        file->name, file->n_bytes, DPTI_CIFAR10_RECORD_BYTES);
    if (to->count + n > to->capacity) DPT_TRY(reserve(to, to->count + n * n_files, error));
    for (size_t i = 0; i < n; i++, to->count++) {
        const uint8_t *record = file->bytes + i * DPTI_CIFAR10_RECORD_BYTES;
        if (record[0] >= DPTI_CIFAR10_CLASSES)
            return DPT_FAIL(error, DPT_E_FORMAT,
                            "%s: label %d of record %zu is out of range, CIFAR-10 has %d classes; "
                            "check that the file is of its binary version",
                            file->name, record[0], i, DPTI_CIFAR10_CLASSES);
        to->labels[to->count] = record[0];
        interleave(record + 1, to->images + to->count * DPTI_CIFAR10_IMAGE_BYTES);
    }
    return DPT_OK;
}

dpt_status dpti_cifar10_read(const char *path, size_t n_files, dpti_cifar10 *to, dpt_error *error)
{
    dpti_content content = {0};
    DPT_TRY(dpti_source_read(path, &content, error));
    const dpt_status status =
        append(&(dpti_file_bytes){path, content.bytes, content.n_bytes}, n_files, to, error);
    free(content.bytes);
    return status;
}

dpt_status dpti_cifar10_parse(const dpti_file_bytes *file, dpti_cifar10 *to, dpt_error *error)
{
    dpti_content content = {0};
    DPT_TRY(dpti_source_copy(file, &content, error));
    const dpt_status status =
        append(&(dpti_file_bytes){file->name, content.bytes, content.n_bytes}, 1, to, error);
    free(content.bytes);
    return status;
}
