/* Your own network and data.  The program trains a small transformer on sequences of points in
   memory, step by step, with two replicas.  It saves the weights, loads them into a second trainer
   and compares both trainers' accuracy.

       own_model [DEVICES [FILE]]        default: cpu:threads=1,cpu:threads=1 own_model.safetensors
 */
#include <dptrain.h>

#include <stdio.h>

enum { COUNT = 600, PLACES = 5, CLASSES = 3, WIDTH = 16, STEPS = 300, BATCH = 100 };

/* A sample is a sequence of points in the square [-1, 1) x [-1, 1).  One of them is marked by a 1
   beside its coordinates.  The label is the ring around the centre in which the marked point is. */
typedef struct points {
    float xym[COUNT][PLACES][3];
    uint8_t label[COUNT];
} points;

static float draw(uint32_t *state)
{
    *state = *state * 1664525U + 1013904223U; /* Numerical Recipes' generator */
    return (float)(*state >> 8) / (float)(1 << 24);
}

static void make_points(points *out)
{
    uint32_t state = 1;
    for (size_t i = 0; i < COUNT; i++) {
        const size_t marked = (size_t)(draw(&state) * PLACES);
        for (size_t k = 0; k < PLACES; k++) {
            float *p = out->xym[i][k];
            p[0] = 2 * draw(&state) - 1;
            p[1] = 2 * draw(&state) - 1;
            p[2] = k == marked ? 1 : 0;
            const float square = p[0] * p[0] + p[1] * p[1];
            if (k == marked) out->label[i] = square < 0.25F ? 0 : square < 0.8F ? 1 : 2;
        }
    }
}

static dpt_status create_data(dpt_context *context, dpt_dataset **out)
{
    static points all;
    make_points(&all);
    const dpt_dataset_memory memory = {
        .size = sizeof memory,
        .count = COUNT,
        .height = 1,
        .width = PLACES,
        .channels = 3,
        .outputs = CLASSES,
        .dtype = DPT_F32,
        .images = all.xym,
        .labels = all.label,
    };
    return dpt_dataset_from_memory(context, &memory, out); /* copies */
}

/* A linear layer for each place of a sequence: a convolution with a kernel of 1x1. */
static dpt_conv2d_options each_place(size_t outputs, dpt_activation activation)
{
    return (dpt_conv2d_options){.size = sizeof(dpt_conv2d_options),
                                .out_channels = outputs,
                                .kernel = {1, 1},
                                .activation = activation};
}

/* A residual attention block: the places of the sequence read each other, then each place is
   computed by itself.  Both results are added to what they were computed of. */
static dpt_value attention_block(dpt_model *model, dpt_value x)
{
    const dpt_attention_options attention = {.size = sizeof attention, .heads = 2};
    const dpt_conv2d_options wide = each_place(2 * WIDTH, DPT_ACT_TANH),
                             narrow = each_place(WIDTH, DPT_ACT_NONE);
    const dpt_value read =
        dpt_attention(model, dpt_layer_norm(model, x, "norm1", NULL), "attention", &attention);
    x = dpt_add(model, x, read);
    const dpt_value y = dpt_conv2d(model, dpt_layer_norm(model, x, "norm2", NULL), "wide", &wide);
    return dpt_add(model, x, dpt_conv2d(model, y, "narrow", &narrow));
}

static dpt_status create_model(dpt_context *context, dpt_model **out)
{
    const dpt_conv2d_options places = each_place(WIDTH, DPT_ACT_TANH);
    const dpt_linear_options scores = {.size = sizeof scores, .out = CLASSES};
    DPT_TRY(dpt_model_create(context, "rings", out));
    dpt_model *model = *out;
    dpt_value x = dpt_conv2d(model, dpt_input(model, 1, PLACES, 3), "places", &places);
    x = dpt_flatten(model, dpt_global_average_pool(model, attention_block(model, x)));
    return dpt_model_finish(model, dpt_linear(model, x, "scores", &scores));
}

static dpt_status train(dpt_trainer *trainer)
{
    dpt_step_metrics m = {.size = sizeof m};
    for (size_t i = 1; i <= STEPS; i++) {
        if (i == STEPS * 2 / 3) DPT_TRY(dpt_trainer_set_lr(trainer, 0.002F));
        DPT_TRY(dpt_trainer_step(trainer, &m));
        if (i % 100 == 0 || i == 1)
            printf("step %3zu: loss %.4f, %zu of %zu right, shards %zu + %zu\n", m.step, m.loss,
                   m.hits, m.samples, m.shards[0], m.n_devices > 1 ? m.shards[1] : 0);
    }
    return DPT_OK;
}

/* What a trainer is created for. */
typedef struct task {
    dpt_device_set *devices;
    const dpt_model *model;
    const dpt_dataset *data;
} task;

/* The second trainer has another seed, and so other weights until it loads those of the first. */
static dpt_status compare(const task *of, dpt_trainer *first, const char *path)
{
    dpt_evaluation a = {.size = sizeof a}, b = {.size = sizeof b};
    float bias[CLASSES];
    DPT_TRY(dpt_trainer_evaluate(first, of->data, &a));
    DPT_TRY(dpt_trainer_save(first, path));
    DPT_TRY(dpt_trainer_get(first, 0, DPT_PARAMETER, "scores.bias", bias, CLASSES));
    printf("scores.bias: %.3f %.3f %.3f\n", (double)bias[0], (double)bias[1], (double)bias[2]);
    dpt_trainer *second;
    DPT_TRY(dpt_trainer_create(
        of->devices, of->model, of->data,
        &(dpt_trainer_options){.size = sizeof(dpt_trainer_options), .batch_size = BATCH, .seed = 7},
        &second));
    dpt_status status = dpt_trainer_load(second, path);
    if (status == DPT_OK) status = dpt_trainer_evaluate(second, of->data, &b);
    dpt_trainer_destroy(second);
    if (status == DPT_OK)
        printf("accuracy %.3f, after loading %s: %s\n", a.accuracy, path,
               a.hits == b.hits && a.hits > COUNT * 9 / 10 ? "the same" : "NOT what it should be");
    return status;
}

int main(int argc, char **argv)
{
    const char *list = argc > 1 ? argv[1] : "cpu:threads=1,cpu:threads=1";
    const dpt_trainer_options how = {
        .size = sizeof how, .batch_size = BATCH, .optimizer = DPT_OPTIMIZER_ADAMW, .lr = 0.01F};
    dpt_context *context;
    dpt_device_set *devices = NULL;
    dpt_dataset *data = NULL;
    dpt_model *model = NULL;
    dpt_trainer *trainer = NULL;
    dpt_status status = dpt_context_create(&context);
    if (status != DPT_OK) return 1;
    if (!status) status = dpt_device_set_open(context, list, &devices);
    if (!status) status = create_data(context, &data);
    if (!status) status = create_model(context, &model);
    if (!status) status = dpt_trainer_create(devices, model, data, &how, &trainer);
    if (!status) status = train(trainer);
    if (!status)
        status = compare(&(task){devices, model, data}, trainer,
                         argc > 2 ? argv[2] : "own_model.safetensors");
    if (status) fprintf(stderr, "own_model: %s\n", dpt_error_message(context));
    dpt_trainer_destroy(trainer);
    dpt_model_destroy(model);
    dpt_dataset_destroy(data);
    dpt_device_set_close(devices);
    dpt_context_destroy(context);
    return status ? 1 : 0;
}
