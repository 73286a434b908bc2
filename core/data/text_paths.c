/* Lists the files of a text (text_paths.h). */
#include "data/text_paths.h"

#include "base/grow.h"
#include "base/print.h"
#include "base/text.h"
#include "data/listing.h"
#include "data/test_name.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_LEVELS = 64 }; /* of folders */

static dpt_status fail_memory(dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the names of files");
}

void dpti_paths_free(dpti_paths *paths)
{
    for (size_t i = 0; i < paths->n; i++)
        free(paths->items[i]);
    free(paths->items);
    *paths = (dpti_paths){.n = 0};
}

/* Takes the allocated path, also after a failure. */
static dpt_status add(dpti_paths *to, char *path, dpt_error *error)
{
    char **items = path ? dpti_grow(to->items, to->n, &to->room, sizeof *items) : NULL;
    if (!items) {
        free(path);
        return fail_memory(error);
    }
    to->items = items;
    to->items[to->n++] = path;
    return DPT_OK;
}

/* ---- Folders --------------------------------------------------------------------------------- */

/* A folder that waits to be listed, or is. */
typedef struct level {
    char *folder;
    dpti_listing listing;
    size_t next; /* the entry to look at */
} level;

/* The folders from the given one to the one that is being looked at. */
typedef struct descent {
    level levels[MOST_LEVELS];
    size_t n;
} descent;

/* Takes the allocated path. */
static dpt_status enter(descent *d, char *folder, dpt_error *error)
{
    if (!folder) return fail_memory(error);
    if (d->n == MOST_LEVELS) {
        const dpt_status status =
            DPT_FAIL(error, DPT_E_INVALID, "%s: folders are nested too deep (%d levels)", folder,
                     MOST_LEVELS);
        free(folder);
        return status;
    }
    level *l = &d->levels[d->n++];
    *l = (level){.folder = folder};
    return dpti_listing_read(folder, DPTI_LIST_ALL, &l->listing, error);
}

static void leave(descent *d)
{
    level *l = &d->levels[--d->n];
    dpti_listing_free(&l->listing);
    free(l->folder);
}

/* Looks at the next entry of the innermost folder. */
static dpt_status step(descent *d, dpti_paths *out, dpt_error *error)
{
    level *l = &d->levels[d->n - 1];
    struct stat link, info;
    if (l->next == l->listing.count) {
        leave(d);
        return DPT_OK;
    }
    char *path = dpti_format("%s/%s", l->folder, l->listing.names[l->next++]);
    if (!path) return fail_memory(error);
    const bool there = lstat(path, &link) == 0 && stat(path, &info) == 0;
    if (there && S_ISDIR(link.st_mode)) return enter(d, path, error);
    if (there && S_ISREG(info.st_mode) && info.st_size > 0) return add(out, path, error);
    free(path);
    return DPT_OK;
}

static dpt_status list_folder(const char *folder, dpti_paths *out, dpt_error *error)
{
    descent d = {.n = 0};
    const size_t before = out->n;
    dpt_status status = enter(&d, dpti_strdup(folder), error);
    while (status == DPT_OK && d.n > 0)
        status = step(&d, out, error);
    while (d.n > 0)
        leave(&d);
    if (status == DPT_OK && out->n == before)
        return DPT_FAIL(error, DPT_E_INVALID, "%s has no file that is not empty", folder);
    return status;
}

/* ---- Paths ----------------------------------------------------------------------------------- */

static dpt_status list_path(const char *path, dpti_paths *out, dpt_error *error)
{
    struct stat info;
    if (stat(path, &info) != 0)
        return DPT_FAIL_NATIVE(error, errno == ENOENT ? DPT_E_NOT_FOUND : DPT_E_IO, errno,
                               "cannot read %s: %s; give --data the path of a file or a folder",
                               path, strerror(errno));
    if (S_ISDIR(info.st_mode)) return list_folder(path, out, error);
    return add(out, dpti_strdup(path), error);
}

/* Cuts a list at its commas. */
static dpt_status cut(const char *given, dpti_paths *out, dpt_error *error)
{
    if (access(given, F_OK) == 0) return add(out, dpti_strdup(given), error);
    for (const char *at = given;;) {
        const size_t n = strcspn(at, ",");
        if (n > 0) DPT_TRY(add(out, dpti_strndup(at, n), error));
        if (!at[n]) break;
        at += n + 1;
    }
    if (out->n > 0) return DPT_OK;
    return DPT_FAIL(error, DPT_E_INVALID, "no file is named: give --data the path of a file");
}

/* Puts the names of the test part in place of the training part's, if all of them exist. */
static dpt_status rename_all(dpti_paths *paths, const char *word, bool *renamed, dpt_error *error)
{
    dpti_paths test = {.n = 0};
    dpt_status status = DPT_OK;
    *renamed = true;
    for (size_t i = 0; status == DPT_OK && *renamed && i < paths->n; i++) {
        char *name = dpti_test_name(paths->items[i], word);
        *renamed = name && access(name, F_OK) == 0;
        if (*renamed)
            status = add(&test, name, error);
        else
            free(name);
    }
    if (status == DPT_OK && *renamed) {
        const dpti_paths training = *paths;
        *paths = test;
        test = training;
    }
    dpti_paths_free(&test);
    return status;
}

static dpt_status list(dpti_paths *named, bool test, dpti_paths *out, dpt_error *error)
{
    static const char *const words[] = {"test", "val"};
    bool renamed = !test;
    for (size_t w = 0; w < sizeof words / sizeof *words && !renamed; w++)
        DPT_TRY(rename_all(named, words[w], &renamed, error));
    for (size_t i = 0; i < named->n; i++)
        DPT_TRY(list_path(named->items[i], out, error));
    return DPT_OK;
}

dpt_status dpti_text_paths(const char *given, bool test, dpti_paths *out, dpt_error *error)
{
    dpti_paths named = {.n = 0}, files = {.n = 0};
    dpt_status status = cut(given, &named, error);
    if (status == DPT_OK) status = list(&named, test, &files, error);
    dpti_paths_free(&named);
    if (status == DPT_OK)
        *out = files;
    else
        dpti_paths_free(&files);
    return status;
}
