/* Puts the records of a data set of arrays in the order and the types in which a model reads
   them. */
#include "data/data.h"

#include "base/memory.h"
#include "base/size.h"
#include "base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One input: where its elements come from and go. */
typedef struct route {
    const dpti_data_input *from;
    const dpti_wanted_input *to;
    size_t rank, extent[DPTI_ARRAY_RANK], stride[DPTI_ARRAY_RANK]; /* in the order of `from` */
} route;

typedef struct arranging {
    dpt_dataset *data;
    const dpti_wanted_record *wanted;
    route *routes;        /* (wanted->n_inputs) */
    size_t before, after; /* elements of a record */
    dpt_dtype dtype;
    bool mixed;
    void *images;
    dpti_data_input *inputs;
    dpt_error *error;
} arranging;

/* ---- Names and shapes ------------------------------------------------------------------------ */

static void list_names(const dpt_dataset *d, char *text, size_t n_bytes)
{
    size_t used = 0;
    text[0] = '\0';
    for (size_t i = 0; i < d->n_inputs && used < n_bytes; i++)
        used += (size_t)snprintf(text + used, n_bytes - used, "%s%.40s", i ? ", " : "",
                                 d->inputs[i].name);
}

static dpt_status find_input(const arranging *a, const dpti_wanted_input *to,
                             const dpti_data_input **out)
{
    const dpt_dataset *d = a->data;
    char names[300];
    const bool single = a->wanted->n_inputs == 1 && d->n_inputs == 1;
    for (size_t i = 0; i < d->n_inputs; i++)
        if (single || strcmp(d->inputs[i].name, to->name) == 0) {
            *out = &d->inputs[i];
            return DPT_OK;
        }
    if (dpti_array_is_answer(to->name))
        return DPT_FAIL(a->error, DPT_E_INVALID,
                        "model %.80s reads %.80s, but an array of this name holds the answers of a "
                        "data set, which are no input; give the input of the model another name",
                        a->wanted->model, to->name);
    list_names(d, names, sizeof names);
    return DPT_FAIL(a->error, DPT_E_INVALID,
                    "%s has no array %.80s, which model %.80s reads; its arrays are %s", d->source,
                    to->name, a->wanted->model, names);
}

/* Copies the axes with more than one element; returns how many there are. */
static size_t drop_ones(size_t rank, const size_t *extent, size_t out[DPTI_ARRAY_RANK])
{
    size_t n = 0;
    for (size_t i = 0; i < rank; i++)
        if (extent[i] != 1) out[n++] = extent[i];
    return n;
}

/* Whether the array has the extents of the input, apart from extents of 1: in the same order, or
   with the first axis of three behind the others, as images have it. */
static bool match(const dpti_data_input *from, const dpti_wanted_input *to, route *out)
{
    enum { IMAGE_RANK = 3 };
    size_t have[DPTI_ARRAY_RANK] = {0}, want[DPTI_ARRAY_RANK], stride[DPTI_ARRAY_RANK];
    size_t n_want = 0;
    const size_t n = drop_ones(from->rank, from->shape, have);
    for (size_t i = 0; i < to->rank; i++)
        if (to->extent[i] != 1) {
            want[n_want] = to->extent[i];
            stride[n_want++] = to->stride[i];
        }
    if (n != n_want) return false;
    *out = (route){.from = from, .to = to, .rank = n};
    memcpy(out->extent, have, sizeof have);
    for (size_t turn = 0; turn < (n == IMAGE_RANK ? 2 : 1); turn++) {
        size_t i = 0;
        for (; i < n && have[i] == want[(i + turn) % n]; i++)
            out->stride[i] = stride[(i + turn) % n];
        if (i == n) return true;
    }
    return false;
}

static void format_shape(size_t rank, const size_t *extent, char *text, size_t n_bytes)
{
    size_t used = (size_t)snprintf(text, n_bytes, "(");
    for (size_t i = 0; i < rank && used < n_bytes; i++)
        used += (size_t)snprintf(text + used, n_bytes - used, "%s%zu", i ? ", " : "", extent[i]);
    if (used < n_bytes) snprintf(text + used, n_bytes - used, ")");
}

static dpt_status find_routes(arranging *a)
{
    char have[100], want[100];
    for (size_t i = 0; i < a->wanted->n_inputs; i++) {
        const dpti_wanted_input *to = &a->wanted->inputs[i];
        const dpti_data_input *from = NULL;
        DPT_TRY(find_input(a, to, &from));
        if (match(from, to, &a->routes[i])) continue;
        format_shape(from->rank, from->shape, have, sizeof have);
        format_shape(to->rank, to->extent, want, sizeof want);
        return DPT_FAIL(a->error, DPT_E_INVALID,
                        "%s: a sample of %.80s has the shape %s, but model %.80s reads %s",
                        a->data->source, from->name, have, a->wanted->model, want);
    }
    return DPT_OK;
}

/* ---- Elements -------------------------------------------------------------------------------- */

static void choose_type(arranging *a)
{
    size_t n_ids = 0, n_bytes = 0;
    for (size_t i = 0; i < a->wanted->n_inputs; i++) {
        n_ids += a->routes[i].to->ids;
        n_bytes += !a->routes[i].to->ids && a->routes[i].from->dtype == DPT_U8;
    }
    a->mixed = n_ids > 0 && n_ids < a->wanted->n_inputs;
    a->dtype = n_ids == a->wanted->n_inputs     ? DPT_I32
               : n_bytes == a->wanted->n_inputs ? DPT_U8
                                                : DPT_F32;
}

/* An element of a record as it was read: in 1 byte or 4. */
static double number_at(const arranging *a, const route *r, size_t element)
{
    const void *images = a->data->images;
    if (a->data->dtype == DPT_U8) return ((const uint8_t *)images)[element];
    if (r->from->dtype == DPT_F32) return (double)((const float *)images)[element];
    return ((const int32_t *)images)[element];
}

static dpt_status fail_id(const arranging *a, const route *r, double number, dpti_written place)
{
    const char *source = a->data->source;
    if (number != trunc(number) || fabs(number) > INT32_MAX)
        return DPT_FAIL(a->error, DPT_E_INVALID,
                        "%s: element %zu of sample %zu of %.80s is %g, but model %.80s reads "
                        "integers there",
                        source, place.first, place.count, r->from->name, number, a->wanted->model);
    return DPT_FAIL(a->error, DPT_E_INVALID,
                    "%s: id %.0f at place %zu of sample %zu of %.80s is out of range: the smallest "
                    "table of model %.80s has %zu rows",
                    source, number, place.first, place.count, r->from->name, a->wanted->model,
                    r->to->most_ids);
}

/* Writes an element; `place` is its place in the sample and the sample, for messages. */
static dpt_status put(const arranging *a, const route *r, size_t at, dpti_written place)
{
    const size_t from = place.count * a->before + r->from->offset + place.first;
    const size_t to = place.count * a->after + at;
    const double number = number_at(a, r, from);
    if (a->dtype == DPT_U8) {
        ((uint8_t *)a->images)[to] = (uint8_t)number;
    } else if (!r->to->ids) {
        const bool is_byte = r->from->dtype == DPT_U8;
        ((float *)a->images)[to] = (float)(is_byte ? number / 255.0 : number);
    } else {
        const bool in_range =
            r->to->most_ids == 0 || (number >= 0 && number < (double)r->to->most_ids);
        if (!in_range || number != trunc(number) || fabs(number) > INT32_MAX)
            return fail_id(a, r, number, place);
        ((int32_t *)a->images)[to] = (int32_t)number;
    }
    return DPT_OK;
}

/* Copies one input of one sample. */
static dpt_status copy_input(const arranging *a, const route *r, size_t sample)
{
    size_t index[DPTI_ARRAY_RANK] = {0}, at = r->to->offset;
    for (size_t i = 0; i < r->from->n; i++) {
        DPT_TRY(put(a, r, at, (dpti_written){i, sample}));
        for (size_t axis = r->rank; axis-- > 0;) {
            at += r->stride[axis];
            if (++index[axis] < r->extent[axis]) break;
            at -= r->stride[axis] * r->extent[axis];
            index[axis] = 0;
        }
    }
    return DPT_OK;
}

static dpt_status copy_records(arranging *a)
{
    const dpt_dataset *d = a->data;
    size_t n_bytes = 0;
    if (dpti_multiply(d->n_records, a->after, &n_bytes) &&
        dpti_multiply(n_bytes, dpt_dtype_bytes(a->dtype), &n_bytes) &&
        n_bytes <= dpti_machine_memory())
        a->images = dpti_alloc_aligned(n_bytes);
    if (!a->images)
        return DPT_FAIL(a->error, DPT_E_NO_MEMORY, "no memory for the records of %s", d->source);
    for (size_t s = 0; s < d->n_records; s++)
        for (size_t i = 0; i < a->wanted->n_inputs; i++)
            DPT_TRY(copy_input(a, &a->routes[i], s));
    return DPT_OK;
}

/* One more than the largest of an input's ids. */
static size_t count_ids(const arranging *a, const dpti_wanted_input *to, size_t n)
{
    int32_t largest = 0;
    for (size_t s = 0; s < a->data->n_records; s++)
        for (size_t i = 0; i < n; i++) {
            const int32_t id = ((const int32_t *)a->images)[s * a->after + to->offset + i];
            if (id > largest) largest = id;
        }
    return (size_t)largest + 1;
}

/* ---- The data set ---------------------------------------------------------------------------- */

static dpt_status describe_inputs(arranging *a)
{
    bool made = true;
    a->inputs = calloc(a->wanted->n_inputs, sizeof *a->inputs);
    for (size_t i = 0; a->inputs && i < a->wanted->n_inputs; i++) {
        const dpti_wanted_input *to = &a->wanted->inputs[i];
        dpti_data_input *in = &a->inputs[i];
        const size_t n = a->routes[i].from->n;
        *in = (dpti_data_input){.name = dpti_strdup(to->name),
                                .dtype = to->ids              ? DPT_I32
                                         : a->dtype == DPT_U8 ? DPT_U8
                                                              : DPT_F32,
                                .rank = to->rank,
                                .n = n,
                                .offset = to->offset,
                                .vocabulary = to->ids ? count_ids(a, to, n) : 0};
        memcpy(in->shape, to->extent, to->rank * sizeof *in->shape);
        made = made && in->name;
    }
    if (a->inputs && made) return DPT_OK;
    return DPT_FAIL(a->error, DPT_E_NO_MEMORY, "no memory for the records of %s", a->data->source);
}

/* A network with one output and integers as labels: the integers are what a regression predicts. */
static dpt_status make_targets(arranging *a)
{
    dpt_dataset *d = a->data;
    if (a->wanted->outputs != 1 || !d->labels || dpti_dataset_labels(d) != 1) return DPT_OK;
    d->targets = dpti_alloc_aligned(d->n_records * sizeof *d->targets);
    if (!d->targets)
        return DPT_FAIL(a->error, DPT_E_NO_MEMORY, "no memory for the targets of %s", d->source);
    for (size_t i = 0; i < d->n_records; i++)
        d->targets[i] = (float)d->labels[i];
    free(d->labels);
    d->labels = NULL;
    d->classes = 1;
    return DPT_OK;
}

static void free_inputs(dpti_data_input *inputs, size_t n)
{
    for (size_t i = 0; inputs && i < n; i++)
        free(inputs[i].name);
    free(inputs);
}

/* Nothing can fail any more. */
static void install(arranging *a)
{
    dpt_dataset *d = a->data;
    static const float none[4] = {0};
    free(d->images);
    free_inputs(d->inputs, d->n_inputs);
    d->images = a->images;
    d->inputs = a->inputs;
    d->n_inputs = a->wanted->n_inputs;
    d->dtype = a->dtype;
    d->mixed = a->mixed;
    d->height = a->wanted->height;
    d->width = a->wanted->width;
    d->channels = a->wanted->channels;
    d->vocabulary = 0;
    for (size_t i = 0; i < d->n_inputs; i++)
        if (d->inputs[i].vocabulary > d->vocabulary) d->vocabulary = d->inputs[i].vocabulary;
    d->arranged = true;
    if (!d->targets && !d->class_names && a->wanted->outputs > d->classes)
        d->classes = a->wanted->outputs;
    (void)!dpti_set_statistics(d, none, none, NULL); /* cannot fail without statistics */
}

static dpt_status arrange(arranging *a)
{
    a->before = dpti_dataset_image_bytes(a->data) / dpt_dtype_bytes(a->data->dtype);
    a->after = a->wanted->height * a->wanted->width * a->wanted->channels;
    a->routes = calloc(a->wanted->n_inputs, sizeof *a->routes);
    if (!a->routes)
        return DPT_FAIL(a->error, DPT_E_NO_MEMORY, "no memory to arrange %s", a->data->source);
    DPT_TRY(find_routes(a));
    choose_type(a);
    DPT_TRY(copy_records(a));
    DPT_TRY(describe_inputs(a));
    return make_targets(a);
}

dpt_status dpti_dataset_arrange(dpt_dataset *data, const dpti_wanted_record *wanted,
                                dpt_error *error)
{
    arranging a = {.data = data, .wanted = wanted, .error = error};
    if (data->n_inputs == 0) return DPT_OK;
    if (data->arranged || data->whole)
        return DPT_FAIL(error, DPT_E_STATE,
                        "%s: the records are in the order of a model already, or were divided; "
                        "open the data set again",
                        data->source);
    const dpt_status status = arrange(&a);
    if (status == DPT_OK) {
        install(&a);
    } else {
        free(a.images);
        free_inputs(a.inputs, wanted->n_inputs);
    }
    free(a.routes);
    return status;
}
