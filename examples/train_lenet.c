/* LeNet on Fashion-MNIST.  The program builds the network layer by layer and trains it on all
   devices with dpt_fit.

       train_lenet [DEVICES [EPOCHS [DATASET]]]        default: all 5 fashion-mnist */
#include <dptrain.h>

#include <stdio.h>
#include <stdlib.h>

static dpt_status build(dpt_context *context, dpt_model **out)
{
    const dpt_pool2d_options halve = {
        .size = sizeof halve, .kind = DPT_POOL_AVERAGE, .kernel = {2, 2}};
    const dpt_activation relu = DPT_ACT_RELU;
    dpt_model *model;
    DPT_TRY(dpt_model_create(context, "lenet", &model));
    dpt_value x = dpt_input(model, 28, 28, 1);
    x = dpt_conv2d(model, x, "conv1",
                   &(dpt_conv2d_options){.size = sizeof(dpt_conv2d_options),
                                         .out_channels = 20,
                                         .kernel = {3, 3},
                                         .activation = relu});
    x = dpt_pool2d(model, x, &halve);
    x = dpt_conv2d(model, x, "conv2",
                   &(dpt_conv2d_options){.size = sizeof(dpt_conv2d_options),
                                         .out_channels = 50,
                                         .kernel = {5, 5},
                                         .activation = relu});
    x = dpt_pool2d(model, x, &halve);
    x = dpt_flatten(model, x);
    x = dpt_linear(
        model, x, "fc1",
        &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = 128, .activation = relu});
    x = dpt_linear(model, x, "fc2",
                   &(dpt_linear_options){.size = sizeof(dpt_linear_options), .out = 10});
    *out = model;
    return dpt_model_finish(model, x);
}

static int show(const dpt_fit_progress *progress, void *user)
{
    (void)user;
    const dpt_epoch_metrics *e = progress->epoch;
    if (e)
        printf("epoch %zu: loss %.4f, test accuracy %.4f, %.0f img/s\n", e->epoch, e->train_loss,
               e->test_accuracy, e->images_per_second);
    return 0;
}

int main(int argc, char **argv)
{
    const char *list = argc > 1 ? argv[1] : "all", *name = argc > 3 ? argv[3] : "fashion-mnist";
    const size_t epochs = argc > 2 ? strtoul(argv[2], NULL, 10) : 5;
    dpt_context *context;
    dpt_device_set *devices = NULL;
    dpt_dataset *data = NULL, *test = NULL;
    dpt_model *model = NULL;
    dpt_trainer *trainer = NULL;
    dpt_fit_result result = {.size = sizeof result};
    dpt_status status = dpt_context_create(&context);
    if (status != DPT_OK) return 1;
    if (!status) status = dpt_device_set_open(context, list, &devices);
    if (!status) status = dpt_dataset_open(context, name, NULL, DPT_TRAIN, &data);
    if (!status) status = dpt_dataset_open(context, name, NULL, DPT_TEST, &test);
    if (!status) status = build(context, &model);
    const dpt_trainer_options how = {
        .size = sizeof how, .batch_size = 256, .lr = 0.05F, .momentum = 0.9F};
    if (!status) status = dpt_trainer_create(devices, model, data, &how, &trainer);
    const dpt_fit_options fit = {
        .size = sizeof fit, .epochs = epochs, .test = test, .progress = show};
    if (!status) status = dpt_fit(trainer, &fit, &result);
    if (!status) printf("%zu steps, %.0f img/s\n", result.steps, result.images_per_second);
    if (status) fprintf(stderr, "train_lenet: %s\n", dpt_error_message(context));
    dpt_trainer_destroy(trainer);
    dpt_model_destroy(model);
    dpt_dataset_destroy(test);
    dpt_dataset_destroy(data);
    dpt_device_set_close(devices);
    dpt_context_destroy(context);
    return status ? 1 : 0;
}
