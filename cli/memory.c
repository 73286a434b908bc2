/* Says before training which devices, of all processes, have too little memory for the data or for
   their shard, and what they do. */
#include "chosen.h"
#include "recipe.h"
#include "session.h"

#include <stdio.h>
#include <string.h>

static bool has_batch_norm(const dpt_model *model)
{
    dpt_layer_info layer = {.size = sizeof layer};
    for (size_t i = 0; i < dpt_model_layer_count(model); i++) {
        dpt_model_layer(model, i, &layer);
        if (strcmp(layer.kind, "batch_norm") == 0) return true;
    }
    return false;
}

static void print_device(const dpt_device_info *device)
{
    printf("%-10s%s", "memory", device->id);
    if (device->host) printf(" of process %zu", device->process);
}

static void print_streamed(const dpt_device_info *device)
{
    print_device(device);
    printf(": its memory does not hold the data; a step's samples are sent with the step\n");
}

static void print_passes(const dpt_device_info *device, const dpt_device_plan *plan)
{
    print_device(device);
    printf(": computes its shard of %zu samples %zu at a time\n", plan->samples, plan->micro_batch);
}

size_t cli_plan_bytes(const dpt_device_plan *plan)
{
    return plan->parameter_bytes + plan->optimizer_bytes + plan->activation_bytes +
           plan->step_bytes + plan->data_bytes + plan->copy_bytes;
}

dpt_status cli_sum_optimizer(dpt_trainer *trainer, size_t *out)
{
    size_t sum = 0;
    for (size_t i = 0; i < dpt_trainer_device_count(trainer); i++) {
        dpt_device_plan plan = {.size = sizeof plan};
        DPT_TRY(dpt_trainer_plan(trainer, i, &plan));
        sum += plan.optimizer_bytes;
    }
    *out = sum;
    return DPT_OK;
}

static double mebibytes(size_t bytes)
{
    return (double)bytes / (1024.0 * 1024.0);
}

/* Which part of the optimizer's state each device holds, if the state is in parts. */
static dpt_status print_parts(const cli_session *session)
{
    const size_t n = dpt_trainer_device_count(session->trainer);
    size_t sum;
    DPT_TRY(cli_sum_optimizer(session->trainer, &sum));
    const bool divided = dpt_trainer_sharded(session->trainer) != DPT_SHARD_NONE;
    for (size_t i = 0; divided && sum > 0 && i < n; i++) {
        dpt_device_info device = {.size = sizeof device};
        dpt_device_plan plan = {.size = sizeof plan};
        DPT_TRY(dpt_trainer_device(session->trainer, i, &device));
        DPT_TRY(dpt_trainer_plan(session->trainer, i, &plan));
        print_device(&device);
        printf(": holds %.1f of %.1f MiB of the optimizer's state\n",
               mebibytes(plan.optimizer_bytes), mebibytes(sum));
    }
    return DPT_OK;
}

dpt_status cli_print_memory(const cli_session *session, const cli_options *options)
{
    bool passes = false;
    DPT_TRY(cli_print_chosen(session, "memory    "));
    DPT_TRY(print_parts(session));
    dpt_dataset_info data = {.size = sizeof data};
    dpt_dataset_describe(session->train, &data);
    for (size_t i = 0; i < dpt_trainer_device_count(session->trainer); i++) {
        dpt_device_info device = {.size = sizeof device};
        dpt_device_plan plan = {.size = sizeof plan};
        DPT_TRY(dpt_trainer_device(session->trainer, i, &device));
        DPT_TRY(dpt_trainer_plan(session->trainer, i, &plan));
        if (plan.streamed && !data.read_as_needed) print_streamed(&device);
        if (plan.cached || plan.micro_batch >= plan.samples) continue;
        print_passes(&device, &plan);
        passes = true;
    }
    if (passes && has_batch_norm(session->model) &&
        cli_batch_norm(options) != DPT_BATCH_NORM_FROZEN)
        printf("%-10sbatch-norm takes its statistics over the samples that a device computes at a "
               "time\n",
               "");
    fflush(stdout);
    return DPT_OK;
}
