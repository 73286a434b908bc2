/* The data set object: creation from the caller's memory, description, destruction. */
#include "context/context.h"
#include "context/sized.h"
#include "data/data.h"

#include "base/left_behind.h"
#include "base/memory.h"
#include "base/size.h"
#include "base/text.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

dpt_dataset *dpti_dataset_allocate(void)
{
    static atomic_uint_fast64_t n_made;
    dpt_dataset *data = calloc(1, sizeof *data);
    if (data) data->serial = atomic_fetch_add(&n_made, 1) + 1;
    return data;
}

void dpt_dataset_destroy(dpt_dataset *dataset)
{
    if (!dataset || atomic_load(&dataset->left)) return;
    if (!dataset->whole) {
        dpti_reader_destroy(dataset->reader);
        free(dataset->targets);
        free(dataset->labels);
        free(dataset->images);
        free(dataset->file);
        free(dataset->own_names);
        for (size_t i = 0; i < dataset->n_inputs; i++)
            free(dataset->inputs[i].name);
        free(dataset->inputs);
        dpti_conversion_destroy(dataset->conversion);
    }
    free(dataset->samples);
    free(dataset->source);
    free(dataset->name);
    free(dataset);
}

void dpti_dataset_leave(const dpt_dataset *data)
{
    /* Readers of a data set do not change it; this call is about destroying it. */
    if (data->whole) dpti_dataset_leave(data->whole);
    if (!atomic_exchange(&((dpt_dataset *)data)->left, true)) dpti_leave_behind(data);
}

void dpt_dataset_describe(const dpt_dataset *dataset, dpt_dataset_info *out)
{
    const dpt_dataset_info info = {
        .size = sizeof info,
        .name = dataset->name,
        .count = dataset->count,
        .height = dataset->height,
        .width = dataset->width,
        .channels = dataset->channels,
        .outputs = dataset->classes,
        .source = dataset->source,
        .class_names = dataset->class_names,
        .read_as_needed = dataset->reader != NULL,
        .vocabulary = dataset->vocabulary,
        .labels_per_sample = dpti_dataset_has_labels(dataset) ? dpti_dataset_labels(dataset) : 0,
        .bytes_per_label = dataset->bytes_per_label,
    };
    (void)dpti_give_sized(&info, sizeof info,
                          out); /* without a size the program's struct stays as it is */
}

/* ---- From memory ----------------------------------------------------------------------------- */

dpt_status dpti_answers_check(const dpti_answers *answers, dpt_error *error)
{
    const dpti_answers *a = answers;
    DPT_TRY(dpti_answers_check_labels(a, error));
    for (size_t i = 0; a->targets && i < a->count * a->classes; i++)
        if (!isfinite(a->targets[i]))
            return DPT_FAIL(error, DPT_E_INVALID, "target %zu of sample %zu is %g: not finite",
                            i % a->classes, i / a->classes, (double)a->targets[i]);
    return DPT_OK;
}

/* Whether the type of the samples, their vocabulary and their statistics agree. */
static dpt_status check_type(const dpt_dataset_memory *m, dpt_error *error)
{
    if (m->inputs) return DPT_OK; /* the model tells the vocabularies (dpt_dataset_arrange) */
    if (m->dtype != DPT_U8 && m->dtype != DPT_F32 && m->dtype != DPT_I32)
        return DPT_FAIL(error, DPT_E_INVALID, "images are DPT_U8 or DPT_F32, and ids DPT_I32");
    if (m->dtype != DPT_I32 && m->vocabulary)
        return DPT_FAIL(error, DPT_E_INVALID, "only ids, of DPT_I32, have a vocabulary");
    if (m->dtype != DPT_I32) return DPT_OK;
    if (m->vocabulary < 1 || m->vocabulary > DPT_MAX_VOCABULARY)
        return DPT_FAIL(error, DPT_E_INVALID, "ids need a vocabulary of 1 to %d, not %zu",
                        DPT_MAX_VOCABULARY, m->vocabulary);
    for (size_t i = 0; i < sizeof m->mean / sizeof *m->mean; i++)
        if (m->mean[i] != 0 || m->deviation[i] != 0)
            return DPT_FAIL(error, DPT_E_INVALID,
                            "ids are not normalised: leave mean and deviation out");
    return DPT_OK;
}

static dpt_status check_memory(const dpt_dataset_memory *m, dpt_error *error)
{
    if (!m->count || !m->height || !m->width || !m->channels || !m->outputs)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "a data set's count, height, width, channels and classes are at least 1");
    if (m->count > DPTI_MAX_RECORDS)
        return DPT_FAIL(error, DPT_E_INVALID, "a data set has at most %d samples",
                        DPTI_MAX_RECORDS);
    DPT_TRY(check_type(m, error));
    if (m->label_dtype != 0 && m->label_dtype != DPT_U8 && m->label_dtype != DPT_I32)
        return DPT_FAIL(error, DPT_E_INVALID, "labels are DPT_U8 or DPT_I32");
    if (m->labels_per_sample > DPTI_MAX_LABELS)
        return DPT_FAIL(error, DPT_E_INVALID, "a sample has at most %d labels, not %zu",
                        DPTI_MAX_LABELS, m->labels_per_sample);
    return DPT_OK;
}

typedef struct memory_bytes {
    size_t images, labels, targets;
} memory_bytes;

static dpt_status measure(const dpt_dataset_memory *m, memory_bytes *out, dpt_error *error)
{
    memory_bytes n = {.labels = m->count};
    const size_t each = m->labels_per_sample ? m->labels_per_sample : 1;
    if (!dpti_multiply(n.labels, each, &n.labels) ||
        !dpti_multiply(n.labels, sizeof(int32_t), &n.labels) || n.labels > SIZE_MAX / 2 ||
        !dpti_multiply(m->height, m->width, &n.images) ||
        !dpti_multiply(n.images, m->channels, &n.images) ||
        !dpti_multiply(n.images, m->count, &n.images) ||
        !dpti_multiply(n.images, dpt_dtype_bytes(m->dtype), &n.images) ||
        !dpti_multiply(m->count, m->outputs, &n.targets) ||
        !dpti_multiply(n.targets, sizeof(float), &n.targets) || n.images > SIZE_MAX / 2 ||
        n.targets > SIZE_MAX / 2)
        return DPT_FAIL(error, DPT_E_INVALID, "a data set of that size fits into no memory");
    if (!m->targets) n.targets = 0;
    if (!m->labels) n.labels = 0;
    *out = n;
    return DPT_OK;
}

/* Copies n_bytes of *from, or nothing if n_bytes is 0. */
static bool copy_block(const void *from, size_t n_bytes, void **to)
{
    if (n_bytes == 0) return true;
    *to = dpti_alloc_aligned(n_bytes);
    if (*to) memcpy(*to, from, n_bytes);
    return *to != NULL;
}

static bool copy_labels(const dpti_answers *from, size_t n_bytes, int32_t **to)
{
    if (n_bytes == 0) return true;
    *to = dpti_alloc_aligned(n_bytes);
    if (*to) dpti_answers_take_labels(from, *to);
    return *to != NULL;
}

/* Returns false if memory is short. */
static bool copy_blocks(const dpt_dataset_memory *m, const dpti_answers *answers,
                        const memory_bytes *n, dpt_dataset *data)
{
    void *images = NULL, *targets = NULL;
    const bool copied = copy_block(m->images, n->images, &images) &&
                        copy_labels(answers, n->labels, &data->labels) &&
                        copy_block(m->targets, n->targets, &targets);
    data->images = images;
    data->targets = targets;
    return copied && data->name && data->source;
}

/* Copies everything but the inputs, with images or without. */
static dpt_status copy_fields(const dpt_dataset_memory *m, const char *source, dpt_dataset **out,
                              dpt_error *error)
{
    memory_bytes n = {0};
    DPT_TRY(check_memory(m, error));
    const dpti_answers answers = {.count = m->count,
                                  .classes = m->outputs,
                                  .labels = m->labels,
                                  .per_sample = m->labels_per_sample,
                                  .label_dtype = m->label_dtype,
                                  .targets = m->targets};
    DPT_TRY(measure(m, &n, error));
    if (!m->images) n.images = 0;
    DPT_TRY(dpti_answers_check(&answers, error));
    dpt_dataset *data = dpti_dataset_allocate();
    if (!data) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a data set");
    *data = (dpt_dataset){
        .serial = data->serial,
        .name = dpti_strdup("memory"),
        .source = dpti_strdup(source),
        .count = m->count,
        .n_records = m->count,
        .height = m->height,
        .width = m->width,
        .channels = m->channels,
        .classes = m->outputs,
        .dtype = m->dtype,
        .vocabulary = m->vocabulary,
        .labels_per_sample = m->labels_per_sample,
        .writable = m->writable,
        .label_dtype = m->label_dtype,
        .declared = m->inputs != NULL,
    };
    dpt_status status = dpti_set_statistics(data, m->mean, m->deviation, error);
    if (status == DPT_OK && m->images)
        status = dpti_dataset_check_ids(data, m->images, (dpti_written){0, m->count}, error);
    if (status == DPT_OK && !copy_blocks(m, &answers, &n, data))
        status = DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory for a data set of %zu bytes",
                          n.images + n.labels + n.targets);
    if (status == DPT_OK)
        *out = data;
    else
        dpt_dataset_destroy(data);
    return status;
}

/* Copies everything that the caller gives, with images or without. */
static dpt_status copy_memory(const dpt_dataset_memory *given, const char *source,
                              dpt_dataset **out, dpt_error *error)
{
    dpt_dataset_memory m = *given;
    dpti_declared declared = {.inputs = NULL};
    DPT_TRY(dpti_declare_inputs(&m, &declared, error));
    const dpt_status status = copy_fields(&m, source, out, error);
    if (status == DPT_OK) {
        (*out)->inputs = declared.inputs;
        (*out)->n_inputs = declared.n_inputs;
        (*out)->mixed = declared.mixed;
    } else {
        dpti_declared_free(&declared);
    }
    return status;
}

dpt_status dpt_dataset_from_memory(dpt_context *context, const dpt_dataset_memory *memory,
                                   dpt_dataset **out)
{
    dpt_error error = {0};
    dpt_dataset *data = NULL;
    dpt_dataset_memory m;
    DPT_TRY(dpti_take_sized(context, &(dpti_sized){"dpt_dataset_memory", memory, sizeof m}, &m));
    if (!m.images) return dpt_fail(context, DPT_E_INVALID, "a data set needs images");
    if (copy_memory(&m, "memory", &data, &error) != DPT_OK)
        return dpti_context_fail(context, NULL, &error);
    data->context = context;
    *out = data;
    return DPT_OK;
}

/* ---- From a program that reads --------------------------------------------------------------- */

/* A program's reader, and the data set that it makes the images of. */
typedef struct program_reader {
    dpt_dataset_reader own;
    const dpt_dataset *data;
} program_reader;

/* Calls the program, which fills a record in the form that it declared. */
static dpt_status call_program(const program_reader *reader, const dpti_wanted_image *wanted,
                               void *image, dpt_error *error)
{
    const dpt_dataset_reader *r = &reader->own;
    char why[DPT_READER_WHY_BYTES] = "";
    const dpt_status status = r->read(r->user, wanted->record, wanted->use->epoch, image, why);
    why[sizeof why - 1] = '\0';
    if (status == DPT_OK) return DPT_OK;
    if (why[0] && r->names_samples) return DPT_FAIL(error, status, "%s", why);
    return DPT_FAIL(error, status, "sample %zu: %s", wanted->record,
                    why[0] ? why : "the program cannot read it");
}

/* Converts the program's record to that of the model. */
static dpt_status read_converted(const program_reader *reader, const dpti_wanted_image *wanted,
                                 void *image, dpt_error *error)
{
    const dpti_conversion *c = reader->data->conversion;
    dpt_error wrong = {.status = DPT_OK};
    void *record = dpti_alloc_aligned(dpti_conversion_bytes(c));
    if (!record) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to read a sample");
    dpt_status status = call_program(reader, wanted, record, error);
    if (status == DPT_OK &&
        dpti_convert(c, &(dpti_converted){record, image, {wanted->record, 1}}, &wrong) != DPT_OK)
        status = DPT_FAIL(error, DPT_E_FORMAT, "%s", wrong.message);
    free(record);
    return status;
}

static dpt_status call_reader(void *user, const dpti_wanted_image *wanted, void *image,
                              dpt_error *error)
{
    const program_reader *reader = user;
    dpt_error wrong = {.status = DPT_OK};
    if (reader->data->conversion) return read_converted(reader, wanted, image, error);
    DPT_TRY(call_program(reader, wanted, image, error));
    if (dpti_dataset_check_ids(reader->data, image, (dpti_written){wanted->record, 1}, &wrong) ==
        DPT_OK)
        return DPT_OK;
    return DPT_FAIL(error, DPT_E_FORMAT, "%s", wrong.message);
}

static dpt_status check_reader(const dpt_dataset_memory *m, const dpt_dataset_reader *reader,
                               dpt_error *error)
{
    if (!reader->read)
        return DPT_FAIL(error, DPT_E_INVALID, "a data set needs who reads its images");
    if (m->images || m->writable)
        return DPT_FAIL(error, DPT_E_INVALID,
                        "images that are read lie in no memory, and are not written there: leave "
                        "images and writable out");
    return DPT_OK;
}

static dpt_status add_reader(dpt_dataset *data, const dpt_dataset_reader *reader, dpt_error *error)
{
    program_reader *own = malloc(sizeof *own);
    if (!own) return DPT_FAIL(error, DPT_E_NO_MEMORY, "no memory to read images");
    *own = (program_reader){.own = *reader, .data = data};
    const dpti_image_source source = {.make = call_reader,
                                      .destroy = free,
                                      .user = own,
                                      .image_bytes = dpti_dataset_image_bytes(data),
                                      .n_threads = reader->n_threads};
    DPT_TRY(dpti_reader_create(&source, &data->reader, error));
    return dpti_dataset_find_content(data, error);
}

dpt_status dpt_dataset_from_reader(dpt_context *context, const dpt_dataset_memory *memory,
                                   const dpt_dataset_reader *reader, dpt_dataset **out)
{
    dpt_error error = {0};
    dpt_dataset *data = NULL;
    dpt_dataset_memory m;
    dpt_dataset_reader r;
    if (!memory)
        return dpt_fail(context, DPT_E_INVALID, "a data set needs sizes (dpt_dataset_memory)");
    DPT_TRY(dpti_take_sized(context, &(dpti_sized){"dpt_dataset_memory", memory, sizeof m}, &m));
    DPT_TRY(dpti_take_sized(context, &(dpti_sized){"dpt_dataset_reader", reader, sizeof r}, &r));
    dpt_status status = check_reader(&m, &r, &error);
    if (status == DPT_OK) status = copy_memory(&m, "reader", &data, &error);
    if (status == DPT_OK) status = add_reader(data, &r, &error);
    if (status != DPT_OK) {
        dpt_dataset_destroy(data);
        return dpti_context_fail(context, NULL, &error);
    }
    data->context = context;
    *out = data;
    return DPT_OK;
}
