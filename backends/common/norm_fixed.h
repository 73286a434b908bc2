/* Launches of kernels/norm_fixed.cl: deterministic sums over the rows of all samples.  One launch
   leaves the sums of each sample in the workspace, and a second one adds them up. */
#ifndef DPT_COMMON_NORM_FIXED_H
#define DPT_COMMON_NORM_FIXED_H

#include "norm_fixed_params.h"
#include "operators.h"

/* The kernels of a kind of operator. */
typedef struct dpt_norm_fixed_kind {
    const char *samples, *all;
    unsigned n_in;      /* the inputs of the call, which `samples` takes */
    unsigned n_out;     /* the outputs of the call, which `all` writes */
    bool takes_moments; /* `all` takes the third input, too */
    bool adds_up;       /* `all` adds up grains; otherwise it writes a row for each */
} dpt_norm_fixed_kind;

typedef struct dpt_norm_fixed {
    dpt_kernel *samples, *all;
    const dpt_norm_fixed_kind *kind;
    norm_fixed_params params; /* complete except for what depends on a call */
} dpt_norm_fixed;

/* Fills in the plan of an operator whose out->kind, and rows, channels and masks of out->params,
   the caller has set.  *out is or is part of the plan's state.  The caller sets op->plan.run. Fails
   as dpt_kernel_get does. */
DPT_CHECK_RESULT dpt_status dpt_norm_fixed_prepare(dpt_op *op, dpt_norm_fixed *out);
DPT_CHECK_RESULT dpt_status dpt_norm_fixed_run(const dpt_norm_fixed *norm, const dpt_call *call);

#endif
