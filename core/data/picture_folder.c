/* "folder:HxW" and "folder:HxWxC": pictures in a folder for each class, DIR/train/CLASS and
   DIR/test/CLASS, cut and scaled to one size.  The folders of the training part say which classes
   there are, for both parts. */
#include "data/data.h"

#include "base/base.h"
#include "data/find.h"
#include "data/listing.h"
#include "data/picture.h"

#include <stdlib.h>
#include <string.h>

static const char kind[] = "folder";

enum {
    MAX_EXTENT = 4096,
    MIN_CLASSES = 2,
};

/* One class's pictures in a part. */
typedef struct group {
    size_t label;
    dpti_listing files;
} group;

/* What lies in the folders of a part. */
typedef struct contents {
    char *train, *part;   /* the folders, which may be the same */
    dpti_listing classes; /* of the training part */
    dpti_listing present; /* of this part: all or some of those */
    group *groups;        /* (present.count) */
    size_t *starts; /* (present.count + 1) the number of the first picture of each, and of all */
} contents;

/* ---- The name -------------------------------------------------------------------------------- */

/* An extent, to which the text's first `length` characters must be a number. */
static bool parse_extent(const char *text, size_t length, size_t max, size_t *out)
{
    char field[8];
    if (length >= sizeof field) return false;
    memcpy(field, text, length);
    field[length] = '\0';
    return dpti_parse_size(field, 1, max, out);
}

dpt_status dpti_folder_parse(const char *spec, dpt_picture_shape *out, dpt_error *error)
{
    dpt_picture_shape shape = {.channels = 3, .scaled = true};
    size_t *const extents[] = {&shape.height, &shape.width, &shape.channels};
    const char *text = spec + sizeof kind - 1;
    size_t n = 0;
    bool right = strncmp(spec, kind, sizeof kind - 1) == 0 && *text == ':';
    while (right && *text != '\0' && n < 3) {
        const size_t length = strcspn(++text, "x");
        right = parse_extent(text, length, MAX_EXTENT, extents[n++]);
        text += length;
    }
    if (!right || *text != '\0' || n < 2 || (shape.channels != 1 && shape.channels != 3))
        return DPT_FAIL(
            error, DPT_E_INVALID,
            "%s: write folder:HxW, as in folder:64x64, or folder:HxWx1 for grey images; "
            "H and W are 1 to %d",
            spec, MAX_EXTENT);
    *out = shape;
    return DPT_OK;
}

/* One name for one thing: three channels are not mentioned. */
static char *name_of(const dpt_picture_shape *shape)
{
    return dpti_format("%s:%zux%zu%s", kind, shape->height, shape->width,
                       shape->channels == 1 ? "x1" : "");
}

/* ---- What there is --------------------------------------------------------------------------- */

static void contents_free(contents *c)
{
    for (size_t i = 0; c->groups && i < c->present.count; i++)
        dpti_listing_free(&c->groups[i].files);
    free(c->starts);
    free(c->groups);
    dpti_listing_free(&c->present);
    dpti_listing_free(&c->classes);
    free(c->part);
    free(c->train);
}

/* The folder of a part, and in which folder it was found, if that is asked for. */
static dpt_status find_part(const char *directory, dpt_part part, char **folder, char **found,
                            dpt_error *error)
{
    dpti_files files = {0};
    DPT_TRY(dpti_find_files(kind, directory, part, &files, error));
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
                        "%s has %zu folder%s, and there must be %d to %d: one for each class, with "
                        "its pictures",
                        c->train, list->count, list->count == 1 ? "" : "s", MIN_CLASSES,
                        DPTI_MAX_CLASSES);
    for (size_t i = 0; i < list->count; i++)
        if (list->names[i][dpti_plain_bytes(list->names[i])] != '\0')
            return DPT_FAIL(error, DPT_E_FORMAT,
                            "%s/%s: the folder's name is that of a class, and must be printable "
                            "UTF-8; rename it",
                            c->train, list->names[i]);
    return DPT_OK;
}

static dpt_status list_group(const contents *c, size_t i, group *out, dpt_error *error)
{
    const char *name = c->present.names[i];
    if (!dpti_listing_find(&c->classes, name, &out->label))
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s/%s: %s has no such folder, and the classes are those of training",
                        c->part, name, c->train);
    char *folder = dpti_format("%s/%s", c->part, name);
    if (!folder) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the names of pictures");
    dpt_status status = dpti_listing_read(folder, DPTI_LIST_FILES, &out->files, error);
    if (status == DPT_OK && out->files.count == 0)
        status = DPT_FAIL(error, DPT_E_FORMAT,
                          "%s has no pictures; put some there or remove the folder", folder);
    free(folder);
    return status;
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
    for (size_t i = 0; i < n; i++) {
        DPT_TRY(list_group(c, i, &c->groups[i], error));
        c->starts[i + 1] = c->starts[i] + c->groups[i].files.count;
    }
    return DPT_OK;
}

/* Lists the pictures of c->part, which lies in `directory`. */
static dpt_status list(const char *directory, dpt_part part, contents *c, dpt_error *error)
{
    if (part != DPT_TRAIN)
        DPT_TRY(find_part(directory, DPT_TRAIN, &c->train, NULL, error));
    else if (!(c->train = dpti_strdup(c->part)))
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the names of pictures");
    DPT_TRY(dpti_listing_read(c->train, DPTI_LIST_FOLDERS, &c->classes, error));
    DPT_TRY(check_classes(c, error));
    DPT_TRY(dpti_listing_read(c->part, DPTI_LIST_FOLDERS, &c->present, error));
    return list_pictures(c, error);
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

static char *path_of(const void *user, size_t picture)
{
    const contents *c = user;
    const size_t i = group_of(c, picture);
    return dpti_format("%s/%s/%s", c->part, c->present.names[i],
                       c->groups[i].files.names[picture - c->starts[i]]);
}

/* The names' pointers and, behind them in the same block, their text; NULL without memory. */
static const char **copy_names(const dpti_listing *classes)
{
    size_t n_bytes = classes->count * sizeof(char *);
    for (size_t i = 0; i < classes->count; i++)
        n_bytes += strlen(classes->names[i]) + 1;
    const char **names = malloc(n_bytes);
    char *at = names ? (char *)(names + classes->count) : NULL;
    for (size_t i = 0; names && i < classes->count; i++) {
        const size_t length = strlen(classes->names[i]) + 1;
        names[i] = memcpy(at, classes->names[i], length);
        at += length;
    }
    return names;
}

/* The bytes of all images; DPT_E_NO_MEMORY if this machine cannot hold them. */
static dpt_status measure(const contents *c, const dpt_picture_shape *shape, size_t *total,
                          dpt_error *error)
{
    const size_t count = c->starts[c->present.count], memory = dpti_machine_memory();
    const size_t image = shape->height * shape->width * shape->channels;
    if (count > DPTI_MAX_RECORDS)
        return DPT_FAIL(error, DPT_E_FORMAT, "%s has %zu pictures, at most %d can be used", c->part,
                        count, DPTI_MAX_RECORDS);
    if (!dpti_multiply(image, count, total) || *total > memory)
        return DPT_FAIL(error, DPT_E_NO_MEMORY,
                        "%s: %zu images of %zu bytes do not fit into this machine's memory (%.1f "
                        "GiB); ask for smaller ones",
                        c->part, count, image, (double)memory * 0x1p-30);
    return DPT_OK;
}

/* Takes memory for everything, which dpt_dataset_destroy frees. */
static dpt_status allocate(const contents *c, const dpt_picture_shape *shape, const char *directory,
                           dpt_dataset *out, dpt_error *error)
{
    size_t total = 0;
    DPT_TRY(measure(c, shape, &total, error));
    const size_t count = c->starts[c->present.count];
    *out = (dpt_dataset){
        .name = name_of(shape),
        .source = dpti_strdup(directory),
        .count = count,
        .n_records = count,
        .height = shape->height,
        .width = shape->width,
        .channels = shape->channels,
        .classes = c->classes.count,
        .dtype = DPT_U8,
        .images = dpti_alloc_aligned(total),
        .labels = dpti_alloc_aligned(count * sizeof *out->labels),
        .stat_channels = 1,
        .scale = {1.0f / 255.0f},
        .own_names = copy_names(&c->classes),
    };
    out->class_names = out->own_names;
    if (out->name && out->source && out->images && out->labels && out->own_names) return DPT_OK;
    return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the %zu images of %s", count, c->part);
}

static dpt_status read_contents(const contents *c, const dpt_picture_shape *shape,
                                const char *directory, dpt_dataset **out, dpt_error *error)
{
    dpt_dataset *data = calloc(1, sizeof *data);
    if (!data) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a data set");
    dpt_status status = allocate(c, shape, directory, data, error);
    for (size_t i = 0; status == DPT_OK && i < c->present.count; i++)
        for (size_t k = c->starts[i]; k < c->starts[i + 1]; k++)
            data->labels[k] = (int32_t)c->groups[i].label;
    const dpti_pictures pictures = {
        .shape = *shape,
        .count = data->count,
        .path = path_of,
        .user = c,
    };
    if (status == DPT_OK) status = dpti_pictures_read(&pictures, data->images, error);
    if (status == DPT_OK)
        *out = data;
    else
        dpt_dataset_destroy(data);
    return status;
}

dpt_status dpti_folder_create(const char *spec, const char *directory, dpt_part part,
                              dpt_dataset **out, dpt_error *error)
{
    dpt_picture_shape shape;
    contents c = {0};
    char *found = NULL;
    DPT_TRY(dpti_folder_parse(spec, &shape, error));
    /* Wherever this part is found, the other is too. */
    DPT_TRY(find_part(directory, part, &c.part, &found, error));
    dpt_status status = list(found, part, &c, error);
    if (status == DPT_OK) status = read_contents(&c, &shape, found, out, error);
    contents_free(&c);
    free(found);
    return status;
}
