/* Data that arrive while the program runs.  A network learns to predict the next value of a signal
   from the last ones.  Each batch is used for one step and then replaced.  The period of the signal
   changes all the time, so the network has to keep learning.

       stream [DEVICES]        default: cpu:threads=1,cpu:threads=1 */
#include <dptrain.h>

#include <math.h>
#include <stdio.h>

enum { WINDOW = 8, BATCH = 32, STEPS = 600, PERIOD = 12 };

/* Windows of the signal, and the value that follows each window. */
typedef struct batch {
    float windows[BATCH][WINDOW];
    float next[BATCH];
} batch;

static float measure(size_t time)
{
    const float slow = (float)time / (BATCH * STEPS); /* 0 to 1 over the whole run */
    return sinf(6.2831853F * (float)time / PERIOD * (1 - slow / 3)) * (1 - slow / 2);
}

static void receive(size_t step, batch *out)
{
    for (size_t i = 0; i < BATCH; i++) {
        const size_t time = step * BATCH + i;
        for (size_t k = 0; k < WINDOW; k++)
            out->windows[i][k] = measure(time + k);
        out->next[i] = measure(time + WINDOW);
    }
}

/* A data set with room for one batch.  A step uses all of it. */
static dpt_status create_data(dpt_context *context, dpt_dataset **out)
{
    batch first;
    receive(0, &first);
    const dpt_dataset_memory memory = {
        .size = sizeof memory,
        .count = BATCH,
        .height = 1,
        .width = 1,
        .channels = WINDOW,
        .outputs = 1,
        .dtype = DPT_F32,
        .images = first.windows,
        .targets = first.next,
        .writable = true,
    };
    return dpt_dataset_from_memory(context, &memory, out);
}

static dpt_status create_model(dpt_context *context, dpt_model **out)
{
    const dpt_linear_options hidden = {
        .size = sizeof hidden, .out = 32, .activation = DPT_ACT_TANH};
    dpt_model *model;
    DPT_TRY(dpt_model_create(context, "forecast", &model));
    const dpt_value x = dpt_flatten(model, dpt_input(model, 1, 1, WINDOW));
    const dpt_value h = dpt_linear(model, x, "hidden", &hidden);
    *out = model;
    return dpt_model_finish(
        model, dpt_linear(model, h, "next",
                          &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = 1}));
}

/* The loss of a step is that of new values, because it is computed before the update. */
static dpt_status train(dpt_trainer *trainer, dpt_dataset *data)
{
    batch now;
    dpt_step_metrics m = {.size = sizeof m};
    double sum = 0;
    for (size_t i = 0; i < STEPS; i++) {
        receive(i, &now);
        DPT_TRY(dpt_dataset_write(data, 0, BATCH, now.windows, NULL, now.next));
        DPT_TRY(dpt_trainer_step(trainer, &m));
        sum += m.loss;
        if ((i + 1) % 100 > 0) continue;
        printf("steps %3zu to %3zu: mean squared error %.1e\n", i - 98, i + 1, sum / 100);
        sum = 0;
    }
    return DPT_OK;
}

int main(int argc, char **argv)
{
    const char *list = argc > 1 ? argv[1] : "cpu:threads=1,cpu:threads=1";
    const dpt_trainer_options how = {.size = sizeof how,
                                     .batch_size = BATCH,
                                     .lr = 0.05F,
                                     .momentum = 0.9F,
                                     .loss = DPT_LOSS_SQUARED_ERROR};
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
    if (!status) status = train(trainer, data);
    if (status) fprintf(stderr, "stream: %s\n", dpt_error_message(context));
    dpt_trainer_destroy(trainer);
    dpt_model_destroy(model);
    dpt_dataset_destroy(data);
    dpt_device_set_close(devices);
    dpt_context_destroy(context);
    return status ? 1 : 0;
}
