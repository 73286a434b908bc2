/* Making, keeping and forgetting the plans of a recipe. */
#include "dnn_plans.h"
#include "size.h"

#include <stdlib.h>

/* A plan may use this much workspace even if the plan for most_samples needs less.  With fewer
   samples cuDNN divides the sums of a tile, and such a division takes memory.  (Tests look at every
   byte of a workspace and set a lower value.) */
#ifndef DPT_CUDA_LEAST_WORKSPACE_BYTES
#define DPT_CUDA_LEAST_WORKSPACE_BYTES ((size_t)32 << 20)
#endif

enum { MOST_WORKSPACE_BYTES = 1 << 30 };

/* DPT_E_UNSUPPORTED if the recipe, which is one of many samples, is also one of few samples.  Most
   recipes are; none is timed twice. */
static dpt_status check_is_new(const dpt_cuda_plans *plans, dpt_cuda_algorithm algorithm)
{
    for (size_t rank = 0; algorithm.example != DPT_CUDA_FEW && rank < algorithm.n_few; rank++) {
        dpt_cuda_recipe *other = NULL;
        const dpt_cuda_algorithm before = {.example = DPT_CUDA_FEW, .rank = rank};
        const dpt_status status =
            dpt_cuda_recipe_create(plans->device, &plans->convolution, before, &other);
        if (status == DPT_E_UNSUPPORTED) return DPT_OK;
        DPT_TRY(status);
        const bool same = dpt_cuda_recipe_is(plans->recipe, other);
        dpt_cuda_recipe_destroy(other);
        if (same)
            return DPT_FAIL(&plans->device->error, DPT_E_UNSUPPORTED,
                            "cuDNN's algorithm %zu for %zu samples is its algorithm %zu for %d",
                            algorithm.rank, algorithm.example, rank, DPT_CUDA_FEW);
    }
    return DPT_OK;
}

dpt_status dpt_cuda_plans_open(dpt_device *device, const dpt_cuda_plans_request *request,
                               dpt_cuda_plans *out)
{
    const dpt_cuda_convolution *convolution = request->convolution;
    const dpt_cuda_algorithm algorithm = request->algorithm;
    const size_t n = request->most_samples > 0 ? request->most_samples : 1;
    *out = (dpt_cuda_plans){.device = device, .convolution = *convolution};
    DPT_TRY(dpt_cuda_recipe_create(device, convolution, algorithm, &out->recipe));
    DPT_TRY(check_is_new(out, algorithm));
    DPT_TRY(dpt_cuda_plan_create(device, &(dpt_cuda_plan_request){convolution, out->recipe, n},
                                 &out->kept[0]));
    out->workspace_bytes = out->kept[0].workspace_bytes;
    if (out->workspace_bytes > MOST_WORKSPACE_BYTES)
        return DPT_FAIL(&device->error, DPT_E_UNSUPPORTED,
                        "cuDNN wants %zu bytes of workspace for a convolution",
                        out->workspace_bytes);
    if (n > 1 && out->workspace_bytes < DPT_CUDA_LEAST_WORKSPACE_BYTES)
        out->workspace_bytes = DPT_CUDA_LEAST_WORKSPACE_BYTES;
    return DPT_OK;
}

void dpt_cuda_plans_close(dpt_cuda_plans *plans)
{
    for (size_t i = 0; i < DPT_CUDA_PLANS_KEPT; i++)
        dpt_cuda_plan_destroy(&plans->kept[i]);
    for (size_t i = 0; i < plans->n_recorded; i++)
        dpt_cuda_plan_destroy(&plans->recorded[i]);
    free(plans->recorded);
    dpt_cuda_recipe_destroy(plans->recipe);
    *plans = (dpt_cuda_plans){.device = NULL};
}

/* A plan without a descriptor means that cuDNN does not support the number of samples. */
static dpt_status make_plan(const dpt_cuda_plans *plans, size_t n_samples, dpt_cuda_plan *out)
{
    dpt_cuda_plan plan = {.n_samples = n_samples};
    const dpt_cuda_plan_request request = {&plans->convolution, plans->recipe, n_samples};
    const dpt_status status = dpt_cuda_plan_create(plans->device, &request, &plan);
    if (status != DPT_OK && status != DPT_E_UNSUPPORTED) return status;
    if (plan.descriptor && plan.workspace_bytes > plans->workspace_bytes) {
        dpt_cuda_plan_destroy(&plan);
        plan.n_samples = n_samples;
    }
    *out = plan;
    return DPT_OK;
}

/* Destroys the plan that was not used for the longest time, or moves it to plans->recorded if a
   recording uses it. */
static dpt_status make_room(dpt_cuda_plans *plans)
{
    dpt_cuda_plan *last = &plans->kept[DPT_CUDA_PLANS_KEPT - 1];
    if (!last->is_recorded) {
        dpt_cuda_plan_destroy(last);
        return DPT_OK;
    }
    dpt_cuda_plan *recorded = realloc(plans->recorded, (plans->n_recorded + 1) * sizeof *recorded);
    if (!recorded) return DPT_FAIL(&plans->device->error, DPT_E_NO_MEMORY, "no memory for a plan");
    recorded[plans->n_recorded++] = *last;
    plans->recorded = recorded;
    *last = (dpt_cuda_plan){.n_samples = 0};
    return DPT_OK;
}

static void move_to_front(dpt_cuda_plans *plans, size_t place)
{
    const dpt_cuda_plan used = plans->kept[place];
    for (size_t i = place; i > 0; i--)
        plans->kept[i] = plans->kept[i - 1];
    plans->kept[0] = used;
}

static dpt_status find(dpt_cuda_plans *plans, size_t n_samples, dpt_cuda_plan **out)
{
    size_t place = 0;
    for (size_t i = 0; i < plans->n_recorded; i++) {
        *out = &plans->recorded[i];
        if ((*out)->n_samples == n_samples) return DPT_OK;
    }
    while (place < DPT_CUDA_PLANS_KEPT && plans->kept[place].n_samples != n_samples)
        place++;
    if (place == DPT_CUDA_PLANS_KEPT) {
        dpt_cuda_plan made;
        place--;
        DPT_TRY(make_plan(plans, n_samples, &made));
        const dpt_status status = make_room(plans);
        if (status != DPT_OK) {
            dpt_cuda_plan_destroy(&made);
            return status;
        }
        plans->kept[place] = made;
    }
    move_to_front(plans, place);
    *out = &plans->kept[0];
    return DPT_OK;
}

dpt_status dpt_cuda_plans_find(dpt_cuda_plans *plans, dpt_stream *stream, size_t n_samples,
                               const dpt_cuda_plan **out)
{
    dpt_cuda_plan *plan;
    enum cudaStreamCaptureStatus capturing;
    DPT_TRY(find(plans, n_samples, &plan));
    DPT_CUDA_TRY(plans->device, cudaStreamIsCapturing(stream->queue, &capturing));
    if (capturing == cudaStreamCaptureStatusActive) plan->is_recorded = true;
    *out = plan->descriptor ? plan : NULL;
    return DPT_OK;
}
