/* Finding the IDX files of a data set on this machine. */
#include "data/find.h"

#include "base/base.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The names that the files of MNIST and its successors have borne since 1998, by part. */
static const char *const stem[] = {[DPT_TRAIN] = "train", [DPT_TEST] = "t10k"};
enum { IMAGES_RANK = 3, LABELS_RANK = 1 };

/* Distributions that ship a data set. */
typedef struct package {
    const char *dataset, *directory, *advice;
} package;

static const package packages[] = {
    {
        .dataset = "fashion-mnist",
        .directory = "/usr/share/datasets/fashion-mnist",
        .advice = "install it with 'apt-get install dataset-fashion-mnist', or pass --data DIR "
                  "with its four IDX files",
    },
    {
        .dataset = "mnist",
        .advice = "put its four IDX files into a folder and pass --data DIR",
    },
    {
        .dataset = "idx",
        .advice = "pass --data DIR with train-images-idx3-ubyte, train-labels-idx1-ubyte, "
                  "t10k-images-idx3-ubyte and t10k-labels-idx1-ubyte (or the same with .gz)",
    },
};

static const package *package_of(const char *dataset)
{
    for (size_t i = 0; i < sizeof packages / sizeof *packages; i++)
        if (strcmp(packages[i].dataset, dataset) == 0) return &packages[i];
    return NULL;
}

void dpti_idx_pair_free(dpti_idx_pair *pair)
{
    free(pair->directory);
    free(pair->images);
    free(pair->labels);
    *pair = (dpti_idx_pair){0};
}

/* ---- One folder ------------------------------------------------------------------------------ */

static dpt_status fail_memory(dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to look for a data set");
}

/* One of the spellings of a file, if the folder has it; *out stays NULL if not. */
static dpt_status find_file(const char *directory, dpt_part part, const char *what, int rank,
                            char **out, dpt_error *error)
{
    for (unsigned form = 0; form < 4; form++) {
        char *path = dpti_format("%s/%s-%s%cidx%d-ubyte%s", directory, stem[part], what,
                                 form < 2 ? '-' : '.', rank, form % 2 ? ".gz" : "");
        if (!path) return fail_memory(error);
        if (access(path, F_OK) == 0) {
            *out = path;
            return DPT_OK;
        }
        free(path);
    }
    return DPT_OK;
}

/* Both files, or neither of *out's members set. */
static dpt_status find_pair(const char *directory, dpt_part part, dpti_idx_pair *out,
                            bool *images_found, dpt_error *error)
{
    dpti_idx_pair pair = {0};
    dpt_status status = find_file(directory, part, "images", IMAGES_RANK, &pair.images, error);
    if (status == DPT_OK)
        status = find_file(directory, part, "labels", LABELS_RANK, &pair.labels, error);
    if (status == DPT_OK && !(pair.directory = dpti_strdup(directory))) status = fail_memory(error);
    *images_found = pair.images != NULL;
    if (status == DPT_OK && pair.images && pair.labels)
        *out = pair;
    else
        dpti_idx_pair_free(&pair);
    return status;
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

static bool places_collect(places *list, const char *dataset)
{
    const char *data = dpti_environment("DPTRAIN_DATA");
    if (data) {
        /* The folder with the data set's name first: the files' names do not tell sets apart. */
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
    const package *known = package_of(dataset);
    if (known && known->directory) return places_add(list, dpti_strdup(known->directory));
    return true;
}

static dpt_status fail_not_found(const char *dataset, const places *looked, dpt_error *error)
{
    char list[DPT_MESSAGE_BYTES] = "";
    size_t used = 0;
    for (size_t i = 0; i < looked->count && used < sizeof list; i++)
        used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", i ? ", " : "; looked in ",
                                 looked->path[i]);
    const package *known = package_of(dataset);
    return DPT_FAIL(error, DPT_E_NOT_FOUND, "the data set %s is not on this machine: %s%s", dataset,
                    known ? known->advice : "pass --data DIR", list);
}

static dpt_status find_given(const char *directory, dpt_part part, dpti_idx_pair *out,
                             dpt_error *error)
{
    dpti_idx_pair pair = {0};
    bool images_found = false;
    DPT_TRY(find_pair(directory, part, &pair, &images_found, error));
    if (pair.images) {
        *out = pair;
        return DPT_OK;
    }
    if (access(directory, R_OK | X_OK) != 0)
        return DPT_FAIL_NATIVE(error, DPT_E_NOT_FOUND, errno,
                               "cannot look for data in %s: %s; check the folder", directory,
                               strerror(errno));
    return DPT_FAIL(error, DPT_E_NOT_FOUND,
                    "%s has no %s-%s-idx%d-ubyte (nor with .gz); put the file there or name "
                    "another folder",
                    directory, stem[part], images_found ? "labels" : "images",
                    images_found ? LABELS_RANK : IMAGES_RANK);
}

dpt_status dpti_find_idx(const char *dataset, const char *directory, dpt_part part,
                         dpti_idx_pair *out, dpt_error *error)
{
    if (directory) return find_given(directory, part, out, error);
    places list = {0};
    dpti_idx_pair pair = {0};
    dpt_status status = places_collect(&list, dataset) ? DPT_OK : fail_memory(error);
    for (size_t i = 0; status == DPT_OK && !pair.images && i < list.count; i++) {
        bool images_found = false;
        status = find_pair(list.path[i], part, &pair, &images_found, error);
    }
    if (status == DPT_OK && !pair.images) status = fail_not_found(dataset, &list, error);
    places_free(&list);
    if (status == DPT_OK) *out = pair;
    return status;
}
