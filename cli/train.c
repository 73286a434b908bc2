/* dptrain train: the training loop with its header, its progress and its last line. */
#include "session.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>

enum { DEFAULT_EPOCHS = 5 };

static size_t epochs_of(const cli_options *options)
{
    if (options->epochs) return options->epochs;
    return options->max_steps || options->max_time > 0 ? 0 : DEFAULT_EPOCHS;
}

static dpt_status create_trainer(cli_session *session, const cli_options *options)
{
    DPT_TRY(cli_session_open(session, options, true));
    dpt_dataset_info data;
    dpt_dataset_describe(session->train, &data);
    const dpt_trainer_options trainer = {
        .batch_size = cli_batch_size(options, data.count),
        .split = options->split,
        .lr = (float)options->lr,
        .momentum = (float)options->momentum,
        .weight_decay = (float)options->weight_decay,
        .nesterov = options->nesterov,
        .init = options->init,
        .seed = options->seed,
        .no_shuffle = options->no_shuffle,
    };
    DPT_TRY(dpt_trainer_create(session->devices, session->model, session->train, &trainer,
                               &session->trainer));
    if (options->load) DPT_TRY(dpt_trainer_load(session->trainer, options->load));
    return DPT_OK;
}

/* ---- The header ------------------------------------------------------------------------------ */

static void print_devices(const dpt_device_set *devices)
{
    for (size_t i = 0; i < dpt_devices_count(devices); i++) {
        dpt_device_description device;
        dpt_device_describe(dpt_devices_get(devices, i), &device);
        printf("%-10s%s: %s", i ? "" : "devices", device.id, device.name);
        if (device.n_threads)
            printf(", %u thread%s", device.n_threads, device.n_threads == 1 ? "" : "s");
        printf("\n");
    }
}

static void print_header(const cli_session *session, const cli_options *options)
{
    dpt_dataset_info train, test;
    dpt_dataset_describe(session->train, &train);
    dpt_dataset_describe(session->test, &test);
    printf("%-10s%s, %zu parameters\n", "model", dpt_model_name(session->model),
           dpt_model_parameter_count(session->model));
    printf("%-10s%s, %zu + %zu images of %zux%zux%zu, %zu classes (%s)\n", "data", train.name,
           train.count, test.count, train.height, train.width, train.channels, train.classes,
           train.source);
    print_devices(session->devices);
    printf("%-10sbatch %zu, sgd, lr %g, momentum %g%s, weight decay %g, seed %zu\n", "training",
           cli_batch_size(options, train.count), options->lr, options->momentum,
           options->nesterov ? " (nesterov)" : "", options->weight_decay, options->seed);
    fflush(stdout);
}

/* ---- The end --------------------------------------------------------------------------------- */

static void print_files(const cli_options *options)
{
    const char *separator = "wrote ";
    if (options->checkpoint) {
        printf("%s%s/model.safetensors", separator, options->checkpoint);
        separator = ", ";
    }
    if (options->log) {
        printf("%s%s", separator, options->log);
        separator = ", ";
    }
    if (options->plot) {
        printf("%s%s", separator, options->plot);
        separator = ", ";
    }
    if (separator[0] == ',') printf("\n");
}

static void print_result(const cli_options *options, const dpt_fit_result *result)
{
    printf("trained %zu step%s in %.1f s, %.0f img/s", result->steps, result->steps == 1 ? "" : "s",
           result->seconds, result->images_per_second);
    if (!isnan(result->test_accuracy)) printf(", test accuracy %.4f", result->test_accuracy);
    printf("\n");
    print_files(options);
}

/* Trains; *caught is the signal that ended it, 0 if none did. */
static dpt_status train(cli_session *session, const cli_options *options, int *caught)
{
    DPT_TRY(create_trainer(session, options));
    if (!options->quiet) print_header(session, options);
    dpt_dataset_info data;
    dpt_dataset_describe(session->train, &data);
    cli_progress progress;
    cli_progress_init(&progress, options->quiet);
    progress.epochs = epochs_of(options);
    progress.samples_per_epoch = data.count;
    progress.max_seconds = options->max_time;
    const dpt_fit_options fit = {
        .epochs = progress.epochs,
        .max_steps = options->max_steps,
        .max_seconds = options->max_time,
        .test = session->test,
        .log = options->log,
        .plot = options->plot,
        .checkpoint = options->checkpoint,
        .progress = cli_progress_show,
        .user = &progress,
    };
    dpt_fit_result result;
    cli_signals_catch();
    const dpt_status status = dpt_fit(session->trainer, &fit, &result);
    cli_progress_end(&progress);
    if (status == DPT_OK && result.stopped) *caught = cli_signals_caught();
    if (status == DPT_OK && !options->quiet) print_result(options, &result);
    return status;
}

int cli_train(const cli_options *options)
{
    if (options->nesterov && !(options->momentum > 0))
        return cli_error(CLI_USAGE, "--nesterov needs --momentum above 0");
    cli_session session;
    int caught = 0;
    const dpt_status status = train(&session, options, &caught);
    int code = CLI_OK;
    if (status != DPT_OK)
        code = cli_fail(session.context, status);
    else if (caught)
        code = cli_error(128 + caught, "ended early by signal %d", caught);
    cli_session_close(&session);
    return code;
}
