/* A machine for a part of pickle's language (pickle.h).  It has a stack of values, a memo of
   values, and lists of what tuples and dicts hold.  It does not recur, and every list has a limit.
 */
#include "io/pickle.h"

#include "base/grow.h"
#include "base/size.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_VALUES = 1 << 22, MOST_MEMO = 1 << 20, NAME_BYTES = 96 };

typedef enum value_kind {
    NOTHING, /* None, a bool, a real number: nothing that a tensor is made of */
    MARKER,
    NUMBER,
    TEXT,
    NAME, /* a global: module and name as one text */
    TUPLE,
    LIST,
    DICT,
    STORAGE_TYPE,
    STORAGE,
    TENSOR,
} value_kind;

typedef struct value {
    value_kind kind;
    const char *text; /* TEXT, NAME */
    int64_t number;   /* NUMBER; TEXT, NAME: the length; TUPLE: the first item; DICT, STORAGE_TYPE,
                         STORAGE, TENSOR: an index */
    size_t n;         /* TUPLE: its items */
} value;

/* What a dict holds. */
typedef struct pair {
    int64_t dict;
    value key, value;
} pair;

/* The types of storages. */
static const struct {
    const char *name, *dtype;
    size_t n_bytes;
} types[] = {
    {"torch FloatStorage", "F32", 4}, {"torch DoubleStorage", "F64", 8},
    {"torch HalfStorage", "F16", 2},  {"torch BFloat16Storage", "BF16", 2},
    {"torch LongStorage", "I64", 8},  {"torch IntStorage", "I32", 4},
    {"torch ShortStorage", "I16", 2}, {"torch CharStorage", "I8", 1},
    {"torch ByteStorage", "U8", 1},   {"torch BoolStorage", "BOOL", 1},
};

/* What a storage is; its index in `types` and in the archive. */
typedef struct storage {
    size_t type;
    value key;
    size_t n;
} storage;

/* A list that grows. */
typedef struct grown {
    void *items;
    size_t n, capacity;
} grown;

typedef struct machine {
    const dpti_file_bytes *file;
    size_t at;
    grown stack, memo, items, pairs, storages, tensors;
    int64_t n_dicts;
    dpt_error *error;
} machine;

static dpt_status fail(machine *m, const char *what)
{
    return DPT_FAIL(m->error, DPT_E_FORMAT, "%s", what);
}

static dpt_status fail_damaged(machine *m)
{
    return fail(m, "its pickle is damaged");
}

/* Appends an item of n_bytes. */
static dpt_status append(machine *m, grown *to, const void *item, size_t n_bytes)
{
    if (to->n == MOST_VALUES) return fail(m, "it holds more than a state dict does");
    void *items = dpti_grow(to->items, to->n, &to->capacity, n_bytes);
    if (!items) return DPT_FAIL(m->error, DPT_E_NO_MEMORY, "no memory to read %s", m->file->name);
    to->items = items;
    memcpy((char *)to->items + to->n++ * n_bytes, item, n_bytes);
    return DPT_OK;
}

static dpt_status push(machine *m, value v)
{
    return append(m, &m->stack, &v, sizeof v);
}

static dpt_status pop(machine *m, value *out)
{
    if (m->stack.n == 0) return fail_damaged(m);
    *out = ((value *)m->stack.items)[--m->stack.n];
    return DPT_OK;
}

/* Finds the last marker; its index on the stack. */
static dpt_status find_marker(machine *m, size_t *out)
{
    const value *stack = m->stack.items;
    for (size_t i = m->stack.n; i-- > 0;)
        if (stack[i].kind == MARKER) {
            *out = i;
            return DPT_OK;
        }
    return fail_damaged(m);
}

/* Reads a little-endian number of the code. */
static dpt_status take_number(machine *m, size_t n_bytes, uint64_t *out)
{
    *out = 0;
    if (m->file->n_bytes - m->at < n_bytes) return fail_damaged(m);
    for (size_t i = 0; i < n_bytes; i++)
        *out |= (uint64_t)m->file->bytes[m->at + i] << (8 * i);
    m->at += n_bytes;
    return DPT_OK;
}

/* Takes n characters of the code as a text. */
static dpt_status take_text(machine *m, uint64_t n, value *out)
{
    if (m->file->n_bytes - m->at < n) return fail_damaged(m);
    *out =
        (value){.kind = TEXT, .text = (const char *)m->file->bytes + m->at, .number = (int64_t)n};
    m->at += (size_t)n;
    return DPT_OK;
}

/* ---- Building -------------------------------------------------------------------------------- */

/* Takes the values behind index `first` off the stack, as a tuple. */
static dpt_status make_tuple(machine *m, size_t first, value *out)
{
    const size_t n = m->stack.n - first;
    *out = (value){.kind = TUPLE, .number = (int64_t)m->items.n, .n = n};
    for (size_t i = 0; i < n; i++)
        DPT_TRY(append(m, &m->items, (value *)m->stack.items + first + i, sizeof(value)));
    m->stack.n = first;
    return DPT_OK;
}

static dpt_status push_tuple(machine *m, size_t n)
{
    value tuple = {.kind = NOTHING};
    if (m->stack.n < n) return fail_damaged(m);
    DPT_TRY(make_tuple(m, m->stack.n - n, &tuple));
    return push(m, tuple);
}

static dpt_status push_marked_tuple(machine *m)
{
    size_t marker = 0;
    value tuple = {.kind = NOTHING};
    DPT_TRY(find_marker(m, &marker));
    DPT_TRY(make_tuple(m, marker + 1, &tuple));
    m->stack.n = marker;
    return push(m, tuple);
}

/* Stores keys and values behind index `first` in the dict below it. */
static dpt_status set_items(machine *m, size_t first, size_t dict)
{
    const value *stack = m->stack.items;
    if (dict >= m->stack.n || stack[dict].kind != DICT || (m->stack.n - first) % 2 != 0)
        return fail_damaged(m);
    for (size_t i = first; i < m->stack.n; i += 2) {
        stack = m->stack.items;
        const pair p = {.dict = stack[dict].number, .key = stack[i], .value = stack[i + 1]};
        DPT_TRY(append(m, &m->pairs, &p, sizeof p));
    }
    m->stack.n = dict + 1;
    return DPT_OK;
}

/* The item of a tuple; a marker if there is none. */
static value item(const machine *m, const value *tuple, size_t i)
{
    if (tuple->kind != TUPLE || i >= tuple->n) return (value){.kind = MARKER};
    return ((const value *)m->items.items)[(size_t)tuple->number + i];
}

static bool is_text(const value *v, const char *text)
{
    const size_t n = strlen(text);
    return (v->kind == TEXT || v->kind == NAME) && (size_t)v->number == n &&
           memcmp(v->text, text, n) == 0;
}

/* ("storage", torch.FloatStorage, key, device, elements) */
static dpt_status load_persistent(machine *m)
{
    value tuple = {.kind = NOTHING};
    DPT_TRY(pop(m, &tuple));
    const value kind = item(m, &tuple, 0), type = item(m, &tuple, 1), key = item(m, &tuple, 2),
                n = item(m, &tuple, 4);
    if (!is_text(&kind, "storage") || type.kind != STORAGE_TYPE || key.kind != TEXT ||
        n.kind != NUMBER || n.number < 0)
        return fail(m, "it refers to something that is no storage of a tensor");
    const storage s = {.type = (size_t)type.number, .key = key, .n = (size_t)n.number};
    DPT_TRY(append(m, &m->storages, &s, sizeof s));
    return push(m, (value){.kind = STORAGE, .number = (int64_t)m->storages.n - 1});
}

/* Reads sizes or strides from a tuple. */
static bool read_extents(const machine *m, const value *tuple, size_t *out)
{
    for (size_t i = 0; i < tuple->n; i++) {
        const value v = item(m, tuple, i);
        if (v.kind != NUMBER || v.number < 0) return false;
        out[i] = (size_t)v.number;
    }
    return true;
}

/* Whether every element of the tensor is within its storage. */
static bool is_within(const dpti_pickled_tensor *t)
{
    size_t last = t->offset;
    for (size_t d = 0; d < t->rank; d++) {
        size_t step;
        if (t->shape[d] == 0) return true;
        if (!dpti_multiply(t->shape[d] - 1, t->stride[d], &step) || !dpti_add(last, step, &last))
            return false;
    }
    return last < t->storage;
}

/* (storage, offset, size, stride, ...) */
static dpt_status rebuild_tensor(machine *m, const value *arguments)
{
    const value place = item(m, arguments, 0), offset = item(m, arguments, 1),
                shape = item(m, arguments, 2), stride = item(m, arguments, 3);
    if (place.kind != STORAGE || offset.kind != NUMBER || offset.number < 0 ||
        shape.kind != TUPLE || stride.kind != TUPLE || shape.n != stride.n)
        return fail_damaged(m);
    const storage *s = (const storage *)m->storages.items + place.number;
    dpti_pickled_tensor t = {.key = s->key.text,
                             .key_length = (size_t)s->key.number,
                             .dtype = types[s->type].dtype,
                             .element_bytes = types[s->type].n_bytes,
                             .storage = s->n,
                             .offset = (size_t)offset.number,
                             .rank = shape.n};
    if (t.rank > DPTI_PICKLE_RANK) return fail(m, "a tensor has more than eight axes");
    if (!read_extents(m, &shape, t.shape) || !read_extents(m, &stride, t.stride) || !is_within(&t))
        return fail_damaged(m);
    DPT_TRY(append(m, &m->tensors, &t, sizeof t));
    return push(m, (value){.kind = TENSOR, .number = (int64_t)m->tensors.n - 1});
}

/* Copies the beginning of a text of the file for a message. */
static const char *print_text(const value *text, char out[NAME_BYTES])
{
    size_t n = 0;
    for (; n + 1 < NAME_BYTES && n < (size_t)text->number; n++)
        out[n] = text->text[n] > ' ' && text->text[n] <= '~' ? text->text[n] : '?';
    out[n] = '\0';
    return out;
}

static dpt_status fail_name(machine *m, const char *name)
{
    return DPT_FAIL(m->error, DPT_E_FORMAT, "it has a %s, and only tensors are read", name);
}

/* Calls nothing: the arguments of two functions describe a tensor, and OrderedDict() is a dict. */
static dpt_status reduce(machine *m)
{
    value arguments = {.kind = NOTHING}, name = {.kind = NOTHING};
    DPT_TRY(pop(m, &arguments));
    DPT_TRY(pop(m, &name));
    if (arguments.kind != TUPLE) return fail_damaged(m);
    if (is_text(&name, "torch._utils _rebuild_tensor_v2")) return rebuild_tensor(m, &arguments);
    if (is_text(&name, "torch._utils _rebuild_parameter")) return push(m, item(m, &arguments, 0));
    if (is_text(&name, "collections OrderedDict") && arguments.n == 0)
        return push(m, (value){.kind = DICT, .number = m->n_dicts++});
    return name.kind == NAME ? fail_name(m, name.text) : fail_damaged(m);
}

/* Pushes a global that is known.  Its name is that of the module, a space, and its own. */
static dpt_status push_global(machine *m, const value *module, const value *name)
{
    static const char *const known[] = {"torch._utils _rebuild_tensor_v2",
                                        "torch._utils _rebuild_parameter",
                                        "collections OrderedDict"};
    char full[2 * NAME_BYTES], text[NAME_BYTES];
    const size_t n = strlen(strcpy(full, print_text(module, text)));
    full[n] = ' ';
    strcpy(full + n + 1, print_text(name, text));
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(full, types[i].name) == 0)
            return push(m, (value){.kind = STORAGE_TYPE, .number = (int64_t)i});
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strcmp(full, known[i]) == 0)
            return push(
                m, (value){.kind = NAME, .text = known[i], .number = (int64_t)strlen(known[i])});
    full[n] = '.';
    return fail_name(m, full);
}

/* A global whose module and name are two lines. */
static dpt_status load_lines(machine *m)
{
    value lines[2] = {{.kind = NOTHING}};
    for (size_t i = 0; i < 2; i++) {
        const uint8_t *text = m->file->bytes + m->at;
        const uint8_t *end = memchr(text, '\n', m->file->n_bytes - m->at);
        if (!end) return fail_damaged(m);
        DPT_TRY(take_text(m, (uint64_t)(end - text), &lines[i]));
        m->at++;
    }
    return push_global(m, &lines[0], &lines[1]);
}

/* A global whose module and name are on the stack. */
static dpt_status load_texts(machine *m)
{
    value module = {.kind = NOTHING}, name = {.kind = NOTHING};
    DPT_TRY(pop(m, &name));
    DPT_TRY(pop(m, &module));
    if (name.kind != TEXT || module.kind != TEXT) return fail_damaged(m);
    return push_global(m, &module, &name);
}

/* ---- The memo -------------------------------------------------------------------------------- */

static dpt_status put(machine *m, uint64_t index)
{
    const value empty = {.kind = MARKER};
    if (m->stack.n == 0 || index >= MOST_MEMO) return fail_damaged(m);
    while (m->memo.n <= index)
        DPT_TRY(append(m, &m->memo, &empty, sizeof empty));
    ((value *)m->memo.items)[index] = ((value *)m->stack.items)[m->stack.n - 1];
    return DPT_OK;
}

static dpt_status recall(machine *m, uint64_t index)
{
    if (index >= m->memo.n) return fail_damaged(m);
    const value v = ((value *)m->memo.items)[index];
    return v.kind == MARKER ? fail_damaged(m) : push(m, v);
}

/* ---- The code -------------------------------------------------------------------------------- */

/* Numbers that follow an instruction. */
static dpt_status take_index(machine *m, size_t n_bytes,
                             dpt_status (*use)(machine *m, uint64_t index))
{
    uint64_t index = 0;
    DPT_TRY(take_number(m, n_bytes, &index));
    return use(m, index);
}

static dpt_status push_number(machine *m, size_t n_bytes)
{
    uint64_t number = 0;
    DPT_TRY(take_number(m, n_bytes, &number));
    const bool below = n_bytes == 4 && number > INT32_MAX;
    return push(
        m, (value){.kind = NUMBER, .number = (int64_t)number - (below ? (int64_t)1 << 32 : 0)});
}

/* A number of any length, of which eight bytes are enough. */
static dpt_status push_long(machine *m)
{
    uint64_t n = 0, number = 0;
    DPT_TRY(take_number(m, 1, &n));
    if (n > 8) return fail(m, "it has a number of more than eight bytes");
    DPT_TRY(take_number(m, (size_t)n, &number));
    if (n > 0 && n < 8 && number >> (8 * n - 1)) number |= ~UINT64_C(0) << (8 * n);
    return push(m, (value){.kind = NUMBER, .number = (int64_t)number});
}

static dpt_status push_text(machine *m, size_t n_bytes)
{
    uint64_t n = 0;
    value text = {.kind = NOTHING};
    DPT_TRY(take_number(m, n_bytes, &n));
    DPT_TRY(take_text(m, n, &text));
    return push(m, text);
}

/* Attributes of a dict, such as _metadata, are dropped. */
static dpt_status build(machine *m)
{
    value state = {.kind = NOTHING}, of = {.kind = NOTHING};
    DPT_TRY(pop(m, &state));
    DPT_TRY(pop(m, &of));
    if (of.kind != DICT) return fail(m, "it has an object that is no tensor");
    return push(m, of);
}

static dpt_status drop_to_marker(machine *m)
{
    size_t marker = 0;
    DPT_TRY(find_marker(m, &marker));
    if (marker == 0 || ((value *)m->stack.items)[marker - 1].kind != LIST) return fail_damaged(m);
    m->stack.n = marker;
    return DPT_OK;
}

static dpt_status set_marked_items(machine *m)
{
    size_t marker = 0;
    DPT_TRY(find_marker(m, &marker));
    return marker > 0 ? set_items(m, marker + 1, marker - 1) : fail_damaged(m);
}

static dpt_status skip(machine *m, size_t n_bytes)
{
    if (m->file->n_bytes - m->at < n_bytes) return fail_damaged(m);
    m->at += n_bytes;
    return DPT_OK;
}

static dpt_status drop_one(machine *m)
{
    value dropped = {.kind = NOTHING};
    DPT_TRY(pop(m, &dropped));
    return m->stack.n > 0 && ((value *)m->stack.items)[m->stack.n - 1].kind == LIST
               ? DPT_OK
               : fail_damaged(m);
}

static dpt_status push_nothing(machine *m, size_t n_bytes)
{
    DPT_TRY(skip(m, n_bytes));
    return push(m, (value){.kind = NOTHING});
}

static dpt_status run_values(machine *m, uint8_t code)
{
    switch (code) {
    case '(': return push(m, (value){.kind = MARKER});
    case 'N':  /* None */
    case 0x88: /* True */
    case 0x89: return push_nothing(m, 0);
    case 'G': return push_nothing(m, 8); /* a real number */
    case 'K': return push_number(m, 1);
    case 'M': return push_number(m, 2);
    case 'J': return push_number(m, 4);
    case 0x8a: return push_long(m);
    case 0x8c: return push_text(m, 1);
    case 'X': return push_text(m, 4);
    case 'c': return load_lines(m);
    case 0x93: return load_texts(m);
    case '}': return push(m, (value){.kind = DICT, .number = m->n_dicts++});
    case ']': return push(m, (value){.kind = LIST});
    case ')': return push_tuple(m, 0);
    case 0x85: return push_tuple(m, 1);
    case 0x86: return push_tuple(m, 2);
    case 0x87: return push_tuple(m, 3);
    case 't': return push_marked_tuple(m);
    default: break;
    }
    return DPT_FAIL(m->error, DPT_E_FORMAT,
                    "its pickle has the instruction 0x%02x, which a state dict does not need",
                    code);
}

static dpt_status run_one(machine *m, uint8_t code)
{
    switch (code) {
    case 0x80: return skip(m, 1); /* the version of the language */
    case 0x95: return skip(m, 8); /* a frame */
    case 'q': return take_index(m, 1, put);
    case 'r': return take_index(m, 4, put);
    case 0x94: return put(m, m->memo.n);
    case 'h': return take_index(m, 1, recall);
    case 'j': return take_index(m, 4, recall);
    case 'Q': return load_persistent(m);
    case 'R': return reduce(m);
    case 'b': return build(m);
    case 'a': return drop_one(m);
    case 'e': return drop_to_marker(m);
    case 's':
        return m->stack.n > 2 ? set_items(m, m->stack.n - 2, m->stack.n - 3) : fail_damaged(m);
    case 'u': return set_marked_items(m);
    default: return run_values(m, code);
    }
}

/* The dict that is left is the state dict. */
static dpt_status collect(machine *m, dpti_pickled *out)
{
    const value *top = m->stack.items;
    grown found = {.items = NULL};
    if (m->stack.n != 1 || top->kind != DICT)
        return fail(m, "it is no state dict; save model.state_dict()");
    dpt_status status = DPT_OK;
    for (size_t i = 0; i < m->pairs.n && status == DPT_OK; i++) {
        const pair *p = (const pair *)m->pairs.items + i;
        if (p->dict != top->number) continue;
        if (p->key.kind != TEXT || p->value.kind != TENSOR) {
            char text[NAME_BYTES] = "";
            if (p->key.kind == TEXT) print_text(&p->key, text);
            status = DPT_FAIL(m->error, DPT_E_FORMAT,
                              "its entry '%s' is no tensor; save model.state_dict() alone", text);
            break;
        }
        dpti_pickled_tensor t = ((const dpti_pickled_tensor *)m->tensors.items)[p->value.number];
        t.name = p->key.text;
        t.name_length = (size_t)p->key.number;
        status = append(m, &found, &t, sizeof t);
    }
    if (status == DPT_OK)
        *out = (dpti_pickled){found.items, found.n};
    else
        free(found.items);
    return status;
}

dpt_status dpti_pickle_read(const dpti_file_bytes *pickle, dpti_pickled *out, dpt_error *error)
{
    machine m = {.file = pickle, .error = error};
    dpt_status status = DPT_OK;
    bool ended = false;
    while (status == DPT_OK && !ended) {
        if (m.at == pickle->n_bytes) {
            status = fail_damaged(&m);
            break;
        }
        const uint8_t code = pickle->bytes[m.at++];
        ended = code == '.';
        if (!ended) status = run_one(&m, code);
    }
    if (status == DPT_OK) status = collect(&m, out);
    grown *const all[] = {&m.stack, &m.memo, &m.items, &m.pairs, &m.storages, &m.tensors};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        free(all[i]->items);
    return status;
}
