/* Reads the names of a folder's entries. */
#include "data/listing.h"

#include "base/grow.h"
#include "base/print.h"
#include "base/text.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static dpt_status fail_read(const char *folder, const char *name, int code, dpt_error *error)
{
    const dpt_status status = code == ENOENT ? DPT_E_NOT_FOUND : DPT_E_IO;
    return DPT_FAIL_NATIVE(error, status, code, "cannot read %s%s%s: %s", folder, *name ? "/" : "",
                           name, strerror(code));
}

static dpt_status fail_memory(const char *folder, dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the names in %s", folder);
}

/* A folder that is being read, what is listed of it, and the list. */
typedef struct reading {
    const char *folder;
    dpti_listing_kind kind;
    dpti_listing listing;
} reading;

/* Most file systems store the kind of an entry in the folder.  Links are followed. */
static dpt_status tell_folder(const reading *r, const struct dirent *entry, bool *is_folder,
                              dpt_error *error)
{
    struct stat info;
    *is_folder = entry->d_type == DT_DIR;
    if (r->kind == DPTI_LIST_ALL) return DPT_OK;
    if (entry->d_type != DT_UNKNOWN && entry->d_type != DT_LNK) return DPT_OK;
    char *path = dpti_format("%s/%s", r->folder, entry->d_name);
    if (!path) return fail_memory(r->folder, error);
    const int code = stat(path, &info) == 0 ? 0 : errno;
    free(path);
    /* A link without a target counts as a file among files; reading it reports the failure. */
    const bool leads_nowhere = code == ENOENT || code == ELOOP || code == EACCES;
    if (leads_nowhere && entry->d_type == DT_LNK && r->kind == DPTI_LIST_FILES) return DPT_OK;
    if (code != 0) return fail_read(r->folder, entry->d_name, code, error);
    *is_folder = S_ISDIR(info.st_mode);
    return DPT_OK;
}

static dpt_status add(const char *folder, const char *name, dpti_listing *to, dpt_error *error)
{
    char **names = dpti_grow(to->names, to->count, &to->capacity, sizeof *names);
    if (!names) return fail_memory(folder, error);
    to->names = names;
    if (!(to->names[to->count] = dpti_strdup(name))) return fail_memory(folder, error);
    to->count++;
    return DPT_OK;
}

static dpt_status add_entry(reading *r, const struct dirent *entry, dpt_error *error)
{
    bool is_folder = false;
    if (entry->d_name[0] == '.') return DPT_OK;
    DPT_TRY(tell_folder(r, entry, &is_folder, error));
    if (is_folder && r->kind == DPTI_LIST_FILES)
        return DPT_FAIL(
            error, DPT_E_FORMAT,
            "%s/%s is a folder in the folder of a class, where only pictures may lie; if "
            "the folders of the classes lie in others, write :depth=2 behind the size "
            "(folder:64x64:depth=2)",
            r->folder, entry->d_name);
    if (!is_folder && r->kind == DPTI_LIST_FOLDERS) return DPT_OK;
    return add(r->folder, entry->d_name, &r->listing, error);
}

/* Compares unsigned bytes, as strcmp does, so that the locale has no influence. */
static int compare(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

dpt_status dpti_listing_read(const char *folder, dpti_listing_kind kind, dpti_listing *out,
                             dpt_error *error)
{
    reading r = {.folder = folder, .kind = kind};
    DIR *directory = opendir(folder);
    if (!directory) return fail_read(folder, "", errno, error);
    dpt_status status = DPT_OK;
    while (status == DPT_OK) {
        errno = 0; /* readdir's NULL is the end, or a failure */
        const struct dirent *entry = readdir(directory);
        if (!entry) {
            if (errno != 0) status = fail_read(folder, "", errno, error);
            break;
        }
        status = add_entry(&r, entry, error);
    }
    closedir(directory);
    if (status != DPT_OK) {
        dpti_listing_free(&r.listing);
        return status;
    }
    if (r.listing.count > 0)
        qsort(r.listing.names, r.listing.count, sizeof *r.listing.names, compare);
    *out = r.listing;
    return DPT_OK;
}

/* Adds the folders of all folders of a list, with their paths. */
static dpt_status descend(const char *folder, const dpti_listing *from, dpti_listing *to,
                          dpt_error *error)
{
    dpt_status status = DPT_OK;
    for (size_t i = 0; status == DPT_OK && i < from->count; i++) {
        dpti_listing below = {0};
        char *path = dpti_format("%s/%s", folder, from->names[i]);
        status = path ? dpti_listing_read(path, DPTI_LIST_FOLDERS, &below, error)
                      : fail_memory(folder, error);
        for (size_t k = 0; status == DPT_OK && k < below.count; k++) {
            char *name = dpti_format("%s/%s", from->names[i], below.names[k]);
            status = name ? add(folder, name, to, error) : fail_memory(folder, error);
            free(name);
        }
        dpti_listing_free(&below);
        free(path);
    }
    return status;
}

dpt_status dpti_listing_below(const char *folder, size_t depth, dpti_listing *out, dpt_error *error)
{
    dpti_listing list = {0};
    DPT_TRY(dpti_listing_read(folder, DPTI_LIST_FOLDERS, &list, error));
    for (size_t level = 1; level < depth; level++) {
        dpti_listing next = {0};
        const dpt_status status = descend(folder, &list, &next, error);
        dpti_listing_free(&list);
        list = next;
        if (status == DPT_OK) continue;
        dpti_listing_free(&list);
        return status;
    }
    /* A character before '/' may have changed the order. */
    if (list.count > 0) qsort(list.names, list.count, sizeof *list.names, compare);
    *out = list;
    return DPT_OK;
}

bool dpti_listing_find(const dpti_listing *listing, const char *name, size_t *at)
{
    if (listing->count == 0) return false;
    char *const *found =
        bsearch(&name, listing->names, listing->count, sizeof *listing->names, compare);
    if (found) *at = (size_t)(found - listing->names);
    return found != NULL;
}

void dpti_listing_free(dpti_listing *listing)
{
    for (size_t i = 0; i < listing->count; i++)
        free(listing->names[i]);
    free(listing->names);
    *listing = (dpti_listing){0};
}
