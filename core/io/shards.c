/* Weights in several files (shards.h). */
#include "io/shards.h"

#include "base/print.h"
#include "io/file.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_INDEX_BYTES = 64 << 20, MOST_SHARDS = 4096 };

static const char suffix[] = ".index.json";

static bool is_index(const char *path)
{
    const size_t n = strlen(path), behind = sizeof suffix - 1;
    return n > behind && strcmp(path + n - behind, suffix) == 0;
}

/* ---- The index ------------------------------------------------------------------------------- */

/* Whether a text is the name of a file in the index's own folder. */
static bool is_plain_name(const char *name)
{
    return name && *name && *name != '.' && !strchr(name, '/') && !is_index(name);
}

static dpt_status check_index(const char *path, const json_t *map, dpt_error *error)
{
    const char *tensor;
    json_t *file;
    if (json_object_size(map) == 0)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: no index of weights: it has no weight_map with tensors and files",
                        path);
    json_object_foreach((json_t *)(uintptr_t)map, tensor, file)
    {
        if (!is_plain_name(json_string_value(file)))
            return DPT_FAIL(error, DPT_E_FORMAT,
                            "%s: the file of tensor %s is no file of the folder of the index", path,
                            tensor);
    }
    return DPT_OK;
}

/* Reads the index; the caller releases *out. */
static dpt_status read_index(const char *path, json_t **out, dpt_error *error)
{
    dpti_content content = {0};
    json_error_t why;
    DPT_TRY(dpti_file_read_most(path, MOST_INDEX_BYTES, &content, error));
    json_t *index =
        json_loadb((const char *)content.bytes, content.n_bytes, JSON_REJECT_DUPLICATES, &why);
    free(content.bytes);
    if (!index)
        return DPT_FAIL(error, DPT_E_FORMAT, "%s: the index of weights is no JSON (%s)", path,
                        why.text);
    const dpt_status status = check_index(path, json_object_get(index, "weight_map"), error);
    if (status == DPT_OK)
        *out = index;
    else
        json_decref(index);
    return status;
}

static char *path_beside(const char *path, const char *name)
{
    const char *slash = strrchr(path, '/');
    return dpti_format("%.*s%s", slash ? (int)(slash - path) + 1 : 0, path, name);
}

static dpt_status find_first(const char *path, char **out, dpt_error *error)
{
    json_t *index = NULL;
    DPT_TRY(read_index(path, &index, error));
    json_t *map = json_object_get(index, "weight_map");
    *out = path_beside(path, json_string_value(json_object_iter_value(json_object_iter(map))));
    json_decref(index);
    return *out ? DPT_OK : DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to read %s", path);
}

dpt_status dpti_shards_read_metadata(const char *path, dpti_safetensors **out, dpt_error *error)
{
    char *first = NULL;
    if (!is_index(path)) return dpti_safetensors_read_metadata(path, out, error);
    DPT_TRY(find_first(path, &first, error));
    const dpt_status status = dpti_safetensors_read_metadata(first, out, error);
    free(first);
    return status;
}

/* ---- The files ------------------------------------------------------------------------------- */

/* An index that is being read. */
typedef struct reading {
    const char *path;
    json_t *index;
    size_t bytes_left;
    dpti_safetensors_parts parts;
    const char *names[MOST_SHARDS]; /* of parts.files */
    dpt_error *error;
} reading;

static size_t bytes_of(const dpti_safetensors *file)
{
    size_t n = 0;
    for (size_t i = 0; i < dpti_safetensors_count(file); i++)
        n += dpti_safetensors_get(file, i)->n_bytes;
    return n;
}

static dpt_status open_shard(reading *r, const char *name, dpti_safetensors **out)
{
    dpti_safetensors_parts *p = &r->parts;
    dpti_safetensors *shard = NULL;
    if (p->n_files == MOST_SHARDS)
        return DPT_FAIL(r->error, DPT_E_FORMAT, "%s names more than %d files", r->path,
                        MOST_SHARDS);
    dpti_safetensors **grown = realloc(p->files, (p->n_files + 1) * sizeof *grown);
    char *path = path_beside(r->path, name);
    if (grown) p->files = grown;
    const dpt_status status =
        grown && path ? dpti_safetensors_read_most(path, r->bytes_left, &shard, r->error)
                      : DPT_FAIL(r->error, DPT_E_NO_MEMORY, "no memory to read %s", r->path);
    free(path);
    DPT_TRY(status);
    const size_t n_bytes = bytes_of(shard);
    r->bytes_left -= n_bytes < r->bytes_left ? n_bytes : r->bytes_left;
    r->names[p->n_files] = name;
    p->files[p->n_files++] = *out = shard;
    return DPT_OK;
}

static dpt_status find_shard(reading *r, const char *name, dpti_safetensors **out)
{
    for (size_t i = 0; i < r->parts.n_files; i++)
        if (strcmp(r->names[i], name) == 0) {
            *out = r->parts.files[i];
            return DPT_OK;
        }
    return open_shard(r, name, out);
}

/* Refuses a tensor of a file that the index does not name. */
static dpt_status check_rest(const reading *r, const json_t *map)
{
    for (size_t i = 0; i < r->parts.n_files; i++)
        for (size_t k = 0; k < dpti_safetensors_count(r->parts.files[i]); k++) {
            const char *tensor = dpti_safetensors_get(r->parts.files[i], k)->name;
            const char *file = json_string_value(json_object_get(map, tensor));
            if (file && strcmp(file, r->names[i]) == 0) continue;
            return DPT_FAIL(r->error, DPT_E_FORMAT,
                            "%s does not say that tensor %s is in %s, which has it: the index is "
                            "damaged, or of other files",
                            r->path, tensor, r->names[i]);
        }
    return DPT_OK;
}

static dpt_status take_tensors(reading *r)
{
    json_t *map = json_object_get(r->index, "weight_map"), *file;
    const char *tensor;
    r->parts.tensors = calloc(json_object_size(map), sizeof *r->parts.tensors);
    if (!r->parts.tensors)
        return DPT_FAIL(r->error, DPT_E_NO_MEMORY, "no memory to read %s", r->path);
    json_object_foreach(map, tensor, file)
    {
        dpti_safetensors *shard = NULL;
        DPT_TRY(find_shard(r, json_string_value(file), &shard));
        const dpti_tensor *found = dpti_safetensors_find(shard, tensor);
        if (!found)
            return DPT_FAIL(r->error, DPT_E_FORMAT,
                            "%s says that tensor %s is in %s, which does not have it: one of the "
                            "two is damaged or of another model",
                            r->path, tensor, json_string_value(file));
        r->parts.tensors[r->parts.n_tensors++] = *found;
    }
    return check_rest(r, map);
}

static void release_parts(dpti_safetensors_parts *parts)
{
    for (size_t i = 0; i < parts->n_files; i++)
        dpti_safetensors_close(parts->files[i]);
    free(parts->files);
    free(parts->tensors);
}

dpt_status dpti_shards_read(const char *path, size_t max_bytes, dpti_safetensors **out,
                            dpt_error *error)
{
    if (!is_index(path)) return dpti_safetensors_read_most(path, max_bytes, out, error);
    reading *r = calloc(1, sizeof *r);
    if (!r) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to read %s", path);
    *r = (reading){.path = path, .bytes_left = max_bytes, .error = error};
    dpt_status status = read_index(path, &r->index, error);
    if (status == DPT_OK) status = take_tensors(r);
    if (status == DPT_OK) status = dpti_safetensors_join(&r->parts, out, error);
    if (status != DPT_OK) release_parts(&r->parts);
    json_decref(r->index);
    free(r);
    return status;
}
