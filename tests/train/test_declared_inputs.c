/* Tests several inputs whose records the program makes: bytes, ids and numbers in one record train
   to the same losses, to the bit, from arrays, from memory, from a reader and from samples that are
   written, on one device and on three; what is refused. */
#include "train/mixes.h"
#include "train/session.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    COUNT = 12,
    PIXELS = 4 * 3 * 2,
    PLACES = 3,
    NUMBERS = 5,
    RECORD = PIXELS + PLACES + NUMBERS,
    ROWS = 7,
    CLASSES = 3,
    STEPS = 12,
};

/* An element of a record. */
typedef union element {
    int32_t integer;
    float real;
} element;

typedef struct samples {
    uint8_t pixels[COUNT * PIXELS];
    int32_t ids[COUNT * PLACES], labels[COUNT];
    float numbers[COUNT * NUMBERS];
    element records[COUNT][RECORD];
} samples;

static void fill(samples *s)
{
    for (size_t i = 0; i < COUNT * PIXELS; i++)
        s->pixels[i] = (uint8_t)(i * 37 % 251);
    for (size_t i = 0; i < COUNT * PLACES; i++)
        s->ids[i] = (int32_t)(i * i % ROWS);
    for (size_t i = 0; i < COUNT * NUMBERS; i++)
        s->numbers[i] = (float)(i * 53 % 89) / 40.0f - 1;
    for (size_t i = 0; i < COUNT; i++) {
        element *record = s->records[i];
        s->labels[i] = (int32_t)(i % CLASSES);
        for (size_t k = 0; k < NUMBERS; k++)
            record[k].real = s->numbers[i * NUMBERS + k];
        for (size_t k = 0; k < PLACES; k++)
            record[NUMBERS + k].integer = s->ids[i * PLACES + k];
        for (size_t k = 0; k < PIXELS; k++)
            record[NUMBERS + PLACES + k].integer = s->pixels[i * PIXELS + k];
    }
}

/* The order of the inputs is another one than that of the model. */
static const dpt_dataset_array declared[] = {
    {"numbers", DPT_F32, 2, {COUNT, NUMBERS}, NULL},
    {"words", DPT_I32, 2, {COUNT, PLACES}, NULL},
    {"picture", DPT_U8, 4, {COUNT, 2, 4, 3}, NULL}, /* channels first */
};
enum { N_INPUTS = sizeof declared / sizeof *declared };

static dpt_dataset_memory memory_of(const samples *s)
{
    return (dpt_dataset_memory){.size = sizeof(dpt_dataset_memory),
                                .count = COUNT,
                                .outputs = CLASSES,
                                .labels = s->labels,
                                .label_dtype = DPT_I32,
                                .inputs = declared,
                                .n_inputs = N_INPUTS};
}

static dpt_status read_record(void *user, size_t sample, size_t epoch, void *image,
                              char why[DPT_READER_WHY_BYTES])
{
    const samples *s = user;
    (void)epoch;
    (void)why;
    memcpy(image, s->records[sample], sizeof s->records[sample]);
    return DPT_OK;
}

static dpt_status make_reader(dpt_context *context, samples *s, dpt_dataset **out)
{
    const dpt_dataset_memory memory = memory_of(s);
    const dpt_dataset_reader reader = {
        .size = sizeof reader, .read = read_record, .user = s, .n_threads = 2};
    return dpt_dataset_from_reader(context, &memory, &reader, out);
}

static dpt_status make_arrays(dpt_context *context, const samples *s, dpt_dataset **out)
{
    dpt_dataset_array arrays[N_INPUTS + 1];
    memcpy(arrays, declared, sizeof declared);
    arrays[0].data = s->numbers;
    arrays[1].data = s->ids;
    arrays[2].data = s->pixels;
    arrays[3] = (dpt_dataset_array){"labels", DPT_I32, 1, {COUNT}, s->labels};
    return dpt_dataset_from_arrays(context, arrays, N_INPUTS + 1, out);
}

static dpt_status make_memory(dpt_context *context, const samples *s, bool writable,
                              dpt_dataset **out)
{
    dpt_dataset_memory memory = memory_of(s);
    memory.images = s->records;
    memory.writable = writable;
    return dpt_dataset_from_memory(context, &memory, out);
}

typedef enum way { ARRAYS, MEMORY, READER, WRITTEN_BEFORE, WRITTEN_AFTER, N_WAYS } way;

/* Makes the data set and arranges it. */
static dpt_status make_data(dpt_context *context, samples *s, const dpt_model *model, way how,
                            dpt_dataset **out)
{
    static const samples empty;
    const bool written = how == WRITTEN_BEFORE || how == WRITTEN_AFTER;
    DPT_TRY(how == ARRAYS   ? make_arrays(context, s, out)
            : how == READER ? make_reader(context, s, out)
                            : make_memory(context, written ? &empty : s, written, out));
    if (how == WRITTEN_BEFORE)
        DPT_TRY(dpt_dataset_write(*out, 0, COUNT, s->records, s->labels, NULL));
    DPT_TRY(dpt_dataset_arrange(context, *out, model));
    if (how != WRITTEN_AFTER) return DPT_OK;
    DPT_TRY(dpt_dataset_write(*out, 5, COUNT - 5, s->records[5], s->labels + 5, NULL));
    return dpt_dataset_write(*out, 0, 5, s->records, s->labels, NULL);
}

static dpt_status make_model(dpt_context *context, dpt_model **out)
{
    static const dpt_input_options inputs[] = {
        {.name = "picture", .height = 4, .width = 3, .channels = 2},
        {.name = "words", .ids = PLACES},
        {.name = "numbers", .height = 1, .width = 1, .channels = NUMBERS},
    };
    const dpt_linear_options six = {.size = sizeof six, .out = 6};
    const dpt_linear_options head = {.size = sizeof head, .out = CLASSES};
    const dpt_embedding_options table = {.size = sizeof table, .rows = ROWS, .width = 6};
    dpt_value x[N_INPUTS];
    DPT_TRY(dpt_model_create(context, "several", out));
    dpt_model *m = *out;
    dpt_inputs(m, inputs, N_INPUTS, x);
    x[0] = dpt_linear(m, dpt_flatten(m, x[0]), "p", &six);
    x[1] = dpt_embedding(m, x[1], "e", &table);
    x[1] = dpt_flatten(m, dpt_global_average_pool(m, x[1]));
    x[2] = dpt_linear(m, dpt_flatten(m, x[2]), "l", &six);
    const dpt_value sum = dpt_add(m, dpt_add(m, x[0], x[1]), x[2]);
    return dpt_model_finish(m, dpt_linear(m, dpt_activate(m, sum, DPT_ACT_TANH), "h", &head));
}

/* The session reads the samples while it lasts. */
static dpt_status begin(session *r, samples *s, const mix *m, way how)
{
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = COUNT,
                                         .lr = 0.2f,
                                         .momentum = 0.9f,
                                         .split = dpt_split_from(m->split),
                                         .seed = 5};
    fill(s);
    DPT_TRY(dpt_context_create(&r->context));
    DPT_TRY(dpt_device_set_open(r->context, m->devices, &r->devices));
    DPT_TRY(make_model(r->context, &r->model));
    DPT_TRY(make_data(r->context, s, r->model, how, &r->data));
    return dpt_trainer_create(r->devices, r->model, r->data, &options, &r->trainer);
}

static void train(test *t, const mix *m, way how, double losses[STEPS])
{
    static samples s;
    session r = {.context = NULL};
    if (!CHECK_OK(begin(&r, &s, m, how)))
        FAIL("way %d: %s", (int)how, r.context ? dpt_error_message(r.context) : "");
    else
        session_train(t, &r, STEPS, losses);
    session_end(&r);
}

static void ways_train_alike(test *t)
{
    static const mix mixes[] = {
        {"cpu:threads=1", NULL},
        {"cpu:threads=1,cpu:threads=1,cpu:threads=1", "13:2:1"},
    };
    for (size_t i = 0; i < sizeof mixes / sizeof *mixes; i++) {
        double wanted[STEPS] = {0};
        train(t, &mixes[i], ARRAYS, wanted);
        CHECK(wanted[STEPS - 1] < 0.9 * wanted[0]);
        for (way how = MEMORY; how < N_WAYS; how++) {
            double found[STEPS] = {0};
            train(t, &mixes[i], how, found);
            for (size_t k = 0; k < STEPS; k++)
                if (found[k] != wanted[k])
                    FAIL("%s, way %d, step %zu: %.17g, from arrays %.17g", mixes[i].devices,
                         (int)how, k + 1, found[k], wanted[k]);
        }
    }
}

static void wrong_sizes(test *t)
{
    static const struct {
        dpt_dataset_array input; /* in place of the first one */
        const char *says;
    } wrong[] = {
        {{"numbers", DPT_F32, 2, {COUNT - 1, NUMBERS}, NULL}, "input numbers counts the samples"},
        {{"words", DPT_F32, 2, {COUNT, NUMBERS}, NULL}, "two arrays are called words"},
        {{"targets", DPT_F32, 2, {COUNT, NUMBERS}, NULL}, "targets is no input"},
        {{"", DPT_F32, 2, {COUNT, NUMBERS}, NULL}, "a name that can be printed"},
        {{"numbers", DPT_F32, 2, {COUNT, 0}, NULL}, "needs a name"},
        {{"numbers", DPT_F32, 2, {COUNT, NUMBERS}, "x"}, "numbers has data of its own"},
    };
    static samples s;
    dpt_context *context = NULL;
    dpt_dataset *data = NULL;
    dpt_dataset_array inputs[N_INPUTS];
    REQUIRE_OK(dpt_context_create(&context));
    dpt_dataset_memory memory = memory_of(&s);
    memory.images = s.records;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        memcpy(inputs, declared, sizeof inputs);
        inputs[0] = wrong[i].input;
        memory.inputs = inputs;
        CHECK_STATUS(dpt_dataset_from_memory(context, &memory, &data), DPT_E_INVALID);
        CHECK_CONTAINS(dpt_error_message(context), wrong[i].says);
    }
    memory.inputs = declared;
    memory.channels = RECORD;
    CHECK_STATUS(dpt_dataset_from_memory(context, &memory, &data), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(context), "leave height, width, channels");
    memory.channels = 0;
    memory.n_inputs = 0;
    CHECK_STATUS(dpt_dataset_from_memory(context, &memory, &data), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(context), "1 to 64 arrays");
    memory.inputs = NULL;
    memory.n_inputs = 1;
    CHECK_STATUS(dpt_dataset_from_memory(context, &memory, &data), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(context), "1 to 64 arrays");
    dpt_context_destroy(context);
}

/* A record that the model cannot read is refused where it is written or read; a reader that has
   failed can be arranged afterwards. */
static void wrong_records(test *t)
{
    static const mix one = {"cpu:threads=1", NULL};
    const size_t word = NUMBERS + 1, pixel = NUMBERS + PLACES + 2;
    static samples all;
    samples *s = &all;
    session r = {.context = NULL};
    dpt_dataset *data = NULL;
    dpt_trainer *trainer = NULL;
    const dpt_trainer_options options = {.size = sizeof options, .batch_size = COUNT};
    REQUIRE_OK(begin(&r, s, &one, WRITTEN_AFTER));
    REQUIRE_OK(make_reader(r.context, s, &data));
    CHECK_STATUS(dpt_trainer_create(r.devices, r.model, data, &options, &trainer), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(r.context), "dpt_dataset_arrange");
    s->records[4][word].integer = ROWS;
    CHECK_STATUS(dpt_dataset_write(r.data, 3, 2, s->records[3], s->labels, NULL), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(r.context), "id 7 at place 1 of sample 4 of words");
    CHECK_STATUS(dpt_dataset_arrange(r.context, data, r.model), DPT_E_FORMAT);
    CHECK_CONTAINS(dpt_error_message(r.context), "id 7 at place 1 of sample 4 of words");
    s->records[4][word].integer = 0;
    s->records[4][pixel].integer = 256;
    CHECK_STATUS(dpt_dataset_write(r.data, 4, 1, s->records[4], s->labels, NULL), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(r.context), "element 2 of sample 4 of picture is 256");
    s->records[4][pixel].integer = 255;
    CHECK_OK(dpt_dataset_write(r.data, 4, 1, s->records[4], s->labels, NULL));
    CHECK_OK(dpt_dataset_arrange(r.context, data, r.model));
    CHECK_STATUS(dpt_dataset_arrange(r.context, data, r.model), DPT_E_STATE);
    dpt_dataset_destroy(data);
    session_end(&r);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"ways train alike", ways_train_alike},
        {"wrong sizes", wrong_sizes},
        {"wrong records", wrong_records},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
