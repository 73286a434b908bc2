/* The pictures below a folder or of a list, for predictions: finding them, and reading them when
   they are needed (dptrain/pictures.h). */
#include "context/context.h"
#include "context/sized.h"
#include "data/listing.h"
#include "data/picture.h"
#include "data/picture_files.h"

#include "base/grow.h"
#include "base/print.h"
#include "base/text.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { DEEPEST = 64 };

typedef struct one_picture {
    char *name;    /* relative to the folder, if there is one */
    char *failure; /* NULL: it was read, or not yet */
} one_picture;

struct dpt_pictures {
    char *folder; /* "" of a list */
    one_picture *list;
    size_t count, capacity, others;
    dpt_pictures_options options;
    pthread_mutex_t large;  /* of dpti_picture_options */
    pthread_mutex_t failed; /* of `failure` */
};

static dpt_status fail_memory(const char *folder, dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the names of pictures%s%s",
                    *folder ? " in " : "", folder);
}

/* "A/B", or B if A is "". */
static char *join(const char *a, const char *b)
{
    return *a ? dpti_format("%s/%s", a, b) : dpti_strdup(b);
}

/* ---- Finding --------------------------------------------------------------------------------- */

static dpt_status add(dpt_pictures *p, const char *below, const char *name, dpt_error *error)
{
    one_picture *list = dpti_grow(p->list, p->count, &p->capacity, sizeof *list);
    if (!list) return fail_memory(p->folder, error);
    p->list = list;
    p->list[p->count] = (one_picture){.name = join(below, name)};
    if (!p->list[p->count].name) return fail_memory(p->folder, error);
    p->count++;
    return DPT_OK;
}

/* Takes the names of folders out of a listing of everything. */
static void drop(dpti_listing *files, const dpti_listing *folders)
{
    size_t n = 0, at;
    for (size_t i = 0; i < files->count; i++) {
        if (dpti_listing_find(folders, files->names[i], &at))
            free(files->names[i]);
        else
            files->names[n++] = files->names[i];
    }
    files->count = n;
}

/* A folder that is looked at. */
typedef struct place {
    const char *below; /* relative to the folder of the pictures */
    const char *path;
    dpti_listing folders; /* in it */
} place;

/* Adds the pictures of one folder, and lists the folders in it. */
static dpt_status add_files(dpt_pictures *p, place *at, dpt_error *error)
{
    dpti_listing files = {0};
    DPT_TRY(dpti_listing_read(at->path, DPTI_LIST_FOLDERS, &at->folders, error));
    dpt_status status = dpti_listing_read(at->path, DPTI_LIST_ALL, &files, error);
    if (status == DPT_OK) drop(&files, &at->folders);
    if (status == DPT_OK) p->others += dpti_keep_pictures(at->path, &files);
    for (size_t i = 0; status == DPT_OK && i < files.count; i++)
        status = add(p, at->below, files.names[i], error);
    dpti_listing_free(&files);
    return status;
}

/* Folders that are still to be looked at: paths relative to the folder, and how deep they are. */
typedef struct waiting {
    char *name;
    size_t depth;
} waiting;

typedef struct stack {
    waiting *list;
    size_t count, capacity;
} stack;

static bool push(stack *s, char *name, size_t depth)
{
    waiting *list = name ? dpti_grow(s->list, s->count, &s->capacity, sizeof *list) : NULL;
    if (!list) {
        free(name);
        return false;
    }
    s->list = list;
    s->list[s->count++] = (waiting){name, depth};
    return true;
}

/* Looks at the folder on top of the stack, and puts those in it on the stack. */
static dpt_status look(dpt_pictures *p, stack *s, dpt_error *error)
{
    const waiting now = s->list[--s->count];
    char *path = *now.name ? join(p->folder, now.name) : dpti_strdup(p->folder);
    place at = {.below = now.name, .path = path};
    dpt_status status = path ? add_files(p, &at, error) : fail_memory(p->folder, error);
    if (status == DPT_OK && at.folders.count > 0 && now.depth == DEEPEST)
        status = DPT_FAIL(error, DPT_E_FORMAT,
                          "%s: folders are nested more than %d deep; does a link lead back?", path,
                          DEEPEST);
    for (size_t i = 0; status == DPT_OK && i < at.folders.count; i++)
        if (!push(s, join(now.name, at.folders.names[i]), now.depth + 1))
            status = fail_memory(p->folder, error);
    dpti_listing_free(&at.folders);
    free(path);
    free(now.name);
    return status;
}

static int by_name(const void *a, const void *b)
{
    const one_picture *x = a, *y = b;
    return strcmp(x->name, y->name);
}

static dpt_status find_all(dpt_pictures *p, dpt_error *error)
{
    stack s = {.list = NULL};
    dpt_status status = push(&s, dpti_strdup(""), 0) ? DPT_OK : fail_memory(p->folder, error);
    while (status == DPT_OK && s.count > 0)
        status = look(p, &s, error);
    while (s.count > 0)
        free(s.list[--s.count].name);
    free(s.list);
    if (status == DPT_OK && p->count > 0) qsort(p->list, p->count, sizeof *p->list, by_name);
    return status;
}

/* NULL without memory. */
static dpt_pictures *create(const char *folder)
{
    dpt_pictures *p = calloc(1, sizeof *p);
    if (!p) return NULL;
    pthread_mutex_init(&p->large, NULL);
    pthread_mutex_init(&p->failed, NULL);
    p->folder = dpti_strdup(folder);
    if (p->folder) return p;
    dpt_pictures_destroy(p);
    return NULL;
}

/* Gives the pictures to the caller, or destroys them. */
static dpt_status give(dpt_context *context, dpt_pictures *p, const dpt_error *error,
                       dpt_pictures **out)
{
    if (error->status == DPT_OK) {
        *out = p;
        return DPT_OK;
    }
    dpt_pictures_destroy(p);
    return dpti_context_fail(context, NULL, error);
}

dpt_status dpt_pictures_find(dpt_context *context, const char *folder, dpt_pictures **out)
{
    dpt_error error = {.status = DPT_OK};
    if (!folder || !out)
        return dpt_fail(context, DPT_E_INVALID, "dpt_pictures_find: %s is NULL",
                        folder ? "out" : "folder");
    dpt_pictures *p = create(folder);
    (void)(p ? find_all(p, &error) : fail_memory(folder, &error));
    return give(context, p, &error, out);
}

dpt_status dpt_pictures_list(dpt_context *context, const char *const *paths, size_t n,
                             dpt_pictures **out)
{
    dpt_error error = {.status = DPT_OK};
    if (!paths || !out)
        return dpt_fail(context, DPT_E_INVALID, "dpt_pictures_list: %s is NULL",
                        paths ? "out" : "paths");
    for (size_t i = 0; i < n; i++)
        if (!paths[i] || !*paths[i])
            return dpt_fail(context, DPT_E_INVALID, "dpt_pictures_list: path %zu is %s", i,
                            paths[i] ? "empty" : "NULL");
    dpt_pictures *p = create("");
    dpt_status status = p ? DPT_OK : fail_memory("", &error);
    for (size_t i = 0; status == DPT_OK && i < n; i++)
        status = add(p, "", paths[i], &error);
    return give(context, p, &error, out);
}

void dpt_pictures_destroy(dpt_pictures *pictures)
{
    dpt_pictures *p = pictures;
    if (!p) return;
    for (size_t i = 0; i < p->count; i++) {
        free(p->list[i].name);
        free(p->list[i].failure);
    }
    free(p->list);
    free(p->folder);
    pthread_mutex_destroy(&p->failed);
    pthread_mutex_destroy(&p->large);
    free(p);
}

size_t dpt_pictures_count(const dpt_pictures *pictures)
{
    return pictures->count;
}

size_t dpt_pictures_others(const dpt_pictures *pictures)
{
    return pictures->others;
}

const char *dpt_pictures_name(const dpt_pictures *pictures, size_t number)
{
    return number < pictures->count ? pictures->list[number].name : NULL;
}

/* ---- Reading --------------------------------------------------------------------------------- */

/* The reader's threads call it. */
static dpt_status read_one(void *user, size_t sample, size_t epoch, void *image,
                           char why[DPT_READER_WHY_BYTES])
{
    dpt_pictures *p = user;
    const dpt_picture_shape *shape = &p->options.shape;
    const dpti_picture_options way = {.shape = *shape, .large = &p->large};
    dpt_error error = {0};
    (void)epoch;
    char *path = join(p->folder, p->list[sample].name);
    const dpt_status status =
        path ? dpti_picture_read(path, &way, image, &error) : fail_memory(p->folder, &error);
    free(path);
    if (status == DPT_OK) return DPT_OK;
    snprintf(why, DPT_READER_WHY_BYTES, "%.*s", DPT_READER_WHY_BYTES - 1, error.message);
    if (!p->options.skip_unreadable || status == DPT_E_NO_MEMORY) return status;
    memset(image, 0, shape->height * shape->width * shape->channels);
    pthread_mutex_lock(&p->failed);
    one_picture *one = &p->list[sample];
    if (!one->failure) one->failure = dpti_strdup(why);
    const bool noted = one->failure != NULL;
    pthread_mutex_unlock(&p->failed);
    return noted ? DPT_OK : DPT_E_NO_MEMORY;
}

dpt_status dpt_pictures_open(dpt_context *context, dpt_pictures *pictures,
                             const dpt_pictures_options *options, dpt_dataset **out)
{
    dpt_pictures *p = pictures;
    dpt_pictures_options o;
    if (!p || !out)
        return dpt_fail(context, DPT_E_INVALID, "dpt_pictures_open: %s is NULL",
                        p ? "out" : "pictures");
    DPT_TRY(dpti_take_sized(context, &(dpti_sized){"dpt_pictures_options", options, sizeof o}, &o));
    p->options = o;
    const dpt_dataset_memory memory = {.size = sizeof memory,
                                       .count = p->count,
                                       .height = o.shape.height,
                                       .width = o.shape.width,
                                       .channels = o.shape.channels,
                                       .outputs = o.outputs,
                                       .dtype = DPT_U8};
    const dpt_dataset_reader reader = {.size = sizeof reader,
                                       .read = read_one,
                                       .user = p,
                                       .n_threads = o.n_threads,
                                       .names_samples = true};
    return dpt_dataset_from_reader(context, &memory, &reader, out);
}

const char *dpt_pictures_failure(const dpt_pictures *pictures, size_t number)
{
    return number < pictures->count ? pictures->list[number].failure : NULL;
}
