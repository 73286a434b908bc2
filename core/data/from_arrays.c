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

/* Makes the list of inputs, and sets the extents of a record and its type. */
static dpt_status describe_records(making *m, size_t *elements)
{
    dpt_dataset *d = m->data;
    d->inputs = calloc(m->arrays->n, sizeof *d->inputs);
    if (!d->inputs) return fail_memory(m);
    *elements = list_inputs(m);
    set_extent(d, *elements);
    const dpt_dtype type = common_type(d);
    d->dtype = type ? type : DPT_F32;
    d->mixed = type == 0;
    return DPT_OK;
}

static dpt_status make_records(making *m)
{
    static const float none[4] = {0};
    dpt_dataset *d = m->data;
    size_t elements = 0;
    DPT_TRY(describe_records(m, &elements));
    if (d->n_inputs > 1)
        DPT_TRY(join_records(m, elements));
    else
        take_single(m);
    return dpti_set_statistics(d, none, none, m->error);
}

/* Whether integers say of several classes whether a sample has them. */
static bool are_several_classes(const making *m)
{
    const dpti_array *a = m->answers;
    if (!m->origin->divided || a->rank != 2 || a->shape[1] < 2 || a->dtype == DPT_F32) return false;
    for (size_t i = 0; i < a->n; i++)
        if (integer_at(a, i) < 0 || integer_at(a, i) > 1) return false;
    for (size_t i = 0; i < m->arrays->n; i++)
        for (size_t d = 1; d < m->arrays->items[i].rank; d++)
            if (&m->arrays->items[i] != a && m->arrays->items[i].shape[d] == a->shape[1])
                return false;
    return true;
}

static dpt_status take_answers(making *m)
{
    m->data->classes = 2;
    if (!m->answers) return DPT_OK;
    return holds_labels(m->answers) && !are_several_classes(m) ? take_labels(m) : take_targets(m);
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
    DPT_TRY(take_answers(m));
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

dpt_status dpti_describe_arrays(dpti_arrays *arrays, const dpti_arrays_origin *origin,
                                dpt_dataset *data, dpt_error *error)
{
    making m = {.arrays = arrays, .origin = origin, .data = data, .error = error};
    size_t elements;
    return describe_records(&m, &elements);
}
