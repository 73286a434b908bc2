/* Tests networks with several inputs that are built in C: an image, a vector and ids in one record
   train to the same losses on one device and on three, every input is read at its own place, and
   the predictor gives the trainer's outputs. */
#include "train/session.h"

#include <math.h>
#include <string.h>

enum { COUNT = 12, PIXELS = 4 * 3 * 2, NUMBERS = 5, PLACES = 3, ROWS = 7, CLASSES = 3, STEPS = 40 };

static const char one[] = "cpu:threads=1", three[] = "cpu:threads=1,cpu:threads=1,cpu:threads=1";

typedef struct samples {
    float images[COUNT * PIXELS], numbers[COUNT * NUMBERS];
    int32_t ids[COUNT * PLACES], labels[COUNT];
} samples;

static void fill(samples *s)
{
    for (size_t i = 0; i < COUNT * PIXELS; i++)
        s->images[i] = (float)(i * 37 % 101) / 50.0f - 1;
    for (size_t i = 0; i < COUNT * NUMBERS; i++)
        s->numbers[i] = (float)(i * 53 % 89) / 40.0f - 1;
    for (size_t i = 0; i < COUNT * PLACES; i++)
        s->ids[i] = (int32_t)(i * i % ROWS);
    for (size_t i = 0; i < COUNT; i++)
        s->labels[i] = (int32_t)(i % CLASSES);
}

static dpt_status make_data(dpt_context *context, const samples *s, dpt_dataset **out)
{
    const dpt_dataset_array arrays[] = {
        {"numbers", DPT_F32, 2, {COUNT, NUMBERS}, s->numbers},
        {"labels", DPT_I32, 1, {COUNT}, s->labels},
        {"words", DPT_I32, 2, {COUNT, PLACES}, s->ids},
        {"picture", DPT_F32, 4, {COUNT, 2, 4, 3}, s->images}, /* channels first */
    };
    return dpt_dataset_from_arrays(context, arrays, sizeof arrays / sizeof *arrays, out);
}

static dpt_status make_model(dpt_context *context, dpt_model **out)
{
    static const dpt_input_options inputs[] = {
        {.name = "picture", .height = 4, .width = 3, .channels = 2},
        {.name = "words", .ids = PLACES},
        {.name = "numbers", .height = 1, .width = 1, .channels = NUMBERS},
    };
    const dpt_linear_options six = {.size = sizeof six, .out = 6};
    dpt_value x[3];
    dpt_model *m;
    DPT_TRY(dpt_model_create(context, "several", &m));
    dpt_inputs(m, inputs, 3, x);
    x[0] = dpt_conv2d(m, x[0], "c",
                      &(dpt_conv2d_options){.size = sizeof(dpt_conv2d_options),
                                            .out_channels = 6,
                                            .kernel = {3, 3},
                                            .padding = {1, 1}});
    x[0] = dpt_flatten(m, dpt_global_average_pool(m, x[0]));
    x[1] = dpt_embedding(
        m, x[1], "e",
        &(dpt_embedding_options){.size = sizeof(dpt_embedding_options), .rows = ROWS, .width = 6});
    x[1] = dpt_flatten(m, dpt_global_average_pool(m, x[1]));
    x[2] = dpt_linear(m, dpt_flatten(m, x[2]), "l", &six);
    const dpt_value sum = dpt_activate(m, dpt_add(m, dpt_add(m, x[0], x[1]), x[2]), DPT_ACT_TANH);
    *out = m;
    return dpt_model_finish(
        m, dpt_linear(m, sum, "h",
                      &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = CLASSES}));
}

static dpt_status begin(session *r, const char *devices, const char *split)
{
    static samples s;
    fill(&s);
    const dpt_trainer_options options = {.size = sizeof options,
                                         .batch_size = COUNT,
                                         .lr = 0.2f,
                                         .momentum = 0.9f,
                                         .split = dpt_split_from(split),
                                         .seed = 5};
    DPT_TRY(dpt_context_create(&r->context));
    DPT_TRY(dpt_device_set_open(r->context, devices, &r->devices));
    DPT_TRY(make_data(r->context, &s, &r->data));
    DPT_TRY(make_model(r->context, &r->model));
    DPT_TRY(dpt_dataset_arrange(r->context, r->data, r->model));
    return dpt_trainer_create(r->devices, r->model, r->data, &options, &r->trainer);
}

static void train(test *t, const char *devices, const char *split, double losses[STEPS])
{
    session r = {.context = NULL};
    if (!CHECK_OK(begin(&r, devices, split)))
        FAIL("%s", r.context ? dpt_error_message(r.context) : "");
    else
        session_train(t, &r, STEPS, losses);
    session_end(&r);
}

static void mixes_train_alike(test *t)
{
    double alone[STEPS] = {0}, together[STEPS] = {0};
    train(t, one, NULL, alone);
    train(t, three, "13:2:1", together);
    CHECK(alone[STEPS - 1] < 0.9 * alone[0]);
    for (size_t i = 0; i < STEPS; i++)
        CHECK_NEAR(together[i], alone[i], 1e-5 * alone[i]);
}

/* Every input matters: without it the losses are others. */
static void inputs_are_told_apart(test *t)
{
    session r = {.context = NULL};
    float all[COUNT * CLASSES], again[COUNT * CLASSES];
    dpt_dataset *data[3]; /* they outlive the trainer */
    REQUIRE_OK(begin(&r, one, NULL));
    REQUIRE_OK(dpt_trainer_predict(r.trainer, r.data, 0, COUNT, all));
    for (size_t changed = 0; changed < 3; changed++) {
        samples s;
        fill(&s);
        if (changed == 0) s.images[PIXELS * (COUNT - 1)] += 1;
        if (changed == 1) s.ids[PLACES * (COUNT - 1)] ^= 1;
        if (changed == 2) s.numbers[NUMBERS * (COUNT - 1)] += 1;
        REQUIRE_OK(make_data(r.context, &s, &data[changed]));
        REQUIRE_OK(dpt_dataset_arrange(r.context, data[changed], r.model));
        REQUIRE_OK(dpt_trainer_predict(r.trainer, data[changed], 0, COUNT, again));
        for (size_t i = 0; i < COUNT * CLASSES; i++) {
            const bool last = i >= (COUNT - 1) * CLASSES;
            if ((fabsf(all[i] - again[i]) > 1e-6f) != last)
                FAIL("input %zu: output %zu is %g, and was %g", changed, i, (double)again[i],
                     (double)all[i]);
        }
    }
    dpt_trainer_destroy(r.trainer);
    r.trainer = NULL;
    for (size_t i = 0; i < 3; i++)
        dpt_dataset_destroy(data[i]);
    session_end(&r);
}

static void predictor_agrees(test *t)
{
    static const char path[] = "inputs.safetensors";
    session r = {.context = NULL};
    dpt_predictor *predictor = NULL;
    float expected[COUNT * CLASSES], got[COUNT * CLASSES];
    char why[DPT_WHY_BYTES] = "";
    REQUIRE_OK(begin(&r, one, NULL));
    REQUIRE_OK(dpt_trainer_save(r.trainer, path));
    REQUIRE_OK(dpt_trainer_predict(r.trainer, r.data, 0, COUNT, expected));
    const dpt_predictor_options options = {
        .size = sizeof options, .weights = path, .like = r.data, .micro_batch = 5};
    REQUIRE_OK(dpt_predictor_create(r.devices, r.model, &options, &predictor));
    REQUIRE_OK(dpt_predictor_run_data(predictor, r.data, 0, COUNT, got, why));
    for (size_t i = 0; i < COUNT * CLASSES; i++)
        CHECK_NEAR((double)got[i], (double)expected[i], 1e-6);
    CHECK_STATUS(dpt_predictor_run(predictor, expected, 1, got, why), DPT_E_INVALID);
    CHECK_CONTAINS(why, "several inputs");
    dpt_predictor_destroy(predictor);
    session_end(&r);
}

static void describes_inputs(test *t)
{
    session r = {.context = NULL};
    dpt_input_info info = {.size = sizeof info};
    REQUIRE_OK(begin(&r, one, NULL));
    CHECK_SIZE(dpt_model_input_count(r.model), 3);
    dpt_model_input(r.model, 1, &info);
    CHECK_TEXT(info.name, "words");
    CHECK_SIZE(info.elements, PLACES);
    CHECK_SIZE(info.vocabulary, ROWS);
    dpt_model_input(r.model, 3, &info);
    CHECK(!info.name);
    session_end(&r);
}

static void refuses_the_rest(test *t)
{
    session r = {.context = NULL};
    static samples s;
    dpt_dataset *data = NULL;
    dpt_trainer *trainer = NULL;
    const dpt_trainer_options options = {.size = sizeof options, .batch_size = COUNT};
    REQUIRE_OK(begin(&r, one, NULL));
    fill(&s);
    REQUIRE_OK(make_data(r.context, &s, &data));
    CHECK_STATUS(dpt_trainer_create(r.devices, r.model, data, &options, &trainer), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(r.context), "dpt_dataset_arrange");
    dpt_dataset_destroy(data);
    s.ids[4] = ROWS;
    REQUIRE_OK(make_data(r.context, &s, &data));
    CHECK_STATUS(dpt_dataset_arrange(r.context, data, r.model), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(r.context), "id 7 at place 1 of sample 1 of words");
    dpt_dataset_destroy(data);
    dpt_model *model = NULL;
    dpt_value x[2];
    const dpt_input_options twice[] = {{.name = "a", .ids = 2}, {.name = "a", .ids = 3}};
    REQUIRE_OK(dpt_model_create(r.context, "m", &model));
    dpt_inputs(model, twice, 2, x);
    CHECK_STATUS(dpt_model_finish(model, x[0]), DPT_E_INVALID);
    CHECK_CONTAINS(dpt_error_message(r.context), "input 1 needs a name");
    dpt_model_destroy(model);
    session_end(&r);
}

int main(int argc, char **argv)
{
    static const test_case cases[] = {
        {"mixes train alike", mixes_train_alike}, {"inputs are told apart", inputs_are_told_apart},
        {"predictor agrees", predictor_agrees},   {"describes inputs", describes_inputs},
        {"refuses the rest", refuses_the_rest},
    };
    return test_main(argc, argv, cases, sizeof cases / sizeof *cases, NULL);
}
