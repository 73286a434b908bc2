/* Opens data sets by name: the list of names, and data sets from IDX files. */
#include "context/context.h"
#include "data/data.h"

#include "base/memory.h"
#include "base/text.h"
#include "data/find.h"

#include <stdlib.h>
#include <string.h>

enum { N_NAMED_CLASSES = 10 };

typedef struct named_dataset named_dataset;

typedef struct part_files {
    dpt_part part;
    const dpti_files *files;
} part_files;

/* Reads a part's files into a zeroed data set: images, labels and their sizes.  After a failure
   nothing needs to be freed. */
typedef dpt_status (*read_fn)(const named_dataset *set, const part_files *from, dpt_dataset *out,
                              dpt_error *error);

/* The data sets that are files.  IDX files without names of their classes have as many classes as
   their training labels show. */
struct named_dataset {
    const char *name;
    const char *const *class_names;
    read_fn read;
};

static const char *const fashion_classes[N_NAMED_CLASSES] = {
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot",
};
static const char *const digit_classes[N_NAMED_CLASSES] = {
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9",
};

static const char *const cifar10_classes[DPTI_CIFAR10_CLASSES] = {
    "airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck",
};

/* ---- IDX files ------------------------------------------------------------------------------- */

static size_t largest_label(const dpti_labels *labels)
{
    size_t largest = 0;
    for (size_t i = 0; i < labels->count; i++)
        if ((size_t)labels->values[i] > largest) largest = (size_t)labels->values[i];
    return largest;
}

/* The two files of a part, read. */
typedef struct idx_pair {
    dpti_idx images;
    dpti_labels labels;
    size_t classes;
} idx_pair;

/* Finds the number of classes: it is known, or the training labels tell it, also for the test
   part. */
static dpt_status count_classes(const dpti_data_request *request, bool named_classes,
                                idx_pair *pair, dpt_error *error)
{
    size_t largest = 0;
    if (named_classes) {
        largest = N_NAMED_CLASSES - 1;
    } else if (request->part == DPT_TRAIN) {
        largest = largest_label(&pair->labels);
    } else {
        const dpti_data_request training = {
            .name = request->name, .directory = request->directory, .part = DPT_TRAIN};
        dpti_files train = {0};
        dpti_labels train_labels = {0};
        DPT_TRY(dpti_find_files(&training, &train, error));
        const dpt_status status =
            dpti_labels_read(train.paths[DPTI_LABELS_FILE], &train_labels, error);
        dpti_files_free(&train);
        if (status != DPT_OK) return status;
        largest = largest_label(&train_labels);
        free(train_labels.values);
    }
    pair->classes = largest + 1 < 2 ? 2 : largest + 1;
    return DPT_OK;
}

/* Checks whether a file holds images that can be used. */
static dpt_status check_images(const char *path, const dpti_idx *images, dpt_error *error)
{
    if (images->rank != 3 && images->rank != 4)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: images have rank 3 or 4 (count, height, width, channels), this file "
                        "has rank %zu",
                        path, images->rank);
    if (images->shape[0] == 0)
        return DPT_FAIL(error, DPT_E_FORMAT, "%s has no samples; download it again", path);
    if (images->shape[0] > DPTI_MAX_RECORDS)
        return DPT_FAIL(error, DPT_E_FORMAT, "%s has %zu samples, at most %d can be used", path,
                        images->shape[0], DPTI_MAX_RECORDS);
    for (size_t d = 1; d < images->rank; d++)
        if (images->shape[d] == 0)
            return DPT_FAIL(error, DPT_E_FORMAT, "%s: the images have no pixels", path);
    return DPT_OK;
}

/* Checks whether the two files belong to one data set. */
static dpt_status check_pair(const dpti_files *files, const idx_pair *pair, dpt_error *error)
{
    const dpti_labels *const labels = &pair->labels;
    const size_t n_images = pair->images.shape[0];
    const char *images_path = files->paths[DPTI_IMAGES_FILE];
    const char *labels_path = files->paths[DPTI_LABELS_FILE];
    DPT_TRY(check_images(images_path, &pair->images, error));
    if (n_images != labels->count)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s has %zu images but %s has %zu labels; put files of one set together",
                        images_path, n_images, labels_path, labels->count);
    for (size_t i = 0; i < labels->count; i++)
        if ((size_t)labels->values[i] >= pair->classes)
            return DPT_FAIL(error, DPT_E_FORMAT,
                            "%s: label %d of sample %zu is out of range, there are %zu classes "
                            "(images: %s)",
                            labels_path, (int)labels->values[i], i, pair->classes, images_path);
    return DPT_OK;
}

/* Builds the common part of every data set of IDX images.  Takes over their memory. */
static dpt_dataset of_idx(const dpti_idx *images, size_t classes, int32_t *labels)
{
    return (dpt_dataset){
        .count = images->shape[0],
        .height = images->shape[1],
        .width = images->shape[2],
        .channels = images->rank == 4 ? images->shape[3] : 1,
        .classes = classes,
        .images = images->data,
        .labels = labels,
    };
}

static dpt_status read_idx(const named_dataset *set, const part_files *from, dpt_dataset *out,
                           dpt_error *error)
{
    const dpti_files *const files = from->files;
    const dpti_data_request request = {
        .name = set->name, .directory = files->directory, .part = from->part};
    idx_pair pair = {0};
    /* The small file first. */
    dpt_status status = dpti_labels_read(files->paths[DPTI_LABELS_FILE], &pair.labels, error);
    if (status == DPT_OK) status = count_classes(&request, set->class_names, &pair, error);
    if (status == DPT_OK)
        status = dpti_idx_read(files->paths[DPTI_IMAGES_FILE], &pair.images, error);
    if (status == DPT_OK) status = check_pair(files, &pair, error);
    if (status != DPT_OK) {
        free(pair.images.data);
        free(pair.labels.values);
        return status;
    }
    *out = of_idx(&pair.images, pair.classes, pair.labels.values);
    return DPT_OK;
}

/* ---- CIFAR-10 -------------------------------------------------------------------------------- */

static dpt_status read_cifar10(const named_dataset *set, const part_files *from, dpt_dataset *out,
                               dpt_error *error)
{
    (void)set;
    const dpti_files *const files = from->files;
    dpti_cifar10 batches = {0};
    for (size_t i = 0; i < files->count; i++) {
        const dpt_status status =
            dpti_cifar10_read(files->paths[i], files->count - i, &batches, error);
        if (status == DPT_OK) continue;
        dpti_cifar10_free(&batches);
        return status;
    }
    *out = (dpt_dataset){
        .count = batches.count,
        .height = DPTI_CIFAR10_SIDE,
        .width = DPTI_CIFAR10_SIDE,
        .channels = DPTI_CIFAR10_CHANNELS,
        .classes = DPTI_CIFAR10_CLASSES,
        .images = batches.images,
        .labels = batches.labels,
    };
    return DPT_OK;
}

/* ---- By name --------------------------------------------------------------------------------- */

static const named_dataset named[] = {
    {.name = "fashion-mnist", .class_names = fashion_classes, .read = read_idx},
    {.name = "mnist", .class_names = digit_classes, .read = read_idx},
    {.name = "cifar10", .class_names = cifar10_classes, .read = read_cifar10},
    {.name = "idx", .read = read_idx},
};

/* Completes a data set from files: bytes, which the network gets as 0 to 1.  Takes over name and
   source. */
static void complete(dpt_dataset *data, char *name, char *source)
{
    data->name = name;
    data->source = source;
    data->n_records = data->count;
    data->dtype = DPT_U8;
    data->stat_channels = 1;
    data->scale[0] = 1.0f / 255.0f;
}

static dpt_status open_files(const named_dataset *set, const dpti_data_request *request,
                             dpt_dataset **out, dpt_error *error)
{
    dpti_files files = {0};
    const part_files from = {.part = request->part, .files = &files};
    DPT_TRY(dpti_find_files(request, &files, error));
    dpt_dataset *data = dpti_dataset_allocate();
    char *name = dpti_strdup(set->name);
    dpt_status status =
        data && name ? set->read(set, &from, data, error)
                     : DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the data set %s", set->name);
    if (status == DPT_OK) {
        complete(data, name, files.directory);
        data->class_names = set->class_names;
        data->file = files.paths[DPTI_IMAGES_FILE];
        files.directory = files.paths[DPTI_IMAGES_FILE] = NULL;
        *out = data;
    } else {
        free(name);
        free(data);
    }
    dpti_files_free(&files);
    return status;
}

static dpt_status fail_unknown(const char *name, dpt_error *error)
{
    static const char *const known[] = {"fashion-mnist", "fashion",   "mnist", "cifar10", "idx",
                                        "folder",        "synthetic", "npz",   "npy",     "csv",
                                        "text",          "tokens",    NULL};
    char kind[32]; /* the part of "syntetic:28x28x1:10:100" that can be misspelt */
    const size_t length = strcspn(name, ":");
    const int n_kind = length < sizeof kind ? (int)length : 0;
    snprintf(kind, sizeof kind, "%.*s", n_kind, name);
    const char *nearest = dpti_nearest(kind, known);
    if (nearest && strcmp(nearest, "fashion") == 0) nearest = known[0];
    return DPT_FAIL(error, DPT_E_INVALID,
                    "unknown data set '%s'%s%s%s; known: fashion-mnist, mnist, cifar10, idx, "
                    "folder:HxW, synthetic:HxWxC:CLASSES:COUNT, npz:FILE, npy:IMAGES:LABELS, "
                    "csv:FILE:LABEL, text:CONTEXT, tokens:CONTEXT",
                    name, nearest ? "; did you mean '" : "", nearest ? nearest : "",
                    nearest ? "'?" : "");
}

/* "folder" and "folder:...". */
static bool is_kind(const char *name, const char *kind)
{
    const size_t length = strlen(kind);
    return strncmp(name, kind, length) == 0 && (name[length] == '\0' || name[length] == ':');
}

static dpt_status open_by_name(const dpti_data_request *request, dpt_dataset **out,
                               dpt_error *error)
{
    const char *name = request->name;
    if (!name) return DPT_FAIL(error, DPT_E_INVALID, "a data set needs a name");
    if (request->part != DPT_TRAIN && request->part != DPT_TEST)
        return DPT_FAIL(error, DPT_E_INVALID, "a part of a data set is DPT_TRAIN or DPT_TEST");
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (strcmp(name, named[i].name) == 0) return open_files(&named[i], request, out, error);
    if (is_kind(name, "folder")) return dpti_folder_create(request, out, error);
    if (dpti_is_array_files(name)) return dpti_array_files_open(request, out, error);
    if (dpti_is_text(name)) return dpti_text_open(request, out, error);
    if (is_kind(name, "synthetic")) return dpti_synthetic_create(name, request->part, out, error);
    return fail_unknown(name, error);
}

static dpt_status open_part(dpt_context *context, const dpti_data_request *request,
                            dpt_dataset **out, dpt_error *error)
{
    dpt_dataset *data = NULL;
    DPT_TRY(open_by_name(request, &data, error));
    data->context = context;
    data->part = request->part == DPT_TRAIN ? "training" : "test";
    *out = data;
    return DPT_OK;
}

dpt_status dpt_dataset_open(dpt_context *context, const char *name, const char *directory,
                            dpt_part part, dpt_dataset **out)
{
    const dpti_data_request request = {
        .name = name, .directory = directory, .part = part, .context = context};
    dpt_error error = {0};
    if (open_part(context, &request, out, &error) == DPT_OK) return DPT_OK;
    return dpti_context_fail(context, NULL, &error);
}

dpt_status dpti_dataset_open_unread(dpt_context *context, const dpti_data_request *request,
                                    dpt_dataset **out, dpt_error *error)
{
    dpti_data_request unread = *request;
    unread.unread = true;
    return open_part(context, &unread, out, error);
}

dpt_status dpt_dataset_file(dpt_context *context, const dpt_dataset_place *place, size_t sample,
                            char *path, size_t n_bytes)
{
    const dpti_data_request request = {
        .name = place->name, .directory = place->directory, .part = place->part};
    dpt_error error = {.status = DPT_OK};
    char *found = NULL;
    if (!place->name || !is_kind(place->name, "folder"))
        return dpt_fail(context, DPT_E_INVALID, "the samples of %s are no files of their own",
                        place->name ? place->name : "NULL");
    if (dpti_folder_picture(&request, sample, &found, &error) != DPT_OK)
        return dpti_context_fail(context, NULL, &error);
    snprintf(path, n_bytes, "%s", found);
    free(found);
    return DPT_OK;
}

/* ---- Images alone ---------------------------------------------------------------------------- */

static dpt_status open_images(const char *path, size_t classes, dpt_dataset **out, dpt_error *error)
{
    dpti_idx images = {0};
    if (classes == 0) return DPT_FAIL(error, DPT_E_INVALID, "a data set has at least one class");
    DPT_TRY(dpti_idx_read(path, &images, error));
    dpt_status status = check_images(path, &images, error);
    dpt_dataset *data = dpti_dataset_allocate();
    char *name = dpti_strdup("images"), *source = dpti_strdup(path);
    const size_t label_bytes = images.shape[0] * sizeof(int32_t);
    int32_t *labels = status == DPT_OK ? dpti_alloc_aligned(label_bytes) : NULL;
    if (status == DPT_OK && !(data && name && source && labels))
        status = DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the images of %s", path);
    if (status == DPT_OK) {
        memset(labels, 0, label_bytes);
        *data = of_idx(&images, classes, labels);
        complete(data, name, source);
        *out = data;
        return DPT_OK;
    }
    free(labels);
    free(source);
    free(name);
    free(data);
    free(images.data);
    return status;
}

dpt_status dpt_dataset_open_images(dpt_context *context, const char *path, size_t classes,
                                   dpt_dataset **out)
{
    dpt_error error = {0};
    dpt_dataset *data = NULL;
    if (open_images(path, classes, &data, &error) != DPT_OK)
        return dpti_context_fail(context, NULL, &error);
    data->context = context;
    *out = data;
    return DPT_OK;
}
