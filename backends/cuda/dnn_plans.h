/* The plans of one of cuDNN's ways to do a pass: one for each number of samples that comes. */
#ifndef DPT_CUDA_DNN_PLANS_H
#define DPT_CUDA_DNN_PLANS_H

#include "dnn.h"

enum { DPT_CUDA_PLANS_KEPT = 8 };

typedef struct dpt_cuda_plans {
    dpt_device *device;
    dpt_cuda_convolution convolution; /* whose description the operator keeps */
    dpt_cuda_recipe *recipe;
    size_t workspace_bytes;                  /* that a plan may use */
    dpt_cuda_plan kept[DPT_CUDA_PLANS_KEPT]; /* the last ones used first; n_samples 0: none */
    dpt_cuda_plan *recorded;                 /* others that recordings need */
    size_t n_recorded;
} dpt_cuda_plans;

/* The rank-th way, with its plan for most_samples, which says whether this can be done at all and
   takes the most memory.  DPT_E_UNSUPPORTED if there are not so many ways, one of DPT_CUDA_FEW is
   the same, or it does not do that many samples or wants too much memory.  *out, zeroed before, is
   closed in any case. */
DPT_CHECK_RESULT dpt_status dpt_cuda_plans_open(dpt_device *device,
                                                const dpt_cuda_convolution *convolution,
                                                dpt_cuda_algorithm way, size_t most_samples,
                                                dpt_cuda_plans *out);
void dpt_cuda_plans_close(dpt_cuda_plans *plans); /* zeroed ones too */

/* The plan for n_samples (at least 1) on a stream, valid until the next call; NULL where cuDNN does
   not do so many in that workspace.  It stays for good if the stream is being recorded: who replays
   a recording does not ask for its plan. */
DPT_CHECK_RESULT dpt_status dpt_cuda_plans_find(dpt_cuda_plans *plans, dpt_stream *stream,
                                                size_t n_samples, const dpt_cuda_plan **out);

#endif
