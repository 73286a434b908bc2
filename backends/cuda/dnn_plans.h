/* The plans of one recipe: one for each number of samples that occurs. */
#ifndef DPT_CUDA_DNN_PLANS_H
#define DPT_CUDA_DNN_PLANS_H

#include "dnn.h"

enum { DPT_CUDA_PLANS_KEPT = 8 };

typedef struct dpt_cuda_plans {
    dpt_device *device;
    dpt_cuda_convolution convolution; /* its description belongs to the operator */
    dpt_cuda_recipe *recipe;
    size_t workspace_bytes;                  /* the most that a plan may use */
    dpt_cuda_plan kept[DPT_CUDA_PLANS_KEPT]; /* the one that was used last comes first */
    dpt_cuda_plan *recorded;                 /* further plans, which recordings use */
    size_t n_recorded;
} dpt_cuda_plans;

/* What plans are opened for. */
typedef struct dpt_cuda_plans_request {
    const dpt_cuda_convolution *convolution;
    dpt_cuda_algorithm algorithm;
    size_t most_samples;
} dpt_cuda_plans_request;

/* Opens the recipe that `algorithm` names, with its plan for most_samples, which takes the most
   memory. DPT_E_UNSUPPORTED if there is no such recipe, if a recipe of DPT_CUDA_FEW is the same, or
   if the recipe does not support most_samples or needs too much memory.  The caller closes *out in
   any case. */
DPT_CHECK_RESULT dpt_status dpt_cuda_plans_open(dpt_device *device,
                                                const dpt_cuda_plans_request *request,
                                                dpt_cuda_plans *out);
void dpt_cuda_plans_close(dpt_cuda_plans *plans); /* accepts zeroed plans */

/* *out: the plan for n_samples (at least 1), valid until the next call.  NULL if the recipe does
   not support n_samples in that workspace.  If the stream is being recorded, the plan stays as long
   as the operator, because a recording is replayed without asking for its plan. */
DPT_CHECK_RESULT dpt_status dpt_cuda_plans_find(dpt_cuda_plans *plans, dpt_stream *stream,
                                                size_t n_samples, const dpt_cuda_plan **out);

#endif
