/* The launch that the kernels of all optimizers share: their outputs, the gradient, the step block
   and the halt word, over a flat buffer of float32 elements. */
#ifndef DPT_COMMON_OPTIMIZER_H
#define DPT_COMMON_OPTIMIZER_H

#include "operators.h"

typedef struct dpt_optimizer {
    dpt_kernel *kernel;
    size_t count;     /* elements of the gradient and of each output */
    size_t n_outputs; /* the parameters, and the state that the optimizer keeps of them */
    bool by_quads;    /* the kernel takes four elements at a time (kernels/quad.h) */
} dpt_optimizer;

/* The two kernels of an optimizer. */
typedef struct dpt_optimizer_kernels {
    const char *file, *by_elements, *by_quads;
} dpt_optimizer_kernels;

/* Takes the kernel that fits the device and out->count, and names the algorithm in op->plan.  The
   caller has set out->count and out->n_outputs.  Fails as dpt_kernel_of does. */
DPT_CHECK_RESULT dpt_status dpt_optimizer_prepare(dpt_op *op, const dpt_optimizer_kernels *kernels,
                                                  dpt_optimizer *out);

/* Enqueues the update of a call, with the kernel's parameters: n_bytes at `params`.  A call of 0
   samples enqueues nothing. */
DPT_CHECK_RESULT dpt_status dpt_optimizer_run(const dpt_optimizer *optimizer, const dpt_call *call,
                                              const void *params, size_t n_bytes);

#endif
