/* Several ways to do one operator: tiles, algorithms.  The fastest on this device, for this
   description and number of samples, is found by measurement and remembered (tuning.h). */
#ifndef DPT_COMMON_ALTERNATIVES_H
#define DPT_COMMON_ALTERNATIVES_H

#include "operators.h"

typedef struct dpt_alternative {
    const char *name;       /* static, without spaces: "registers-8x32"; the plan's algorithm */
    const void *parameters; /* what prepare needs to know: the tile; static */
    /* Its measured time counts that part longer, as 0.1: taken only where it wins clearly. */
    double handicap;
    /* Fills in op->plan, as dpt_op_prepare does.  DPT_E_UNSUPPORTED: not for this description or
       device.  Must be cheap up to there: programs are compiled only for what may be chosen. */
    dpt_status (*prepare)(dpt_op *op, const void *parameters);
} dpt_alternative;

/* A tensor of the operator: an axis of samples, or a fixed size.  Both 0: unused. */
typedef struct dpt_extent {
    size_t sample_bytes, fixed_bytes;
} dpt_extent;

typedef struct dpt_alternatives {
    const dpt_alternative *items; /* best guess first */
    size_t n_items;
    const char *key; /* all of the description that matters, without max_samples */
    double work;     /* operations a sample: too little is not worth measuring */
    dpt_extent in[DPT_MAX_INPUTS], out[DPT_MAX_OUTPUTS];
} dpt_alternatives;

/* Fills in op->plan with the best alternative, its algorithm with the alternative's name.

   An op that is prepared with an algorithm wanted gets that one, or DPT_E_UNSUPPORTED.  Otherwise
   considered is what suits the device (dpt_tuner); where nothing does, the first that applies is
   taken.  algorithm= of the device string, the beginning of a name, narrows it down to what begins
   like that where any of those applies; where none does, the first that applies is taken, and
   nothing measured.  algorithm=any measures nothing either: of those that apply it takes one that
   depends on the description and the number of samples alone, so that a test of many descriptions
   meets all of them.

   Where a measurement would be longer than the work is worth, the first that applies is taken.
   Scratch tensors of the measurement hold small finite numbers.  No more samples are timed than
   tell which is faster, and fewer still where the device has no room for them.
   DPT_E_UNSUPPORTED if none applies, with the last one's words. */
DPT_CHECK_RESULT dpt_status dpt_prepare_best(dpt_op *op, const dpt_alternatives *choice);

#endif
