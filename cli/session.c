/* Opens and closes what train, eval and predict have in common. */
#include "session.h"

#include "adapters.h"
#include "patience.h"
#include "recipe.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool cli_session_quiet(const cli_session *session, const cli_options *options)
{
    return options->quiet || dpt_process_rank(session->context) > 0;
}

/* On a terminal: says what the program is doing, or erases that line if `what` is empty. */
static void announce(bool quiet, const char *what)
{
    if (quiet || !cli_can_redraw(STDERR_FILENO)) return;
    fprintf(stderr, "\r\033[K%s", what);
    fflush(stderr);
}

/* Training and test data use the same mean and deviation: those of all training data, with the part
   for validation. */
static dpt_status normalize(cli_session *session, const cli_options *options)
{
    float *mean = session->mean, *deviation = session->deviation;
    dpt_dataset *data = session->whole;
    dpt_status status = DPT_OK;
    if (!data) {
        DPT_TRY(dpt_dataset_open(session->context, session->data_name, options->data, DPT_TRAIN,
                                 &data));
        status = dpt_dataset_arrange(session->context, data, session->model);
    }
    announce(cli_session_quiet(session, options), "measuring the images ...");
    if (status == DPT_OK) status = dpt_dataset_statistics(data, mean, deviation);
    announce(cli_session_quiet(session, options), "");
    if (status == DPT_OK) status = dpt_dataset_normalize(session->test, mean, deviation);
    if (status == DPT_OK && session->whole)
        status = dpt_dataset_normalize(session->whole, mean, deviation);
    if (!session->whole) dpt_dataset_destroy(data);
    session->normalized = status == DPT_OK;
    return status;
}

static dpt_status open_test(cli_session *session, const cli_options *options, unsigned with)
{
    dpt_context *context = session->context;
    const char *data = options->test_data ? options->test_data : options->data;
    if (options->test_data && !cli_is_text(session->data_name))
        return dpt_fail(context, DPT_E_INVALID,
                        "--test-data goes with text and tokens, not with %s", session->data_name);
    const dpt_status status =
        dpt_dataset_open(context, session->data_name, data, DPT_TEST, &session->test);
    const bool untold = with & CLI_DATA_IF_ASKED && session->weights.channels == 0;
    if (!untold || status != DPT_E_NOT_FOUND) return status;
    return dpt_fail(
        context, status,
        "%s does not tell the size of its images and its classes, and the data set that "
        "would is missing: %s",
        session->path, dpt_error_message(context));
}

static dpt_status open_parts(cli_session *session, const cli_options *options, unsigned with)
{
    /* The smaller part first: its errors appear before the larger part is decoded. */
    const bool decodes = cli_is_folder(session->data_name);
    dpt_status status = DPT_OK;
    if (decodes) announce(cli_session_quiet(session, options), "reading pictures ...");
    if (decodes) status = open_test(session, options, with);
    if (status == DPT_OK && with & CLI_WITH_TRAIN)
        status = dpt_dataset_open(session->context, session->data_name, options->data, DPT_TRAIN,
                                  &session->whole);
    if (status == DPT_OK && !decodes) status = open_test(session, options, with);
    if (decodes) announce(cli_session_quiet(session, options), "");
    return status;
}

/* Arrays of files are put in the order of the model's inputs. */
static dpt_status prepare_data(cli_session *session, const cli_options *options)
{
    if (session->whole)
        DPT_TRY(dpt_dataset_arrange(session->context, session->whole, session->model));
    DPT_TRY(dpt_dataset_arrange(session->context, session->test, session->model));
    if (options->normalize) DPT_TRY(normalize(session, options));
    session->train = session->whole;
    if (options->validation > 0)
        return dpt_dataset_split(session->whole, options->validation, options->seed,
                                 &session->train, &session->validation);
    return DPT_OK;
}

/* The context gets the device list, so that it does not look for backends that the list does not
 * name. */
dpt_status cli_open_context(const cli_options *options, dpt_context **out)
{
    announce(options->quiet, "looking for devices ...");
    const dpt_context_options how = {
        .size = sizeof how, .device_timeout = options->device_timeout, .devices = options->devices};
    const dpt_status status = dpt_context_create_with(&how, out);
    announce(options->quiet, "");
    if (status == DPT_OK && !options->quiet) cli_tell_notices(*out);
    return status;
}

/* Of several processes the first one speaks. */
static void tell_notice(void *context, const char *line)
{
    if (dpt_process_rank(context) == 0) (void)cli_error(CLI_OK, "%s", line);
}

void cli_tell_notices(dpt_context *context)
{
    dpt_context_notices(context, tell_notice, context);
}

void cli_tell_left_out(dpt_context *context)
{
    if (dpt_context_abandoned(context) == 0) return;
    for (size_t b = 0; b < dpt_backend_count(context); b++) {
        if (dpt_backend_status(context, b) == DPT_E_DEVICE_LOST)
            (void)cli_error(CLI_OK, "going on without %s: %s", dpt_backend_name(context, b),
                            dpt_backend_reason(context, b));
        for (size_t i = 0; i < dpt_backend_device_count(context, b); i++) {
            dpt_device_info device = {.size = sizeof device};
            if (dpt_backend_describe(context, b, i, &device) == DPT_E_DEVICE_LOST)
                (void)cli_error(CLI_OK, "going on without %s", dpt_error_message(context));
        }
    }
}

dpt_status cli_open_devices(cli_session *session, const cli_options *options)
{
    DPT_TRY(dpt_context_set_precision(session->context, options->precision));
    announce(cli_session_quiet(session, options), "opening devices ...");
    const dpt_status status =
        dpt_device_set_open(session->context, options->devices, &session->devices);
    announce(cli_session_quiet(session, options), "");
    if (status == DPT_OK) cli_tell_left_out(session->context);
    return status;
}

static dpt_status name_both(cli_session *session, const cli_options *options, unsigned with)
{
    const bool of_weights = !(with & CLI_WITH_TRAIN) && options->checkpoint;
    if (of_weights) DPT_TRY(cli_weights_find(session, options));
    return cli_weights_name(session, options, with);
}

/* The outputs of a model for these data.  Integers of a file of arrays that a loss of targets reads
   are one number to predict, and no classes (dpt_dataset_arrange). */
static size_t outputs_for(const cli_session *session, const cli_options *options,
                          const dpt_dataset_info *data)
{
    const bool of_labels = cli_loss_of(options, &session->weights) == DPT_LOSS_CROSS_ENTROPY;
    return cli_is_arrays(data->name) && data->labels_per_sample == 1 && !of_labels ? 1
                                                                                   : data->outputs;
}

static dpt_status open_model(cli_session *session, const cli_options *options,
                             const dpt_dataset *data)
{
    dpt_dataset_info info = {.size = sizeof info};
    dpt_dataset_describe(data, &info);
    cli_adapters adapters;
    if (options->lora) DPT_TRY(cli_adapters_read(session->context, options, &adapters));
    const dpt_model_by_name_options how = {
        .size = sizeof how,
        .shape = {.height = info.height,
                  .width = info.width,
                  .channels = info.channels,
                  .classes = outputs_for(session, options, &info)},
        .lora = options->lora ? &adapters.options : NULL};
    return dpt_model_by_name_with(session->context, session->model_name, &how, &session->model);
}

/* Slurm gives each process of a step its number in the step.  Without PMIx, or the PMI that MPI was
   built for, MPI does not learn that there are others. */
static void tell_separate(void)
{
    const char *n = getenv("SLURM_STEP_NUM_TASKS"), *rank = getenv("SLURM_PROCID"),
               *transport = getenv("DPTRAIN_TRANSPORT");
    const bool launched = dpt_processes_launched() > 1 || getenv("OMPI_COMM_WORLD_RANK") ||
                          getenv("PMI_RANK") || (transport && strcmp(transport, "none") == 0);
    if (launched || !n || strtol(n, NULL, 10) < 2 || !rank || strcmp(rank, "0") != 0) return;
    (void)cli_error(CLI_OK,
                    "warning: srun has started %.9s processes, and each of them works alone: start "
                    "them with srun --mpi=pmix, or with DPTRAIN_TRANSPORT=none if they are to",
                    n);
}

dpt_status cli_session_open(cli_session *session, const cli_options *options, unsigned with)
{
    const bool with_train = with & CLI_WITH_TRAIN;
    *session = (cli_session){0};
    session->context = options->context;
    if (!session->context) DPT_TRY(cli_open_context(options, &session->context));
    dpt_context *context = session->context;
    if (with & CLI_WITH_PROCESSES) {
        DPT_TRY(dpt_processes_join_for(context, with_train ? "train" : "eval"));
        tell_separate();
    }
    DPT_TRY(name_both(session, options, with));
    DPT_TRY(cli_open_devices(session, options));
    if (session->told) return cli_weights_model(session);
    DPT_TRY(open_parts(session, options, with));
    DPT_TRY(open_model(session, options, with_train ? session->whole : session->test));
    return prepare_data(session, options);
}

/* Reports a failure that only this process knows of, with the process and the host. */
static int fail_alone(const dpt_context *context, dpt_status status)
{
    static const char name[] = "process ";
    const char *message = dpt_error_message(context);
    char host[256] = "";
    const int code = cli_code_of(status);
    if (!*message) message = dpt_status_words(status);
    /* The message of a failure between processes, or of a device in a step, names them already. */
    if (strncmp(message, name, sizeof name - 1) == 0 || dpt_process_comes(context))
        return cli_error(code, "%s", message);
    if (gethostname(host, sizeof host - 1) != 0) host[0] = '\0';
    return cli_error(code, "%s%zu (%s): %s", name, dpt_process_rank(context), host, message);
}

int cli_session_fail(const cli_session *session, dpt_status status)
{
    const dpt_context *context = session->context;
    if (context && !dpt_process_speaks(context)) return cli_code_of(status);
    const int code = context && !dpt_process_agreed(context) ? fail_alone(context, status)
                                                             : cli_fail(context, status);
    if (context) dpt_process_give_up(session->context);
    return code;
}

int cli_session_fail_working(const cli_session *session, dpt_status status)
{
    const int code = cli_session_fail(session, status);
    return status == DPT_E_DEVICE && session->trainer ? CLI_DEVICES_LOST : code;
}

void cli_session_tell_lost(const cli_session *session)
{
    dpt_device_event event = {.size = sizeof event};
    while (dpt_trainer_next_event(session->trainer, &event))
        if (event.kind == DPT_DEVICE_LOST)
            (void)cli_error(CLI_OK, "device %s is lost, and the others compute its samples: %s",
                            event.id, event.message);
}

static void tell_remarks(const dpt_model *model)
{
    const char *remark;
    for (size_t i = 0; (remark = dpt_model_remark(model, i)) != NULL; i++)
        (void)cli_error(CLI_OK, "warning: %s", remark);
}

/* On a terminal the user sees at once what takes long, and elsewhere if it takes long. */
static dpt_status prepare(cli_session *session, const dpt_trainer_options *trainer, bool quiet)
{
    const bool waits = !quiet && !cli_can_redraw(STDERR_FILENO);
    cli_patience patience;
    announce(quiet, "preparing (kernels that a device has never run are compiled and timed) ...");
    if (waits) cli_patience_begin(&patience);
    const dpt_status status = dpt_trainer_create(session->devices, session->model, session->train,
                                                 trainer, &session->trainer);
    if (waits) cli_patience_end(&patience);
    announce(quiet, "");
    return status;
}

dpt_status cli_session_create_trainer(cli_session *session, const cli_options *options)
{
    dpt_dataset_info data = {.size = sizeof data};
    dpt_dataset_describe(session->train, &data);
    const dpt_trainer_options trainer = cli_trainer_options(options, data.count);
    return prepare(session, &trainer, cli_session_quiet(session, options));
}

dpt_status cli_session_prepare_training(cli_session *session, const cli_options *options,
                                        unsigned with)
{
    DPT_TRY(cli_session_open(session, options, with | CLI_WITH_TRAIN));
    DPT_TRY(cli_class_weights(session, options));
    if (dpt_process_rank(session->context) == 0) tell_remarks(session->model);
    return DPT_OK;
}

dpt_status cli_session_open_training(cli_session *session, const cli_options *options,
                                     unsigned with)
{
    DPT_TRY(cli_session_prepare_training(session, options, with));
    return cli_session_create_trainer(session, options);
}

int cli_session_close(cli_session *session, int code)
{
    /* Flush first: a device may keep this process waiting, or mpirun may end it because another
       process has failed. */
    code = cli_flush(code);
    dpt_trainer_destroy(session->trainer);
    dpt_model_destroy(session->model);
    dpt_dataset_destroy(session->test);
    dpt_dataset_destroy(session->validation);
    if (session->train != session->whole) dpt_dataset_destroy(session->train);
    dpt_dataset_destroy(session->whole);
    dpt_device_set_close(session->devices);
    const size_t n_stuck = session->context ? dpt_context_abandoned(session->context) : 0;
    dpt_context_destroy(session->context);
    dpt_weights_release(&session->weights);
    *session = (cli_session){0};
    if (n_stuck > 0) cli_leave(n_stuck, code);
    return code;
}

void cli_print_device(const dpt_device_info *device)
{
    const char *what = strcmp(device->backend, "cpu") == 0 ? "thread" : "compute unit";
    printf("%s: %s", device->id, device->name);
    if (device->n_threads)
        printf(", %u %s%s", device->n_threads, what, device->n_threads == 1 ? "" : "s");
    if (device->detail[0]) printf(" (%s)", device->detail);
    if (device->host) printf("; process %zu on %s", device->process, device->host);
    printf("\n");
}
