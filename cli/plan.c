/* dptrain plan: prints the layers of a training and what each device needs for it, without
 * training. */
#include "chosen.h"
#include "config.h"
#include "measure.h"
#include "recipe.h"
#include "session.h"
#include "settling.h"

#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

static double mebibytes(size_t bytes)
{
    return (double)bytes / (1024.0 * 1024.0);
}

/* ---- Layers ---------------------------------------------------------------------------------- */

/* The width of the column of names, at least that of the heading. */
static int name_width(const dpt_model *model)
{
    size_t width = sizeof "LAYER";
    for (size_t i = 0; i < dpt_model_layer_count(model); i++) {
        dpt_layer_info layer = {.size = sizeof layer};
        dpt_model_layer(model, i, &layer);
        if (strlen(layer.name) > width) width = strlen(layer.name);
    }
    return (int)width;
}

static void print_layers(const dpt_trainer *trainer, const dpt_model *model)
{
    const size_t n = dpt_model_parameter_count(model),
                 n_trained = dpt_trainer_trained_count(trainer);
    const int width = name_width(model);
    double multiply_adds = 0;
    printf("%-*s  %-10s  %15s  %12s  %14s\n", width, "LAYER", "KIND", "OUTPUT", "PARAMETERS",
           "MULTIPLY-ADDS");
    for (size_t i = 0; i < dpt_model_layer_count(model); i++) {
        dpt_layer_info layer = {.size = sizeof layer};
        char output[48];
        dpt_model_layer(model, i, &layer);
        snprintf(output, sizeof output, "%zux%zux%zu", layer.height, layer.width, layer.channels);
        printf("%-*s  %-10s  %15s  %12zu  %14.0f\n", width, layer.name, layer.kind, output,
               layer.parameters, layer.multiply_adds);
        multiply_adds += layer.multiply_adds;
    }
    printf("%-*s  %-10s  %15s  %12zu  %14.0f\n", width, dpt_model_name(model), "", "a sample", n,
           multiply_adds);
    if (n_trained != n) printf("%zu of the %zu parameters are trained\n", n_trained, n);
}

/* ---- Devices --------------------------------------------------------------------------------- */

int cli_id_width(const dpt_device_set *devices)
{
    size_t width = sizeof "DEVICE";
    for (size_t i = 0; i < dpt_device_set_count(devices); i++) {
        dpt_device_info about = {.size = sizeof about};
        dpt_device_describe(dpt_device_set_get(devices, i), &about);
        if (strlen(about.id) > width) width = strlen(about.id);
    }
    return (int)width;
}

static dpt_status print_device(dpt_trainer *trainer, const dpt_device *device, size_t i, int width)
{
    dpt_device_plan plan = {.size = sizeof plan};
    dpt_device_info about = {.size = sizeof about};
    DPT_TRY(dpt_trainer_plan(trainer, i, &plan));
    dpt_device_describe(device, &about);
    printf("%-*s %7zu %7zu  %10.1f %10.1f %11.1f %8.1f %8.1f %8.1f  %10.3f %10.2f\n", width,
           about.id, plan.samples, plan.micro_batch, mebibytes(plan.parameter_bytes),
           mebibytes(plan.optimizer_bytes), mebibytes(plan.activation_bytes),
           mebibytes(plan.step_bytes), mebibytes(plan.data_bytes), mebibytes(cli_plan_bytes(&plan)),
           plan.flops * 1e-9, mebibytes(plan.exchange_bytes));
    return DPT_OK;
}

static dpt_status print_devices(const cli_session *session)
{
    const int width = cli_id_width(session->devices);
    printf("%-*s %7s %7s  %10s %10s %11s %8s %8s %8s  %10s %10s\n", width, "DEVICE", "SAMPLES",
           "AT ONCE", "PARAMETERS", "OPTIMIZER", "ACTIVATIONS", "STEP", "DATA", "SUM", "GFLOP/STEP",
           "SENT/STEP");
    for (size_t i = 0; i < dpt_device_set_count(session->devices); i++)
        DPT_TRY(print_device(session->trainer, dpt_device_set_get(session->devices, i), i, width));
    printf("Memory in MiB; parameters with their gradients; sent: MiB to the other devices\n");
    return DPT_OK;
}

/* What devices exchange in a step where there are several, whether there are now or not. */
static dpt_status print_gradients(dpt_trainer *trainer)
{
    dpt_device_plan plan = {.size = sizeof plan};
    DPT_TRY(dpt_trainer_plan(trainer, 0, &plan));
    printf("Gradients of a step, which several devices exchange: %zu bytes (%.2f MiB)\n",
           plan.gradient_bytes, mebibytes(plan.gradient_bytes));
    return DPT_OK;
}

/* Host memory that gradients take between micro-batches. */
static dpt_status print_kept(dpt_trainer *trainer)
{
    size_t sum = 0;
    for (size_t i = 0; i < dpt_trainer_device_count(trainer); i++) {
        dpt_device_plan plan = {.size = sizeof plan};
        DPT_TRY(dpt_trainer_plan(trainer, i, &plan));
        sum += plan.kept_bytes;
    }
    if (sum > 0)
        printf("Between micro-batches host memory has %.1f MiB of gradients\n", mebibytes(sum));
    return DPT_OK;
}

/* Bytes of one device at most, and of all. */
typedef struct copied_bytes {
    size_t most, sum;
} copied_bytes;

static void add_bytes(copied_bytes *all, size_t n_bytes)
{
    all->sum += n_bytes;
    if (n_bytes > all->most) all->most = n_bytes;
}

/* What is copied between host memory and devices because something is in parts. */
static dpt_status print_copies(dpt_trainer *trainer)
{
    copied_bytes gathered = {0, 0}, update = {0, 0};
    for (size_t i = 0; i < dpt_trainer_device_count(trainer); i++) {
        dpt_device_plan plan = {.size = sizeof plan};
        DPT_TRY(dpt_trainer_plan(trainer, i, &plan));
        add_bytes(&gathered, plan.gathered_bytes);
        add_bytes(&update, plan.update_bytes);
    }
    if (gathered.sum > 0)
        printf("Each micro-batch copies parameters from host memory to the devices: at most %.1f "
               "MiB to one, %.1f MiB to all\n",
               mebibytes(gathered.most), mebibytes(gathered.sum));
    if (update.sum > 0)
        printf("Behind its update each step copies between host memory and the devices: at most "
               "%.1f MiB for one, %.1f MiB for all\n",
               mebibytes(update.most), mebibytes(update.sum));
    return DPT_OK;
}

/* What parts cost if devices of several processes hold them.  A plan runs in one process. */
static void print_processes(const dpt_device_plan *plan)
{
    printf(
        "Over several processes parts take %.1f MiB of host memory in each, and behind the update "
        "each sends its part of %.1f MiB to every other one\n",
        mebibytes(2 * plan->mirror_bytes), mebibytes(plan->shared_bytes));
}

static size_t weight_bytes(const cli_session *session)
{
    return dpt_model_parameter_count(session->model) * sizeof(float);
}

/* What parameters, the optimizer's state, and gradients, take on each of several devices in parts
 * and without.
 */
static dpt_status print_parts(const cli_session *session)
{
    const size_t n = dpt_device_set_count(session->devices);
    const dpt_shard parts = dpt_trainer_sharded(session->trainer);
    dpt_device_plan plan = {.size = sizeof plan};
    size_t sum = 0;
    DPT_TRY(cli_sum_optimizer(session->trainer, &sum));
    DPT_TRY(dpt_trainer_plan(session->trainer, 0, &plan));
    if (n < 2) return DPT_OK;
    if (parts == DPT_SHARD_PARAMETERS)
        printf("Parameters, gradients and the optimizer's state are in parts: without --shard "
               "parameters %.1f MiB on each device; host memory has a copy of the training state\n",
               mebibytes(sum + plan.gradient_bytes + weight_bytes(session)));
    if (parts == DPT_SHARD_GRADIENTS)
        printf("Gradients and the optimizer's state are in parts: without --shard gradients %.1f "
               "MiB on each device; host memory has a copy of the training state\n",
               mebibytes(sum + plan.gradient_bytes));
    if (parts == DPT_SHARD_OPTIMIZER)
        printf("The optimizer's state is in parts: without --shard optimizer %.1f MiB on each "
               "device; host memory has a copy of the training state\n",
               mebibytes(sum));
    if (parts == DPT_SHARD_NONE && sum > 0)
        printf("The optimizer's state takes %.1f MiB on each device; with --shard optimizer on all "
               "devices together\n",
               mebibytes(sum / n));
    if (parts == DPT_SHARD_NONE)
        printf("Gradients take %.1f MiB on each device; with --shard gradients those of a few "
               "layers and a part of the sums\n",
               mebibytes(plan.gradient_bytes));
    if (parts == DPT_SHARD_NONE)
        printf("Parameters take %.1f MiB on each device; with --shard parameters those of a layer "
               "and a part of the others\n",
               mebibytes(weight_bytes(session)));
    if (dpt_trainer_offloaded(session->trainer))
        printf("CPUs hold the parts for all devices: %.1f MiB of the optimizer's state; with its "
               "copy host memory has %.1f MiB of it\n",
               mebibytes(sum), mebibytes(2 * sum));
    DPT_TRY(print_copies(session->trainer));
    if (parts != DPT_SHARD_NONE && !dpt_trainer_offloaded(session->trainer)) print_processes(&plan);
    return print_kept(session->trainer);
}

/* What --recompute costs. */
static dpt_status print_recomputed(dpt_trainer *trainer)
{
    double again = 0, sum = 0;
    for (size_t i = 0; i < dpt_trainer_device_count(trainer); i++) {
        dpt_device_plan plan = {.size = sizeof plan};
        DPT_TRY(dpt_trainer_plan(trainer, i, &plan));
        again += plan.recomputed_flops;
        sum += plan.flops;
    }
    if (again > 0)
        printf("Activations are computed again in the backward pass: %.3f of the %.3f GFLOP of a "
               "step\n",
               again * 1e-9, sum * 1e-9);
    return DPT_OK;
}

/* The memory for compression, and what travels, in case several processes train.  A plan runs in
   one process. */
static void print_compression(const dpt_trainer *trainer, const cli_options *options)
{
    const double n_bytes = mebibytes(dpt_trainer_feedback_bytes(trainer));
    const size_t sent = dpt_trainer_gradient_bytes(trainer);
    const bool low_rank = cli_trainer_options(options, 1).compress == DPT_COMPRESS_LOWRANK;
    if (n_bytes == 0) return;
    printf("Compression: %.1f MiB of host memory in each of several processes; for each process "
           "another %.1f MiB in a checkpoint, and with --checkpoint in the first one's memory\n",
           n_bytes, n_bytes / (low_rank ? 3 : 2));
    if (options->local_steps == 0)
        printf("The gradients of a step travel as %zu bytes (%.2f MiB)\n", sent, mebibytes(sent));
}

/* What several processes exchange with local steps, and keep for them in host memory. */
static void print_rounds(const dpt_round_plan *plan, const cli_options *options)
{
    const double each_step = (double)plan->exchange_bytes / (double)options->local_steps;
    printf("Local steps: several processes exchange %zu bytes (%.2f MiB) in a round of %zu steps, "
           "which is %.0f bytes a step\n",
           plan->exchange_bytes, mebibytes(plan->exchange_bytes), options->local_steps, each_step);
    if (plan->largest_bytes < plan->exchange_bytes)
        printf("They do so in %zu fragments, of at most %zu bytes (%.2f MiB)\n",
               options->outer_fragments, plan->largest_bytes, mebibytes(plan->largest_bytes));
    printf("Rounds take %.1f MiB of host memory in each process, and at their end another %.1f "
           "MiB\n",
           mebibytes(plan->host_bytes), mebibytes(plan->end_bytes));
}

/* Plans rounds, and refuses what training would refuse of them. */
static dpt_status plan_rounds(const cli_session *session, const cli_options *options,
                              dpt_round_plan *plan)
{
    dpt_dataset_info data = {.size = sizeof data};
    dpt_dataset_describe(session->train, &data);
    const dpt_trainer_options whole = cli_trainer_options(options, data.count);
    return dpt_trainer_plan_rounds(session->trainer, &whole, plan);
}

/* The memory that the process has used so far.  The devices have computed nothing yet. */
static void print_process(void)
{
    struct rusage usage;
    if (getrusage(RUSAGE_SELF, &usage) == 0)
        printf("The process itself: %.1f MiB, with the data in host memory\n",
               (double)usage.ru_maxrss / 1024.0);
}

/* ---- Choices --------------------------------------------------------------------------------- */

/* Prints the algorithm of each operation on each device. */
static dpt_status print_choices(const cli_session *session)
{
    const int width = name_width(session->model), device_width = cli_id_width(session->devices);
    printf("\n%-*s  %-*s  %-28s  %-20s  %s\n", device_width, "DEVICE", width, "LAYER", "OPERATION",
           "ALGORITHM", "MEASURED");
    for (size_t i = 0; i < dpt_device_set_count(session->devices); i++) {
        dpt_device_info about = {.size = sizeof about};
        dpt_device_describe(dpt_device_set_get(session->devices, i), &about);
        const size_t n = dpt_trainer_operation_count(session->trainer, i);
        for (size_t k = 0; k < n; k++) {
            dpt_operation o = {.size = sizeof o};
            DPT_TRY(dpt_trainer_operation(session->trainer, i, k, &o));
            printf("%-*s  %-*s  %-28s  %-*s%s\n", device_width, about.id, width, o.layer, o.kind,
                   *o.measured ? 22 : 0, o.algorithm, o.measured);
        }
    }
    return DPT_OK;
}

/* What --shard auto chose, with the combinations that it tried unless their table is to have a time
   that is yet to be measured. */
static dpt_status print_choice(const cli_session *session, const cli_options *options)
{
    if (dpt_trainer_candidate_count(session->trainer) == 0) return DPT_OK;
    DPT_TRY(cli_print_chosen(session, ""));
    if (options->measure == 0) DPT_TRY(cli_print_candidates(session, 0));
    printf("\n");
    return DPT_OK;
}

static dpt_status measure(const cli_session *session, const cli_options *options)
{
    double step_seconds = 0;
    fflush(stdout); /* measuring takes a while */
    cli_signals_catch();
    DPT_TRY(cli_measure(session, options->measure,
                        dpt_split_from(options->split).kind == DPT_SPLIT_MEASURED, &step_seconds));
    if (dpt_trainer_candidate_count(session->trainer) == 0) return DPT_OK;
    printf("\n");
    return cli_print_candidates(session, step_seconds);
}

static dpt_status plan(cli_session *session, const cli_options *options)
{
    dpt_round_plan rounds = {.size = sizeof rounds};
    cli_options alone = *options; /* a plan runs in one process, which takes no local steps */
    alone.local_steps = alone.outer_delay = alone.outer_fragments = 0;
    alone.outer_lr = alone.outer_momentum = 0;
    if (options->measure > 0) {
        alone.lr = CLI_HARMLESS_RATE;
        alone.stop_on_loss = true; /* the others alone are another plan */
    }
    DPT_TRY(cli_session_open_training(session, &alone, 0));
    DPT_TRY(plan_rounds(session, options, &rounds));
    DPT_TRY(print_choice(session, options));
    print_layers(session->trainer, session->model);
    printf("\n");
    DPT_TRY(print_devices(session));
    DPT_TRY(print_gradients(session->trainer));
    DPT_TRY(print_parts(session));
    DPT_TRY(print_recomputed(session->trainer));
    print_compression(session->trainer, options);
    if (rounds.exchange_bytes > 0) print_rounds(&rounds, options);
    print_process();
    if (options->verbose) DPT_TRY(print_choices(session));
    return options->measure > 0 ? measure(session, options) : DPT_OK;
}

int cli_plan(const cli_options *options)
{
    int usage = cli_recipe_check(options);
    if (usage == CLI_OK) usage = cli_config_save(CLI_PLAN, options);
    if (usage != CLI_OK) return usage;
    cli_session session;
    const dpt_status status = plan(&session, options);
    const int caught = cli_signals_caught();
    int code = CLI_OK;
    if (caught)
        code = cli_error(128 + caught, "ended early by signal %d", caught);
    else if (status != DPT_OK)
        code = cli_fail(session.context, status);
    return cli_session_close(&session, code);
}
