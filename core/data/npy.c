/* NumPy's file of one array: a magic, a header that is a Python dictionary, the elements.
   https://numpy.org/doc/stable/reference/generated/numpy.lib.format.html */
#include "data/array.h"

#include "base/memory.h"
#include "base/size.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAGIC_BYTES = 6, VERSION_BYTES = 2, DESCR_BYTES = 16 };

/* The content of the header. */
typedef struct header {
    char descr[DESCR_BYTES]; /* such as "<f4" */
    bool fortran;
    size_t rank, shape[DPTI_ARRAY_RANK];
    bool has_descr, has_order, has_shape;
    size_t n_bytes; /* of the header, with the magic */
} header;

/* ---- The dictionary -------------------------------------------------------------------------- */

/* What is left of the header's text. */
typedef struct cursor {
    const char *at, *end;
} cursor;

static void skip_space(cursor *c)
{
    while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\t'))
        c->at++;
}

static bool take(cursor *c, char wanted)
{
    skip_space(c);
    if (c->at == c->end || *c->at != wanted) return false;
    c->at++;
    return true;
}

static bool take_word(cursor *c, const char *word)
{
    const size_t n = strlen(word);
    skip_space(c);
    if ((size_t)(c->end - c->at) < n || memcmp(c->at, word, n) != 0) return false;
    c->at += n;
    return true;
}

/* A string without escapes, of at most DESCR_BYTES - 1 characters. */
static bool take_string(cursor *c, char out[DESCR_BYTES])
{
    skip_space(c);
    if (c->at == c->end || (*c->at != '\'' && *c->at != '"')) return false;
    const char quote = *c->at++;
    size_t n = 0;
    while (c->at < c->end && *c->at != quote) {
        if (n + 1 == DESCR_BYTES || *c->at < ' ' || *c->at > '~' || *c->at == '\\') return false;
        out[n++] = *c->at++;
    }
    out[n] = '\0';
    return take(c, quote);
}

static bool take_size(cursor *c, size_t *out)
{
    size_t n = 0;
    skip_space(c);
    const char *first = c->at;
    for (; c->at < c->end && *c->at >= '0' && *c->at <= '9'; c->at++)
        if (!dpti_multiply(n, 10, &n) || !dpti_add(n, (size_t)(*c->at - '0'), &n)) return false;
    *out = n;
    return c->at > first;
}

static bool take_shape(cursor *c, header *h)
{
    if (!take(c, '(')) return false;
    while (!take(c, ')')) {
        if (h->rank == DPTI_ARRAY_RANK || !take_size(c, &h->shape[h->rank])) return false;
        h->rank++;
        if (!take(c, ',')) return take(c, ')');
    }
    return true;
}

/* Takes one entry.  Each key may be there once. */
static bool take_entry(cursor *c, header *h)
{
    char key[DESCR_BYTES];
    if (!take_string(c, key) || !take(c, ':')) return false;
    if (strcmp(key, "descr") == 0 && !h->has_descr) {
        h->has_descr = true;
        return take_string(c, h->descr);
    }
    if (strcmp(key, "fortran_order") == 0 && !h->has_order) {
        h->has_order = true;
        h->fortran = take_word(c, "True");
        return h->fortran || take_word(c, "False");
    }
    if (strcmp(key, "shape") == 0 && !h->has_shape) {
        h->has_shape = true;
        return take_shape(c, h);
    }
    return false;
}

static bool parse_dictionary(cursor c, header *h)
{
    if (!take(&c, '{')) return false;
    while (!take(&c, '}')) {
        if (!take_entry(&c, h)) return false;
        if (take(&c, ',')) continue;
        if (!take(&c, '}')) return false;
        break;
    }
    skip_space(&c);
    return c.at == c.end && h->has_descr && h->has_order && h->has_shape;
}

/* ---- The header ------------------------------------------------------------------------------ */

bool dpti_is_npy(const uint8_t *bytes, size_t n_bytes)
{
    return n_bytes >= MAGIC_BYTES && memcmp(bytes, "\x93NUMPY", MAGIC_BYTES) == 0;
}

static dpt_status read_header(const dpti_file_bytes *file, header *h, dpt_error *error)
{
    const uint8_t *b = file->bytes;
    const size_t fixed = MAGIC_BYTES + VERSION_BYTES;
    if (file->n_bytes < fixed + 2 || !dpti_is_npy(b, file->n_bytes))
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: no NumPy array; write it with numpy.save or numpy.savez", file->name);
    const unsigned version = b[MAGIC_BYTES];
    const size_t length_bytes = version == 1 ? 2 : 4;
    if (version < 1 || version > 3 || b[MAGIC_BYTES + 1] != 0)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: format %u.%u of NumPy arrays; 1.0, 2.0 and 3.0 can be read",
                        file->name, version, (unsigned)b[MAGIC_BYTES + 1]);
    size_t length = 0;
    for (size_t i = 0; i < length_bytes && fixed + i < file->n_bytes; i++)
        length |= (size_t)b[fixed + i] << (8 * i);
    if (file->n_bytes < fixed + length_bytes || file->n_bytes - fixed - length_bytes < length)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: the NumPy array ends within its header; write the file again",
                        file->name);
    const char *text = (const char *)b + fixed + length_bytes;
    if (!parse_dictionary((cursor){text, text + length}, h))
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: the header of the NumPy array is damaged, or its elements are "
                        "structs, or it has more than %d axes; write plain numbers",
                        file->name, DPTI_ARRAY_RANK);
    h->n_bytes = fixed + length_bytes + length;
    return DPT_OK;
}

/* The type of the file's elements. */
typedef struct element {
    char kind;    /* 'b' bool, 'u' unsigned, 'i' signed, 'f' real */
    size_t bytes; /* 1, 2, 4 or 8 */
    bool swapped; /* the first byte is the most significant one */
} element;

static dpt_status read_type(const dpti_file_bytes *file, const char *descr, element *out,
                            dpt_error *error)
{
    static const char *const known[] = {"b1", "u1", "u2", "u4", "u8", "i1",
                                        "i2", "i4", "i8", "f2", "f4", "f8"};
    const bool has_order = descr[0] && strchr("<>|=", descr[0]);
    const char *type = descr + has_order;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(type, known[i]) == 0) {
            *out = (element){
                .kind = type[0], .bytes = (size_t)(type[1] - '0'), .swapped = descr[0] == '>'};
            return DPT_OK;
        }
    return DPT_FAIL(error, DPT_E_FORMAT,
                    "%s: elements of type %s cannot be read; convert them to uint8, int64, "
                    "float32 or bool",
                    file->name, descr);
}

static dpt_status count_elements(const dpti_file_bytes *file, const header *h, size_t *out,
                                 dpt_error *error)
{
    size_t n = 1;
    if (h->rank == 0)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: a single number; the first axis of an array must count the samples",
                        file->name);
    for (size_t i = 0; i < h->rank; i++) {
        if (h->shape[i] == 0)
            return DPT_FAIL(error, DPT_E_FORMAT, "%s: axis %zu of the array is empty", file->name,
                            i);
        if (!dpti_multiply(n, h->shape[i], &n) || n > SIZE_MAX / 16)
            return DPT_FAIL(error, DPT_E_FORMAT,
                            "%s: the shape of the array is impossible; write the file again",
                            file->name);
    }
    *out = n;
    return DPT_OK;
}

dpt_status dpti_npy_read_head(const dpti_file_bytes *file, dpti_npy_head *out, dpt_error *error)
{
    header h = {.rank = 0};
    element type = {0};
    size_t n = 0;
    DPT_TRY(read_header(file, &h, error));
    DPT_TRY(read_type(file, h.descr, &type, error));
    DPT_TRY(count_elements(file, &h, &n, error));
    *out = (dpti_npy_head){.kind = type.kind,
                           .element_bytes = type.bytes,
                           .swapped = type.swapped,
                           .rank = h.rank,
                           .n = n,
                           .n_bytes = h.n_bytes};
    memcpy(out->shape, h.shape, sizeof out->shape);
    return DPT_OK;
}

/* ---- The elements ---------------------------------------------------------------------------- */

/* The bits of an element as an unsigned number. */
static uint64_t bits_of(const uint8_t *bytes, element type)
{
    uint64_t bits = 0;
    for (size_t i = 0; i < type.bytes; i++)
        bits |= (uint64_t)bytes[type.swapped ? type.bytes - 1 - i : i] << (8 * i);
    return bits;
}

static double half_of(uint64_t bits)
{
    const int exponent = (int)(bits >> 10 & 31), fraction = (int)(bits & 1023);
    double value = exponent == 0    ? ldexp(fraction, -24)
                   : exponent == 31 ? (fraction ? (double)NAN : (double)INFINITY)
                                    : ldexp(fraction + 1024, exponent - 25);
    return bits >> 15 ? -value : value;
}

static double real_of(uint64_t bits, element type)
{
    const uint32_t low = (uint32_t)bits;
    float narrow;
    double wide;
    if (type.bytes == 2) return half_of(bits);
    memcpy(&narrow, &low, sizeof narrow);
    memcpy(&wide, &bits, sizeof wide);
    return type.bytes == 4 ? (double)narrow : wide;
}

/* false: it does not fit. */
static bool store_real(uint64_t bits, element type, float *out)
{
    const double value = real_of(bits, type);
    if (isfinite(value) && fabs(value) > (double)FLT_MAX) return false;
    *out = (float)value;
    return true;
}

static bool store_integer(uint64_t bits, element type, int32_t *out)
{
    const uint64_t sign = (uint64_t)1 << (8 * type.bytes - 1);
    if (type.kind == 'b') bits = bits != 0;
    if (type.kind == 'i' && bits & sign) {
        const uint64_t magnitude = (~bits & (sign - 1)) + 1; /* of the negative number */
        if (magnitude > (uint64_t)INT32_MAX) return false;
        *out = -(int32_t)magnitude;
        return true;
    }
    if (bits > INT32_MAX) return false;
    *out = (int32_t)bits;
    return true;
}

/* Walks over an array in row-major order; `at` is the place of the element in the file. */
typedef struct walk {
    size_t rank, shape[DPTI_ARRAY_RANK], step[DPTI_ARRAY_RANK], index[DPTI_ARRAY_RANK];
    size_t at;
} walk;

static walk begin_walk(const header *h)
{
    walk w = {.rank = h->rank};
    size_t step = 1;
    memcpy(w.shape, h->shape, sizeof w.shape);
    for (size_t i = 0; i < h->rank; i++) {
        const size_t axis = h->fortran ? i : h->rank - 1 - i;
        w.step[axis] = step;
        step *= h->shape[axis];
    }
    return w;
}

static void go_on(walk *w)
{
    for (size_t i = w->rank; i-- > 0;) {
        w->at += w->step[i];
        if (++w->index[i] < w->shape[i]) return;
        w->at -= w->step[i] * w->shape[i];
        w->index[i] = 0;
    }
}

/* Returns the place of the first element that does not fit; n: all fit. */
static size_t convert(const uint8_t *from, const header *h, element type, dpti_array *to)
{
    const size_t size = type.bytes;
    const bool plain = !h->fortran && (size == 1 || !type.swapped) &&
                       (to->dtype == DPT_U8 || (size == 4 && type.kind != 'u'));
    if (plain) {
        memcpy(to->data, from, to->n * size);
        return to->n;
    }
    walk w = begin_walk(h);
    for (size_t i = 0; i < to->n; i++, go_on(&w)) {
        const uint64_t bits = bits_of(from + w.at * size, type);
        bool fits = true;
        if (to->dtype == DPT_U8)
            ((uint8_t *)to->data)[i] = (uint8_t)bits;
        else if (to->dtype == DPT_F32)
            fits = store_real(bits, type, (float *)to->data + i);
        else
            fits = store_integer(bits, type, (int32_t *)to->data + i);
        if (!fits) return i;
    }
    return to->n;
}

static dpt_status read_elements(const dpti_file_bytes *file, const header *h, dpti_array *out,
                                dpt_error *error)
{
    element type = {0};
    size_t n = 0;
    DPT_TRY(read_type(file, h->descr, &type, error));
    DPT_TRY(count_elements(file, h, &n, error));
    const size_t there = file->n_bytes - h->n_bytes;
    if (there / type.bytes < n || there != n * type.bytes)
        return DPT_FAIL(error, DPT_E_FORMAT,
                        "%s: the header promises %zu bytes of elements and %zu are there; write "
                        "the file again",
                        file->name, n * type.bytes, there);
    dpti_array array = {.rank = h->rank,
                        .n = n,
                        .dtype = type.kind == 'f'                      ? DPT_F32
                                 : type.kind == 'u' && type.bytes == 1 ? DPT_U8
                                                                       : DPT_I32};
    const size_t n_bytes = n * dpt_dtype_bytes(array.dtype);
    memcpy(array.shape, h->shape, sizeof array.shape);
    if (n_bytes <= dpti_machine_memory()) array.data = dpti_alloc_aligned(n_bytes);
    if (!array.data)
        return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for the %zu bytes of %s", n_bytes,
                        file->name);
    const size_t bad = convert(file->bytes + h->n_bytes, h, type, &array);
    if (bad == n) {
        *out = array;
        return DPT_OK;
    }
    free(array.data);
    return DPT_FAIL(error, DPT_E_FORMAT,
                    "%s: element %zu is too large; integers have 32 bits and real numbers are "
                    "float32 here",
                    file->name, bad);
}

dpt_status dpti_npy_parse(const dpti_file_bytes *file, dpti_array *out, dpt_error *error)
{
    header h = {.rank = 0};
    DPT_TRY(read_header(file, &h, error));
    return read_elements(file, &h, out, error);
}

/* ---- Arrays ---------------------------------------------------------------------------------- */

void dpti_array_free(dpti_array *array)
{
    free(array->name);
    free(array->data);
    *array = (dpti_array){.name = NULL};
}

void dpti_arrays_free(dpti_arrays *arrays)
{
    for (size_t i = 0; i < arrays->n; i++)
        dpti_array_free(&arrays->items[i]);
    arrays->n = 0;
}

bool dpti_array_is_answer(const char *name)
{
    return strcmp(name, "labels") == 0 || strcmp(name, "y") == 0 || strcmp(name, "targets") == 0;
}
