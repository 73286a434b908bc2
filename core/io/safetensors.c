/* The safetensors format: the header, which is checked completely, and the tensors behind it.
   jansson reads the JSON. */
#include "io/safetensors.h"

#include "base/size.h"
#include "base/text.h"
#include "io/file.h"
#include "io/pth.h"

#include <jansson.h>

#include <libdeflate.h>
#include <stdlib.h>
#include <string.h>

enum {
    LENGTH_BYTES = 8,
    /* The format allows 100 MB, which would need 20 times as much memory as JSON.  A tensor needs
       about 100 bytes here. */
    MAX_HEADER_BYTES = 16 << 20,
    ALIGNMENT = 8,
};

static const char metadata_key[] = "__metadata__";

/* The checksum is at a fixed place: the header of a sealed file begins with it. */
static const char seal_key[] = "checksum";
static const char seal_prefix[] = "{\"__metadata__\":{\"checksum\":\"";
static const char no_seal[] = "0000000000000000";
enum { SEAL_OFFSET = LENGTH_BYTES + sizeof seal_prefix - 1, SEAL_DIGITS = sizeof no_seal - 1 };

struct dpti_safetensors {
    const char *name; /* for messages, while parsing */
    uint8_t *owned;   /* the bytes of the file, if they were read here */
    const uint8_t *data;
    size_t n_data;
    bool sealed;
    json_t *header; /* owns every string that is returned */
    size_t n_tensors;
    dpti_tensor *tensors; /* in the order of their data */
    dpti_safetensors *
        *parts; /* (n_parts) other files, which own the tensors (dpti_safetensors_join) */
    size_t n_parts;
};

/* The bytes of one element; 0 if the type is unknown. */
static size_t element_bytes(const char *dtype)
{
    static const struct {
        const char *name;
        size_t n_bytes;
    } known[] = {
        {"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"F8_E4M3", 1}, {"F8_E5M2", 1},
        {"C64", 8}, {"I64", 8}, {"I32", 4}, {"I16", 2},  {"I8", 1},      {"U64", 8},
        {"U32", 4}, {"U16", 2}, {"U8", 1},  {"BOOL", 1},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(dtype, known[i].name) == 0) return known[i].n_bytes;
    return 0;
}

/* The bytes that a tensor of this type and shape has; false on overflow. */
static bool tensor_bytes(size_t per_element, size_t rank, const size_t *shape, size_t *out)
{
    size_t n = per_element;
    for (size_t d = 0; d < rank; d++)
        if (!dpti_multiply(n, shape[d], &n)) return false;
    *out = n;
    return true;
}

/* ---- The seal -------------------------------------------------------------------------------- */

typedef struct seal {
    uint32_t crc, adler;
} seal;

static void seal_add(seal *s, const void *bytes, size_t n_bytes)
{
    if (n_bytes == 0) return; /* NULL would start a new sum */
    s->crc = libdeflate_crc32(s->crc, bytes, n_bytes);
    s->adler = libdeflate_adler32(s->adler, bytes, n_bytes);
}

/* Begins the checksum over bytes that contain the header and perhaps data behind it; the digits
   count as zeros. */
static seal seal_begin(const uint8_t *bytes, size_t n_bytes)
{
    seal s = {.crc = 0, .adler = 1};
    seal_add(&s, bytes, SEAL_OFFSET);
    seal_add(&s, no_seal, SEAL_DIGITS);
    seal_add(&s, bytes + SEAL_OFFSET + SEAL_DIGITS, n_bytes - SEAL_OFFSET - SEAL_DIGITS);
    return s;
}

static void seal_digits(const seal *s, char out[SEAL_DIGITS + 1])
{
    snprintf(out, SEAL_DIGITS + 1, "%08x%08x", (unsigned)s->crc, (unsigned)s->adler);
}

static bool has_seal(const uint8_t *bytes, size_t n_bytes)
{
    return n_bytes >= SEAL_OFFSET + SEAL_DIGITS &&
           memcmp(bytes + LENGTH_BYTES, seal_prefix, sizeof seal_prefix - 1) == 0;
}

static dpt_status verify_seal(const char *name, const uint8_t *bytes, size_t n_bytes,
                              dpt_error *error)
{
    char digits[SEAL_DIGITS + 1];
    const seal s = seal_begin(bytes, n_bytes);
    seal_digits(&s, digits);
    if (memcmp(bytes + SEAL_OFFSET, digits, SEAL_DIGITS) == 0) return DPT_OK;
    return DPT_FAIL(error, DPT_E_FORMAT, "%s: its checksum does not fit: damaged or cut off", name);
}

/* ---- Reading --------------------------------------------------------------------------------- */

static bool json_size(const json_t *value, size_t *out)
{
    if (!json_is_integer(value) || json_integer_value(value) < 0) return false;
    *out = (size_t)json_integer_value(value);
    return true;
}

static dpt_status parse_header(dpti_safetensors *file, const uint8_t *bytes, size_t n_bytes,
                               dpt_error *error)
{
    if (n_bytes < LENGTH_BYTES)
        return DPT_FAIL(error, DPT_E_FORMAT, "%s: no safetensors file (%zu bytes)", file->name,
                        n_bytes);
    uint64_t length = 0;
    for (unsigned i = 0; i < LENGTH_BYTES; i++)
        length |= (uint64_t)bytes[i] << (8 * i);
    const size_t rest = n_bytes - LENGTH_BYTES;
    if (length > MAX_HEADER_BYTES || length > rest)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: no safetensors file, or a truncated one: a header of %llu bytes in a "
                        "file of %zu",
                        file->name, (unsigned long long)length, n_bytes);
    json_error_t json_error;
    const char *text = (const char *)bytes + LENGTH_BYTES;
    if (length == 0 || text[0] != '{')
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: no safetensors file: its header is no JSON object", file->name);
    file->header = json_loadb(text, (size_t)length, JSON_REJECT_DUPLICATES, &json_error);
    if (!file->header)
        return DPT_FAIL(error, DPT_E_FORMAT, "%s: the safetensors header is no JSON (%s)",
                        file->name, json_error.text);
    file->data = bytes + LENGTH_BYTES + length;
    file->n_data = rest - (size_t)length;
    return DPT_OK;
}

static dpt_status parse_metadata(const dpti_safetensors *file, dpt_error *error)
{
    json_t *metadata = json_object_get(file->header, metadata_key);
    if (!metadata || json_is_null(metadata)) return DPT_OK; /* MLX writes null for none */
    const char *key;
    json_t *value;
    bool right = json_is_object(metadata);
    json_object_foreach(metadata, key, value) right = right && json_is_string(value);
    if (!right)
        return DPT_FAIL(error, DPT_E_FORMAT, "%s: %s must be an object of strings", file->name,
                        metadata_key);
    return DPT_OK;
}

static dpt_status parse_shape(const dpti_safetensors *file, const json_t *shape, dpti_tensor *out,
                              dpt_error *error)
{
    if (!json_is_array(shape) || json_array_size(shape) > DPTI_TENSOR_MAX_RANK)
        return DPT_FAIL(error, DPT_E_FORMAT, "%s: tensor %s needs a shape of at most %d extents",
                        file->name, out->name, DPTI_TENSOR_MAX_RANK);
    out->rank = json_array_size(shape);
    for (size_t d = 0; d < out->rank; d++)
        if (!json_size(json_array_get(shape, d), &out->shape[d]))
            return DPT_FAIL(error, DPT_E_FORMAT, "%s: tensor %s: an extent is no size", file->name,
                            out->name);
    return DPT_OK;
}

/* Appends the tensor that an entry of the header describes.  The caller has reserved room. */
static dpt_status add_tensor(dpti_safetensors *file, const char *name, const json_t *entry,
                             dpt_error *error)
{
    dpti_tensor tensor = {.name = name};
    tensor.dtype = json_string_value(json_object_get(entry, "dtype"));
    if (!tensor.dtype)
        return DPT_FAIL(error, DPT_E_FORMAT, "%s: tensor %s has no dtype", file->name, name);
    const size_t per_element = element_bytes(tensor.dtype);
    if (per_element == 0)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: tensor %s has the unknown dtype %s; convert it, to F32 for weights",
                        file->name, name, tensor.dtype);
    DPT_TRY(parse_shape(file, json_object_get(entry, "shape"), &tensor, error));

    const json_t *offsets = json_object_get(entry, "data_offsets");
    size_t begin = 0, end = 0;
    if (json_array_size(offsets) != 2 || !json_size(json_array_get(offsets, 0), &begin) ||
        !json_size(json_array_get(offsets, 1), &end))
        return DPT_FAIL(error, DPT_E_FORMAT, "%s: tensor %s: data_offsets must be two sizes",
                        file->name, name);
    if (begin > end || end > file->n_data)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: tensor %s lies at %zu to %zu of %zu bytes; the file is truncated or "
                        "damaged",
                        file->name, name, begin, end, file->n_data);
    if (!tensor_bytes(per_element, tensor.rank, tensor.shape, &tensor.n_bytes) ||
        tensor.n_bytes != end - begin)
        return DPT_FAIL(error, DPT_E_FORMAT, "%s: tensor %s has %zu bytes, not those of its shape",
                        file->name, name, end - begin);
    tensor.data = file->data + begin;
    file->tensors[file->n_tensors++] = tensor;
    return DPT_OK;
}

static int compare_places(const void *a, const void *b)
{
    const dpti_tensor *x = a, *y = b;
    const uintptr_t x_at = (uintptr_t)x->data, y_at = (uintptr_t)y->data;
    if (x_at != y_at) return x_at < y_at ? -1 : 1;
    if (x->n_bytes != y->n_bytes) return x->n_bytes < y->n_bytes ? -1 : 1; /* empty tensors first */
    return strcmp(x->name, y->name);
}

/* Checks that every byte behind the header belongs to exactly one tensor. */
static dpt_status check_places(dpti_safetensors *file, dpt_error *error)
{
    if (file->n_tensors > 0)
        qsort(file->tensors, file->n_tensors, sizeof *file->tensors, compare_places);
    const uint8_t *at = file->data;
    for (size_t i = 0; i < file->n_tensors; i++) {
        const dpti_tensor *tensor = &file->tensors[i];
        if (tensor->data != at)
            return DPT_FAIL(error, DPT_E_FORMAT, "%s: %s tensor %s", file->name,
                            (const uint8_t *)tensor->data > at ? "a hole before"
                                                               : "another tensor overlaps",
                            tensor->name);
        at += tensor->n_bytes;
    }
    const size_t used = (size_t)(at - file->data);
    if (used != file->n_data)
        return DPT_FAIL(error, DPT_E_FORMAT, "%s: %zu bytes behind the last tensor", file->name,
                        file->n_data - used);
    return DPT_OK;
}

static dpt_status parse_tensors(dpti_safetensors *file, dpt_error *error)
{
    const size_t n_entries = json_object_size(file->header);
    file->tensors = calloc(n_entries ? n_entries : 1, sizeof *file->tensors);
    if (!file->tensors)
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the tensors of %s", file->name);
    const char *name;
    json_t *entry;
    json_object_foreach(file->header, name, entry)
    {
        if (strcmp(name, metadata_key) == 0) continue;
        DPT_TRY(add_tensor(file, name, entry, error));
    }
    return check_places(file, error);
}

dpt_status dpti_safetensors_parse(const dpti_file_bytes *bytes, dpti_safetensors **out,
                                  dpt_error *error)
{
    dpti_safetensors *file = calloc(1, sizeof *file);
    if (!file) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to read %s", bytes->name);
    file->name = bytes->name;
    dpt_status status = DPT_OK;
    file->sealed = has_seal(bytes->bytes, bytes->n_bytes);
    if (file->sealed) status = verify_seal(bytes->name, bytes->bytes, bytes->n_bytes, error);
    if (status == DPT_OK) status = parse_header(file, bytes->bytes, bytes->n_bytes, error);
    if (status == DPT_OK) status = parse_metadata(file, error);
    if (status == DPT_OK) status = parse_tensors(file, error);
    if (status == DPT_OK)
        *out = file;
    else
        dpti_safetensors_close(file);
    return status;
}

dpt_status dpti_safetensors_parse_sealed(const dpti_file_bytes *bytes, dpti_safetensors **out,
                                         dpt_error *error)
{
    if (!has_seal(bytes->bytes, bytes->n_bytes))
        return DPT_FAIL(error, DPT_E_FORMAT, "%s: no checkpoint with a checksum, or a damaged one",
                        bytes->name);
    return dpti_safetensors_parse(bytes, out, error);
}

typedef dpt_status parser(const dpti_file_bytes *bytes, dpti_safetensors **out, dpt_error *error);

/* A file to read, the largest size that is accepted, and how the file's bytes are parsed. */
typedef struct reading {
    const char *path;
    size_t max_bytes;
    parser *parse;
} reading;

/* Replaces the bytes of a file of torch.save by those of a safetensors file. */
static dpt_status convert_pth(const reading *r, dpti_content *content, dpt_error *error)
{
    if (!dpti_is_pth(content->bytes, content->n_bytes)) return DPT_OK;
    const dpti_file_bytes bytes = {r->path, content->bytes, content->n_bytes};
    dpti_content converted = {0};
    const dpt_status status = dpti_pth_convert(&bytes, r->max_bytes, &converted, error);
    free(content->bytes);
    *content = converted;
    return status;
}

/* The file is read and not mapped, because a mapped file that shrinks kills the process. */
static dpt_status read_file(const reading *r, dpti_safetensors **out, dpt_error *error)
{
    dpti_content content = {0};
    dpti_safetensors *file = NULL;
    DPT_TRY(dpti_file_read_most(r->path, r->max_bytes, &content, error));
    DPT_TRY(convert_pth(r, &content, error));
    const dpti_file_bytes bytes = {r->path, content.bytes, content.n_bytes};
    const dpt_status status = r->parse(&bytes, &file, error);
    if (status != DPT_OK) {
        free(content.bytes);
        return status;
    }
    file->owned = content.bytes;
    *out = file;
    return DPT_OK;
}

dpt_status dpti_safetensors_read(const char *path, dpti_safetensors **out, dpt_error *error)
{
    return dpti_safetensors_read_most(path, SIZE_MAX, out, error);
}

dpt_status dpti_safetensors_read_most(const char *path, size_t max_bytes, dpti_safetensors **out,
                                      dpt_error *error)
{
    return read_file(&(reading){path, max_bytes, dpti_safetensors_parse}, out, error);
}

dpt_status dpti_safetensors_read_sealed(const char *path, size_t max_bytes, dpti_safetensors **out,
                                        dpt_error *error)
{
    return read_file(&(reading){path, max_bytes, dpti_safetensors_parse_sealed}, out, error);
}

static dpt_status read_metadata(const char *path, size_t max_bytes, dpti_safetensors **out,
                                dpt_error *error)
{
    dpti_content content = {0};
    DPT_TRY(dpti_file_read_first(path, max_bytes, &content, error));
    dpti_safetensors *file = calloc(1, sizeof *file);
    dpt_status status = DPT_OK;
    if (!file) status = DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to read %s", path);
    if (file) file->name = path;
    /* A file of torch.save has no metadata, and its tensors are not looked at here. */
    const bool pth = dpti_is_pth(content.bytes, content.n_bytes);
    if (status == DPT_OK && !pth)
        status = parse_header(file, content.bytes, content.n_bytes, error);
    if (status == DPT_OK && !pth) status = parse_metadata(file, error);
    free(content.bytes);
    if (status == DPT_OK)
        *out = file;
    else
        dpti_safetensors_close(file);
    return status;
}

dpt_status dpti_safetensors_read_metadata(const char *path, dpti_safetensors **out,
                                          dpt_error *error)
{
    return read_metadata(path, LENGTH_BYTES + MAX_HEADER_BYTES, out, error);
}

dpt_status dpti_safetensors_join(const dpti_safetensors_parts *parts, dpti_safetensors **out,
                                 dpt_error *error)
{
    dpti_safetensors *file = calloc(1, sizeof *file);
    if (!file) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to read weights");
    file->tensors = parts->tensors;
    file->n_tensors = parts->n_tensors;
    file->parts = parts->files;
    file->n_parts = parts->n_files;
    *out = file;
    return DPT_OK;
}

bool dpti_safetensors_any(const dpti_safetensors *file, bool (*is)(const char *name))
{
    const char *name;
    json_t *entry;
    for (size_t i = 0; i < dpti_safetensors_count(file); i++)
        if (is(dpti_safetensors_get(file, i)->name)) return true;
    json_object_foreach(file->header, name, entry)
    {
        if (strcmp(name, metadata_key) != 0 && is(name)) return true;
    }
    return false;
}

const char *dpti_safetensors_type(const dpti_safetensors *file)
{
    static const char *const known[] = {"F16", "BF16", "F32", "F64"};
    const char *name;
    json_t *entry;
    size_t best = sizeof known / sizeof *known;
    json_object_foreach(file->header, name, entry)
    {
        const char *type = json_string_value(json_object_get(entry, "dtype"));
        for (size_t i = 0; type && strcmp(name, metadata_key) != 0 && i < best; i++)
            if (strcmp(type, known[i]) == 0) best = i;
    }
    return best < sizeof known / sizeof *known ? known[best] : NULL;
}

char *dpti_safetensors_peek(const char *path, size_t max_bytes, const char *key)
{
    dpti_safetensors *file = NULL;
    if (read_metadata(path, max_bytes, &file, NULL) != DPT_OK) return NULL;
    const char *text = dpti_safetensors_metadata(file, key);
    char *value = text ? dpti_strdup(text) : NULL;
    dpti_safetensors_close(file);
    return value;
}

bool dpti_safetensors_sealed(const dpti_safetensors *file)
{
    return file->sealed;
}

void dpti_safetensors_close(dpti_safetensors *file)
{
    if (!file) return;
    for (size_t i = 0; i < file->n_parts; i++)
        dpti_safetensors_close(file->parts[i]);
    free(file->parts);
    free(file->tensors);
    json_decref(file->header);
    free(file->owned);
    free(file);
}

size_t dpti_safetensors_count(const dpti_safetensors *file)
{
    return file->n_tensors;
}

const dpti_tensor *dpti_safetensors_get(const dpti_safetensors *file, size_t i)
{
    return i < file->n_tensors ? &file->tensors[i] : NULL;
}

const dpti_tensor *dpti_safetensors_find(const dpti_safetensors *file, const char *name)
{
    for (size_t i = 0; i < file->n_tensors; i++)
        if (strcmp(file->tensors[i].name, name) == 0) return &file->tensors[i];
    return NULL;
}

const char *dpti_safetensors_metadata(const dpti_safetensors *file, const char *key)
{
    return json_string_value(json_object_get(json_object_get(file->header, metadata_key), key));
}

/* ---- Writing --------------------------------------------------------------------------------- */

static dpt_status check_tensor(const char *path, const json_t *header, const dpti_tensor *tensor,
                               dpt_error *error)
{
    const size_t per_element = element_bytes(tensor->dtype);
    size_t n_bytes = 0;
    if (strcmp(tensor->name, metadata_key) == 0 || json_object_get(header, tensor->name))
        return DPT_FAIL(error, DPT_E_INVALID, "%s: a second tensor %s", path, tensor->name);
    if (per_element == 0 || tensor->rank > DPTI_TENSOR_MAX_RANK ||
        !tensor_bytes(per_element, tensor->rank, tensor->shape, &n_bytes) ||
        n_bytes != tensor->n_bytes)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "%s: tensor %s: its dtype %s, shape and %zu bytes do not agree", path,
                        tensor->name, tensor->dtype, tensor->n_bytes);
    return DPT_OK;
}

/* {"dtype": ..., "shape": [...], "data_offsets": [begin, end]}; NULL without memory. */
static json_t *tensor_entry(const dpti_tensor *tensor, size_t begin)
{
    json_t *shape = json_array();
    for (size_t d = 0; d < tensor->rank; d++)
        if (json_array_append_new(shape, json_integer((json_int_t)tensor->shape[d])) != 0) {
            json_decref(shape);
            return NULL;
        }
    return json_pack("{s:s, s:o, s:[I, I]}", "dtype", tensor->dtype, "shape", shape, "data_offsets",
                     (json_int_t)begin, (json_int_t)(begin + tensor->n_bytes));
}

static dpt_status build_metadata(const dpti_tensor_file *file, bool sealed, json_t *header,
                                 dpt_error *error)
{
    const char *const path = file->path;
    const char *const *metadata = file->metadata;
    if (!metadata && !sealed) return DPT_OK;
    json_t *object = json_object();
    if (sealed && json_object_set_new(object, seal_key, json_string(no_seal)) != 0) {
        json_decref(object);
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to write %s", path);
    }
    for (; metadata && object && metadata[0]; metadata += 2) {
        if (json_object_set_new(object, metadata[0], json_string(metadata[1])) != 0) {
            json_decref(object);
            return DPT_FAIL(error, DPT_E_INVALID, "%s: metadata %s is not UTF-8", path,
                            metadata[0]);
        }
    }
    if (json_object_set_new(header, metadata_key, object) != 0)
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to write %s", path);
    return DPT_OK;
}

static dpt_status build_header(const dpti_tensor_file *file, json_t *header, dpt_error *error)
{
    const char *const path = file->path;
    const dpti_tensor *const tensors = file->tensors;
    size_t at = 0;
    for (size_t i = 0; i < file->n_tensors; i++) {
        size_t end = 0;
        DPT_TRY(check_tensor(path, header, &tensors[i], error));
        if (!dpti_add(at, tensors[i].n_bytes, &end) || end > INT64_MAX)
            return DPT_FAIL(error, DPT_E_INVALID, "%s: more bytes than a file can have", path);
        if (json_object_set_new(header, tensors[i].name, tensor_entry(&tensors[i], at)) != 0)
            return DPT_FAIL(error, DPT_E_INVALID, "%s: the name of tensor %zu is not UTF-8", path,
                            i);
        at = end;
    }
    return DPT_OK;
}

/* The 8 bytes of length and the JSON, padded with spaces so that the data behind it are aligned. */
typedef struct encoded_header {
    uint8_t *bytes; /* owned */
    size_t n_bytes;
} encoded_header;

static dpt_status encode_header(const char *path, const json_t *header, encoded_header *out,
                                dpt_error *error)
{
    char *text = json_dumps(header, JSON_COMPACT);
    const size_t n_text = text ? strlen(text) : 0;
    const size_t n_padded = dpti_round_up(n_text, ALIGNMENT);
    uint8_t *bytes = text ? malloc(LENGTH_BYTES + n_padded) : NULL;
    if (!bytes || n_padded > MAX_HEADER_BYTES) {
        const bool too_long = bytes != NULL;
        free(bytes);
        free(text);
        return too_long ? DPT_FAIL(error, DPT_E_INVALID, "%s: too many tensors for one file", path)
                        : DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to write %s", path);
    }
    for (unsigned i = 0; i < LENGTH_BYTES; i++)
        bytes[i] = (uint8_t)((uint64_t)n_padded >> (8 * i));
    memset(bytes + LENGTH_BYTES, ' ', n_padded);
    memcpy(bytes + LENGTH_BYTES, text, n_text);
    free(text);
    *out = (encoded_header){.bytes = bytes, .n_bytes = LENGTH_BYTES + n_padded};
    return DPT_OK;
}

static void put_seal(const encoded_header *header, const dpti_tensor_file *file)
{
    char digits[SEAL_DIGITS + 1];
    seal s = seal_begin(header->bytes, header->n_bytes);
    for (size_t i = 0; i < file->n_tensors; i++)
        seal_add(&s, file->tensors[i].data, file->tensors[i].n_bytes);
    seal_digits(&s, digits);
    memcpy(header->bytes + SEAL_OFFSET, digits, SEAL_DIGITS);
}

static dpt_status write_file(const dpti_tensor_file *file, const encoded_header *header,
                             dpt_error *error)
{
    dpti_new_file to;
    DPT_TRY(dpti_new_file_create(file->path, &to, error));
    dpt_status status = dpti_new_file_write(&to, header->bytes, header->n_bytes, error);
    for (size_t i = 0; status == DPT_OK && i < file->n_tensors; i++)
        status = dpti_new_file_write(&to, file->tensors[i].data, file->tensors[i].n_bytes, error);
    if (status == DPT_OK) return dpti_new_file_commit(&to, error);
    dpti_new_file_discard(&to);
    return status;
}

static dpt_status write_tensors(const dpti_tensor_file *file, bool sealed, dpt_error *error)
{
    encoded_header encoded = {0};
    json_t *header = json_object();
    if (!header) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to write %s", file->path);
    dpt_status status = build_metadata(file, sealed, header, error);
    if (status == DPT_OK) status = build_header(file, header, error);
    if (status == DPT_OK) status = encode_header(file->path, header, &encoded, error);
    if (status == DPT_OK && sealed) put_seal(&encoded, file);
    if (status == DPT_OK) status = write_file(file, &encoded, error);
    free(encoded.bytes);
    json_decref(header);
    return status;
}

dpt_status dpti_safetensors_write(const dpti_tensor_file *file, dpt_error *error)
{
    return write_tensors(file, false, error);
}

dpt_status dpti_safetensors_seal(const dpti_tensor_file *file, dpt_error *error)
{
    return write_tensors(file, true, error);
}
