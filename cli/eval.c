/* dptrain eval: prints loss and accuracy of saved weights on the test data, and figures of classes.
 */
#include "metrics.h"
#include "new_file.h"
#include "recipe.h"
#include "session.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

/* Fails with the name of a sample.  The data of the command line may be of one place or of two. */
static dpt_status fail_sample(const cli_session *session, const cli_options *options, size_t sample)
{
    dpt_dataset_info data = {.size = sizeof data};
    const dpt_dataset_place place = {session->data_name, options->data, DPT_TEST};
    char name[PATH_MAX];
    dpt_dataset_describe(session->test, &data);
    if (!cli_is_folder(data.name) ||
        dpt_dataset_file(session->context, &place, sample, name, sizeof name) != DPT_OK)
        snprintf(name, sizeof name, "sample %zu of %s", sample, data.name);
    return dpt_fail(session->context, DPT_E_NOT_FINITE,
                    "%s: neither the outputs of the network nor the loss are finite; the weights "
                    "are damaged, or their training diverged",
                    name);
}

/* Looks for the first sample whose outputs are not finite.  If there is none, the failure of the
   evaluation stays. */
static dpt_status name_not_finite(const cli_session *session, const cli_options *options)
{
    dpt_dataset_info data = {.size = sizeof data};
    dpt_dataset_describe(session->test, &data);
    const size_t n = dpt_model_outputs(session->model) * dpt_model_labels(session->model);
    char why[DPT_WHY_BYTES];
    snprintf(why, sizeof why, "%s", dpt_error_message(session->context));
    float *outputs = calloc(n, sizeof *outputs);
    dpt_status status = outputs ? DPT_OK : DPT_E_NO_MEMORY;
    for (size_t i = 0; status == DPT_OK && i < data.count; i++) {
        status = dpt_trainer_predict(session->trainer, session->test, i, 1, outputs);
        for (size_t k = 0; status == DPT_OK && k < n; k++)
            if (!isfinite(outputs[k])) status = fail_sample(session, options, i);
    }
    free(outputs);
    return status == DPT_E_NOT_FINITE ? status
                                      : dpt_fail(session->context, DPT_E_NOT_FINITE, "%s", why);
}

/* What was found. */
typedef struct found {
    dpt_evaluation sum;
    dpt_classification *classes; /* NULL: not asked for */
} found;

static float huber_delta(const cli_session *session, const cli_options *options)
{
    if (cli_loss_of(options, &session->weights) != DPT_LOSS_HUBER) return 0;
    return options->huber_delta > 0 ? (float)options->huber_delta : session->weights.huber_delta;
}

static dpt_status evaluate(cli_session *session, const cli_options *options, const char *weights,
                           found *out)
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
        .loss = cli_loss_of(options, &session->weights),
        .huber_delta = huber_delta(session, options),
        .device_timeout = options->device_timeout,
        .deterministic = options->deterministic,
        /* An evaluation takes no statistics, which would limit what is deterministic. */
        .batch_norm = options->deterministic ? DPT_BATCH_NORM_FROZEN : DPT_BATCH_NORM_SYNC,
    };
    DPT_TRY(dpt_trainer_create(session->devices, session->model, session->test, &trainer,
                               &session->trainer));
    DPT_TRY(dpt_trainer_load(session->trainer, weights));
    dpt_status status = dpt_trainer_evaluate(session->trainer, session->test, &out->sum);
    if (status == DPT_E_NOT_FINITE && dpt_processes_launched() <= 1)
        status = name_not_finite(session, options);
    if (status == DPT_OK && options->metrics)
        status = dpt_trainer_classify(session->trainer, session->test, &out->classes);
    cli_session_tell_lost(session);
    return status;
}

/* The loss, of a deterministic evaluation with the digits that the log of a training has. */
static void write_loss(const cli_options *options, bool classifies, double loss, char text[32])
{
    if (options->deterministic)
        snprintf(text, 32, "%.9g", loss);
    else if (classifies)
        snprintf(text, 32, "%.4f", loss);
    else
        snprintf(text, 32, "%.6g", loss);
}

static void print(const cli_session *session, const cli_options *options, const cli_evaluated *of)
{
    const dpt_evaluation *e = of->evaluation;
    const cli_unit unit = cli_unit_of(session->test);
    char loss[32];
    write_loss(options, of->classifies, e->loss, loss);
    if (of->classifies)
        printf("test loss %s accuracy %.4f  %zu of %zu right  %.1f s  %.0f %s\n", loss, e->accuracy,
               e->hits, e->labels, e->seconds,
               e->seconds > 0 ? unit.per_sample * (double)e->samples / e->seconds : 0, unit.name);
    else
        printf("test loss %s  %zu samples  %.1f s\n", loss, e->samples, e->seconds);
    if (of->perplexity > 0) printf("perplexity %.4f", of->perplexity);
    if (of->bits_per_byte > 0) printf(", %.4f bits per byte", of->bits_per_byte);
    if (of->perplexity > 0) printf("\n");
    if (of->classes) cli_metrics_print(of);
}

/* Prints the result, and writes it to the file of --json.  A network that predicts text has two
   more figures: from how many ids it would choose if all were as likely, and how many bits it needs
   for a byte. */
static int show(const cli_session *session, const cli_options *options, const found *result)
{
    dpt_dataset_info data = {.size = sizeof data};
    dpt_dataset_describe(session->test, &data);
    cli_evaluated of = {.data = &data,
                        .evaluation = &result->sum,
                        .classifies =
                            cli_loss_of(options, &session->weights) == DPT_LOSS_CROSS_ENTROPY &&
                            !dpt_model_gives_loss(session->model),
                        .classes = result->classes};
    if (of.classifies && cli_is_text(data.name)) {
        of.perplexity = exp(result->sum.loss);
        if (data.bytes_per_label > 0)
            of.bits_per_byte = result->sum.loss / log(2) / data.bytes_per_label;
    }
    print(session, options, &of);
    return options->json ? cli_metrics_write(&of, options->json) : CLI_OK;
}

int cli_eval(const cli_options *options)
{
    char weights[PATH_MAX];
    if (!options->checkpoint)
        return cli_error(CLI_USAGE, "eval needs weights: --checkpoint=FILE or --checkpoint=DIR");
    if (!cli_weights_path(options->checkpoint, weights, sizeof weights))
        return cli_error(CLI_USAGE, "--checkpoint: the path is too long");
    if (options->json && cli_new_file_check(options->json) != CLI_OK) return CLI_FAILURE;
    cli_session session;
    found result = {.sum = {.size = sizeof result.sum}};
    const dpt_status status = evaluate(&session, options, weights, &result);
    int code = CLI_OK;
    if (status != DPT_OK)
        code = cli_session_fail_working(&session, status);
    else if (dpt_process_rank(session.context) == 0)
        code = show(&session, options, &result);
    dpt_classification_destroy(result.classes);
    return cli_session_close(&session, code);
}
