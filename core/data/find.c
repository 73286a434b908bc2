/* Finds the files of a data set on this machine. */
#include "data/find.h"

#include "base/environment.h"
#include "base/print.h"
#include "base/text.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The layout of a data set in a folder.  Every file may have .gz after its name, unless the
   entries are folders. */
enum { N_FOLDERS = 2, N_SPELLINGS = 2 };

typedef struct layout {
    const char *folders[N_FOLDERS]; /* below the searched folder; "" is that folder itself */
    size_t n_files[2];              /* by part */
    const char *files[2][DPTI_MAX_FILES][N_SPELLINGS];
    bool are_folders;
} layout;

/* The file names of MNIST and its successors since 1998.  Some archives contain names with a
   dot. */
static const layout idx_layout = {
    .folders = {""},
    .n_files = {2, 2},
    .files =
        {
            [DPT_TRAIN] =
                {
                    {"train-images-idx3-ubyte", "train-images.idx3-ubyte"},
                    {"train-labels-idx1-ubyte", "train-labels.idx1-ubyte"},
                },
            [DPT_TEST] =
                {
                    {"t10k-images-idx3-ubyte", "t10k-images.idx3-ubyte"},
                    {"t10k-labels-idx1-ubyte", "t10k-labels.idx1-ubyte"},
                },
        },
};

/* The files of a split of EMNIST, in the folder of its archive or beside it. */
#define EMNIST_LAYOUT(split)                                                                       \
    &(const layout)                                                                                \
    {                                                                                              \
        .folders = {"", "/gzip"}, .n_files = {2, 2},                                               \
        .files = {                                                                                 \
            [DPT_TRAIN] = {{"emnist-" split "-train-images-idx3-ubyte"},                           \
                           {"emnist-" split "-train-labels-idx1-ubyte"}},                          \
            [DPT_TEST] = {{"emnist-" split "-test-images-idx3-ubyte"},                             \
                          {"emnist-" split "-test-labels-idx1-ubyte"}},                            \
        },                                                                                         \
    }

static const layout cifar10_layout = {
    .folders = {"", "/cifar-10-batches-bin"}, /* the folder in the archive */
    .n_files = {5, 1},
    .files =
        {
            [DPT_TRAIN] =
                {
                    {"data_batch_1.bin"},
                    {"data_batch_2.bin"},
                    {"data_batch_3.bin"},
                    {"data_batch_4.bin"},
                    {"data_batch_5.bin"},
                },
            [DPT_TEST] = {{"test_batch.bin"}},
        },
};

static const layout cifar100_layout = {
    .folders = {"", "/cifar-100-binary"}, /* the folder in the archive */
    .n_files = {1, 1},
    .files = {[DPT_TRAIN] = {{"train.bin"}}, [DPT_TEST] = {{"test.bin"}}},
};

static const layout folder_layout = {
    .folders = {""},
    .n_files = {1, 1},
    .files = {[DPT_TRAIN] = {{"train"}}, [DPT_TEST] = {{"test", "val"}}},
    .are_folders = true,
};

/* The places where a data set can be. */
typedef struct origin {
    const char *dataset;
    const char *place; /* the name of the folder in $DPTRAIN_DATA and the cache; NULL: `dataset` */
    const layout *layout;
    const char *package; /* the folder of the distribution's package, or NULL */
    const char *advice;
} origin;

#define EMNIST_ORIGIN(split)                                                                       \
    {                                                                                              \
        .dataset = "emnist:" split, .place = "emnist", .layout = EMNIST_LAYOUT(split),             \
        .advice = "unpack gzip.zip of https://www.nist.gov/itl/products-and-services/"             \
                  "emnist-dataset and pass --data DIR with the files emnist-" split                \
                  "-train-images-idx3-ubyte.gz and so on",                                         \
    }

#define CIFAR100_ORIGIN(name)                                                                      \
    {                                                                                              \
        .dataset = name, .place = "cifar100", .layout = &cifar100_layout,                          \
        .advice = "unpack its binary version (https://www.cs.toronto.edu/~kriz/cifar.html) and "   \
                  "pass --data DIR with train.bin and test.bin",                                   \
    }

static const origin origins[] = {
    {
        .dataset = "fashion-mnist",
        .layout = &idx_layout,
        .package = "/usr/share/datasets/fashion-mnist",
        .advice = "install it with 'apt-get install dataset-fashion-mnist', or pass --data DIR "
                  "with its four IDX files",
    },
    {
        .dataset = "mnist",
        .layout = &idx_layout,
        .advice = "put its four IDX files into a folder and pass --data DIR",
    },
    {
        .dataset = "kmnist",
        .layout = &idx_layout,
        .advice = "put its four IDX files (https://codh.rois.ac.jp/kmnist/) into a folder and pass "
                  "--data DIR",
    },
    EMNIST_ORIGIN("byclass"),
    EMNIST_ORIGIN("bymerge"),
    EMNIST_ORIGIN("balanced"),
    EMNIST_ORIGIN("letters"),
    EMNIST_ORIGIN("digits"),
    EMNIST_ORIGIN("mnist"),
    CIFAR100_ORIGIN("cifar100"),
    CIFAR100_ORIGIN("cifar100:coarse"),
    {
        .dataset = "cifar10",
        .layout = &cifar10_layout,
        .advice = "unpack its binary version (https://www.cs.toronto.edu/~kriz/cifar.html) and "
                  "pass --data DIR with data_batch_1.bin to data_batch_5.bin and test_batch.bin",
    },
    {
        .dataset = "idx",
        .layout = &idx_layout,
        .advice = "pass --data DIR with train-images-idx3-ubyte, train-labels-idx1-ubyte, "
                  "t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte (or the same with .gz)",
    },
    {
        .dataset = "folder",
        .layout = &folder_layout,
        .advice = "pass --data DIR with pictures in DIR/train/CLASS and DIR/test/CLASS",
    },
};

static const origin *origin_of(const char *dataset)
{
    size_t i = 0;
    while (strcmp(origins[i].dataset, dataset) != 0)
        i++;
    return &origins[i];
}

void dpti_files_free(dpti_files *files)
{
    free(files->directory);
    for (size_t i = 0; i < files->count; i++)
        free(files->paths[i]);
    *files = (dpti_files){0};
}

/* ---- One folder ------------------------------------------------------------------------------ */

static dpt_status fail_memory(dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to look for a data set");
}

/* Finds one of the spellings of a file in a folder.  *out stays NULL if none is there.  Returns
   false if memory is short. */
static bool find_file(const layout *known, const char *folder,
                      const char *const spellings[N_SPELLINGS], char **out)
{
    const size_t n_forms = known->are_folders ? 1 : 2;
    for (size_t i = 0; i < n_forms * N_SPELLINGS && spellings[i / n_forms]; i++) {
        char *path =
            dpti_format("%s/%s%s", folder, spellings[i / n_forms], i % n_forms ? ".gz" : "");
        if (!path) return false;
        if (access(path, F_OK) == 0) {
            *out = path;
            return true;
        }
        free(path);
    }
    return true;
}

/* The search in one directory. */
typedef struct search {
    const layout *known;
    const char *directory;
    dpt_part part;
    const char *missing; /* the first file that is not there; NULL: all are */
} search;

/* Finds all files in a folder below the directory.  If one is missing, *out is not changed. */
static dpt_status find_in_folder(search *s, const char *folder, dpti_files *out, dpt_error *error)
{
    const layout *known = s->known;
    char *path_of_folder = dpti_format("%s%s", s->directory, folder);
    dpti_files files = {.directory = dpti_strdup(s->directory)};
    dpt_status status = files.directory && path_of_folder ? DPT_OK : fail_memory(error);
    s->missing = NULL;
    while (status == DPT_OK && !s->missing && files.count < known->n_files[s->part]) {
        const char *const *spellings = known->files[s->part][files.count];
        char *path = NULL;
        if (!find_file(known, path_of_folder, spellings, &path)) status = fail_memory(error);
        if (path)
            files.paths[files.count++] = path;
        else
            s->missing = spellings[0];
    }
    free(path_of_folder);
    if (status == DPT_OK && !s->missing)
        *out = files;
    else
        dpti_files_free(&files);
    return status;
}

/* Finds the files of a part.  If a file is missing, *out is not changed, and s->missing names the
   file: of the folder that has others, if there is one. */
static dpt_status find_in(search *s, dpti_files *out, dpt_error *error)
{
    const char *const first = s->known->files[s->part][0][0];
    const char *missing = first;
    for (size_t i = 0; i < N_FOLDERS && s->known->folders[i]; i++) {
        DPT_TRY(find_in_folder(s, s->known->folders[i], out, error));
        if (!s->missing) return DPT_OK;
        if (s->missing != first) missing = s->missing;
    }
    s->missing = missing;
    return DPT_OK;
}

/* ---- Where to look --------------------------------------------------------------------------- */

enum { MAX_PLACES = 4 };

typedef struct places {
    size_t count;
    char *path[MAX_PLACES];
} places;

static void places_free(places *list)
{
    for (size_t i = 0; i < list->count; i++)
        free(list->path[i]);
}

/* Takes the allocated path. */
static bool places_add(places *list, char *path)
{
    if (!path) return false;
    list->path[list->count++] = path;
    return true;
}

static bool places_collect(places *list, const origin *from)
{
    const char *data = dpti_environment("DPTRAIN_DATA");
    const char *dataset = from->place ? from->place : from->dataset;
    if (data) {
        /* The folder with the data set's name is searched first, because the files of different
           data sets have the same names. */
        if (!places_add(list, dpti_format("%s/%s", data, dataset))) return false;
        if (!places_add(list, dpti_strdup(data))) return false;
    }
    const char *cache = dpti_environment("XDG_CACHE_HOME");
    const char *home = dpti_environment("HOME");
    if (cache && cache[0] == '/') { /* the XDG specification: ignore a relative one */
        if (!places_add(list, dpti_format("%s/dptrain/%s", cache, dataset))) return false;
    } else if (home) {
        if (!places_add(list, dpti_format("%s/.cache/dptrain/%s", home, dataset))) return false;
    }
    return !from->package || places_add(list, dpti_strdup(from->package));
}

static dpt_status fail_not_found(const char *dataset, const places *looked, dpt_error *error)
{
    char list[DPT_MESSAGE_BYTES] = "";
    size_t used = 0;
    for (size_t i = 0; i < looked->count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "; looked in ",
                                 looked->path[i]);
    return DPT_FAIL(error, DPT_E_NOT_FOUND, "the data set %s is not on this machine: %s%s", dataset,
                    origin_of(dataset)->advice, list);
}

static dpt_status find_given(search *s, dpti_files *out, dpt_error *error)
{
    DPT_TRY(find_in(s, out, error));
    if (out->count > 0) return DPT_OK;
    if (access(s->directory, R_OK | X_OK) != 0)
        return DPT_FAIL_NATIVE(error, DPT_E_NOT_FOUND, errno,
                               "cannot look for data in %s: %s; check the folder", s->directory,
                               strerror(errno));
    if (s->known->are_folders)
        return DPT_FAIL(error, DPT_E_NOT_FOUND,
                        "%s has no folder %s: pictures lie in train/CLASS and test/CLASS (or "
                        "val/CLASS), and the folders in train say which classes there are",
                        s->directory, s->missing);
    return DPT_FAIL(error, DPT_E_NOT_FOUND,
                    "%s has no %s (nor with .gz); put the file there or name another folder",
                    s->directory, s->missing);
}

static dpt_status find_anywhere(search *s, const char *dataset, dpti_files *out, dpt_error *error)
{
    places list = {0};
    dpt_status status = places_collect(&list, origin_of(dataset)) ? DPT_OK : fail_memory(error);
    for (size_t i = 0; status == DPT_OK && out->count == 0 && i < list.count; i++) {
        s->directory = list.path[i];
        status = find_in(s, out, error);
    }
    if (status == DPT_OK && out->count == 0) status = fail_not_found(dataset, &list, error);
    places_free(&list);
    return status;
}

dpt_status dpti_find_files(const dpti_data_request *request, dpti_files *out, dpt_error *error)
{
    search s = {.known = origin_of(request->name)->layout,
                .directory = request->directory,
                .part = request->part};
    dpti_files files = {0};
    DPT_TRY(request->directory ? find_given(&s, &files, error)
                               : find_anywhere(&s, request->name, &files, error));
    *out = files;
    return DPT_OK;
}
