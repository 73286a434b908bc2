/* dptrain export: writes the network of a checkpoint as an ONNX file. */
#include "new_file.h"
#include "session.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* Builds the model for images as the weights, or the data set, say. */
static dpt_status open_model(cli_session *session, const cli_options *options)
{
    cli_session *s = session;
    const char *trained = s->weights.model;
    dpt_dataset_info info = {.size = sizeof info};
    if (!options->model && *trained && strcmp(trained, s->model_name) != 0)
        return dpt_fail(s->context, DPT_E_INVALID,
                        "%s is of the network %s, which is no built-in one: give --model", s->path,
                        trained);
    if (s->told) return cli_weights_model(s);
    const size_t length = strlen(s->model_name);
    const bool file = length > 5 && strcmp(s->model_name + length - 5, ".onnx") == 0;
    if (!file) {
        DPT_TRY(dpt_dataset_open(s->context, s->data_name, options->data, DPT_TEST, &s->test));
        dpt_dataset_describe(s->test, &info);
    }
    const dpt_model_shape shape = {.height = info.height,
                                   .width = info.width,
                                   .channels = info.channels,
                                   .classes = info.outputs};
    return dpt_model_by_name(s->context, s->model_name, &shape, &s->model);
}

/* No device computes anything, so only one backend is looked for. */
static dpt_status export_model(cli_session *session, const cli_options *options)
{
    static const dpt_context_options one = {.size = sizeof one, .devices = "cpu"};
    const dpt_onnx_options onnx = {.size = sizeof onnx, .opset = (unsigned)options->opset};
    cli_session *s = session;
    DPT_TRY(dpt_context_create_with(&one, &s->context));
    cli_tell_notices(s->context);
    DPT_TRY(cli_weights_find(s, options));
    if (cli_is_same_file(s->path, options->onnx))
        return dpt_fail(s->context, DPT_E_INVALID,
                        "%s is the file of the weights: write the ONNX file to another place",
                        options->onnx);
    DPT_TRY(cli_weights_name(s, options, CLI_DATA_IF_ASKED));
    DPT_TRY(open_model(s, options));
    const dpt_status status = dpt_model_to_onnx(s->model, s->path, options->onnx, &onnx);
    return status == DPT_E_INVALID && cli_weights_own(s) ? DPT_E_FORMAT : status;
}

int cli_export(const cli_options *options)
{
    if (!options->checkpoint)
        return cli_error(CLI_USAGE, "export needs weights: --checkpoint=FILE or --checkpoint=DIR");
    if (!options->onnx) return cli_error(CLI_USAGE, "export needs a file to write: --onnx=FILE");
    cli_session session = {0};
    const dpt_status status = export_model(&session, options);
    const int code = status == DPT_OK ? CLI_OK : cli_fail(session.context, status);
    return cli_session_close(&session, code);
}
