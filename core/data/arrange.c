/* Puts the records of a data set of arrays in the order and the types in which a model reads
   them. */
#include "data/data.h"

#include "base/memory.h"
#include "base/size.h"
#include "base/text.h"
#include "data/class_names.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* One input: where its elements come from and go. */
typedef struct route {
    const dpti_data_input *from;
    dpti_wanted_input to; /* without the name after dpti_dataset_arrange */
    size_t rank, extent[DPTI_ARRAY_RANK], stride[DPTI_ARRAY_RANK]; /* in the order of `from` */
} route;

struct dpti_conversion {
    size_t n_routes;
    route *routes;          /* (n_routes) */
    dpti_data_input *given; /* (n_given) the inputs before: `from` of the routes */
    size_t n_given;
    size_t before, after; /* elements of a record */
    dpt_dtype from, to;   /* types of the records */
    const char *source;   /* of the data set */
    char *model;          /* the name, for messages */
};

typedef struct arranging {
    dpt_dataset *data;
    const dpti_wanted_record *wanted;
    dpti_conversion *conversion;
    bool mixed;
    void *images; /* NULL: the records are read */
    float *targets;
    const char **names; /* of classes that are labels of a file, if there are more now; else NULL */
    dpti_data_input *inputs;
    dpt_error *error;
} arranging;

static void free_inputs(dpti_data_input *inputs, size_t n)
{
    for (size_t i = 0; inputs && i < n; i++)
        free(inputs[i].name);
    free(inputs);
}

void dpti_conversion_destroy(dpti_conversion *conversion)
{
    if (!conversion) return;
    free_inputs(conversion->given, conversion->n_given);
    free(conversion->routes);
    free(conversion->model);
    free(conversion);
}

size_t dpti_conversion_bytes(const dpti_conversion *conversion)
{
    return conversion->before * dpt_dtype_bytes(conversion->from);
}

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

enum { IMAGE_RANK = 3 };

/* Whether the array has the extents of the input, apart from extents of 1: in the same order, or
   with the first axis of three behind the others, as images have it. */
static bool match(const dpti_data_input *from, const dpti_wanted_input *to, route *out)
{
    size_t have[DPTI_ARRAY_RANK] = {0}, want[DPTI_ARRAY_RANK], stride[DPTI_ARRAY_RANK];
    size_t n_want = 0;
    const size_t n = drop_ones(from->rank, from->shape, have);
    for (size_t i = 0; i < to->rank; i++)
        if (to->extent[i] != 1) {
            want[n_want] = to->extent[i];
            stride[n_want++] = to->stride[i];
        }
    if (n != n_want) return false;
    *out = (route){.from = from, .to = *to, .rank = n};
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
        if (match(from, to, &a->conversion->routes[i])) continue;
        format_shape(from->rank, from->shape, have, sizeof have);
        format_shape(to->rank, to->extent, want, sizeof want);
        return DPT_FAIL(a->error, DPT_E_INVALID,
                        "%s: a sample of %.80s has the shape %s, but model %.80s reads %s%s",
                        a->data->source, from->name, have, a->wanted->model, want,
                        to->rank == IMAGE_RANK
                            ? ": height, width and channels, of which channels may also be first"
                            : "");
    }
    return DPT_OK;
}

/* ---- Elements -------------------------------------------------------------------------------- */

static void choose_type(arranging *a)
{
    const dpti_conversion *c = a->conversion;
    size_t n_ids = 0, n_bytes = 0;
    for (size_t i = 0; i < c->n_routes; i++) {
        n_ids += c->routes[i].to.ids;
        n_bytes += !c->routes[i].to.ids && c->routes[i].from->dtype == DPT_U8;
    }
    a->mixed = n_ids > 0 && n_ids < c->n_routes;
    a->conversion->to = n_ids == c->n_routes ? DPT_I32 : n_bytes == c->n_routes ? DPT_U8 : DPT_F32;
}

/* An element of an input in one sample, for messages. */
typedef struct place {
    size_t element, sample;
} place;

/* An element of a record as it was read: in 1 byte or 4. */
static double number_at(const dpti_conversion *c, const route *r, const void *record,
                        size_t element)
{
    if (c->from == DPT_U8) return ((const uint8_t *)record)[element];
    if (r->from->dtype == DPT_F32) return (double)((const float *)record)[element];
    return ((const int32_t *)record)[element];
}

/* A number that is refused. */
typedef struct refusal {
    double number;
    place place;
} refusal;

static dpt_status fail_number(const dpti_conversion *c, const route *r, const refusal *f,
                              dpt_error *error)
{
    const char *name = r->from->name;
    if (r->from->dtype == DPT_U8 && !(f->number >= 0 && f->number <= UINT8_MAX))
        return DPT_FAIL(error, DPT_E_INVALID,
                        "%s: element %zu of sample %zu of %.80s is %g, but the input is declared "
                        "as DPT_U8: give 0 to 255",
                        c->source, f->place.element, f->place.sample, name, f->number);
    if (f->number != trunc(f->number) || fabs(f->number) > INT32_MAX)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "%s: element %zu of sample %zu of %.80s is %g, but model %.80s reads "
                        "integers there",
                        c->source, f->place.element, f->place.sample, name, f->number, c->model);
    return DPT_FAIL(error, DPT_E_INVALID,
                    "%s: id %.0f at place %zu of sample %zu of %.80s is out of range: the smallest "
                    "table of model %.80s has %zu rows",
                    c->source, f->number, f->place.element, f->place.sample, name, c->model,
                    r->to.most_ids);
}

/* Writes a number as the element at `to`.  Returns false if the model cannot read it. */
static bool put(const dpti_conversion *c, const route *r, double number, void *to)
{
    const bool is_byte = r->from->dtype == DPT_U8;
    if (is_byte && !(number >= 0 && number <= UINT8_MAX)) return false;
    if (c->to == DPT_U8) {
        *(uint8_t *)to = (uint8_t)number;
    } else if (!r->to.ids) {
        *(float *)to = (float)(is_byte ? number / 255.0 : number);
    } else {
        const bool in_range =
            r->to.most_ids == 0 || (number >= 0 && number < (double)r->to.most_ids);
        if (!in_range || number != trunc(number) || fabs(number) > INT32_MAX) return false;
        *(int32_t *)to = (int32_t)number;
    }
    return true;
}

/* Copies one input of the one sample in *what. */
static dpt_status copy_input(const dpti_conversion *c, const route *r, const dpti_converted *what,
                             dpt_error *error)
{
    const size_t bytes = dpt_dtype_bytes(c->to);
    size_t index[DPTI_ARRAY_RANK] = {0}, at = r->to.offset;
    for (size_t i = 0; i < r->from->n; i++) {
        const double number = number_at(c, r, what->from, r->from->offset + i);
        if (!put(c, r, number, (uint8_t *)what->to + at * bytes))
            return fail_number(c, r, &(refusal){number, {i, what->samples.first}}, error);
        for (size_t axis = r->rank; axis-- > 0;) {
            at += r->stride[axis];
            if (++index[axis] < r->extent[axis]) break;
            at -= r->stride[axis] * r->extent[axis];
            index[axis] = 0;
        }
    }
    return DPT_OK;
}

dpt_status dpti_convert(const dpti_conversion *conversion, const dpti_converted *what,
                        dpt_error *error)
{
    const dpti_conversion *c = conversion;
    const size_t from_bytes = dpti_conversion_bytes(c),
                 to_bytes = c->after * dpt_dtype_bytes(c->to);
    for (size_t s = 0; s < what->samples.count; s++) {
        const dpti_converted one = {.from = (const uint8_t *)what->from + s * from_bytes,
                                    .to = (uint8_t *)what->to + s * to_bytes,
                                    .samples = {what->samples.first + s, 1}};
        for (size_t i = 0; i < c->n_routes; i++)
            DPT_TRY(copy_input(c, &c->routes[i], &one, error));
    }
    return DPT_OK;
}

static dpt_status copy_records(arranging *a)
{
    const dpt_dataset *d = a->data;
    const dpti_conversion *c = a->conversion;
    size_t n_bytes = 0;
    if (dpti_multiply(d->n_records, c->after, &n_bytes) &&
        dpti_multiply(n_bytes, dpt_dtype_bytes(c->to), &n_bytes) &&
        n_bytes <= dpti_machine_memory())
        a->images = dpti_alloc_aligned(n_bytes);
    if (!a->images)
        return DPT_FAIL(a->error, DPT_E_NO_MEMORY, "no memory for the records of %s", d->source);
    return dpti_convert(c, &(dpti_converted){d->images, a->images, {0, d->n_records}}, a->error);
}

/* One more than the largest of an input's ids; of ids that the program makes later, the most that
   there may be. */
static size_t count_ids(const arranging *a, const dpti_wanted_input *to, size_t n)
{
    int32_t largest = 0;
    if (a->data->declared) return to->most_ids ? to->most_ids : DPT_MAX_VOCABULARY;
    for (size_t s = 0; s < a->data->n_records; s++)
        for (size_t i = 0; i < n; i++) {
            const int32_t id =
                ((const int32_t *)a->images)[s * a->conversion->after + to->offset + i];
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
        const size_t n = a->conversion->routes[i].from->n;
        *in = (dpti_data_input){.name = dpti_strdup(to->name),
                                .dtype = to->ids                       ? DPT_I32
                                         : a->conversion->to == DPT_U8 ? DPT_U8
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
    const dpt_dataset *d = a->data;
    if (a->wanted->outputs != 1 || !d->labels || dpti_dataset_labels(d) != 1) return DPT_OK;
    if (d->first_label > 0)
        return DPT_FAIL(a->error, DPT_E_INVALID,
                        "the labels of %s begin at %zu (--labels-from), but model %.80s has one "
                        "output, a number and no class; leave labels-from out",
                        d->source, d->first_label, a->wanted->model);
    a->targets = dpti_alloc_aligned(d->n_records * sizeof *a->targets);
    if (!a->targets)
        return DPT_FAIL(a->error, DPT_E_NO_MEMORY, "no memory for the targets of %s", d->source);
    for (size_t i = 0; i < d->n_records; i++)
        a->targets[i] = (float)d->labels[i];
    return DPT_OK;
}

/* Whether the model has classes that the data lack.  Classes with names are those of the data,
   unless the names are the labels. */
static bool has_more_classes(const arranging *a)
{
    const dpt_dataset *d = a->data;
    return !a->targets && !d->targets && (!d->class_names || d->first_label > 0) &&
           a->wanted->outputs > d->classes;
}

static dpt_status name_classes(arranging *a)
{
    const dpt_dataset *d = a->data;
    if (d->first_label == 0 || !has_more_classes(a)) return DPT_OK;
    a->names = dpti_class_names_count(d->first_label, a->wanted->outputs);
    if (a->names) return DPT_OK;
    return DPT_FAIL(a->error, DPT_E_NO_MEMORY, "no memory for the classes of %s", d->source);
}

/* Frees nothing, so that the data set can be put back. */
static void install(const arranging *a)
{
    dpt_dataset *d = a->data;
    static const float none[4] = {0};
    d->images = a->images;
    d->inputs = a->inputs;
    d->n_inputs = a->wanted->n_inputs;
    d->dtype = a->conversion->to;
    d->mixed = a->mixed;
    d->height = a->wanted->height;
    d->width = a->wanted->width;
    d->channels = a->wanted->channels;
    d->vocabulary = 0;
    for (size_t i = 0; i < d->n_inputs; i++)
        if (d->inputs[i].vocabulary > d->vocabulary) d->vocabulary = d->inputs[i].vocabulary;
    if (has_more_classes(a)) d->classes = a->wanted->outputs;
    if (a->names) d->class_names = d->own_names = a->names;
    d->arranged = true;
    d->conversion = d->declared ? a->conversion : NULL;
    if (a->targets) {
        d->targets = a->targets;
        d->labels = NULL;
        d->classes = 1;
    }
    (void)!dpti_set_statistics(d, none, none, NULL); /* cannot fail without statistics */
}

/* The hash of the records that a reader makes is that of the same records in memory. */
static dpt_status find_content(dpt_dataset *d, dpt_error *error)
{
    if (!d->reader) return DPT_OK;
    dpti_reader_resize(d->reader, dpti_dataset_image_bytes(d));
    return dpti_dataset_find_content(d, error);
}

/* Replaces what the data set holds.  After a failure the data set is as it was. */
static dpt_status replace(const arranging *a)
{
    dpt_dataset *d = a->data;
    dpti_conversion *c = a->conversion;
    void *images = d->images;
    int32_t *labels = d->labels;
    const dpt_dataset old = *d;
    install(a);
    const dpt_status status = find_content(d, a->error);
    if (status != DPT_OK) {
        *d = old;
        dpti_reader_resize(d->reader, dpti_dataset_image_bytes(d));
        return status;
    }
    free(images);
    if (a->targets) free(labels);
    if (a->names) free(old.own_names);
    c->given = old.inputs;
    c->n_given = old.n_inputs;
    for (size_t i = 0; i < c->n_routes; i++)
        c->routes[i].to.name = NULL; /* it belongs to the model */
    if (!d->conversion) dpti_conversion_destroy(c);
    return DPT_OK;
}

static dpt_status arrange(arranging *a)
{
    dpt_dataset *d = a->data;
    dpti_conversion *c = a->conversion = calloc(1, sizeof *c);
    if (c) {
        *c = (dpti_conversion){.n_routes = a->wanted->n_inputs,
                               .routes = calloc(a->wanted->n_inputs, sizeof *c->routes),
                               .before = dpti_dataset_image_bytes(d) / dpt_dtype_bytes(d->dtype),
                               .after = a->wanted->height * a->wanted->width * a->wanted->channels,
                               .from = d->dtype,
                               .source = d->source,
                               .model = dpti_strdup(a->wanted->model)};
    }
    if (!c || !c->routes || !c->model)
        return DPT_FAIL(a->error, DPT_E_NO_MEMORY, "no memory to arrange %s", d->source);
    DPT_TRY(find_routes(a));
    choose_type(a);
    if (!d->reader) DPT_TRY(copy_records(a));
    DPT_TRY(describe_inputs(a));
    DPT_TRY(make_targets(a));
    DPT_TRY(name_classes(a));
    return replace(a);
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
    if (status != DPT_OK) {
        free(a.images);
        free(a.targets);
        free(a.names);
        free_inputs(a.inputs, wanted->n_inputs);
        dpti_conversion_destroy(a.conversion);
    }
    return status;
}
