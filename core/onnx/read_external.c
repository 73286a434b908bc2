/* A tensor whose content is in another file, which must be in the model's folder or below it. */
#include "base/parse.h"
#include "base/size.h"
#include "onnx/read_state.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Where the content is. */
typedef struct place {
    const char *location;
    size_t offset, length;
    bool has_length;
} place;

/* false if an entry is missing or malformed. */
static bool read_place(const Dpti__Onnx__Tensor *proto, place *out)
{
    *out = (place){.location = NULL};
    for (size_t i = 0; i < proto->n_external_data; i++) {
        const char *key = dpti_onnx_text(proto->external_data[i]->key);
        const char *value = dpti_onnx_text(proto->external_data[i]->value);
        bool valid = true;
        if (strcmp(key, "location") == 0) {
            out->location = value;
        } else if (strcmp(key, "offset") == 0) {
            valid = dpti_parse_size(value, 0, INT64_MAX, &out->offset);
        } else if (strcmp(key, "length") == 0) {
            valid = dpti_parse_size(value, 0, INT64_MAX, &out->length);
            out->has_length = true;
        }
        if (!valid) return false;
    }
    return out->location && out->location[0];
}

/* Not absolute, and no part of it leads upwards. */
static bool stays_inside(const char *location)
{
    if (location[0] == '/') return false;
    for (const char *part = location; part; part = strchr(part, '/')) {
        part += *part == '/';
        if (strncmp(part, "..", 2) == 0 && (part[2] == '/' || part[2] == 0)) return false;
    }
    return true;
}

/* The file without symbolic links, allocated; NULL with errno, which is EXDEV if a link leads out
   of the folder. */
static char *resolve(const char *folder, const char *location)
{
    const size_t n = strlen(folder), n_location = strlen(location);
    char *joined = malloc(n + n_location + 2);
    if (!joined) return NULL;
    memcpy(joined, folder, n);
    joined[n] = '/';
    memcpy(joined + n + 1, location, n_location + 1);
    char *resolved = realpath(joined, NULL);
    const int code = errno;
    free(joined);
    errno = code;
    const bool at_root = n == 1;
    if (!resolved || at_root || (strncmp(resolved, folder, n) == 0 && resolved[n] == '/'))
        return resolved;
    free(resolved);
    errno = EXDEV;
    return NULL;
}

/* Opens the file; -1 with errno. */
static int open_inside(const char *folder, const char *location)
{
    char *path = resolve(folder, location);
    if (!path) return -1;
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
    int code = errno;
    free(path);
    struct stat info;
    if (fd >= 0 && fstat(fd, &info) == 0 && S_ISREG(info.st_mode)) return fd;
    if (fd >= 0) {
        close(fd);
        code = EINVAL;
    }
    errno = code;
    return -1;
}

/* The file of a location that the model keeps open; NULL if it keeps none. */
static dpti_kept_file *find_kept(const dpti_onnx_model *model, const char *location)
{
    for (size_t i = 0; i < model->n_files; i++)
        if (model->locations[i] && strcmp(model->locations[i], location) == 0)
            return model->files[i];
    return NULL;
}

static dpt_status fail_open(const dpti_onnx_reading *r, const dpti_onnx_tensor *tensor,
                            const char *location, dpt_error *error)
{
    const char *path = r->model->path;
    const int code = errno;
    if (code == EXDEV)
        return dpti_onnx_fail(error, DPT_E_FORMAT,
                              "%s: tensor \"%.80s\" is in \"%.200s\", which leads out of the "
                              "model's folder; copy the file into the folder",
                              path, tensor->name, location);
    if (code == EINVAL)
        return dpti_onnx_fail(error, DPT_E_IO,
                              "%s: tensor \"%.80s\" is in \"%.200s\", which is no regular file; "
                              "put the file beside the model",
                              path, tensor->name, location);
    return dpti_onnx_fail(
        error, code == ENOENT ? DPT_E_NOT_FOUND : DPT_E_IO,
        "%s: tensor \"%.80s\" is in \"%.200s\": %s; put the file beside the model", path,
        tensor->name, location, strerror(code));
}

/* A file that is open while a tensor is read. */
typedef struct opened {
    const char *location;
    dpti_kept_file *file;
    bool is_kept; /* the model keeps the file open */
} opened;

static dpt_status open_location(dpti_onnx_reading *r, const dpti_onnx_tensor *tensor, opened *out,
                                dpt_error *error)
{
    const char *location = out->location;
    dpti_onnx_model *m = r->model;
    out->file = find_kept(m, location);
    out->is_kept = out->file || m->n_files < DPTI_ONNX_MOST_FILES;
    if (out->file) return DPT_OK;
    const int fd = open_inside(r->folder, location);
    if (fd < 0) return fail_open(r, tensor, location, error);
    /* The whole path, as the caller gave the folder. */
    const char *slash = strrchr(m->path, '/');
    const int n_folder = slash ? (int)(slash + 1 - m->path) : 0;
    const char *path = dpti_onnx_take_text(r->arena, "%.*s%s", n_folder, m->path, location);
    if (!path) {
        close(fd);
        return dpti_onnx_no_memory(error);
    }
    DPT_TRY(dpti_kept_file_take(fd, path, &out->file, error));
    if (!out->is_kept) return DPT_OK;
    m->locations[m->n_files] = location;
    m->files[m->n_files++] = out->file;
    return DPT_OK;
}

static dpt_status read_content(dpti_onnx_reading *r, const dpti_file_part *part,
                               dpti_onnx_tensor *out, dpt_error *error)
{
    const size_t size = dpti_kept_file_size(part->file);
    size_t end = 0;
    if (!dpti_add(part->offset, out->n_bytes, &end) || end > size)
        return dpti_onnx_fail(error, DPT_E_FORMAT,
                              "%s: tensor \"%.80s\" takes %zu bytes at offset %zu of "
                              "\"%.200s\", which has %zu; the file is cut off, copy it again",
                              r->model->path, out->name, out->n_bytes, part->offset,
                              dpti_kept_file_path(part->file), size);
    uint8_t *data = dpti_onnx_take(r->arena, 1, out->n_bytes);
    if (!data) return dpti_onnx_no_memory(error);
    out->data = data;
    return dpti_file_part_read(part, data, error);
}

static dpt_status read_place_of(dpti_onnx_reading *r, const place *from, dpti_onnx_tensor *out,
                                dpt_error *error)
{
    opened o = {.location = from->location};
    DPT_TRY(open_location(r, out, &o, error));
    const dpti_file_part part = {.file = o.file, .offset = from->offset, .n_bytes = out->n_bytes};
    const dpt_status status = read_content(r, &part, out, error);
    if (o.is_kept)
        out->part = part;
    else
        dpti_kept_file_release(o.file);
    return status;
}

dpt_status dpti_onnx_read_external(dpti_onnx_reading *reading, const Dpti__Onnx__Tensor *proto,
                                   dpti_onnx_tensor *out, dpt_error *error)
{
    const char *path = reading->model->path;
    place from;
    if (!reading->folder)
        return dpti_onnx_fail(error, DPT_E_UNSUPPORTED,
                              "%s: tensor \"%.80s\" is in another file, and there is no folder",
                              path, out->name);
    if (!read_place(proto, &from))
        return dpti_onnx_fail(error, DPT_E_FORMAT,
                              "%s: tensor \"%.80s\" is in another file, but location, offset or "
                              "length are missing or no numbers; save the model again",
                              path, out->name);
    if (!stays_inside(from.location))
        return dpti_onnx_fail(error, DPT_E_FORMAT,
                              "%s: tensor \"%.80s\" is in \"%.200s\", outside of the model's "
                              "folder; only files in the folder are opened",
                              path, out->name, from.location);
    if (from.has_length && from.length != out->n_bytes)
        return dpti_onnx_fail(error, DPT_E_FORMAT,
                              "%s: tensor \"%.80s\" has %zu bytes in \"%.200s\", and its type and "
                              "extents say %zu; save the model again",
                              path, out->name, from.length, from.location, out->n_bytes);
    return read_place_of(reading, &from, out, error);
}
