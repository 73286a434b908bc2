/* Several ways to do one operator: tiles, algorithms.  The fastest on this device, for this
   description and number of samples, is found by measurement and remembered (tuning.h). */
#ifndef DPT_OPENCL_ALTERNATIVES_H
#define DPT_OPENCL_ALTERNATIVES_H

#include "operators.h"

typedef struct dpt_cl_alternative {
    const char *name;       /* static, without spaces: "registers-8x32"; the plan's algorithm */
    const void *parameters; /* what prepare needs to know: the tile; static */
    /* Fills in op->plan, as dpt_cl_prepare does.  DPT_E_UNSUPPORTED: not for this description or
       device.  Must be cheap up to there: programs are compiled only for what may be chosen. */
    dpt_status (*prepare)(dpt_op *op, const void *parameters);
} dpt_cl_alternative;

typedef struct dpt_cl_alternatives {
    const dpt_cl_alternative *items;
    size_t n_items;
    const char *key; /* all of the description that matters, without max_samples */
    double work;     /* operations a sample: too little is not worth measuring */
    size_t in_bytes[DPT_MAX_INPUTS], out_bytes[DPT_MAX_OUTPUTS]; /* with max_samples; 0: unused */
} dpt_cl_alternatives;

/* Fills in op->plan with the best alternative.  Where a whole measurement would be longer than the
   work is worth, the first that applies is taken: so they are listed best guess first.  Scratch
   tensors of the measurement hold small finite numbers; where the device has no room for them, a
   smaller number of samples is timed.  algorithm= of the device (device.h) names one that is taken
   wherever it applies.  DPT_E_UNSUPPORTED if none applies, with the last one's words. */
DPT_CHECK_RESULT dpt_status dpt_cl_prepare_best(dpt_op *op, const dpt_cl_alternatives *choice);

#endif
