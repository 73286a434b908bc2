/* Opens and closes what train and eval stand on. */
#include "session.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { DEFAULT_BATCH = 256 };

dpt_status cli_session_open(cli_session *session, const cli_options *options, bool with_train)
{
    *session = (cli_session){0};
    DPT_TRY(dpt_context_create(&session->context));
    dpt_context *context = session->context;
    DPT_TRY(dpt_devices_open(context, options->devices, &session->devices));
    if (with_train)
        DPT_TRY(
            dpt_dataset_open(context, options->dataset, options->data, DPT_TRAIN, &session->train));
    DPT_TRY(dpt_dataset_open(context, options->dataset, options->data, DPT_TEST, &session->test));
    dpt_dataset_info info;
    dpt_dataset_describe(with_train ? session->train : session->test, &info);
    const dpt_model_shape shape = {
        .height = info.height,
        .width = info.width,
        .channels = info.channels,
        .classes = info.classes,
    };
    return dpt_model_by_name(context, options->model, &shape, &session->model);
}

void cli_session_close(cli_session *session)
{
    dpt_trainer_destroy(session->trainer);
    dpt_model_destroy(session->model);
    dpt_dataset_destroy(session->test);
    dpt_dataset_destroy(session->train);
    dpt_devices_close(session->devices);
    dpt_context_destroy(session->context);
    *session = (cli_session){0};
}

size_t cli_batch_size(const cli_options *options, size_t count)
{
    if (options->batch_size) return options->batch_size;
    return count < DEFAULT_BATCH ? count : DEFAULT_BATCH;
}

bool cli_weights_path(const char *path, char *out, size_t out_bytes)
{
    struct stat info;
    const bool directory = stat(path, &info) == 0 && S_ISDIR(info.st_mode);
    const int length =
        snprintf(out, out_bytes, "%s%s", path, directory ? "/model.safetensors" : "");
    return length > 0 && (size_t)length < out_bytes;
}
