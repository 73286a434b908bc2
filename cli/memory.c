/* What devices do whose memory is small: said before training starts. */
#include "session.h"

#include <stdio.h>
#include <string.h>

static bool has_batch_norm(const dpt_model *model)
{
    dpt_layer_info layer;
    for (size_t i = 0; i < dpt_model_layer_count(model); i++) {
        dpt_model_layer(model, i, &layer);
        if (strcmp(layer.kind, "batch_norm") == 0) return true;
    }
    return false;
}

static void print_streamed(const char *device)
{
    printf("%-10s%s: its memory does not hold the data; a step's samples are sent with the step\n",
           "memory", device);
}

static void print_passes(const char *device, const dpt_device_plan *plan)
{
    printf("%-10s%s: computes its share of %zu samples %zu at a time\n", "memory", device,
           plan->samples, plan->micro_batch);
}

dpt_status cli_print_memory(const cli_session *session)
{
    bool passes = false;
    for (size_t i = 0; i < dpt_devices_count(session->devices); i++) {
        dpt_device_description device;
        dpt_device_plan plan;
        dpt_device_describe(dpt_devices_get(session->devices, i), &device);
        DPT_TRY(dpt_trainer_plan(session->trainer, i, &plan));
        if (plan.streamed) print_streamed(device.id);
        if (plan.micro_batch >= plan.samples) continue;
        print_passes(device.id, &plan);
        passes = true;
    }
    if (passes && has_batch_norm(session->model))
        printf("%-10sbatch-norm takes its statistics of the samples that a device computes at a "
               "time\n",
               "");
    fflush(stdout);
    return DPT_OK;
}
