/* dptrain train: prints the header, runs the training loop, and prints the result. */
#include "config.h"
#include "merge.h"
#include "recipe.h"
#include "session.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- The header ------------------------------------------------------------------------------ */

static dpt_status print_devices(const dpt_trainer *trainer)
{
    for (size_t i = 0; i < dpt_trainer_device_count(trainer); i++) {
        dpt_device_info device = {.size = sizeof device};
        DPT_TRY(dpt_trainer_device(trainer, i, &device));
        printf("%-10s", i ? "" : "devices");
        cli_print_device(&device);
    }
    return DPT_OK;
}

static void print_processes(const dpt_context *context, const cli_options *options)
{
    const size_t n = dpt_process_count(context);
    const double timeout = dpt_process_timeout(context);
    char transport[128];
    const size_t n_more = dpt_process_may_come(context);
    if (dpt_process_most(context) == 1) return;
    printf("%-10s%zu: if one dies", "processes", n);
    if (timeout > 0) printf(", or stands still for %g s", timeout);
    printf(", the training %s\n", dpt_process_survives(context) && options->local_steps == 0
                                      ? "goes on without it"
                                      : "ends");
    if (n_more > 0)
        printf("%-10sup to %zu more may come: dptrain join %s\n", "", n_more,
               getenv("DPTRAIN_ADDRESS"));
    dpt_process_transport(context, transport, sizeof transport);
    printf("%-10smessages between them go through %s\n", "", transport);
}

/* The outer momentum's default suits long rounds. */
static void warn_of_short_rounds(const cli_options *options)
{
    enum { SHORT = 50 };
    const bool chosen = cli_is_given(options, offsetof(cli_options, outer_momentum)) ||
                        cli_is_given(options, offsetof(cli_options, outer_lr));
    if (options->local_steps == 0 || options->local_steps >= SHORT || chosen) return;
    cli_note("rounds of less than %d local steps may train badly with the default outer step; "
             "--outer-lr 1 --outer-momentum 0 takes the mean of the processes",
             SHORT);
}

static dpt_status print_header(const cli_session *session, const cli_options *options)
{
    dpt_dataset_info train = {.size = sizeof train}, test = {.size = sizeof test};
    dpt_dataset_describe(session->train, &train);
    dpt_dataset_describe(session->test, &test);
    const size_t n = dpt_model_parameter_count(session->model),
                 n_trained = dpt_trainer_trained_count(session->trainer);
    printf("%-10s%s, %zu parameters", "model", dpt_model_name(session->model), n);
    if (n_trained != n) printf(", %zu of them trained", n_trained);
    printf("\n");
    const bool text = cli_is_text(train.name);
    if (text)
        printf("%-10s%s, %zu + %zu windows of %zu, a vocabulary of %zu (%s)\n", "data", train.name,
               train.count, test.count, train.channels, train.vocabulary, train.source);
    else
        printf("%-10s%s, %zu + %zu images of %zux%zux%zu, %zu classes (%s)\n", "data", train.name,
               train.count, test.count, train.height, train.width, train.channels, train.outputs,
               train.source);
    if (!text && (train.read_as_needed || test.read_as_needed))
        printf("%-10s%s read as they are needed\n", "",
               !test.read_as_needed    ? "training images are"
               : !train.read_as_needed ? "test images are"
                                       : "images are");
    if ((text || cli_has_test_files(train.name)) && strcmp(train.source, test.source) == 0)
        printf("%-10sno file of test data: the test samples are the training samples\n", "");
    if (session->validation) {
        dpt_dataset_info validation = {.size = sizeof validation};
        dpt_dataset_describe(session->validation, &validation);
        printf("%-10sand %zu for validation\n", "", validation.count);
    }
    DPT_TRY(print_devices(session->trainer));
    print_processes(session->context, options);
    warn_of_short_rounds(options);
    if (options->config) printf("%-10s%s\n", "settings", options->config);
    cli_recipe_print(options, train.count, session->trainer);
    return DPT_OK;
}

/* ---- The end --------------------------------------------------------------------------------- */

static void print_files(const cli_options *options, bool best)
{
    const char *const files[] = {options->log, options->plot, options->trace, options->tensorboard,
                                 options->report};
    const char *separator = "wrote ";
    if (options->checkpoint) {
        printf("%s%s/%s.safetensors", separator, options->checkpoint,
               options->lora ? "adapter_model" : "model");
        separator = ", ";
        if (best) printf("%s%s/best.safetensors", separator, options->checkpoint);
    }
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        if (!files[i]) continue;
        printf("%s%s", separator, files[i]);
        separator = ", ";
    }
    if (separator[0] == ',') printf("\n");
}

/* Says how long devices waited for images.  If it is long, more processors help, and faster devices
   do not. */
static void print_waiting(const cli_progress *progress)
{
    const double part = progress->data_seconds / progress->step_seconds;
    if (part >= 0.01)
        printf("for %.0f%% of the time no device had work, because samples were still being read\n",
               100 * part);
}

static dpt_status print_result(const cli_session *session, const cli_options *options,
                               const dpt_fit_result *result, const cli_progress *progress)
{
    if (result->no_patience)
        printf("ended: no lower validation loss in %zu epoch%s\n", options->patience,
               options->patience == 1 ? "" : "s");
    const cli_unit unit = progress->unit;
    printf("trained %zu step%s in %.1f s, %.0f %s", result->steps, result->steps == 1 ? "" : "s",
           result->seconds, unit.per_sample * result->images_per_second, unit.name);
    if (!isnan(result->test_accuracy) && !progress->regression)
        printf(", test accuracy %.4f", result->test_accuracy);
    if (result->best_epoch)
        printf(", best validation loss %.4f in epoch %zu", result->best_validation_loss,
               result->best_epoch);
    printf("\n");
    print_waiting(progress);
    DPT_TRY(cli_print_account(session, options));
    print_files(options, result->best_epoch > 0);
    return DPT_OK;
}

/* How a training ended. */
typedef struct ending {
    dpt_fit_result result;
    bool deserted; /* training ended because of its devices */
} ending;

/* Whether training continues from a checkpoint, whose weights it takes. */
static bool goes_on(const cli_options *options)
{
    return options->resume && cli_has_checkpoint(options->checkpoint);
}

static dpt_status load(const cli_session *session, const cli_options *options)
{
    char path[4096];
    const dpt_load_options how = {
        .size = sizeof how, .except = options->fresh, .partial = options->load_partial};
    if (!cli_weights_path(options->load, path, sizeof path))
        return dpt_fail(session->context, DPT_E_INVALID, "--load: the path is too long");
    return dpt_trainer_load_with(session->trainer, path, &how);
}

/* The first of several processes writes the file of --save-config. */
static dpt_status save_config(const cli_session *session, const cli_options *options)
{
    if (dpt_processes_launched() <= 1 || dpt_process_rank(session->context) > 0 ||
        cli_config_save(CLI_TRAIN, options) == CLI_OK)
        return DPT_OK;
    return dpt_fail(session->context, DPT_E_IO, "--save-config: %s is not written",
                    options->save_config);
}

static dpt_fit_options fit_options(const cli_session *session, const cli_options *options,
                                   cli_progress *progress)
{
    return (dpt_fit_options){
        .size = sizeof(dpt_fit_options),
        .epochs = progress->epochs,
        .max_steps = options->max_steps,
        .max_seconds = options->max_time,
        .test = session->test,
        .validation = session->validation,
        .patience = options->patience,
        .schedule = cli_schedule(options, progress->samples_per_epoch),
        .schedule_steps = options->schedule_steps,
        .log = options->log,
        .plot = options->plot,
        .trace = options->trace,
        .tensorboard = options->tensorboard,
        .tensorboard_histograms = options->tensorboard_histograms,
        .report = options->report,
        .metrics = options->metrics,
        .command = options->command,
        .checkpoint = options->checkpoint,
        .checkpoint_every = options->checkpoint_every,
        .checkpoint_keep = options->checkpoint_keep,
        .host_copy = options->host_copy,
        .resume = options->resume,
        .copies = options->copies,
        .again = options->again,
        .progress = cli_progress_show,
        .notice = cli_progress_notice,
        .user = progress,
        .wants_checkpoint = cli_signals_want_checkpoint,
    };
}

/* Creates the trainer, with the weights from which training begins, and prints the header, unless
   training goes on. */
static dpt_status begin(cli_session *session, const cli_options *options)
{
    const bool has_state = dpt_process_has_state(session->context),
               loads = !has_state && !goes_on(options);
    DPT_TRY(cli_session_create_trainer(session, options));
    if (!has_state) DPT_TRY(save_config(session, options));
    if (options->lora)
        DPT_TRY(cli_adapters_load(session, options, !loads));
    else if (options->load && loads)
        DPT_TRY(load(session, options));
    if (has_state || cli_session_quiet(session, options)) return DPT_OK;
    DPT_TRY(print_header(session, options));
    return cli_print_memory(session, options);
}

/* A process has died: trains with the devices of the others.  Or this process has come: waits until
   it is let in. */
static dpt_status go_on(cli_session *session, const cli_options *options)
{
    dpt_trainer_destroy(session->trainer);
    session->trainer = NULL;
    DPT_TRY(dpt_process_go_on(session->context));
    return begin(session, options);
}

/* Tells processes that come the options of this training. */
static dpt_status invite(const cli_session *session, const cli_options *options)
{
    if (dpt_process_may_come(session->context) == 0) return DPT_OK;
    char *text = cli_config_text_for_joining(options);
    if (!text)
        return dpt_fail(session->context, DPT_E_INVALID,
                        "the options cannot be told to processes that come (DPTRAIN_JOINERS)");
    const dpt_status status = dpt_process_invite(session->context, text);
    free(text);
    return status;
}

/* Checks the devices of a process that has come to a job. */
static dpt_status check_room(const cli_session *session)
{
    const size_t n = dpt_device_set_count(session->devices),
                 room = dpt_process_room(session->context);
    if (n <= room) return DPT_OK;
    return dpt_fail(session->context, DPT_E_INVALID,
                    "the job has room for %zu more device%s, and this process has %zu: a batch "
                    "needs a sample for each",
                    room, room == 1 ? "" : "s", n);
}

/* A process with other data than the job's ends before it waits, and the others do not notice. */
static dpt_status check_task(const cli_session *session, const cli_options *options,
                             cli_progress *progress)
{
    const dpt_fit_options fit = fit_options(session, options, progress);
    dpt_dataset_info data = {.size = sizeof data};
    dpt_dataset_describe(session->train, &data);
    const dpt_trainer_options trainer = cli_trainer_options(options, data.count);
    return dpt_process_check(session->model, session->train, &trainer, &fit);
}

static void tell_let_in(const cli_session *session, const cli_options *options)
{
    if (!options->quiet)
        (void)cli_error(CLI_OK, "this process is let in as process %zu of %zu",
                        dpt_process_rank(session->context), dpt_process_count(session->context));
}

/* Trains, with the others if a process dies or comes.  A device that fails before the first step
   counts as one that cannot train. */
static dpt_status train_on(cli_session *session, const cli_options *options, cli_progress *progress,
                           ending *end)
{
    const dpt_fit_options fit = fit_options(session, options, progress);
    bool comes = dpt_process_comes(session->context);
    dpt_status status = comes ? go_on(session, options) : begin(session, options);
    if (status == DPT_OK) status = invite(session, options);
    for (;;) {
        if (status == DPT_OK && comes) tell_let_in(session, options);
        comes = comes && status != DPT_OK; /* a process of the job may die meanwhile */
        progress->quiet = cli_session_quiet(session, options);
        if (status == DPT_OK) cli_signals_catch();
        if (status == DPT_OK && !options->quiet) cli_signals_tell(session->context, progress->bar);
        const bool begun = status == DPT_OK;
        if (begun) status = dpt_fit(session->trainer, &fit, &end->result);
        end->deserted = begun && (status == DPT_E_DEVICE || status == DPT_E_DEVICE_LOST);
        if (status == DPT_OK || !dpt_process_can_go_on(session->context)) break;
        cli_progress_end(progress);
        status = go_on(session, options);
    }
    cli_signals_tell_no_more();
    cli_progress_end(progress);
    return status;
}

/* Trains.  --supervise does not try again if a device cannot train, unless the device is lost or
   does not answer. */
static dpt_status train(cli_session *session, const cli_options *options, ending *end)
{
    cli_signals_catch_wishes(options);
    DPT_TRY(cli_session_prepare_training(session, options, CLI_WITH_PROCESSES));
    dpt_dataset_info data = {.size = sizeof data};
    dpt_dataset_describe(session->train, &data);
    DPT_TRY(check_room(session));
    cli_progress progress;
    cli_progress_init(&progress, cli_session_quiet(session, options));
    progress.regression =
        cli_loss(options) != DPT_LOSS_CROSS_ENTROPY || dpt_model_gives_loss(session->model);
    progress.epochs = cli_epochs(options);
    progress.samples_per_epoch = data.count;
    progress.unit = cli_unit_of(session->train);
    progress.max_seconds = options->max_time;
    DPT_TRY(check_task(session, options, &progress));
    dpt_status status = train_on(session, options, &progress, end);
    if (status == DPT_OK && !cli_session_quiet(session, options))
        status = print_result(session, options, &end->result, &progress);
    return status;
}

/* Returns the exit status of a training that was asked to end.  The first process prints the
 * reason. */
static int tell_stopped(const cli_session *session, const cli_options *options, const ending *end)
{
    const size_t by = end->result.stopped_by;
    const int signal = end->result.stopped_for, code = cli_signals_status(signal, options);
    const char *resume = options->checkpoint ? "; --resume continues" : "";
    if (dpt_process_rank(session->context) > 0) return code;
    if (by == 0) return cli_error(code, "ended early by signal %d%s", signal, resume);
    return cli_error(code, "ended early: process %zu asked for the end because of signal %d%s", by,
                     signal, resume);
}

int cli_train(const cli_options *options)
{
    int usage = cli_recipe_check(options);
    /* Of several processes the first one writes it, once they know which one that is. */
    if (usage == CLI_OK && dpt_processes_launched() <= 1)
        usage = cli_config_save(CLI_TRAIN, options);
    if (usage != CLI_OK) return usage;
    cli_session session;
    ending end = {.result = {.size = sizeof end.result}};
    const dpt_status status = train(&session, options, &end);
    int code = CLI_OK;
    /* Another process, or its host, may have ended: a supervisor starts the job again. */
    const bool cut_off = options->copies && session.context && dpt_process_cut_off(session.context);
    if (status != DPT_OK)
        code = cli_session_fail(&session, status);
    else if (end.result.stopped)
        code = tell_stopped(&session, options, &end);
    if (status == DPT_E_INVALID && goes_on(options) && options->taken.model &&
        dpt_process_rank(session.context) == 0)
        cli_note("what no option says is the recipe of %s; a checkpoint of --recipe none, or of a "
                 "version without recipes, goes on with --recipe none",
                 options->taken.model);
    if (end.deserted || (code == CLI_FAILURE && cut_off)) code = CLI_DEVICES_LOST;
    return cli_session_close(&session, code);
}
