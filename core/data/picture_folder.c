/* The data sets "folder:HxW[xC]", with one folder of pictures per class, DIR/train/CLASS and
   DIR/test/CLASS, and "pictures:HxW[xC]:TABLE", with a table of pictures and labels.  Pictures are
   cut and scaled to one size.  The folders or the table of the training part name the classes of
   both parts.  Images are in memory, or the data set keeps the paths to read them on demand. */
#include "context/context.h"
#include "data/data.h"

#include "base/environment.h"
#include "base/grow.h"
#include "base/memory.h"
#include "base/parse.h"
#include "base/print.h"
#include "base/random.h"
#include "base/size.h"
#include "base/text.h"
#include "data/class_names.h"
#include "data/find.h"
#include "data/listing.h"
#include "data/picture.h"
#include "data/picture_files.h"
#include "data/picture_table.h"
#include "data/statistics.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static const char kind[] = "folder", as_needed[] = ":stream";

enum { MIN_CLASSES = 2 };

/* One class's pictures in a part. */
typedef struct group {
    size_t label;
    dpti_listing files;
} group;

/* The folders of a part and their pictures.  The reader of the pictures keeps this struct. */
typedef struct contents {
    dpti_folder_spec spec;
    pthread_mutex_t large; /* of dpti_picture_options */
    char *train, *part;    /* the folders, which may be the same */
    dpti_listing classes;  /* of the training part */
    dpti_listing present;  /* of this part: all or some of those */
    group *groups;         /* (present.count) */
    size_t n_passed;       /* files that are no pictures */
    size_t *labels;        /* of a table: of each picture.  The pictures are one group, whose names
                              are paths below `part`, or absolute ones; else NULL */
    size_t *starts; /* (present.count + 1) the number of the first picture of each class; the last
                       entry is the number of all pictures */
} contents;

/* ---- What there is --------------------------------------------------------------------------- */

static void contents_free(void *user)
{
    contents *c = user;
    if (!c) return;
    pthread_mutex_destroy(&c->large);
    for (size_t i = 0; c->groups && i < c->present.count; i++)
        dpti_listing_free(&c->groups[i].files);
    free(c->labels);
    free(c->starts);
    free(c->groups);
    dpti_listing_free(&c->present);
    dpti_listing_free(&c->classes);
    free(c->part);
    free(c->train);
    free(c);
}

static contents *contents_create(const dpti_folder_spec *spec)
{
    contents *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->spec = *spec;
    pthread_mutex_init(&c->large, NULL);
    return c;
}

/* Finds the folder of a part and, if `found` is not NULL, the folder in which it was found. */
static dpt_status find_part(const dpti_data_request *request, char **folder, char **found,
                            dpt_error *error)
{
    const dpti_data_request files_of = {
        .name = kind, .directory = request->directory, .part = request->part};
    dpti_files files = {0};
    DPT_TRY(dpti_find_files(&files_of, &files, error));
    *folder = files.paths[0];
    files.paths[0] = NULL;
    if (found) {
        *found = files.directory;
        files.directory = NULL;
    }
    dpti_files_free(&files);
    return DPT_OK;
}

static dpt_status check_classes(const contents *c, dpt_error *error)
{
    const dpti_listing *list = &c->classes;
    if (list->count < MIN_CLASSES || list->count > DPTI_MAX_CLASSES)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s has %zu folder%s%s, and there must be %d to %d: one for each class, "
                        "with its pictures",
                        c->train, list->count, list->count == 1 ? "" : "s",
                        c->spec.depth > 1 ? " at this depth" : "", MIN_CLASSES, DPTI_MAX_CLASSES);
    for (size_t i = 0; i < list->count; i++)
        if (list->names[i][dpti_plain_bytes(list->names[i])] != '\0')
            return DPT_FAIL(error, DPT_E_FORMAT,
                            "%s/%s: the folder's name is that of a class, and must be printable "
                            "UTF-8; rename it",
                            c->train, list->names[i]);
    return DPT_OK;
}

static dpt_status list_group(contents *c, size_t i, dpt_error *error)
{
    group *out = &c->groups[i];
    const char *name = c->present.names[i];
    if (!dpti_listing_find(&c->classes, name, &out->label))
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s/%s: %s has no such folder, and the classes are those of training",
                        c->part, name, c->train);
    char *folder = dpti_format("%s/%s", c->part, name);
    if (!folder) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the names of pictures");
    dpt_status status = dpti_listing_read(folder, DPTI_LIST_FILES, &out->files, error);
    const size_t n_passed = status == DPT_OK ? dpti_keep_pictures(folder, &out->files) : 0;
    if (status == DPT_OK && out->files.count == 0)
        status = DPT_FAIL(error, DPT_E_FORMAT,
                          "%s has no pictures%s; put some there or remove the folder", folder,
                          n_passed ? ", but other files" : "");
    c->n_passed += n_passed;
    free(folder);
    return status;
}

static void count_pictures(const contents *c)
{
    for (size_t i = 0; i < c->present.count; i++)
        c->starts[i + 1] = c->starts[i] + c->groups[i].files.count;
}

static dpt_status list_pictures(contents *c, dpt_error *error)
{
    const size_t n = c->present.count;
    if (n == 0)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s has no folders: the pictures of a class lie in a folder of its name",
                        c->part);
    c->groups = calloc(n, sizeof *c->groups);
    c->starts = calloc(n + 1, sizeof *c->starts);
    if (!c->groups || !c->starts)
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the names of pictures");
    for (size_t i = 0; i < n; i++)
        DPT_TRY(list_group(c, i, error));
    count_pictures(c);
    return DPT_OK;
}

/* Lists the pictures of c->part, which lies in `directory`. */
static dpt_status list(const char *directory, dpt_part part, contents *c, dpt_error *error)
{
    if (part != DPT_TRAIN)
        DPT_TRY(find_part(&(dpti_data_request){.directory = directory, .part = DPT_TRAIN},
                          &c->train, NULL, error));
    else if (!(c->train = dpti_strdup(c->part)))
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the names of pictures");
    DPT_TRY(dpti_listing_below(c->train, c->spec.depth, &c->classes, error));
    DPT_TRY(check_classes(c, error));
    DPT_TRY(dpti_listing_below(c->part, c->spec.depth, &c->present, error));
    return list_pictures(c, error);
}

/* ---- Tables ---------------------------------------------------------------------------------- */

/* Takes the pictures of a table as one group. */
static dpt_status take_list(contents *c, dpti_picture_list *list, dpt_error *error)
{
    c->present.names = calloc(1, sizeof *c->present.names);
    c->groups = calloc(1, sizeof *c->groups);
    c->starts = calloc(2, sizeof *c->starts);
    if (!c->present.names || !c->groups || !c->starts || !(c->present.names[0] = dpti_strdup("")))
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the names of pictures");
    c->present.count = c->present.capacity = 1;
    c->part = list->folder;
    c->classes = list->classes;
    c->groups->files = list->files;
    c->labels = list->labels;
    list->folder = NULL;
    list->labels = NULL;
    list->classes = list->files = (dpti_listing){0};
    count_pictures(c);
    return DPT_OK;
}

/* Reads the pictures of the table that the name of the data set names.  *table gets the path of the
   table, which the caller frees. */
static dpt_status list_table(const dpti_data_request *request, contents *c, char **table,
                             dpt_error *error)
{
    dpti_picture_list list = {0};
    DPT_TRY(dpti_picture_list_read(request, c->spec.table, &list, error));
    c->spec.table = NULL; /* it is a part of the request */
    const dpt_status status = take_list(c, &list, error);
    if (status == DPT_OK) {
        *table = list.table;
        list.table = NULL;
    }
    dpti_picture_list_free(&list);
    return status;
}

/* ---- Both ------------------------------------------------------------------------------------ */

/* Lists the pictures of a part.  The caller frees *found, the folder of the parts or the table,
   also after a failure. */
static dpt_status list_contents(const dpti_data_request *request, char **found, contents **out,
                                dpt_error *error)
{
    dpti_folder_spec spec;
    DPT_TRY(dpti_folder_parse(request->name, &spec, error));
    contents *c = contents_create(&spec);
    if (!c) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a data set");
    dpt_status status = DPT_OK;
    if (spec.is_table) {
        status = list_table(request, c, found, error);
    } else {
        /* Wherever this part is found, the other one is too. */
        status = find_part(request, &c->part, found, error);
        if (status == DPT_OK) status = list(*found, request->part, c, error);
    }
    if (status == DPT_OK)
        *out = c;
    else
        contents_free(c);
    return status;
}

/* ---- The data set ---------------------------------------------------------------------------- */

static size_t group_of(const contents *c, size_t picture)
{
    size_t low = 0, high = c->present.count; /* starts[low] <= picture < starts[high] */
    while (high - low > 1) {
        const size_t middle = low + (high - low) / 2;
        if (c->starts[middle] <= picture)
            low = middle;
        else
            high = middle;
    }
    return low;
}

static char *path_of(const contents *c, size_t picture)
{
    const size_t i = group_of(c, picture);
    if (c->labels) {
        const char *name = c->groups->files.names[picture];
        return name[0] == '/' ? dpti_strdup(name) : dpti_format("%s/%s", c->part, name);
    }
    return dpti_format("%s/%s/%s", c->part, c->present.names[i],
                       c->groups[i].files.names[picture - c->starts[i]]);
}

static dpt_status read_picture(void *user, const dpti_wanted_image *wanted, void *image,
                               dpt_error *error)
{
    contents *c = user;
    const dpti_image_use *use = wanted->use;
    dpti_random random;
    const dpti_picture_options way = {.shape = c->spec.shape,
                                      .least_area = use->epoch > 0 ? use->least_area : 0,
                                      .random = &random,
                                      .large = &c->large};
    dpti_random_init(&random, use->seed, DPTI_RANDOM_CROP,
                     (uint64_t)use->epoch << 32 | (uint64_t)wanted->record);
    char *path = path_of(c, wanted->record);
    if (!path) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the name of a picture");
    const dpt_status status = dpti_picture_read(path, &way, image, error);
    free(path);
    return status;
}

static size_t count_of(const contents *c)
{
    return c->starts[c->present.count];
}

static size_t image_bytes_of(const contents *c)
{
    return c->spec.shape.height * c->spec.shape.width * c->spec.shape.channels;
}

/* Returns how many bytes of images may be kept in memory. */
static dpt_status find_most(size_t *out, dpt_error *error)
{
    static const char name[] = "DPTRAIN_DATA_MEMORY";
    const char *told = dpti_environment(name);
    *out = dpti_machine_memory() / 2;
    if (!told || dpti_parse_bytes(told, out)) return DPT_OK;
    return DPT_FAIL(error, DPT_E_INVALID,
                    "%s is \"%.40s\": give the memory that pictures may take, as in 8G", name,
                    told);
}

/* Decides whether images are read on demand. */
static dpt_status choose(const contents *c, const dpti_folder_spec *request, bool *streamed,
                         dpt_error *error)
{
    size_t total, most;
    DPT_TRY(find_most(&most, error));
    *streamed =
        request->streamed || !dpti_multiply(image_bytes_of(c), count_of(c), &total) || total > most;
    return DPT_OK;
}

/* Fills in everything except the images. */
static dpt_status describe(const contents *c, const char *directory, dpt_dataset *out,
                           dpt_error *error)
{
    const size_t count = count_of(c);
    if (count > DPTI_MAX_RECORDS)
        return DPT_FAIL(error, DPT_E_FORMAT, "%s has %zu pictures, at most %d can be used", c->part,
                        count, DPTI_MAX_RECORDS);
    *out = (dpt_dataset){
        .name = dpti_folder_name(&c->spec),
        .source = dpti_strdup(directory),
        .count = count,
        .n_records = count,
        .height = c->spec.shape.height,
        .width = c->spec.shape.width,
        .channels = c->spec.shape.channels,
        .classes = c->classes.count,
        .dtype = DPT_U8,
        .labels = dpti_alloc_aligned(count * sizeof *out->labels),
        .stat_channels = 1,
        .scale = {1.0f / 255.0f},
        .own_names = dpti_class_names_copy((const char *const *)c->classes.names, c->classes.count),
    };
    out->class_names = out->own_names;
    if (!out->name || !out->source || !out->labels || !out->own_names)
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the labels of %s", c->part);
    for (size_t i = 0; i < c->present.count; i++)
        for (size_t k = c->starts[i]; k < c->starts[i + 1]; k++)
            out->labels[k] = (int32_t)(c->labels ? c->labels[k] : c->groups[i].label);
    return DPT_OK;
}

static dpt_status read_all(const contents *c, dpti_reader *reader, dpt_dataset *data,
                           dpt_error *error)
{
    const size_t total = image_bytes_of(c) * data->count; /* does not overflow: see choose */
    data->images = dpti_alloc_aligned(total);
    if (!data->images)
        return DPT_FAIL(error, DPT_E_NO_MEMORY,
                        "no memory for the %zu images of %s; with %s%s they are read as they are "
                        "needed",
                        data->count, c->part, data->name, as_needed);
    dpti_request all = {.n = data->count, .images = data->images};
    dpti_reader_post(reader, &all);
    return dpti_reader_wait(reader, &all, error);
}

/* How the images are provided. */
typedef enum data_use { INTO_MEMORY, STREAMED, UNREAD } data_use;

/* Provides the images by data->reader. */
static dpt_status provide(const contents *c, data_use images, dpt_dataset *data, dpt_error *error)
{
    if (images != INTO_MEMORY) {
        data->crops = true;
        return images == STREAMED ? dpti_dataset_find_content(data, error) : DPT_OK;
    }
    const dpt_status status = read_all(c, data->reader, data, error);
    dpti_reader_destroy(data->reader);
    data->reader = NULL;
    return status;
}

/* Takes over the contents. */
static dpt_status create_reader(contents *c, dpti_reader **out, dpt_error *error)
{
    const dpti_image_source source = {.make = read_picture,
                                      .destroy = contents_free,
                                      .user = c,
                                      .image_bytes = image_bytes_of(c)};
    return dpti_reader_create(&source, out, error);
}

/* What a folder's data set is made of. */
typedef struct creation {
    const char *directory;
    dpti_folder_spec spec;
    bool unread;
} creation;

/* Takes over the contents. */
static dpt_status create(contents *c, const creation *how, dpt_dataset **out, dpt_error *error)
{
    dpt_dataset *data = dpti_dataset_allocate();
    bool streamed = false;
    dpt_status status = data ? describe(c, how->directory, data, error)
                             : DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a data set");
    if (status == DPT_OK) status = choose(c, &how->spec, &streamed, error);
    if (status != DPT_OK)
        contents_free(c);
    else
        status = create_reader(c, &data->reader, error);
    const data_use images = how->unread ? UNREAD : streamed ? STREAMED : INTO_MEMORY;
    if (status == DPT_OK) status = provide(c, images, data, error);
    if (status == DPT_OK)
        *out = data;
    else
        dpt_dataset_destroy(data);
    return status;
}

/* ---- Pictures that cannot be read ------------------------------------------------------------ */

/* The pictures that a survey could not read, in rising order. */
typedef struct unreadable {
    size_t *pictures; /* owned */
    size_t n, capacity;
    bool no_memory;
} unreadable;

static void note_unreadable(void *user, size_t picture, const char *message)
{
    unreadable *u = user;
    (void)message;
    size_t *pictures = dpti_grow(u->pictures, u->n, &u->capacity, sizeof *pictures);
    if (!pictures) u->no_memory = true;
    if (!pictures) return;
    u->pictures = pictures;
    u->pictures[u->n++] = picture;
}

/* Takes these pictures out of the listings. */
static dpt_status leave_out(contents *c, const unreadable *u, dpt_error *error)
{
    size_t next = 0;
    for (size_t i = 0; i < c->present.count; i++) {
        dpti_listing *files = &c->groups[i].files;
        size_t n = 0;
        for (size_t k = 0; k < files->count; k++)
            if (next < u->n && u->pictures[next] == c->starts[i] + k) {
                free(files->names[k]);
                next++;
            } else {
                if (c->labels) c->labels[n] = c->labels[k];
                files->names[n++] = files->names[k];
            }
        files->count = n;
        if (n == 0 && c->labels)
            return DPT_FAIL(error, DPT_E_FORMAT,
                            "no picture of the table in %s can be read; dptrain data says why",
                            c->part);
        if (n == 0)
            return DPT_FAIL(error, DPT_E_FORMAT,
                            "%s/%s has no picture that can be read; dptrain data says why", c->part,
                            c->present.names[i]);
    }
    count_pictures(c);
    return DPT_OK;
}

/* Reads all pictures once, as dpt_dataset_survey does.  *c is replaced by contents without those
   that cannot be read. */
static dpt_status skip(const dpti_data_request *request, const char *found, contents **c,
                       dpt_error *error)
{
    dpt_dataset *data = NULL;
    unreadable u = {.n = 0};
    contents *rest = NULL;
    char *again = NULL;
    dpti_data_request silent = *request;
    silent.context = NULL; /* what there is to tell was told */
    dpt_status status = list_contents(&silent, &again, &rest, error);
    free(again);
    if (status == DPT_OK) {
        status = create(*c, &(creation){.directory = found, .unread = true}, &data, error);
        *c = NULL; /* it is the data set's */
    }
    const dpti_survey_visit visit = {note_unreadable, &u};
    if (status == DPT_OK) status = dpti_survey_unreadable(data, &visit, error);
    if (status == DPT_OK && u.no_memory)
        status = DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the names of pictures");
    if (status == DPT_OK) status = leave_out(rest, &u, error);
    if (status == DPT_OK && u.n > 0)
        dpti_context_notice(request->context,
                            "%s: %zu picture%s that cannot be read %s left out; dptrain data names "
                            "them",
                            rest->part, u.n, u.n == 1 ? "" : "s", u.n == 1 ? "is" : "are");
    dpt_dataset_destroy(data);
    free(u.pictures);
    contents_free(*c);
    *c = status == DPT_OK ? rest : NULL;
    if (status != DPT_OK) contents_free(rest);
    return status;
}

static void tell_passed(const dpti_data_request *request, const contents *c)
{
    if (c->n_passed > 0)
        dpti_context_notice(
            request->context, "%s: %zu file%s passed over, no picture%s by name and content",
            c->part, c->n_passed, c->n_passed == 1 ? " is" : "s are", c->n_passed == 1 ? "" : "s");
}

/* As list_contents, and tells what is left out. */
static dpt_status find_contents(const dpti_data_request *request, char **found, contents **out,
                                dpt_error *error)
{
    contents *c = NULL;
    DPT_TRY(list_contents(request, found, &c, error));
    tell_passed(request, c);
    if (c->spec.skips && !request->unread) DPT_TRY(skip(request, *found, &c, error));
    *out = c;
    return DPT_OK;
}

/* ---- Opening --------------------------------------------------------------------------------- */

dpt_status dpti_folder_create(const dpti_data_request *request, dpt_dataset **out, dpt_error *error)
{
    creation how = {.unread = request->unread};
    char *found = NULL;
    contents *c = NULL;
    DPT_TRY(dpti_folder_parse(request->name, &how.spec, error));
    dpt_status status = find_contents(request, &found, &c, error);
    how.directory = found;
    if (status == DPT_OK) status = create(c, &how, out, error);
    free(found);
    return status;
}

dpt_status dpti_folder_picture(const dpti_data_request *request, size_t sample, char **out,
                               dpt_error *error)
{
    char *found = NULL, *path = NULL;
    contents *c = NULL;
    dpt_status status = find_contents(request, &found, &c, error);
    if (status == DPT_OK && sample >= count_of(c))
        status = DPT_FAIL(error, DPT_E_INVALID, "%s has no sample %zu", c->part, sample);
    if (status == DPT_OK && !(path = path_of(c, sample)))
        status = DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the name of a picture");
    if (status == DPT_OK) *out = path;
    contents_free(c);
    free(found);
    return status;
}
