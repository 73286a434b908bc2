/* Makes a data set of named arrays: labels or targets, and records of all other arrays. */
#include "data/data.h"

#include "base/memory.h"
#include "base/size.h"
#include "base/text.h"
#include "context/context.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* The work on one set of arrays. */
typedef struct making {
    dpti_arrays *arrays;
    const dpti_arrays_origin *origin;
    const dpti_array *answers; /* or NULL */
    dpt_dataset *data;
    dpt_error *error;
} making;

static dpt_status fail_memory(const making *m)
{
    return DPT_FAIL(m->error, DPT_E_NO_MEMORY, "no memory for the records of %s",
                    m->origin->source);
}

/* ---- Labels and targets ---------------------------------------------------------------------- */

static int32_t integer_at(const dpti_array *a, size_t i)
{
    return a->dtype == DPT_U8 ? ((const uint8_t *)a->data)[i] : ((const int32_t *)a->data)[i];
}

static float real_at(const dpti_array *a, size_t i)
{
    return a->dtype == DPT_F32 ? ((const float *)a->data)[i] : (float)integer_at(a, i);
}

static bool holds_labels(const dpti_array *a)
{
    return strcmp(a->name, "labels") == 0 || (strcmp(a->name, "y") == 0 && a->dtype != DPT_F32);
}

size_t dpti_arrays_classes(const dpti_arrays *arrays)
{
    int32_t largest = -1;
    for (size_t k = 0; k < arrays->n; k++) {
        const dpti_array *a = &arrays->items[k];
        if (!holds_labels(a) || a->dtype == DPT_F32) continue;
        for (size_t i = 0; i < a->n; i++)
            if (integer_at(a, i) > largest) largest = integer_at(a, i);
    }
    return (size_t)((int64_t)largest + 1);
}

static dpt_status find_answers(making *m)
{
    for (size_t i = 0; i < m->arrays->n; i++) {
        const dpti_array *a = &m->arrays->items[i];
        if (!dpti_array_is_answer(a->name)) continue;
        if (m->answers)
            return DPT_FAIL(m->error, DPT_E_FORMAT,
                            "%s: both %s and %s hold the labels; leave one out", m->origin->source,
                            m->answers->name, a->name);
        m->answers = a;
    }
    return DPT_OK;
}

static dpt_status count_classes(making *m)
{
    const size_t seen = dpti_arrays_classes(m->arrays), least = m->origin->least_classes;
    const size_t classes = seen > least ? seen : least;
    if (classes > DPTI_MAX_CLASSES)
        return DPT_FAIL(m->error, DPT_E_FORMAT, "%s: the label %zu; the largest that can be is %d",
                        m->origin->source, classes - 1, DPTI_MAX_CLASSES - 1);
    m->data->classes = classes < 2 ? 2 : classes;
    return DPT_OK;
}

static dpt_status take_labels(making *m)
{
    const dpti_array *a = m->answers;
    dpt_dataset *d = m->data;
    dpt_error why = {.status = DPT_OK};
    if (a->dtype == DPT_F32)
        return DPT_FAIL(m->error, DPT_E_FORMAT,
                        "%s: labels are integers; call numbers to predict \"targets\"",
                        m->origin->source);
    d->labels_per_sample = a->n / d->count;
    if (d->labels_per_sample > DPTI_MAX_LABELS)
        return DPT_FAIL(m->error, DPT_E_FORMAT, "%s: a sample has at most %d labels, not %zu",
                        m->origin->source, DPTI_MAX_LABELS, d->labels_per_sample);
    DPT_TRY(count_classes(m));
    const dpti_answers answers = {.count = d->count,
                                  .classes = d->classes,
                                  .labels = a->data,
                                  .per_sample = d->labels_per_sample,
                                  .label_dtype = a->dtype};
    if (dpti_answers_check_labels(&answers, &why) != DPT_OK)
        return DPT_FAIL(m->error, DPT_E_FORMAT, "%s: %s", m->origin->source, why.message);
    d->labels = dpti_alloc_aligned(a->n * sizeof *d->labels);
    if (!d->labels) return fail_memory(m);
    dpti_answers_take_labels(&answers, d->labels);
    return DPT_OK;
}

static dpt_status take_targets(making *m)
{
    const dpti_array *a = m->answers;
    dpt_dataset *d = m->data;
    d->classes = a->n / d->count;
    d->targets = dpti_alloc_aligned(a->n * sizeof *d->targets);
    if (!d->targets) return fail_memory(m);
    for (size_t i = 0; i < a->n; i++) {
        d->targets[i] = real_at(a, i);
        if (!isfinite(d->targets[i]))
            return DPT_FAIL(m->error, DPT_E_FORMAT, "%s: target %zu of sample %zu is not finite",
                            m->origin->source, i % d->classes, i / d->classes);
    }
    return DPT_OK;
}

/* ---- Records --------------------------------------------------------------------------------- */

/* Checks that all arrays have as many samples, and sets the count. */
static dpt_status count_samples(making *m)
{
    const dpti_arrays *arrays = m->arrays;
    if (arrays->n - (m->answers != NULL) < 1)
        return DPT_FAIL(m->error, DPT_E_FORMAT, "%s: no array of inputs", m->origin->source);
    const dpti_array *first = &arrays->items[0];
    for (size_t i = 1; i < arrays->n; i++)
        if (arrays->items[i].shape[0] != first->shape[0])
            return DPT_FAIL(m->error, DPT_E_FORMAT, "%s: %.80s has %zu samples, but %.80s has %zu",
                            m->origin->source, first->name, first->shape[0], arrays->items[i].name,
                            arrays->items[i].shape[0]);
    if (first->shape[0] > DPTI_MAX_RECORDS)
        return DPT_FAIL(m->error, DPT_E_FORMAT, "%s: %zu samples, at most %d can be used",
                        m->origin->source, first->shape[0], DPTI_MAX_RECORDS);
    m->data->count = m->data->n_records = first->shape[0];
    return DPT_OK;
}

/* Lists the arrays of a record; returns the elements of a record. */
static size_t list_inputs(making *m)
{
    dpt_dataset *d = m->data;
    size_t elements = 0;
    for (size_t i = 0; i < m->arrays->n; i++) {
        dpti_array *a = &m->arrays->items[i];
        if (a == m->answers) continue;
        dpti_data_input *in = &d->inputs[d->n_inputs++];
        *in = (dpti_data_input){.name = a->name,
                                .dtype = a->dtype,
                                .rank = a->rank - 1,
                                .n = a->n / d->count,
                                .offset = elements};
        memcpy(in->shape, a->shape + 1, in->rank * sizeof *in->shape);
        a->name = NULL; /* it belongs to the data set now */
        elements += in->n;
    }
    return elements;
}

/* The type of all inputs; 0 if they differ. */
static dpt_dtype common_type(const dpt_dataset *d)
{
    for (size_t i = 1; i < d->n_inputs; i++)
        if (d->inputs[i].dtype != d->inputs[0].dtype) return 0;
    return d->inputs[0].dtype;
}

/* Copies an array into the records.  Bytes beside other types become int32. */
static void scatter(dpt_dataset *d, const dpti_data_input *in, const dpti_array *a, size_t elements)
{
    const bool bytes = d->dtype == DPT_U8, widen = !bytes && a->dtype == DPT_U8;
    const size_t size = bytes ? 1 : sizeof(int32_t);
    for (size_t r = 0; r < d->count; r++) {
        uint8_t *to = (uint8_t *)d->images + (r * elements + in->offset) * size;
        const uint8_t *from = (const uint8_t *)a->data + r * in->n * dpt_dtype_bytes(a->dtype);
        if (!widen) memcpy(to, from, in->n * size);
        for (size_t i = 0; widen && i < in->n; i++)
            ((int32_t *)(void *)to)[i] = from[i];
    }
}

static dpt_status join_records(making *m, size_t elements)
{
    dpt_dataset *d = m->data;
    size_t n_bytes = 0, k = 0;
    const dpt_dtype type = common_type(d);
    d->dtype = type ? type : DPT_F32;
    d->mixed = type == 0;
    if (dpti_multiply(d->count, elements, &n_bytes) &&
        dpti_multiply(n_bytes, dpt_dtype_bytes(d->dtype), &n_bytes) &&
        n_bytes <= dpti_machine_memory())
        d->images = dpti_alloc_aligned(n_bytes);
    if (!d->images) return fail_memory(m);
    for (size_t i = 0; i < m->arrays->n; i++)
        if (&m->arrays->items[i] != m->answers)
            scatter(d, &d->inputs[k++], &m->arrays->items[i], elements);
    return DPT_OK;
}

/* The records of a single array are the array itself. */
static void take_single(making *m)
{
    dpt_dataset *d = m->data;
    dpti_array *a = m->arrays->items;
    while (a == m->answers)
        a++;
    d->images = a->data;
    a->data = NULL;
    d->dtype = a->dtype;
    for (size_t i = 0; a->dtype == DPT_I32 && i < a->n; i++) {
        const int32_t id = ((const int32_t *)d->images)[i];
        if (id >= 0 && (size_t)id >= d->vocabulary) d->vocabulary = (size_t)id + 1;
    }
}

static void set_extent(dpt_dataset *d, size_t elements)
{
    enum { IMAGE_RANK = 3 };
    const dpti_data_input *in = d->inputs;
    const bool image = d->n_inputs == 1 && (in->rank == 2 || in->rank == IMAGE_RANK);
    d->height = image ? in->shape[0] : 1;
    d->width = image ? in->shape[1] : 1;
    d->channels = !image ? elements : in->rank == IMAGE_RANK ? in->shape[2] : 1;
}

static dpt_status make_records(making *m)
{
    dpt_dataset *d = m->data;
    static const float none[4] = {0};
    d->inputs = calloc(m->arrays->n, sizeof *d->inputs);
    if (!d->inputs) return fail_memory(m);
    const size_t elements = list_inputs(m);
    set_extent(d, elements);
    if (d->n_inputs > 1)
        DPT_TRY(join_records(m, elements));
    else
        take_single(m);
    return dpti_set_statistics(d, none, none, m->error);
}

static dpt_status make(making *m)
{
    dpt_dataset *d = m->data;
    d->name = dpti_strdup(m->origin->name);
    d->source = dpti_strdup(m->origin->source);
    d->file = dpti_strdup(m->origin->source);
    if (!d->name || !d->source || !d->file) return fail_memory(m);
    DPT_TRY(find_answers(m));
    DPT_TRY(count_samples(m));
    d->classes = 2;
    if (m->answers) DPT_TRY(holds_labels(m->answers) ? take_labels(m) : take_targets(m));
    return make_records(m);
}

dpt_status dpti_dataset_of_arrays(dpti_arrays *arrays, const dpti_arrays_origin *origin,
                                  dpt_dataset **out, dpt_error *error)
{
    making m = {
        .arrays = arrays, .origin = origin, .data = dpti_dataset_allocate(), .error = error};
    const dpt_status status = m.data ? make(&m) : fail_memory(&m);
    dpti_arrays_free(arrays);
    if (status == DPT_OK)
        *out = m.data;
    else
        dpt_dataset_destroy(m.data);
    return status;
}

/* ---- From memory ----------------------------------------------------------------------------- */

static dpt_status check_array(const dpt_dataset_array *a, size_t *n, dpt_error *error)
{
    bool good = a->name && *a->name && a->name[dpti_plain_bytes(a->name)] == '\0' && a->rank >= 1 &&
                a->rank <= DPTI_ARRAY_RANK &&
                (a->dtype == DPT_U8 || a->dtype == DPT_F32 || a->dtype == DPT_I32);
    *n = 1;
    for (size_t i = 0; good && i < a->rank; i++)
        good = a->shape[i] > 0 && dpti_multiply(*n, a->shape[i], n) && *n <= SIZE_MAX / 16;
    if (good) return DPT_OK;
    return DPT_FAIL(error, DPT_E_INVALID,
                    "memory: array %.80s needs a name that can be printed, data of DPT_U8, DPT_F32 "
                    "or DPT_I32, and 1 to %d axes, the first of which counts the samples",
                    a->name && a->name[dpti_plain_bytes(a->name)] == '\0' ? a->name : "",
                    DPTI_ARRAY_RANK);
}

/* Copies everything but the data.  After a failure *to holds arrays that must be freed. */
static dpt_status copy_shapes(const dpt_dataset_array *arrays, size_t n_arrays, dpti_arrays *to,
                              dpt_error *error)
{
    if (!arrays || n_arrays < 1 || n_arrays > DPTI_MAX_ARRAYS)
        return DPT_FAIL(error, DPT_E_INVALID, "a data set has 1 to %d arrays", DPTI_MAX_ARRAYS);
    for (size_t i = 0; i < n_arrays; i++) {
        const dpt_dataset_array *from = &arrays[i];
        size_t n = 0;
        DPT_TRY(check_array(from, &n, error));
        for (size_t k = 0; k < i; k++)
            if (strcmp(arrays[k].name, from->name) == 0)
                return DPT_FAIL(error, DPT_E_INVALID, "memory: two arrays are called %.80s",
                                from->name);
        dpti_array *a = &to->items[to->n++];
        *a = (dpti_array){
            .name = dpti_strdup(from->name), .dtype = from->dtype, .rank = from->rank, .n = n};
        if (!a->name) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a data set");
        memcpy(a->shape, from->shape, from->rank * sizeof *from->shape);
    }
    return DPT_OK;
}

static dpt_status copy_data(const dpt_dataset_array *arrays, dpti_arrays *to, dpt_error *error)
{
    for (size_t i = 0; i < to->n; i++) {
        dpti_array *a = &to->items[i];
        const size_t n_bytes = a->n * dpt_dtype_bytes(a->dtype);
        if (!arrays[i].data)
            return DPT_FAIL(error, DPT_E_INVALID, "memory: array %.80s has no data", a->name);
        a->data = dpti_alloc_aligned(n_bytes);
        if (!a->data)
            return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for %zu bytes of data", n_bytes);
        memcpy(a->data, arrays[i].data, n_bytes);
    }
    return DPT_OK;
}

dpt_status dpt_dataset_from_arrays(dpt_context *context, const dpt_dataset_array *arrays,
                                   size_t n_arrays, dpt_dataset **out)
{
    static const dpti_arrays_origin origin = {.name = "memory", .source = "memory"};
    dpti_arrays copies = {.n = 0};
    dpt_error error = {.status = DPT_OK};
    dpt_dataset *data = NULL;
    dpt_status status = copy_shapes(arrays, n_arrays, &copies, &error);
    if (status == DPT_OK) status = copy_data(arrays, &copies, &error);
    if (status == DPT_OK)
        status = dpti_dataset_of_arrays(&copies, &origin, &data, &error);
    else
        dpti_arrays_free(&copies);
    /* Data of the program are no file. */
    if (status == DPT_E_FORMAT) error.status = DPT_E_INVALID;
    if (status != DPT_OK) return dpti_context_fail(context, NULL, &error);
    data->context = context;
    *out = data;
    return DPT_OK;
}

/* ---- Declared inputs ------------------------------------------------------------------------- */

/* The fields that inputs take the place of are left out. */
static dpt_status check_left_out(const dpt_dataset_memory *m, dpt_error *error)
{
    bool out = !m->height && !m->width && !m->channels && !m->dtype && !m->vocabulary;
    for (size_t i = 0; i < sizeof m->mean / sizeof *m->mean; i++)
        out = out && m->mean[i] == 0 && m->deviation[i] == 0;
    if (out) return DPT_OK;
    return DPT_FAIL(error, DPT_E_INVALID,
                    "the inputs of a data set tell its sizes and types: leave height, width, "
                    "channels, dtype, vocabulary, mean and deviation out");
}

static dpt_status check_declared(const dpt_dataset_memory *m, const dpti_arrays *arrays,
                                 dpt_error *error)
{
    size_t total = 0;
    for (size_t i = 0; i < arrays->n; i++) {
        const dpti_array *a = &arrays->items[i];
        if (m->inputs[i].data)
            return DPT_FAIL(error, DPT_E_INVALID,
                            "input %.80s has data of its own, but the program gives whole records: "
                            "leave data out (or use dpt_dataset_from_arrays)",
                            a->name);
        if (dpti_array_is_answer(a->name))
            return DPT_FAIL(error, DPT_E_INVALID,
                            "%.80s is no input: give labels and targets in their own fields",
                            a->name);
        if (a->shape[0] != m->count)
            return DPT_FAIL(error, DPT_E_INVALID,
                            "the first axis of input %.80s counts the samples: it is %zu, but the "
                            "data set has %zu",
                            a->name, a->shape[0], m->count);
        total += a->n;
        if (total > SIZE_MAX / 16)
            return DPT_FAIL(error, DPT_E_INVALID, "a data set of that size fits into no memory");
    }
    return DPT_OK;
}

/* Puts the inputs one behind the other in a record, as the arrays of a file are put. */
static dpt_status place_declared(dpt_dataset_memory *memory, dpti_arrays *arrays,
                                 dpti_declared *out, dpt_error *error)
{
    dpt_dataset d = {.count = memory->count, .inputs = calloc(arrays->n, sizeof *d.inputs)};
    making m = {.arrays = arrays, .data = &d};
    if (!d.inputs) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a data set");
    set_extent(&d, list_inputs(&m));
    const dpt_dtype type = common_type(&d);
    memory->height = d.height;
    memory->width = d.width;
    memory->channels = d.channels;
    memory->dtype = type ? type : DPT_F32;
    *out = (dpti_declared){.inputs = d.inputs, .n_inputs = d.n_inputs, .mixed = type == 0};
    return DPT_OK;
}

dpt_status dpti_declare_inputs(dpt_dataset_memory *memory, dpti_declared *out, dpt_error *error)
{
    dpti_arrays arrays = {.n = 0};
    *out = (dpti_declared){.inputs = NULL};
    if (!memory->inputs && !memory->n_inputs) return DPT_OK;
    DPT_TRY(check_left_out(memory, error));
    dpt_status status = copy_shapes(memory->inputs, memory->n_inputs, &arrays, error);
    if (status == DPT_OK) status = check_declared(memory, &arrays, error);
    if (status == DPT_OK) status = place_declared(memory, &arrays, out, error);
    dpti_arrays_free(&arrays);
    return status;
}

void dpti_declared_free(dpti_declared *declared)
{
    for (size_t i = 0; i < declared->n_inputs; i++)
        free(declared->inputs[i].name);
    free(declared->inputs);
    *declared = (dpti_declared){.inputs = NULL};
}
