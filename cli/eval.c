/* dptrain eval: prints loss and accuracy of saved weights on the test data. */
#include "recipe.h"
#include "session.h"

#include <limits.h>
#include <stdio.h>

static dpt_status evaluate(cli_session *session, const cli_options *options, const char *weights,
                           dpt_evaluation *out)
{
    DPT_TRY(cli_session_open(session, options, CLI_WITH_PROCESSES));
    DPT_TRY(cli_weights_classes(session));
    DPT_TRY(cli_weights_adopt(session, options, weights));
    dpt_dataset_info data = {.size = sizeof data};
    dpt_dataset_describe(session->test, &data);
    const dpt_trainer_options trainer = {
        .size = sizeof trainer,
        .batch_size = cli_batch_size(options, data.count),
        .split = dpt_split_from(options->split),
        .loss = cli_loss(options),
        .device_timeout = options->device_timeout,
    };
    DPT_TRY(dpt_trainer_create(session->devices, session->model, session->test, &trainer,
                               &session->trainer));
    DPT_TRY(dpt_trainer_load(session->trainer, weights));
    const dpt_status status = dpt_trainer_evaluate(session->trainer, session->test, out);
    cli_session_tell_lost(session);
    return status;
}

int cli_eval(const cli_options *options)
{
    char weights[PATH_MAX];
    if (!options->checkpoint)
        return cli_error(CLI_USAGE, "eval needs weights: --checkpoint=FILE or --checkpoint=DIR");
    if (!cli_weights_path(options->checkpoint, weights, sizeof weights))
        return cli_error(CLI_USAGE, "--checkpoint: the path is too long");
    cli_session session;
    dpt_evaluation result = {.size = sizeof result};
    const dpt_status status = evaluate(&session, options, weights, &result);
    int code = CLI_OK;
    if (status == DPT_OK && dpt_process_rank(session.context) > 0)
        code = CLI_OK;
    else if (status == DPT_OK &&
             (cli_loss(options) != DPT_LOSS_CROSS_ENTROPY || dpt_model_gives_loss(session.model)))
        printf("test loss %.6g  %zu samples  %.1f s\n", result.loss, result.samples,
               result.seconds);
    else if (status == DPT_OK)
        printf("test loss %.4f accuracy %.4f  %zu of %zu right  %.1f s  %.0f img/s\n", result.loss,
               result.accuracy, result.hits, result.labels, result.seconds,
               result.seconds > 0 ? (double)result.samples / result.seconds : 0);
    else
        code = cli_session_fail_working(&session, status);
    return cli_session_close(&session, code);
}
