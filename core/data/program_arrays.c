/* Arrays that the program gives: a data set of their copies, and inputs that are declared without
   data, for a program that gives whole records. */
#include "data/data.h"

#include "base/memory.h"
#include "base/size.h"
#include "base/text.h"
#include "context/context.h"

#include <stdlib.h>
#include <string.h>

static const dpti_arrays_origin origin = {.name = "memory", .source = "memory"};

/* ---- Copies ---------------------------------------------------------------------------------- */

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
    dpt_dataset d = {.count = memory->count};
    DPT_TRY(dpti_describe_arrays(arrays, &origin, &d, error));
    memory->height = d.height;
    memory->width = d.width;
    memory->channels = d.channels;
    memory->dtype = d.dtype;
    *out = (dpti_declared){.inputs = d.inputs, .n_inputs = d.n_inputs, .mixed = d.mixed};
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
