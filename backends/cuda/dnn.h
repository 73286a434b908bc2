/* Convolutions by cuDNN 9, through its graph interface.  The library is opened with the first
   device (library.h).  cuDNN's older interface is deprecated and does not say how its algorithms
   round. */
#ifndef DPT_CUDA_DNN_H
#define DPT_CUDA_DNN_H

#include "conv2d.h"
#include "state.h"

/* *out stays NULL, and the call succeeds, if the library is missing or does not work.
   DPT_E_NO_MEMORY, DPT_E_DEVICE_LOST. */
DPT_CHECK_RESULT dpt_status dpt_cuda_dnn_open(dpt_device *device, dpt_cuda_dnn **out);
void dpt_cuda_dnn_close(dpt_cuda_dnn *dnn); /* accepts NULL */
/* "cuDNN 9.19.0"; of NULL, why there is none. */
const char *dpt_cuda_dnn_description(const dpt_cuda_dnn *dnn);

/* The alternatives "cudnn-0", "cudnn-1", ... are the algorithms that cuDNN's heuristics offer for a
   convolution of 128 samples, in their order.  Only algorithms that are deterministic and round as
   the device's precision says count.  "cudnn1024-0", ... are those for 1024 samples, for which the
   order is another; an algorithm that is already among the former is left out. */
extern const dpt_alternative dpt_cuda_conv2d_dnn[];

/* ---- For conv2d_dnn*.c ----------------------------------------------------------------------- */

/* A pass of a convolution, as cuDNN is asked for it.  All tensors have one type.  cuDNN compiles
   engines at run time that store another type than they read, or that apply an activation without a
   bias (tests/cuda/test_plans.c); such engines are refused. */
typedef struct dpt_cuda_convolution {
    const dpt_op_desc *desc; /* the pass and its shape; bias and activation are not taken from it */
    dpt_dtype type;          /* of x, w, y and bias: DPT_F32 or DPT_BF16; sums are float32 */
    bool has_bias, has_relu; /* forward: y = [max(0,] conv + bias [)], rounded once; no ReLU without
                                a bias */
} dpt_cuda_convolution;

/* An algorithm of cuDNN for a pass: an engine with its knobs, for any number of samples. */
typedef struct dpt_cuda_recipe dpt_cuda_recipe;

/* Names a recipe: the rank-th different one that heuristics offer for an example's number of
   samples. */
typedef struct dpt_cuda_algorithm {
    size_t example, rank;
    /* For dpt_cuda_plans_open: how many recipes for DPT_CUDA_FEW are alternatives themselves. */
    size_t n_few;
} dpt_cuda_algorithm;

enum {
    DPT_CUDA_FEW = 128,        /* samples of the first example */
    DPT_CUDA_MANY = 1024,      /* samples of the second example */
    DPT_CUDA_N_ALGORITHMS = 8, /* alternatives of an example */
};

/* DPT_E_UNSUPPORTED if heuristics offer fewer recipes.  Heuristics are asked once for a convolution
   and an example: their last lists are kept with the device. */
DPT_CHECK_RESULT dpt_status dpt_cuda_recipe_create(dpt_device *device,
                                                   const dpt_cuda_convolution *convolution,
                                                   dpt_cuda_algorithm algorithm,
                                                   dpt_cuda_recipe **out);
void dpt_cuda_recipe_destroy(dpt_cuda_recipe *recipe); /* accepts NULL */
/* Whether a and b are the same engine with the same knobs. */
bool dpt_cuda_recipe_is(const dpt_cuda_recipe *a, const dpt_cuda_recipe *b);

/* A recipe's execution plan for one number of samples. */
typedef struct dpt_cuda_plan {
    size_t n_samples; /* 0: unused */
    void *descriptor; /* cuDNN's; NULL: the recipe does not support n_samples */
    size_t workspace_bytes;
    bool has_bias;
    bool is_recorded; /* a recording uses the plan, which stays as long as the operator */
} dpt_cuda_plan;

/* What a plan is made for. */
typedef struct dpt_cuda_plan_request {
    const dpt_cuda_convolution *convolution;
    const dpt_cuda_recipe *recipe;
    size_t n_samples;
} dpt_cuda_plan_request;

/* DPT_E_UNSUPPORTED if the recipe does not support this number of samples. */
DPT_CHECK_RESULT dpt_status dpt_cuda_plan_create(dpt_device *device,
                                                 const dpt_cuda_plan_request *request,
                                                 dpt_cuda_plan *out);
void dpt_cuda_plan_destroy(dpt_cuda_plan *plan); /* accepts an unused plan */

/* Device addresses: x, w and y of the pass, or their gradients, and the bias if there is one. */
typedef struct dpt_cuda_plan_tensors {
    void *x, *w, *y, *bias, *workspace;
} dpt_cuda_plan_tensors;

/* Enqueues the plan.  DPT_E_UNSUPPORTED, with nothing done, if the engine refuses to run. */
DPT_CHECK_RESULT dpt_status dpt_cuda_plan_run(const dpt_cuda_plan *plan, dpt_stream *stream,
                                              const dpt_cuda_plan_tensors *tensors);

#endif
