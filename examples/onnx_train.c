/* Trains the network of an ONNX file, such as an export of PyTorch (docs/onnx.md), and prints what
   it has learned after each epoch.  Training begins with the weights of the file.

       onnx_train FILE.onnx [DEVICES [EPOCHS [DATASET]]]        default: all 5 fashion-mnist */
#include <dptrain.h>

#include <stdio.h>
#include <stdlib.h>

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
    const char *list = argc > 2 ? argv[2] : "all", *name = argc > 4 ? argv[4] : "fashion-mnist";
    const size_t epochs = argc > 3 ? strtoul(argv[3], NULL, 10) : 5;
    dpt_context *context;
    dpt_device_set *devices = NULL;
    dpt_dataset *data = NULL, *test = NULL;
    dpt_model *model = NULL;
    dpt_trainer *trainer = NULL;
    if (argc < 2) {
        fprintf(stderr, "usage: %s FILE.onnx [DEVICES [EPOCHS [DATASET]]]\n", argv[0]);
        return 2;
    }
    dpt_status status = dpt_context_create(&context);
    if (status != DPT_OK) return 1;
    if (!status) status = dpt_device_set_open(context, list, &devices);
    if (!status) status = dpt_dataset_open(context, name, NULL, DPT_TRAIN, &data);
    if (!status) status = dpt_dataset_open(context, name, NULL, DPT_TEST, &test);
    if (!status) status = dpt_model_from_onnx(context, argv[1], &model);
    /* Arrays (npz:FILE) are put in the order of the network's inputs; other data stay as they are.
     */
    if (!status) status = dpt_dataset_arrange(context, data, model);
    if (!status) status = dpt_dataset_arrange(context, test, model);
    const dpt_trainer_options how = {
        .size = sizeof how, .batch_size = 64, .lr = 0.05F, .momentum = 0.9F};
    if (!status) status = dpt_trainer_create(devices, model, data, &how, &trainer);
    const dpt_fit_options fit = {
        .size = sizeof fit, .epochs = epochs, .test = test, .progress = show};
    dpt_fit_result result = {.size = sizeof result};
    if (!status) status = dpt_fit(trainer, &fit, &result);
    if (!status)
        printf("%zu parameters, %zu steps\n", dpt_model_parameter_count(model), result.steps);
    if (status) fprintf(stderr, "onnx_train: %s\n", dpt_error_message(context));
    dpt_trainer_destroy(trainer);
    dpt_model_destroy(model);
    dpt_dataset_destroy(test);
    dpt_dataset_destroy(data);
    dpt_device_set_close(devices);
    dpt_context_destroy(context);
    return status ? 1 : 0;
}
