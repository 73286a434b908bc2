/* Reads the binary files of CIFAR-10 and CIFAR-100: records without a header; the length of the
   file gives their number. */
#include "data/data.h"

#include "base/memory.h"
#include "base/size.h"
#include "data/source.h"

#include <stdlib.h>
#include <string.h>

enum { PLANE_BYTES = DPTI_CIFAR_SIDE * DPTI_CIFAR_SIDE, MOST_LABELS = 2 };

/* The labels of a record: a byte each, in front of the image. */
typedef struct layout {
    const char *name;
    size_t n_labels, taken;      /* the label that is taken */
    size_t classes[MOST_LABELS]; /* of each label */
} layout;

static const layout layouts[DPTI_N_CIFAR_LABELS] = {
    [DPTI_CIFAR10] = {"CIFAR-10", 1, 0, {10}},
    [DPTI_CIFAR100_FINE] = {"CIFAR-100", 2, 1, {20, 100}},
    [DPTI_CIFAR100_COARSE] = {"CIFAR-100", 2, 0, {20, 100}},
};

size_t dpti_cifar_classes(dpti_cifar_labels of)
{
    return layouts[of].classes[layouts[of].taken];
}

size_t dpti_cifar_record_bytes(dpti_cifar_labels of)
{
    return layouts[of].n_labels + DPTI_CIFAR_IMAGE_BYTES;
}

void dpti_cifar_free(dpti_cifar *batches)
{
    free(batches->labels);
    free(batches->images);
    *batches = (dpti_cifar){.of = batches->of};
}

/* Makes room for `capacity` records. */
static dpt_status reserve(dpti_cifar *to, size_t capacity, dpt_error *error)
{
    size_t image_bytes = 0;
    if (capacity <= to->capacity) return DPT_OK;
    if (capacity > DPTI_MAX_RECORDS ||
        !dpti_multiply(capacity, DPTI_CIFAR_IMAGE_BYTES, &image_bytes))
        return DPT_FAIL(error, DPT_E_FORMAT, "%s files of %zu images, at most %d can be used",
                        layouts[to->of].name, capacity, DPTI_MAX_RECORDS);
    dpti_cifar larger = {
        .of = to->of,
        .count = to->count,
        .capacity = capacity,
        .images = dpti_alloc_aligned(image_bytes),
        .labels = dpti_alloc_aligned(capacity * sizeof *to->labels),
    };
    if (!larger.images || !larger.labels) {
        dpti_cifar_free(&larger);
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for %zu %s images", capacity,
                        layouts[to->of].name);
    }
    if (to->count > 0) {
        memcpy(larger.images, to->images, to->count * DPTI_CIFAR_IMAGE_BYTES);
        memcpy(larger.labels, to->labels, to->count * sizeof *to->labels);
    }
    dpti_cifar_free(to);
    *to = larger;
    return DPT_OK;
}

/* Planes (channel, y, x) to pixels (y, x, channel). */
static void interleave(const uint8_t *planes, uint8_t *pixels)
{
    for (size_t p = 0; p < PLANE_BYTES; p++)
        for (size_t c = 0; c < DPTI_CIFAR_CHANNELS; c++)
            pixels[p * DPTI_CIFAR_CHANNELS + c] = planes[c * PLANE_BYTES + p];
}

/* Checks all labels of a record, also the one that is not taken: it tells other files. */
static dpt_status check_labels(const dpti_file_bytes *file, size_t i, const layout *l,
                               dpt_error *error)
{
    const uint8_t *record = file->bytes + i * (l->n_labels + DPTI_CIFAR_IMAGE_BYTES);
    for (size_t k = 0; k < l->n_labels; k++)
        if (record[k] >= l->classes[k])
            return DPT_FAIL(error, DPT_E_FORMAT,
                            "%s: label %d of record %zu is out of range, %s has %zu classes; "
                            "check that the file is of its binary version",
                            file->name, record[k], i, l->name, l->classes[k]);
    return DPT_OK;
}

/* Appends the records of a file.  `n_files` files of this size are expected. */
static dpt_status append(const dpti_file_bytes *file, size_t n_files, dpti_cifar *to,
                         dpt_error *error)
{
    const layout *l = &layouts[to->of];
    const size_t record_bytes = dpti_cifar_record_bytes(to->of);
    const size_t n = file->n_bytes / record_bytes, rest = file->n_bytes % record_bytes;
    if (n == 0 || rest != 0)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: truncated: %zu bytes are no whole number of %s records of %zu "
                        "bytes; download it again",
                        file->name, file->n_bytes, l->name, record_bytes);
    if (to->count + n > to->capacity) DPT_TRY(reserve(to, to->count + n * n_files, error));
    for (size_t i = 0; i < n; i++, to->count++) {
        const uint8_t *record = file->bytes + i * record_bytes;
        DPT_TRY(check_labels(file, i, l, error));
        to->labels[to->count] = record[l->taken];
        interleave(record + l->n_labels, to->images + to->count * DPTI_CIFAR_IMAGE_BYTES);
    }
    return DPT_OK;
}

dpt_status dpti_cifar_read(const char *path, size_t n_files, dpti_cifar *to, dpt_error *error)
{
    dpti_content content = {0};
    DPT_TRY(dpti_source_read(path, &content, error));
    const dpt_status status =
        append(&(dpti_file_bytes){path, content.bytes, content.n_bytes}, n_files, to, error);
    free(content.bytes);
    return status;
}

dpt_status dpti_cifar_parse(const dpti_file_bytes *file, dpti_cifar *to, dpt_error *error)
{
    dpti_content content = {0};
    DPT_TRY(dpti_source_copy(file, &content, error));
    const dpt_status status =
        append(&(dpti_file_bytes){file->name, content.bytes, content.n_bytes}, 1, to, error);
    free(content.bytes);
    return status;
}
