/* Makes a safetensors file of a zip file of torch.save (pth.h). */
#include "io/pth.h"

#include "base/grow.h"
#include "base/print.h"
#include "base/size.h"
#include "base/text.h"
#include "io/pickle.h"
#include "io/zip.h"

#include <jansson.h>

#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8, MOST_PICKLE_BYTES = 64 << 20, MOST_TENSORS = 1 << 14 };

bool dpti_is_pth(const uint8_t *bytes, size_t n_bytes)
{
    /* The old format begins with a pickle of a number. */
    static const uint8_t old[] = {0x80, 2, 0x8a, 10};
    return (n_bytes >= 4 && memcmp(bytes, "PK\3\4", 4) == 0) ||
           (n_bytes >= sizeof old && memcmp(bytes, old, sizeof old) == 0);
}

/* Fails with the reason and the line that converts the file. */
static dpt_status fail(const dpti_file_bytes *file, const char *why, dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_FORMAT,
                    "%.100s: a file of PyTorch's torch.save, of which dptrain reads plain state "
                    "dicts only: %.150s.  In Python: import torch, safetensors.torch as s; "
                    "s.save_file({k: v.contiguous() for k, v in torch.load(FILE).items()}, "
                    "\"weights.safetensors\")",
                    file->name, why);
}

static dpt_status no_memory(const dpti_file_bytes *file, dpt_error *error)
{
    return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to read %s", file->name);
}

/* ---- The archive ----------------------------------------------------------------------------- */

/* The files of the archive, which are all in one folder. */
typedef struct archive {
    const dpti_file_bytes *file;
    dpti_zip_source source;
    dpti_zip_entry *entries; /* (n) */
    size_t n;
    const char *folder; /* folder_length characters, with the slash */
    size_t folder_length;
} archive;

/* Returns whether an entry is the file of the archive that has this name. */
static bool is_file(const archive *a, const dpti_zip_entry *e, const char *name, size_t n)
{
    return e->name_length == a->folder_length + n &&
           memcmp(e->name, a->folder, a->folder_length) == 0 &&
           memcmp(e->name + a->folder_length, name, n) == 0;
}

static const dpti_zip_entry *find(const archive *a, const char *name, size_t n)
{
    for (size_t i = 0; i < a->n; i++)
        if (is_file(a, &a->entries[i], name, n)) return &a->entries[i];
    return NULL;
}

static dpt_status list_files(archive *a, dpt_error *error)
{
    static const char pickle[] = "data.pkl";
    const size_t n_pickle = sizeof pickle - 1;
    size_t capacity = 0;
    dpti_zip_list list;
    DPT_TRY(dpti_zip_open(&a->source, &list, error));
    while (list.at < list.end) {
        dpti_zip_entry *entries = dpti_grow(a->entries, a->n, &capacity, sizeof *entries);
        if (!entries) return no_memory(a->file, error);
        a->entries = entries;
        dpti_zip_entry *e = &a->entries[a->n];
        DPT_TRY(dpti_zip_next(&list, e, error));
        e->label = a->file->name;
        a->n++;
        const char *slash = memchr(e->name, '/', e->name_length);
        if (a->folder || !slash || e->name_length < n_pickle ||
            memcmp(e->name + e->name_length - n_pickle, pickle, n_pickle) != 0)
            continue;
        a->folder = e->name;
        a->folder_length = (size_t)(slash + 1 - e->name);
    }
    return a->folder ? DPT_OK
                     : fail(a->file, "it has no data.pkl, so it is another zip file", error);
}

/* The bytes of a file, which torch.save stores as they are. */
static dpt_status find_bytes(const archive *a, const dpti_zip_entry *e, dpti_bytes *out,
                             dpt_error *error)
{
    size_t first;
    DPT_TRY(dpti_zip_place(e, &first, error));
    if (e->method != DPTI_ZIP_STORED)
        return fail(a->file, "its files are packed, so another program wrote it", error);
    *out = (dpti_bytes){a->file->bytes + first, (size_t)e->size};
    if (libdeflate_crc32(0, out->data, out->n_bytes) == e->crc) return DPT_OK;
    return DPT_FAIL(error, DPT_E_FORMAT, "%s: damaged: a checksum is wrong", a->file->name);
}

/* ---- Tensors --------------------------------------------------------------------------------- */

/* A state dict on its way into a file. */
typedef struct conversion {
    const archive *from;
    dpti_pickled tensors;
    dpti_bytes *storages; /* (tensors.n) of each tensor */
    size_t *n_bytes;      /* (tensors.n) of each tensor */
    size_t total, most;   /* bytes of all tensors, and their limit */
} conversion;

static dpt_status find_storage(conversion *c, size_t i, dpt_error *error)
{
    const dpti_pickled_tensor *t = &c->tensors.list[i];
    char *name = dpti_format("data/%.*s", (int)t->key_length, t->key);
    if (!name) return no_memory(c->from->file, error);
    const dpti_zip_entry *e = find(c->from, name, strlen(name));
    free(name);
    if (!e) return fail(c->from->file, "the numbers of a tensor are missing", error);
    for (size_t k = 0; k < i; k++) /* read and checked before: tensors may share a storage */
        if (c->tensors.list[k].key_length == t->key_length &&
            memcmp(c->tensors.list[k].key, t->key, t->key_length) == 0)
            c->storages[i] = c->storages[k];
    if (!c->storages[i].data) DPT_TRY(find_bytes(c->from, e, &c->storages[i], error));
    size_t least;
    if (!dpti_multiply(t->storage, t->element_bytes, &least) || least > c->storages[i].n_bytes)
        return fail(c->from->file, "the numbers of a tensor are cut off", error);
    return DPT_OK;
}

static dpt_status find_storages(conversion *c, dpt_error *error)
{
    for (size_t i = 0; i < c->tensors.n; i++) {
        const dpti_pickled_tensor *t = &c->tensors.list[i];
        size_t n = t->element_bytes;
        DPT_TRY(find_storage(c, i, error));
        bool fits = true;
        for (size_t d = 0; d < t->rank; d++)
            fits = fits && dpti_multiply(n, t->shape[d], &n);
        c->n_bytes[i] = n;
        /* A tensor may be larger than its storage: a stride of 0 repeats an element. */
        if (!fits || !dpti_add(c->total, n, &c->total) || c->total > c->most)
            return fail(c->from->file, "its tensors are larger than those of the network", error);
    }
    return DPT_OK;
}

/* Copies the elements of a tensor in the order of its axes. */
static void copy_tensor(const dpti_pickled_tensor *t, const dpti_bytes *storage, uint8_t *to)
{
    const size_t n_bytes = t->element_bytes;
    size_t index[DPTI_PICKLE_RANK] = {0}, at = t->offset, n = 1;
    for (size_t d = 0; d < t->rank; d++)
        n *= t->shape[d];
    for (size_t i = 0; i < n; i++) {
        memcpy(to + i * n_bytes, (const uint8_t *)storage->data + at * n_bytes, n_bytes);
        for (size_t d = t->rank; d-- > 0;) {
            at += t->stride[d];
            if (++index[d] < t->shape[d]) break;
            at -= t->stride[d] * t->shape[d];
            index[d] = 0;
        }
    }
}

/* {"dtype": ..., "shape": [...], "data_offsets": [begin, end]} */
static json_t *entry_of(const dpti_pickled_tensor *t, size_t begin, size_t n_bytes)
{
    json_t *shape = json_array();
    for (size_t d = 0; d < t->rank; d++)
        json_array_append_new(shape, json_integer((json_int_t)t->shape[d]));
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", t->dtype, "shape", shape, "data_offsets",
                     (json_int_t)begin, (json_int_t)(begin + n_bytes));
}

static dpt_status make_header(const conversion *c, json_t *header, dpt_error *error)
{
    size_t at = 0;
    for (size_t i = 0; i < c->tensors.n; i++) {
        const dpti_pickled_tensor *t = &c->tensors.list[i];
        char *name =
            memchr(t->name, 0, t->name_length) ? NULL : dpti_strndup(t->name, t->name_length);
        const bool twice = name && json_object_get(header, name);
        const bool set = name && !twice &&
                         json_object_set_new(header, name, entry_of(t, at, c->n_bytes[i])) == 0;
        free(name);
        if (!set)
            return fail(c->from->file,
                        twice ? "two tensors have one name" : "the name of a tensor is no text",
                        error);
        at += c->n_bytes[i];
    }
    return DPT_OK;
}

static dpt_status write_all(const conversion *c, dpti_content *out, dpt_error *error)
{
    json_t *header = json_object();
    dpt_status status = header ? make_header(c, header, error) : no_memory(c->from->file, error);
    char *text = status == DPT_OK ? json_dumps(header, JSON_COMPACT) : NULL;
    json_decref(header);
    DPT_TRY(status);
    const size_t n_text = text ? strlen(text) : 0, before = LENGTH_BYTES + n_text;
    uint8_t *bytes = text ? malloc(before + c->total) : NULL;
    if (bytes) {
        for (unsigned i = 0; i < LENGTH_BYTES; i++)
            bytes[i] = (uint8_t)((uint64_t)n_text >> (8 * i));
        memcpy(bytes + LENGTH_BYTES, text, n_text);
        size_t at = before;
        for (size_t i = 0; i < c->tensors.n; i++) {
            copy_tensor(&c->tensors.list[i], &c->storages[i], bytes + at);
            at += c->n_bytes[i];
        }
        *out = (dpti_content){.bytes = bytes, .n_bytes = before + c->total};
    }
    free(text);
    return bytes ? DPT_OK : no_memory(c->from->file, error);
}

static dpt_status convert(conversion *c, dpti_content *out, dpt_error *error)
{
    c->storages = calloc(c->tensors.n + 1, sizeof *c->storages);
    c->n_bytes = calloc(c->tensors.n + 1, sizeof *c->n_bytes);
    dpt_status status =
        c->storages && c->n_bytes ? find_storages(c, error) : no_memory(c->from->file, error);
    if (status == DPT_OK) status = write_all(c, out, error);
    free(c->n_bytes);
    free(c->storages);
    return status;
}

static dpt_status check_order(const archive *a, dpt_error *error)
{
    static const char name[] = "byteorder";
    dpti_bytes order;
    const dpti_zip_entry *e = find(a, name, sizeof name - 1);
    if (!e) return DPT_OK; /* older versions of PyTorch do not say it */
    DPT_TRY(find_bytes(a, e, &order, error));
    if (order.n_bytes == 6 && memcmp(order.data, "little", 6) == 0) return DPT_OK;
    return fail(a->file, "its numbers are big-endian", error);
}

static dpt_status read_archive(archive *a, size_t most, dpti_content *out, dpt_error *error)
{
    static const char name[] = "data.pkl";
    dpti_bytes bytes;
    dpt_error why = {.status = DPT_OK};
    conversion c = {.from = a, .most = most};
    DPT_TRY(list_files(a, error));
    DPT_TRY(check_order(a, error));
    const dpti_zip_entry *e = find(a, name, sizeof name - 1);
    if (!e || e->size > MOST_PICKLE_BYTES) return fail(a->file, "it has no state dict", error);
    DPT_TRY(find_bytes(a, e, &bytes, error));
    const dpti_file_bytes pickle = {a->file->name, bytes.data, bytes.n_bytes};
    const dpt_status status = dpti_pickle_read(&pickle, &c.tensors, &why);
    if (status == DPT_E_FORMAT) return fail(a->file, why.message, error);
    if (status != DPT_OK) return no_memory(a->file, error);
    const dpt_status converted = c.tensors.n > MOST_TENSORS
                                     ? fail(a->file, "it has more tensors than a network", error)
                                     : convert(&c, out, error);
    free(c.tensors.list);
    return converted;
}

dpt_status dpti_pth_convert(const dpti_file_bytes *file, size_t most, dpti_content *out,
                            dpt_error *error)
{
    archive a = {.file = file, .source = {file, "save it again with torch.save"}};
    if (file->n_bytes < 4 || memcmp(file->bytes, "PK\3\4", 4) != 0)
        return fail(file, "this one has the format from before PyTorch 1.6", error);
    const dpt_status status = read_archive(&a, most, out, error);
    free(a.entries);
    return status;
}
