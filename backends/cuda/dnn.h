/* Convolutions by cuDNN 9, through its graph interface, which is opened when it is first wanted
   (library.h).  The older interface is deprecated, and does not say how its algorithms round. */
#ifndef DPT_CUDA_DNN_H
#define DPT_CUDA_DNN_H

#include "conv2d.h"
#include "state.h"

/* *out is NULL, and that is no failure, where the library is missing or does not work. */
DPT_CHECK_RESULT dpt_status dpt_cuda_dnn_open(dpt_device *device, dpt_cuda_dnn **out);
void dpt_cuda_dnn_close(dpt_cuda_dnn *dnn);                    /* accepts NULL */
const char *dpt_cuda_dnn_description(const dpt_cuda_dnn *dnn); /* "cuDNN 9.19.0" */

/* "cudnn-0", "cudnn-1", ...: what cuDNN's heuristics offer for a convolution of 128 samples, in
   their order, of those that are deterministic and round as the device's precision says; and
   "cudnn1024-0", ...: for 1024, for which their order is another, where none of the former is the
   same way. */
extern const dpt_alternative dpt_cuda_conv2d_dnn[];

/* ---- For conv2d_dnn*.c ----------------------------------------------------------------------- */

/* A pass as cuDNN is asked for it.  Its engines take and give one type: those that would store
   another than they read are compiled when they run, and so are those of an activation without a
   bias (tests/cuda/test_plans.c). */
typedef struct dpt_cuda_convolution {
    const dpt_op_desc *desc; /* the pass and its shape; what follows it is asked for here */
    dpt_dtype type;          /* of x, w, y, and bias: DPT_F32 or DPT_BF16, summed in float32 */
    bool has_bias, has_relu; /* forward: y = [max(0,] conv + bias [)], rounded once; no ReLU without
                                a bias */
} dpt_cuda_convolution;

/* One way of cuDNN's to do a pass, whatever the number of samples. */
typedef struct dpt_cuda_recipe dpt_cuda_recipe;

/* Which of them: the rank-th that heuristics name for an example's number of samples, where those
   that they name again do not count. */
typedef struct dpt_cuda_algorithm {
    size_t example, rank;
    size_t
        n_few; /* for dpt_cuda_plans_open: ways for DPT_CUDA_FEW that are offered by themselves */
} dpt_cuda_algorithm;

enum {
    DPT_CUDA_FEW = 128,        /* the first example, */
    DPT_CUDA_MANY = 1024,      /* and the second */
    DPT_CUDA_N_ALGORITHMS = 8, /* of an example that are alternatives */
};

/* DPT_E_UNSUPPORTED if there are not so many.  Heuristics are asked once for a convolution and an
   example: the last lists of theirs are kept with the device. */
DPT_CHECK_RESULT dpt_status dpt_cuda_recipe_create(dpt_device *device,
                                                   const dpt_cuda_convolution *convolution,
                                                   dpt_cuda_algorithm way, dpt_cuda_recipe **out);
void dpt_cuda_recipe_destroy(dpt_cuda_recipe *recipe); /* accepts NULL */
/* Whether a and b are one way. */
bool dpt_cuda_recipe_is(const dpt_cuda_recipe *a, const dpt_cuda_recipe *b);

/* A recipe for a number of samples. */
typedef struct dpt_cuda_plan {
    size_t n_samples; /* 0: unused */
    void *descriptor; /* cuDNN's */
    size_t workspace_bytes;
    bool has_bias;
    bool is_recorded; /* a recording needs it: it stays as long as the operator */
} dpt_cuda_plan;

/* DPT_E_UNSUPPORTED if the recipe does not do so many samples. */
DPT_CHECK_RESULT dpt_status dpt_cuda_plan_create(dpt_device *device,
                                                 const dpt_cuda_convolution *convolution,
                                                 const dpt_cuda_recipe *recipe, size_t n_samples,
                                                 dpt_cuda_plan *out);
void dpt_cuda_plan_destroy(dpt_cuda_plan *plan); /* of an unused one as well */

/* x, w and y (or their gradients) of the pass, and a bias if it has one, in device memory. */
typedef struct dpt_cuda_plan_tensors {
    void *x, *w, *y, *bias, *workspace;
} dpt_cuda_plan_tensors;

DPT_CHECK_RESULT dpt_status dpt_cuda_plan_run(const dpt_cuda_plan *plan, dpt_stream *stream,
                                              const dpt_cuda_plan_tensors *tensors);

#endif
