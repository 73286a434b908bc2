/* Opens data sets by name: the list of names, and data sets from IDX files. */
#include "context/context.h"
#include "data/data.h"

#include "base/memory.h"
#include "base/print.h"
#include "base/text.h"
#include "data/class_names.h"
#include "data/find.h"
#include "data/first_label.h"
#include "io/file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_NAMES_BYTES = 1 << 16 };

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
    size_t classes; /* of class_names */
    read_fn read;
    bool transposed;         /* the files have columns in place of rows */
    dpti_cifar_labels cifar; /* of read_cifar */
    const char *names_file;  /* with the names of classes, beside the others; or NULL */
};

static const char *const fashion_classes[] = {
    "T-shirt/top", "Trouser", "Pullover", "Dress", "Coat",
    "Sandal",      "Shirt",   "Sneaker",  "Bag",   "Ankle boot",
};
static const char *const digit_classes[] = {
    "0", "1", "2", "3", "4", "5", "6", "7", "8", "9",
};
static const char *const kuzushiji_classes[] = {
    "o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo",
};

#define CAPITALS                                                                                   \
    "A", "B", "C", "D", "E", "F", "G", "H", "I", "J", "K", "L", "M", "N", "O", "P", "Q", "R", "S", \
        "T", "U", "V", "W", "X", "Y", "Z"
#define DIGITS "0", "1", "2", "3", "4", "5", "6", "7", "8", "9"
#define LETTERS                                                                                    \
    "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r", "s", \
        "t", "u", "v", "w", "x", "y", "z"

/* Of EMNIST's files, as torchvision's users know them: "letters" begins at label 1. */
static const char *const every_class[] = {DIGITS, CAPITALS, LETTERS};
static const char *const merged_classes[] = {DIGITS, CAPITALS, "a", "b", "d", "e", "f",
                                             "g",    "h",      "n", "q", "r", "t"};
static const char *const letter_classes[] = {"N/A", LETTERS};

static const char *const cifar10_classes[] = {
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
static dpt_status count_classes(const dpti_data_request *request, size_t n_named, idx_pair *pair,
                                dpt_error *error)
{
    size_t largest = 0;
    if (n_named > 0) {
        largest = n_named - 1;
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

/* Makes rows of the columns of each image. */
static dpt_status transpose(const char *path, dpti_idx *images, dpt_error *error)
{
    enum { SIDES = 3 };
    const size_t height = images->shape[2], width = images->shape[1], n = height * width;
    uint8_t *const upright = images->rank == SIDES ? malloc(n) : NULL;
    if (images->rank != SIDES)
        return DPT_FAIL(error, DPT_E_FORMAT, "%s: grey images have rank 3, this file has rank %zu",
                        path, images->rank);
    if (!upright) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for an image of %s", path);
    for (size_t i = 0; i < images->shape[0]; i++) {
        uint8_t *image = images->data + i * n;
        for (size_t y = 0; y < height; y++)
            for (size_t x = 0; x < width; x++)
                upright[y * width + x] = image[x * height + y];
        memcpy(image, upright, n);
    }
    free(upright);
    images->shape[1] = height;
    images->shape[2] = width;
    return DPT_OK;
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
    if (status == DPT_OK) status = count_classes(&request, set->classes, &pair, error);
    if (status == DPT_OK)
        status = dpti_idx_read(files->paths[DPTI_IMAGES_FILE], &pair.images, error);
    if (status == DPT_OK) status = check_pair(files, &pair, error);
    if (status == DPT_OK && set->transposed)
        status = transpose(files->paths[DPTI_IMAGES_FILE], &pair.images, error);
    if (status != DPT_OK) {
        free(pair.images.data);
        free(pair.labels.values);
        return status;
    }
    *out = of_idx(&pair.images, pair.classes, pair.labels.values);
    return DPT_OK;
}

/* ---- CIFAR ----------------------------------------------------------------------------------- */

/* Reads the names of the classes, if their file is beside another one. */
static dpt_status read_names(const named_dataset *set, const char *beside, dpt_dataset *data,
                             dpt_error *error)
{
    const char *slash = strrchr(beside, '/');
    dpti_content content = {0};
    if (!set->names_file) return DPT_OK;
    char *path =
        dpti_format("%.*s%s", slash ? (int)(slash - beside) + 1 : 0, beside, set->names_file);
    if (!path) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the names of classes");
    dpt_status status = DPT_OK;
    if (access(path, F_OK) == 0) {
        status = dpti_file_read_most(path, MOST_NAMES_BYTES, &content, error);
        if (status == DPT_OK)
            status =
                dpti_class_names_parse(&(dpti_file_bytes){path, content.bytes, content.n_bytes},
                                       data->classes, &data->own_names, error);
        free(content.bytes);
    }
    free(path);
    return status;
}

static dpt_status read_cifar(const named_dataset *set, const part_files *from, dpt_dataset *out,
                             dpt_error *error)
{
    const dpti_files *const files = from->files;
    dpti_cifar batches = {.of = set->cifar};
    dpt_dataset data = {.classes = dpti_cifar_classes(set->cifar)};
    dpt_status status = read_names(set, files->paths[0], &data, error);
    for (size_t i = 0; status == DPT_OK && i < files->count; i++)
        status = dpti_cifar_read(files->paths[i], files->count - i, &batches, error);
    if (status != DPT_OK) {
        free(data.own_names);
        dpti_cifar_free(&batches);
        return status;
    }
    *out = (dpt_dataset){
        .count = batches.count,
        .height = DPTI_CIFAR_SIDE,
        .width = DPTI_CIFAR_SIDE,
        .channels = DPTI_CIFAR_CHANNELS,
        .classes = data.classes,
        .images = batches.images,
        .labels = batches.labels,
        .own_names = data.own_names,
    };
    return DPT_OK;
}

/* ---- By name --------------------------------------------------------------------------------- */

#define CLASSES(names) .class_names = (names), .classes = sizeof(names) / sizeof *(names)
#define EMNIST(split, names)                                                                       \
    {                                                                                              \
        .name = "emnist:" split, CLASSES(names), .read = read_idx, .transposed = true              \
    }

static const named_dataset named[] = {
    {.name = "fashion-mnist", CLASSES(fashion_classes), .read = read_idx},
    {.name = "mnist", CLASSES(digit_classes), .read = read_idx},
    {.name = "kmnist", CLASSES(kuzushiji_classes), .read = read_idx},
    EMNIST("byclass", every_class),
    EMNIST("bymerge", merged_classes),
    EMNIST("balanced", merged_classes),
    EMNIST("letters", letter_classes),
    EMNIST("digits", digit_classes),
    EMNIST("mnist", digit_classes),
    {.name = "cifar10", CLASSES(cifar10_classes), .read = read_cifar, .cifar = DPTI_CIFAR10},
    {
        .name = "cifar100",
        .read = read_cifar,
        .cifar = DPTI_CIFAR100_FINE,
        .names_file = "fine_label_names.txt",
    },
    {
        .name = "cifar100:coarse",
        .read = read_cifar,
        .cifar = DPTI_CIFAR100_COARSE,
        .names_file = "coarse_label_names.txt",
    },
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
        data->class_names = data->own_names ? data->own_names : set->class_names;
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
    static const char *const known[] = {"fashion-mnist", "fashion",  "mnist", "kmnist", "emnist",
                                        "cifar10",       "cifar100", "idx",   "folder", "pictures",
                                        "synthetic",     "npz",      "npy",   "csv",    "text",
                                        "tokens",        NULL};
    char kind[32]; /* the part of "syntetic:28x28x1:10:100" that can be misspelt */
    const size_t length = strcspn(name, ":");
    const int n_kind = length < sizeof kind ? (int)length : 0;
    snprintf(kind, sizeof kind, "%.*s", n_kind, name);
    const char *nearest = dpti_nearest(kind, known);
    if (nearest && strcmp(nearest, "fashion") == 0) nearest = known[0];
    return DPT_FAIL(error, DPT_E_INVALID,
                    "unknown data set '%s'%s%s%s; known: fashion-mnist, mnist, kmnist, "
                    "emnist:SPLIT, cifar10, cifar100, cifar100:coarse, idx, folder:HxW, "
                    "pictures:HxW:FILE.csv:PATH:LABEL, "
                    "synthetic:HxWxC:CLASSES:COUNT, npz:FILE, npy:IMAGES:LABELS, "
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

/* A folder or a table of pictures. */
static bool is_pictures(const char *name)
{
    return is_kind(name, "folder") || is_kind(name, "pictures");
}

static dpt_status fail_emnist(const char *name, dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_INVALID,
                    "'%s' is no split of EMNIST: write emnist:byclass, emnist:bymerge, "
                    "emnist:balanced, emnist:letters, emnist:digits or emnist:mnist",
                    name);
}

static dpt_status open_by_name(const dpti_data_request *request, dpt_dataset **out,
                               dpt_error *error)
{
    const char *name = request->name;
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (strcmp(name, named[i].name) == 0) return open_files(&named[i], request, out, error);
    if (is_kind(name, "emnist")) return fail_emnist(name, error);
    if (is_pictures(name)) return dpti_folder_create(request, out, error);
    if (dpti_is_array_files(name)) return dpti_array_files_open(request, out, error);
    if (dpti_is_text(name)) return dpti_text_open(request, out, error);
    if (is_kind(name, "synthetic")) return dpti_synthetic_create(name, request->part, out, error);
    return fail_unknown(name, error);
}

/* Classes of folders and of generated images have no numbers in files. */
static dpt_status check_first_label(const char *name, size_t first, dpt_error *error)
{
    if (first == 0 ||
        !(is_kind(name, "folder") || is_kind(name, "synthetic") || dpti_is_text(name)))
        return DPT_OK;
    return DPT_FAIL(error, DPT_E_INVALID,
                    "%s: labels-from is for data sets whose files have numbers as labels", name);
}

/* Opens a data set whose name is without the first label. */
static dpt_status open_from(const dpti_data_request *request, size_t first, dpt_dataset **out,
                            dpt_error *error)
{
    dpt_dataset *data = NULL;
    DPT_TRY(check_first_label(request->name, first, error));
    DPT_TRY(open_by_name(request, &data, error));
    if (first > 0) {
        const dpt_status status = dpti_first_label_shift(data, first, error);
        if (status != DPT_OK) {
            dpt_dataset_destroy(data);
            return status;
        }
    }
    *out = data;
    return DPT_OK;
}

static dpt_status open_part(dpt_context *context, const dpti_data_request *request,
                            dpt_dataset **out, dpt_error *error)
{
    dpti_data_request base = *request;
    dpt_dataset *data = NULL;
    char *name = NULL;
    size_t first = 0;
    if (!request->name) return DPT_FAIL(error, DPT_E_INVALID, "a data set needs a name");
    if (request->part != DPT_TRAIN && request->part != DPT_TEST)
        return DPT_FAIL(error, DPT_E_INVALID, "a part of a data set is DPT_TRAIN or DPT_TEST");
    DPT_TRY(dpti_first_label_parse(request->name, &name, &first, error));
    base.name = name;
    const dpt_status status = open_from(&base, first, &data, error);
    free(name);
    DPT_TRY(status);
    data->context = context;
    data->part = request->part == DPT_TRAIN ? "training" : "test";
    /* Whether the numbers of arrays are labels is known when they are arranged. */
    if (data->n_inputs == 0) dpti_first_label_tell(data, request->context);
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
    dpti_data_request request = {.directory = place->directory, .part = place->part};
    dpt_error error = {.status = DPT_OK};
    char *name = NULL, *found = NULL;
    size_t first;
    if (!place->name || !is_pictures(place->name))
        return dpt_fail(context, DPT_E_INVALID, "the samples of %s are no files of their own",
                        place->name ? place->name : "NULL");
    dpt_status status = dpti_first_label_parse(place->name, &name, &first, &error);
    request.name = name;
    if (status == DPT_OK) status = dpti_folder_picture(&request, sample, &found, &error);
    free(name);
    if (status != DPT_OK) return dpti_context_fail(context, NULL, &error);
    snprintf(path, n_bytes, "%s", found);
    free(found);
    return DPT_OK;
}

/* ---- Images alone ---------------------------------------------------------------------------- */

/* EMNIST's files have names that no others have. */
static bool is_emnist_file(const char *path)
{
    static const char prefix[] = "emnist-";
    const char *slash = strrchr(path, '/');
    return strncmp(slash ? slash + 1 : path, prefix, sizeof prefix - 1) == 0;
}

static dpt_status open_images(const char *path, size_t classes, dpt_dataset **out, dpt_error *error)
{
    dpti_idx images = {0};
    if (classes == 0) return DPT_FAIL(error, DPT_E_INVALID, "a data set has at least one class");
    DPT_TRY(dpti_idx_read(path, &images, error));
    dpt_status status = check_images(path, &images, error);
    if (status == DPT_OK && is_emnist_file(path)) status = transpose(path, &images, error);
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
