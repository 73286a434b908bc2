/* Labelled images from IDX files or the caller's memory: the public functions of dptrain.h. */
#include "data/data.h"

#include "base/base.h"
#include "data/find.h"
#include "device/device.h" /* dpti_context_fail */

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { N_NAMED_CLASSES = 10, MAX_STAT_CHANNELS = 4 };

/* Samples are numbered with 32 bits on devices, where the sign bit is not to be trusted. */
static const size_t max_count = INT32_MAX;

/* The data sets that are IDX files.  Those without names of their classes have as many classes as
   their training labels show. */
typedef struct named_dataset {
    const char *name;
    const char *const *class_names;
} named_dataset;

static const char *const fashion_classes[N_NAMED_CLASSES] = {
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot",
};
static const char *const digit_classes[N_NAMED_CLASSES] = {
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9",
};

static const named_dataset named[] = {
    {.name = "fashion-mnist", .class_names = fashion_classes},
    {.name = "mnist", .class_names = digit_classes},
    {.name = "idx"},
};

void dpt_dataset_destroy(dpt_dataset *dataset)
{
    if (!dataset) return;
    free(dataset->labels);
    free(dataset->images);
    free(dataset->source);
    free(dataset->name);
    free(dataset);
}

void dpt_dataset_describe(const dpt_dataset *dataset, dpt_dataset_info *out)
{
    *out = (dpt_dataset_info){
        .name = dataset->name,
        .count = dataset->count,
        .height = dataset->height,
        .width = dataset->width,
        .channels = dataset->channels,
        .classes = dataset->classes,
        .source = dataset->source,
        .class_names = dataset->class_names,
    };
}

/* ---- IDX files ------------------------------------------------------------------------------- */

static size_t largest_label(const uint8_t *labels, size_t n)
{
    size_t largest = 0;
    for (size_t i = 0; i < n; i++)
        if (labels[i] > largest) largest = labels[i];
    return largest;
}

static dpt_status read_labels(const char *path, dpti_idx *out, dpt_error *error)
{
    dpti_idx labels = {0};
    DPT_TRY(dpti_idx_read(path, &labels, error));
    if (labels.rank != 1) {
        free(labels.data);
        return DPT_FAIL(error, DPT_E_FORMAT, "%s: labels have rank 1, this file has rank %zu", path,
                        labels.rank);
    }
    *out = labels;
    return DPT_OK;
}

/* How many classes there are: known, or told by the training labels, for the test part too. */
static dpt_status count_classes(const named_dataset *set, dpt_part part, const dpti_idx_pair *pair,
                                const dpti_idx *labels, size_t *out, dpt_error *error)
{
    size_t largest = 0;
    if (set->class_names) {
        largest = N_NAMED_CLASSES - 1;
    } else if (part == DPT_TRAIN) {
        largest = largest_label(labels->data, labels->shape[0]);
    } else {
        dpti_idx_pair train = {0};
        dpti_idx train_labels = {0};
        DPT_TRY(dpti_find_idx(set->name, pair->directory, DPT_TRAIN, &train, error));
        const dpt_status status = read_labels(train.labels, &train_labels, error);
        dpti_idx_pair_free(&train);
        if (status != DPT_OK) return status;
        largest = largest_label(train_labels.data, train_labels.shape[0]);
        free(train_labels.data);
    }
    *out = largest + 1 < 2 ? 2 : largest + 1;
    return DPT_OK;
}

/* Whether the two files make a data set together. */
static dpt_status check_pair(const dpti_idx_pair *pair, const dpti_idx *images,
                             const dpti_idx *labels, size_t classes, dpt_error *error)
{
    if (images->rank != 3 && images->rank != 4)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s (with %s): images have rank 3 or 4 (count, height, width, channels), "
                        "this file has rank %zu",
                        pair->images, pair->labels, images->rank);
    if (images->shape[0] != labels->shape[0])
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s has %zu images but %s has %zu labels; put files of one set together",
                        pair->images, images->shape[0], pair->labels, labels->shape[0]);
    if (images->shape[0] == 0)
        return DPT_FAIL(error, DPT_E_FORMAT, "%s and %s have no samples; download them again",
                        pair->images, pair->labels);
    if (images->shape[0] > max_count)
        return DPT_FAIL(error, DPT_E_FORMAT, "%s and %s have %zu samples, at most %zu can be used",
                        pair->images, pair->labels, images->shape[0], max_count);
    for (size_t d = 1; d < images->rank; d++)
        if (images->shape[d] == 0)
            return DPT_FAIL(error, DPT_E_FORMAT, "%s (with %s): the images have no pixels",
                            pair->images, pair->labels);
    for (size_t i = 0; i < labels->shape[0]; i++)
        if (labels->data[i] >= classes)
            return DPT_FAIL(error, DPT_E_FORMAT,
                            "%s: label %d of sample %zu is out of range, there are %zu classes "
                            "(images: %s)",
                            pair->labels, labels->data[i], i, classes, pair->images);
    return DPT_OK;
}

/* Takes the memory of both files on success. */
static dpt_status assemble(const named_dataset *set, dpti_idx_pair *pair, const dpti_idx *images,
                           const dpti_idx *labels, size_t classes, dpt_dataset **out,
                           dpt_error *error)
{
    dpt_dataset *data = calloc(1, sizeof *data);
    char *name = dpti_strdup(set->name);
    if (!data || !name) {
        free(data);
        free(name);
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the data set %s", set->name);
    }
    *data = (dpt_dataset){
        .name = name,
        .source = pair->directory,
        .count = images->shape[0],
        .height = images->shape[1],
        .width = images->shape[2],
        .channels = images->rank == 4 ? images->shape[3] : 1,
        .classes = classes,
        .dtype = DPT_U8,
        .images = images->data,
        .labels = labels->data,
        .stat_channels = 1,
        .scale = {1.0f / 255.0f},
        .class_names = set->class_names,
    };
    pair->directory = NULL;
    *out = data;
    return DPT_OK;
}

static dpt_status open_idx(const named_dataset *set, const char *directory, dpt_part part,
                           dpt_dataset **out, dpt_error *error)
{
    dpti_idx_pair pair = {0};
    dpti_idx images = {0}, labels = {0};
    size_t classes = 0;
    dpt_dataset *data = NULL;
    DPT_TRY(dpti_find_idx(set->name, directory, part, &pair, error));
    dpt_status status = read_labels(pair.labels, &labels, error); /* the small file first */
    if (status == DPT_OK) status = count_classes(set, part, &pair, &labels, &classes, error);
    if (status == DPT_OK) status = dpti_idx_read(pair.images, &images, error);
    if (status == DPT_OK) status = check_pair(&pair, &images, &labels, classes, error);
    if (status == DPT_OK) status = assemble(set, &pair, &images, &labels, classes, &data, error);
    if (status == DPT_OK) {
        *out = data;
    } else {
        free(images.data);
        free(labels.data);
    }
    dpti_idx_pair_free(&pair);
    return status;
}

/* ---- By name --------------------------------------------------------------------------------- */

static dpt_status fail_unknown(const char *name, dpt_error *error)
{
    static const char *const known[] = {"fashion-mnist", "fashion",   "mnist",
                                        "idx",           "synthetic", NULL};
    char kind[32]; /* of "syntetic:28x28x1:10:100" the part that can be misspelt */
    const size_t length = strcspn(name, ":");
    const int n_kind = length < sizeof kind ? (int)length : 0;
    snprintf(kind, sizeof kind, "%.*s", n_kind, name);
    const char *nearest = dpti_nearest(kind, known);
    if (nearest && strcmp(nearest, "fashion") == 0) nearest = known[0];
    return DPT_FAIL(error, DPT_E_INVALID,
                    "unknown data set '%s'%s%s%s; known: fashion-mnist, mnist, idx, "
                    "synthetic:HxWxC:CLASSES:COUNT",
                    name, nearest ? "; did you mean '" : "", nearest ? nearest : "",
                    nearest ? "'?" : "");
}

static dpt_status open_by_name(const char *name, const char *directory, dpt_part part,
                               dpt_dataset **out, dpt_error *error)
{
    if (!name) return DPT_FAIL(error, DPT_E_INVALID, "a data set needs a name");
    if (part != DPT_TRAIN && part != DPT_TEST)
        return DPT_FAIL(error, DPT_E_INVALID, "a part of a data set is DPT_TRAIN or DPT_TEST");
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (strcmp(name, named[i].name) == 0)
            return open_idx(&named[i], directory, part, out, error);
    if (strcmp(name, "synthetic") == 0 || strncmp(name, "synthetic:", 10) == 0)
        return dpti_synthetic_create(name, part, out, error);
    return fail_unknown(name, error);
}

dpt_status dpt_dataset_open(dpt_context *context, const char *name, const char *directory,
                            dpt_part part, dpt_dataset **out)
{
    dpt_error error = {0};
    if (open_by_name(name, directory, part, out, &error) != DPT_OK)
        return dpti_context_fail(context, NULL, &error);
    return DPT_OK;
}

/* ---- From memory ----------------------------------------------------------------------------- */

static dpt_status check_memory(const dpt_dataset_memory *m, dpt_error *error)
{
    if (!m || !m->images || !m->labels)
        return DPT_FAIL(error, DPT_E_INVALID, "a data set needs images and labels");
    if (!m->count || !m->height || !m->width || !m->channels || !m->classes)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "a data set's count, height, width, channels and classes are at least 1");
    if (m->count > max_count)
        return DPT_FAIL(error, DPT_E_INVALID, "a data set has at most %zu samples", max_count);
    if (m->dtype != DPT_U8 && m->dtype != DPT_F32)
        return DPT_FAIL(error, DPT_E_INVALID, "images are DPT_U8 or DPT_F32");
    for (size_t i = 0; i < m->count; i++)
        if (m->labels[i] >= m->classes)
            return DPT_FAIL(error, DPT_E_INVALID,
                            "label %d of sample %zu is out of range, there are %zu classes",
                            m->labels[i], i, m->classes);
    for (size_t c = 0; c < MAX_STAT_CHANNELS; c++) {
        if (!isfinite(m->mean[c]) || !(m->deviation[c] >= 0) || !isfinite(m->deviation[c]))
            return DPT_FAIL(error, DPT_E_INVALID,
                            "mean and deviation of a data set are finite, and the deviation is "
                            "not negative");
        if (m->channels > MAX_STAT_CHANNELS && (m->mean[c] != 0 || m->deviation[c] != 0))
            return DPT_FAIL(error, DPT_E_INVALID,
                            "mean and deviation are for up to %d channels, the images have %zu: "
                            "leave them zero and normalise the images",
                            MAX_STAT_CHANNELS, m->channels);
    }
    return DPT_OK;
}

static dpt_status total_bytes(const dpt_dataset_memory *m, size_t *out, dpt_error *error)
{
    size_t n = 0;
    if (!dpti_multiply(m->height, m->width, &n) || !dpti_multiply(n, m->channels, &n) ||
        !dpti_multiply(n, m->count, &n) || !dpti_multiply(n, dpt_dtype_bytes(m->dtype), &n) ||
        n > SIZE_MAX / 2)
        return DPT_FAIL(error, DPT_E_INVALID, "a data set of that size fits into no memory");
    *out = n;
    return DPT_OK;
}

/* (value / 255 - mean) / deviation as (value - mean * 255) * (1 / (255 * deviation)). */
static void set_normalisation(const dpt_dataset_memory *m, dpt_dataset *data)
{
    const double unit = m->dtype == DPT_U8 ? 255.0 : 1.0;
    data->stat_channels = m->channels <= MAX_STAT_CHANNELS ? m->channels : 1;
    for (size_t c = 0; c < data->stat_channels; c++) {
        const double deviation = m->deviation[c] > 0 ? (double)m->deviation[c] : 1.0;
        data->mean[c] = (float)((double)m->mean[c] * unit);
        data->scale[c] = (float)(1.0 / (unit * deviation));
    }
}

static dpt_status copy_memory(const dpt_dataset_memory *m, dpt_dataset **out, dpt_error *error)
{
    size_t n_bytes = 0;
    DPT_TRY(check_memory(m, error));
    DPT_TRY(total_bytes(m, &n_bytes, error));
    dpt_dataset *data = calloc(1, sizeof *data);
    if (!data) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a data set");
    *data = (dpt_dataset){
        .name = dpti_strdup("memory"),
        .source = dpti_strdup("memory"),
        .count = m->count,
        .height = m->height,
        .width = m->width,
        .channels = m->channels,
        .classes = m->classes,
        .dtype = m->dtype,
        .images = dpti_alloc_aligned(n_bytes),
        .labels = dpti_alloc_aligned(m->count),
    };
    if (!data->name || !data->source || !data->images || !data->labels) {
        dpt_dataset_destroy(data);
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a data set of %zu bytes", n_bytes);
    }
    memcpy(data->images, m->images, n_bytes);
    memcpy(data->labels, m->labels, m->count);
    set_normalisation(m, data);
    *out = data;
    return DPT_OK;
}

dpt_status dpt_dataset_from_memory(dpt_context *context, const dpt_dataset_memory *memory,
                                   dpt_dataset **out)
{
    dpt_error error = {0};
    if (copy_memory(memory, out, &error) != DPT_OK) return dpti_context_fail(context, NULL, &error);
    return DPT_OK;
}
